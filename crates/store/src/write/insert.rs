//! Set-based inserts, shared by the writer and by restoring a backup.

use rlinks_core::Link;
use rlinks_core::audit::AuditEntry;
use rlinks_core::link::search;

use sqlx::PgConnection;

use crate::StoreError;
use crate::audit::chain::update_heads;
use crate::database::bulk::insert_rows;
use crate::database::ids::update_worker;
use crate::database::pool::Tx;
use crate::links::rows::LinkBatchRow;

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

/// The statement that inserts search words on PostgreSQL: from two columns, ids and words.
macro_rules! insert_words {
    ($columns:literal) => {
        concat!(
            "insert into link_search (rowid, words)
             select id, array_to_tsvector(string_to_array(words, ' ')) from unnest(",
            $columns,
            ") as new (id, words)"
        )
    };
}

/// The tags and search words of links.
pub(crate) async fn tags_and_words(tx: &mut Tx, links: &[&Link]) -> Result<(), StoreError> {
    let tags = tags_of(links);
    insert_rows!(tx, "insert into link_tags (workspace_id, tag, link_id)", 3, "", &tags, |(link, tag)| [
        link.workspace.as_i64(),
        *tag,
        link.id.as_i64(),
    ]);
    let words = words_of(links);
    // Full text is where the two databases have nothing in common but the words.
    if let Tx::Postgres(tx) = tx {
        let (ids, words): (Vec<i64>, Vec<String>) = words.into_iter().unzip();
        sqlx::query(insert_words!("$1, $2")).bind(ids).bind(words).execute(&mut **tx).await?;
        return Ok(());
    }
    insert_rows!(tx, "insert into link_search (rowid, words)", 2, "", &words, |(id, words)| [
        *id,
        words.as_str()
    ]);
    Ok(())
}

fn tags_of<'a>(links: &[&'a Link]) -> Vec<(&'a Link, &'a str)> {
    links.iter().flat_map(|link| link.tags.iter().map(|tag| (*link, tag.as_str()))).collect()
}

fn words_of(links: &[&Link]) -> Vec<(i64, String)> {
    links.iter().map(|link| (link.id.as_i64(), search::index_text(link))).collect()
}

/// Everything that goes with new links, on PostgreSQL: one way to the database and back, for each costs more than what it carries.
pub(super) async fn in_one_statement(
    tx: &mut PgConnection,
    links: &[&Link],
    entries: &[(i64, &AuditEntry)],
    heads: String,
    [worker, last_id, leased_until]: [i64; 3],
) -> Result<(), StoreError> {
    const SQL: &str = concat!(
        "with tags as (insert into link_tags (workspace_id, tag, link_id) select * from unnest($1, $2, $3)), words as (",
        insert_words!("$4, $5"),
        "), entries as (
            insert into audit (workspace_id, seq, ts, actor, action, subject, before, after, prev_hash, hash)
            select * from unnest($6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
        ), ends as (",
        update_heads!("$16"),
        "), ids as (",
        update_worker!("$17", "$18", "$19"),
        ") select pg_notify('rlinks', '')"
    );
    fn column<R, V>(rows: &[R], value: impl Fn(&R) -> V) -> Vec<V> {
        rows.iter().map(value).collect()
    }
    let tags = tags_of(links);
    let (ids, words): (Vec<i64>, Vec<String>) = words_of(links).into_iter().unzip();
    sqlx::query(SQL)
        .bind(column(&tags, |(link, _)| link.workspace.as_i64()))
        .bind(column(&tags, |(_, tag)| *tag))
        .bind(column(&tags, |(link, _)| link.id.as_i64()))
        .bind(ids)
        .bind(words)
        .bind(column(entries, |(workspace, _)| *workspace))
        .bind(column(entries, |(_, entry)| entry.seq))
        .bind(column(entries, |(_, entry)| entry.ts.ms()))
        .bind(column(entries, |(_, entry)| entry.actor.as_str()))
        .bind(column(entries, |(_, entry)| entry.action.as_str()))
        .bind(column(entries, |(_, entry)| entry.subject.as_str()))
        .bind(column(entries, |(_, entry)| entry.before.as_ref().map(|side| side.get())))
        .bind(column(entries, |(_, entry)| entry.after.as_ref().map(|side| side.get())))
        .bind(column(entries, |(_, entry)| entry.prev_hash.as_str()))
        .bind(column(entries, |(_, entry)| entry.hash.as_str()))
        .bind(heads)
        .bind(worker)
        .bind(last_id)
        .bind(leased_until)
        .execute(tx)
        .await?;
    Ok(())
}
