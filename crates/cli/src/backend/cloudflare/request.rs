//! One thing to ask Cloudflare's API, and what comes back.

use http::{Method, StatusCode};
use serde::Deserialize;
use url::Url;

/// One thing to ask.
pub(crate) struct KvRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Option<(&'static str, Vec<u8>)>,
    /// The namespace it is about, for people.
    pub(crate) description: String,
}

pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<u64>,
    pub(crate) body: Vec<u8>,
}

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

impl KvRequest {
    /// Whether the token needs to be one that may change things. Reading many values is a POST too.
    pub(crate) fn is_write(&self) -> bool {
        self.method != Method::GET && !self.url.path().ends_with("/bulk/get")
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use url::Url;

    use super::KvRequest;

    #[test]
    fn reading_many_needs_no_right_to_write() {
        let request = |method, path: &str| KvRequest {
            method,
            url: Url::parse("https://a.example/").unwrap().join(path).unwrap(),
            body: None,
            description: String::new(),
        };
        assert!(!request(Method::POST, "/ns/bulk/get").is_write());
        assert!(!request(Method::GET, "/ns/values/x").is_write());
        assert!(request(Method::POST, "/ns/bulk/delete").is_write());
        assert!(request(Method::PUT, "/ns/values/x").is_write());
    }
}
