//! golink's JSON lines.

use rlinks_core::draft::Input;
use rlinks_core::{FieldCode, FieldError};
use serde_json::{Map, json};

use crate::import::record::FieldReader;
use crate::import::row::Row;

pub(super) fn row(reader: &mut FieldReader) -> Row {
    let target = reader.text("long");
    if target.as_deref().is_some_and(|target| target.contains("{{")) {
        let message = "is a template; links here lead to one address, so give it without {{...}}";
        reader.errors.push(FieldError::new("target", FieldCode::BadCharacters, message));
    }
    let owner = reader.text("owner");
    Row {
        input: Input {
            code: reader.code("short", "shorturl"),
            target,
            metadata: owner.map(|owner| Map::from_iter([("owner".to_owned(), json!(owner))])),
            ..Input::default()
        },
        created_at: reader.time("created"),
        ..Row::default()
    }
}
