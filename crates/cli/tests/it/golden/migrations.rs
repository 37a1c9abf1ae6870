//! Migrations never change by a byte: a store keeps a checksum of each, and refuses one that differs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256, Sha384};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use super::{golden, store, text};
use crate::support::sandbox::block_on;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// The SHA-384 of each migration of a folder that 0.1 had, by its number.
pub(super) fn checksums(folder: &str) -> BTreeMap<i64, String> {
    let listed = text("migrations.sha256");
    let paths = listed.lines().filter_map(|line| line.split_once("  ")).map(|(_, path)| path);
    let number = |path: &str| path.rsplit('/').next().unwrap()[..4].parse().unwrap();
    paths
        .filter(|path| path.starts_with(folder))
        .map(|path| (number(path), hex(&Sha384::digest(std::fs::read(root().join(path)).unwrap()))))
        .collect()
}

#[test]
fn migrations_of_0_1_have_the_same_bytes_and_new_ones_come_after_them() {
    let listed = text("migrations.sha256");
    let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (sum, path) in listed.lines().map(|line| line.split_once("  ").unwrap()) {
        let bytes = std::fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(hex(&Sha256::digest(bytes)), sum, "{path} has changed: every store would be refused");
        let (folder, name) = path.rsplit_once('/').unwrap();
        known.entry(folder).or_default().insert(name);
    }
    assert_eq!(known.len(), 4, "two crates with two databases each");
    for (folder, names) in known {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let last = *names.last().unwrap();
            assert!(
                names.contains(name.as_str()) || name.as_str() > last,
                "{folder}/{name} comes before {last}"
            );
        }
    }
}

#[test]
fn golden_sqlite_stores_hold_the_checksums_of_these_migrations() {
    for (file, folder) in
        [("rlinks.db", "crates/store/migrations/sqlite"), ("clicks.db", "crates/clicks/migrations/sqlite")]
    {
        assert!(golden("store").join(file).exists());
        let path = store();
        let path = (path.path("rlinks-data").join(file), path);
        let stored: Vec<(i64, Vec<u8>)> = block_on(async {
            let mut connection = SqliteConnectOptions::new().filename(&path.0).connect().await.unwrap();
            let sql = "select version, checksum from _sqlx_migrations order by version";
            let rows = sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap();
            connection.close().await.unwrap();
            rows
        });
        let stored: BTreeMap<i64, String> =
            stored.into_iter().map(|(version, checksum)| (version, hex(&checksum))).collect();
        assert_eq!(stored, checksums(folder), "{file}");
    }
}
