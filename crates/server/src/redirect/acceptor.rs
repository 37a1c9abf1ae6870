//! Sockets: one acceptor deals connections to the serving threads, each a runtime of its own.
//!
//! The listener is bound once and never shared through `SO_REUSEPORT`: a second server on the port is an error, not a silent
//! partner. Connections go to the thread that has the fewest, so keep-alive connections are spread evenly.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::control::metrics::Tally;
use crate::process::server::ServeError;
use crate::redirect::connection::{Door, Visit};
use crate::redirect::context::{Face, Shared};
use crate::redirect::fast_path::{self, Ended};
use crate::redirect::tls::Tls;
use crate::redirect::write_timeout::Timed;

/// How long a client may take to send the head of a request, and how long a connection may lie idle between two.
pub const HEADER_READ: Duration = Duration::from_secs(5);
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Room for a head whose path is long enough to be told so (414); everything beyond is cut off (431).
const BUFFER_BYTES: usize = 72 * 1024;
const MOST_HEADERS: usize = 64;
const BACKLOG: i32 = 4096;
/// File descriptors kept for the store, logs and the journal.
const RESERVED_FILES: u64 = 128;
const MOST_CONNECTIONS: u64 = 50_000;
/// After an error of `accept`, mostly too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Serving.
    Running,
    /// No new connections; the open ones finish what they are doing.
    Draining,
}

/// Listens where nobody else does.
pub fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let failed = |error: io::Error| {
        ServeError::Listen(match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "{address} is in use by another program; stop it, or choose another address with --listen"
            ),
            io::ErrorKind::PermissionDenied => {
                format!("{address} may not be listened on by this user; choose a port above 1023")
            }
            _ => format!("{address} cannot be listened on: {error}"),
        })
    };
    let open = || {
        let socket =
            socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from(socket))
    };
    open().map_err(failed)
}

/// Raises the limit of open files as far as it goes, and gives the number of connections it allows.
pub fn connection_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let files = if raised.is_ok() { limit.maximum } else { limit.current };
    let connections = files.unwrap_or(u64::MAX).saturating_sub(RESERVED_FILES).clamp(16, MOST_CONNECTIONS);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    /// Given back when the connection ends.
    _place: Place,
}

/// A connection's place: among all, and among those of its address.
struct Place {
    _permit: OwnedSemaphorePermit,
    of_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
    of_thread: Arc<Tally>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of_thread.closed();
        let mut counts = self.of_address.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

struct Thread {
    send: mpsc::UnboundedSender<Connection>,
    tally: Arc<Tally>,
}

/// The serving threads and what they are dealt.
pub struct Threads {
    threads: Vec<Thread>,
}

impl Threads {
    /// Starts `count` serving threads.
    pub fn start(
        count: usize,
        shared: &Arc<Shared>,
        face: Face,
        tls: Option<&Arc<Tls>>,
        phase: &watch::Receiver<Phase>,
    ) -> io::Result<Self> {
        let mut threads = Vec::new();
        for number in 0..count.max(1) {
            let (send, receive) = mpsc::unbounded_channel();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let tally = shared.tallies.add();
            let door = Arc::new(Door::new(Arc::clone(shared), face, Arc::clone(&tally)));
            let (tls, phase) = (tls.cloned(), phase.clone());
            let serve = move || runtime.block_on(serve_thread(receive, door, tls, phase));
            // It ends by itself: when nobody can deal to it any more and its connections have ended.
            std::thread::Builder::new().name(format!("redirect-{number}")).spawn(serve)?;
            threads.push(Thread { send, tally });
        }
        Ok(Self { threads })
    }

