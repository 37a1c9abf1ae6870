//! Sockets: one acceptor dispatches connections to the serving threads, each with a runtime of its own.
//!
//! The listener is bound once and never shared through `SO_REUSEPORT`: a second server on the port is an error, not a silent
//! partner. Connections go to the thread that has the fewest, so keep-alive connections are spread evenly.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use parking_lot::Mutex;
use rlinks_store::clock::Random;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::client_address::{self, is_trusted};
use super::connection::Connection;
use super::connection_limits::{ConnectionLimits, ConnectionSlots, address_group};
use super::context::{ControlHandler, ListenerRole, RedirectContext};
use super::counters::ThreadMetrics;
use super::phase::{HEADER_READ_TIMEOUT, Phase};
use super::refusal_log::Refusal;
use super::thread::ServingThread;
use super::tls::Tls;
use super::write_timeout::WriteTimeout;

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Room for a head whose path is long enough to be told so (414); everything beyond is cut off (431).
const BUFFER_BYTES: usize = 72 * 1024;
const MAX_HEADERS: usize = 64;
const LISTEN_BACKLOG: i32 = 4096;
/// File descriptors kept for the store, logs and the journal.
const RESERVED_FILES: u64 = 128;
const MAX_CONNECTIONS: u64 = 50_000;
/// After an error of `accept`, mostly too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Listens where nobody else does.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let failed = |error: io::Error| {
        let message = match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "{address} is in use by another program; stop it, or choose another address with --listen"
            ),
            io::ErrorKind::PermissionDenied => {
                format!("{address} may not be listened on by this user; choose a port above 1023")
            }
            _ => format!("{address} cannot be listened on: {error}"),
        };
        io::Error::new(error.kind(), message)
    };
    let open = || {
        let socket =
            socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(LISTEN_BACKLOG)?;
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
    let connections = files.unwrap_or(u64::MAX).saturating_sub(RESERVED_FILES).clamp(16, MAX_CONNECTIONS);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

struct AcceptedSocket {
    stream: TcpStream,
    peer: SocketAddr,
    /// Given back when the connection ends.
    _slot: ConnectionSlot,
}

/// A connection's slot: among all connections, and among those of its address.
struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
    connections_by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
    metrics: Arc<ThreadMetrics>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.metrics.connection_closed();
        let mut counts = self.connections_by_address.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

struct ThreadHandle {
    send: mpsc::UnboundedSender<AcceptedSocket>,
    metrics: Arc<ThreadMetrics>,
}

/// How one listener is served.
pub struct ListenerSettings {
    pub role: ListenerRole,
    pub threads: usize,
    pub limits: ConnectionLimits,
    /// `Strict-Transport-Security` of every response.
    pub hsts: Option<HeaderValue>,
}

/// The serving threads of a listener.
pub struct ServingThreads {
    threads: Vec<ThreadHandle>,
    per_address: usize,
    slots: Arc<ConnectionSlots>,
}

impl ServingThreads {
    pub fn start(
        listener: &ListenerSettings,
        context: &Arc<RedirectContext>,
        control: &ControlHandler,
        tls: Option<&Arc<Tls>>,
        phase: &watch::Receiver<Phase>,
        random: &Random,
    ) -> io::Result<Self> {
        let mut threads = Vec::new();
        let slots = Arc::new(ConnectionSlots::new(listener.limits));
        for number in 0..listener.threads.max(1) {
            let (send, receive) = mpsc::unbounded_channel();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let metrics = context.metrics.add_thread();
            let thread = Arc::new(ServingThread::new(
                Arc::clone(context),
                listener.role,
                Arc::clone(control),
                Arc::clone(&slots),
                Arc::clone(&metrics),
                listener.hsts.clone(),
                u64::from_le_bytes(random.bytes()),
            ));
            let (tls, phase) = (tls.cloned(), phase.clone());
            let serve = move || runtime.block_on(serve_thread(receive, thread, tls, phase));
            // It ends by itself once nothing can be dispatched to it and its connections have ended.
            std::thread::Builder::new().name(format!("redirect-{number}")).spawn(serve)?;
            threads.push(ThreadHandle { send, metrics });
        }
        Ok(Self { threads, per_address: listener.limits.per_address, slots })
    }

    /// Accepts until the server drains, then closes the listener.
    pub async fn accept_loop(
        &self,
        listener: TcpListener,
        context: &RedirectContext,
        mut phase: watch::Receiver<Phase>,
    ) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let connections_by_address = Arc::new(Mutex::new(HashMap::new()));
        loop {
            let permit = tokio::select! {
                permit = self.slots.connection() => permit.map_err(io::Error::other)?,
                _ = phase.wait_for(|phase| *phase == Phase::Draining) => return Ok(()),
            };
            let accepted = tokio::select! {
                accepted = accept(&listener) => accepted,
                _ = phase.wait_for(|phase| *phase == Phase::Draining) => return Ok(()),
            };
            match accepted {
                Ok((stream, peer)) => {
                    self.dispatch(stream, peer, permit, &connections_by_address, context);
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn dispatch(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
        connections_by_address: &Arc<Mutex<HashMap<IpAddr, usize>>>,
        context: &RedirectContext,
    ) {
        let is_proxy = is_trusted(peer.ip().to_canonical(), &context.reloadable.load().trusted_proxies);
        let address = address_group(peer.ip());
        {
            let mut counts = connections_by_address.lock();
            let count = counts.entry(address).or_default();
            // A trusted proxy holds connections for others.
            if *count >= self.per_address && !is_proxy {
                refuse(peer.ip(), context);
                return;
            }
            *count += 1;
        }
        let Some(thread) = self.threads.iter().min_by_key(|thread| thread.metrics.connections()) else {
            return;
        };
        thread.metrics.connection_opened();
        let slot = ConnectionSlot {
            _permit: permit,
            connections_by_address: Arc::clone(connections_by_address),
            address,
            metrics: Arc::clone(&thread.metrics),
        };
        // A thread that is gone takes nothing; the connection is closed with its slot.
        let _ = thread.send.send(AcceptedSocket { stream, peer, _slot: slot });
    }

    /// Whether every connection has ended.
    pub fn are_idle(&self) -> bool {
        self.threads.iter().all(|thread| thread.metrics.connections() == 0)
    }
}

/// Notes that an address has as many connections as it may.
fn refuse(address: IpAddr, context: &RedirectContext) {
    let network = client_address::network_text(address.to_canonical());
    context.refusals.record(Refusal::Connection, &network, context.clock.monotonic_ms());
}

/// A connection, taken out of this runtime so that a serving thread can take it into its own.
async fn accept(listener: &tokio::net::TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream.into_std()?, peer))
}

async fn serve_thread(
    mut sockets: mpsc::UnboundedReceiver<AcceptedSocket>,
    thread: Arc<ServingThread>,
    tls: Option<Arc<Tls>>,
    phase: watch::Receiver<Phase>,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(MAX_HEADERS)
        // A client that has sent its request and closed the sending half still wants the response.
        .half_close(true);
    let mut open = tokio::task::JoinSet::new();
    while let Some(socket) = sockets.recv().await {
        while open.try_join_next().is_some() {}
        open.spawn(serve_connection(
            socket,
            builder.clone(),
            Arc::clone(&thread),
            tls.clone(),
            phase.clone(),
        ));
    }
    while open.join_next().await.is_some() {}
}

async fn serve_connection(
    socket: AcceptedSocket,
    builder: http1::Builder,
    thread: Arc<ServingThread>,
    tls: Option<Arc<Tls>>,
    phase: watch::Receiver<Phase>,
) {
    let AcceptedSocket { stream, peer, _slot } = socket;
    let connection = Connection::new(thread, peer);
    let Ok(stream) = tokio::net::TcpStream::from_std(stream) else { return };
    match tls {
        None => connection.serve(stream, builder, phase).await,
        Some(tls) => {
            let acceptor = tls.acceptor();
            let handshake =
                tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(WriteTimeout::new(stream)));
            if let Ok(Ok(stream)) = handshake.await {
                connection.serve(stream, builder, phase).await;
            }
        }
    }
}
