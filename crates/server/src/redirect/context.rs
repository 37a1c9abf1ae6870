//! What the serving threads of a running server share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use rlinks_clicks::ClickPipeline;
use rlinks_core::redirect::LinkRequest;
use rlinks_routes::RouteCache;
use rlinks_routes::host_directory::ServedWorkspace;
use rlinks_store::clock::Clock;
use tokio::runtime::Handle;

use super::body_budget::BodyBudget;
use super::counters::Metrics;
use super::refusal_log::RefusalLog;
use super::request_body::TimedBody;
use super::settings::ReloadableSettings;

/// A request for a link of a workspace that is served here.
pub type ServedLinkRequest<'a> = LinkRequest<'a, &'a Arc<ServedWorkspace>>;

/// What a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerRole {
    /// Redirects and health only.
    PublicOnly,
    /// Everything, because there is only one listener.
    Combined,
    /// Everything, on a listener that only administrators can reach.
    AdminOnly,
}

impl ListenerRole {
    /// Whether the API, the dashboard and metrics are served too.
    pub fn serves_control_plane(self) -> bool {
        self != Self::PublicOnly
    }
}

/// A request that is not a redirect, on its way to the control plane.
pub struct ControlRequest {
    /// The listener it came to.
    pub role: ListenerRole,
    /// The address it came from.
    pub peer: SocketAddr,
    pub request: Request<TimedBody>,
}

/// Answers requests that are not redirects, on the control runtime. Handed in when threads start, so that nothing here depends on the control
/// plane.
pub type ControlHandler =
    Arc<dyn Fn(ControlRequest) -> BoxFuture<'static, Response<axum::body::Body>> + Send + Sync>;

/// Shared by the serving threads and the control runtime.
pub struct RedirectContext {
    /// What the redirect path knows of links and hosts.
    pub routes: Arc<RouteCache>,
    pub clock: Clock,
    pub reloadable: ArcSwap<ReloadableSettings>,
    /// Everything that may block runs here.
    pub control_runtime: Handle,
    pub click_pipeline: ClickPipeline,
    pub metrics: Metrics,
    pub refusals: RefusalLog,
    pub body_budget: Arc<BodyBudget>,
    draining: AtomicBool,
}

impl RedirectContext {
    /// Not draining, with nothing counted yet.
    pub fn new(
        routes: Arc<RouteCache>,
        clock: Clock,
        reloadable: ReloadableSettings,
        control_runtime: Handle,
        recording: ClickPipeline,
    ) -> Self {
        Self {
            routes,
            clock,
            reloadable: ArcSwap::from_pointee(reloadable),
            control_runtime,
            click_pipeline: recording,
            metrics: Metrics::default(),
            refusals: RefusalLog::default(),
            body_budget: Arc::default(),
            draining: AtomicBool::new(false),
        }
    }

    /// From now on `/ready` says 503.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether the server is shutting down.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}
