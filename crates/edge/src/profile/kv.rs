//! Profile `fabric`: KV is the truth, and the Worker never writes it. The steps are those of the source document: the code, the
//! object, absent or not active, expired, a loop, the hit behind the answer, the redirect.

use rlinks_core::error_code::ErrorCode;
use rlinks_core::link::route_object::ParsedRoute;
use rlinks_core::redirect::response::HttpResponse;
use rlinks_core::workspace::policy::InactiveResponse;

use crate::context::RequestContext;
use crate::kv_objects;
use crate::platform::{self, KvValue, PlatformError};
use crate::routing::{self, ClickRecord, EdgeLinkRequest};

enum Lookup {
    Link(ParsedRoute),
    NotFound,
    Deleted,
    /// An object is there that is not served. The log says why.
    Unreadable,
}

/// What the request for a link gets.
pub(crate) async fn handle(context: &RequestContext<'_>, asked: &EdgeLinkRequest<'_>) -> HttpResponse {
    let code = &asked.code;
    let found = match find(context, code).await {
        Ok(found) => found,
        Err(error) => {
            platform::log_error(&format!("KV cannot be read: {error}"));
            return context.error(ErrorCode::KvUnavailable);
        }
    };
    let route = match &found {
        Lookup::Link(route) => Some(route.route()),
        Lookup::Deleted => return context.error(ErrorCode::Deleted),
        Lookup::NotFound | Lookup::Unreadable => None,
    };
    let (answer, click) = routing::respond(context.request, context.settings, asked, route, context.now);
    match (click, &found) {
        (ClickRecord::Write, Lookup::Link(route)) => {
            let (key, value) = kv_objects::hit_record(
                &route.code,
                context.request,
                context.settings.hash_key.as_ref(),
                context.now,
                platform::random(),
            );
            platform::append_hit(context.env, context.execution, &key, &value);
        }
        (ClickRecord::SkipInsecure, _) => {
            platform::log_error(&format!("{code} must lead to https and does not: it is not served"));
        }
        _ => {}
    }
    answer
}

/// The object of a code, as it was asked for and then in lower case, where the policy folds.
async fn find(context: &RequestContext<'_>, code: &str) -> Result<Lookup, PlatformError> {
    match get(context, code).await? {
        Lookup::NotFound => match context.settings.policy.code.folded(code) {
            Some(folded) => get(context, &folded).await,
            None => Ok(Lookup::NotFound),
        },
        found => Ok(found),
    }
}

async fn get(context: &RequestContext<'_>, code: &str) -> Result<Lookup, PlatformError> {
    let json = match platform::kv_get_route(
        context.env,
        &kv_objects::route_key(code),
        kv_objects::KV_CACHE_TTL_SECONDS,
    )
    .await?
    {
        KvValue::Text(json) => json,
        KvValue::TooLarge => {
            platform::log_error(&format!("{code} is not served: its object is too large"));
            return Ok(Lookup::Unreadable);
        }
        KvValue::Missing if context.settings.policy.answers.deleted == InactiveResponse::Gone => {
            let left = platform::kv_get_route(
                context.env,
                &kv_objects::tombstone_key(code),
                kv_objects::KV_CACHE_TTL_SECONDS,
            )
            .await?;
            return Ok(if left == KvValue::Missing { Lookup::NotFound } else { Lookup::Deleted });
        }
        KvValue::Missing => return Ok(Lookup::NotFound),
    };
    Ok(match kv_objects::parse_route(code, &json) {
        Ok(route) => Lookup::Link(route),
        Err(why) => {
            platform::log_error(&format!("{code} is not served: {why}"));
            Lookup::Unreadable
        }
    })
}
