//! How the pages look and move: one style, one script, and the choice between light and dark, which is a cookie that a small style of
//! its own follows. So it works without the script and nothing flashes.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use rlinks_core::hex;
use sha2::{Digest as _, Sha256};

use super::{Web, see_other};
use crate::auth::cookies::{Cookie, Lifetime};
use crate::web::extract::{SessionForm, WebRequest};

const STYLE_CSS: &str =
    concat!(include_str!("../../templates/style.css"), include_str!("../../templates/workspace.css"));
const APP_JS: &str = include_str!("../../templates/app.js");
/// A browser may keep what has its hash in its address.
const ASSET_CACHE_CONTROL: &str = "public, max-age=86400";
const THEME_COOKIE_SECONDS: i64 = 365 * 24 * 3600;

/// Where the style is. It changes with its content, so that browsers may keep it.
pub fn style_url() -> &'static str {
    static URL: LazyLock<String> = LazyLock::new(|| versioned_url("style.css", STYLE_CSS));
    &URL
}

/// Where the script is.
pub fn script_url() -> &'static str {
    static URL: LazyLock<String> = LazyLock::new(|| versioned_url("app.js", APP_JS));
    &URL
}

fn versioned_url(name: &str, content: &str) -> String {
    format!("/admin/{name}?v={}", &hex::encode(&Sha256::digest(content))[..8])
}

pub async fn style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, ASSET_CACHE_CONTROL)], STYLE_CSS)
        .into_response()
}

pub async fn script() -> Response {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8"), (CACHE_CONTROL, ASSET_CACHE_CONTROL)], APP_JS)
        .into_response()
}

/// Light or dark, as somebody chose; nothing where they did not, and the system decides.
pub async fn theme(request: WebRequest) -> Response {
    let style = match request.cookie(Cookie::Theme) {
        Some("light") => ":root{color-scheme:light}",
        Some("dark") => ":root{color-scheme:dark}",
        _ => "",
    };
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], style).into_response()
}

pub async fn choose_theme(State(_): State<Arc<Web>>, submitted: SessionForm) -> Response {
    let connection = &submitted.request.connection;
    let cookie = match submitted.form.get("theme") {
        theme @ ("light" | "dark") => {
            Cookie::Theme.set(connection, theme, Lifetime::Seconds(THEME_COOKIE_SECONDS))
        }
        _ => Some(Cookie::Theme.clear(connection)),
    };
    see_other("/admin", cookie)
}
