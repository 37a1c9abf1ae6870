//! Many rows in one statement, as bound values. For SQLite this is several times as fast as reading them from one JSON text, which it
//! writes out anew for each column of a row. PostgreSQL takes each column as one array.

/// Rows in one statement: few sizes, so that few statements are prepared.
const CHUNK_ROWS: [usize; 4] = [256, 32, 8, 1];

/// Cuts rows into pieces of those sizes.
pub fn chunks<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = CHUNK_ROWS.into_iter().find(|size| *size <= rows.len())?;
        let (chunk, rest) = rows.split_at(size);
        rows = rest;
        Some(chunk)
    })
}

/// `head values (?, ?), (?, ?) tail`. Not `$1`: SQLite takes that for a name, and looks names up one after the other.
pub fn values(head: &str, columns: usize, rows: usize, tail: &str) -> String {
    let row = format!("({}?)", "?, ".repeat(columns - 1));
    let mut sql = String::with_capacity(head.len() + tail.len() + rows * (row.len() + 2) + 16);
    sql.push_str(head);
    sql.push_str(" values ");
    sql.push_str(&row);
    for _ in 1..rows {
        sql.push_str(", ");
        sql.push_str(&row);
    }
    sql.push(' ');
    sql.push_str(tail);
    sql
}

/// `head select * from unnest($1, $2) tail`: PostgreSQL takes a column as one array.
pub fn unnest(head: &str, columns: usize, tail: &str) -> String {
    let columns: Vec<String> = (1..=columns).map(|column| format!("${column}")).collect();
    format!("{head} select * from unnest({}) {tail}", columns.join(", "))
}

/// Polls a future once, so that what it asks of the database begins while something else is being made.
pub async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(done) => Some(done),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

/// Inserts rows: `insert_rows!(tx, "insert into t (a, b)", 2, "on conflict do nothing", &rows, |row| [row.a, row.b])`. Gives the
/// number of rows it touched.
#[macro_export]
macro_rules! insert_rows {
    ($($insert:tt)*) => {
        $crate::with_rows!(
            sqlx::query, execute, u64, |written, done| written += done.rows_affected(); $($insert)*
        )
    };
}

/// The same for what gives rows back, of the type named after `tx`: an `insert` with `returning`, or `with asked (a, b) as (` and then
/// `) select ...`, which looks many keys up.
#[macro_export]
macro_rules! rows_returning {
    ($tx:expr, $type:ty, $($insert:tt)*) => {
        $crate::with_rows!(
            sqlx::query_as::<_, $type>, fetch_all, Vec<$type>, |found, done| found.extend(done); $tx, $($insert)*
        )
    };
}

/// What both do: make statements, run them, and gather what each gives. While SQLite works on one statement the next is put together.
#[doc(hidden)]
#[macro_export]
macro_rules! with_rows {
    (
        $query:expr, $run:ident, $gathers:ty, |$gathered:ident, $done:ident| $gather:expr;
        $tx:expr, $head:expr, $columns:expr, $tail:expr, $rows:expr, |$row:pat_param| [$($value:expr),* $(,)?]
    ) => {{
        let mut $gathered = <$gathers>::default();
        match &mut *$tx {
            $crate::database::pool::Tx::Sqlite(tx, _) => {
                macro_rules! make {
                    () => {
                        |rows| {
                            let sql = $crate::database::bulk::values($head, $columns, rows.len(), $tail);
                            let mut query = $query(sqlx::AssertSqlSafe(sql));
                            for $row in rows { $(query = query.bind($value);)* }
                            query
                        }
                    };
                }
                let mut chunks = $crate::database::bulk::chunks($rows);
                let mut next = chunks.next().map(make!());
                while let Some(query) = next.take() {
                    let mut running = Box::pin(query.$run(&mut **tx));
                    let done = $crate::database::bulk::poll_once(&mut running).await;
                    next = chunks.next().map(make!());
                    let $done = match done {
                        Some(done) => done?,
                        None => running.await?,
                    };
                    $gather;
                }
            }
            $crate::database::pool::Tx::Postgres(tx) => {
                let sql = $crate::database::bulk::unnest($head, $columns, $tail);
                let query = $query(sqlx::AssertSqlSafe(sql));
                $(
                    #[allow(unused_variables, reason = "a column is made of some part of its row")]
                    let query = query.bind($rows.iter().map(|$row| $value).collect::<Vec<_>>());
                )*
                let $done = query.$run(&mut **tx).await?;
                $gather;
            }
        }
        $gathered
    }};
}

pub use crate::{insert_rows, rows_returning};

#[cfg(test)]
mod tests {
    use super::{chunks, unnest, values};

    #[test]
    fn rows_are_chunked_into_few_sizes_without_loss() {
        let rows: Vec<usize> = (0..1234).collect();
        let sizes: Vec<usize> = chunks(&rows).map(<[usize]>::len).collect();
        assert_eq!(sizes, [256, 256, 256, 256, 32, 32, 32, 32, 32, 32, 8, 8, 1, 1]);
        assert_eq!(chunks(&rows).flatten().copied().collect::<Vec<_>>(), rows);
        let (head, tail) = ("insert into t (a, b)", "on conflict do nothing");
        assert_eq!(
            values(head, 2, 2, tail),
            "insert into t (a, b) values (?, ?), (?, ?) on conflict do nothing"
        );
        assert_eq!(
            unnest(head, 2, tail),
            "insert into t (a, b) select * from unnest($1, $2) on conflict do nothing"
        );
    }
}
