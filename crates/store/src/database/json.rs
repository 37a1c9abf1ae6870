//! Values of ours as JSON text: for columns that hold JSON, and for statements that take many rows at once through `json_each`.

use serde::Serialize;

/// Values of ours that are always JSON.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("our own values are JSON")
}
