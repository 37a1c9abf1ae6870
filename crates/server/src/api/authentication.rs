//! The middleware before every route of the API: who calls, and whether they have reached their rate limit.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::HeaderName;
use rlinks_ops::limits::RateLimitStatus;

use super::Api;
use super::error::ApiError;
use crate::redirect::body_budget::{BodyAccount, BodyHolder};

/// Before every route: who calls, and whether they have reached their rate limit. After it: what is left of the limit.
pub async fn authenticate(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let caller = match api.auth.authenticate(&parts).await {
        Ok(caller) => caller,
        Err(error) => return error.into_response(),
    };
    if let Some(key) = caller.key() {
        api.auth.key_usage.count(key.id, api.ops.clock.now());
    }
    let rate_limit = match api.ops.count_request(&caller) {
        Ok(rate_limit) => rate_limit,
        Err(refused) => {
            let status = refused.rate_limit();
            let mut response = ApiError::from(refused).into_response();
            if let Some(status) = status {
                set_rate_limit_headers(&mut response, status);
            }
            return response;
        }
    };
    if let Some(account) = parts.extensions.get::<BodyAccount>() {
        account.set_holder(BodyHolder { principal: caller.principal_id(), workspace: caller.workspace.id });
    }
    parts.extensions.insert(Arc::new(caller));
    let mut response = next.run(Request::from_parts(parts, body)).await;
    // A creation has a limit of its own, and says so itself.
    if let Some(rate_limit) = response.extensions().get::<RateLimitStatus>().copied().or(rate_limit) {
        set_rate_limit_headers(&mut response, rate_limit);
    }
    response
}

/// The headers that say what is left of a limit.
fn set_rate_limit_headers(response: &mut Response, rate_limit: RateLimitStatus) {
    let values: [(&'static str, u64); 3] = [
        ("x-ratelimit-limit", rate_limit.limit.into()),
        ("x-ratelimit-remaining", rate_limit.remaining.into()),
        ("x-ratelimit-reset", rate_limit.reset_seconds.into()),
    ];
    for (name, value) in values {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from(value));
    }
}
