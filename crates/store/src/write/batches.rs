//! Set-based inserts, shared by the writer and by restoring a backup. Each statement takes its rows as one JSON text.

use rlinks_core::audit::AuditEntry;
use rlinks_core::{Link, search};

use crate::StoreError;
use crate::pool::{Dialect, Tx, run_in};
use crate::rows::{LinkBatchRow, json};

/// New links. A code or target that is there already leaves its row out, and the count says so.
pub(crate) async fn links(tx: &mut Tx, rows: &[LinkBatchRow<'_>]) -> Result<u64, StoreError> {
    if rows.is_empty() {
        return Ok(0);
    }
    Ok(run_in!(
        tx,
        "insert into links (id, workspace_id, code, code_folded, generated, target, target_normalized, redirect_status, state,
            https_only, no_loop, expires_at, title, notes, tags, metadata, source, created_by, created_at, updated_at, version)
         select cast(value ->> 'id' as bigint), cast(value ->> 'workspace_id' as bigint), value ->> 'code',
            value ->> 'code_folded', cast(value ->> 'generated' as boolean), value ->> 'target', value ->> 'target_normalized',
            cast(value ->> 'redirect_status' as bigint), value ->> 'state', cast(value ->> 'https_only' as boolean),
            cast(value ->> 'no_loop' as boolean), cast(value ->> 'expires_at' as bigint), value ->> 'title', value ->> 'notes',
            value ->> 'tags', value ->> 'metadata', value ->> 'source', value ->> 'created_by',
            cast(value ->> 'created_at' as bigint), cast(value ->> 'updated_at' as bigint), cast(value ->> 'version' as bigint)
         from json_each($1) where true
         on conflict do nothing",
        json(rows)
    )?)
}

/// The statement that inserts audit entries, with its rows in this parameter.
macro_rules! insert_audit {
    ($rows:literal) => {
        concat!(
            "insert into audit (workspace_id, seq, ts, actor, action, subject, before, after, prev_hash, hash)
             select cast(value ->> 'workspace_id' as bigint), cast(value ->> 'seq' as bigint), cast(value ->> 'ts' as bigint),
                    value ->> 'actor', value ->> 'action', value ->> 'subject', value ->> 'before', value ->> 'after',
                    value ->> 'prev_hash', value ->> 'hash'
             from json_each(",
            $rows,
            ")"
        )
    };
}

/// The statement that inserts tags.
macro_rules! insert_tags {
    ($rows:literal) => {
        concat!(
            "insert into link_tags (workspace_id, tag, link_id)
             select cast(value ->> 'workspace_id' as bigint), value ->> 'tag', cast(value ->> 'link_id' as bigint) from json_each(",
            $rows,
            ")"
        )
    };
}

/// The statement that inserts search words. Full text is where the two databases have nothing in common but the words.
macro_rules! insert_words {
    (Sqlite, $rows:literal) => {
        concat!(
            "insert into link_search (rowid, words) select cast(value ->> 'id' as bigint), value ->> 'words' from json_each(",
            $rows,
            ")"
        )
    };
    (Postgres, $rows:literal) => {
        concat!(
            "insert into link_search (rowid, words)
             select cast(value ->> 'id' as bigint), array_to_tsvector(string_to_array(value ->> 'words', ' ')) from json_each(",
            $rows,
            ")"
        )
    };
}
pub(super) use {insert_audit, insert_tags, insert_words};

/// Audit entries as rows.
pub(super) fn audit_rows<'a>(entries: impl IntoIterator<Item = (i64, &'a AuditEntry)>) -> String {
    let row = |(workspace, entry): (i64, &AuditEntry)| {
        serde_json::json!({
            "workspace_id": workspace, "seq": entry.seq, "ts": entry.ts.ms(), "actor": entry.actor, "action": entry.action,
            "subject": entry.subject, "before": entry.before.as_ref().map(|side| side.get()),
            "after": entry.after.as_ref().map(|side| side.get()), "prev_hash": entry.prev_hash, "hash": entry.hash,
        })
    };
    json(&entries.into_iter().map(row).collect::<Vec<_>>())
}

/// Links' tags as rows.
pub(super) fn tag_rows(links: &[&Link]) -> String {
    let rows = links.iter().flat_map(|link| {
        link.tags.iter().map(|tag| {
            serde_json::json!({ "workspace_id": link.workspace.as_i64(), "tag": tag, "link_id": link.id.as_i64() })
        })
    });
    json(&rows.collect::<Vec<_>>())
}

/// Links' search words as rows.
pub(super) fn word_rows(links: &[&Link]) -> String {
    let row = |link: &&Link| serde_json::json!({ "id": link.id.as_i64(), "words": search::of_link(link) });
    json(&links.iter().map(row).collect::<Vec<_>>())
}

/// Sealed audit entries.
pub(crate) async fn audit(tx: &mut Tx, entries: &[(i64, &AuditEntry)]) -> Result<(), StoreError> {
    run_in!(tx, insert_audit!("$1"), audit_rows(entries.iter().copied()))?;
    Ok(())
}

/// The tags and search words of links.
pub(crate) async fn words(tx: &mut Tx, links: &[&Link]) -> Result<(), StoreError> {
    run_in!(tx, insert_tags!("$1"), tag_rows(links))?;
    let sql = match tx.dialect() {
        Dialect::Sqlite => insert_words!(Sqlite, "$1"),
        Dialect::Postgres => insert_words!(Postgres, "$1"),
    };
    run_in!(tx, sql, word_rows(links))?;
    Ok(())
}
