//! One connection: the fast path first, then every other request by hyper. Look up, decide, record, respond.
//!
//! A request for a link the table knows is answered at once, without waiting, locking or allocating more than the response. A link it does not
//! know is loaded from the store on the control runtime; everything that is not a link goes to the router there. A click is in the journal
//! before its response leaves; a HEAD request is not a click.

use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{HOST, HeaderValue};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::host::{HostBuffer, MAX_HOST_BYTES, from_header};
use rlinks_core::link::code::{is_code, is_reserved};
use rlinks_core::redirect::decide::NotFoundReason;
use rlinks_core::redirect::negotiate::wants_json;
use rlinks_core::redirect::path::{MAX_PATH_BYTES, RequestPath, first_segment, parse_path};
use rlinks_core::redirect::public_pages;
use rlinks_core::redirect::response::{HttpResponse, SECURITY_TXT_PATH};
use rlinks_core::{Decision, Id, Route, Visitor, decide};
use rlinks_routes::LoadOutcome;
use rlinks_routes::host_directory::{HostDirectory, ServedWorkspace};
use rlinks_store::clock::monotonic_ms;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::body::{Body, into_response};
use super::click_headers::ClickHeaders;
use super::client_address::{self, ForwardedHeaders};
use super::context::{ControlRequest, RedirectContext};
use super::counters::{RequestKind, ThreadMetrics};
use super::error_response::{accept_header, error_response};
use super::fast_path::{self, Exit};
use super::phase::Phase;
use super::response_writer::redirect;
use super::thread::{ServingThread, X_REQUEST_ID};
use super::write_timeout::WriteTimeout;

/// All header names and values of a request together.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// One connection, as hyper serves it.
#[derive(Clone)]
pub struct Connection {
    thread: Arc<ServingThread>,
    peer: SocketAddr,
}

/// What the first look at a request gave.
enum Resolution {
    Respond(Response<Body>),
    /// The table does not know; the store might.
    Load {
        workspace: Arc<ServedWorkspace>,
        host: String,
        code: String,
        preview: bool,
    },
    /// Not the address of a link.
    ControlPlane,
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
        let serving = hyper.serve_connection(TokioIo::new(stream), self);
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

    fn resolve(&self, request: &Request<Incoming>) -> Resolution {
        let path = request.uri().path();
        if path.len() > MAX_PATH_BYTES {
            return Resolution::Respond(self.error(request, ErrorCode::UriTooLong));
        }
        if request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
            > MAX_HEADER_BYTES
        {
            return Resolution::Respond(self.error(request, ErrorCode::HeadersTooLarge));
        }
        let mut buffer: HostBuffer = [0; MAX_HOST_BYTES];
        let Some(host) = request_host(request, &mut buffer) else {
            return Resolution::Respond(self.error(request, ErrorCode::BadRequest));
        };
        let directory = self.context().routes.directory.load();
        match parse_path(path) {
            RequestPath::Code(code) => self.resolve_link(request, &directory, host, &code, false),
            RequestPath::Preview(code) => self.resolve_link(request, &directory, host, &code, true),
            RequestPath::Root => {
                Resolution::Respond(match self.check_host_and_method(request, &directory, host) {
                    Some(refusal) => refusal,
                    None => into_response(HttpResponse::page(public_pages::landing())),
                })
            }
            RequestPath::NotALink if is_reserved(first_segment(path)) => Resolution::ControlPlane,
            RequestPath::NotALink => {
                Resolution::Respond(match self.check_host_and_method(request, &directory, host) {
                    Some(refusal) => refusal,
                    None => match &self.context().reloadable.load().contact {
                        Some(contact) if path == SECURITY_TXT_PATH => {
                            into_response(HttpResponse::security_txt(contact, self.context().clock.now()))
                        }
                        _ => self.not_found(request, None),
                    },
                })
            }
        }
    }

