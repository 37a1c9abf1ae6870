//! Chhoto URL's JSON.

use rlinks_core::draft::Input;

use crate::import::record::Taker;
use crate::import::row::Row;

pub(super) fn row(taker: &mut Taker) -> Row {
    Row {
        input: Input {
            code: taker.code("shortlink", "shorturl"),
            target: taker.text("longlink"),
            notes: taker.text("notes"),
            ..Input::default()
        },
        // Zero is never.
        expires_at: taker.time("expirytime").filter(|at| at.ms() > 0).map(Some),
        total: taker.clicks("hits"),
        ..Row::default()
    }
}
