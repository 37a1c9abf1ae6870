//! Text people give, checked.

use crate::field_error::{FieldCode, FieldError};

/// Text of one line: not empty, at most so many characters, no control characters.
pub(crate) fn one_line(field: &str, text: &str, longest: usize) -> Result<String, FieldError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(FieldError::new(field, FieldCode::Required, "is empty"));
    }
    if text.chars().count() > longest {
        return Err(FieldError::new(
            field,
            FieldCode::TooLong,
            format!("has more than {longest} characters"),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(FieldError::new(field, FieldCode::ControlCharacter, "has control characters"));
    }
    Ok(text.to_owned())
}
