//! What an entry changed, field by field. The whole of it, to the letter, is in the file.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::web::links::list::truncate;

/// Fields that are shown of one entry.
const MAX_FIELDS: usize = 60;
/// Longer values are cut.
const MAX_VALUE_CHARS: usize = 300;

/// A field: how it was, and how it became. Empty is nothing.
pub(crate) struct FieldDiff {
    pub(crate) name: String,
    pub(crate) before: String,
    pub(crate) after: String,
}

/// What differs. Of something new that is everything, of something gone too.
pub(crate) fn diff(before: Option<&RawValue>, after: Option<&RawValue>) -> Vec<FieldDiff> {
    let (mut before, after) = (leaves(before), leaves(after));
    let mut found: Vec<FieldDiff> = Vec::new();
    for (name, after) in after {
        let before = before.remove(&name).unwrap_or_default();
        if before != after {
            found.push(FieldDiff { name, before, after });
        }
    }
    let gone = before.into_iter().map(|(name, before)| FieldDiff { name, before, after: String::new() });
    found.extend(gone.filter(|field| !field.before.is_empty()));
    found.truncate(MAX_FIELDS);
    found
}

/// The values that are no objects, by their paths as people read them.
fn leaves(raw: Option<&RawValue>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let value = raw.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()).unwrap_or_default();
    collect(String::new(), &value, &mut found);
    found
}

fn collect(path: String, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('_', " ");
                collect(if path.is_empty() { name } else { format!("{path}, {name}") }, value, found);
            }
        }
        value => {
            found.insert(path, display_value(value));
        }
    }
}

/// A value as people read it.
fn display_value(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(on) => if *on { "yes" } else { "no" }.to_owned(),
        Value::Array(list) => list.iter().map(display_value).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    truncate(&text, MAX_VALUE_CHARS)
}
