//! Many keys or rows in one query, in the same order of work on both databases.

use serde::Serialize;

/// A query that looks each asked key up in a table, called `d`. The list is looked through first on both databases, each of its
/// keys by the primary key: PostgreSQL takes any list for a thousand rows, and without the limit it may read the table instead.
macro_rules! look_up {
    ($dialect:expr, $columns:literal, $table:literal, $key:literal) => {
        match $dialect {
            rlinks_store::database::pool::Dialect::Sqlite => {
                concat!(
                    "select ",
                    $columns,
                    " from json_each($1) as asked cross join ",
                    $table,
                    " d where ",
                    $key
                )
            }
            rlinks_store::database::pool::Dialect::Postgres => concat!(
                "select ",
                $columns,
                " from json_each($1) as asked cross join lateral (select ",
                $columns,
                " from ",
                $table,
                " d where ",
                $key,
                " limit 1) as d"
            ),
        }
    };
}

pub(crate) use look_up;

/// Rows as the one parameter that `json_each` reads them from.
pub(crate) fn json(rows: &impl Serialize) -> String {
    serde_json::to_string(rows).expect("rows are numbers and text")
}
