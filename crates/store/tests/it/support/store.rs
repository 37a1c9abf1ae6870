//! Short ways to write links, and what must hold of every store.

use std::path::PathBuf;

use rlinks_core::draft::Input;
use rlinks_core::{
    Actor, Code, Host, Id, Link, LinkDraft, LinkSource, LinkState, Policy, Preset, ServedHosts, Slug, Target,
    Workspace,
};
use rlinks_store::audit::signing_key::Signer;
use rlinks_store::backup::RestoreTrust;
use rlinks_store::write::{Action, CodeChoice, LinkOp, LinkWrite, OnConflict, Written};
use rlinks_store::{Location, StoreError, StoreWriter};
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

pub(crate) use crate::support::database::{Database, TestStore, at, contract, on_postgres};

impl TestStore {
    pub(crate) fn file(&self) -> PathBuf {
        match &self.location {
            Location::Sqlite(path) => path.clone(),
            Location::Postgres(_) => panic!("PostgreSQL has no file"),
        }
    }

    /// Changes the database past the store.
    pub(crate) async fn raw(&self, sql: &str) -> u64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match &self.location {
            Location::Sqlite(path) => {
                let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
                let rows = sqlx::raw_sql(sql).execute(&mut connection).await.unwrap().rows_affected();
                connection.close().await.unwrap();
                rows
            }
            Location::Postgres(url) => {
                let mut connection = url.parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
                let rows = sqlx::raw_sql(sql).execute(&mut connection).await.unwrap().rows_affected();
                connection.close().await.unwrap();
                rows
            }
        }
    }

    /// Counts in the database past the store.
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match &self.location {
            Location::Sqlite(path) => {
                let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
                let (count,): (i64,) = sqlx::query_as(sql).fetch_one(&mut connection).await.unwrap();
                connection.close().await.unwrap();
                count
            }
            Location::Postgres(url) => {
                let mut connection = url.parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
                let (count,): (i64,) = sqlx::query_as(sql).fetch_one(&mut connection).await.unwrap();
                connection.close().await.unwrap();
                count
            }
        }
    }
}

/// The workspace every store begins with.
pub(crate) const MAIN: Id = Id::from_i64(1);

pub(crate) fn code(text: &str) -> Code {
    Code::from_path(text).unwrap()
}

pub(crate) fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

pub(crate) fn slug(text: &str) -> Slug {
    Slug::parse(text).unwrap()
}

pub(crate) fn max() -> Actor {
    Actor::operator("max@rmax.to")
}

pub(crate) fn object(json: serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
    match json {
        serde_json::Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

pub(crate) fn target(text: &str) -> Target {
    Target::parse(text, rlinks_core::link::target::MAX_TARGET_BYTES).unwrap()
}

/// A draft of a link to `url` with nothing else said, under rules that refuse no URL.
pub(crate) fn draft(url: &str) -> LinkDraft {
    let policy = Policy::preset(Preset::Team);
    let input = Input { target: Some(url.to_owned()), ..Input::default() };
    LinkDraft::parse(&input, &policy, &ServedHosts::default(), at(0)).unwrap()
}

pub(crate) fn create(workspace: Id, choice: CodeChoice, draft: LinkDraft, ms: i64) -> LinkWrite {
    let op = LinkOp::Create { draft, code: choice, source: LinkSource::Cli, on_conflict: OnConflict::Refuse };
    LinkWrite::new(workspace, max(), at(ms), op)
}

/// The creation of a chosen code in `main`.
pub(crate) fn chosen(text: &str, url: &str, ms: i64) -> LinkWrite {
    create(MAIN, CodeChoice::Chosen(code(text)), draft(url), ms)
}

pub(crate) fn recreate(text: &str, url: &str, ms: i64) -> LinkWrite {
    let op = LinkOp::Create {
        draft: draft(url),
        code: CodeChoice::Chosen(code(text)),
        source: LinkSource::Cli,
        on_conflict: OnConflict::Recreate,
    };
    LinkWrite::new(MAIN, max(), at(ms), op)
}

pub(crate) fn replace(next: Link, action: Action, ms: i64) -> LinkWrite {
    let workspace = next.workspace;
    let op = LinkOp::Replace { next: Box::new(next), action };
    LinkWrite::new(workspace, max(), at(ms), op)
}

pub(crate) fn in_state(link: &Link, state: LinkState, ms: i64) -> LinkWrite {
    let action = match (link.state, state) {
        (LinkState::Deleted, _) => Action::Restore,
        (_, LinkState::Active) => Action::Enable,
        (_, LinkState::Disabled) => Action::Disable,
        (_, LinkState::Deleted) => Action::Delete,
    };
    replace(Link { state, ..link.clone() }, action, ms)
}

/// Makes a link under a chosen code in `main`.
pub(crate) async fn make(store: &StoreWriter, text: &str, url: &str, ms: i64) -> Link {
    created(store.write(chosen(text, url, ms)).await)
}

#[track_caller]
pub(crate) fn created(written: Result<Written, StoreError>) -> Link {
    match written {
        Ok(Written::Created(link)) => link,
        other => panic!("not created: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn changed(written: Result<Written, StoreError>) -> Link {
    match written {
        Ok(Written::Changed(link)) => link,
        other => panic!("not changed: {other:?}"),
    }
}

pub(crate) async fn workspace(store: &StoreWriter, name: &str, policy: Policy) -> Workspace {
    store.create_workspace(slug(name), name.to_owned(), policy, &max(), at(0)).await.unwrap()
}

/// Every chain must hold, and every row must be what its log says.
pub(crate) async fn assert_sound(store: &StoreWriter) {
    store.verify(&[]).await.unwrap().unwrap();
    assert_eq!(store.links_differing_from_log().await.unwrap(), Vec::<String>::new());
    assert_eq!(store.records_differing_from_log().await.unwrap(), Vec::<String>::new());
    assert_eq!(store.integrity_check().await.unwrap(), Vec::<String>::new());
}

pub(crate) fn codes(links: &[Link]) -> Vec<&str> {
    links.iter().map(|link| link.code.as_str()).collect()
}

/// The key that signs the backups of these tests.
pub(crate) fn signer() -> Signer {
    Signer::from_seed(&[7; 32]).unwrap()
}

/// What it signed is trusted.
pub(crate) fn trust() -> RestoreTrust {
    RestoreTrust::Key(signer().public_key())
}
