//! The tight loop for what nearly every request is: a whole `GET /code` or `HEAD /code` with ordinary headers, for a link that redirects. It
//! parses the request where it lies, writes the response into one buffer and waits for the next.
//!
//! It decides nothing by itself: links are looked up and decided on by the functions that hyper's path uses too. Everything else (a body, an
//! unusual header, half a head, another method, a code the table does not know, an error) goes to hyper with every byte as it came, and the
//! connection stays there. So limits, slow clients and unusual requests are handled in one place.

use std::future::{Future as _, poll_fn};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use arc_swap::Cache;
use rlinks_core::host::{HostBuffer, MAX_HOST_BYTES, from_header};
use rlinks_core::link::code::is_reserved;
use rlinks_core::{Decision, Id, Route, Visitor, decide};
use rlinks_routes::LoadOutcome;
use rlinks_routes::host_directory::ServedWorkspace;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::watch;

use super::counters::RequestKind;
use super::fast_request::FastRequest;
use super::phase::{HEADER_READ_TIMEOUT, Phase};
use super::response_writer::ResponseBuffer;
use super::thread::ServingThread;

/// Longer requests are left to hyper.
const INPUT_BYTES: usize = 8 * 1024;
/// Responses to pipelined requests are sent when they have grown to this.
const OUTPUT_BYTES: usize = 32 * 1024;

/// Outcome of trying the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPath {
    Answered,
    /// Not in the route table: load it from the store first. Holds the workspace.
    NeedsLoad(Id),
    /// Not a request for a link that redirects: hand the bytes to hyper.
    FallBack,
}

/// How the loop ended.
pub enum Exit {
    /// The connection is done.
    Closed,
    /// Bytes that were read and not answered, for hyper.
    HandOver(Vec<u8>),
}

/// Serves requests until one needs hyper, the peer leaves or stays idle, or the server drains.
pub async fn serve<S>(
    stream: &mut S,
    thread: &ServingThread,
    peer: SocketAddr,
    phase: &mut watch::Receiver<Phase>,
) -> Exit
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _guard = thread.enter_fast_path();
    let mut input = vec![0; INPUT_BYTES];
    let mut settings = Cache::new(&thread.context.reloadable);
    let mut out = ResponseBuffer::default();
    let mut idle = pin!(tokio::time::sleep(HEADER_READ_TIMEOUT));
    let changes = phase.clone();
    let mut draining = pin!(phase.wait_for(|phase| *phase == Phase::Draining));
    let (mut answered, mut armed) = (false, false);
    loop {
        // The timer is not set again for every request: when it fires, it is enough to know whether there was one.
        let read = poll_fn(|context| {
            let read = poll_read(stream, &mut input, context);
            if read.is_ready() {
                return read.map(Some);
            }
            // Timer and drain stay registered from one request to the next, so they need not be polled again until one of them has fired:
            // that may have happened while there was something to read, and each wakes us only once.
            if armed && !idle.is_elapsed() && !changes.has_changed().unwrap_or(true) {
                return Poll::Pending;
            }
            if draining.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            while idle.as_mut().poll(context).is_ready() {
                if !std::mem::take(&mut answered) {
                    return Poll::Ready(None);
                }
                idle.as_mut().reset(tokio::time::Instant::now() + HEADER_READ_TIMEOUT);
            }
            armed = true;
            Poll::Pending
        });
        let Some(Ok(length @ 1..)) = read.await else { return Exit::Closed };
        let mut at = 0;
        while at < length {
            let request = FastRequest::parse(&input[at..length], peer, settings.load());
            let outcome = match &request {
                None => FastPath::FallBack,
                Some(request) => match try_safely(thread, request, &mut out) {
                    FastPath::NeedsLoad(workspace) => {
                        thread.load_then_redirect(workspace, request, &mut out).await
                    }
                    outcome => outcome,
                },
            };
            let request = request.filter(|_| outcome == FastPath::Answered);
            let (used, last) = request.as_ref().map_or((0, false), |request| (request.length, request.last));
            at += used;
            if out.bytes.len() > OUTPUT_BYTES || at == length || last || request.is_none() {
                thread.flush_clicks_together().await;
                if stream.write_all(&out.bytes).await.is_err() {
                    return Exit::Closed;
                }
                out.bytes.clear();
            }
            if request.is_none() {
                return Exit::HandOver(input[at..length].to_vec());
            }
            if last {
                let _ = stream.shutdown().await;
                return Exit::Closed;
            }
        }
        answered = true;
    }
}

