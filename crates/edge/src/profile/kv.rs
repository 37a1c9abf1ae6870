//! Profile `fabric`: KV is the truth, and the Worker never writes it. The steps are those of the source document: the code, the
//! object, absent or not active, expired, a loop, the hit behind the answer, the redirect.

use rlinks_core::error_code::ErrorCode;
use rlinks_core::link::route_object::ParsedRoute;
use rlinks_core::redirect::response::HttpResponse;
use rlinks_core::workspace::policy::InactiveResponse;

use crate::context::RequestContext;
use crate::kv_objects;
use crate::platform::{self, Away, Held};
use crate::routing::{self, Click};

enum Found {
    Link(ParsedRoute),
    Nothing,
    Deleted,
    /// An object is there that is not served. The log says why.
    Unreadable,
}

/// What the request for a link gets.
pub(crate) async fn answer(context: &RequestContext<'_>, code: &str, preview: bool) -> HttpResponse {
    let found = match find(context, code).await {
        Ok(found) => found,
        Err(away) => {
            platform::complain(&format!("KV cannot be read: {away}"));
            return context.error(ErrorCode::KvUnavailable);
        }
    };
    let route = match &found {
        Found::Link(route) => Some(route.route()),
        Found::Deleted => return context.error(ErrorCode::Deleted),
        Found::Nothing | Found::Unreadable => None,
    };
    let (answer, click) =
        routing::respond(context.facts, context.settings, (code, preview), route, context.now);
    match (click, &found) {
        (Click::Yes, Found::Link(route)) => {
            let (key, value) = kv_objects::record(
                &route.code,
                context.facts,
                context.settings.hash_key.as_ref(),
                context.now,
                platform::random(),
            );
            platform::append_hit(context.env, context.execution, &key, &value);
        }
        (Click::Insecure, _) => {
            platform::complain(&format!("{code} must lead to https and does not: it is not served"));
        }
        _ => {}
    }
    answer
}

/// The object of a code, as it was asked for and then in lower case, where the policy folds.
async fn find(context: &RequestContext<'_>, code: &str) -> Result<Found, Away> {
    let found = get(context, code).await?;
    let folds = context.settings.policy.code.fold_case && code.bytes().any(|byte| byte.is_ascii_uppercase());
    if folds && matches!(found, Found::Nothing) {
        get(context, &code.to_ascii_lowercase()).await
    } else {
        Ok(found)
    }
}

async fn get(context: &RequestContext<'_>, code: &str) -> Result<Found, Away> {
    let json =
        match platform::route(context.env, &kv_objects::route_key(code), kv_objects::KEPT_SECONDS).await? {
            Held::Text(json) => json,
            Held::TooLarge => {
                platform::complain(&format!("{code} is not served: its object is too large"));
                return Ok(Found::Unreadable);
            }
            Held::Nothing if context.settings.policy.answers.deleted == InactiveResponse::Gone => {
                let left =
                    platform::route(context.env, &kv_objects::tombstone_key(code), kv_objects::KEPT_SECONDS)
                        .await?;
                return Ok(if left == Held::Nothing { Found::Nothing } else { Found::Deleted });
            }
            Held::Nothing => return Ok(Found::Nothing),
        };
    Ok(match kv_objects::read_route(code, &json) {
        Ok(route) => Found::Link(route),
        Err(why) => {
            platform::complain(&format!("{code} is not served: {why}"));
            Found::Unreadable
        }
    })
}
