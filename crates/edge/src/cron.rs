//! Profile `edge`: what happens by the clock. Expired links are purged everywhere, and visits are folded into `visit_count`. Each
//! half stands alone: when one cannot be done, the other is, and the next run finds what was left.

use rlinks_core::Timestamp;
use wasm_bindgen::JsValue;

use crate::cached_link::seconds;
use crate::platform::{self, PlatformError};
use crate::profile::d1;
use crate::settings::Settings;
use crate::{analytics, d1_sql};

pub(crate) async fn run(settings: &Settings, env: &JsValue, now: Timestamp) {
    if let Err(error) = purge(settings, env, now).await {
        platform::log_error(&format!("expired links were not purged: {error}"));
    }
    if let Err(error) = fold(settings, env, now).await {
        platform::log_error(&format!("visits were not folded in: {error}"));
    }
}

/// One batch: a Worker may make a thousand calls, and each purged link costs a few. What is left is there tomorrow, and not served.
async fn purge(settings: &Settings, env: &JsValue, now: Timestamp) -> Result<(), PlatformError> {
    let rows = platform::d1(env, &d1_sql::purge(seconds(now))).await?;
    for code in rows.get(1).into_iter().flatten().filter_map(|row| row.get("slug")?.as_str()) {
        d1::purge_caches(env, code, &d1::cache_urls(settings, code)).await;
    }
    Ok(())
}

/// Adds what has been counted since the watermark. The counts and the watermark are one transaction, and it only goes through
/// while the watermark stands where it was read: a run that is repeated, or meets another, adds nothing twice.
async fn fold(settings: &Settings, env: &JsValue, now: Timestamp) -> Result<(), PlatformError> {
    let Some(api) = &settings.analytics else { return Ok(()) };
    let rows = platform::d1(env, &[d1_sql::watermark()]).await?;
    let watermark = rows.first().and_then(|rows| rows.first()?.get("at")?.as_i64());
    let Some((from, to)) = analytics::unfolded_window(watermark, now) else { return Ok(()) };
    let text = platform::analytics(&api.url, &api.token, &analytics::visits_query(from, to)).await?;
    let counted = analytics::parse_rows(&text, "slug", "visits")
        .ok_or("the analytics API sent what nobody can read")?;
    let visits: Vec<(String, i64)> = counted.into_iter().map(|one| (one.value, one.clicks)).collect();
    platform::d1(env, &d1_sql::fold(&visits, from, to)).await?;
    Ok(())
}
