//! Codes: the path of a link.
//!
//! A policy's grammar binds creation only. A code that was once given out keeps answering, whatever the policy says later,
//! so reading asks for no more than [`Code::from_path`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::field_error::{FieldCode, FieldError};

/// The path of a link: `[A-Za-z0-9_-]`, 1 to 64 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(String);

/// No code is longer, under any policy.
pub const MAX_CODE_CHARS: usize = 64;

/// Words no code may be, in any spelling of case: every list of the source documents, every first path segment the server
/// has, and the words its next routes will use.
pub const RESERVED_WORDS: &[&str] = &[
    "__admin__",
    "admin",
    "api",
    "app",
    "assets",
    "auth",
    "bulk",
    "check",
    "dashboard",
    "docs",
    "export",
    "favicon.ico",
    "health",
    "help",
    "import",
    "login",
    "logout",
    "metrics",
    "ready",
    "register",
    "robots.txt",
    "settings",
    "signup",
    "static",
    "status",
    "support",
    "web",
    "www",
];

/// What every listener serves beside links. Each first segment is a server word: a test walks them.
pub const PUBLIC_PATHS: [&str; 4] = ["/health", "/ready", "/robots.txt", "/favicon.ico"];

/// Which characters a policy lets a new code have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Alphabet {
    /// Lower case, digits, hyphen.
    #[serde(rename = "a-z0-9-")]
    Lower,
    #[serde(rename = "A-Za-z0-9-")]
    Letters,
    /// Letters, digits, underscore, hyphen.
    #[serde(rename = "A-Za-z0-9_-")]
    Word,
}

impl Alphabet {
    fn contains(self, byte: u8) -> bool {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => true,
            b'A'..=b'Z' => self != Self::Lower,
            b'_' => self == Self::Word,
            _ => false,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Lower => "lower-case letters, digits and hyphens",
            Self::Letters => "letters, digits and hyphens",
            Self::Word => "letters, digits, hyphens and underscores",
        }
    }
}

/// What a policy lets a new code be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRules {
    pub alphabet: Alphabet,
    pub min: usize,
    pub max: usize,
    /// A request's code is looked up in lower case too.
    pub fold_case: bool,
    /// No two chosen codes may differ by case alone.
    pub unique_fold: bool,
}

impl CodeRules {
    /// The second code to look up for one that was sent: in lower case, where the rules fold it and it differs.
    pub fn folded(&self, code: &str) -> Option<String> {
        let folds = self.fold_case && code.bytes().any(|byte| byte.is_ascii_uppercase());
        folds.then(|| code.to_ascii_lowercase()).filter(|lower| !is_server_word(lower))
    }
}

impl Code {
    /// A chosen code, checked against the policy.
    pub fn parse(text: &str, rules: &CodeRules) -> Result<Self, FieldError> {
        let refuse = |code, message: String| Err(FieldError::new("code", code, message));
        if text.is_empty() {
            return refuse(FieldCode::Required, "is empty; give the short path, like `parity`".to_owned());
        }
        // Longest first: nothing below prints or scans more than a short text.
        if text.len() > rules.max {
            return refuse(FieldCode::TooLong, format!("has more than {} characters", rules.max));
        }
        if is_reserved(text) {
            return refuse(
                FieldCode::Reserved,
                format!("`{text}` is a word the server keeps; choose another"),
            );
        }
        if let Some(letter) =
            text.chars().find(|letter| !u8::try_from(*letter).is_ok_and(|byte| rules.alphabet.contains(byte)))
        {
            let lower = text.to_ascii_lowercase();
            let way_out =
                if letter.is_ascii_uppercase() && lower.bytes().all(|byte| rules.alphabet.contains(byte)) {
                    format!("; try `{lower}`")
                } else {
                    String::new()
                };
            let allowed = rules.alphabet.describe();
            return refuse(
                FieldCode::BadCharacters,
                format!("may have {allowed} only, not {letter:?}{way_out}"),
            );
        }
        if text.len() < rules.min {
            return refuse(FieldCode::TooShort, format!("needs at least {} characters", rules.min));
        }
        Ok(Self(text.to_owned()))
    }

