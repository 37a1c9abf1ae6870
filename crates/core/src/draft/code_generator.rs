//! Codes for links that choose none. Randomness is an argument; so is the salt of a deterministic code.

use sha2::{Digest, Sha256};

use crate::link::code::is_reserved;
use crate::{Code, Id, Slug, base62};

/// How many random bytes [`random_code`] wants: enough that running out is a matter of astronomy.
pub const RANDOM_BYTES: usize = 64;

/// The version of [`from_target`]. A change of its recipe is a new number: published codes never move.
pub const DETERMINISTIC_VERSION: u32 = 1;

/// A random code of `length` characters over the first `letters` of the base62 alphabet (36: no upper case).
///
/// Bytes beyond the last whole multiple of the alphabet are passed over, so every code is equally likely. Nothing when the
/// bytes run out or spell a reserved word: give fresh ones.
pub fn random_code(bytes: &[u8], letters: u8, length: usize) -> Option<Code> {
    let fair = 256 / u16::from(letters) * u16::from(letters);
    let text: String = bytes
        .iter()
        .filter(|byte| u16::from(**byte) < fair)
        .map(|byte| char::from(base62::ALPHABET[usize::from(byte % letters)]))
        .take(length)
        .collect();
    (text.len() == length && !is_reserved(&text)).then(|| Code::from_path(&text)).flatten()
}

/// The code of a Snowflake.
pub fn from_id(id: Id) -> Option<Code> {
    let text = base62::encode(id.as_u64());
    (!is_reserved(&text)).then(|| Code::from_path(&text)).flatten()
}

/// The code of a target in a workspace, ten characters. A clash with another link takes the next salt.
///
/// Version 1: SHA-256 over `rlinks.code.1`, the slug and the normalized target, each with its length as eight bytes, little
/// end first, in front, then the salt as four; the first sixteen bytes as a number, big end first, modulo 62^10, in base62
/// with leading zeros.
pub fn from_target(workspace: &Slug, normalized: &str, salt: u32) -> Option<Code> {
    let mut hash = Sha256::new();
    for part in [b"rlinks.code.1".as_slice(), workspace.as_str().as_bytes(), normalized.as_bytes()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(salt.to_le_bytes());
    let digest = hash.finalize();
    let number =
        digest[..16].iter().fold(0_u128, |number, &byte| number << 8 | u128::from(byte)) % 62_u128.pow(10);
    let text = format!("{:0>10}", base62::encode(u64::try_from(number).expect("62^10 fits 64 bits")));
    (!is_reserved(&text)).then(|| Code::from_path(&text)).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{from_target, random_code};
    use crate::Slug;

    #[test]
    fn random_codes_depend_only_on_the_given_bytes() {
        assert_eq!(random_code(&[0, 1, 10, 35, 36, 251, 252, 255, 5], 36, 7).unwrap().as_str(), "01az0z5");
        assert_eq!(random_code(&[61, 62, 247, 248, 36, 0, 0, 0, 0, 0], 62, 8).unwrap().as_str(), "Z0ZA0000");
        assert_eq!(random_code(&[255; 64], 36, 7), None);
        assert_eq!(random_code(&[0; 6], 36, 7), None);
    }

    #[test]
    fn random_code_is_never_a_reserved_word() {
        let support: Vec<u8> = b"support".iter().map(|letter| letter - b'a' + 10).collect();
        assert_eq!(random_code(&support, 36, 7), None);
    }

    #[test]
    fn deterministic_codes_match_version_1() {
        let code =
            |slug, target, salt| from_target(&Slug::parse(slug).unwrap(), target, salt).unwrap().to_string();
        insta::assert_snapshot!(code("main", "https://example.com/", 0), @"qTCDIyfN7F");
        insta::assert_snapshot!(code("main", "https://example.com/", 1), @"bURcmNicUe");
        insta::assert_snapshot!(code("team", "https://example.com/", 0), @"8aeZmTGc3e");
        insta::assert_snapshot!(code("main", "", 0), @"benoCM1emg");
    }

    proptest! {
        #[test]
        fn deterministic_codes_have_ten_characters(target in ".{0,40}", salt: u32) {
            prop_assert_eq!(from_target(&Slug::main(), &target, salt).unwrap().as_str().len(), 10);
        }
    }
}
