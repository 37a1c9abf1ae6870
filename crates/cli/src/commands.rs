//! What each command means, one file a family, and what several of them need to read what was typed.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod clicks;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod domains;
pub(crate) mod edge_hits;
pub(crate) mod explain;
pub(crate) mod keys;
pub(crate) mod links;
pub(crate) mod members;
pub(crate) mod migrate;
pub(crate) mod publish;
pub(crate) mod serve;
pub(crate) mod shorten;
pub(crate) mod stats;
pub(crate) mod sweep;
pub(crate) mod workspaces;

use rlinks_core::time::TimeError;
use rlinks_core::{FieldCode, FieldError, Timestamp};

use crate::error::CliError;

/// What an operator's job is about: every workspace, unless somebody typed the name of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkspaceSelection {
    All,
    Named,
}

/// Runs a command to its end, on this thread and one beside it: an import reads on while it writes.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("the command cannot be run: {error}")))?;
    runtime.block_on(work)
}

/// A moment somebody asks about.
fn parse_time(at: Option<&str>) -> Result<Option<Timestamp>, FieldError> {
    at.map(|text| Timestamp::parse(text).map_err(|error| time_error("at", error))).transpose()
}

/// What was typed for a field is no time.
fn time_error(field: &str, error: TimeError) -> FieldError {
    let code = match error {
        TimeError::Milliseconds => FieldCode::Milliseconds,
        TimeError::NotATime | TimeError::Fraction => FieldCode::NotATime,
    };
    FieldError::new(field, code, error.to_string())
}

/// What was typed for a field, among the words it can be.
fn one_of<T: Copy>(field: &str, text: Option<&str>, words: &[(&str, T)]) -> Result<Option<T>, CliError> {
    let Some(text) = text else { return Ok(None) };
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    let list = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    let unknown = || FieldError::new(field, FieldCode::BadCharacters, format!("is none of {}", list()));
    Ok(Some(found.ok_or_else(unknown)?))
}
