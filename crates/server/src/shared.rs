//! What all parts of a running server share.

use std::sync::atomic::{AtomicBool, Ordering};

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use rlinks_clicks::Recording;
use tokio::runtime::Handle;

use crate::clock::Clock;
use crate::config::Reloadable;
use crate::routes::Routes;

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
    /// What the public listener serves besides links.
    pub pages: Router<Arc<Self>>,
    /// Where clicks go.
    pub recording: Recording,
    draining: AtomicBool,
}

impl Shared {
    /// Not draining.
    pub fn new(
        routes: Arc<Routes>,
        clock: Clock,
        reloadable: Reloadable,
        control: Handle,
        pages: Router<Arc<Self>>,
        recording: Recording,
    ) -> Self {
        Self {
            routes,
            clock,
            reloadable: ArcSwap::from_pointee(reloadable),
            control,
            pages,
            recording,
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
