//! A PostgreSQL database of a test's own.

use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use crate::support::sandbox::{Sandbox, block_on};

/// A sandbox whose store is a database of its own, gone afterwards.
pub(crate) struct Database {
    name: String,
    sandbox: Option<Sandbox>,
}

impl Database {
    pub(crate) fn create() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rmax_test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run(&format!("drop database if exists {name} with (force)"));
        run(&format!("create database {name}"));
        let sandbox = Sandbox::new().with("RMAX_STORE", &url_of(&name));
        Self { name, sandbox: Some(sandbox) }
    }

    pub(crate) fn url(&self) -> String {
        url_of(&self.name)
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        self.sandbox.as_ref().unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        run(&format!("drop database if exists {} with (force)", self.name));
    }
}

fn url_of(database: &str) -> String {
    let server: PgConnectOptions = server_url().parse().unwrap();
    server.database(database).to_url_lossy().to_string()
}

fn run(sql: &str) {
    let sql = sql.to_owned();
    block_on(async move {
        let mut connection = server_url().parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

/// The one place where these tests ask for the server.
#[expect(clippy::disallowed_methods, reason = "the server is started outside of cargo")]
fn server_url() -> String {
    std::env::var("RLINKS_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("RLINKS_TEST_POSTGRES names no server; run `scripts/with-postgres cargo test -p rmax -- postgres`, or leave these tests out with `--skip postgres`")
    })
}
