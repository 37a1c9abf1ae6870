//! Moving in: links from files of ours and of others.
//!
//! | to find | look in |
//! |---|---|
//! | what a file holds, whatever its format | `reader`: containers (JSON, CSV, SQL) as records, one after the other |
//! | what a record of each format means | `formats`: a `record` becomes a [`Row`] |
//! | what rows are checked against | `rules` |
//! | what becomes of rows | `run`: read, checked (`checker`), compared with what is there, and written many at a time |
//! | the link a row would be, and what to do about it | `candidate`, `action` |
//! | what became of the rows | `report` |
//!
//! Nothing here holds a whole file: rows flow through a bounded channel.

mod action;
mod candidate;
mod checker;
mod formats;
mod reader;
mod record;
mod report;
mod row;
mod rules;
mod run;

pub use self::action::ImportAction;
pub use self::candidate::Candidate;
pub use self::checker::RowChecker;
pub use self::reader::{ParsedRow, ReadError, Rows};
pub use self::report::{ImportReport, RowOutcome, RowProblem, RowResult, UpdatedLink};
pub use self::row::{PreservedFields, Row};
pub use self::rules::{ImportIdentity, OnExisting, Rules};
pub use self::run::ImportOptions;

/// What a file to import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    /// One REST link body on each line.
    Jsonl,
    /// The same fields as columns.
    Csv,
    /// Shlink's CSV: its export, and what it imports itself.
    Shlink,
    Dub,
    Chhoto,
    /// A YOURLS database as SQL, or its table as CSV.
    Yourls,
    /// The JSON of Kutt's list of links.
    Kutt,
    Sink,
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

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// Whether it is one of ours, which says everything a link has.
    const fn is_ours(self) -> bool {
        matches!(self, Self::Jsonl | Self::Csv)
    }
}
