//! Sink's JSON.

use rlinks_core::draft::Input;

use crate::import::record::FieldReader;
use crate::import::row::Row;

pub(super) fn row(reader: &mut FieldReader) -> Row {
    reader.refuse_password();
    Row {
        input: Input {
            code: reader.code("slug", "shortlink"),
            target: reader.text("url"),
            title: reader.text("title"),
            notes: reader.text("comment"),
            tags: reader.list("tags", &[',']),
            ..Input::default()
        },
        expires_at: reader.time("expiration").map(Some),
        created_at: reader.time("createdat"),
        ..Row::default()
    }
}