fn poll_read<S: AsyncRead + Unpin>(
    stream: &mut S,
    input: &mut [u8],
    context: &mut Context<'_>,
) -> Poll<std::io::Result<usize>> {
    let mut buffer = ReadBuf::new(input);
    Pin::new(stream).poll_read(context, &mut buffer).map_ok(|()| buffer.filled().len())
}

/// Tries the fast path; a panic there is hyper's to answer.
fn try_safely(thread: &ServingThread, request: &FastRequest<'_>, out: &mut ResponseBuffer) -> FastPath {
    let before = out.bytes.len();
    let outcome = catch_unwind(AssertUnwindSafe(|| thread.try_fast_redirect(request, out)));
    outcome.unwrap_or_else(|_| {
        out.bytes.truncate(before);
        FastPath::FallBack
    })
}

impl ServingThread {
    /// Answers from the route table if the link redirects; otherwise writes nothing.
    fn try_fast_redirect(&self, request: &FastRequest<'_>, out: &mut ResponseBuffer) -> FastPath {
        let mut buffer: HostBuffer = [0; MAX_HOST_BYTES];
        let Some(host) = from_header(request.host, &mut buffer) else { return FastPath::FallBack };
        let routes = &self.context.routes;
        let directory = routes.directory.load();
        let Some(workspace) = directory.workspace_of(host) else { return FastPath::FallBack };
        let visitor = Visitor { host, served_hosts: &workspace.served_hosts };
        let redirect =
            |id: Id, route: Route<'_>| self.write_redirect(request, workspace, &visitor, (id, route), out);
        match routes.table.load().with(workspace.id, request.code, redirect) {
            Some(outcome) => outcome,
            // While the table is being filled, or does not hold everything, most codes it does not have are links all the same.
            None if !routes.is_complete() && !is_reserved(request.code) => FastPath::NeedsLoad(workspace.id),
            None => FastPath::FallBack,
        }
    }

    /// The same for a link that has to be loaded from the store.
    async fn load_then_redirect(
        &self,
        workspace: Id,
        request: &FastRequest<'_>,
        out: &mut ResponseBuffer,
    ) -> FastPath {
        let routes = &self.context.routes;
        let LoadOutcome::Found(record) = routes.load(workspace, request.code).await else {
            return FastPath::FallBack;
        };
        let mut buffer: HostBuffer = [0; MAX_HOST_BYTES];
        let Some(host) = from_header(request.host, &mut buffer) else { return FastPath::FallBack };
        let directory = routes.directory.load_full();
        let Some(view) = directory.workspace_of(host).filter(|view| view.id == workspace) else {
            return FastPath::FallBack;
        };
        let visitor = Visitor { host, served_hosts: &view.served_hosts };
        self.write_redirect(request, view, &visitor, (record.id, record.route()), out)
    }

    fn write_redirect(
        &self,
        request: &FastRequest<'_>,
        workspace: &ServedWorkspace,
        visitor: &Visitor<'_>,
        (link, route): (Id, Route<'_>),
        out: &mut ResponseBuffer,
    ) -> FastPath {
        let now = self.context.clock.now();
        match decide(Some(route), &workspace.policy, visitor, now) {
            Decision::Redirect { status, target, cache } => {
                if !request.head {
                    self.stage_click(request.peer, &request.click, request.settings, workspace, link, now);
                }
                let cache = workspace.cache_header(cache);
                out.redirect(status, target, cache.as_bytes(), &self.request_id(), request.last, now);
                self.metrics.count_response(RequestKind::Link, status.code());
                FastPath::Answered
            }
            _ => FastPath::FallBack,
        }
    }
}
