//! Which format a record looks like, and what it means: a file for each rival, and one for ours.
//!
//! A record is one object, line or tuple with named values. Names are compared without case, spaces, hyphens and underscores. What a
//! rival says beyond what is named here is passed over; in formats of ours an unknown field is an error, as in a request.

mod bitly;
mod chhoto;
mod dub;
mod golink;
mod kutt;
pub(super) mod ours;
mod shlink;
mod sink;
mod yourls;

use rlinks_clicks::rollup::Total;
use rlinks_core::{FieldCode, FieldError, FieldErrors};
use serde_json::{Map, Value, json};

use super::ImportFormat;
use super::record::{FieldReader, Record, normalized_name};
use super::row::Row;

/// The most clicks a link can have had elsewhere: more than anybody counts, and so few that no sum of them is too large for a database.
const MAX_CLICKS: i64 = 1_000_000_000_000;

/// The format a record of JSON looks like.
pub fn detect_json_format(record: &Record) -> Option<ImportFormat> {
    let known = [
        (["shortlink", "longlink"], ImportFormat::Chhoto),
        (["short", "long"], ImportFormat::Golink),
        (["slug", "url"], ImportFormat::Sink),
        (["link", "longurl"], ImportFormat::Bitly),
        (["address", "target"], ImportFormat::Kutt),
        (["code", "target"], ImportFormat::Jsonl),
        (["shorturl", "target"], ImportFormat::Jsonl),
    ];
    known.into_iter().find(|(names, _)| record.has_all(names)).map(|(_, format)| format)
}

/// The format a header of CSV looks like.
pub fn detect_csv_format(columns: &[String]) -> Option<ImportFormat> {
    let known = [
        (["shortcode", "longurl"], ImportFormat::Shlink),
        (["shorturl", "longurl"], ImportFormat::Shlink),
        (["shortlink", "destinationurl"], ImportFormat::Dub),
        (["keyword", "url"], ImportFormat::Yourls),
        (["code", "target"], ImportFormat::Csv),
        (["shorturl", "target"], ImportFormat::Csv),
    ];
    let plain: Vec<String> = columns.iter().map(|name| normalized_name(name)).collect();
    let has = |names: &[&str; 2]| names.iter().all(|name| plain.iter().any(|known| known == name));
    known.into_iter().find(|(names, _)| has(names)).map(|(_, format)| format)
}

/// The rows a record stands for: one, or one for each of its addresses. Or everything that is wrong with it, and its code.
pub fn rows(
    format: ImportFormat,
    number: u64,
    record: Record,
) -> Result<Vec<Row>, (Option<String>, FieldErrors)> {
    let mut reader = FieldReader { record, errors: FieldErrors::default() };
    let mut more_codes = Vec::new();
    let mut row = match format {
        ImportFormat::Jsonl | ImportFormat::Csv => ours::row(&mut reader, format),
        ImportFormat::Shlink => shlink::row(&mut reader),
        ImportFormat::Dub => dub::row(&mut reader),
        ImportFormat::Chhoto => chhoto::row(&mut reader),
        ImportFormat::Yourls => yourls::row(&mut reader),
        ImportFormat::Kutt => kutt::row(&mut reader),
        ImportFormat::Sink => sink::row(&mut reader),
        ImportFormat::Golink => golink::row(&mut reader),
        ImportFormat::Bitly => bitly::row(&mut reader, &mut more_codes),
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
    match reader.errors.into_result() {
        Ok(()) => Ok(rows),
        Err(errors) => Err((rows.swap_remove(0).reported_code(), errors)),
    }
}

fn one_line(text: &str) -> String {
    text.split(char::is_control).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Values that several formats have.
impl FieldReader {
    /// Archived there means out of sight, and the link goes on answering: so it does here, and says so.
    fn archived(&mut self) -> Option<Map<String, Value>> {
        self.boolean("archived")?.then(|| Map::from_iter([("archived".to_owned(), json!(true))]))
    }

    fn clicks(&mut self, name: &str) -> Option<Total> {
        let clicks = self.integer(name)?;
        if clicks < 0 {
            return self.push_error(name, "cannot be less than nothing");
        }
        if clicks > MAX_CLICKS {
            let message = format!("is more than {MAX_CLICKS}, which no link has counted");
            self.errors.push(FieldError::new(name, FieldCode::TooLong, message));
            return None;
        }
        Some(Total { clicks, ..Total::default() })
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
