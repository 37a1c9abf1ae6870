//! Sink's JSON.

use rlinks_core::draft::Input;

use crate::import::record::Taker;
use crate::import::row::Row;

pub(super) fn row(taker: &mut Taker) -> Row {
    taker.refuse_password();
    Row {
        input: Input {
            code: taker.code("slug", "shortlink"),
            target: taker.text("url"),
            title: taker.text("title"),
            notes: taker.text("comment"),
            tags: taker.list("tags", &[',']),
            ..Input::default()
        },
        expires_at: taker.time("expiration").map(Some),
        created_at: taker.time("createdat"),
        ..Row::default()
    }
}
