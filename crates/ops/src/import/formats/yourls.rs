//! A YOURLS database as SQL, or its table as CSV.

use rlinks_core::draft::Input;

use crate::import::record::Taker;
use crate::import::row::Row;

pub(super) fn row(taker: &mut Taker) -> Row {
    Row {
        input: Input {
            code: taker.code("keyword", "shorturl"),
            target: taker.text("url"),
            title: taker.text("title"),
            ..Input::default()
        },
        created_at: taker.time("timestamp"),
        total: taker.clicks("clicks"),
        ..Row::default()
    }
}
