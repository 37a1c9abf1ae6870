//! What has just been done, told to the next page alone: a cookie which that page takes away again. So neither a reload nor the way
//! back says it twice, and no address that somebody made up says it at all: it is signed with what only this session knows. It needs
//! no place on a server, so the next page may come from another one.

use http::HeaderValue;
use ring::hmac;
use rlinks_core::hex;
use subtle::ConstantTimeEq as _;

use crate::auth::connection_info::ConnectionInfo;
use crate::auth::cookies::{Cookie, Lifetime};
use crate::auth::session::CurrentSession;
use crate::web::extract::WebRequest;

/// A page that comes later has nothing to do with it any more.
const COOKIE_SECONDS: i64 = 60;

/// The cookie that tells the next page `what`: a query, of at most 3 kB, as browsers keep no longer cookies.
pub fn set(connection: &ConnectionInfo, current: &CurrentSession, what: &str) -> Option<HeaderValue> {
    let value = format!("{}.{what}", signature(current, what));
    Cookie::Notice.set(connection, &value, Lifetime::Seconds(COOKIE_SECONDS))
}

/// What the page before has told.
pub fn read<'a>(request: &'a WebRequest, current: &CurrentSession) -> Option<&'a str> {
    let (given, what) = request.cookie(Cookie::Notice)?.split_once('.')?;
    let is_ours: bool = signature(current, what).as_bytes().ct_eq(given.as_bytes()).into();
    is_ours.then_some(what)
}

/// The cookie that takes it away.
pub fn clear(connection: &ConnectionInfo) -> HeaderValue {
    Cookie::Notice.clear(connection)
}

fn signature(current: &CurrentSession, what: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, current.csrf().as_bytes());
    hex::encode(hmac::sign(&key, format!("notice {what}").as_bytes()).as_ref())
}
