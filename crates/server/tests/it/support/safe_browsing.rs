//! Somebody who answers like Google Safe Browsing, version 5, and can be told to answer otherwise.
//!
//! What it sends is put together byte by byte here, from Google's description of the messages, so that a wrong number in the client is
//! not matched by the same wrong number in its counterpart.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use rlinks_ops::safety::safe_browsing;
use sha2::{Digest as _, Sha256};

pub(crate) const MALWARE: u64 = 1;
pub(crate) const SOCIAL_ENGINEERING: u64 = 2;
pub(crate) const KEY: &str = "AIza-canary-key-of-the-test";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StubBehavior {
    #[default]
    Well,
    Status(u16),
    Silent,
    /// With bytes that are no message.
    Garbage,
    /// With a message that has no end.
    Endless,
    /// With another address, which is its own.
    Elsewhere,
    /// Half of an answer.
    Torn,
}

/// A text it has on a list, what for, and with which limits.
struct ListedThreat {
    hash: [u8; 32],
    threats: Vec<(u64, Vec<u64>)>,
}

#[derive(Default)]
struct StubState {
    listed: Vec<ListedThreat>,
    manner: StubBehavior,
    cache_seconds: u64,
    /// The prefixes of each question.
    questions: Vec<Vec<Vec<u8>>>,
    heads: Vec<String>,
}

pub(crate) struct StubSafeBrowsing {
    address: SocketAddr,
    script: Arc<Mutex<StubState>>,
    followed: Arc<AtomicUsize>,
}

impl StubSafeBrowsing {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(StubState { cache_seconds: 300, ..StubState::default() }));
        let followed = Arc::new(AtomicUsize::new(0));
        let (shared, count) = (Arc::clone(&script), Arc::clone(&followed));
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let (script, followed) = (Arc::clone(&shared), Arc::clone(&count));
                std::thread::spawn(move || answer(socket, address, &script, &followed));
            }
        });
        Self { address, script, followed }
    }

    pub(crate) fn options(&self) -> safe_browsing::SafeBrowsingConfig {
        let url = format!("http://{}/", self.address).parse().unwrap();
        safe_browsing::SafeBrowsingConfig { key: KEY.to_owned(), url }
    }

    /// Puts a text on a list.
    pub(crate) fn list(&self, expression: &str, threat: u64) {
        self.list_with(expression, vec![(threat, Vec::new())]);
    }

    pub(crate) fn list_with(&self, expression: &str, threats: Vec<(u64, Vec<u64>)>) {
        let hash = Sha256::digest(expression.as_bytes()).into();
        self.script.lock().listed.push(ListedThreat { hash, threats });
    }

    pub(crate) fn clear(&self) {
        self.script.lock().listed.clear();
    }

    pub(crate) fn answer(&self, manner: StubBehavior) {
        self.script.lock().manner = manner;
    }

    pub(crate) fn keep_for(&self, seconds: u64) {
        self.script.lock().cache_seconds = seconds;
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.script.lock().questions.len()
    }

    pub(crate) fn questions(&self) -> Vec<Vec<Vec<u8>>> {
        self.script.lock().questions.clone()
    }

    /// The heads of the requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.script.lock().heads.clone()
    }

    /// How often somebody went where it pointed.
    pub(crate) fn followed(&self) -> usize {
        self.followed.load(Ordering::SeqCst)
    }
}

fn answer(mut socket: TcpStream, address: SocketAddr, script: &Mutex<StubState>, followed: &AtomicUsize) {
    let Some(head) = head(&mut socket) else { return };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    if path.starts_with("/elsewhere") {
        followed.fetch_add(1, Ordering::SeqCst);
        return;
    }
    assert!(path.starts_with("/v5/hashes:search?"), "{path}");
    let prefixes: Vec<Vec<u8>> = path
        .split(['?', '&'])
        .filter_map(|pair| pair.strip_prefix("hashPrefixes="))
        .map(|text| URL_SAFE_NO_PAD.decode(text).unwrap())
        .collect();
    let (manner, body) = {
        let mut script = script.lock();
        script.questions.push(prefixes.clone());
        script.heads.push(head);
        (script.manner, message(&script, &prefixes))
    };
    let send = |socket: &mut TcpStream, status: &str, more: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\n{more}Connection: close\r\n\r\n",
            body.len()
        );
        let _ = socket.write_all(head.as_bytes());
        let _ = socket.write_all(body);
    };
    match manner {
        StubBehavior::Well => send(&mut socket, "200 OK", "", &body),
        StubBehavior::Status(status) => send(&mut socket, &format!("{status} No"), "", b"{}"),
        StubBehavior::Garbage => send(&mut socket, "200 OK", "", b"<html>sign in to this network</html>"),
        StubBehavior::Elsewhere => {
            let place = format!("Location: http://{address}/elsewhere\r\n");
            send(&mut socket, "302 Found", &place, b"");
        }
        StubBehavior::Torn => {
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n\x0a");
        }
        // Until the other side has enough.
        StubBehavior::Silent => drop(socket.read(&mut [0])),
        StubBehavior::Endless => {
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while socket.write_all(&[0x0a; 16 * 1024]).is_ok() {}
        }
    }
}

fn head(socket: &mut TcpStream) -> Option<String> {
    socket.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 16 * 1024]);
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        match socket.read(&mut chunk) {
            Ok(count @ 1..) => bytes.extend_from_slice(&chunk[..count]),
            _ => return None,
        }
    }
    String::from_utf8(bytes).ok()
}

/// `SearchHashesResponse { repeated FullHash full_hashes = 1; Duration cache_duration = 2; }`
fn message(script: &StubState, prefixes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for listed in script.listed.iter().filter(|it| prefixes.iter().any(|prefix| it.hash.starts_with(prefix)))
    {
        // `FullHash { bytes full_hash = 1; repeated FullHashDetail full_hash_details = 2; }`
        let mut full = Vec::new();
        delimited(&mut full, 1, &listed.hash);
        for (threat, attributes) in &listed.threats {
            // `FullHashDetail { ThreatType threat_type = 1; repeated ThreatAttribute attributes = 2; }`
            let mut detail = Vec::new();
            number(&mut detail, 1, *threat);
            if !attributes.is_empty() {
                let mut packed = Vec::new();
                for attribute in attributes {
                    varint(&mut packed, *attribute);
                }
                delimited(&mut detail, 2, &packed);
            }
            delimited(&mut full, 2, &detail);
        }
        delimited(&mut bytes, 1, &full);
    }
    if script.cache_seconds > 0 {
        let mut duration = Vec::new();
        number(&mut duration, 1, script.cache_seconds);
        delimited(&mut bytes, 2, &duration);
    }
    bytes
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
}

fn number(bytes: &mut Vec<u8>, field: u64, value: u64) {
    varint(bytes, field << 3);
    varint(bytes, value);
}

fn delimited(bytes: &mut Vec<u8>, field: u64, content: &[u8]) {
    varint(bytes, field << 3 | 2);
    varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}
