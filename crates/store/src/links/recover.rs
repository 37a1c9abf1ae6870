//! Links whose row nobody can read, because somebody edited the table or a disk lost a bit. The log is the truth, so such a link
//! is what its last audit entry says, and one broken row disables nothing but itself. It is not served (see `routes`).

use std::collections::HashMap;

use rlinks_core::Link;

use crate::StoreError;
use crate::database::json::json;
use crate::database::pool::{Pool, Tx, read, read_in};
use crate::links::rows::LinkRow;

/// A link's place: workspace and code.
pub(crate) type LinkKey = (i64, String);

/// The last `after` of the links at `$1`, a JSON array of `{id, subject}`.
const LAST_ENTRIES: &str = "select a.workspace_id, a.subject, a.after
     from (select b.workspace_id, b.subject, max(b.seq) as seq from audit b
           where (b.workspace_id, b.subject) in (select cast(value ->> 'id' as bigint), value ->> 'subject' from json_each($1))
           group by b.workspace_id, b.subject) as newest
     join audit a on a.workspace_id = newest.workspace_id and a.seq = newest.seq";
type EntryRow = (i64, String, Option<String>);

/// A row and the link it stands for.
pub(crate) struct RecoveredRow {
    /// The id in the row.
    pub(crate) row_id: i64,
    pub(crate) key: LinkKey,
    pub(crate) link: Result<Link, StoreError>,
    /// The row could not be read; this is what the log says.
    pub(crate) from_log: bool,
}

impl RecoveredRow {
    fn from_row(row: LinkRow) -> Self {
        let (row_id, key) = (row.id, (row.workspace_id, row.code.clone()));
        Self { row_id, key, link: row.link(), from_log: false }
    }
}

/// Reads rows, the broken ones from the log.
pub(crate) async fn links(pool: &Pool, rows: Vec<LinkRow>) -> Result<Vec<RecoveredRow>, StoreError> {
    let readings: Vec<_> = rows.into_iter().map(RecoveredRow::from_row).collect();
    let Some(wanted) = broken_subjects(&readings) else { return Ok(readings) };
    let words: Vec<EntryRow> = read!(pool, fetch_all, LAST_ENTRIES, wanted)?;
    Ok(fill_from_log(readings, words))
}

/// The same inside a transaction.
pub(crate) async fn links_in(tx: &mut Tx, rows: Vec<LinkRow>) -> Result<Vec<RecoveredRow>, StoreError> {
    let readings: Vec<_> = rows.into_iter().map(RecoveredRow::from_row).collect();
    let Some(wanted) = broken_subjects(&readings) else { return Ok(readings) };
    let words: Vec<EntryRow> = read_in!(tx, fetch_all, LAST_ENTRIES, wanted)?;
    Ok(fill_from_log(readings, words))
}

/// What the log says of the links at these places, as far as it can be read.
pub(crate) async fn from_log(tx: &mut Tx, keys: &[LinkKey]) -> Result<HashMap<LinkKey, Link>, StoreError> {
    let words: Vec<EntryRow> = read_in!(tx, fetch_all, LAST_ENTRIES, subjects(keys.iter()))?;
    Ok(parse_entries(words))
}

/// The links among these that can be read; the others are named in our log and passed over.
pub(crate) fn readable(readings: Vec<RecoveredRow>) -> Vec<Link> {
    let keep = |reading: RecoveredRow| match reading.link {
        Ok(link) => Some(link),
        Err(error) => {
            tracing::warn!(%error, code = reading.key.1, "a link is passed over");
            None
        }
    };
    readings.into_iter().filter_map(keep).collect()
}

fn broken_subjects(readings: &[RecoveredRow]) -> Option<String> {
    let mut places = readings.iter().filter(|reading| reading.link.is_err()).map(|reading| &reading.key);
    places.clone().next()?;
    Some(subjects(&mut places))
}

fn subjects<'a>(places: impl Iterator<Item = &'a LinkKey>) -> String {
    let wanted = |(id, code): &LinkKey| serde_json::json!({ "id": id, "subject": format!("link:{code}") });
    json(&places.map(wanted).collect::<Vec<_>>())
}

fn parse_entries(words: Vec<EntryRow>) -> HashMap<LinkKey, Link> {
    let read = |(workspace, subject, after): EntryRow| {
        let link: Link = serde_json::from_str(&after?).ok()?;
        let place = (workspace, subject.strip_prefix("link:")?.to_owned());
        // An entry that speaks of another link is no entry about this one.
        (link.workspace.as_i64() == place.0 && link.code.as_str() == place.1).then_some((place, link))
    };
    words.into_iter().filter_map(read).collect()
}

fn fill_from_log(mut readings: Vec<RecoveredRow>, words: Vec<EntryRow>) -> Vec<RecoveredRow> {
    let mut logged = parse_entries(words);
    for reading in readings.iter_mut().filter(|reading| reading.link.is_err()) {
        if let Some(link) = logged.remove(&reading.key) {
            tracing::warn!(code = reading.key.1, "the row of a link is broken; its last audit entry is used");
            reading.link = Ok(link);
            reading.from_log = true;
        }
    }
    readings
}
