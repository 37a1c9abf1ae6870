//! Named values, and taking them out as what they should be.

use std::collections::HashSet;
use std::fmt;

use rlinks_core::{FieldCode, FieldError, FieldErrors, Timestamp};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::row::code_of_url;

/// The most values of one record: several times what any format has.
pub(crate) const MAX_RECORD_VALUES: usize = 256;
/// How deep metadata may be: as in a request, whose body is around it.
const MAX_METADATA_DEPTH: usize = rlinks_core::strict_json::MAX_DEPTH - 1;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Name for comparing, name as written, value.
    pub(crate) values: Vec<(String, String, Value)>,
}

/// A name as it is compared.
pub fn normalized_name(name: &str) -> String {
    name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

impl Record {
    /// Values of named columns.
    pub fn from_columns(columns: &[String], values: impl IntoIterator<Item = Value>) -> Self {
        let named = columns.iter().zip(values);
        Self { values: named.map(|(name, value)| (normalized_name(name), name.clone(), value)).collect() }
    }

    /// Whether it has all of these, by their plain names.
    pub fn has_all(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.values.iter().any(|(known, _, _)| known == name))
    }

    /// Takes a value out, with its name as written; null and empty text are nothing.
    pub(crate) fn take(&mut self, name: &str) -> Option<(String, Value)> {
        let at = self.values.iter().position(|(known, _, _)| known == name)?;
        let (_, name, value) = self.values.swap_remove(at);
        match value {
            Value::Null => None,
            Value::String(text) if text.is_empty() => None,
            value => Some((name, value)),
        }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.values.iter().any(|(known, _, _)| known == name)
    }
}

/// A record of JSON whose values come one after the other.
#[derive(Default)]
pub(crate) struct RecordBuilder {
    record: Record,
    known: HashSet<String>,
}

impl RecordBuilder {
    /// The next value. A name that was there before is an error, and so are too many.
    pub(crate) fn add(&mut self, name: String, value: Value) -> Result<(), String> {
        if self.record.values.len() >= MAX_RECORD_VALUES {
            return Err(format!("it has more than {MAX_RECORD_VALUES} keys"));
        }
        if !self.known.insert(name.clone()) {
            return Err(format!("the key `{name}` is there twice"));
        }
        self.record.values.push((normalized_name(&name), name, value));
        Ok(())
    }

    pub(crate) fn build(self) -> Record {
        self.record
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Record;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
                let mut record = RecordBuilder::default();
                while let Some(name) = map.next_key::<String>()? {
                    let value = map.next_value()?;
                    record.add(name, value).map_err(A::Error::custom)?;
                }
                Ok(record.build())
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Takes values out of a record and remembers what is wrong with them.
pub(crate) struct FieldReader {
    pub(crate) record: Record,
    pub(crate) errors: FieldErrors,
}

impl FieldReader {
    pub(crate) fn push_error<T>(&mut self, name: &str, message: &str) -> Option<T> {
        self.errors.push(invalid_value(name, message));
        None
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.named_text(name).map(|(_, text)| text)
    }

    pub(crate) fn named_text(&mut self, name: &str) -> Option<(String, String)> {
        let (name, value) = self.record.take(name)?;
        let text = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(switch) => switch.to_string(),
            _ => return self.push_error(&name, "must be a text"),
        };
        if text.contains('\0') {
            self.errors.push(FieldError::new(&name, FieldCode::ControlCharacter, "has control characters"));
            return None;
        }
        Some((name, text))
    }

    /// A code, or the path of a short URL where it is missing or is one itself. A code with a slash in it stays what it is: we have none
    /// like it, and a part of it would be another address.
    pub(crate) fn code(&mut self, name: &str, url: &str) -> Option<String> {
        let code = self.text(name);
        let url = self.text(url);
        match code {
            Some(code) if code.contains("://") => code_of_url(&code).or(Some(code)),
            Some(code) => Some(code),
            None => url.and_then(|url| code_of_url(&url).or(Some(url).filter(|url| !url.contains('/')))),
        }
    }

    pub(crate) fn integer(&mut self, name: &str) -> Option<i64> {
        let (name, text) = self.named_text(name)?;
        let text = text.trim();
        // Spreadsheets write 1,234.
        let by_thousands = |text: &str| {
            let mut groups = text.split(',');
            groups.next().is_some_and(|first| (1..=3).contains(&first.len()))
                && groups.all(|group| group.len() == 3)
        };
        let digits = if by_thousands(text) { text.replace(',', "") } else { text.to_owned() };
        match digits.parse() {
            Ok(number) => Some(number),
            Err(_) => self.push_error(&name, "is no whole number"),
        }
    }

    pub(crate) fn boolean(&mut self, name: &str) -> Option<bool> {
        let (name, text) = self.named_text(name)?;
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Some(true),
            "false" | "0" | "no" => Some(false),
            _ => self.push_error(&name, "must be true or false"),
        }
    }

