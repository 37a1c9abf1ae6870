//! The golden dump in a PostgreSQL database of its own. Needs a server: `scripts/with-postgres cargo test -p rmax -- postgres`.

use std::collections::BTreeMap;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use super::migrations::{checksums, hex};
use super::{compare_commands, copy, expected, frozen, golden, text};
use crate::support::postgres::Database;
use crate::support::sandbox::block_on;

/// A database with the golden dump in it, and a copy of the data folder that belonged to it.
fn restored() -> Database {
    let database = Database::create();
    copy(&golden("postgres/data"), &database.sandbox().path("rlinks-data"));
    let url = database.url();
    block_on(async move {
        let mut connection = url.parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(text("postgres/store.sql"))).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
    database
}

#[test]
fn commands_on_the_golden_dump_print_the_same() {
    compare_commands(restored().sandbox(), &expected("postgres/commands.json"));
}

fn compare_at_the_moment(kind: &str) {
    let database = restored();
    let secrets = expected("postgres/secrets.json");
    let now = secrets["now"].as_str().unwrap();
    let server = frozen::serve_at(now, &database.url(), &database.sandbox().path("rlinks-data"));
    frozen::compare(server.address, &expected("postgres/requests.json"), kind);
}

#[test]
fn redirects_from_the_golden_dump_are_the_same() {
    compare_at_the_moment("redirects");
}

#[test]
fn answers_of_the_api_from_the_golden_dump_are_the_same() {
    compare_at_the_moment("api");
}

#[test]
fn the_session_of_the_golden_dump_opens_the_same_pages() {
    compare_at_the_moment("pages");
}

#[test]
fn the_golden_dump_holds_the_checksums_of_these_migrations() {
    let database = restored();
    for (table, folder) in [
        ("public._sqlx_migrations", "crates/store/migrations/postgres"),
        ("clicks._sqlx_migrations", "crates/clicks/migrations/postgres"),
    ] {
        let url = database.url();
        let stored: Vec<(i64, Vec<u8>)> = block_on(async move {
            let mut connection = url.parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
            let sql = AssertSqlSafe(format!("select version, checksum from {table} order by version"));
            let rows = sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap();
            connection.close().await.unwrap();
            rows
        });
        let stored: BTreeMap<i64, String> =
            stored.into_iter().map(|(version, checksum)| (version, hex(&checksum))).collect();
        assert_eq!(stored, checksums(folder), "{table}");
    }
}
