//! The part of Cloudflare's API that `publish`, `links get` and `import-hits` use, over two maps in memory.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

pub(crate) const ROUTES: &str = "11111111111111111111111111111111";
pub(crate) const HITS: &str = "22222222222222222222222222222222";

#[derive(Default)]
struct Namespaces {
    values: BTreeMap<(String, String), String>,
    asked: usize,
}

/// A stand-in of its own for a test. Its thread ends with the process.
pub(crate) struct StubKeyValueApi {
    pub(crate) base: String,
    spaces: Arc<Mutex<Namespaces>>,
}

impl StubKeyValueApi {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/client/v4", listener.local_addr().unwrap());
        let spaces = Arc::new(Mutex::new(Namespaces::default()));
        let shared = Arc::clone(&spaces);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                answer(stream, &shared);
            }
        });
        Self { base, spaces }
    }

    /// A namespace holds this object's fields and nothing else.
    pub(crate) fn fill(&self, space: &str, values: &Value) {
        let mut spaces = self.spaces.lock().unwrap();
        spaces.values.retain(|(known, _), _| known != space);
        for (key, value) in values.as_object().unwrap() {
            spaces.values.insert((space.to_owned(), key.clone()), value.as_str().unwrap().to_owned());
        }
    }

    /// Everything a namespace holds.
    pub(crate) fn all(&self, space: &str) -> Value {
        let spaces = self.spaces.lock().unwrap();
        let of_space = spaces.values.iter().filter(|((known, _), _)| known == space);
        of_space
            .map(|((_, key), value)| (key.clone(), Value::from(value.as_str())))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    /// How many requests came.
    pub(crate) fn asked(&self) -> usize {
        self.spaces.lock().unwrap().asked
    }
}

fn answer(stream: TcpStream, spaces: &Mutex<Namespaces>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap() <= 2 {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut words = line.split(' ');
    let (method, url) = (words.next().unwrap(), words.next().unwrap().replace("%3A", ":"));
    let (status, text) = operate(&mut spaces.lock().unwrap(), method, &url, &body);
    let head = format!(
        "HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    reader.get_mut().write_all(&[head.as_bytes(), text.as_bytes()].concat()).unwrap();
}

fn operate(spaces: &mut Namespaces, method: &str, url: &str, body: &[u8]) -> (u16, String) {
    spaces.asked += 1;
    let (_, rest) = url.split_once("/storage/kv/namespaces/").unwrap();
    let (space, operation) = rest.split_once('/').unwrap();
    let (operation, query) = operation.split_once('?').unwrap_or((operation, ""));
    let keyed = |key: &str| (space.to_owned(), key.to_owned());
    let sent = || serde_json::from_slice::<Value>(body).unwrap();
    let done = |result: &Value| {
        let info = json!({ "cursor": "" });
        json!({ "success": true, "errors": [], "messages": [], "result": result, "result_info": info })
            .to_string()
    };
    let all_taken = json!({ "successful_key_count": 1, "unsuccessful_keys": [] });
    match (method, operation) {
        ("GET", "keys") => {
            let prefix = query.split('&').find_map(|part| part.strip_prefix("prefix=")).unwrap_or_default();
            let keys = spaces.values.keys().filter(|(known, key)| known == space && key.starts_with(prefix));
            (200, done(&keys.map(|(_, key)| json!({ "name": key })).collect()))
        }
        ("POST", "bulk/get") => {
            let keys = sent()["keys"].as_array().unwrap().clone();
            let value = |key: &Value| spaces.values.get(&keyed(key.as_str().unwrap())).cloned();
            let found: serde_json::Map<String, Value> =
                keys.iter().map(|key| (key.as_str().unwrap().to_owned(), value(key).into())).collect();
            (200, done(&json!({ "values": found })))
        }
        ("PUT", "bulk") => {
            for pair in sent().as_array().unwrap() {
                let value = pair["value"].as_str().unwrap().to_owned();
                spaces.values.insert(keyed(pair["key"].as_str().unwrap()), value);
            }
            (200, done(&all_taken))
        }
        ("POST", "bulk/delete") => {
            for key in sent().as_array().unwrap() {
                spaces.values.remove(&keyed(key.as_str().unwrap()));
            }
            (200, done(&all_taken))
        }
        ("GET", value) => match value.strip_prefix("values/").and_then(|key| spaces.values.get(&keyed(key))) {
            Some(value) => (200, value.clone()),
            None => (404, json!({ "success": false, "errors": [{ "code": 10009, "message": "key not found" }], "messages": [], "result": null }).to_string()),
        },
        other => panic!("nobody expected {other:?}"),
    }
}
