//! The state of one serving thread. Nothing in it is shared with another serving thread.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use http::Response;
use http::header::{HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY};
use parking_lot::Mutex;
use rlinks_clicks::{ClickContext, Recorder};
use rlinks_core::{Id, Timestamp, hex};
use rlinks_routes::host_directory::ServedWorkspace;

use super::body::Body;
use super::click_headers::ClickHeaders;
use super::client_address::{self, is_trusted};
use super::connection_limits::ConnectionSlots;
use super::context::{ControlHandler, ListenerRole, RedirectContext};
use super::counters::{RequestKind, ThreadMetrics};
use super::miss_limiter::MissLimiter;
use super::settings::ReloadableSettings;

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub struct ServingThread {
    pub context: Arc<RedirectContext>,
    pub role: ListenerRole,
    pub control: ControlHandler,
    /// Of all threads of the listener.
    pub slots: Arc<ConnectionSlots>,
    pub metrics: Arc<ThreadMetrics>,
    /// `Strict-Transport-Security` of every response, on a listener that speaks TLS.
    pub hsts: Option<HeaderValue>,
    pub miss_limiter: Mutex<MissLimiter>,
    pub miss_counter: Arc<rlinks_clicks::misses::MissCounter>,
    recorder: Recorder,
    request_ids: AtomicU64,
    /// Connections in the fast path: their clicks are written together.
    fast_connections: AtomicUsize,
}

impl ServingThread {
    pub fn new(
        context: Arc<RedirectContext>,
        role: ListenerRole,
        control: ControlHandler,
        slots: Arc<ConnectionSlots>,
        metrics: Arc<ThreadMetrics>,
        hsts: Option<HeaderValue>,
        first_request_id: u64,
    ) -> Self {
        Self {
            role,
            control,
            slots,
            metrics,
            hsts,
            miss_limiter: Mutex::new(MissLimiter::new()),
            miss_counter: context.click_pipeline.misses(),
            recorder: context.click_pipeline.recorder(),
            request_ids: AtomicU64::new(first_request_id),
            context,
            fast_connections: AtomicUsize::new(0),
        }
    }

    /// An id no other response has: the first is random, and each next one is an odd constant further on.
    pub fn request_id(&self) -> [u8; 16] {
        hex::encode_u64(self.request_ids.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
    }

    /// The same as a header value.
    pub fn request_id_header(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.request_id()).expect("hexadecimal is a header value")
    }

    /// Adds what every response has, and counts it.
    pub fn finish(&self, response: &mut Response<Body>, id: HeaderValue, kind: RequestKind) {
        response.headers_mut().insert(X_REQUEST_ID, id);
        if let Some(hsts) = &self.hsts {
            response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
        }
        self.metrics.count_response(kind, response.status().as_u16());
    }

    /// Counts a connection as one in the fast path until the guard is dropped.
    pub fn enter_fast_path(&self) -> FastPathGuard<'_> {
        self.fast_connections.fetch_add(1, Ordering::Relaxed);
        FastPathGuard(&self.fast_connections)
    }

    /// Stages a click for the journal. It is safe once [`flush_clicks`](Self::flush_clicks) has returned.
    pub fn stage_click(
        &self,
        peer: SocketAddr,
        click: &ClickHeaders<'_>,
        settings: &ReloadableSettings,
        workspace: &ServedWorkspace,
        link: Id,
        now: Timestamp,
    ) {
        let peer = peer.ip().to_canonical();
        let (mut address, mut country) = (peer, None);
        // Forwarding headers count only from a proxy we trust.
        if is_trusted(peer, &settings.trusted_proxies) {
            let forwarded = click.forwarded_lines(&settings.forwarded_header);
            address = client_address::address(peer, &forwarded, &settings.trusted_proxies);
            country = click.country;
        }
        self.recorder.stage(&ClickContext {
            now,
            link,
            workspace: workspace.id,
            address,
            user_agent: click.user_agent,
            referrer: click.referrer,
            query: click.query,
            country,
            prefetch: click.prefetch,
            user_agent_retention: workspace.policy.user_agent,
        });
    }

    /// Writes the staged clicks into the journal.
    pub fn flush_clicks(&self) {
        self.recorder.flush();
    }

    /// The same, but first every other connection in the fast path that has something to read has its turn, so that their clicks are written
    /// with one `write(2)`. Whichever connection comes back first writes them all.
    pub async fn flush_clicks_together(&self) {
        if self.recorder.has_staged() {
            if self.fast_connections.load(Ordering::Relaxed) > 1 {
                tokio::task::yield_now().await;
            }
            self.recorder.flush();
        }
    }
}

/// A connection in the fast path.
pub struct FastPathGuard<'a>(&'a AtomicUsize);

impl Drop for FastPathGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
