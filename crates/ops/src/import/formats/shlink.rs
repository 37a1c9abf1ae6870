//! Shlink's CSV: its export, and what it imports itself.

use rlinks_core::draft::Input;

use crate::import::record::Taker;
use crate::import::row::Row;

pub(super) fn row(taker: &mut Taker) -> Row {
    Row {
        input: Input {
            code: taker.code("shortcode", "shorturl"),
            target: taker.text("longurl"),
            title: taker.text("title"),
            tags: taker.list("tags", &['|', ',']),
            ..Input::default()
        },
        created_at: taker.time("createdat"),
        total: taker.clicks("visits"),
        ..Row::default()
    }
}
