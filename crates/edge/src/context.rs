//! A request, and what answers it: settings, bindings, the clock.

use rlinks_core::Timestamp;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::redirect::response::HttpResponse;
use wasm_bindgen::JsValue;
use worker::Context;

use crate::request::EdgeRequest;
use crate::routing;
use crate::settings::Settings;

pub(crate) struct RequestContext<'a> {
    pub(crate) request: &'a EdgeRequest,
    pub(crate) settings: &'a Settings,
    pub(crate) env: &'a JsValue,
    /// Keeps the Worker running for what happens after the answer.
    pub(crate) execution: &'a Context,
    pub(crate) now: Timestamp,
}

impl RequestContext<'_> {
    pub(crate) fn error(&self, code: ErrorCode) -> HttpResponse {
        routing::error(self.request, code, self.now)
    }
}
