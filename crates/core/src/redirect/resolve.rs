//! What a request asks for, before any link is looked at: the one walk from method, host and path to a code. The fast path, hyper's path, the
//! Worker and `explain` all make it.

use std::borrow::Cow;

use crate::error_code::ErrorCode;
use crate::host::{HostBuffer, from_header};
use crate::link::code::{CodeRules, is_server_word};
use crate::redirect::path::{MAX_PATH_BYTES, RequestPath, first_segment, parse_path};

/// What may be done with a link: it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestMethod {
    Get,
    Head,
    Other,
}

impl RequestMethod {
    pub fn parse(method: &str) -> Self {
        match method {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            _ => Self::Other,
        }
    }
}

/// What of a request decides what it asks for.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    pub method: RequestMethod,
    /// The one `Host`; `None` if there is none, more than one, or the request line names another.
    pub host: Option<&'a [u8]>,
    pub path: &'a str,
}

/// What a request asks for. `W` is what the caller knows of a workspace.
#[derive(Debug, PartialEq, Eq)]
pub enum Resolution<'a, W> {
    /// Refused whatever is stored.
    Refused(ErrorCode),
    /// A path of the server's own, on every host and for any method.
    ServerPath,
    /// `/` on a host of ours.
    Landing,
    /// A path that no link has, on a host of ours.
    NotALink,
    Link(LinkRequest<'a, W>),
}

/// A request for a link that may or may not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRequest<'a, W> {
    pub workspace: W,
    /// The normalised host.
    pub host: &'a str,
    /// The code as it was sent, escapes decoded.
    pub code: Cow<'a, str>,
    /// `/{code}+`: where it leads, without going there.
    pub preview: bool,
}

/// Resolves a request. `workspace_of` finds the workspace that a normalised host belongs to, or says which error an unknown host gets.
pub fn resolve<'a, W>(
    head: &RequestHead<'a>,
    buffer: &'a mut HostBuffer,
    workspace_of: impl FnOnce(&str) -> Result<W, ErrorCode>,
) -> Resolution<'a, W> {
    if head.path.len() > MAX_PATH_BYTES {
        return Resolution::Refused(ErrorCode::UriTooLong);
    }
    let Some(host) = head.host.and_then(|host| from_header(host, buffer)) else {
        return Resolution::Refused(ErrorCode::BadRequest);
    };
    let path = parse_path(head.path);
    let word = match &path {
        RequestPath::Code(code) | RequestPath::Preview(code) => code,
        RequestPath::NotALink => first_segment(head.path),
        RequestPath::Root => "",
    };
    if is_server_word(word) {
        return Resolution::ServerPath;
    }
    let workspace = match workspace_of(host) {
        Ok(workspace) => workspace,
        Err(error) => return Resolution::Refused(error),
    };
    if head.method == RequestMethod::Other {
        return Resolution::Refused(ErrorCode::MethodNotAllowed);
    }
    match path {
        RequestPath::Root => Resolution::Landing,
        RequestPath::NotALink => Resolution::NotALink,
        RequestPath::Code(code) => Resolution::Link(LinkRequest { workspace, host, code, preview: false }),
        RequestPath::Preview(code) => Resolution::Link(LinkRequest { workspace, host, code, preview: true }),
    }
}

impl<W> LinkRequest<'_, W> {
    /// Looks the code up as it was sent, then in lower case where the rules fold it.
    pub fn find<T>(&self, rules: &CodeRules, mut lookup: impl FnMut(&str) -> Option<T>) -> Option<T> {
        lookup(&self.code).or_else(|| lookup(&rules.folded(&self.code)?))
    }
}

#[cfg(test)]
mod tests {
    use super::{RequestHead, RequestMethod, Resolution, resolve};
    use crate::error_code::ErrorCode;
    use crate::{Policy, Preset};

    /// What a request to a server resolves to that serves `rmax.to` alone.
    #[track_caller]
    fn check(request: &str, expected: &str) {
        let [method, host, path] = request.split(' ').collect::<Vec<_>>()[..] else { panic!("{request}") };
        let method = RequestMethod::parse(method);
        let head = RequestHead { method, host: (host != "-").then_some(host.as_bytes()), path };
        let mut buffer = [0; crate::host::MAX_HOST_BYTES];
        let serve = |host: &str| if host == "rmax.to" { Ok(()) } else { Err(ErrorCode::NotFound) };
        let got = match resolve(&head, &mut buffer, serve) {
            Resolution::Refused(code) => code.status().to_string(),
            Resolution::ServerPath => "server".to_owned(),
            Resolution::Landing => "landing".to_owned(),
            Resolution::NotALink => "no link".to_owned(),
            Resolution::Link(link) if link.preview => format!("preview {}", link.code),
            Resolution::Link(link) => link.code.into_owned(),
        };
        assert_eq!(got, expected, "{request}");
    }

    #[test]
    fn request_is_resolved_by_path_then_host_then_method() {
        check("GET rmax.to /parity", "parity");
        check("HEAD RMAX.to.:443 /par%69ty+", "preview parity");
        check("GET rmax.to /", "landing");
        check("GET rmax.to /a/b", "no link");
        check("POST rmax.to /parity", "405");
        check("POST rmax.to /a/b", "405");
        check("GET stranger.example /parity", "404");
        check("POST stranger.example /parity", "404");
        check("GET - /parity", "400");
        check("GET a..b /health", "400");
        check(&format!("GET - /{}", "a".repeat(2048)), "414");
    }

    #[test]
    fn only_live_words_are_the_servers_own() {
        for path in [
            "/health",
            "/api",
            "/api/v1/links",
            "/admin/login",
            "/robots.txt",
            "/metrics",
            "/health/",
            "/admin+",
        ] {
            check(&format!("GET rmax.to {path}"), "server");
            check(&format!("POST stranger.example {path}"), "server");
        }
        // At Cloudflare this is the name of the audit log, so no link may answer there.
        check("GET rmax.to /__admin__", "server");
        // Words kept for later name links made before they were kept.
        for word in ["dashboard", "www", "Health", "ADMIN"] {
            check(&format!("GET rmax.to /{word}"), word);
        }
        check("GET rmax.to /www/x", "no link");
    }

    #[test]
    fn code_is_folded_only_where_the_policy_folds() {
        let mut buffer = [0; crate::host::MAX_HOST_BYTES];
        let head = RequestHead { method: RequestMethod::Get, host: Some(b"rmax.to"), path: "/Parity" };
        let Resolution::Link(request) = resolve(&head, &mut buffer, |_| Ok(())) else { panic!() };
        let lookups = |preset| {
            let mut codes = Vec::new();
            request.find(&Policy::preset(preset).code, |code| {
                codes.push(code.to_owned());
                None::<()>
            });
            codes
        };
        assert_eq!(lookups(Preset::Fabric), ["Parity", "parity"]);
        assert_eq!(lookups(Preset::Edge), ["Parity"]);
    }
}
