//! The JSON of Kutt's list of links.

use rlinks_core::LinkState;
use rlinks_core::draft::Input;

use crate::import::record::FieldReader;
use crate::import::row::Row;

pub(super) fn row(reader: &mut FieldReader) -> Row {
    reader.refuse_password();
    Row {
        input: Input {
            code: reader.code("address", "link"),
            target: reader.text("target"),
            notes: reader.text("description"),
            ..Input::default()
        },
        state: reader.boolean("banned").filter(|banned| *banned).map(|_| LinkState::Disabled),
        expires_at: reader.time("expirein").map(Some),
        created_at: reader.time("createdat"),
        total: reader.clicks("visitcount"),
        ..Row::default()
    }
}
