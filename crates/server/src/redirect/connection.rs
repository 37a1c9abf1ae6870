//! The hot path: look up, decide, record, respond.
//!
//! A request for a link the table knows is answered on the spot, without waiting, locking or allocating more than the answer
//! itself. A link it does not know is asked of the store on the control runtime; whatever is no link goes to the router there.
//! A click is in the journal before its answer leaves; looking with HEAD is no click.

use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arc_swap::{ArcSwap, Cache};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, HOST, HeaderName, HeaderValue, LOCATION};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use rlinks_clicks::{Facts, Recorder};
use rlinks_core::click::attribution::{country, is_prefetch};
use rlinks_core::error_code::ErrorCode;
use rlinks_core::host::{HostBuffer, LONGEST, from_header};
use rlinks_core::link::code::{is_code, is_reserved};
use rlinks_core::redirect::decide::{Absence, CacheControl};
use rlinks_core::redirect::negotiate::wants_json;
use rlinks_core::redirect::path::{Asked, LONGEST_PATH, asked, first_segment};
use rlinks_core::redirect::public_pages;
use rlinks_core::redirect::response::{Answer, ROBOTS, SECURITY_TXT};
use rlinks_core::{Decision, Id, Route, Timestamp, Visitor, decide};
use serde_json::Value;

use crate::control::metrics::{Kind, Tally};
use crate::process::config::Reloadable;
use crate::redirect::body::{Body, response};
use crate::redirect::client_address::{Forwarding, is_trusted};
use crate::redirect::context::{Face, Shared};
use crate::redirect::fast_path::{Plain, PlainRequest};
use crate::redirect::miss_limiter::Misses;
use rlinks_routes::Loaded;
use rlinks_routes::host_directory::{Directory, WorkspaceView};
use rlinks_store::clock::{monotonic_ms, random_bytes};

/// All header names and values of a request together.
const MOST_HEADER_BYTES: usize = 16 * 1024;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");
/// On every answer.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The door of one serving thread.
pub struct Door {
    shared: Arc<Shared>,
    face: Face,
    request_ids: AtomicU64,
    misses: Mutex<Misses>,
    misses_counted: Arc<rlinks_clicks::misses::Misses>,
    recorder: Recorder,
    tally: Arc<Tally>,
    /// Connections that ask plainly: their clicks are written together.
    plain: AtomicUsize,
}

/// A connection that asks plainly, for as long as it does.
pub struct Asking<'a>(&'a AtomicUsize);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One connection's view of the door.
#[derive(Clone)]
pub struct Visit {
    door: Arc<Door>,
    peer: SocketAddr,
}

/// How a plain request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plainly {
    /// With a redirect.
    Yes,
    /// Not yet: the store has to be asked.
    Ask(Id),
    /// Not so: it is for the other way.
    No,
}

/// What the first look at a request gave.
enum Look {
    Answer(Response<Body>),
    /// The table does not know; the store might.
    Ask {
        workspace: Arc<WorkspaceView>,
        host: String,
        code: String,
        preview: bool,
    },
    /// Not a link's address.
    Control,
}

impl Door {
    /// A door of its own for each serving thread: nothing in it is shared with another.
    pub fn new(shared: Arc<Shared>, face: Face, tally: Arc<Tally>) -> Self {
        Self {
            face,
            tally,
            recorder: shared.recording.recorder(),
            misses_counted: shared.recording.misses(),
            shared,
            request_ids: AtomicU64::new(u64::from_le_bytes(random_bytes())),
            misses: Mutex::new(Misses::new()),
            plain: AtomicUsize::new(0),
        }
    }

    /// An id no other answer has: random where it begins, and then steps of an odd constant.
    fn request_id(&self) -> [u8; 16] {
        let id = self.request_ids.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        std::array::from_fn(|place| DIGITS[(id >> (60 - 4 * place) & 15) as usize])
    }
}

fn id_header(id: [u8; 16]) -> HeaderValue {
    HeaderValue::from_bytes(&id).expect("hexadecimal is a header value")
}

impl Visit {
    /// A connection from `peer`.
    pub fn new(door: Arc<Door>, peer: SocketAddr) -> Self {
        Self { door, peer }
    }

    /// What SIGHUP may change, for one who looks often.
    pub fn settings(&self) -> Cache<&ArcSwap<Reloadable>, Arc<Reloadable>> {
        Cache::new(&self.shared().reloadable)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.door.shared
    }

