//! Killed at any moment, the store keeps what it acknowledged.
//!
//! The test starts this very binary again as the process that is killed: it makes a thousand changes at once and says each one
//! that was acknowledged. Whatever it said before SIGKILL must be there afterwards.

use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Range;
use std::process::{Command, Stdio};

use crate::support::store::{TestStore, at, chosen, code, create, draft, max, slug};
use rlinks_core::{Id, Policy, Preset};
use rlinks_store::write::CodeChoice;
use rlinks_store::{Location, MissingStore, Store, StoreOptions};

const WRITES: i64 = 1000;
/// The process is killed before it has said more.
const ENOUGH: usize = 1000;

/// Only does something when it is started by the test below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_that_is_killed() {
    let Some(file) = variable("RLINKS_CRASH_FILE") else { return };
    let round = variable("RLINKS_CRASH_ROUND").unwrap();
    let options = StoreOptions {
        location: Location::Sqlite(file.into()),
        worker: None,
        holder: "crash".to_owned(),
        now: at(0),
        if_missing: MissingStore::Refuse,
    };
    let (_, store) = Store::open(options).await.unwrap();
    let other = store.workspace(&slug("other")).await.unwrap().unwrap().id;
    let writes: Vec<_> = (0..WRITES)
        .map(|number| {
            let (store, round) = (store.clone(), round.clone());
            tokio::spawn(async move {
                let name = format!("r{round}-{number}");
                let write = if number % 2 == 0 {
                    chosen(&name, "https://example.com/", number)
                } else {
                    create(other, CodeChoice::Chosen(code(&name)), draft("https://example.com/"), number)
                };
                store.write(write).await.unwrap();
                // One write(2) of a whole line, past the test harness, which would keep it.
                std::io::stdout().lock().write_all(format!("ack {name}\n").as_bytes()).unwrap();
            })
        })
        .collect();
    for write in writes {
        write.await.unwrap();
    }
}

#[tokio::test]
async fn sigkill_during_a_thousand_concurrent_writes_loses_no_acknowledged_one() {
    let rounds: usize = variable("RLINKS_CRASH_ROUNDS").map_or(5, |text| text.parse().unwrap());
    // Everything there is is looked at after each round, so what many rounds leave is left behind now and then.
    for first in (0..rounds).step_by(20) {
        kill_and_look(first..rounds.min(first + 20)).await;
    }
}

async fn kill_and_look(rounds: Range<usize>) {
    let test_store = TestStore::sqlite();
    let store = test_store.open().await;
    let policy = Policy::preset(Preset::Edge).set_field("limits.live_links", "null").unwrap();
    let other =
        store.create_workspace(slug("other"), "Other".to_owned(), policy, &max(), at(0)).await.unwrap().id;
    store.close().await;
    for round in rounds {
        // Spread over the run: after the first acknowledgement, in the middle, near the end.
        let acknowledged = killed_after(&test_store, round, 1 + round * 311 % ENOUGH);
        let store = test_store.open().await;
        for name in &acknowledged {
            let mut found = false;
            for workspace in [Id::from_i64(1), other] {
                found |= store.link(workspace, &code(name)).await.unwrap().is_some();
            }
            assert!(found, "round {round}: {name} was acknowledged and is lost");
        }
        assert_eq!(store.integrity_check().await.unwrap(), Vec::<String>::new());
        store.verify(&[]).await.unwrap().unwrap();
        assert_eq!(store.links_differing_from_log().await.unwrap(), Vec::<String>::new());
        store.close().await;
    }
}

/// Starts the process, kills it once it has said so much, and gives everything it said.
fn killed_after(test_store: &TestStore, round: usize, enough: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::the_process_that_is_killed", "--nocapture"])
        .env("RLINKS_CRASH_FILE", test_store.file())
        .env("RLINKS_CRASH_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut acknowledged = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        // The harness's own words may stand in front of the first line.
        acknowledged.extend(line.split("ack ").nth(1).map(|name| name.trim().to_owned()));
        if acknowledged.len() == enough {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged.len() >= enough, "the process ended early: {} acknowledged", acknowledged.len());
    acknowledged
}

#[expect(
    clippy::disallowed_methods,
    reason = "the process that is killed learns from its variables what it is"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
