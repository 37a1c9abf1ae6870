//! What the records of each format mean.
//!
//! A record is one object, line or tuple with named values. Names are compared without case, spaces, hyphens and underscores. What a
//! rival says beyond what is named here is passed over; in formats of ours an unknown field is an error, as in a request.

use rlinks_clicks::rollup::Total;
use rlinks_core::draft::Input;
use rlinks_core::{FieldCode, FieldError, FieldErrors, Id, LinkState};
use serde_json::{Map, Value, json};

use super::ImportFormat;
use super::record::{Record, Taker, plain, wrong};
use super::row::{Exact, Row, code_of_url};

/// Fields of a link that say nothing an import could keep: they follow from the rest.
const FOLLOWS: [&str; 4] = ["workspace", "domain", "shorturl", "expired"];

/// The most further addresses of one link.
const MOST_ADDRESSES: usize = 100;
/// The most clicks a link can have had elsewhere: more than anybody counts, and so few that no sum of them is too large for a database.
const MOST_CLICKS: i64 = 1_000_000_000_000;

/// The format a record of JSON looks like.
pub fn of_object(record: &Record) -> Option<ImportFormat> {
    let known = [
        (["shortlink", "longlink"], ImportFormat::Chhoto),
        (["short", "long"], ImportFormat::Golink),
        (["slug", "url"], ImportFormat::Sink),
        (["link", "longurl"], ImportFormat::Bitly),
        (["address", "target"], ImportFormat::Kutt),
        (["code", "target"], ImportFormat::Jsonl),
        (["shorturl", "target"], ImportFormat::Jsonl),
    ];
    known.into_iter().find(|(names, _)| record.has(names)).map(|(_, format)| format)
}

/// The format a header of CSV looks like.
pub fn of_header(columns: &[String]) -> Option<ImportFormat> {
    let known = [
        (["shortcode", "longurl"], ImportFormat::Shlink),
        (["shorturl", "longurl"], ImportFormat::Shlink),
        (["shortlink", "destinationurl"], ImportFormat::Dub),
        (["keyword", "url"], ImportFormat::Yourls),
        (["code", "target"], ImportFormat::Csv),
        (["shorturl", "target"], ImportFormat::Csv),
    ];
    let plain: Vec<String> = columns.iter().map(|name| plain(name)).collect();
    let has = |names: &[&str; 2]| names.iter().all(|name| plain.iter().any(|known| known == name));
    known.into_iter().find(|(names, _)| has(names)).map(|(_, format)| format)
}

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

/// The rows a record stands for: one, or one for each of its addresses. Or everything that is wrong with it, and its code.
pub fn rows(
    format: ImportFormat,
    number: u64,
    record: Record,
) -> Result<Vec<Row>, (Option<String>, FieldErrors)> {
    let mut taker = Taker { record, errors: FieldErrors::default() };
    let mut more_codes = Vec::new();
    let mut row = match format {
        ImportFormat::Jsonl | ImportFormat::Csv => taker.ours(format),
        ImportFormat::Shlink => taker.shlink(),
        ImportFormat::Dub => taker.dub(),
        ImportFormat::Chhoto => taker.chhoto(),
        ImportFormat::Yourls => taker.yourls(),
        ImportFormat::Kutt => taker.kutt(),
        ImportFormat::Sink => taker.sink(),
        ImportFormat::Golink => taker.golink(),
        ImportFormat::Bitly => taker.bitly(&mut more_codes),
    };
    row.number = number;
    if !format.is_ours() {
        // Titles of others come from web pages, with line breaks and all.
        row.input.title = row.input.title.map(|title| one_line(&title));
    }
    let mut rows = vec![row];
    for code in more_codes {
        let mut alike = rows[0].clone();
        alike.input.code = Some(code);
        if rows.iter().all(|row| row.input.code != alike.input.code) {
            rows.push(alike);
        }
    }
    match taker.errors.none() {
        Ok(()) => Ok(rows),
        Err(errors) => Err((rows.swap_remove(0).shown_code(), errors)),
    }
}

