//! The SQLite file under an open store, and files that are not ours to open.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rlinks_store::audit::checkpoints::CHECKPOINT_LOG_FILE;
use rlinks_store::feed::Feed;
use rlinks_store::{MissingStore, Store, StoreError, StoreOptions, StoreWriter};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use crate::support::store::{MAIN, TestStore, assert_sound, at, chosen, code, make, signer};

#[track_caller]
fn unavailable<T: std::fmt::Debug>(outcome: &Result<T, StoreError>) {
    assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
}

#[track_caller]
fn refused(outcome: Result<(Store, StoreWriter), StoreError>) -> String {
    match outcome {
        Err(StoreError::Refused(message)) => message,
        other => panic!("not refused: {:?}", other.map(|_| "opened")),
    }
}

async fn connect(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.unwrap()
}

#[tokio::test]
async fn garbage_is_refused_and_left_as_it_is() {
    for garbage in
        [&b"no"[..], &[0x5a; 100], &[0xff; 8192], b"SQLite format 3\0 and then something else entirely"]
    {
        let test_store = TestStore::sqlite();
        fs::create_dir_all(test_store.file().parent().unwrap()).unwrap();
        fs::write(test_store.file(), garbage).unwrap();
        let message = refused(Store::open(test_store.options()).await);
        assert!(message.contains("rlinks.db"), "{message}");
        assert_eq!(fs::read(test_store.file()).unwrap(), garbage);
    }
}

#[tokio::test]
async fn another_programs_database_is_refused_and_left_as_it_is() {
    let test_store = TestStore::sqlite();
    fs::create_dir_all(test_store.file().parent().unwrap()).unwrap();
    let mut theirs = connect(&test_store.file()).await;
    sqlx::raw_sql("create table notes (text text); insert into notes values ('mine')")
        .execute(&mut theirs)
        .await
        .unwrap();
    theirs.close().await.unwrap();
    let before = fs::read(test_store.file()).unwrap();
    let message = refused(Store::open(test_store.options()).await);
    assert!(message.contains("another program"), "{message}");
    assert_eq!(fs::read(test_store.file()).unwrap(), before);
}

#[tokio::test]
async fn interrupted_first_start_is_completed_by_the_next() {
    // The list of migrations is there, the first migration is not: a kill between two commits.
    let test_store = TestStore::sqlite();
    let store = test_store.open().await;
    store.close().await;
    let mut half = connect(&test_store.file()).await;
    let (table,): (String,) = sqlx::query_as("select sql from sqlite_schema where name = '_sqlx_migrations'")
        .fetch_one(&mut half)
        .await
        .unwrap();
    half.close().await.unwrap();
    let test_store = TestStore::sqlite();
    fs::create_dir_all(test_store.file().parent().unwrap()).unwrap();
    let mut half = connect(&test_store.file()).await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(table)).execute(&mut half).await.unwrap();
    half.close().await.unwrap();
    let store = test_store.open().await;
    make(&store, "parity", "https://example.com/", 1).await;
}

#[tokio::test]
async fn missing_database_is_not_replaced_by_an_empty_one() {
    let test_store = TestStore::sqlite();
    let folder = test_store.file().parent().unwrap().to_owned();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(CHECKPOINT_LOG_FILE), "{}\n").unwrap();
    let message = refused(Store::open(test_store.options()).await);
    assert!(message.contains("rmax restore"), "{message}");
    assert!(!test_store.file().exists());
    // An empty file is as lost as none.
    fs::write(test_store.file(), "").unwrap();
    refused(Store::open(test_store.options()).await);
    assert_eq!(fs::read(test_store.file()).unwrap(), b"");
    // Whoever restores a backup says so.
    Store::open(StoreOptions { if_missing: MissingStore::Recreate, ..test_store.options() }).await.unwrap();
}

/// Faults, row 20.
#[tokio::test]
async fn moved_file_is_an_outage_until_it_is_back() {
    let test_store = TestStore::sqlite();
    let store = test_store.open().await;
    let link = make(&store, "parity", "https://example.com/", 1).await;
    let mut feed = Feed::new(&store);
    feed.poll().await.unwrap();
    let away = test_store.folder().join("elsewhere.db");
    fs::rename(test_store.file(), &away).unwrap();
    unavailable(&store.link(MAIN, &code("parity")).await);
    unavailable(&store.write(chosen("other", "https://example.com/", 2)).await);
    unavailable(&store.backup(Vec::new(), &signer(), at(2)).await);
    unavailable(&store.verify(&[]).await);
    unavailable(&feed.poll().await);
    fs::rename(&away, test_store.file()).unwrap();
    assert_eq!(store.link(MAIN, &code("parity")).await.unwrap(), Some(link));
    make(&store, "other", "https://example.com/", 3).await;
    assert_eq!(feed.poll().await.unwrap().links, [(MAIN, vec!["other".to_owned()])]);
    assert_sound(&store).await;
}

