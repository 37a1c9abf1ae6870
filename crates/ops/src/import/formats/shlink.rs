//! Shlink's CSV: its export, and what it imports itself.

use rlinks_core::draft::Input;

use crate::import::record::FieldReader;
use crate::import::row::Row;

pub(super) fn row(reader: &mut FieldReader) -> Row {
    Row {
        input: Input {
            code: reader.code("shortcode", "shorturl"),
            target: reader.text("longurl"),
            title: reader.text("title"),
            tags: reader.list("tags", &['|', ',']),
            ..Input::default()
        },
        created_at: reader.time("createdat"),
        total: reader.clicks("visits"),
        ..Row::default()
    }
}
