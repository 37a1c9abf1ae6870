//! Small pieces of the page that several of its parts are made of.

use std::fmt::Write as _;

use rlinks_core::redirect::public_pages::escape;
use serde_json::Value;

pub(crate) const REQUIRED: &str = " <span class=\"flag\">required</span>";

pub(crate) fn badge(method: &str) -> String {
    format!("<span class=\"method {method}\">{}</span>", method.to_ascii_uppercase())
}

/// A path that may be broken before its slashes, and nowhere else unless it must.
pub(crate) fn breakable(path: &str) -> String {
    escape(path).replace('/', "<wbr>/")
}

/// Text with `code` in backticks.
pub(crate) fn inline(words: &str) -> String {
    let mut html = String::new();
    let mut parts = words.split('`').peekable();
    let mut is_code = false;
    while let Some(part) = parts.next() {
        match (is_code, parts.peek().is_some()) {
            (true, true) => {
                let _ = write!(html, "<code>{}</code>", escape(part));
            }
            (true, false) => {
                let _ = write!(html, "`{}", escape(part));
            }
            (false, _) => html.push_str(&escape(part)),
        }
        is_code = !is_code;
    }
    html
}

/// Where something is on the page. Letters that an address could not hold become dashes.
pub(crate) fn anchor(kind: &str, name: &str) -> String {
    let name: String = name
        .chars()
        .map(
            |letter| if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.') { letter } else { '-' },
        )
        .collect();
    format!("{kind}-{name}")
}

/// A string without its quotes; anything else as JSON.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn code(value: &Value) -> String {
    format!("<code>{}</code>", escape(&plain(value)))
}

pub(crate) fn pretty(example: &Value) -> String {
    match example {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).expect("a value is JSON"),
    }
}
