//! A server of its own for each test, and a client that sends exactly the bytes it is told to.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rlinks_core::{Actor, Host, Id, Policy, Slug, Timestamp};
use rlinks_server::{Clock, Config, Reloadable, Server};
use rlinks_store::{Location, Lost, Options, Store};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(crate) const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_123);

/// A store in a folder of its own, on a runtime of its own.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
    pub(crate) runtime: Runtime,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let store = runtime.block_on(open(&folder));
        Self { folder, store, runtime }
    }

    /// Starts serving, with a clock that stands still.
    pub(crate) fn serve(self, change: impl FnOnce(&mut Config)) -> Running {
        let mut config = Config {
            listen: "127.0.0.1:0".parse().expect("an address"),
            control_listen: None,
            serve_admin: true,
            threads: 1,
            cache_bytes: 16 << 20,
            base_domain: None,
            tls: None,
            data: self.folder.path().to_owned(),
            reloadable: Reloadable::default(),
        };
        change(&mut config);
        let server = Server::start(config, self.store.clone(), Clock::new(|| NOW), self.runtime)
            .expect("the server starts");
        let running = Running { address: server.address, store: self.store, folder: self.folder, server };
        wait_until("the follower has looked", || running.get("/ready").body.contains("\"ready\""));
        running
    }
}

pub(crate) async fn open(folder: &TempDir) -> Store {
    let options = Options {
        location: Location::Sqlite(folder.path().join("rlinks.db")),
        worker: None,
        holder: "test".to_owned(),
        now: NOW,
        lost: Lost::Refuse,
    };
    Store::open(options).await.expect("the store opens")
}

/// A running server. Dropping it stops it at once.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) store: Store,
    pub(crate) folder: TempDir,
    pub(crate) server: Server,
}

impl Running {
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: rmax.to\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
        ))
    }

    pub(crate) fn ask(&self, request: &str) -> Answer {
        ask(self.address, request.as_bytes())
    }
}

/// Sends bytes and reads until the server closes.
pub(crate) fn ask(address: SocketAddr, request: &[u8]) -> Answer {
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
    Answer::parse(&bytes)
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
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

    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// Waits for a condition; what takes ten seconds will not happen.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain until {what}");
}

pub(crate) fn operator() -> Actor {
    Actor::operator("test")
}

/// Gives a workspace its policy and domains.
pub(crate) async fn furnish(store: &Store, slug: &str, policy: Policy, domains: &[String]) -> Id {
    let slug = Slug::parse(slug).expect("a slug");
    let id = match store.workspace(&slug).await.expect("the store answers") {
        None => {
            store
                .create_workspace(slug, "Other".to_owned(), policy, &operator(), NOW)
                .await
                .expect("a workspace")
                .id
        }
        Some(seen) => {
            let next = rlinks_core::Workspace { policy, ..seen.clone() };
            store
                .update_workspace(&seen, next, "workspace.policy", &operator(), NOW)
                .await
                .expect("a policy")
                .id
        }
    };
    for domain in domains {
        store.add_domain(id, Host::parse(domain).expect("a host"), &operator(), NOW).await.expect("a domain");
    }
    id
}
