//! Whether a password is strong enough to be set. Signing in takes any password: a rule that grew stricter never locks anyone out.

use rlinks_core::{Email, FieldCode, FieldError, Password};
use unicode_normalization::UnicodeNormalization as _;
use zxcvbn::{Score, zxcvbn};

/// At least a hundred million guesses.
const MIN_SCORE: Score = Score::Three;
/// So much of a password is judged. The time that takes grows with the cube of its length: 32 hostile characters take some hundredths of a
/// second, 100 take more than one. A longer password is at least as strong as its beginning.
const MAX_JUDGED_CHARS: usize = 32;
/// Shorter parts of a name or an address say nothing about a password.
const MIN_WORD_CHARS: usize = 3;
/// A name may be nothing but short words.
const MAX_WORDS: usize = 64;

/// What the owner of a password is called: attackers try that first.
#[derive(Debug)]
pub struct PasswordOwner {
    /// In lower case, the longest first.
    words: Vec<String>,
}

impl PasswordOwner {
    pub fn new(full_name: &str, email: &Email) -> Self {
        Self { words: owner_words([full_name, email.as_str()]) }
    }

    /// A password without what its owner is called.
    fn remove_from(&self, password: &str) -> String {
        self.words.iter().fold(password.to_lowercase(), |rest, word| rest.replace(word, ""))
    }
}

/// Refuses what is easy to guess: common passwords, words, keyboard patterns, dates, and what the owner is called. Like hashing, it is not
/// for a thread that others wait for.
pub(super) fn check(password: &Password, owner: &PasswordOwner) -> Result<(), FieldError> {
    let known: Vec<&str> = owner.words.iter().map(String::as_str).collect();
    let is_strong = |text: &str| {
        let beginning: String = text.chars().take(MAX_JUDGED_CHARS).collect();
        zxcvbn(&beginning, &known).score() >= MIN_SCORE
    };
    // A whole address would be strong by the signs between its words alone, so what is left without them has to be strong too.
    if is_strong(&owner.remove_from(password.as_str())) && is_strong(password.as_str()) {
        return Ok(());
    }
    Err(FieldError::new(
        "password",
        FieldCode::BadValue,
        "is too easy to guess; use several unrelated words, and neither a common password nor your name or e-mail address",
    ))
}

/// A name and an address as they appear in passwords: in parts, and with the parts run together.
fn owner_words<'a>(owner: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let parts = |text: &str| -> Vec<String> {
        text.split(|letter: char| !letter.is_alphanumeric()).map(str::to_owned).collect()
    };
    let mut words = Vec::new();
    for text in owner {
        // As passwords are kept, so that both compose their letters alike.
        let text = text.nfkc().collect::<String>().to_lowercase();
        let local = text.split_once('@').map_or(text.as_str(), |(local, _)| local);
        words.push(parts(local).concat());
        words.push(parts(&text).concat());
        words.extend(parts(&text));
    }
    words.retain(|word| word.chars().count() >= MIN_WORD_CHARS);
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    words.dedup();
    words.truncate(MAX_WORDS);
    words
}

#[cfg(test)]
mod tests {
    use rlinks_core::{Email, FieldCode, Password};

    use super::PasswordOwner;

    #[track_caller]
    fn check(text: &str, expected: Result<(), FieldCode>) {
        let email = Email::parse("ada.lovelace@analytical.example").unwrap();
        let owner = PasswordOwner::new("Ada Zoe\u{308} Lovelace", &email);
        let checked = super::check(&Password::parse(text).unwrap(), &owner);
        assert_eq!(checked.map_err(|error| error.code), expected, "{text}");
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
            "ADA.LOVELACE@ANALYTICAL.EXAMPLE",
            "lovelace-ada-zo\u{eb}",
            "l0v3l4c3 4d4",
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

    /// Hostile inputs, S30.
    ///
    /// Characters that each stand for several letters, the worst there are: judged whole, this one would take seconds.
    #[test]
    fn longest_password_is_judged_by_its_beginning() {
        check(&"4@8({[<369&#!/|1()$5+7%2".repeat(6)[..128], Ok(()));
        check(&format!("{}correct horse battery", "a".repeat(32)), Err(FieldCode::BadValue));
    }

    #[test]
    fn passwords_of_our_own_tests_and_documents_are_accepted() {
        for text in [
            "correct horse battery staple",
            "another horse battery staple",
            "another password, longer",
            "a new password!",
        ] {
            check(text, Ok(()));
        }
    }
}
