//! Chhoto URL's JSON.

use rlinks_core::draft::Input;

use crate::import::record::FieldReader;
use crate::import::row::Row;

pub(super) fn row(reader: &mut FieldReader) -> Row {
    Row {
        input: Input {
            code: reader.code("shortlink", "shorturl"),
            target: reader.text("longlink"),
            notes: reader.text("notes"),
            ..Input::default()
        },
        // Zero is never.
        expires_at: reader.time("expirytime").filter(|at| at.ms() > 0).map(Some),
        total: reader.clicks("hits"),
        ..Row::default()
    }
}
