//! What all parts of a running server share.

use std::sync::atomic::{AtomicBool, Ordering};

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use rlinks_clicks::Recording;
use tokio::runtime::Handle;

use crate::auth::connection_info::Entrance;
use crate::control::metrics::Tallies;
use crate::process::config::Reloadable;
use rlinks_core::redirect::path::first_segment;
use rlinks_routes::Routes;
use rlinks_store::clock::Clock;

/// What is served besides links, on which listener.
pub struct Pages {
    /// Health and the few files browsers ask for.
    pub everywhere: Router<Arc<Shared>>,
    /// What is below `/api`, not for the public.
    pub api: Router,
    /// What is below `/admin`, not for the public.
    pub admin: Router,
    /// How the server does, not for the public.
    pub metrics: Router<Arc<Shared>>,
}

/// Which of it a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// Redirects and health only.
    Public,
    /// Everything, for there is no other listener.
    Together,
    /// Everything, and only those it is for can reach it.
    Apart,
}

impl Face {
    /// Whether more than redirects and health are served.
    pub fn has_pages(self) -> bool {
        self != Self::Public
    }
}

impl Pages {
    /// Which of it a request is for. Apart from each other, since giving a router its state takes as long as it has routes.
    pub fn of(shared: &Arc<Shared>, face: Face, path: &str) -> Router {
        match first_segment(path) {
            "api" if face.has_pages() => shared.pages.api.clone(),
            "admin" if face.has_pages() => shared.pages.admin.clone(),
            "metrics" if face.has_pages() => shared.pages.metrics.clone().with_state(Arc::clone(shared)),
            _ => shared.pages.everywhere.clone().with_state(Arc::clone(shared)),
        }
    }
}

/// Shared by the serving threads and the control runtime.
pub struct Shared {
    /// What the redirect path knows.
    pub routes: Arc<Routes>,
    /// What time it is.
    pub clock: Clock,
    /// What SIGHUP may change.
    pub reloadable: ArcSwap<Reloadable>,
    /// Everything that may block runs here.
    pub control: Handle,
    /// What a listener serves besides links.
    pub pages: Pages,
    /// Where clicks go.
    pub recording: Recording,
    /// What is known of our own doors.
    pub entrance: Entrance,
    /// What was done so far.
    pub tallies: Tallies,
    draining: AtomicBool,
}

impl Shared {
    /// Not draining.
    pub fn new(
        routes: Arc<Routes>,
        clock: Clock,
        reloadable: Reloadable,
        control: Handle,
        pages: Pages,
        recording: Recording,
        entrance: Entrance,
    ) -> Self {
        Self {
            routes,
            clock,
            reloadable: ArcSwap::from_pointee(reloadable),
            control,
            pages,
            recording,
            entrance,
            tallies: Tallies::default(),
            draining: AtomicBool::new(false),
        }
    }

    /// From now on `/ready` says 503.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether the server is on its way out.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}
