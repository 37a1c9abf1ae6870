//! Our own JSON lines and CSV, which say everything a link has.

use rlinks_clicks::rollup::Total;
use rlinks_core::draft::Input;
use rlinks_core::{FieldCode, FieldError, Id, LinkState};

use crate::import::ImportFormat;
use crate::import::record::{Taker, plain, wrong};
use crate::import::row::{Exact, Row};

/// Fields of a link that say nothing an import could keep: they follow from the rest.
const FOLLOWS: [&str; 4] = ["workspace", "domain", "shorturl", "expired"];

/// A column of ours no link has, where there is one.
pub fn unknown_column(columns: &[String]) -> Option<&String> {
    const OURS: [&str; 22] = [
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
        let name = plain(name);
        !OURS.contains(&name.as_str()) && !FOLLOWS.contains(&name.as_str())
    })
}

pub(super) fn row(taker: &mut Taker, format: ImportFormat) -> Row {
    let mut row = Row {
        input: Input {
            code: taker.code("code", "shorturl"),
            target: taker.text("target"),
            redirect_status: taker.whole("redirectstatus"),
            https_only: taker.switch("httpsonly"),
            no_loop: taker.switch("noloop"),
            metadata: taker.metadata(),
            ..Input::default()
        },
        expires_at: taker.record.says("expiresat").then(|| taker.time("expiresat")),
        state: state(taker),
        created_at: taker.time("createdat"),
        total: own_total(taker),
        exact: Exact {
            id: taker.whole("id").map(Id::from_i64),
            created_by: taker.text("createdby"),
            version: taker.whole("version"),
            updated_at: taker.time("updatedat"),
            source: taker.text("source").and_then(|text| {
                let unknown = || wrong("source", "must be api, web, cli or import");
                taker.errors.ok_or_push(text.parse().map_err(|()| unknown()))
            }),
            generated: taker.switch("generated").unwrap_or_default(),
        },
        ..Row::default()
    };
    // Who says a field says that it is empty; a file that does not have it says nothing.
    row.input.title = taker.record.says("title").then(|| taker.text("title").unwrap_or_default());
    row.input.notes = taker.record.says("notes").then(|| taker.text("notes").unwrap_or_default());
    row.input.tags = taker.record.says("tags").then(|| taker.list("tags", &[',']).unwrap_or_default());
    for name in FOLLOWS {
        taker.record.take(name);
    }
    if format == ImportFormat::Jsonl {
        for (_, name, _) in std::mem::take(&mut taker.record.values) {
            let name: String = name.chars().take(100).collect();
            taker.errors.push(FieldError::new(&name, FieldCode::UnknownField, "is no field of a link"));
        }
    }
    row
}

fn state(taker: &mut Taker) -> Option<LinkState> {
    let (name, text) = taker.named_text("state")?;
    taker.errors.ok_or_push(text.parse().map_err(|()| wrong(&name, "must be active, disabled or deleted")))
}

/// People's clicks, and all: the rest are bots.
fn own_total(taker: &mut Taker) -> Option<Total> {
    let (last_click, last_hit) = (taker.time("lastclickedat"), taker.time("lasthitat"));
    let clicks = taker.clicks("clicks").map(|total| total.clicks);
    let hits = taker.clicks("hits").map(|total| total.clicks);
    let clicks = clicks.or(hits)?;
    let bots = hits.unwrap_or(clicks) - clicks;
    if bots < 0 {
        return taker.wrong("hits", "are fewer than the clicks among them");
    }
    let total = Total { clicks, bots, last_click, last_hit };
    (total != Total::default()).then_some(total)
}
