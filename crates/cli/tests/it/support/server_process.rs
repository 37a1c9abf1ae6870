//! A real `rmax serve`, its log and its end.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::raw_client::{Response, becomes_true_within, send_request, wait_until};
use crate::support::sandbox::Sandbox;

/// A running server. Dropping it kills it.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<String>>,
    /// Ends with the log.
    log_reader: Option<JoinHandle<()>>,
}

/// Starts `rmax serve` on a port of its own and waits until it says where.
#[track_caller]
pub(crate) fn serve(sandbox: &Sandbox, flags: &str) -> ServerProcess {
    let mut process = start(sandbox, &format!("serve --listen 127.0.0.1:0 {flags}"));
    process.wait_for_address();
    process
}

impl ServerProcess {
    /// Waits until it says where it serves.
    #[track_caller]
    pub(crate) fn wait_for_address(&mut self) {
        wait_until("the server says where it serves", || {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended: {}", self.log());
            self.says("serving redirects on")
        });
        self.address = address_in(&self.log(), "serving redirects on").unwrap();
    }
}

/// Starts a server that may have nowhere to serve.
pub(crate) fn start(sandbox: &Sandbox, line: &str) -> ServerProcess {
    run(sandbox.command(line))
}

/// Starts a server by a command of the test's own.
#[track_caller]
pub(crate) fn run(mut command: Command) -> ServerProcess {
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{} is needed: {error}", command.get_program().display()));
    let log = Arc::new(Mutex::new(String::new()));
    let (lines, into) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&log));
    let log_reader = std::thread::spawn(move || {
        for line in lines.split(b'\n').map_while(Result::ok) {
            let mut log = into.lock().unwrap();
            log.push_str(&String::from_utf8_lossy(&line));
            log.push('\n');
        }
    });
    ServerProcess { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), log, log_reader: Some(log_reader) }
}

/// The address after some words of a log.
pub(crate) fn address_in(log: &str, words: &str) -> Option<SocketAddr> {
    let (_, after) = log.split_once(words)?;
    let (_, after) = after.split_once("://")?;
    let end = after.find(|letter: char| !letter.is_ascii_digit() && !".:".contains(letter));
    after[..end.unwrap_or(after.len())].parse().ok()
}

impl ServerProcess {
    pub(crate) fn get(&self, path: &str) -> Response {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: rmax.to\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
        );
        send_request(self.address, request.as_bytes())
    }

    pub(crate) fn status(&self, path: &str) -> u16 {
        self.get(path).status
    }

    /// Everything it has said so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn says(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end, so long at most.
    #[track_caller]
    pub(crate) fn ends_within(&mut self, timeout_ms: u64) -> ExitStatus {
        assert!(
            becomes_true_within(timeout_ms, || self.has_ended()),
            "still running after {timeout_ms} ms:\n{}",
            self.log()
        );
        let status = self.child.wait().unwrap();
        if let Some(reader) = self.log_reader.take() {
            reader.join().unwrap();
        }
        status
    }

    /// SIGTERM, and the end that belongs to it.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.ends_within(10_000).code(), Some(0), "{}", self.log());
    }

    /// Whether nobody listens any more.
    pub(crate) fn is_closed(&self) -> bool {
        TcpStream::connect(self.address).is_err()
    }

    /// The memory it has.
    pub(crate) fn resident_bytes(&self) -> usize {
        let path = format!("/proc/{}/statm", self.child.id());
        let pages = std::fs::read_to_string(path).unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    /// What the kernel says of it: `T` is stopped.
    pub(crate) fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit(')').next().unwrap().trim().chars().next().unwrap()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
