//! A store that is away: the API says so, and redirects go on.

use rlinks_core::draft::Input;
use rlinks_core::{Preset, Role};
use rlinks_ops::{OnDeletedCode, WriteMode};
use rlinks_store::Location;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use crate::support::database::{TestStore, on_postgres};
use crate::support::members::{TestServer, preset, with_server};
use crate::support::raw_client::wait_until;
use crate::support::server::operator_in;

#[test]
fn unavailable_store_is_503_and_redirects_continue() {
    let server = TestServer::new(Preset::Fabric);
    let root = server.root();
    root.post("/links", &json!({"code": "here", "target": "https://example.com/"})).expect(201);
    root.get("/links/here").expect(200);
    let path = server.test_store.folder().join("data/rlinks.db");
    let aside = server.test_store.folder().join("data/aside.db");
    std::fs::rename(&path, &aside).unwrap();
    wait_until("the API says that the store is away", || root.get("/links/here").status() == 503);
    wait_until("nothing is answered from memory", || root.get("/me").status() == 503);
    root.get("/links").refused(503, "KV_UNAVAILABLE");
    root.get("/me").refused(503, "KV_UNAVAILABLE");
    root.post("/links", &json!({"target": "https://example.com/"})).refused(503, "KV_UNAVAILABLE");
    root.delete("/links/here").refused(503, "KV_UNAVAILABLE");
    // Nobody is told that they are unknown: they may well be known.
    let answer = root.get("/keys");
    answer.refused(503, "KV_UNAVAILABLE");
    assert!(!answer.answer.body.contains("rlinks.db"), "{answer:?}");
    assert_eq!(server.visit("/here").location(), Some("https://example.com/"));
    server.anonymous().get("/api/openapi.json").expect(200);
    std::fs::rename(&aside, &path).unwrap();
    wait_until("the API answers again", || root.get("/links/here").status() == 200);
}

/// So many connections the owner of the limited database may have.
const LIMIT: u32 = 20;

/// The database, from now on somebody's who may have only so many connections; and whoever owns the server, to look past it.
async fn limited(test_store: &TestStore) -> (TestStore, PgConnectOptions) {
    let Location::Postgres(url) = &test_store.location else { unreachable!("on PostgreSQL only") };
    let all: PgConnectOptions = url.parse().unwrap();
    let database = all.get_database().unwrap().to_owned();
    let role = format!("limited_{database}");
    let mut connection = PgConnection::connect_with(&all).await.unwrap();
    for sql in [
        format!("drop role if exists {role}"),
        format!("create role {role} login password 'limited' connection limit {LIMIT}"),
        format!("alter database {database} owner to {role}"),
        format!("grant all on schema public to {role}"),
    ] {
        connection.execute(AssertSqlSafe(sql)).await.unwrap();
    }
    let own = all.clone().username(&role).password("limited");
    let url = sqlx::ConnectOptions::to_url_lossy(&own).to_string();
    (test_store.at(Location::Postgres(url)), all)
}

async fn change(options: &PgConnectOptions, sql: String) {
    PgConnection::connect_with(options).await.unwrap().execute(AssertSqlSafe(sql)).await.unwrap();
}

/// Faults, row 33.
#[tokio::test]
async fn postgres_connection_exhaustion_is_503_and_redirects_continue() {
    on_postgres(|test_store| async move {
        let (test_store, all) = limited(&test_store).await;
        let Location::Postgres(url) = test_store.location.clone() else { unreachable!("on PostgreSQL only") };
        let own: PgConnectOptions = url.parse().unwrap();
        let role = own.get_username().to_owned();
        let others = all.clone();
        let runtime = tokio::runtime::Handle::current();
        with_server(test_store, preset(Preset::Fabric), move |mut server| {
            let root = server.root();
            root.post("/links", &json!({"code": "here", "target": "https://example.com/"})).expect(201);
            wait_until("it is served", || server.visit("/here").status == 301);
            // Somebody takes every connection there is, also those the server had.
            let mut taken = Vec::new();
            let kill = format!(
                "select pg_terminate_backend(pid) from pg_stat_activity
                 where usename = '{role}' and application_name <> 'taken'"
            );
            while taken.len() < LIMIT as usize {
                runtime.block_on(change(&all, kill.clone()));
                let mine = own.clone().application_name("taken");
                while let Ok(connection) = runtime.block_on(PgConnection::connect_with(&mine)) {
                    taken.push(connection);
                }
            }
            wait_until("the API says so", || root.get("/links/here").status() == 503);
            root.post("/links", &json!({"target": "https://example.com/"})).refused(503, "KV_UNAVAILABLE");
            assert_eq!(server.visit("/here").location(), Some("https://example.com/"));
            drop(taken);
            wait_until("it recovers by itself", || root.get("/links/here").status() == 200);
            root.post("/links", &json!({"target": "https://example.com/"})).expect(201);
            server.stop();
        })
        .await;
        drop_role(&others).await;
    })
    .await;
}

async fn drop_role(all: &PgConnectOptions) {
    let database = all.get_database().unwrap();
    let sql = format!(
        "reassign owned by limited_{database} to current_user; drop owned by limited_{database}; drop role limited_{database}"
    );
    let mut connection = PgConnection::connect_with(all).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
}

/// Faults, row 34.
///
/// Two processes write to the same workspaces, in whatever order their members come: heads are locked in one order, so nobody waits
/// in a circle, and PostgreSQL counts no deadlock.
#[tokio::test]
async fn postgres_writers_in_any_order_never_deadlock() {
    on_postgres(|test_store| async move {
        let Location::Postgres(url) = test_store.location.clone() else { unreachable!("on PostgreSQL only") };
        let all: PgConnectOptions = url.parse().unwrap();
        with_server(test_store, preset(Preset::Fabric), move |server| {
            let spaces: Vec<_> = (0..4)
                .map(|number| server.workspace(&format!("space-{number}"), preset(Preset::Fabric), &[]))
                .collect();
            let admins: Vec<_> = spaces.iter().map(|space| server.person(space, Role::Admin)).collect();
            std::thread::scope(|scope| {
                for turn in 0..8 {
                    let (server, spaces, admins) = (&server, &spaces, &admins);
                    scope.spawn(move || {
                        for step in 0..20 {
                            let target = format!("https://example.com/{turn}/{step}");
                            if turn % 2 == 0 {
                                admins[step % 4].post("/links", &json!({"target": target})).expect(201);
                                continue;
                            }
                            let input = Input { target: Some(target), ..Input::default() };
                            let caller = operator_in(&spaces[3 - step % 4]);
                            let (on_deleted, mode) = (OnDeletedCode::Refuse, WriteMode::Apply);
                            let creation = server.ops.create(&caller, &input, on_deleted, None, mode);
                            server.runtime.block_on(creation).unwrap();
                        }
                    });
                }
            });
            let counted: (i64,) = server.runtime.block_on(async {
                let mut connection = PgConnection::connect_with(&all).await.unwrap();
                sqlx::query_as("select deadlocks from pg_stat_database where datname = current_database()")
                    .fetch_one(&mut connection)
                    .await
                    .unwrap()
            });
            assert_eq!(counted, (0,));
        })
        .await;
    })
    .await;
}
