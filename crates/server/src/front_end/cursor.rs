//! Cursors: where the next page of a list begins, in words only this server can write.
//!
//! A cursor is a position as JSON and a signature over it and its context (workspace, route, query), as text for a URL. It
//! is not secret; it is only ours: nobody can point it elsewhere, and it opens nowhere but where it was made.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use rlinks_ops::shared_keys::SharedKey;
use rlinks_store::SecretKey;
use serde::Serialize;
use serde::de::DeserializeOwned;
use subtle::ConstantTimeEq as _;

/// Longer text is no cursor of ours.
pub const MAX_CURSOR_BYTES: usize = 1024;
/// Half of the signature: still 128 bits to guess, and URLs stay short.
const TAG_BYTES: usize = 16;

/// Makes and opens cursors.
pub struct Cursors {
    key: Arc<SharedKey>,
}

impl Cursors {
    /// Cursors of this key. Servers that share one open each other's.
    pub fn new(key: Arc<SharedKey>) -> Self {
        Self { key }
    }

    /// A position as text for a URL. Positions are small: over 750 bytes of JSON would not open again.
    pub fn seal(&self, context: &str, position: &impl Serialize) -> String {
        let mut bytes = serde_json::to_vec(position).expect("a position is JSON");
        let tag = tag(&self.key.current(), context, &bytes);
        bytes.extend_from_slice(&tag);
        let text = URL_SAFE_NO_PAD.encode(&bytes);
        debug_assert!(text.len() <= MAX_CURSOR_BYTES, "this position is too long for a cursor");
        text
    }

    /// The position, if this text is a cursor we made for this context.
    pub fn open<T: DeserializeOwned>(&self, context: &str, text: &str) -> Option<T> {
        if text.len() > MAX_CURSOR_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (position, tag) = bytes.split_last_chunk::<TAG_BYTES>()?;
        if !self.key.accepted().any(|key| bool::from(self::tag(&key, context, position).ct_eq(tag))) {
            return None;
        }
        serde_json::from_slice(position).ok()
    }
}

/// Each part goes in with its length before it, so that no two pairs look the same to the signature.
fn tag(key: &SecretKey, context: &str, position: &[u8]) -> [u8; TAG_BYTES] {
    let mut signature = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    for part in [context.as_bytes(), position] {
        signature.update(&(part.len() as u64).to_be_bytes());
        signature.update(part);
    }
    *signature.sign().as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use rlinks_ops::shared_keys::SharedKey;
    use rlinks_store::clock::Clock;
    use serde::{Deserialize, Serialize};
    use std::sync::Arc;

    use super::{Cursors, MAX_CURSOR_BYTES};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct SamplePosition {
        code: String,
        clicks: u64,
    }

    const CONTEXT: &str = "7 links sort=clicks";

    fn cursors() -> Cursors {
        cursors_of([7; 32])
    }

    fn cursors_of(key: [u8; 32]) -> Cursors {
        Cursors::new(Arc::new(SharedKey::fixed(key, Clock::system())))
    }

    fn position() -> SamplePosition {
        SamplePosition { code: "grüße".to_owned(), clicks: 9 }
    }

    #[track_caller]
    fn refused(context: &str, text: &str) {
        assert_eq!(cursors().open::<SamplePosition>(context, text), None, "{text}");
    }

    #[test]
    fn cursor_opens_in_its_own_context() {
        let text = cursors().seal(CONTEXT, &position());
        assert_eq!(cursors().open(CONTEXT, &text), Some(position()));
        assert!(
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'),
            "{text}"
        );
    }

    #[test]
    fn cursor_is_rejected_in_any_other_context() {
        let text = cursors().seal(CONTEXT, &position());
        for context in ["", "7 links sort=code", "8 links sort=clicks", "7 links sort=clicks "] {
            refused(context, &text);
        }
        assert_eq!(cursors_of([8; 32]).open::<SamplePosition>(CONTEXT, &text), None);
        assert_eq!(cursors().open::<u64>(CONTEXT, &text), None, "a position of another kind");
    }

    #[test]
    fn boundary_of_context_and_position_is_authenticated() {
        let text = cursors().seal("a1", &23);
        assert_eq!(cursors().open::<u64>("a1", &text), Some(23));
        let mut bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        bytes.insert(0, b'1');
        assert_eq!(cursors().open::<u64>("a", &URL_SAFE_NO_PAD.encode(&bytes)), None);
    }

    #[test]
    fn cursor_with_a_flipped_bit_is_rejected() {
        let text = cursors().seal(CONTEXT, &position());
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            refused(CONTEXT, &URL_SAFE_NO_PAD.encode(&changed));
        }
        for place in 0..text.len() {
            for letter in [b'A', b'z', b'-', b'=', b'+', b' ', 0] {
                let mut changed = text.clone().into_bytes();
                if std::mem::replace(&mut changed[place], letter) != letter {
                    refused(CONTEXT, std::str::from_utf8(&changed).unwrap());
                }
            }
        }
    }

    #[test]
    fn truncated_extended_or_invalid_cursor_is_rejected() {
        let text = cursors().seal(CONTEXT, &position());
        for end in 0..text.len() {
            refused(CONTEXT, &text[..end]);
        }
        for more in ["A", "AA", "=", "==", "\n", " "] {
            refused(CONTEXT, &format!("{text}{more}"));
        }
        for nonsense in ["", "!", "%00", "äöü", "AAAA", &"A".repeat(MAX_CURSOR_BYTES), &"A".repeat(1 << 20)]
        {
            refused(CONTEXT, nonsense);
        }
    }

    #[test]
    fn longest_position_fits_in_a_cursor() {
        let code = "x".repeat(750);
        let text = cursors().seal(CONTEXT, &code);
        assert!(text.len() <= MAX_CURSOR_BYTES);
        assert_eq!(cursors().open(CONTEXT, &text), Some(code));
    }
}