    /// A code from a request or from the store: anything that can ever have been one.
    pub fn from_path(text: &str) -> Option<Self> {
        is_code(text).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// In lower case, for policies that compare without it.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

/// Whether a text can ever have been a code.
#[inline]
pub fn is_code(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_CODE_CHARS && text.bytes().all(|byte| Alphabet::Word.contains(byte))
}

/// Whether the first segment of a path makes it the server's own, on every host and whatever is stored. These reserved words name something
/// today, spelled as they are served; a code made before any other word was reserved keeps answering.
#[inline]
pub fn is_server_word(word: &str) -> bool {
    // `__admin__` has no route: at Cloudflare the hits of a link with this code would be mixed with the audit log's entries.
    matches!(
        word,
        "__admin__" | "admin" | "api" | "favicon.ico" | "health" | "metrics" | "ready" | "robots.txt"
    )
}

/// Whether no new code may be this word, in any case.
pub fn is_reserved(text: &str) -> bool {
    RESERVED_WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, is_reserved, is_server_word};
    use crate::{FieldCode, Policy, Preset};

    #[track_caller]
    fn check(preset: Preset, text: &str, expected: Result<(), FieldCode>) {
        let policy = Policy::preset(preset);
        assert_eq!(
            Code::parse(text, &policy.code).map(|_| ()).map_err(|error| error.code),
            expected,
            "{text:?}"
        );
    }

    #[test]
    fn codes_follow_the_grammar_of_each_preset() {
        use FieldCode::{BadCharacters, Required, Reserved, TooLong, TooShort};
        for text in ["a", "parity", "2026-q1", "-", &"a".repeat(64)] {
            check(Preset::Fabric, text, Ok(()));
        }
        check(Preset::Fabric, "", Err(Required));
        check(Preset::Fabric, "Parity", Err(BadCharacters));
        check(Preset::Fabric, "a_b", Err(BadCharacters));
        check(Preset::Fabric, "a/b", Err(BadCharacters));
        check(Preset::Fabric, "a b", Err(BadCharacters));
        check(Preset::Fabric, "ä", Err(BadCharacters));
        check(Preset::Fabric, "a\0", Err(BadCharacters));
        check(Preset::Fabric, &"a".repeat(65), Err(TooLong));
        check(Preset::Edge, "A_b-9", Ok(()));
        check(Preset::Edge, &"a".repeat(33), Err(TooLong));
        check(Preset::Platform, "ab", Err(TooShort));
        check(Preset::Platform, "Abc-1", Ok(()));
        check(Preset::Platform, "a_bc", Err(BadCharacters));
        check(Preset::Platform, &"a".repeat(51), Err(TooLong));
        check(Preset::Team, "a_B", Ok(()));
        check(Preset::Team, &"a".repeat(21), Err(TooLong));
        for text in ["api", "ADMIN", "Metrics", "www", "bulk", "__admin__"] {
            check(Preset::Edge, text, Err(Reserved));
        }
    }

    #[test]
    fn upper_case_code_error_suggests_the_lower_case_form() {
        let policy = Policy::preset(Preset::Fabric);
        let error = Code::parse("ParITY", &policy.code).unwrap_err();
        assert!(error.message.contains("try `parity`"), "{}", error.message);
    }

    #[test]
    fn reserved_words_are_case_insensitive() {
        assert!(is_reserved("aPi") && is_reserved("robots.txt") && !is_reserved("parity"));
    }

    #[test]
    fn server_words_are_reserved() {
        for word in ["__admin__", "admin", "api", "favicon.ico", "health", "metrics", "ready", "robots.txt"] {
            assert!(is_server_word(word) && is_reserved(word), "{word}");
        }
        assert!(!is_server_word("Health") && !is_server_word("www"));
    }
}
