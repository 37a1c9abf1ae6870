//! A client that sends exactly the bytes it is told to, and patience with a limit. The command line's tests use it too.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A request as anybody would send it.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: rmax.to\r\n\r\n")
}

/// Sends bytes and reads until the server closes.
pub(crate) fn send_request(address: SocketAddr, request: &[u8]) -> Response {
    let mut socket = TcpStream::connect(address).expect("the server accepts");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    // A server that has seen enough closes before everything is sent; what it answered counts.
    let _ = socket.write_all(request);
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    while let Ok(count @ 1..) = socket.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..count]);
    }
    let _ = socket.shutdown(Shutdown::Both);
    Response::parse(&bytes)
}

#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1))
            .and_then(|code| code.parse().ok())
            .unwrap_or(0);
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
        Self { status, headers: headers.collect(), body: body.to_owned() }
    }

    pub(crate) fn location(&self) -> Option<&str> {
        self.header("location").first().copied()
    }

    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// Waits for a condition; what takes ten seconds will not happen.
#[track_caller]
pub(crate) fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(becomes_true_within(10_000, condition), "waited in vain until {what}");
}

/// Waits for a condition, so long at most; whether it came.
pub(crate) fn becomes_true_within(timeout_ms: u64, mut condition: impl FnMut() -> bool) -> bool {
    // Pauses are counted rather than time: on a busy machine a look may take longer than what it looks for.
    for _ in 0..timeout_ms / 10 {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    condition()
}

/// A connection on which several answers come.
pub(crate) struct RawConnection {
    pub(crate) socket: TcpStream,
    read: Vec<u8>,
}

impl RawConnection {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self::from_socket(TcpStream::connect(address).expect("the server accepts"))
    }

    pub(crate) fn from_socket(socket: TcpStream) -> Self {
        socket.set_nodelay(true).expect("an option");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        Self { socket, read: Vec::new() }
    }

    /// Sends bytes. A server that has seen enough may have closed already.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.socket.write_all(bytes.as_ref());
    }

    /// The next answer to a GET; nothing when the server has closed.
    pub(crate) fn next_response(&mut self) -> Option<Response> {
        self.next(|head| {
            head.header("content-length").first().map_or(0, |length| length.parse().unwrap_or(0))
        })
    }

    /// The next answer to a HEAD, which has no body whatever its headers say.
    pub(crate) fn next_head_response(&mut self) -> Option<Response> {
        self.next(|_| 0)
    }

    fn next(&mut self, body_length: impl FnOnce(&Response) -> usize) -> Option<Response> {
        let head = loop {
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.fill()?;
        };
        let length = head + body_length(&Response::parse(&self.read[..head]));
        while self.read.len() < length {
            self.fill()?;
        }
        let answer = Response::parse(&self.read[..length]);
        self.read.drain(..length);
        Some(answer)
    }

    fn fill(&mut self) -> Option<()> {
        let mut chunk = [0; 16 * 1024];
        match self.socket.read(&mut chunk) {
            Ok(count @ 1..) => {
                self.read.extend_from_slice(&chunk[..count]);
                Some(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                panic!("the server neither answers nor closes")
            }
            Ok(0) | Err(_) => None,
        }
    }

    /// Every answer until the server closes.
    pub(crate) fn remaining_responses(mut self) -> Vec<Response> {
        std::iter::from_fn(|| self.next_response()).collect()
    }
}