    pub(crate) fn time(&mut self, name: &str) -> Option<Timestamp> {
        let (name, text) = self.named_text(name)?;
        let text = text.trim();
        // MySQL's word for no time at all.
        if text.starts_with("0000-00-00") {
            return None;
        }
        let parsed = match text.parse::<i64>() {
            Ok(seconds) => Timestamp::from_unix_seconds(seconds),
            // Some write the zone without its colon.
            Err(_) => Timestamp::parse(text).or_else(|error| {
                let at = text.len().saturating_sub(2);
                let colon = text.is_char_boundary(at).then(|| format!("{}:{}", &text[..at], &text[at..]));
                colon.and_then(|text| Timestamp::parse(&text).ok()).ok_or(error)
            }),
        };
        self.errors.ok_or_push(parsed.map_err(|error| {
            let code = match error {
                rlinks_core::time::TimeError::Milliseconds => FieldCode::Milliseconds,
                _ => FieldCode::NotATime,
            };
            FieldError::new(&name, code, error.to_string())
        }))
    }

    pub(crate) fn list(&mut self, name: &str, separators: &[char]) -> Option<Vec<String>> {
        let (name, value) = self.record.take(name)?;
        let texts: Option<Vec<String>> = match value {
            Value::Array(list) => list.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
            Value::String(text) => Some(text.split(separators).map(str::to_owned).collect()),
            _ => None,
        };
        let Some(texts) = texts else { return self.push_error(&name, "must be a list of texts") };
        Some(texts.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect())
    }

    pub(crate) fn metadata(&mut self) -> Option<Map<String, Value>> {
        let (name, value) = self.record.take("metadata")?;
        let object = match value {
            Value::Object(object) => Some(object),
            Value::String(text) => serde_json::from_str(&text).ok(),
            _ => None,
        };
        let Some(object) = object else { return self.push_error(&name, "must be a JSON object") };
        if object.values().any(|value| is_deeper(value, MAX_METADATA_DEPTH - 1)) {
            let message = "has objects and lists nested too deep; a link's may be 63 deep";
            return self.push_error(&name, message);
        }
        if serde_json::to_string(&object).is_ok_and(|text| text.contains("\\u0000")) {
            return self.push_error(&name, "has NUL in a text");
        }
        Some(object)
    }
}

/// Whether objects and lists are nested deeper than this.
fn is_deeper(value: &Value, most: usize) -> bool {
    match value {
        Value::Array(list) => most == 0 || list.iter().any(|inner| is_deeper(inner, most - 1)),
        Value::Object(object) => most == 0 || object.values().any(|inner| is_deeper(inner, most - 1)),
        _ => false,
    }
}

pub(crate) fn invalid_value(name: &str, message: &str) -> FieldError {
    FieldError::new(name, FieldCode::BadCharacters, message)
}
