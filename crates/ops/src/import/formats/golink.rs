//! golink's JSON lines.

use rlinks_core::draft::Input;
use rlinks_core::{FieldCode, FieldError};
use serde_json::{Map, json};

use crate::import::record::Taker;
use crate::import::row::Row;

pub(super) fn row(taker: &mut Taker) -> Row {
    let target = taker.text("long");
    if target.as_deref().is_some_and(|target| target.contains("{{")) {
        let message = "is a template; links here lead to one address, so give it without {{...}}";
        taker.errors.push(FieldError::new("target", FieldCode::BadCharacters, message));
    }
    let owner = taker.text("owner");
    Row {
        input: Input {
            code: taker.code("short", "shorturl"),
            target,
            metadata: owner.map(|owner| Map::from_iter([("owner".to_owned(), json!(owner))])),
            ..Input::default()
        },
        created_at: taker.time("created"),
        ..Row::default()
    }
}
