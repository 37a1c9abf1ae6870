//! That a request which changes something was meant by whoever is signed in, and not by a page they happened to look at.
//!
//! Two things together. The browser's own word: `Sec-Fetch-Site` where it sends one, which it does not over plain HTTP, else `Origin`. And a
//! token that another site cannot know: of the session, or, before there is one, of a cookie that comes with the form.

use std::sync::Arc;

use http::header::{HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue};
use ring::hmac;
use rlinks_core::hex;

use super::session::token_cookie;
use crate::auth::connection_info::ConnectionInfo;
use crate::auth::cookies::{Cookie, Lifetime};
use crate::auth::form_key::derive;
use rlinks_core::access::api_key;
use rlinks_ops::shared_keys::SharedKey;
use rlinks_store::clock::Random;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether the browser lets on that another site is behind a request. Programs that say nothing are not stopped here.
pub fn is_cross_site(headers: &HeaderMap, connection: &ConnectionInfo) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).into_iter().peekable();
    if sites.peek().is_some() {
        return sites.any(|site| site != "same-origin" && site != "none");
    }
    headers
        .get_all(ORIGIN)
        .into_iter()
        .any(|origin| !origin.to_str().is_ok_and(|origin| connection.is_own_origin(origin)))
}

/// Tokens of forms for people who are not signed in: the form has the signature of what the cookie has. Nothing is kept here for
/// them, so a million visitors leave nothing behind.
pub struct CsrfTokens {
    key: Arc<SharedKey>,
    random: Random,
}

/// What a form needs: the token in it, and the cookie where the browser has none yet.
pub struct CsrfToken {
    pub token: String,
    pub cookie: Option<HeaderValue>,
}

impl CsrfTokens {
    /// Tokens of this key. Servers that share one know each other's.
    pub(super) fn new(key: Arc<SharedKey>, random: Random) -> Self {
        Self { key, random }
    }

    /// For a form about to be shown.
    pub fn issue(&self, headers: &HeaderMap, connection: &ConnectionInfo) -> CsrfToken {
        if let Some(known) = token_cookie(headers, connection, Cookie::Form) {
            return CsrfToken { token: self.sign(known), cookie: None };
        }
        let fresh = self.random.draw(api_key::random_token);
        let cookie = Cookie::Form.set(connection, &fresh, Lifetime::BrowserSession);
        CsrfToken { token: self.sign(&fresh), cookie }
    }

    /// Whether a form that came back is one we gave to this browser.
    pub fn is_valid(&self, headers: &HeaderMap, connection: &ConnectionInfo, token: &str) -> bool {
        let Some(known) = token_cookie(headers, connection, Cookie::Form) else { return false };
        let Some(token) = hex::decode(token) else { return false };
        let is_ours = |key| hmac::verify(&derive(&key, "forms"), known.as_bytes(), &token).is_ok();
        self.key.accepted().any(is_ours)
    }

    fn sign(&self, cookie: &str) -> String {
        hex::encode(hmac::sign(&derive(&self.key.current(), "forms"), cookie.as_bytes()).as_ref())
    }
}
