//! Which router answers a request that is not a redirect.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{AUTHORIZATION, CONTENT_SECURITY_POLICY};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use rlinks_core::redirect::path::first_segment;
use rlinks_core::redirect::response::{BROWSER_POLICIES, DATA_SECURITY_POLICY};
use tower::ServiceExt as _;

use crate::auth::connection_info::{ConnectionInfo, SiteOrigin};
use crate::redirect::context::{ControlHandler, ControlRequest, ListenerRole, RedirectContext};
use crate::redirect::refusal_log::Refusal;

/// The routers of the control plane.
pub struct ControlRouters {
    /// Health and the few files browsers ask for; on every listener.
    pub health: Router<Arc<RedirectContext>>,
    // Below `/api`.
    pub api: Router,
    // Below `/admin`.
    pub admin: Router,
    pub metrics: Router<Arc<RedirectContext>>,
}

/// What the serving threads hand requests to.
pub fn handler(context: Arc<RedirectContext>, site: SiteOrigin, routers: ControlRouters) -> ControlHandler {
    let plane = Arc::new(ControlPlane { context, site, routers });
    Arc::new(move |request| {
        let plane = Arc::clone(&plane);
        Box::pin(async move { plane.respond(request).await })
    })
}

struct ControlPlane {
    context: Arc<RedirectContext>,
    site: SiteOrigin,
    routers: ControlRouters,
}

impl ControlPlane {
    async fn respond(&self, request: ControlRequest) -> Response<Body> {
        let ControlRequest { role, peer, request } = request;
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(role);
        let attempt = Attempt::from_request(&request);
        let mut network = None;
        // Nothing else depends on who is signed in.
        if role.serves_control_plane()
            && matches!(first_segment(request.uri().path()), "api" | "admin" | "metrics")
        {
            let settings = self.context.reloadable.load();
            let info = ConnectionInfo::from_request(&self.site, &settings, peer, request.headers());
            network = Some(info.network.clone());
            request.extensions_mut().insert(Arc::new(info));
        }
        let router = self.router(role, request.uri().path());
        let mut response = match router.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        if let (Some(network), Some(refusal)) = (network, attempt.refusal(response.status())) {
            self.context.refusals.record(refusal, &network, self.context.clock.monotonic_ms());
        }
        add_security_headers(response.headers_mut());
        response
    }

    /// The router for a path. They are apart from each other because giving a router its state takes longer the more routes it has.
    fn router(&self, role: ListenerRole, path: &str) -> Router {
        let routers = &self.routers;
        match first_segment(path) {
            "api" if role.serves_control_plane() => routers.api.clone(),
            "admin" if role.serves_control_plane() => routers.admin.clone(),
            "metrics" if role.serves_control_plane() => {
                routers.metrics.clone().with_state(Arc::clone(&self.context))
            }
            _ => routers.health.clone().with_state(Arc::clone(&self.context)),
        }
    }
}

/// What a request tries, as far as a refusal is worth a line in the log.
#[derive(Clone, Copy)]
struct Attempt {
    is_sign_in: bool,
    has_credential: bool,
}

impl Attempt {
    fn from_request<B>(request: &Request<B>) -> Self {
        Self {
            is_sign_in: is_sign_in(request.method(), request.uri()),
            has_credential: request.headers().contains_key(AUTHORIZATION),
        }
    }

    /// Why it was refused, if it was.
    fn refusal(self, status: StatusCode) -> Option<Refusal> {
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND if self.is_sign_in => {
                Some(Refusal::SignIn)
            }
            StatusCode::UNAUTHORIZED if self.has_credential => Some(Refusal::Credential),
            StatusCode::TOO_MANY_REQUESTS if self.is_sign_in => Some(Refusal::LockOut),
            StatusCode::TOO_MANY_REQUESTS => Some(Refusal::RateLimit),
            _ => None,
        }
    }
}

/// Whether a request authenticates a person: by a password, a one-time token, or what an OpenID provider said.
fn is_sign_in(method: &Method, uri: &Uri) -> bool {
    let path = uri.path();
    match *method {
        Method::POST => matches!(
            path,
            "/admin/login"
                | "/admin/setup"
                | "/admin/invite"
                | "/admin/account/password"
                | "/admin/account/delete"
        ),
        Method::GET => {
            let brings_setup_token = path == "/admin/setup" && uri.query().is_some();
            brings_setup_token || path == "/admin/oidc/callback" || path.starts_with("/admin/invite/")
        }
        _ => method == Method::DELETE && path == "/api/v1/me",
    }
}

/// What a browser may do with a response: of pages, which say themselves what they load, and of everything else, which loads nothing.
fn add_security_headers(headers: &mut HeaderMap) {
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(DATA_SECURITY_POLICY));
    for (name, value) in BROWSER_POLICIES {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}
