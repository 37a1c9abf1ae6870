//! What a path asks for. The rest of a request never influences where a link leads.

use std::borrow::Cow;

use crate::link::code::is_code;

/// Paths longer than this are refused before anything is looked up.
pub const MAX_PATH_BYTES: usize = 2048;

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestPath<'a> {
    // `/`
    Root,
    // `/{code}`
    Code(Cow<'a, str>),
    /// `/{code}+`: where it leads, without going there.
    Preview(Cow<'a, str>),
    /// Nothing a link can answer: further segments, a trailing slash, characters no code has.
    NotALink,
}

/// Reads a path. Escapes are decoded once; the query is not part of it.
#[inline]
pub fn parse_path(path: &str) -> RequestPath<'_> {
    match path.strip_prefix('/') {
        None => RequestPath::NotALink,
        Some("") => RequestPath::Root,
        Some(code) if is_code(code) => RequestPath::Code(Cow::Borrowed(code)),
        Some(rest) => parse_decoded(rest),
    }
}

fn parse_decoded(rest: &str) -> RequestPath<'_> {
    let decoded = if rest.contains('%') {
        match percent_encoding::percent_decode_str(rest).decode_utf8() {
            Ok(text) => text,
            Err(_) => return RequestPath::NotALink,
        }
    } else {
        Cow::Borrowed(rest)
    };
    if is_code(&decoded) {
        return RequestPath::Code(decoded);
    }
    match without_plus(decoded) {
        Some(code) if is_code(&code) => RequestPath::Preview(code),
        _ => RequestPath::NotALink,
    }
}

/// What stands between the first two slashes.
pub fn first_segment(path: &str) -> &str {
    let path = path.strip_prefix('/').unwrap_or(path);
    &path[..path.find('/').unwrap_or(path.len())]
}

fn without_plus(text: Cow<'_, str>) -> Option<Cow<'_, str>> {
    match text {
        Cow::Borrowed(text) => text.strip_suffix('+').map(Cow::Borrowed),
        Cow::Owned(text) => text.strip_suffix('+').map(|code| Cow::Owned(code.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::{RequestPath, parse_path};

    #[test]
    fn code_is_the_whole_path() {
        assert_eq!(parse_path("/parity"), RequestPath::Code("parity".into()));
        assert_eq!(parse_path("/%70arity"), RequestPath::Code("parity".into()));
        assert_eq!(parse_path("/Parity_-9"), RequestPath::Code("Parity_-9".into()));
        assert_eq!(parse_path("/parity+"), RequestPath::Preview("parity".into()));
        assert_eq!(parse_path("/parity%2B"), RequestPath::Preview("parity".into()));
        assert_eq!(parse_path("/"), RequestPath::Root);
    }

    /// Hostile inputs, S1 and S3.
    #[test]
    fn any_other_path_is_not_a_link() {
        for path in [
            "",
            "*",
            "parity",
            "/parity/",
            "/a/b",
            "//",
            "//evil.example",
            "/ok//evil.example",
            "/ok/%2f%2fevil",
            "/a%2fb",
            "/a%0d%0aSet-Cookie:%20x=1",
            "/a%00b",
            "/%ff%fe",
            "/%2570",
            "/a b",
            "/+",
            "/a++",
            "/ä",
            "/a.json",
            "/%",
        ] {
            assert_eq!(parse_path(path), RequestPath::NotALink, "{path}");
        }
        assert_eq!(parse_path(&format!("/{}", "a".repeat(65))), RequestPath::NotALink);
    }
}
