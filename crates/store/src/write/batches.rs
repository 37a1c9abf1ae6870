//! Set-based inserts, shared by the writer and by restoring a backup. On PostgreSQL those that go with the links take their rows as
//! one JSON text each, so that the writer can put them into one statement: there each way to the database counts.

use rlinks_core::audit::AuditEntry;
use rlinks_core::{Link, search};

use crate::StoreError;
use crate::pool::many::insert_rows;
use crate::pool::{Dialect, Tx, run_in};
use crate::rows::{LinkBatchRow, json};

/// New links. A code or target that is there already leaves its row out, and the count says so.
pub(crate) async fn links(tx: &mut Tx, rows: &[LinkBatchRow<'_>]) -> Result<u64, StoreError> {
    if rows.is_empty() {
        return Ok(0);
    }
    Ok(insert_rows!(
        tx,
        "insert into links (id, workspace_id, code, code_folded, generated, target, target_normalized, redirect_status, state,
            https_only, no_loop, expires_at, title, notes, tags, metadata, source, created_by, created_at, updated_at, version)",
        21,
        "on conflict do nothing",
        rows,
        |row| [
            row.id,
            row.workspace_id,
            row.code,
            row.code_folded.as_str(),
            row.generated,
            row.target,
            row.target_normalized.as_deref(),
            i64::from(row.redirect_status),
            row.state,
            row.https_only,
            row.no_loop,
            row.expires_at,
            row.title,
            row.notes,
            row.tags.as_str(),
            row.metadata.as_str(),
            row.source,
            row.created_by,
            row.created_at,
            row.updated_at,
            row.version,
        ]
    ))
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

/// The statement that inserts search words, for PostgreSQL: full text is where the two databases have nothing in common but the words.
macro_rules! insert_words {
    ($rows:literal) => {
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
    if tx.dialect() == Dialect::Postgres {
        run_in!(tx, insert_audit!("$1"), audit_rows(entries.iter().copied()))?;
        return Ok(());
    }
    insert_rows!(
        tx,
        "insert into audit (workspace_id, seq, ts, actor, action, subject, before, after, prev_hash, hash)",
        10,
        "",
        entries,
        |(workspace, entry)| [
            *workspace,
            entry.seq,
            entry.ts.ms(),
            entry.actor.as_str(),
            entry.action.as_str(),
            entry.subject.as_str(),
            entry.before.as_ref().map(|side| side.get()),
            entry.after.as_ref().map(|side| side.get()),
            entry.prev_hash.as_str(),
            entry.hash.as_str(),
        ]
    );
    Ok(())
}

/// The tags and search words of links.
pub(crate) async fn words(tx: &mut Tx, links: &[&Link]) -> Result<(), StoreError> {
    if tx.dialect() == Dialect::Postgres {
        run_in!(tx, insert_tags!("$1"), tag_rows(links))?;
        run_in!(tx, insert_words!("$1"), word_rows(links))?;
        return Ok(());
    }
    let tags: Vec<(&Link, &str)> =
        links.iter().flat_map(|link| link.tags.iter().map(|tag| (*link, tag.as_str()))).collect();
    insert_rows!(tx, "insert into link_tags (workspace_id, tag, link_id)", 3, "", &tags, |(link, tag)| [
        link.workspace.as_i64(),
        *tag,
        link.id.as_i64(),
    ]);
    let words: Vec<(i64, String)> =
        links.iter().map(|link| (link.id.as_i64(), search::of_link(link))).collect();
    insert_rows!(tx, "insert into link_search (rowid, words)", 2, "", &words, |(id, words)| [
        *id,
        words.as_str()
    ]);
    Ok(())
}
