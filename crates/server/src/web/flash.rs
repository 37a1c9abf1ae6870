//! What has just been done, told to the next page alone: a cookie which that page takes away again. So neither a reload nor the way
//! back says it twice, and no address that somebody made up says it at all: it is signed with what only this session knows. It needs
//! no place on a server, so the next page may come from another one.

use http::HeaderValue;
use ring::hmac;
use rlinks_core::hex;
use subtle::ConstantTimeEq as _;

use crate::auth::connection_info::ConnectionInfo;
use crate::auth::session::Signed;
use crate::web::extract::Visit;

/// The cookie, but for its prefix.
const COOKIE: &str = "notice";
/// A page that comes later has nothing to do with it any more.
const SECONDS: u32 = 60;

/// The cookie that tells the next page `what`: a query, of at most 3 kB, as browsers keep no longer cookies.
pub fn tell(way: &ConnectionInfo, signed: &Signed, what: &str) -> Option<HeaderValue> {
    cookie(way, &format!("{}.{what}", signature(signed, what)), SECONDS)
}

/// What the page before has told.
pub fn told<'a>(visit: &'a Visit, signed: &Signed) -> Option<&'a str> {
    let (given, what) = visit.cookie(&visit.way.cookie_name(COOKIE))?.split_once('.')?;
    let is_ours: bool = signature(signed, what).as_bytes().ct_eq(given.as_bytes()).into();
    is_ours.then_some(what)
}

/// The cookie that takes it away.
pub fn forget(way: &ConnectionInfo) -> Option<HeaderValue> {
    cookie(way, "", 0)
}

fn cookie(way: &ConnectionInfo, value: &str, seconds: u32) -> Option<HeaderValue> {
    let (name, secure) = (way.cookie_name(COOKIE), way.secure());
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::from_str(&text).ok()
}

fn signature(signed: &Signed, what: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, signed.csrf().as_bytes());
    hex::encode(hmac::sign(&key, format!("notice {what}").as_bytes()).as_ref())
}
