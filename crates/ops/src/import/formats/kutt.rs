//! The JSON of Kutt's list of links.

use rlinks_core::LinkState;
use rlinks_core::draft::Input;

use crate::import::record::Taker;
use crate::import::row::Row;

pub(super) fn row(taker: &mut Taker) -> Row {
    taker.refuse_password();
    Row {
        input: Input {
            code: taker.code("address", "link"),
            target: taker.text("target"),
            notes: taker.text("description"),
            ..Input::default()
        },
        state: taker.switch("banned").filter(|banned| *banned).map(|_| LinkState::Disabled),
        expires_at: taker.time("expirein").map(Some),
        created_at: taker.time("createdat"),
        total: taker.clicks("visitcount"),
        ..Row::default()
    }
}
