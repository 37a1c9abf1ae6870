//! One connection: the fast path first, then every other request by hyper. Look up, decide, record, respond.
//!
//! A request for a link the table knows is answered at once, without waiting, locking or allocating more than the response. A link it does not
//! know is loaded from the store on the control runtime; everything that is not a link goes to the router there. A click is in the journal
//! before its response leaves; a HEAD request is not a click.

use std::borrow::Cow;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONNECTION, HOST, HeaderValue};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::host::{MAX_HOST_BYTES, from_header};
use rlinks_core::redirect::decide::NotFoundReason;
use rlinks_core::redirect::negotiate::wants_json;
use rlinks_core::redirect::path::first_segment;
use rlinks_core::redirect::public_pages;
use rlinks_core::redirect::response::{HttpResponse, SECURITY_TXT_PATH};
use rlinks_core::redirect::{LinkRequest, RequestHead, RequestMethod, Resolution, resolve};
use rlinks_core::{Decision, Id, Route, Visitor, decide};
use rlinks_routes::LoadOutcome;
use rlinks_routes::host_directory::ServedWorkspace;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::body::{Body, into_response};
use super::body_budget::BodyAccount;
use super::checked_stream::CheckedStream;
use super::click_headers::ClickHeaders;
use super::client_address;
use super::context::{ControlRequest, RedirectContext, ServedLinkRequest};
use super::counters::RequestKind;
use super::error_response::{accept_header, error_response};
use super::fast_path::{self, Exit};
use super::phase::Phase;
use super::refusal_log::Refusal;
use super::request_body::TimedBody;
use super::response_writer::redirect;
use super::thread::ServingThread;
use super::write_timeout::WriteTimeout;

/// All header names and values of a request together.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// One connection, as hyper serves it.
#[derive(Clone)]
pub struct Connection {
    thread: Arc<ServingThread>,
    peer: SocketAddr,
}

/// What to do with a request.
enum NextStep {
    Respond(Response<Body>),
    /// The table doesn't have the link; the store might.
    Load(PendingLink),
    ForwardToControl,
}

/// A [`LinkRequest`] that outlives the first look at its request.
struct PendingLink {
    workspace: Arc<ServedWorkspace>,
    host: String,
    code: String,
    preview: bool,
}

impl PendingLink {
    fn new(asked: &ServedLinkRequest<'_>) -> Self {
        Self {
            workspace: Arc::clone(asked.workspace),
            host: asked.host.to_owned(),
            code: asked.code.to_string(),
            preview: asked.preview,
        }
    }

    fn request(&self) -> ServedLinkRequest<'_> {
        LinkRequest {
            workspace: &self.workspace,
            host: &self.host,
            code: Cow::Borrowed(&self.code),
            preview: self.preview,
        }
    }
}

impl Connection {
    /// A connection from `peer`.
    pub fn new(thread: Arc<ServingThread>, peer: SocketAddr) -> Self {
        Self { thread, peer }
    }

    /// Serves the stream until it ends: in the fast path for as long as that works, then by hyper.
    pub async fn serve<S>(self, stream: S, hyper: http1::Builder, mut phase: watch::Receiver<Phase>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut stream = WriteTimeout::new(stream);
        match fast_path::serve(&mut stream, &self.thread, self.peer, &mut phase).await {
            Exit::Closed => return,
            Exit::HandOver(bytes) => stream.unread(bytes),
        }
        let serving = hyper.serve_connection(TokioIo::new(CheckedStream::new(stream)), self);
        tokio::pin!(serving);
        tokio::select! {
            // Whatever ends a connection ends it: the peer left, took too long, or did not speak HTTP. hyper has answered what it could.
            _ = serving.as_mut() => return,
            _ = phase.wait_for(|phase| *phase == Phase::Draining) => serving.as_mut().graceful_shutdown(),
        }
        let _ = serving.await;
    }

    fn context(&self) -> &Arc<RedirectContext> {
        &self.thread.context
    }

