//! A row of a file as it was read: what a link is to be, and what it was elsewhere.

use percent_encoding::percent_decode_str;
use rlinks_clicks::rollup::Total;
use rlinks_core::draft::Input;
use rlinks_core::{Id, LinkSource, LinkState, Timestamp};

/// One link of a file. What the file does not say is nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its place: the line, or which of the list it is.
    pub number: u64,
    /// What a link may be asked to be. Expiry and state stand below: a link may come expired, and in any state.
    pub input: Input,
    /// Until when it answers; `Some(None)` is for ever.
    pub expires_at: Option<Option<Timestamp>>,
    pub state: Option<LinkState>,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// What it had counted.
    pub total: Option<Total>,
    /// Kept only where everything is.
    pub preserved: PreservedFields,
}

/// What a link gets anew unless it is to be exactly the one it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreservedFields {
    pub id: Option<Id>,
    pub created_by: Option<String>,
    /// How often it changed.
    pub version: Option<i64>,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
    /// How it came to be.
    pub source: Option<LinkSource>,
    /// Its code was generated.
    pub generated: bool,
}

impl Row {
    /// The code as the file has it, for the report.
    pub fn reported_code(&self) -> Option<String> {
        self.input.code.as_deref().map(truncated_code)
    }
}

/// As much of a code as a report repeats.
pub(crate) fn truncated_code(code: &str) -> String {
    code.chars().take(100).collect()
}

/// The code of a short URL: its whole path, decoded. The scheme may be missing.
pub(crate) fn code_of_url(url: &str) -> Option<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let address = rest.split(['?', '#']).next().unwrap_or_default();
    let (_, path) = address.trim_end_matches('/').split_once('/')?;
    let code = percent_decode_str(path).decode_utf8().ok()?;
    (!code.is_empty()).then(|| code.into_owned())
}

#[cfg(test)]
mod tests {
    use super::code_of_url;

    #[test]
    fn code_is_taken_from_the_path_of_a_short_url() {
        let codes = [
            ("https://dub.sh/abc", Some("abc")),
            ("dub.sh/abc", Some("abc")),
            ("https://go.example/abc/?x=1#y", Some("abc")),
            ("https://go.example/s/abc", Some("s/abc")),
            ("https://go.example/a%2Db", Some("a-b")),
            ("https://go.example/", None),
            ("https://go.example", None),
            ("abc", None),
        ];
        for (url, code) in codes {
            assert_eq!(code_of_url(url).as_deref(), code, "{url}");
        }
    }
}
