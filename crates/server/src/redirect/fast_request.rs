//! The one shape of request the fast path reads: a whole GET or HEAD with ordinary headers and no body, parsed where it lies.

use std::mem::MaybeUninit;
use std::net::SocketAddr;

use http::HeaderName;
use rlinks_core::click::attribution::{is_prefetch, parse_country};
use rlinks_core::redirect::{RequestHead, RequestMethod};

use super::click_headers::{ClickHeaders, PREFETCH_HEADERS};
use super::settings::ReloadableSettings;

const MAX_HEADERS: usize = 32;

/// A request the fast path can answer, borrowed from the bytes it was read into.
pub struct FastRequest<'a> {
    /// How many bytes it takes.
    pub length: usize,
    /// The address it came from.
    pub peer: SocketAddr,
    pub head: RequestHead<'a>,
    /// The connection closes after it.
    pub last: bool,
    /// The headers a click needs.
    pub click: ClickHeaders<'a>,
    pub settings: &'a ReloadableSettings,
}

impl<'a> FastRequest<'a> {
    /// Reads the request at the start of `bytes`; nothing if it needs hyper.
    pub fn parse(bytes: &'a [u8], peer: SocketAddr, settings: &'a ReloadableSettings) -> Option<Self> {
        // Without trusted proxies it says nothing.
        let trusts_proxies = !settings.trusted_proxies.is_empty();
        let forwarded_header = trusts_proxies.then(|| settings.forwarded_header.name().as_str());
        let country_header = settings.country_header.as_ref().map(HeaderName::as_str);
        let mut headers = [MaybeUninit::uninit(); MAX_HEADERS];
        let mut request = httparse::Request::new(&mut []);
        let Ok(httparse::Status::Complete(length)) = request.parse_with_uninit_headers(bytes, &mut headers)
        else {
            return None;
        };
        let method_length = request.method?.len();
        let method = RequestMethod::parse(request.method?);
        if method == RequestMethod::Other {
            return None;
        }
        // A target in absolute form names a host too.
        let target = request.path.filter(|target| target.starts_with('/') && request.version == Some(1))?;
        // httparse takes a line feed for the end of a line; the checked stream does not. An empty line before the request is unusual.
        let ends_line = |at: usize| bytes.get(at) == Some(&b'\r');
        let request_line = method_length + " ".len() + target.len() + " HTTP/1.1".len();
        if !matches!(bytes, [b'G' | b'H', ..]) || !ends_line(request_line) || !ends_line(length - 2) {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut click = ClickHeaders { query: query.as_bytes(), ..ClickHeaders::default() };
        let (mut host, mut last) = (None, false);
        for header in request.headers.iter() {
            if !ends_line(offset(bytes, header.value) + header.value.len()) {
                return None;
            }
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            match header.name.len() {
                4 if is("host") => match host {
                    None => host = Some(header.value),
                    Some(_) => return None,
                },
                7 if is("referer") => click.referrer = header.value,
                10 if is("user-agent") => click.user_agent = header.value,
                10 if is("connection") => match header.value {
                    b"keep-alive" => {}
                    b"close" => last = true,
                    _ => return None,
                },
                // What gives a request a body, or asks for anything but an answer.
                6 if is("expect") => return None,
                7 if is("upgrade") || is("trailer") => return None,
                14 if is("content-length") => return None,
                17 if is("transfer-encoding") => return None,
                5 | 7 | 9 | 11 if PREFETCH_HEADERS.into_iter().any(is) => {
                    click.prefetch |= is_prefetch(header.value);
                }
                _ => {}
            }
            // hyper's path reads several lines of it.
            if forwarded_header.is_some_and(is) && click.forwarded.replace(header.value).is_some() {
                return None;
            }
            if country_header.is_some_and(is) {
                click.country = parse_country(header.value);
            }
        }
        let head = RequestHead { method, host: Some(host?), path };
        Some(Self { length, peer, head, last, click, settings })
    }
}

/// Where in `bytes` the `part` of it begins.
fn offset(bytes: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::FastRequest;

    #[track_caller]
    fn check(request: &str, expected: Option<(&str, &str, bool)>) {
        let settings = crate::redirect::settings::ReloadableSettings::default();
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let got = FastRequest::parse(request.as_bytes(), peer, &settings);
        let got = got
            .as_ref()
            .map(|got| (std::str::from_utf8(got.head.host.unwrap()).unwrap(), got.head.path, got.last));
        assert_eq!(got, expected, "{request:?}");
    }

    #[test]
    fn only_complete_requests_with_ordinary_headers_are_parsed() {
        check("GET /ok HTTP/1.1\r\nHost: a\r\n\r\n", Some(("a", "/ok", false)));
        check(
            "HEAD /ok?x=1&y HTTP/1.1\r\nhost: a\r\nConnection: close\r\nTE: trailers\r\n\r\n",
            Some(("a", "/ok", true)),
        );
        check("GET /ok HTTP/1.1\r\nHost:a\r\nX:\r\nY: \r\n\r\n", Some(("a", "/ok", false)));
        check(
            "GET /ok HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\nGET /more",
            Some(("a", "/ok", false)),
        );
        for request in [
            "GET /ok HTTP/1.1\r\nHost: a\r\n",
            "GET /ok HTTP/1.0\r\nHost: a\r\n\r\n",
            "POST /ok HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/ok HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /ok HTTP/1.1\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
            "\nGET /ok HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /ok HTTP/1.1\nHost: a\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\n\r\n",
            "GET /ok HTTP/1.1\r\nHost:  a\n\r\n",
            "GET /ok HTTP/1.1\r\nX:\nHost: a\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\n\n",
            "\u{16}\u{3}\u{1} not http",
        ] {
            check(request, None);
        }
    }
}
