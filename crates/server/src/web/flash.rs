//! What has just been done, told to the next page alone: a cookie which that page takes away again. So neither a reload nor the way
//! back says it twice, and no address that somebody made up says it at all: it is signed with what only this session knows. It needs
//! no place on a server, so the next page may come from another one.

use http::HeaderValue;
use ring::hmac;
use rlinks_core::hex;
use subtle::ConstantTimeEq as _;

use crate::auth::connection_info::ConnectionInfo;
use crate::auth::session::CurrentSession;
use crate::web::extract::WebRequest;

/// The cookie, but for its prefix.
const COOKIE_NAME: &str = "notice";
/// A page that comes later has nothing to do with it any more.
const COOKIE_SECONDS: u32 = 60;

/// The cookie that tells the next page `what`: a query, of at most 3 kB, as browsers keep no longer cookies.
pub fn set(connection: &ConnectionInfo, current: &CurrentSession, what: &str) -> Option<HeaderValue> {
    cookie(connection, &format!("{}.{what}", signature(current, what)), COOKIE_SECONDS)
}

/// What the page before has told.
pub fn read<'a>(request: &'a WebRequest, current: &CurrentSession) -> Option<&'a str> {
    let (given, what) = request.cookie(&request.connection.cookie_name(COOKIE_NAME))?.split_once('.')?;
    let is_ours: bool = signature(current, what).as_bytes().ct_eq(given.as_bytes()).into();
    is_ours.then_some(what)
}

/// The cookie that takes it away.
pub fn clear(connection: &ConnectionInfo) -> Option<HeaderValue> {
    cookie(connection, "", 0)
}

fn cookie(connection: &ConnectionInfo, value: &str, seconds: u32) -> Option<HeaderValue> {
    let (name, secure) = (connection.cookie_name(COOKIE_NAME), connection.secure_attribute());
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::from_str(&text).ok()
}

fn signature(current: &CurrentSession, what: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, current.csrf().as_bytes());
    hex::encode(hmac::sign(&key, format!("notice {what}").as_bytes()).as_ref())
}
