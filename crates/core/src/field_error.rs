//! What is wrong with a field: its name, a code for programs, a sentence for people.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The closed list of reasons a field is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldCode {
    /// Missing or empty where something is needed.
    Required,
    /// Shorter than the policy allows.
    TooShort,
    /// Longer than the limit.
    TooLong,
    /// Characters outside the grammar, or a value of another kind.
    BadCharacters,
    /// A word the server keeps for itself.
    Reserved,
    /// A URL without scheme and host.
    NotAbsolute,
    /// A scheme other than http and https.
    Scheme,
    /// http where `https_only` is on.
    HttpsRequired,
    /// A user name or password inside the URL.
    Userinfo,
    /// Control characters, or space around the value.
    ControlCharacter,
    /// A host no browser should be sent to.
    BadHost,
    /// Leads back to a domain we serve.
    Loop,
    /// A time that is already over.
    Past,
    NotATime,
    /// Unix milliseconds where seconds are expected.
    Milliseconds,
    /// Not one of 301, 302, 307, 308.
    BadStatus,
    /// A field we do not know.
    UnknownField,
    /// A field that never changes.
    Immutable,
    /// Breaks a rule that no other code names.
    BadValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// The field's name as the caller wrote it.
    pub field: String,
    /// The reason, for programs.
    pub code: FieldCode,
    /// The reason and the way out, for people.
    pub message: String,
}

impl FieldError {
    pub fn new(field: &str, code: FieldCode, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), code, message: message.into() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.field, self.message)
    }
}

/// Everything wrong with an input, found in one go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FieldErrors(pub Vec<FieldError>);

impl FieldErrors {
    pub fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    /// Keeps the value, or the error and nothing.
    pub fn ok_or_push<T>(&mut self, parsed: Result<T, FieldError>) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(error) => {
                self.push(error);
                None
            }
        }
    }

    /// `Ok` when nothing was found.
    pub fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl From<FieldError> for FieldErrors {
    fn from(error: FieldError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("; ")?;
            }
            write!(out, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FieldErrors {}
