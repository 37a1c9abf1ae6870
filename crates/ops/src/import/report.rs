//! What became of the rows of a file, in numbers and, where they were not imported, one by one.

use rlinks_core::{FieldErrors, Link};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most rows a report names; the others are counted.
const MAX_REPORTED_ROWS: usize = 1000;
/// As much of a reason as a report says.
const MAX_REASON_CHARS: usize = 1000;

/// What an import did, or would do.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Report)]
pub struct ImportReport {
    /// What the file is: `jsonl`, `csv`, `shlink`, ...
    #[schema(example = "jsonl")]
    pub format: String,
    /// Nothing was written.
    pub dry_run: bool,
    /// Rows that were read. The others are adding up to it.
    pub rows: u64,
    /// New links.
    pub created: u64,
    /// Links that were there and were changed, where that was asked for.
    pub updated: u64,
    /// The same link is there already.
    pub skipped: u64,
    /// Another link is there, or the row says something else than one before it.
    pub conflicting: u64,
    /// Rows that break a rule.
    pub refused: u64,
    /// The first 1,000 rows that conflict or were refused, in their order.
    pub problems: Vec<RowProblem>,
    /// How many more there are.
    pub more: u64,
    /// Why the rest of the file was not read, where it was not.
    #[schema(required)]
    pub stopped: Option<String>,
    /// What else to know about the rows.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Of the conflicting rows, those for which the link that is there would be changed, were that asked for.
    #[serde(skip)]
    pub may_overwrite: u64,
    /// The first 1,000 links that were changed, as they were and as they became.
    #[serde(skip)]
    pub updates: Vec<UpdatedLink>,
}

/// A row that was not imported.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct RowProblem {
    /// The line of the file, or which of its list it is.
    pub row: u64,
    /// Its code, where it has one.
    #[schema(required)]
    pub code: Option<String>,
    /// `conflicting` or `refused`.
    pub outcome: RowOutcome,
    /// Why.
    pub reason: String,
}

/// A link that was there and was, or would be, changed.
#[derive(Clone, Debug)]
pub struct UpdatedLink {
    pub before: Link,
    pub after: Link,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Outcome)]
pub enum RowOutcome {
    /// A new link.
    Created,
    /// A changed one.
    Updated,
    /// The same link is there.
    Skipped,
    /// Something else is there.
    Conflicting,
    /// It breaks a rule.
    Refused,
}

/// What became of a row, and why.
pub struct RowResult {
    pub row: u64,
    /// Its code, where it has one.
    pub code: Option<String>,
    /// What became of it.
    pub outcome: RowOutcome,
    pub reason: String,
    /// What it conflicts with would be changed, were that asked for.
    pub may_overwrite: bool,
}

impl RowResult {
    /// Of a row that breaks a rule.
    pub fn refused(row: u64, code: Option<String>, errors: &FieldErrors) -> Self {
        let mut reason = errors.to_string();
        if let Some((end, _)) = reason.char_indices().nth(MAX_REASON_CHARS) {
            reason.truncate(end);
            reason.push('…');
        }
        Self { row, code, outcome: RowOutcome::Refused, reason, may_overwrite: false }
    }
}

impl ImportReport {
    pub(crate) fn count(&mut self, outcome: RowOutcome) {
        let number = match outcome {
            RowOutcome::Created => &mut self.created,
            RowOutcome::Updated => &mut self.updated,
            RowOutcome::Skipped => &mut self.skipped,
            RowOutcome::Conflicting => &mut self.conflicting,
            RowOutcome::Refused => &mut self.refused,
        };
        *number += 1;
        self.rows += 1;
    }

    pub(crate) fn push_problem(&mut self, problem: RowProblem) {
        if self.problems.len() < MAX_REPORTED_ROWS {
            self.problems.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// Names a link that was changed.
    pub fn push_update(&mut self, update: UpdatedLink) {
        if self.updates.len() < MAX_REPORTED_ROWS {
            self.updates.push(update);
        }
    }
}