/// Faults, row 20.
#[tokio::test]
async fn replaced_file_is_an_outage() {
    let (test_store, other) = (TestStore::sqlite(), TestStore::sqlite());
    let store = test_store.open().await;
    make(&store, "parity", "https://example.com/", 1).await;
    other.open().await.close().await;
    fs::copy(other.file(), test_store.folder().join("copy.db")).unwrap();
    fs::rename(test_store.folder().join("copy.db"), test_store.file()).unwrap();
    unavailable(&store.link(MAIN, &code("parity")).await);
    unavailable(&store.write(chosen("other", "https://example.com/", 2)).await);
}

/// Faults, row 20.
#[tokio::test]
async fn truncated_or_overwritten_file_is_an_outage() {
    for cut in [true, false] {
        let test_store = TestStore::sqlite();
        let store = test_store.open().await;
        make(&store, "parity", "https://example.com/", 1).await;
        let mut file = fs::OpenOptions::new().write(true).open(test_store.file()).unwrap();
        if cut {
            file.set_len(0).unwrap();
        } else {
            file.write_all(&[0; 4096]).unwrap();
        }
        unavailable(&store.link(MAIN, &code("parity")).await);
        unavailable(&store.write(chosen("other", "https://example.com/", 2)).await);
    }
}

/// Faults, row 20.
#[tokio::test]
async fn damaged_page_is_detected() {
    let test_store = TestStore::sqlite();
    let store = test_store.open().await;
    for number in 0..200 {
        make(&store, &format!("code-{number}"), "https://example.com/", number).await;
    }
    store.close().await;
    let size = fs::metadata(test_store.file()).unwrap().len();
    let mut file = fs::OpenOptions::new().write(true).open(test_store.file()).unwrap();
    for page in 4..size / 4096 {
        file.seek(SeekFrom::Start(page * 4096)).unwrap();
        file.write_all(&[0x5a; 4096]).unwrap();
    }
    drop(file);
    match Store::open(test_store.options()).await {
        Err(StoreError::Refused(_)) => {}
        Ok((store, _)) => {
            assert!(matches!(store.quick_check().await, Err(StoreError::Refused(_))));
            assert!(!matches!(store.integrity_check().await, Ok(faults) if faults.is_empty()));
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// Faults, row 21.
#[tokio::test]
async fn foreign_lock_is_waited_for_and_then_an_outage_for_every_waiting_write() {
    let test_store = TestStore::sqlite();
    let store = test_store.open().await;
    make(&store, "parity", "https://example.com/", 1).await;
    let mut foreign = connect(&test_store.file()).await;
    sqlx::raw_sql("begin immediate").execute(&mut foreign).await.unwrap();
    let waiting: Vec<_> = (0..20)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                store.write(chosen(&format!("late-{number}"), "https://example.com/", 2)).await
            })
        })
        .collect();
    // Reading goes on meanwhile.
    assert!(store.link(MAIN, &code("parity")).await.unwrap().is_some());
    // Each by itself would wait for its own five seconds; together they wait once, or twice where one went ahead.
    let all = async {
        for one in waiting {
            unavailable(&one.await.unwrap());
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), all)
        .await
        .expect("they wait one after the other");
    sqlx::raw_sql("rollback").execute(&mut foreign).await.unwrap();
    make(&store, "other", "https://example.com/", 3).await;
    assert_eq!(store.count_links(MAIN).await.unwrap(), 2);
    assert_sound(&store).await;
}

/// Where SQLite's lock of a database in use lies in its file.
const LOCKED_FROM: &str = " 1073741826 ";

/// Another program that closes a database without seeing our lock takes itself for the last, and deletes the log we write to.
/// The lock is gone as soon as anything in this process closes a handle of the file.
#[tokio::test]
async fn file_lock_is_held_while_the_store_is_open() {
    let test_store = TestStore::sqlite();
    let store = test_store.open().await;
    make(&store, "parity", "https://example.com/", 1).await;
    test_store.open().await.close().await;
    assert!(store.link(MAIN, &code("parity")).await.unwrap().is_some());
    let inode = fs::metadata(test_store.file()).unwrap().ino();
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let ours = format!(" {} ", std::process::id());
    let held = |line: &str| line.contains(&ours) && line.contains(&format!(":{inode}{LOCKED_FROM}"));
    assert!(locks.lines().any(held), "no lock on inode {inode}:\n{locks}");
}
