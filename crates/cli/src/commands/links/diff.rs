//! What differs between two states of a link, field by field.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// The fields people change, by the names they have everywhere. What the writer counts (id, version, times) is left out.
const DIFF_FIELDS: [&str; 11] = [
    "target",
    "state",
    "redirect_status",
    "https_only",
    "no_loop",
    "expires_at",
    "title",
    "notes",
    "tags",
    "metadata",
    // Why the system or a rollback changed it: in the entry, and not in the link.
    "reason",
];

/// One field that differs.
#[derive(Debug, Serialize)]
pub(crate) struct FieldDiff {
    field: &'static str,
    before: Value,
    after: Value,
}

/// The differences between two links as JSON; null is no link.
pub(crate) fn diff(before: &Value, after: &Value) -> Vec<FieldDiff> {
    let side =
        |link: &Value, field| link.get(field).cloned().filter(|value| !is_empty(value)).unwrap_or_default();
    DIFF_FIELDS
        .into_iter()
        .map(|field| FieldDiff { field, before: side(before, field), after: side(after, field) })
        .filter(|change| change.before != change.after)
        .collect()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        _ => false,
    }
}

impl fmt::Display for FieldDiff {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.before {
            Value::Null => write!(out, "{}: {}", self.field, shown(&self.after)),
            before => write!(out, "{}: {} -> {}", self.field, shown(before), shown(&self.after)),
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
