//! Reading a JSON body strictly: what two readers could understand differently is refused.
//!
//! Text that is not UTF-8, a key named twice in one object, NUL in a string, anything but an object at the top, and bodies
//! nested or spread out beyond reason. It says what is wrong and where; which fields there may be is somebody else's question.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Objects and lists inside each other, the outermost included.
pub const MAX_DEPTH: usize = 64;
/// Values of all kinds, the outermost object included; keys do not count.
pub const MAX_VALUES: usize = 100_000;
/// As much of a key as an error repeats.
const MAX_SHOWN_KEY_CHARS: usize = 64;

/// Why a body is not read. The message is for whoever sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StrictJsonError(String);

/// The object a body holds.
pub fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, StrictJsonError> {
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to()))?;
    if text.trim_ascii().is_empty() {
        return Err(StrictJsonError("the body is empty; send a JSON object".to_owned()));
    }
    let mut values_left = MAX_VALUES;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Reader { depth: 0, values_left: &mut values_left }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| StrictJsonError(error.to_string()))?;
    match value {
        Value::Object(object) => Ok(object),
        other => Err(StrictJsonError(format!("the body must be a JSON object, not {}", kind(&other)))),
    }
}

fn not_utf8(bytes: &[u8], valid_bytes: usize) -> StrictJsonError {
    let before = &bytes[..valid_bytes];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let line = before.split(|&byte| byte == b'\n').count();
    StrictJsonError(format!("the body is not UTF-8 at line {line} column {}", valid_bytes - line_start + 1))
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Reads one value and everything inside it.
struct Reader<'a> {
    /// Objects and lists around this value.
    depth: usize,
    values_left: &'a mut usize,
}

impl Reader<'_> {
    fn inner(&mut self) -> Reader<'_> {
        Reader { depth: self.depth + 1, values_left: self.values_left }
    }

    fn check_depth<E: serde::de::Error>(&self) -> Result<(), E> {
        if self.depth < MAX_DEPTH {
            return Ok(());
        }
        Err(E::custom(format_args!("objects and lists are nested more than {MAX_DEPTH} deep")))
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let Some(left) = self.values_left.checked_sub(1) else {
            return Err(D::Error::custom(format_args!("there are more than {MAX_VALUES} values")));
        };
        *self.values_left = left;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number is out of range"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        if value.contains('\0') {
            return Err(E::custom("a string holds the character NUL"));
        }
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut list = Vec::new();
        while let Some(value) = items.next_element_seed(self.inner())? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if key.contains('\0') {
                return Err(A::Error::custom(format_args!(
                    "the key {} holds the character NUL",
                    quoted_key(&key)
                )));
            }
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {} is there twice", quoted_key(&key))));
            }
            let value = entries.next_value_seed(self.inner())?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// A key in quotes, without control characters, and never longer than a line.
