//! Rollups as text, and changes of them past the crate.

use rlinks_clicks::ClickStore;
use rlinks_clicks::recompute::Recomputed;
use rlinks_core::{Id, Timestamp};
use rlinks_store::database::pool::{Dialect, Pool};
use sqlx::AssertSqlSafe;

use crate::support::clicks::ClickFixture;

/// Every row of rollups and counters, as text.
pub(crate) async fn dump(clicks: &ClickStore) -> Vec<String> {
    let mut rows = Vec::new();
    for (table, columns) in [
        ("hours", "kind, subject, hour, clicks, bots, visitors, arrivals, first_event, last_event"),
        ("days", "kind, workspace_id, day, subject, clicks, bots, visitors, first_event, last_event"),
        ("day_values", "kind, workspace_id, day, subject, dimensions"),
        ("months", "kind, subject, month, clicks, bots, visitors"),
        ("totals", "kind, subject, workspace_id, clicks, bots, last_click, last_hit"),
    ] {
        rows.extend(dump_table(clicks, table, columns).await);
    }
    rows
}

/// The rows of one table.
pub(crate) async fn dump_table(clicks: &ClickStore, table: &str, columns: &str) -> Vec<String> {
    let texts: Vec<_> =
        columns.split(", ").map(|column| format!("coalesce(cast({column} as text), '-')")).collect();
    let sql = format!("select '{table} ' || {} from {table} order by {columns}", texts.join(" || ' ' || "));
    let rows: Vec<(String,)> = match clicks.pool() {
        Pool::Sqlite { readers, .. } => sqlx::query_as(AssertSqlSafe(sql)).fetch_all(readers).await.unwrap(),
        Pool::Postgres(pool) => sqlx::query_as(AssertSqlSafe(sql)).fetch_all(pool).await.unwrap(),
    };
    rows.into_iter().map(|(row,)| row).collect()
}

/// Changes the clicks' database past the crate, in one transaction.
pub(crate) async fn change(clicks: &ClickStore, sql: &str) {
    let begin = if clicks.dialect() == Dialect::Sqlite { "begin immediate" } else { "begin" };
    let sql = AssertSqlSafe(format!("{begin}; {sql}; commit"));
    match clicks.pool() {
        Pool::Sqlite { writer, .. } => sqlx::raw_sql(sql).execute(writer).await.map(|_| ()).unwrap(),
        Pool::Postgres(pool) => sqlx::raw_sql(sql).execute(pool).await.map(|_| ()).unwrap(),
    }
}

pub(crate) async fn recompute_at(
    fixture: &ClickFixture,
    workspace: Option<Id>,
    now: Timestamp,
) -> Recomputed {
    fixture.clicks.recompute(&fixture.store, workspace, now, |_| ()).await.unwrap()
}