    /// From here on it asks plainly.
    pub fn ask_on(&self) -> Asking<'_> {
        self.door.plain.fetch_add(1, Ordering::Relaxed);
        Asking(&self.door.plain)
    }

    /// The whole answer to a plain request for a link that redirects, written to `out`. Nothing is written when it is not as
    /// simple as that.
    pub fn redirect_plainly(&self, request: &PlainRequest<'_>, out: &mut Plain) -> Plainly {
        let mut buffer: HostBuffer = [0; LONGEST];
        let Some(host) = from_header(request.host, &mut buffer) else { return Plainly::No };
        let shared = self.shared();
        let directory = shared.routes.directory.load();
        let Some(workspace) = directory.workspace_of(host) else { return Plainly::No };
        let visitor = Visitor { host, domains: &workspace.served };
        let answer =
            |id: Id, route: Route<'_>| self.answer_plainly(request, workspace, &visitor, (id, route), out);
        match shared.routes.table.load().with(workspace.id, request.code, answer) {
            Some(answered) => answered,
            // While the table is being filled, or does not hold everything, most codes it does not have are links all the same.
            None if !shared.routes.is_complete() && !is_reserved(request.code) => Plainly::Ask(workspace.id),
            None => Plainly::No,
        }
    }

    /// The same for a link that had to be asked of the store.
    pub async fn ask_plainly(&self, workspace: Id, request: &PlainRequest<'_>, out: &mut Plain) -> Plainly {
        let Loaded::Found(record) = self.shared().routes.load(workspace, request.code).await else {
            return Plainly::No;
        };
        let mut buffer: HostBuffer = [0; LONGEST];
        let Some(host) = from_header(request.host, &mut buffer) else { return Plainly::No };
        let directory = self.shared().routes.directory.load_full();
        let Some(view) = directory.workspace_of(host).filter(|view| view.id == workspace) else {
            return Plainly::No;
        };
        let visitor = Visitor { host, domains: &view.served };
        self.answer_plainly(request, view, &visitor, (record.id, record.route()), out)
    }

    /// Puts the clicks of the answers made so far into the journal. Connections that have something to read have their turn before, so that
    /// their clicks are written with the same `write(2)`; whoever comes back first writes them all.
    pub async fn write_clicks(&self) {
        if self.door.recorder.has_noted() {
            if self.door.plain.load(Ordering::Relaxed) > 1 {
                tokio::task::yield_now().await;
            }
            self.door.recorder.write();
        }
    }

    fn answer_plainly(
        &self,
        request: &PlainRequest<'_>,
        workspace: &WorkspaceView,
        visitor: &Visitor<'_>,
        (link, route): (Id, Route<'_>),
        out: &mut Plain,
    ) -> Plainly {
        let now = self.shared().clock.now();
        match decide(Some(route), &workspace.policy, visitor, now) {
            Decision::Redirect { status, target, cache } => {
                if !request.head {
                    self.note(&request.click, request.settings, workspace, link, now);
                }
                let cache = workspace.cache_header(cache);
                out.redirect(status, target, cache.as_bytes(), &self.door.request_id(), request.last, now);
                self.door.tally.answered(Kind::Link, status.code());
                Plainly::Yes
            }
            _ => Plainly::No,
        }
    }

    /// Notes a click for the journal.
    fn note(
        &self,
        click: &Headers<'_>,
        settings: &Reloadable,
        workspace: &WorkspaceView,
        link: Id,
        now: Timestamp,
    ) {
        let peer = self.peer.ip().to_canonical();
        let (mut address, mut country) = (peer, None);
        // Only a proxy we trust may speak for somebody else.
        if is_trusted(peer, &settings.trusted_proxies) {
            address = crate::redirect::client_address::address(
                peer,
                &click.forwarding(),
                &settings.trusted_proxies,
            );
            country = click.country;
        }
        self.door.recorder.note(&Facts {
            now,
            link,
            workspace: workspace.id,
            address,
            user_agent: click.user_agent,
            referrer: click.referrer,
            query: click.query,
            country,
            prefetch: click.prefetch,
            keep: workspace.policy.user_agent,
        });
    }

    fn look(&self, request: &Request<Incoming>) -> Look {
        let path = request.uri().path();
        if path.len() > LONGEST_PATH {
            return Look::Answer(self.error(request, ErrorCode::UriTooLong));
        }
        if request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
            > MOST_HEADER_BYTES
        {
            return Look::Answer(self.error(request, ErrorCode::HeadersTooLarge));
        }
        let mut buffer: HostBuffer = [0; LONGEST];
        let Some(host) = host_of(request, &mut buffer) else {
            return Look::Answer(self.error(request, ErrorCode::BadRequest));
        };
        let directory = self.shared().routes.directory.load();
        match asked(path) {
            Asked::Code(code) => self.look_up(request, &directory, host, &code, false),
            Asked::Preview(code) => self.look_up(request, &directory, host, &code, true),
            Asked::Root => Look::Answer(match self.refuse(request, &directory, host) {
                Some(refusal) => refusal,
                None => response(Answer::page(public_pages::landing())),
            }),
            Asked::Nothing if is_reserved(first_segment(path)) => Look::Control,
            Asked::Nothing => Look::Answer(match self.refuse(request, &directory, host) {
                Some(refusal) => refusal,
                None => match &self.shared().reloadable.load().contact {
                    Some(contact) if path == SECURITY_TXT => {
                        response(Answer::security_txt(contact, self.shared().clock.now()))
                    }
                    _ => self.miss(request, None),
                },
            }),
        }
    }

    /// Look up, decide, respond.
    fn look_up(
        &self,
        request: &Request<Incoming>,
        directory: &Directory,
        host: &str,
        code: &str,
        preview: bool,
    ) -> Look {
        let readable = matches!(*request.method(), Method::GET | Method::HEAD);
        let workspace = directory.workspace_of(host);
        if readable && let Some(workspace) = workspace {
            let visitor = Visitor { host, domains: &workspace.served };
            let answer = |id: Id, route: Route<'_>| {
                self.answer(request, workspace, &visitor, code, Some((id, route)), preview)
            };
            let table = self.shared().routes.table.load();
            if let Some(found) = table.with(workspace.id, code, answer) {
                return Look::Answer(found);
            }
            if workspace.policy.code.fold_case && code.bytes().any(|byte| byte.is_ascii_uppercase()) {
                let folded = code.to_ascii_lowercase();
                if let Some(found) = table.with(workspace.id, &folded, answer) {
                    return Look::Answer(found);
                }
            }
        }
        if is_reserved(code) {
            return Look::Control;
        }
        if let Some(refusal) = self.refuse(request, directory, host) {
            return Look::Answer(refusal);
        }
        match workspace {
            Some(workspace) if !self.shared().routes.is_complete() => Look::Ask {
                workspace: Arc::clone(workspace),
                host: host.to_owned(),
                code: code.to_owned(),
                preview,
            },
            _ => Look::Answer(self.miss(request, workspace.map(|workspace| (&**workspace, code)))),
        }
    }

    /// A host nobody configured is 404; a method links do not have is 405.
    fn refuse(
        &self,
        request: &Request<Incoming>,
        directory: &Directory,
        host: &str,
    ) -> Option<Response<Body>> {
        if directory.workspace_of(host).is_none() {
            // Until the directory is loaded no host is known, and that is no reason to say that a link does not exist.
            let known = self.shared().routes.knows_hosts();
            return Some(
                self.error(request, if known { ErrorCode::NotFound } else { ErrorCode::KvUnavailable }),
            );
        }
        let readable = matches!(*request.method(), Method::GET | Method::HEAD);
        (!readable).then(|| self.error(request, ErrorCode::MethodNotAllowed))
    }

    fn answer(
        &self,
        request: &Request<Incoming>,
        workspace: &WorkspaceView,
        visitor: &Visitor<'_>,
        code: &str,
        link: Option<(Id, Route<'_>)>,
        preview: bool,
    ) -> Response<Body> {
        let now = self.shared().clock.now();
        match decide(link.map(|(_, route)| route), &workspace.policy, visitor, now) {
            Decision::Redirect { target, .. } if preview => {
                let host = link.map_or("", |(_, route)| route.target_host);
                response(Answer::page(public_pages::preview(code, target, host)))
            }
            Decision::Redirect { status, target, cache } => {
                if let (&Method::GET, Some((id, _))) = (request.method(), link) {
                    let settings = self.shared().reloadable.load();
                    let headers = Headers::of(request, settings.country_header.as_ref());
                    self.note(&headers, &settings, workspace, id, now);
                    self.door.recorder.write();
                }
                redirect(status.code(), target, cache, workspace)
            }
            Decision::NotFound(why) => {
                if let (Absence::Insecure, Some((id, _))) = (why, link) {
                    tracing::warn!(link = %id, "a link that must lead to https does not, and is not served");
                }
                // Counted whatever the reason, or who is slowed down could tell hidden links from unknown ones.
                self.miss(request, Some((workspace, code)))
            }
            decision => {
                if let Decision::Gone(_) = decision {
                    self.count_miss(request, workspace, code);
                }
                self.error(request, ErrorCode::of(&decision).unwrap_or(ErrorCode::Internal))
            }
        }
    }

    fn count_miss(&self, request: &Request<Incoming>, workspace: &WorkspaceView, code: &str) {
        if request.method() == Method::GET && is_code(code) {
            self.door.misses_counted.count(workspace.id, code);
        }
    }

    /// A code nobody has. Who guesses too many is slowed down.
    fn miss(&self, request: &Request<Incoming>, missed: Option<(&WorkspaceView, &str)>) -> Response<Body> {
        if let Some((workspace, code)) = missed {
            self.count_miss(request, workspace, code);
        }
        let trusted = self.shared().reloadable.load();
        let forwarding = Forwarding::of(request.headers());
        let address =
            crate::redirect::client_address::address(self.peer.ip(), &forwarding, &trusted.trusted_proxies);
        if self.door.misses.lock().allow(address, monotonic_ms()) {
            return self.error(request, ErrorCode::NotFound);
        }
        let mut slowed = self.error(request, ErrorCode::RateLimited);
        slowed.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
        slowed
    }

    fn error(&self, request: &Request<Incoming>, code: ErrorCode) -> Response<Body> {
        error(request, code, self.shared())
    }

    /// The slow way: the store, asked once for everybody who waits.
    async fn ask(
        self,
        request: Request<Incoming>,
        workspace: Arc<WorkspaceView>,
        host: String,
        code: String,
        preview: bool,
    ) -> Response<Body> {
        let routes = &self.shared().routes;
        let mut loaded = routes.load(workspace.id, &code).await;
        if matches!(loaded, Loaded::Absent)
            && workspace.policy.code.fold_case
            && code.bytes().any(|byte| byte.is_ascii_uppercase())
        {
            loaded = routes.load(workspace.id, &code.to_ascii_lowercase()).await;
        }
        let visitor = Visitor { host: &host, domains: &workspace.served };
        match loaded {
            Loaded::Found(record) => {
                self.answer(&request, &workspace, &visitor, &code, Some((record.id, record.route())), preview)
            }
            Loaded::Absent => self.miss(&request, Some((&workspace, &code))),
            Loaded::Unreadable => self.error(&request, ErrorCode::NotFound),
            Loaded::Unavailable => self.error(&request, ErrorCode::KvUnavailable),
        }
    }

    /// Everything that is no link, on the runtime that may block. A panic there is one answer 500.
    async fn control(self, request: Request<Incoming>) -> Response<Body> {
        let shared = Arc::clone(self.shared());
        let (path, accept) = (request.uri().path().to_owned(), accept_of(&request));
        let handled = shared.control.spawn(crate::control::router::handle(
            Arc::clone(&shared),
            self.door.face,
            self.peer,
            request,
        ));
        match handled.await {
            Ok(handled) => handled.map(Body::Streamed),
            Err(_) => response(Answer::error(
                ErrorCode::Internal,
                ErrorCode::Internal.message(),
                &Value::Null,
                wants_json(&path, accept.as_deref()),
                shared.clock.now(),
            )),
        }
    }
}