fn quoted_key(key: &str) -> String {
    match key.char_indices().nth(MAX_SHOWN_KEY_CHARS) {
        Some((end, _)) => format!("{:?}...", &key[..end]),
        None => format!("{key:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{MAX_DEPTH, MAX_VALUES, parse_object};

    #[track_caller]
    fn refused(body: impl AsRef<[u8]>, message: &str) {
        let error = parse_object(body.as_ref()).unwrap_err().to_string();
        assert_eq!(error, message);
    }

    #[test]
    fn duplicate_key_is_named_in_the_error() {
        refused(r#"{"a":1,"a":1}"#, r#"the key "a" is there twice at line 1 column 10"#);
        refused("{\"x\":[1,\n {\"b\":null,\n\"b\":2}]}", r#"the key "b" is there twice at line 3 column 3"#);
        refused(r#"{"a":1,"\u0061":2}"#, r#"the key "a" is there twice at line 1 column 15"#);
        refused(r#"{"":1,"":2}"#, r#"the key "" is there twice at line 1 column 8"#);
        let long = "\u{202e}".repeat(1000);
        let error = parse_object(format!(r#"{{"{long}":1,"{long}":2}}"#).as_bytes()).unwrap_err().to_string();
        assert!(error.len() < 1000 && !error.contains('\u{202e}'), "{error}");
        assert!(parse_object(br#"{"a":{"a":{"A":1}},"A":[{"a":1},{"a":1}]}"#).is_ok());
    }

    #[test]
    fn body_must_be_an_object() {
        refused("", "the body is empty; send a JSON object");
        refused(" \r\n\t", "the body is empty; send a JSON object");
        refused("[{}]", "the body must be a JSON object, not a list");
        refused("\"{}\"", "the body must be a JSON object, not a string");
        refused("1e3", "the body must be a JSON object, not a number");
        refused("false", "the body must be a JSON object, not true or false");
        refused("null", "the body must be a JSON object, not null");
    }

    #[test]
    fn syntax_error_states_its_position() {
        refused(r#"{"a":1"#, "EOF while parsing an object at line 1 column 6");
        refused("{\"a\":1,\n}", "trailing comma at line 2 column 1");
        refused("{}\n{}", "trailing characters at line 2 column 1");
        refused("{'a':1}", "key must be a string at line 1 column 2");
        refused(r#"{"a":NaN}"#, "expected value at line 1 column 6");
        refused(r#"{"a":1e999}"#, "number out of range at line 1 column 10");
        refused("\u{feff}{}", "expected value at line 1 column 1");
    }

    #[test]
    fn invalid_utf8_and_nul_are_rejected() {
        refused(b"{\"a\":\"\xff\"}", "the body is not UTF-8 at line 1 column 7");
        refused(b"{\n\"\xc3\x28\":1}", "the body is not UTF-8 at line 2 column 2");
        refused(b"{\"a\":\"\xed\xa0\x80\"}", "the body is not UTF-8 at line 1 column 7");
        refused(r#"{"a":["\u0000"]}"#, "a string holds the character NUL at line 1 column 14");
        refused(r#"{"a":{"b\u0000":1}}"#, r#"the key "b\0" holds the character NUL at line 1 column 15"#);
        assert!(parse_object(b"{\"a\":\"\0\"}").is_err());
        assert!(parse_object(br#"{"a":"\ud800"}"#).is_err(), "half a character");
    }

    #[test]
    fn nesting_depth_is_limited() {
        let nested = |lists: usize| format!("{{\"a\":{}{}}}", "[".repeat(lists), "]".repeat(lists));
        assert!(parse_object(nested(MAX_DEPTH - 1).as_bytes()).is_ok());
        let error = parse_object(nested(MAX_DEPTH).as_bytes()).unwrap_err().to_string();
        assert!(
            error.starts_with("objects and lists are nested more than 64 deep at line 1 column"),
            "{error}"
        );
        for bomb in ["[".repeat(1 << 20), "{\"a\":".repeat(1 << 18)] {
            assert!(parse_object(bomb.as_bytes()).is_err());
        }
    }

    #[test]
    fn number_of_values_is_limited() {
        let list = |values: usize| format!("{{\"a\":[{}]}}", vec!["1"; values].join(","));
        assert!(parse_object(list(MAX_VALUES - 2).as_bytes()).is_ok());
        let error = parse_object(list(MAX_VALUES - 1).as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("there are more than 100000 values"), "{error}");
    }

    #[test]
    fn private_keys_of_serde_json_have_no_meaning() {
        let body = br#"{"x":{"$serde_json::private::RawValue":"{\"a\":1}"}}"#;
        let expected = json!({"$serde_json::private::RawValue": "{\"a\":1}"});
        assert_eq!(parse_object(body).unwrap()["x"], expected, "serde_json would read the string as JSON");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[^\\x00]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                object(inner).prop_map(|entries| entries.into_iter().collect()),
            ]
        })
    }

    fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = BTreeMap<String, Value>> {
        proptest::collection::btree_map("[^\\x00]{0,8}", inner, 0..6)
    }

    proptest! {
        #[test]
        fn written_json_is_parsed_unchanged(entries in object(any_json())) {
            let text = serde_json::to_string_pretty(&entries).unwrap();
            let plain: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(Value::Object(parse_object(text.as_bytes()).unwrap()), plain);
        }

        #[test]
        fn parser_accepts_no_more_than_serde_json(bytes in r#"\{("[ab]":([0-9.e-]{1,4}|"(a|\\n|\\u00e4|\\u0000)"|[{}\[\], ]{1,4}|true),?){0,4}\}?"#) {
            match (parse_object(bytes.as_bytes()), serde_json::from_str::<Value>(&bytes)) {
                (Ok(ours), theirs) => prop_assert_eq!(Value::Object(ours), theirs.unwrap()),
                (Err(_), Err(_)) => {}
                (Err(error), Ok(_)) => {
                    let error = error.to_string();
                    prop_assert!(error.contains("twice") || error.contains("NUL"), "{}", error);
                }
            }
        }

        #[test]
        fn parsing_arbitrary_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_object(&bytes);
        }
    }
}