    /// Accepts until the server drains, then closes the listener.
    pub async fn deal(
        &self,
        listener: TcpListener,
        limit: usize,
        shared: &Shared,
        mut phase: watch::Receiver<Phase>,
    ) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(limit));
        let of_address = Arc::new(Mutex::new(HashMap::new()));
        loop {
            let permit = tokio::select! {
                permit = Arc::clone(&places).acquire_owned() => permit.map_err(io::Error::other)?,
                _ = phase.wait_for(|phase| *phase == Phase::Draining) => return Ok(()),
            };
            let accepted = tokio::select! {
                accepted = accept(&listener) => accepted,
                _ = phase.wait_for(|phase| *phase == Phase::Draining) => return Ok(()),
            };
            match accepted {
                Ok((stream, peer)) => self.hand_over(stream, peer, permit, &of_address, limit, shared),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn hand_over(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
        of_address: &Arc<Mutex<HashMap<IpAddr, usize>>>,
        limit: usize,
        shared: &Shared,
    ) {
        let address = peer.ip().to_canonical();
        let is_proxy =
            shared.reloadable.load().trusted_proxies.iter().any(|network| network.contains(&address));
        {
            let mut counts = of_address.lock();
            let count = counts.entry(address).or_default();
            // One address must not hold every place; a trusted proxy holds them for others.
            if *count >= limit / 2 && !is_proxy {
                return;
            }
            *count += 1;
        }
        let Some(thread) = self.threads.iter().min_by_key(|thread| thread.tally.connections()) else {
            return;
        };
        thread.tally.opened();
        let place = Place {
            _permit: permit,
            of_address: Arc::clone(of_address),
            address,
            of_thread: Arc::clone(&thread.tally),
        };
        // A thread that is gone takes nothing; the connection is closed with its place.
        let _ = thread.send.send(Connection { stream, peer, _place: place });
    }

    /// Whether every connection has ended.
    pub fn are_idle(&self) -> bool {
        self.threads.iter().all(|thread| thread.tally.connections() == 0)
    }
}

/// A connection, taken out of this runtime so that a serving thread can take it into its own.
async fn accept(listener: &tokio::net::TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream.into_std()?, peer))
}

async fn serve_thread(
    mut connections: mpsc::UnboundedReceiver<Connection>,
    door: Arc<Door>,
    tls: Option<Arc<Tls>>,
    phase: watch::Receiver<Phase>,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(MOST_HEADERS)
        // Who has sent the request and closes the sending half still wants the answer.
        .half_close(true);
    let mut open = tokio::task::JoinSet::new();
    while let Some(connection) = connections.recv().await {
        while open.try_join_next().is_some() {}
        open.spawn(serve_connection(
            connection,
            builder.clone(),
            Arc::clone(&door),
            tls.clone(),
            phase.clone(),
        ));
    }
    while open.join_next().await.is_some() {}
}

async fn serve_connection(
    connection: Connection,
    builder: http1::Builder,
    door: Arc<Door>,
    tls: Option<Arc<Tls>>,
    phase: watch::Receiver<Phase>,
) {
    let Connection { stream, peer, _place: _held } = connection;
    let visit = Visit::new(door, peer);
    let Ok(stream) = tokio::net::TcpStream::from_std(stream) else { return };
    match tls {
        None => serve_stream(stream, builder, visit, phase).await,
        Some(tls) => {
            let acceptor = tls.acceptor();
            let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(Timed::new(stream)));
            if let Ok(Ok(stream)) = handshake.await {
                serve_stream(stream, builder, visit, phase).await;
            }
        }
    }
}

/// Plain requests in a tight loop; the first that is not plain takes the connection to hyper, with the bytes already read.
async fn serve_stream<S>(stream: S, builder: http1::Builder, visit: Visit, mut phase: watch::Receiver<Phase>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut stream = Timed::new(stream);
    match fast_path::serve(&mut stream, &visit, &mut phase).await {
        Ended::Closed => return,
        Ended::NotPlain(bytes) => stream.put_back(bytes),
    }
    let serving = builder.serve_connection(TokioIo::new(stream), visit);
    tokio::pin!(serving);
    tokio::select! {
        // Whatever ends a connection ends it: the peer left, took too long, or spoke no HTTP. hyper has answered what it could.
        _ = serving.as_mut() => return,
        _ = phase.wait_for(|phase| *phase == Phase::Draining) => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}
