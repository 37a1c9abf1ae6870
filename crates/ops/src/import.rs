//! Moving in and out: links from files of ours and of others, and links as files.
//!
//! | to find | look in |
//! |---|---|
//! | what a file holds, whatever its format | `read`: containers (JSON, CSV, SQL) as records, one after the other |
//! | what a record of each format means | `formats`: a `record` becomes a [`Row`] |
//! | what becomes of rows | `import`: checked, compared with what is there, written many at a time; `report` says so |
//! | links on their way out | `export`, printed by `write` |
//!
//! Nothing here holds a whole file: rows flow through a bounded channel, and links leave a page at a time.

pub(crate) mod action;
pub(crate) mod candidate;
pub(crate) mod checker;
mod formats;
pub(crate) mod reader;
mod record;
mod report;
mod row;
pub(crate) mod run;

pub use self::report::{Outcome, Problem, Report, Update};
pub use self::row::{Exact, Row};
pub use crate::export::{Export, Exported, Pages};
pub use crate::import::reader::{Item, ReadError, Rows};
pub use crate::import::run::{Admit, Candidate, Existing, Import, Judge, Keep, Rules, Step, Verdict};

/// What a file to import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    /// One REST link body on each line.
    Jsonl,
    /// The same fields as columns.
    Csv,
    /// Shlink's CSV: its export, and what it imports itself.
    Shlink,
    /// Dub's CSV.
    Dub,
    /// Chhoto URL's JSON.
    Chhoto,
    /// A YOURLS database as SQL, or its table as CSV.
    Yourls,
    /// The JSON of Kutt's list of links.
    Kutt,
    /// Sink's JSON.
    Sink,
    /// golink's JSON lines.
    Golink,
    /// The JSON of Bitly's list of links.
    Bitly,
}

impl ImportFormat {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 10] = [
        ("jsonl", Self::Jsonl),
        ("csv", Self::Csv),
        ("shlink", Self::Shlink),
        ("dub", Self::Dub),
        ("chhoto", Self::Chhoto),
        ("yourls", Self::Yourls),
        ("kutt", Self::Kutt),
        ("sink", Self::Sink),
        ("golink", Self::Golink),
        ("bitly", Self::Bitly),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// Whether it is one of ours, which says everything a link has.
    const fn is_ours(self) -> bool {
        matches!(self, Self::Jsonl | Self::Csv)
    }
}

/// As what links leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// One REST link body on each line.
    Jsonl,
    /// The same fields as columns, safe to open in a spreadsheet.
    Csv,
    /// A `map` for nginx.
    Nginx,
    /// Lines of a Caddyfile.
    Caddy,
    /// Cloudflare's `_redirects`.
    Cloudflare,
}

impl ExportFormat {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("jsonl", Self::Jsonl),
        ("csv", Self::Csv),
        ("nginx", Self::Nginx),
        ("caddy", Self::Caddy),
        ("cloudflare", Self::Cloudflare),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// What HTTP calls it.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Jsonl => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Nginx | Self::Caddy | Self::Cloudflare => "text/plain; charset=utf-8",
        }
    }

    /// What a file of it is called.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Jsonl => "links.jsonl",
            Self::Csv => "links.csv",
            Self::Nginx => "links.nginx.conf",
            Self::Caddy => "links.caddy",
            Self::Cloudflare => "_redirects",
        }
    }

    /// Whether it holds what answers now, for another server, rather than everything a link has.
    pub const fn is_map(self) -> bool {
        matches!(self, Self::Nginx | Self::Caddy | Self::Cloudflare)
    }
}