/// What a click keeps, or is kept from, of a request's headers.
#[derive(Default)]
pub struct Headers<'a> {
    /// `User-Agent`.
    pub user_agent: &'a [u8],
    /// `Referer`.
    pub referrer: &'a [u8],
    /// What follows the `?`.
    pub query: &'a [u8],
    /// The country, where the configured header names one.
    pub country: Option<[u8; 2]>,
    /// A browser that only looks ahead.
    pub prefetch: bool,
    /// `X-Forwarded-For`, where it is one line.
    pub forwarded_for: Option<&'a [u8]>,
    /// `Forwarded`, where it is one line.
    pub forwarded: Option<&'a [u8]>,
    /// Every line of them, where there may be more.
    pub lines: Option<&'a http::HeaderMap>,
}

/// Headers by which browsers say that nobody has clicked yet.
pub const PURPOSES: [&str; 4] = ["purpose", "sec-purpose", "x-purpose", "x-moz"];

impl<'a> Headers<'a> {
    fn of(request: &'a Request<Incoming>, country_header: Option<&HeaderName>) -> Self {
        let headers = request.headers();
        let value = |name: &str| headers.get(name).map_or(&[][..], HeaderValue::as_bytes);
        Self {
            user_agent: value("user-agent"),
            referrer: value("referer"),
            query: request.uri().query().unwrap_or_default().as_bytes(),
            country: country_header.and_then(|name| country(value(name.as_str()))),
            prefetch: PURPOSES.iter().any(|name| is_prefetch(value(name))),
            lines: Some(headers),
            ..Self::default()
        }
    }

