//! Signed tokens (JWT): is this one of the issuer's, for us, now, and of the kind it is used as?
//!
//! The signature is ring's work. A key knows its one algorithm; what a token says about algorithms and keys can only make it refused.
//! The time is an argument.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rlinks_core::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;

use super::Algorithm;
use super::jwks::{Key, MAX_KID_BYTES};

/// Longer text is no token of anybody we know.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// The longest subject OpenID allows.
const MAX_SUBJECT_BYTES: usize = 255;
/// Clocks may differ by this much.
const LEEWAY_SECONDS: i64 = 30;
/// Times beyond this, some thirty thousand years away, are a mistake.
const MAX_TIME_SECONDS: f64 = 1e12;

/// Why a token is not believed. For the log and for tests: a caller only learns that it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not three parts of base64url with JSON in them, or too long.
    #[error("it is not a token")]
    Malformed,
    /// An extension that must be understood, and is not.
    #[error("it needs an extension we do not have")]
    UnsupportedExtension,
    /// No name of a key, or one that is too long.
    #[error("it names no key")]
    MissingKid,
    /// The issuer has no such key.
    #[error("it names a key the issuer does not have")]
    UnknownKey,
    /// Not the algorithm of its key, or none that is allowed.
    #[error("its algorithm is not that of its key")]
    Algorithm,
    /// Somebody else wrote it, or changed it.
    #[error("its signature is wrong")]
    Signature,
    /// A claim is missing or says something else than it must.
    #[error("its claim `{0}` is missing or wrong")]
    Claim(&'static str),
    /// An ID token where an access token belongs, for example.
    #[error("it is another kind of token")]
    WrongKind,
}

/// The claims of a token.
pub type Claims = Map<String, Value>;

/// A token taken apart, not believed yet.
pub struct Token<'a> {
    header: Header,
    claims: Vec<u8>,
    signed: &'a str,
    signature: Vec<u8>,
}

/// What is read of a header. What it says about where keys are (`jku`, `x5u`, `jwk`) is nobody's business.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
    b64: Option<Value>,
}

/// What a token must be.
#[derive(Clone, Copy, Debug)]
pub enum TokenUse<'a> {
    /// To call the API with: for this audience.
    Access {
        /// Who we are to those who ask for tokens.
        audience: &'a str,
        /// Who we are to the provider when people sign in. ID tokens are for this one.
        client_id: &'a str,
    },
    /// To learn who signed in: for us, and for this sign-in.
    Id {
        client_id: &'a str,
        /// What we asked the provider to put into it.
        nonce: &'a str,
    },
}

impl<'a> Token<'a> {
    /// Takes a token apart.
    pub fn parse(text: &'a str) -> Result<Self, TokenError> {
        if text.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Malformed);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed);
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::Malformed)?;
        if header.crit.is_some() || header.b64.is_some() {
            return Err(TokenError::UnsupportedExtension);
        }
        Ok(Self { header, claims: decode(claims)?, signed, signature: decode(signature)? })
    }

    /// The name of the key it says it was signed with.
    pub fn kid(&self) -> Result<&str, TokenError> {
        let kid = self.header.kid.as_deref().filter(|kid| !kid.is_empty() && kid.len() <= MAX_KID_BYTES);
        kid.ok_or(TokenError::MissingKid)
    }

    /// The claims, if it was signed with this key and is what it must be.
    pub fn verify(
        self,
        key: &Key,
        issuer: &str,
        used: TokenUse<'_>,
        now: Timestamp,
    ) -> Result<Claims, TokenError> {
        if Algorithm::from_name(&self.header.alg) != Some(key.algorithm()) {
            return Err(TokenError::Algorithm);
        }
        if !key.verifies(self.signed.as_bytes(), &self.signature) {
            return Err(TokenError::Signature);
        }
        let claims: Claims = serde_json::from_slice(&self.claims).map_err(|_| TokenError::Malformed)?;
        check_common(&claims, issuer, now)?;
        match used {
            TokenUse::Access { audience, client_id } => {
                check_access(self.header.typ.as_deref(), &claims, audience, client_id)?;
            }
            TokenUse::Id { client_id, nonce } => {
                check_id(self.header.typ.as_deref(), &claims, client_id, nonce)?;
            }
        }
        Ok(claims)
    }
}

/// A claim that is text.
pub fn text_claim<'a>(claims: &'a Claims, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str)
}

/// When a token ends. Those we believed have this.
pub fn expires_at(claims: &Claims) -> Option<Timestamp> {
    seconds(claims, "exp")
        .ok()
        .flatten()
        .map(|at| Timestamp::from_ms((at + LEEWAY_SECONDS).saturating_mul(1000)))
}

