//! One thing to ask Cloudflare's API, and what comes back.

use http::{Method, StatusCode};
use serde::Deserialize;
use url::Url;

/// One thing to ask.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Option<(&'static str, Vec<u8>)>,
    /// The namespace it is about, for people.
    pub(crate) about: String,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<u64>,
    pub(crate) body: Vec<u8>,
}

/// Cloudflare's envelope.
#[derive(Deserialize)]
pub(crate) struct Envelope<T> {
    #[serde(default)]
    pub(crate) errors: Vec<ApiError>,
    pub(crate) result: Option<T>,
    pub(crate) result_info: Option<ResultInfo>,
}

#[derive(Deserialize)]
pub(crate) struct ApiError {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
}

#[derive(Deserialize)]
pub(crate) struct ResultInfo {
    #[serde(default)]
    pub(crate) cursor: Option<String>,
}

impl Ask {
    /// Whether the token needs to be one that may change things. Reading many values is a POST too.
    pub(crate) fn writes(&self) -> bool {
        self.method != Method::GET && !self.url.path().ends_with("/bulk/get")
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use url::Url;

    use super::Ask;

    #[test]
    fn reading_many_needs_no_right_to_write() {
        let ask = |method, path: &str| Ask {
            method,
            url: Url::parse("https://a.example/").unwrap().join(path).unwrap(),
            body: None,
            about: String::new(),
        };
        assert!(!ask(Method::POST, "/ns/bulk/get").writes());
        assert!(!ask(Method::GET, "/ns/values/x").writes());
        assert!(ask(Method::POST, "/ns/bulk/delete").writes());
        assert!(ask(Method::PUT, "/ns/values/x").writes());
    }
}
