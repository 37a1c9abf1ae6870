//! Many rows in one statement, as bound values. For SQLite this is several times as fast as reading them from one JSON text, and a
//! batch of clicks is the one place where that counts. PostgreSQL takes the same statement.

use rlinks_store::pool::Dialect;

/// Rows in one statement: few sizes, so that few statements are prepared.
const SIZES: [usize; 4] = [512, 64, 8, 1];

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

/// Inserts rows: `insert_rows!(tx, "insert into t (a, b)", 2, "on conflict do nothing", &rows, |row| [row.a, row.b])`.
macro_rules! insert_rows {
    ($tx:expr, $head:expr, $columns:expr, $tail:expr, $rows:expr, |$row:pat_param| [$($value:expr),* $(,)?]) => {
        for piece in $crate::ingest::rows::pieces($rows) {
            let sql = sqlx::AssertSqlSafe($crate::ingest::rows::statement($tx.dialect(), $head, $columns, piece.len(), $tail));
            match &mut *$tx {
                rlinks_store::pool::Tx::Sqlite(tx, _) => {
                    let mut query = sqlx::query(sql);
                    for $row in piece { $(query = query.bind($value);)* }
                    query.execute(&mut **tx).await?;
                }
                rlinks_store::pool::Tx::Postgres(tx) => {
                    let mut query = sqlx::query(sql);
                    for $row in piece { $(query = query.bind($value);)* }
                    query.execute(&mut **tx).await?;
                }
            }
        }
    };
}

/// The same with `returning`: gives the rows of all statements.
macro_rules! insert_returning {
    ($tx:expr, $type:ty, $head:expr, $columns:expr, $tail:expr, $rows:expr, |$row:pat_param| [$($value:expr),* $(,)?]) => {{
        let mut found: Vec<$type> = Vec::new();
        for piece in $crate::ingest::rows::pieces($rows) {
            let sql = sqlx::AssertSqlSafe($crate::ingest::rows::statement($tx.dialect(), $head, $columns, piece.len(), $tail));
            match &mut *$tx {
                rlinks_store::pool::Tx::Sqlite(tx, _) => {
                    let mut query = sqlx::query_as::<_, $type>(sql);
                    for $row in piece { $(query = query.bind($value);)* }
                    found.extend(query.fetch_all(&mut **tx).await?);
                }
                rlinks_store::pool::Tx::Postgres(tx) => {
                    let mut query = sqlx::query_as::<_, $type>(sql);
                    for $row in piece { $(query = query.bind($value);)* }
                    found.extend(query.fetch_all(&mut **tx).await?);
                }
            }
        }
        found
    }};
}

pub(super) use {insert_returning, insert_rows};

#[cfg(test)]
mod tests {
    use rlinks_store::pool::Dialect;

    use super::{pieces, statement};

    #[test]
    fn rows_are_cut_into_few_sizes_and_none_is_lost() {
        let rows: Vec<usize> = (0..1234).collect();
        let sizes: Vec<usize> = pieces(&rows).map(<[usize]>::len).collect();
        assert_eq!(sizes, [512, 512, 64, 64, 64, 8, 8, 1, 1]);
        assert_eq!(pieces(&rows).flatten().copied().collect::<Vec<_>>(), rows);
        let of = |dialect| statement(dialect, "insert into t (a, b)", 2, 2, "on conflict do nothing");
        assert_eq!(
            of(Dialect::Postgres),
            "insert into t (a, b) values ($1, $2), ($3, $4) on conflict do nothing"
        );
        assert_eq!(of(Dialect::Sqlite), "insert into t (a, b) values (?, ?), (?, ?) on conflict do nothing");
    }
}