    fn next_step(&self, request: &Request<Incoming>) -> NextStep {
        if header_bytes(request) > MAX_HEADER_BYTES {
            return NextStep::Respond(self.error(request, ErrorCode::HeadersTooLarge));
        }
        let routes = &self.context().routes;
        let (directory, mut buffer) = (routes.directory.load(), [0; MAX_HOST_BYTES]);
        let (host, path) = (request_host(request), request.uri().path());
        let head = RequestHead { method: RequestMethod::parse(request.method().as_str()), host, path };
        match resolve(&head, &mut buffer, |host| directory.resolve(host)) {
            Resolution::Refused(code) => NextStep::Respond(self.error(request, code)),
            Resolution::ServerPath => NextStep::ForwardToControl,
            Resolution::Landing => {
                NextStep::Respond(into_response(HttpResponse::page(public_pages::landing())))
            }
            Resolution::NotALink => NextStep::Respond(match &self.context().reloadable.load().contact {
                Some(contact) if path == SECURITY_TXT_PATH => {
                    into_response(HttpResponse::security_txt(contact, self.context().clock.now()))
                }
                _ => self.not_found(request, None),
            }),
            Resolution::Link(asked) => {
                let table = routes.table.load();
                let lookup = |code: &str| {
                    table.with(asked.workspace.id, code, |id, route| self.respond(request, &asked, id, route))
                };
                match asked.find(&asked.workspace.policy.code, lookup) {
                    Some(response) => NextStep::Respond(response),
                    None if routes.is_complete() => NextStep::Respond(self.not_found(request, Some(&asked))),
                    None => NextStep::Load(PendingLink::new(&asked)),
                }
            }
        }
    }

    /// Decide, record, respond.
    fn respond(
        &self,
        request: &Request<Incoming>,
        asked: &ServedLinkRequest<'_>,
        link: Id,
        route: Route<'_>,
    ) -> Response<Body> {
        let (workspace, now) = (asked.workspace, self.context().clock.now());
        let visitor = Visitor { host: asked.host, served_hosts: &workspace.served_hosts };
        match decide(Some(route), &workspace.policy, &visitor, now) {
            Decision::Redirect { target, .. } if asked.preview => into_response(HttpResponse::page(
                public_pages::preview(&asked.code, target, route.target_host),
            )),
            Decision::Redirect { status, target, cache } => {
                if request.method() == Method::GET {
                    let settings = self.context().reloadable.load();
                    let click = ClickHeaders::from_request(request, settings.country_header.as_ref());
                    self.thread.stage_click(self.peer, &click, &settings, workspace, link, now);
                    self.thread.flush_clicks();
                }
                redirect(status.code(), target, cache, workspace)
            }
            Decision::NotFound(why) => {
                if why == NotFoundReason::Insecure {
                    tracing::warn!(%link, "a link that must lead to https does not, and is not served");
                }
                // Counted whatever the reason, or who is slowed down could tell hidden links from unknown ones.
                self.not_found(request, Some(asked))
            }
            decision => {
                if let Decision::Gone(_) = decision {
                    self.count_miss(request, asked);
                }
                self.error(request, decision.error_code().unwrap_or(ErrorCode::Internal))
            }
        }
    }

    fn count_miss(&self, request: &Request<Incoming>, asked: &ServedLinkRequest<'_>) {
        if request.method() == Method::GET {
            self.thread.miss_counter.count(asked.workspace.id, &asked.code);
        }
    }

    /// Answers 404, or 429 to a network that guesses too often.
    fn not_found(
        &self,
        request: &Request<Incoming>,
        missed: Option<&ServedLinkRequest<'_>>,
    ) -> Response<Body> {
        if let Some(asked) = missed {
            self.count_miss(request, asked);
        }
        let settings = self.context().reloadable.load();
        let address = client_address::address_of(self.peer.ip(), request.headers(), &settings);
        let now_ms = self.context().clock.monotonic_ms();
        if self.thread.miss_limiter.lock().allow(address, now_ms) {
            return self.error(request, ErrorCode::NotFound);
        }
        self.context().refusals.record(Refusal::RateLimit, &client_address::network_text(address), now_ms);
        let mut slowed = self.error(request, ErrorCode::RateLimited);
        slowed.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
        slowed
    }

    fn error(&self, request: &Request<Incoming>, code: ErrorCode) -> Response<Body> {
        error_response(request, code, self.context().clock.now())
    }

    /// The slow way: the store, asked once for everybody who waits.
    async fn load_and_respond(self, request: Request<Incoming>, pending: PendingLink) -> Response<Body> {
        let (routes, workspace) = (&self.context().routes, &pending.workspace);
        let mut loaded = routes.load(workspace.id, &pending.code).await;
        if matches!(loaded, LoadOutcome::NotFound)
            && let Some(folded) = workspace.policy.code.folded(&pending.code)
        {
            loaded = routes.load(workspace.id, &folded).await;
        }
        let asked = pending.request();
        match loaded {
            LoadOutcome::Found(record) => self.respond(&request, &asked, record.id, record.route()),
            LoadOutcome::NotFound => self.not_found(&request, Some(&asked)),
            LoadOutcome::Unreadable => self.error(&request, ErrorCode::NotFound),
            LoadOutcome::Unavailable => self.error(&request, ErrorCode::KvUnavailable),
        }
    }

