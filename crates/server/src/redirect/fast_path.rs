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
use rlinks_core::host::MAX_HOST_BYTES;
use rlinks_core::redirect::{RequestMethod, Resolution, resolve};
use rlinks_core::{Decision, Id, Route, Visitor, decide};
use rlinks_routes::LoadOutcome;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::watch;

use super::context::ServedLinkRequest;
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
#[derive(Debug, PartialEq, Eq)]
pub enum FastPath {
    Answered,
    /// Not in the route table: load it from the store first.
    NeedsLoad {
        workspace: Id,
        code: String,
    },
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
    let mut out = ResponseBuffer::new(thread.hsts.as_ref());
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
                    FastPath::NeedsLoad { workspace, code } => {
                        thread.load_then_redirect((workspace, &code), request, &mut out).await
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
        let routes = &self.context.routes;
        self.resolve_link(request, |asked| {
            let (workspace, table) = (asked.workspace, routes.table.load());
            let redirect = |link, route: Route<'_>| self.write_redirect(request, asked, link, route, out);
            // Only the code as it was sent: the rare one that has to be folded is hyper's.
            match table.with(workspace.id, &asked.code, redirect) {
                Some(outcome) => outcome,
                None if routes.is_complete() => FastPath::FallBack,
                // While the table is being filled, or doesn't hold everything, most codes it doesn't have are links all the same.
                None => FastPath::NeedsLoad { workspace: workspace.id, code: asked.code.to_string() },
            }
        })
    }

    /// The same for a link that has to be loaded from the store.
    async fn load_then_redirect(
        &self,
        (workspace, code): (Id, &str),
        request: &FastRequest<'_>,
        out: &mut ResponseBuffer,
    ) -> FastPath {
        let LoadOutcome::Found(record) = self.context.routes.load(workspace, code).await else {
            return FastPath::FallBack;
        };
        self.resolve_link(request, |asked| {
            // The host may have moved meanwhile.
            if asked.workspace.id != workspace {
                return FastPath::FallBack;
            }
            self.write_redirect(request, asked, record.id, record.route(), out)
        })
    }

    /// Passes on what the request asks for if that is to follow a link.
    fn resolve_link(
        &self,
        request: &FastRequest<'_>,
        then: impl FnOnce(&ServedLinkRequest<'_>) -> FastPath,
    ) -> FastPath {
        let (directory, mut buffer) = (self.context.routes.directory.load(), [0; MAX_HOST_BYTES]);
        match &resolve(&request.head, &mut buffer, |host| directory.resolve(host)) {
            Resolution::Link(asked) if !asked.preview => then(asked),
            _ => FastPath::FallBack,
        }
    }

    fn write_redirect(
        &self,
        request: &FastRequest<'_>,
        asked: &ServedLinkRequest<'_>,
        link: Id,
        route: Route<'_>,
        out: &mut ResponseBuffer,
    ) -> FastPath {
        let (workspace, now) = (asked.workspace, self.context.clock.now());
        let visitor = Visitor { host: asked.host, served_hosts: &workspace.served_hosts };
        match decide(Some(route), &workspace.policy, &visitor, now) {
            Decision::Redirect { status, target, cache } => {
                if request.head.method == RequestMethod::Get {
                    self.stage_click(request.peer, &request.click, request.settings, workspace, link, now);
                }
                let cache = workspace.cache_header(cache);
                out.redirect(status, target, &cache, &self.request_id(), request.last, now);
                self.metrics.count_response(RequestKind::Link, status.code());
                FastPath::Answered
            }
            _ => FastPath::FallBack,
        }
    }
}
