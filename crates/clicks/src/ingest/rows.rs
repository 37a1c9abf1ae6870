//! Many rows in one statement, as bound values. For SQLite this is several times as fast as reading them from one JSON text, and a
//! batch of clicks is the one place where that counts. PostgreSQL takes the same statement.

use rlinks_store::pool::Dialect;

/// Rows in one statement: few sizes, so that few statements are prepared.
const SIZES: [usize; 4] = [256, 32, 8, 1];

/// Cuts rows into pieces of those sizes.
pub(super) fn pieces<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = SIZES.into_iter().find(|size| *size <= rows.len())?;
        let (piece, rest) = rows.split_at(size);
        rows = rest;
        Some(piece)
    })
}

/// `head values ($1, $2), ($3, $4) tail`. SQLite takes `$1` for a name and looks names up one after the other, so there it is `?`.
pub(super) fn statement(dialect: Dialect, head: &str, columns: usize, rows: usize, tail: &str) -> String {
    let mut sql = String::with_capacity(head.len() + tail.len() + rows * columns * 7 + 16);
    sql.push_str(head);
    sql.push_str(" values ");
    match dialect {
        Dialect::Sqlite => {
            let row = format!("({}?)", "?, ".repeat(columns - 1));
            sql.push_str(&row);
            for _ in 1..rows {
                sql.push_str(", ");
                sql.push_str(&row);
            }
        }
        Dialect::Postgres => {
            for row in 0..rows {
                let places: Vec<String> =
                    (1..=columns).map(|column| format!("${}", row * columns + column)).collect();
                sql.push_str(if row == 0 { "(" } else { ", (" });
                sql.push_str(&places.join(", "));
                sql.push(')');
            }
        }
    }
    sql.push(' ');
    sql.push_str(tail);
    sql
}

/// Polls a future once, so that what it asks of the database begins while something else is being made.
pub(super) async fn begin<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(done) => Some(done),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

/// Inserts rows: `insert_rows!(tx, "insert into t (a, b)", 2, "on conflict do nothing", &rows, |row| [row.a, row.b])`. While the
/// database works on one statement the next is put together.
macro_rules! insert_rows {
    ($tx:expr, $head:expr, $columns:expr, $tail:expr, $rows:expr, |$row:pat_param| [$($value:expr),* $(,)?]) => {
        match &mut *$tx {
            rlinks_store::pool::Tx::Sqlite(tx, _) => {
                $crate::ingest::rows::insert_on!(
                    tx, rlinks_store::pool::Dialect::Sqlite, $head, $columns, $tail, $rows, |$row| [$($value),*]
                );
            }
            rlinks_store::pool::Tx::Postgres(tx) => {
                $crate::ingest::rows::insert_on!(
                    tx, rlinks_store::pool::Dialect::Postgres, $head, $columns, $tail, $rows, |$row| [$($value),*]
                );
            }
        }
    };
}

macro_rules! insert_on {
    ($tx:expr, $dialect:expr, $head:expr, $columns:expr, $tail:expr, $rows:expr, |$row:pat_param| [$($value:expr),*]) => {{
        macro_rules! make {
            () => {
                |rows| {
                    let sql = $crate::ingest::rows::statement($dialect, $head, $columns, rows.len(), $tail);
                    let mut query = sqlx::query(sqlx::AssertSqlSafe(sql));
                    for $row in rows { $(query = query.bind($value);)* }
                    query
                }
            };
        }
        let mut pieces = $crate::ingest::rows::pieces($rows);
        let mut next = pieces.next().map(make!());
        while let Some(query) = next.take() {
            let mut running = Box::pin(query.execute(&mut **$tx));
            let done = $crate::ingest::rows::begin(&mut running).await;
            next = pieces.next().map(make!());
            match done {
                Some(done) => done?,
                None => running.await?,
            };
        }
    }};
}

/// The same with `returning`: gives the rows of all statements.
macro_rules! insert_returning {
    ($tx:expr, $type:ty, $head:expr, $columns:expr, $tail:expr, $rows:expr, |$row:pat_param| [$($value:expr),* $(,)?]) => {
        match &mut *$tx {
            rlinks_store::pool::Tx::Sqlite(tx, _) => {
                $crate::ingest::rows::return_on!(
                    tx, $type, rlinks_store::pool::Dialect::Sqlite, $head, $columns, $tail, $rows, |$row| [$($value),*]
                )
            }
            rlinks_store::pool::Tx::Postgres(tx) => {
                $crate::ingest::rows::return_on!(
                    tx, $type, rlinks_store::pool::Dialect::Postgres, $head, $columns, $tail, $rows, |$row| [$($value),*]
                )
            }
        }
    };
}

macro_rules! return_on {
    ($tx:expr, $type:ty, $dialect:expr, $head:expr, $columns:expr, $tail:expr, $rows:expr, |$row:pat_param| [$($value:expr),*]) => {{
        macro_rules! make {
            () => {
                |rows| {
                    let sql = $crate::ingest::rows::statement($dialect, $head, $columns, rows.len(), $tail);
                    let mut query = sqlx::query_as::<_, $type>(sqlx::AssertSqlSafe(sql));
                    for $row in rows { $(query = query.bind($value);)* }
                    query
                }
            };
        }
        let mut found: Vec<$type> = Vec::new();
        let mut pieces = $crate::ingest::rows::pieces($rows);
        let mut next = pieces.next().map(make!());
        while let Some(query) = next.take() {
            let mut running = Box::pin(query.fetch_all(&mut **$tx));
            let done = $crate::ingest::rows::begin(&mut running).await;
            next = pieces.next().map(make!());
            found.extend(match done {
                Some(done) => done?,
                None => running.await?,
            });
        }
        found
    }};
}

pub(super) use {insert_on, insert_returning, insert_rows, return_on};

#[cfg(test)]
mod tests {
    use rlinks_store::pool::Dialect;

    use super::{pieces, statement};

    #[test]
    fn rows_are_cut_into_few_sizes_and_none_is_lost() {
        let rows: Vec<usize> = (0..1234).collect();
        let sizes: Vec<usize> = pieces(&rows).map(<[usize]>::len).collect();
        assert_eq!(sizes, [256, 256, 256, 256, 32, 32, 32, 32, 32, 32, 8, 8, 1, 1]);
        assert_eq!(pieces(&rows).flatten().copied().collect::<Vec<_>>(), rows);
        let of = |dialect| statement(dialect, "insert into t (a, b)", 2, 2, "on conflict do nothing");
        assert_eq!(
            of(Dialect::Postgres),
            "insert into t (a, b) values ($1, $2), ($3, $4) on conflict do nothing"
        );
        assert_eq!(of(Dialect::Sqlite), "insert into t (a, b) values (?, ?), (?, ?) on conflict do nothing");
    }
}
