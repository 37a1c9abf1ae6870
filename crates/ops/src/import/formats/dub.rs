//! Dub's CSV.

use rlinks_core::draft::Input;

use crate::import::record::Taker;
use crate::import::row::Row;

pub(super) fn row(taker: &mut Taker) -> Row {
    Row {
        input: Input {
            code: taker.code("key", "shortlink"),
            target: taker.text("destinationurl"),
            title: taker.text("title"),
            notes: taker.text("description"),
            tags: taker.list("tags", &[',']),
            metadata: taker.archived(),
            ..Input::default()
        },
        expires_at: taker.time("expiresat").map(Some),
        created_at: taker.time("createdat"),
        total: taker.clicks("clicks"),
        ..Row::default()
    }
}