    /// Look up, decide, respond.
    fn resolve_link(
        &self,
        request: &Request<Incoming>,
        directory: &HostDirectory,
        host: &str,
        code: &str,
        preview: bool,
    ) -> Resolution {
        let readable = matches!(*request.method(), Method::GET | Method::HEAD);
        let workspace = directory.workspace_of(host);
        if readable && let Some(workspace) = workspace {
            let visitor = Visitor { host, served_hosts: &workspace.served_hosts };
            let answer = |id: Id, route: Route<'_>| {
                self.respond(request, workspace, &visitor, code, Some((id, route)), preview)
            };
            let table = self.context().routes.table.load();
            if let Some(found) = table.with(workspace.id, code, answer) {
                return Resolution::Respond(found);
            }
            if workspace.policy.code.fold_case && code.bytes().any(|byte| byte.is_ascii_uppercase()) {
                let folded = code.to_ascii_lowercase();
                if let Some(found) = table.with(workspace.id, &folded, answer) {
                    return Resolution::Respond(found);
                }
            }
        }
        if is_reserved(code) {
            return Resolution::ControlPlane;
        }
        if let Some(refusal) = self.check_host_and_method(request, directory, host) {
            return Resolution::Respond(refusal);
        }
        match workspace {
            Some(workspace) if !self.context().routes.is_complete() => Resolution::Load {
                workspace: Arc::clone(workspace),
                host: host.to_owned(),
                code: code.to_owned(),
                preview,
            },
            _ => {
                Resolution::Respond(self.not_found(request, workspace.map(|workspace| (&**workspace, code))))
            }
        }
    }

    /// An unknown host is 404; a method that links don't accept is 405.
    fn check_host_and_method(
        &self,
        request: &Request<Incoming>,
        directory: &HostDirectory,
        host: &str,
    ) -> Option<Response<Body>> {
        if directory.workspace_of(host).is_none() {
            // Until the directory is loaded no host is known, which doesn't mean that the link doesn't exist.
            let known = self.context().routes.is_directory_loaded();
            return Some(
                self.error(request, if known { ErrorCode::NotFound } else { ErrorCode::KvUnavailable }),
            );
        }
        let readable = matches!(*request.method(), Method::GET | Method::HEAD);
        (!readable).then(|| self.error(request, ErrorCode::MethodNotAllowed))
    }

    fn respond(
        &self,
        request: &Request<Incoming>,
        workspace: &ServedWorkspace,
        visitor: &Visitor<'_>,
        code: &str,
        link: Option<(Id, Route<'_>)>,
        preview: bool,
    ) -> Response<Body> {
        let now = self.context().clock.now();
        match decide(link.map(|(_, route)| route), &workspace.policy, visitor, now) {
            Decision::Redirect { target, .. } if preview => {
                let host = link.map_or("", |(_, route)| route.target_host);
                into_response(HttpResponse::page(public_pages::preview(code, target, host)))
            }
            Decision::Redirect { status, target, cache } => {
                if let (&Method::GET, Some((id, _))) = (request.method(), link) {
                    let settings = self.context().reloadable.load();
                    let click = ClickHeaders::from_request(request, settings.country_header.as_ref());
                    self.thread.stage_click(self.peer, &click, &settings, workspace, id, now);
                    self.thread.flush_clicks();
                }
                redirect(status.code(), target, cache, workspace)
            }
            Decision::NotFound(why) => {
                if let (NotFoundReason::Insecure, Some((id, _))) = (why, link) {
                    tracing::warn!(link = %id, "a link that must lead to https does not, and is not served");
                }
                // Counted whatever the reason, or who is slowed down could tell hidden links from unknown ones.
                self.not_found(request, Some((workspace, code)))
            }
            decision => {
                if let Decision::Gone(_) = decision {
                    self.count_miss(request, workspace, code);
                }
                self.error(request, decision.error_code().unwrap_or(ErrorCode::Internal))
            }
        }
    }

    fn count_miss(&self, request: &Request<Incoming>, workspace: &ServedWorkspace, code: &str) {
        if request.method() == Method::GET && is_code(code) {
            self.thread.miss_counter.count(workspace.id, code);
        }
    }

    /// Answers 404, or 429 to a network that guesses too often.
    fn not_found(
        &self,
        request: &Request<Incoming>,
        missed: Option<(&ServedWorkspace, &str)>,
    ) -> Response<Body> {
        if let Some((workspace, code)) = missed {
            self.count_miss(request, workspace, code);
        }
        let trusted = self.context().reloadable.load();
        let forwarded = ForwardedHeaders::from_headers(request.headers());
        let address = client_address::address(self.peer.ip(), &forwarded, &trusted.trusted_proxies);
        if self.thread.miss_limiter.lock().allow(address, monotonic_ms()) {
            return self.error(request, ErrorCode::NotFound);
        }
        let mut slowed = self.error(request, ErrorCode::RateLimited);
        slowed.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
        slowed
    }

    fn error(&self, request: &Request<Incoming>, code: ErrorCode) -> Response<Body> {
        error_response(request, code, self.context().clock.now())
    }

    /// The slow way: the store, asked once for everybody who waits.
    async fn load_and_respond(
        self,
        request: Request<Incoming>,
        workspace: Arc<ServedWorkspace>,
        host: String,
        code: String,
        preview: bool,
    ) -> Response<Body> {
        let routes = &self.context().routes;
        let mut loaded = routes.load(workspace.id, &code).await;
        if matches!(loaded, LoadOutcome::NotFound)
            && workspace.policy.code.fold_case
            && code.bytes().any(|byte| byte.is_ascii_uppercase())
        {
            loaded = routes.load(workspace.id, &code.to_ascii_lowercase()).await;
        }
        let visitor = Visitor { host: &host, served_hosts: &workspace.served_hosts };
        match loaded {
            LoadOutcome::Found(record) => self.respond(
                &request,
                &workspace,
                &visitor,
                &code,
                Some((record.id, record.route())),
                preview,
            ),
            LoadOutcome::NotFound => self.not_found(&request, Some((&workspace, &code))),
            LoadOutcome::Unreadable => self.error(&request, ErrorCode::NotFound),
            LoadOutcome::Unavailable => self.error(&request, ErrorCode::KvUnavailable),
        }
    }

    /// Everything that isn't a link, on the runtime that may block. A panic there is one 500 response.
    async fn forward_to_control(self, request: Request<Incoming>) -> Response<Body> {
        let context = Arc::clone(self.context());
        let (path, accept) = (request.uri().path().to_owned(), accept_header(&request));
        let request = ControlRequest { role: self.thread.role, peer: self.peer, request };
        let handled = context.control_runtime.spawn((self.thread.control)(request));
        match handled.await {
            Ok(handled) => handled.map(Body::Streamed),
            Err(_) => into_response(HttpResponse::error(
                ErrorCode::Internal,
                ErrorCode::Internal.message(),
                &Value::Null,
                wants_json(&path, accept.as_deref()),
                context.clock.now(),
            )),
        }
    }
}