fn one_line(text: &str) -> String {
    text.split(char::is_control).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

impl Taker {
    fn ours(&mut self, format: ImportFormat) -> Row {
        let mut row = Row {
            input: Input {
                code: self.code("code", "shorturl"),
                target: self.text("target"),
                redirect_status: self.whole("redirectstatus"),
                https_only: self.switch("httpsonly"),
                no_loop: self.switch("noloop"),
                metadata: self.metadata(),
                ..Input::default()
            },
            expires_at: self.record.says("expiresat").then(|| self.time("expiresat")),
            state: self.state(),
            created_at: self.time("createdat"),
            total: self.own_total(),
            exact: Exact {
                id: self.whole("id").map(Id::from_i64),
                created_by: self.text("createdby"),
                version: self.whole("version"),
                updated_at: self.time("updatedat"),
                source: self.text("source").and_then(|text| {
                    let unknown = || wrong("source", "must be api, web, cli or import");
                    self.errors.take(text.parse().map_err(|()| unknown()))
                }),
                generated: self.switch("generated").unwrap_or_default(),
            },
            ..Row::default()
        };
        // Who says a field says that it is empty; a file that does not have it says nothing.
        row.input.title = self.record.says("title").then(|| self.text("title").unwrap_or_default());
        row.input.notes = self.record.says("notes").then(|| self.text("notes").unwrap_or_default());
        row.input.tags = self.record.says("tags").then(|| self.list("tags", &[',']).unwrap_or_default());
        for name in FOLLOWS {
            self.record.take(name);
        }
        if format == ImportFormat::Jsonl {
            for (_, name, _) in std::mem::take(&mut self.record.values) {
                let name: String = name.chars().take(100).collect();
                self.errors.push(FieldError::new(&name, FieldCode::UnknownField, "is no field of a link"));
            }
        }
        row
    }

    fn shlink(&mut self) -> Row {
        Row {
            input: Input {
                code: self.code("shortcode", "shorturl"),
                target: self.text("longurl"),
                title: self.text("title"),
                tags: self.list("tags", &['|', ',']),
                ..Input::default()
            },
            created_at: self.time("createdat"),
            total: self.clicks("visits"),
            ..Row::default()
        }
    }

    fn dub(&mut self) -> Row {
        Row {
            input: Input {
                code: self.code("key", "shortlink"),
                target: self.text("destinationurl"),
                title: self.text("title"),
                notes: self.text("description"),
                tags: self.list("tags", &[',']),
                metadata: self.archived(),
                ..Input::default()
            },
            expires_at: self.time("expiresat").map(Some),
            created_at: self.time("createdat"),
            total: self.clicks("clicks"),
            ..Row::default()
        }
    }

    fn chhoto(&mut self) -> Row {
        Row {
            input: Input {
                code: self.code("shortlink", "shorturl"),
                target: self.text("longlink"),
                notes: self.text("notes"),
                ..Input::default()
            },
            // Zero is never.
            expires_at: self.time("expirytime").filter(|at| at.ms() > 0).map(Some),
            total: self.clicks("hits"),
            ..Row::default()
        }
    }

    fn yourls(&mut self) -> Row {
        Row {
            input: Input {
                code: self.code("keyword", "shorturl"),
                target: self.text("url"),
                title: self.text("title"),
                ..Input::default()
            },
            created_at: self.time("timestamp"),
            total: self.clicks("clicks"),
            ..Row::default()
        }
    }

    fn kutt(&mut self) -> Row {
        self.refuse_password();
        Row {
            input: Input {
                code: self.code("address", "link"),
                target: self.text("target"),
                notes: self.text("description"),
                ..Input::default()
            },
            state: self.switch("banned").filter(|banned| *banned).map(|_| LinkState::Disabled),
            expires_at: self.time("expirein").map(Some),
            created_at: self.time("createdat"),
            total: self.clicks("visitcount"),
            ..Row::default()
        }
    }

    fn sink(&mut self) -> Row {
        self.refuse_password();
        Row {
            input: Input {
                code: self.code("slug", "shortlink"),
                target: self.text("url"),
                title: self.text("title"),
                notes: self.text("comment"),
                tags: self.list("tags", &[',']),
                ..Input::default()
            },
            expires_at: self.time("expiration").map(Some),
            created_at: self.time("createdat"),
            ..Row::default()
        }
    }

    fn golink(&mut self) -> Row {
        let target = self.text("long");
        if target.as_deref().is_some_and(|target| target.contains("{{")) {
            let message = "is a template; links here lead to one address, so give it without {{...}}";
            self.errors.push(FieldError::new("target", FieldCode::BadCharacters, message));
        }
        let owner = self.text("owner");
        Row {
            input: Input {
                code: self.code("short", "shorturl"),
                target,
                metadata: owner.map(|owner| Map::from_iter([("owner".to_owned(), json!(owner))])),
                ..Input::default()
            },
            created_at: self.time("created"),
            ..Row::default()
        }
    }

    fn bitly(&mut self, more_codes: &mut Vec<String>) -> Row {
        let code = self.code("hash", "id").or_else(|| self.code("hash", "link"));
        let more = self.list("custombitlinks", &[',']).unwrap_or_default();
        if more.len() > MOST_ADDRESSES {
            self.wrong::<()>("custom_bitlinks", &format!("has more than {MOST_ADDRESSES} addresses"));
        } else {
            more_codes.extend(more.iter().filter_map(|url| code_of_url(url)));
        }
        Row {
            input: Input {
                code,
                target: self.text("longurl"),
                title: self.text("title"),
                tags: self.list("tags", &[',']),
                metadata: self.archived(),
                ..Input::default()
            },
            created_at: self.time("createdat"),
            ..Row::default()
        }
    }

    // ---- values ----

    fn state(&mut self) -> Option<LinkState> {
        let (name, text) = self.named_text("state")?;
        self.errors.take(text.parse().map_err(|()| wrong(&name, "must be active, disabled or deleted")))
    }

    /// Archived there means out of sight, and the link goes on answering: so it does here, and says so.
    fn archived(&mut self) -> Option<Map<String, Value>> {
        self.switch("archived")?.then(|| Map::from_iter([("archived".to_owned(), json!(true))]))
    }

    fn clicks(&mut self, name: &str) -> Option<Total> {
        let clicks = self.whole(name)?;
        if clicks < 0 {
            return self.wrong(name, "cannot be less than nothing");
        }
        if clicks > MOST_CLICKS {
            let message = format!("is more than {MOST_CLICKS}, which no link has counted");
            self.errors.push(FieldError::new(name, FieldCode::TooLong, message));
            return None;
        }
        Some(Total { clicks, ..Total::default() })
    }

    /// People's clicks, and all: the rest are bots.
    fn own_total(&mut self) -> Option<Total> {
        let (last_click, last_hit) = (self.time("lastclickedat"), self.time("lasthitat"));
        let clicks = self.clicks("clicks").map(|total| total.clicks);
        let hits = self.clicks("hits").map(|total| total.clicks);
        let clicks = clicks.or(hits)?;
        let bots = hits.unwrap_or(clicks) - clicks;
        if bots < 0 {
            return self.wrong("hits", "are fewer than the clicks among them");
        }
        let total = Total { clicks, bots, last_click, last_hit };
        (total != Total::default()).then_some(total)
    }

    fn refuse_password(&mut self) {
        let is_protected = match self.record.take("password") {
            None | Some((_, Value::Bool(false))) => false,
            Some((_, Value::String(text))) => text != "false",
            Some(_) => true,
        };
        if is_protected {
            let message =
                "protects this link, and links here have none: without it everybody could follow it";
            self.errors.push(FieldError::new("password", FieldCode::UnknownField, message));
        }
    }
}