    fn forwarding(&self) -> Forwarding<'a> {
        match self.lines {
            Some(headers) => Forwarding::of(headers),
            None => Forwarding {
                forwarded_for: self.forwarded_for.into_iter().collect(),
                forwarded: self.forwarded.into_iter().collect(),
            },
        }
    }
}

/// An error as JSON or as a page, as the request prefers.
pub fn error<B>(request: &Request<B>, code: ErrorCode, shared: &Shared) -> Response<Body> {
    let as_json = wants_json(request.uri().path(), accept_of(request).as_deref());
    response(Answer::error(code, code.message(), &Value::Null, as_json, shared.clock.now()))
}

fn accept_of<B>(request: &Request<B>) -> Option<String> {
    let lines: Vec<_> = request
        .headers()
        .get_all(http::header::ACCEPT)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .collect();
    (!lines.is_empty()).then(|| lines.join(","))
}

fn redirect(status: u16, target: &str, cache: CacheControl, workspace: &WorkspaceView) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).expect("301, 302, 307 or 308");
    let headers = response.headers_mut();
    headers.reserve(6);
    let location = HeaderValue::from_maybe_shared(Bytes::copy_from_slice(target.as_bytes()));
    headers.insert(LOCATION, location.expect("a target is plain ASCII"));
    headers.insert(CACHE_CONTROL, workspace.cache_header(cache));
    headers.insert(X_ROBOTS_TAG, HeaderValue::from_static(ROBOTS));
    response
}