/// The host of a request, normalised. `None` if it is missing, repeated or malformed, or if the request line names another.
fn request_host<'a>(request: &Request<Incoming>, buffer: &'a mut HostBuffer) -> Option<&'a str> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(header), None) = (hosts.next(), hosts.next()) else { return None };
    let host = from_header(header.as_bytes(), buffer)?;
    if let Some(authority) = request.uri().authority() {
        let mut other: HostBuffer = [0; MAX_HOST_BYTES];
        if from_header(authority.as_str().as_bytes(), &mut other)? != host {
            return None;
        }
    }
    Some(host)
}

/// A response that is there already, or one to wait for.
pub enum ResponseFuture {
    Ready(Option<Response<Body>>),
    Pending(
        Pin<Box<dyn Future<Output = Response<Body>> + Send>>,
        HeaderValue,
        RequestKind,
        Arc<ThreadMetrics>,
    ),
}

impl Future for ResponseFuture {
    type Output = Result<Response<Body>, std::convert::Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(response) => Poll::Ready(Ok(response.take().expect("an answer is taken once"))),
            Self::Pending(waiting, id, kind, metrics) => {
                waiting.as_mut().poll(context).map(|mut response| {
                    response.headers_mut().insert(X_REQUEST_ID, id.clone());
                    metrics.count_response(*kind, response.status().as_u16());
                    Ok(response)
                })
            }
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
        let resolution = catch_unwind(AssertUnwindSafe(|| self.resolve(&request)));
        let resolution =
            resolution.unwrap_or_else(|_| Resolution::Respond(self.error(&request, ErrorCode::Internal)));
        match resolution {
            Resolution::Respond(mut response) => {
                response.headers_mut().insert(X_REQUEST_ID, id);
                self.thread.metrics.count_response(RequestKind::Link, response.status().as_u16());
                ResponseFuture::Ready(Some(response))
            }
            Resolution::Load { workspace, host, code, preview } => {
                let answer = self.clone().load_and_respond(request, workspace, host, code, preview);
                ResponseFuture::Pending(
                    Box::pin(answer),
                    id,
                    RequestKind::Link,
                    Arc::clone(&self.thread.metrics),
                )
            }
            Resolution::ControlPlane => {
                let answer = self.clone().forward_to_control(request);
                ResponseFuture::Pending(
                    Box::pin(answer),
                    id,
                    RequestKind::Control,
                    Arc::clone(&self.thread.metrics),
                )
            }
        }
    }
}
