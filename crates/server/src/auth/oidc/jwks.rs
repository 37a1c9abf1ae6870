//! The issuer's keys: what its document says, and how one of them checks a signature.
//!
//! A document that is odd (no usable key, two of one name, more than we look at) is refused as a whole: whoever has keys keeps them.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;

use super::Algorithm;

/// Longer names of keys are not looked up.
pub const MAX_KID_BYTES: usize = 128;
/// More keys than any issuer has.
const MAX_KEYS: usize = 64;

/// A key of the issuer, with the one algorithm it is for.
#[derive(Debug)]
pub struct Key {
    algorithm: Algorithm,
    public: PublicKey,
}

#[derive(Debug)]
enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Point(Vec<u8>),
}

/// The keys of an issuer by name.
pub type Keys = HashMap<String, Arc<Key>>;

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Entry {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Key {
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Whether this signature of these bytes is its own. RSA keys of less than 2,048 bits have signed nothing.
    pub fn verifies(&self, message: &[u8], signed: &[u8]) -> bool {
        match &self.public {
            PublicKey::Rsa { n, e } => {
                let parameters = match self.algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return false,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signed).is_ok()
            }
            PublicKey::Point(point) => {
                let algorithm: &'static dyn VerificationAlgorithm = match self.algorithm {
                    Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
                    Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
                    Algorithm::EdDsa => &signature::ED25519,
                    _ => return false,
                };
                UnparsedPublicKey::new(algorithm, point).verify(message, signed).is_ok()
            }
        }
    }
}

/// The keys of a document that may be used with the allowed algorithms, or why the document is refused.
pub fn parse(document: &[u8], allowed: &[Algorithm]) -> Result<Keys, &'static str> {
    let Document { keys } = serde_json::from_slice(document).map_err(|_| "it is not a document of keys")?;
    if keys.len() > MAX_KEYS {
        return Err("it has too many keys");
    }
    let mut usable = Keys::new();
    // A key we cannot read is a key for somebody else.
    for entry in keys.into_iter().filter_map(|key| serde_json::from_value::<Entry>(key).ok()) {
        let Some((kid, key)) = entry.key(allowed) else { continue };
        if usable.insert(kid, Arc::new(key)).is_some() {
            return Err("it has two keys of one name");
        }
    }
    if usable.is_empty() {
        return Err("it has no key we may use");
    }
    Ok(usable)
}

impl Entry {
    /// The key, if it has a name, is for signatures, and an allowed algorithm fits it.
    fn key(self, allowed: &[Algorithm]) -> Option<(String, Key)> {
        let kid = self.kid.filter(|kid| !kid.is_empty() && kid.len() <= MAX_KID_BYTES)?;
        if self.used_for.as_deref() != Some("sig") {
            return None;
        }
        let curve = self.crv.as_deref();
        let mut fitting = allowed.iter().copied().filter(|algorithm| algorithm.fits(&self.kty, curve));
        let algorithm = match &self.alg {
            Some(name) => fitting.find(|algorithm| Algorithm::from_name(name) == Some(*algorithm)),
            None => fitting.next(),
        }?;
        let bytes = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
        let public = match self.kty.as_str() {
            "RSA" => PublicKey::Rsa { n: bytes(self.n)?, e: bytes(self.e)? },
            "EC" => {
                let (x, y) = (bytes(self.x)?, bytes(self.y)?);
                PublicKey::Point([&[4], x.as_slice(), y.as_slice()].concat())
            }
            _ => PublicKey::Point(bytes(self.x)?),
        };
        Some((kid, Key { algorithm, public }))
    }
}
