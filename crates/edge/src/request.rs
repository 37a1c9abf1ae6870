//! The facts of one request, as `platform.js` hands them over: one text of lines. No header can hold a line break.

/// What the Worker looks at. Nothing else of a request changes its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeRequest {
    // `GET`, `HEAD`, ...
    pub method: String,
    // `http` or `https`.
    pub scheme: String,
    /// As it stands in the URL, with its port.
    pub host: String,
    pub path: String,
    /// What follows the `?`.
    pub query: String,
    /// `Accept`, when there is one.
    pub accept: Option<String>,
    // `User-Agent`.
    pub user_agent: String,
    // `Referer`.
    pub referrer: String,
    /// The visitor's address. Never kept: see [`rlinks_core::click::ip_prefix`].
    pub address: String,
    /// Two letters, from Cloudflare.
    pub country: String,
    pub colo: String,
    // `Authorization`.
    pub authorization: String,
    // `Content-Type`.
    pub content_type: String,
}

impl EdgeRequest {
    /// Reads the lines. One that is missing is empty.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.split('\n');
        let mut next = || lines.next().unwrap_or_default();
        let (method, url, accept) = (next(), next(), next());
        let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
        let (host, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let after = &after[..after.find('#').unwrap_or(after.len())];
        let (path, query) = after.split_once('?').unwrap_or((after, ""));
        Self {
            method: method.to_owned(),
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            path: if path.is_empty() { "/" } else { path }.to_owned(),
            query: query.to_owned(),
            accept: Some(accept).filter(|accept| !accept.is_empty()).map(str::to_owned),
            user_agent: next().to_owned(),
            referrer: next().to_owned(),
            address: next().to_owned(),
            country: next().to_owned(),
            colo: next().to_owned(),
            authorization: next().to_owned(),
            content_type: next().to_owned(),
        }
    }

    /// Whether only the head of the answer is wanted, and nothing is counted.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }
}

#[cfg(test)]
mod tests {
    use super::EdgeRequest;

    #[test]
    fn request_lines_are_parsed() {
        let request = EdgeRequest::parse(
            "GET\nhttps://rmax.to:8443/a%20b?x=1?y#z\n\nagent\nhttps://r.example/\n192.0.2.7\nNL\nAMS\nBearer t\n",
        );
        assert_eq!(
            (request.scheme.as_str(), request.host.as_str(), request.path.as_str(), request.query.as_str()),
            ("https", "rmax.to:8443", "/a%20b", "x=1?y")
        );
        assert_eq!((request.accept, request.country.as_str(), request.colo.as_str()), (None, "NL", "AMS"));
        let bare = EdgeRequest::parse("GET\nhttp://rmax.to");
        assert_eq!((bare.host.as_str(), bare.path.as_str(), bare.address.as_str()), ("rmax.to", "/", ""));
        assert_eq!(EdgeRequest::parse("GET\nhttp://rmax.to?x").path, "/");
    }
}
