//! A YOURLS database as SQL, or its table as CSV.

use rlinks_core::draft::Input;

use crate::import::record::FieldReader;
use crate::import::row::Row;

pub(super) fn row(reader: &mut FieldReader) -> Row {
    Row {
        input: Input {
            code: reader.code("keyword", "shorturl"),
            target: reader.text("url"),
            title: reader.text("title"),
            ..Input::default()
        },
        created_at: reader.time("timestamp"),
        total: reader.clicks("clicks"),
        ..Row::default()
    }
}
