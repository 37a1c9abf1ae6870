//! The request headers a click needs, whichever way the request is read.

use http::{HeaderName, HeaderValue, Request};
use rlinks_core::click::attribution::{is_prefetch, parse_country};

use super::client_address::ForwardedLines;
use super::settings::ForwardedHeader;

/// The request headers that decide what a click records.
#[derive(Default)]
pub struct ClickHeaders<'a> {
    // `User-Agent`.
    pub user_agent: &'a [u8],
    // `Referer`.
    pub referrer: &'a [u8],
    /// What follows the `?`.
    pub query: &'a [u8],
    /// The country, where the configured header names one.
    pub country: Option<[u8; 2]>,
    /// A browser's prefetch: no click yet.
    pub prefetch: bool,
    /// The configured forwarding header, where it is one line.
    pub forwarded: Option<&'a [u8]>,
    /// Every header, where it may have more.
    pub all_headers: Option<&'a http::HeaderMap>,
}

/// Headers by which browsers mark a prefetch.
pub const PREFETCH_HEADERS: [&str; 4] = ["purpose", "sec-purpose", "x-purpose", "x-moz"];

impl<'a> ClickHeaders<'a> {
    /// The headers of a request that hyper has parsed.
    pub fn from_request<B>(request: &'a Request<B>, country_header: Option<&HeaderName>) -> Self {
        let headers = request.headers();
        let value = |name: &str| headers.get(name).map_or(&[][..], HeaderValue::as_bytes);
        Self {
            user_agent: value("user-agent"),
            referrer: value("referer"),
            query: request.uri().query().unwrap_or_default().as_bytes(),
            country: country_header.and_then(|name| parse_country(value(name.as_str()))),
            prefetch: PREFETCH_HEADERS.iter().any(|name| is_prefetch(value(name))),
            all_headers: Some(headers),
            ..Self::default()
        }
    }

    /// What proxies say about whose request it is.
    pub fn forwarded_lines(&self, header: &'a ForwardedHeader) -> ForwardedLines<'a> {
        match self.all_headers {
            Some(headers) => ForwardedLines::from_headers(headers, header),
            None => ForwardedLines::new(header, self.forwarded),
        }
    }
}
