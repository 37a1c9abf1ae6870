//! Other programs read our Parquet: `DuckDB`, and pandas with pyarrow.

use std::process::Command;

use rlinks_clicks::Click;
use rlinks_clicks::export::parquet::Writer;

use crate::support::sample_clicks::many;

#[track_caller]
fn check(clicks: &[Click], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clicks.parquet");
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.write(clicks).unwrap();
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/lib/read-parquet");
    let output = Command::new("python3").arg(script).arg(&path).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        expected,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn duckdb_and_pandas_read_exported_parquet() {
    check(
        &many(10_000),
        r#"{"count": 10000, "min_ts": 1769904000000, "max_ts": 1769904009999, "bots": 6666, "codes": 100}"#,
    );
    check(&[], r#"{"count": 0, "min_ts": null, "max_ts": null, "bots": 0, "codes": 0}"#);
}