/// The one host of a request, normalised. Nothing when there is none, more than one, one that is no host, or when the request
/// line names another.
fn host_of<'a>(request: &Request<Incoming>, buffer: &'a mut HostBuffer) -> Option<&'a str> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(header), None) = (hosts.next(), hosts.next()) else { return None };
    let host = from_header(header.as_bytes(), buffer)?;
    if let Some(authority) = request.uri().authority() {
        let mut other: HostBuffer = [0; LONGEST];
        if from_header(authority.as_str().as_bytes(), &mut other)? != host {
            return None;
        }
    }
    Some(host)
}

/// An answer that is there, or one to wait for.
pub enum Answering {
    /// There.
    Now(Option<Response<Body>>),
    /// To wait for.
    Later(Pin<Box<dyn Future<Output = Response<Body>> + Send>>, HeaderValue, Kind, Arc<Tally>),
}

impl Future for Answering {
    type Output = Result<Response<Body>, std::convert::Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Now(response) => Poll::Ready(Ok(response.take().expect("an answer is taken once"))),
            Self::Later(waiting, id, kind, tally) => waiting.as_mut().poll(context).map(|mut response| {
                response.headers_mut().insert(X_REQUEST_ID, id.clone());
                tally.answered(*kind, response.status().as_u16());
                Ok(response)
            }),
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Visit {
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let id = id_header(self.door.request_id());
        // A panic is one answer 500, not the end of the connection's other requests.
        let look = catch_unwind(AssertUnwindSafe(|| self.look(&request)));
        let look = look.unwrap_or_else(|_| Look::Answer(self.error(&request, ErrorCode::Internal)));
        match look {
            Look::Answer(mut response) => {
                response.headers_mut().insert(X_REQUEST_ID, id);
                self.door.tally.answered(Kind::Link, response.status().as_u16());
                Answering::Now(Some(response))
            }
            Look::Ask { workspace, host, code, preview } => {
                let answer = self.clone().ask(request, workspace, host, code, preview);
                Answering::Later(Box::pin(answer), id, Kind::Link, Arc::clone(&self.door.tally))
            }
            Look::Control => {
                let answer = self.clone().control(request);
                Answering::Later(Box::pin(answer), id, Kind::Page, Arc::clone(&self.door.tally))
            }
        }
    }
}