    /// Everything that isn't a link, on the runtime that may block. A panic there is one 500 response.
    async fn forward_to_control(self, request: Request<Incoming>) -> Response<Body> {
        let context = Arc::clone(self.context());
        let (path, accept) = (request.uri().path().to_owned(), accept_header(&request));
        let error = |code: ErrorCode, message: &str| {
            let as_json = wants_json(&path, accept.as_deref());
            into_response(HttpResponse::error(code, message, &Value::Null, as_json, context.clock.now()))
        };
        // Health says how the server is, also when pages and API are busy.
        let slot = if matches!(first_segment(&path), "api" | "admin" | "metrics") {
            let Some(slot) = self.thread.slots.try_control() else {
                let address =
                    client_address::address_of(self.peer.ip(), request.headers(), &context.reloadable.load());
                let network = client_address::network_text(address);
                context.refusals.record(Refusal::Busy, &network, context.clock.monotonic_ms());
                let mut busy = error(ErrorCode::KvUnavailable, "The server is busy. Try again in a moment");
                busy.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                return busy;
            };
            Some(slot)
        } else {
            None
        };
        let account = BodyAccount::new(&context.body_budget);
        let mut request = request.map(|body| TimedBody::new(body, account.clone()));
        request.extensions_mut().insert(account.clone());
        let request = ControlRequest { role: self.thread.role, peer: self.peer, request };
        let handling = (self.thread.control)(request);
        // A handler goes on when its client is gone, and what the body holds is held until it is done.
        let handled = context.control_runtime.spawn(async move {
            let response = handling.await;
            drop(account);
            response
        });
        let mut response = match handled.await {
            Ok(handled) => handled.map(|body| Body::Streamed { body, _slot: slot }),
            Err(_) => error(ErrorCode::Internal, ErrorCode::Internal.message()),
        };
        if self.thread.slots.are_scarce() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// The names and values of all headers.
fn header_bytes<B>(request: &Request<B>) -> usize {
    request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// The host of a request. `None` if it is missing or repeated, or if the request line names another.
fn request_host<B>(request: &Request<B>) -> Option<&[u8]> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(header), None) = (hosts.next(), hosts.next()) else { return None };
    let (mut one, mut other) = ([0; MAX_HOST_BYTES], [0; MAX_HOST_BYTES]);
    match request.uri().authority() {
        Some(authority)
            if from_header(authority.as_str().as_bytes(), &mut one)
                != from_header(header.as_bytes(), &mut other) =>
        {
            None
        }
        _ => Some(header.as_bytes()),
    }
}

/// A response that is there already, or one to wait for.
pub enum ResponseFuture {
    Ready(Option<Response<Body>>),
    Pending(
        Pin<Box<dyn Future<Output = Response<Body>> + Send>>,
        HeaderValue,
        RequestKind,
        Arc<ServingThread>,
    ),
}

impl Future for ResponseFuture {
    type Output = Result<Response<Body>, std::convert::Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(response) => Poll::Ready(Ok(response.take().expect("an answer is taken once"))),
            Self::Pending(waiting, id, kind, thread) => waiting.as_mut().poll(context).map(|mut response| {
                thread.finish(&mut response, id.clone(), *kind);
                Ok(response)
            }),
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Connection {
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        let id = self.thread.request_id_header();
        // A panic is one answer 500, not the end of the connection's other requests.
        let next = catch_unwind(AssertUnwindSafe(|| self.next_step(&request)));
        match next.unwrap_or_else(|_| NextStep::Respond(self.error(&request, ErrorCode::Internal))) {
            NextStep::Respond(mut response) => {
                self.thread.finish(&mut response, id, RequestKind::Link);
                ResponseFuture::Ready(Some(response))
            }
            NextStep::Load(pending) => {
                let answer = self.clone().load_and_respond(request, pending);
                ResponseFuture::Pending(Box::pin(answer), id, RequestKind::Link, Arc::clone(&self.thread))
            }
            NextStep::ForwardToControl => {
                let answer = self.clone().forward_to_control(request);
                ResponseFuture::Pending(Box::pin(answer), id, RequestKind::Control, Arc::clone(&self.thread))
            }
        }
    }
}