fn check_common(claims: &Claims, issuer: &str, now: Timestamp) -> Result<(), TokenError> {
    if text_claim(claims, "iss") != Some(issuer) {
        return Err(TokenError::Claim("iss"));
    }
    let subject = text_claim(claims, "sub").ok_or(TokenError::Claim("sub"))?;
    if subject.is_empty() || subject.len() > MAX_SUBJECT_BYTES || subject.chars().any(char::is_control) {
        return Err(TokenError::Claim("sub"));
    }
    let now = now.ms().div_euclid(1000);
    let expires = seconds(claims, "exp")?.ok_or(TokenError::Claim("exp"))?;
    if expires + LEEWAY_SECONDS <= now {
        return Err(TokenError::Claim("exp"));
    }
    for name in ["nbf", "iat"] {
        if seconds(claims, name)?.is_some_and(|from| from - LEEWAY_SECONDS > now) {
            return Err(TokenError::Claim(name));
        }
    }
    Ok(())
}

/// A time in seconds, where there is one. A text or a number from another universe is refused rather than overlooked.
fn seconds(claims: &Claims, name: &'static str) -> Result<Option<i64>, TokenError> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let number =
        value.as_f64().filter(|number| number.abs() <= MAX_TIME_SECONDS).ok_or(TokenError::Claim(name))?;
    #[expect(clippy::cast_possible_truncation, reason = "whole seconds are wanted, and it is small enough")]
    Ok(Some(number as i64))
}

/// An access token is for our audience, and is nothing else. Those that say what they are (`at+jwt`, RFC 9068) are believed; of the
/// others every mark of another kind is looked for.
fn check_access(
    typ: Option<&str>,
    claims: &Claims,
    audience: &str,
    client_id: &str,
) -> Result<(), TokenError> {
    if !audiences(claims)?.contains(&audience) {
        return Err(TokenError::Claim("aud"));
    }
    // Bound to a key of the caller's (RFC 8705, RFC 9449), and we cannot see whether they have it.
    if claims.contains_key("cnf") {
        return Err(TokenError::WrongKind);
    }
    let is_typed = typ.is_some_and(|typ| is_media_type(typ, "at+jwt"));
    let is_plain = typ.is_none_or(|typ| is_media_type(typ, "jwt"));
    let is_marked =
        ["nonce", "at_hash", "c_hash", "s_hash", "events"].iter().any(|mark| claims.contains_key(*mark));
    let says_otherwise = text_claim(claims, "typ").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer"))
        || text_claim(claims, "token_use").is_some_and(|kind| kind != "access");
    // Where the API and the sign-in have one name, nothing tells an untyped access token from an ID token.
    let is_ambiguous = audience == client_id;
    if is_typed || is_plain && !is_marked && !says_otherwise && !is_ambiguous {
        return Ok(());
    }
    Err(TokenError::WrongKind)
}

fn check_id(typ: Option<&str>, claims: &Claims, client_id: &str, nonce: &str) -> Result<(), TokenError> {
    if typ.is_some_and(|typ| !is_media_type(typ, "jwt")) {
        return Err(TokenError::WrongKind);
    }
    let audiences = audiences(claims)?;
    if !audiences.contains(&client_id) {
        return Err(TokenError::Claim("aud"));
    }
    let party = text_claim(claims, "azp");
    if party.is_some_and(|party| party != client_id) || party.is_none() && audiences.len() > 1 {
        return Err(TokenError::Claim("azp"));
    }
    if !claims.contains_key("iat") {
        return Err(TokenError::Claim("iat"));
    }
    let said = text_claim(claims, "nonce").unwrap_or_default();
    if !bool::from(said.as_bytes().ct_eq(nonce.as_bytes())) {
        return Err(TokenError::Claim("nonce"));
    }
    Ok(())
}

fn audiences(claims: &Claims) -> Result<Vec<&str>, TokenError> {
    match claims.get("aud") {
        Some(Value::String(one)) => Ok(vec![one]),
        Some(Value::Array(several)) => {
            several.iter().map(|one| one.as_str().ok_or(TokenError::Claim("aud"))).collect()
        }
        _ => Err(TokenError::Claim("aud")),
    }
}

fn is_media_type(typ: &str, name: &str) -> bool {
    let short = typ
        .get(..12)
        .filter(|prefix| prefix.eq_ignore_ascii_case("application/"))
        .map_or(typ, |_| &typ[12..]);
    short.eq_ignore_ascii_case(name)
}
