//! Passwords as people type them: how long they may be, and that one password is one however its letters were composed.
//!
//! What is kept of a password is the server's business: hashing takes memory and time, which this crate has none of.

use std::fmt;

use unicode_normalization::UnicodeNormalization as _;

use crate::field_error::{FieldCode, FieldError};

/// A password that may be one. It cannot be printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    pub const MIN_CHARS: usize = 12;
    pub const MAX_CHARS: usize = 128;
    /// More bytes than 128 characters take, however they were composed: longer texts are not even looked at.
    const MAX_BYTES: usize = 2048;

    /// 12 to 128 characters without control characters, spaces around them not counted among the 12. The same letters composed in
    /// another way are the same password.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let refuse = |code, message: &str| Err(FieldError::new("password", code, message));
        if text.len() > Self::MAX_BYTES {
            return refuse(FieldCode::TooLong, "has more than 128 characters");
        }
        let text: String = text.nfkc().collect();
        if text.chars().any(char::is_control) {
            return refuse(FieldCode::ControlCharacter, "has control characters");
        }
        // What surrounds it may be part of it, but nobody is kept out by spaces alone.
        if !text.is_empty() && text.trim().chars().count() < Self::MIN_CHARS {
            let message = "has fewer than 12 characters, without the spaces around it";
            let message = if text.trim() == text { "has fewer than 12 characters" } else { message };
            return refuse(FieldCode::TooShort, message);
        }
        match text.chars().count() {
            0 => refuse(FieldCode::Required, "is empty"),
            count if count > Self::MAX_CHARS => refuse(FieldCode::TooLong, "has more than 128 characters"),
            _ => Ok(Self(text)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Password(...)")
    }
}

#[cfg(test)]
mod tests {
    use super::Password;
    use crate::field_error::FieldCode;

    #[test]
    fn unicode_forms_of_one_password_are_equal() {
        let composed = Password::parse("Schl\u{fc}ssel-b\u{fc}nde").unwrap();
        assert_eq!(composed, Password::parse("Schlu\u{308}ssel-bu\u{308}nde").unwrap());
        assert_eq!(Password::parse("\u{ff21}BCDEFGHIJKL").unwrap(), Password::parse("ABCDEFGHIJKL").unwrap());
        assert_ne!(Password::parse("abcdefghijkl").unwrap(), Password::parse("Abcdefghijkl").unwrap());
        assert_eq!(format!("{composed:?}"), "Password(...)");
    }

    #[test]
    fn password_length_is_counted_in_characters() {
        let code = |text: &str| Password::parse(text).map_err(|error| error.code);
        assert_eq!(code(""), Err(FieldCode::Required));
        assert_eq!(code("elevenchars"), Err(FieldCode::TooShort));
        for spaces in [" ".repeat(12), "\u{3000}".repeat(64), "   elevenchars   ".to_owned()] {
            assert_eq!(code(&spaces), Err(FieldCode::TooShort), "{spaces:?}");
        }
        assert_ne!(Password::parse(" twelve chars ").unwrap(), Password::parse("twelve chars").unwrap());
        assert!(code("twelve chars").is_ok() && code(&"\u{1f511}".repeat(12)).is_ok());
        assert!(code(&"\u{1f511}".repeat(128)).is_ok());
        assert_eq!(code(&"x".repeat(129)), Err(FieldCode::TooLong));
        assert_eq!(code(&"x".repeat(1 << 20)), Err(FieldCode::TooLong));
        // One letter that becomes eighteen.
        assert_eq!(code(&"\u{fdfa}".repeat(8)), Err(FieldCode::TooLong));
        assert_eq!(code("with\0a nul byte"), Err(FieldCode::ControlCharacter));
        assert_eq!(code("with\na new line"), Err(FieldCode::ControlCharacter));
    }
}
