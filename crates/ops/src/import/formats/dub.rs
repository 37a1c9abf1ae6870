//! Dub's CSV.

use rlinks_core::draft::Input;

use crate::import::record::FieldReader;
use crate::import::row::Row;

pub(super) fn row(reader: &mut FieldReader) -> Row {
    Row {
        input: Input {
            code: reader.code("key", "shortlink"),
            target: reader.text("destinationurl"),
            title: reader.text("title"),
            notes: reader.text("description"),
            tags: reader.list("tags", &[',']),
            metadata: reader.archived(),
            ..Input::default()
        },
        expires_at: reader.time("expiresat").map(Some),
        created_at: reader.time("createdat"),
        total: reader.clicks("clicks"),
        ..Row::default()
    }
}
