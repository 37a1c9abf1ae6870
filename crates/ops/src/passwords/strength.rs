//! Whether a password is strong enough to be set. Signing in takes any password: a rule that grew stricter never locks anyone out.

use rlinks_core::{FieldCode, FieldError, Password};
use zxcvbn::{Score, zxcvbn};

/// At least a hundred million guesses.
const MIN_SCORE: Score = Score::Three;
/// Shorter parts of a name or an address say nothing about a password.
const MIN_WORD_CHARS: usize = 3;
/// A name may be nothing but short words.
const MAX_WORDS: usize = 64;

/// A password that may be set.
pub struct NewPassword(Password);

impl NewPassword {
    /// Refuses what is easy to guess: common passwords, words, keyboard patterns, dates, and what the owner is called, given as their name
    /// and e-mail address.
    pub fn check<'a>(
        password: Password,
        owner: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, FieldError> {
        let known = owner_words(owner);
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        if zxcvbn(password.as_str(), &known).score() < MIN_SCORE {
            return Err(FieldError::new(
                "password",
                FieldCode::BadValue,
                "is too easy to guess; use several unrelated words, and neither a common password nor your name or e-mail address",
            ));
        }
        Ok(Self(password))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// A name and an address as somebody would put them into a password: in parts, and with the parts run together.
fn owner_words<'a>(owner: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let parts = |text: &str| -> Vec<String> {
        text.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase).collect()
    };
    let mut words = Vec::new();
    for text in owner {
        let local = text.split_once('@').map_or(text, |(local, _)| local);
        words.push(parts(local).concat());
        words.push(parts(text).concat());
        words.extend(parts(text));
    }
    words.retain(|word| word.chars().count() >= MIN_WORD_CHARS);
    words.truncate(MAX_WORDS);
    words
}

#[cfg(test)]
mod tests {
    use rlinks_core::{FieldCode, Password};

    use super::NewPassword;

    #[track_caller]
    fn check(text: &str, expected: Result<(), FieldCode>) {
        let owner = ["Ada Lovelace", "ada.lovelace@analytical.example"];
        let checked = NewPassword::check(Password::parse(text).unwrap(), owner);
        assert_eq!(checked.map(drop).map_err(|error| error.code), expected, "{text}");
    }

    #[test]
    fn guessable_password_is_refused() {
        for text in [
            "password1234",
            "Password12345",
            "qwertyuiop123",
            "aaaaaaaaaaaa",
            "123456789012",
            "abcdefghijkl",
            "iloveyou12345",
            "passwordpassword",
            "adminadmin12",
        ] {
            check(text, Err(FieldCode::BadValue));
        }
    }

    #[test]
    fn password_made_of_the_owners_name_or_address_is_refused() {
        for text in [
            "AdaLovelace1",
            "adalovelace2026",
            "lovelace.ada",
            "analytical12",
            "ada.lovelace@analytical.example",
        ] {
            check(text, Err(FieldCode::BadValue));
        }
    }

    #[test]
    fn several_unrelated_words_are_accepted() {
        for text in
            ["correct horse battery", "Schlüsselübergabe été", "test-password-123", "S3cure-Pass-2024"]
        {
            check(text, Ok(()));
        }
    }
}
