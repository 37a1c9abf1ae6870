//! Our own JSON lines and CSV, which say everything a link has.

use rlinks_clicks::rollup::Total;
use rlinks_core::draft::Input;
use rlinks_core::{FieldCode, FieldError, Id, LinkState};

use crate::import::ImportFormat;
use crate::import::record::{FieldReader, invalid_value, normalized_name};
use crate::import::row::{PreservedFields, Row};

/// Fields of a link that say nothing an import could keep: they follow from the rest.
const DERIVED_FIELDS: [&str; 4] = ["workspace", "domain", "shorturl", "expired"];

/// A column of ours no link has, where there is one.
pub fn unknown_column(columns: &[String]) -> Option<&String> {
    const KNOWN_COLUMNS: [&str; 22] = [
        "code",
        "target",
        "state",
        "redirectstatus",
        "httpsonly",
        "noloop",
        "expiresat",
        "title",
        "notes",
        "tags",
        "metadata",
        "source",
        "createdby",
        "createdat",
        "updatedat",
        "version",
        "clicks",
        "lastclickedat",
        "hits",
        "lasthitat",
        "id",
        "generated",
    ];
    columns.iter().find(|name| {
        let name = normalized_name(name);
        !KNOWN_COLUMNS.contains(&name.as_str()) && !DERIVED_FIELDS.contains(&name.as_str())
    })
}

pub(super) fn row(reader: &mut FieldReader, format: ImportFormat) -> Row {
    let mut row = Row {
        input: Input {
            code: reader.code("code", "shorturl"),
            target: reader.text("target"),
            redirect_status: reader.integer("redirectstatus"),
            https_only: reader.boolean("httpsonly"),
            no_loop: reader.boolean("noloop"),
            metadata: reader.metadata(),
            ..Input::default()
        },
        expires_at: reader.record.contains("expiresat").then(|| reader.time("expiresat")),
        state: state(reader),
        created_at: reader.time("createdat"),
        total: own_total(reader),
        preserved: PreservedFields {
            id: reader.integer("id").map(Id::from_i64),
            created_by: reader.text("createdby"),
            version: reader.integer("version"),
            updated_at: reader.time("updatedat"),
            source: reader.text("source").and_then(|text| {
                let unknown = || invalid_value("source", "must be api, web, cli or import");
                reader.errors.ok_or_push(text.parse().map_err(|()| unknown()))
            }),
            generated: reader.boolean("generated").unwrap_or_default(),
        },
        ..Row::default()
    };
    // Who says a field says that it is empty; a file that does not have it says nothing.
    row.input.title = reader.record.contains("title").then(|| reader.text("title").unwrap_or_default());
    row.input.notes = reader.record.contains("notes").then(|| reader.text("notes").unwrap_or_default());
    row.input.tags = reader.record.contains("tags").then(|| reader.list("tags", &[',']).unwrap_or_default());
    for name in DERIVED_FIELDS {
        reader.record.take(name);
    }
    if format == ImportFormat::Jsonl {
        for (_, name, _) in std::mem::take(&mut reader.record.values) {
            let name: String = name.chars().take(100).collect();
            reader.errors.push(FieldError::new(&name, FieldCode::UnknownField, "is no field of a link"));
        }
    }
    row
}

fn state(reader: &mut FieldReader) -> Option<LinkState> {
    let (name, text) = reader.named_text("state")?;
    reader
        .errors
        .ok_or_push(text.parse().map_err(|()| invalid_value(&name, "must be active, disabled or deleted")))
}

/// People's clicks, and all: the rest are bots.
fn own_total(reader: &mut FieldReader) -> Option<Total> {
    let (last_click, last_hit) = (reader.time("lastclickedat"), reader.time("lasthitat"));
    let clicks = reader.clicks("clicks").map(|total| total.clicks);
    let hits = reader.clicks("hits").map(|total| total.clicks);
    let clicks = clicks.or(hits)?;
    let bots = hits.unwrap_or(clicks) - clicks;
    if bots < 0 {
        return reader.push_error("hits", "are fewer than the clicks among them");
    }
    let total = Total { clicks, bots, last_click, last_hit };
    (total != Total::default()).then_some(total)
}
