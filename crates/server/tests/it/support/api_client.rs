//! A plain HTTP/1.1 client that knows what every answer of the API owes its caller.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::support::raw_client::Response;

/// Somebody who calls, with a credential or without.
#[derive(Clone, Debug)]
pub(crate) struct ApiClient {
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<String>,
}

/// A request about to be sent.
#[must_use]
pub(crate) struct ApiRequest {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(crate) struct ApiResponse {
    pub(crate) what: String,
    pub(crate) answer: Response,
}

impl ApiClient {
    pub(crate) fn anonymous(address: SocketAddr) -> Self {
        Self { address, key: None }
    }

    /// A request to a path below `/api/v1`, or a whole one.
    pub(crate) fn request(&self, method: &str, path: &str) -> ApiRequest {
        let path = if path.starts_with("/api") { path.to_owned() } else { format!("/api/v1{path}") };
        let key = self.key.iter().map(|key| ("Authorization".to_owned(), format!("Bearer {key}")));
        let (method, headers) = (method.to_owned(), key.collect());
        ApiRequest { address: self.address, method, path, headers, body: None }
    }

    pub(crate) fn get(&self, path: &str) -> ApiResponse {
        self.request("GET", path).send()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> ApiResponse {
        self.request("POST", path).json(body).send()
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> ApiResponse {
        self.request("PATCH", path).json(body).send()
    }

    pub(crate) fn delete(&self, path: &str) -> ApiResponse {
        self.request("DELETE", path).send()
    }
}

impl ApiRequest {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string().into_bytes())
    }

    pub(crate) fn body(mut self, kind: &str, body: Vec<u8>) -> Self {
        self.body = Some(body);
        self.header("Content-Type", kind)
    }

    /// The bytes of it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut head =
            format!("{} {} HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if let Some(body) = &self.body {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }

    /// Sends it and reads the answer; of a stream of events only its head.
    #[track_caller]
    pub(crate) fn send(self) -> ApiResponse {
        let reply = self.send_unchecked();
        if self.path.starts_with("/api") {
            check(&reply);
        }
        reply
    }

    /// The same for what need not be an answer of the API.
    #[track_caller]
    pub(crate) fn send_unchecked(&self) -> ApiResponse {
        let mut socket = TcpStream::connect(self.address).expect("the server accepts");
        socket.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
        // A server that has seen enough closes before everything is sent; what it answered counts.
        let _ = socket.write_all(&self.bytes());
        let mut bytes = Vec::new();
        let mut chunk = [0; 16 * 1024];
        while let Ok(count @ 1..) = socket.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..count]);
            let head = Response::parse(&bytes);
            if head.header("content-type").contains(&"text/event-stream")
                && bytes.windows(4).any(|four| four == b"\r\n\r\n")
            {
                break;
            }
        }
        ApiResponse { what: format!("{} {}", self.method, self.path), answer: Response::parse(&bytes) }
    }
}

/// What every answer of the API says.
#[track_caller]
fn check(reply: &ApiResponse) {
    let said = |name: &str| reply.answer.header(name);
    assert_eq!(said("x-request-id").len(), 1, "{reply:?}");
    assert_eq!(said("x-content-type-options"), ["nosniff"], "{reply:?}");
    assert_eq!(said("cache-control"), ["no-store"], "{reply:?}");
    if reply.status() < 400 {
        return;
    }
    assert_eq!(said("content-type"), ["application/json"], "{reply:?}");
    if reply.what.starts_with("HEAD") {
        return;
    }
    let body = reply.json();
    let error = body["error"].as_object().unwrap_or_else(|| panic!("no envelope: {reply:?}"));
    let keys: Vec<_> = error.keys().map(String::as_str).collect();
    assert_eq!(keys, ["code", "details", "message", "status", "ts"], "{reply:?}");
    assert_eq!(error["status"], reply.status(), "{reply:?}");
    assert!(error["code"].as_str().is_some_and(|code| !code.is_empty()), "{reply:?}");
    assert!(error["message"].as_str().is_some_and(|words| !words.is_empty()), "{reply:?}");
    match reply.status() {
        401 => assert_eq!(said("www-authenticate"), ["Bearer"], "{reply:?}"),
        405 => assert_eq!(said("allow").len(), 1, "{reply:?}"),
        429 | 503 => assert_eq!(said("retry-after").len(), 1, "{reply:?}"),
        _ => {}
    }
}

impl ApiResponse {
    pub(crate) fn status(&self) -> u16 {
        self.answer.status
    }

    /// Itself, if it has this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status(), status, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.answer.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The details of the error it must be.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status(), status, "{self:?}");
        let body = self.json();
        assert_eq!(body["error"]["code"], code, "{self:?}");
        body["error"]["details"].clone()
    }

    /// The fields it must complain about, as `name: code`.
    #[track_caller]
    pub(crate) fn fields(&self) -> Vec<String> {
        let details = self.refused(400, "VALIDATION_FAILED");
        let fields = details["fields"].as_array().unwrap_or_else(|| panic!("no fields: {self:?}"));
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        fields.iter().map(|field| format!("{}: {}", text(&field["field"]), text(&field["code"]))).collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.answer.header(name).first().copied()
    }
}

/// Asks the same from many threads at once, and gives what each got.
pub(crate) fn at_once(count: usize, ask: impl Fn(usize) -> ApiResponse + Sync) -> Vec<ApiResponse> {
    let gate = std::sync::Barrier::new(count);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let (gate, ask) = (&gate, &ask);
                scope.spawn(move || {
                    gate.wait();
                    ask(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A listener to `/stats/live`.
pub(crate) struct EventStream(BufReader<TcpStream>);

impl EventStream {
    pub(crate) fn new(caller: &ApiClient) -> Self {
        let asked = caller.request("GET", "/stats/live");
        let mut socket = TcpStream::connect(caller.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(&asked.bytes()).unwrap();
        let mut listener = Self(BufReader::new(socket));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head.push_str(&listener.line().expect("a head"));
        }
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
        listener
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        (self.0.read_line(&mut line).expect("something within the time") > 0).then_some(line)
    }

    /// The data of the next `event: click`; nothing when the stream ends.
    pub(crate) fn click(&mut self) -> Option<Value> {
        let mut is_click = false;
        loop {
            let line = self.line()?;
            is_click |= line.starts_with("event: click");
            if let Some(data) = line.strip_prefix("data: ").filter(|_| is_click) {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}

pub(crate) fn import_links(
    caller: &ApiClient,
    query: &str,
    kind: &str,
    file: impl Into<Vec<u8>>,
) -> ApiResponse {
    caller.request("POST", &format!("/api/v1/import{query}")).body(kind, file.into()).send()
}
