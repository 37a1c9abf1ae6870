use bytes::Bytes;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use rlinks_clicks::Click;
use rlinks_clicks::export::{jsonl, parquet::Writer};
use serde_json::Value;

use crate::support::sample_clicks::{complete_click, many, minimal_click};

fn written(batches: &[&[Click]]) -> SerializedFileReader<Bytes> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    SerializedFileReader::new(Bytes::from(writer.finish().unwrap())).unwrap()
}

/// Every row as names and values, in the order of the columns. Times as JSON lines show them.
fn rows(file: &SerializedFileReader<Bytes>) -> Vec<Vec<(String, Value)>> {
    let value = |field: &Field| match field {
        Field::Null => Value::Null,
        Field::Bool(flag) => (*flag).into(),
        Field::Double(number) => (*number).into(),
        Field::Str(text) => text.clone().into(),
        Field::TimestampMillis(ms) => rlinks_core::Timestamp::from_ms(*ms).to_string().into(),
        other => panic!("no column has {other:?}"),
    };
    let row = |row: parquet::record::Row| {
        row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
    };
    file.get_row_iter(None).unwrap().map(|read| row(read.unwrap())).collect()
}

/// What JSON lines say of the same clicks, without the key. `serde_json` sorts names, so order is another test's.
fn expected(clicks: &[Click]) -> Vec<serde_json::Map<String, Value>> {
    let mut lines = jsonl::Writer::new(Vec::new(), jsonl::Form::Full);
    lines.write(clicks).unwrap();
    let lines = String::from_utf8(lines.finish().unwrap()).unwrap();
    lines
        .lines()
        .map(|line| {
            let mut line: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
            line.remove("key");
            line
        })
        .collect()
}

#[track_caller]
fn check(clicks: &[Click], file: &SerializedFileReader<Bytes>) {
    let read: Vec<serde_json::Map<String, Value>> =
        rows(file).into_iter().map(|row| row.into_iter().collect()).collect();
    assert_eq!(read.len(), clicks.len());
    for (read, expected) in read.iter().zip(expected(clicks)) {
        assert_eq!(*read, expected);
    }
}

#[test]
fn columns_round_trip() {
    for clicks in [
        vec![minimal_click()],
        vec![complete_click()],
        vec![minimal_click(), complete_click()],
        vec![complete_click(), minimal_click(), complete_click()],
    ] {
        check(&clicks, &written(&[&clicks]));
    }
}

#[test]
fn column_names_and_order_match_the_full_json_line() {
    let file = written(&[&[complete_click()]]);
    let names: Vec<String> = rows(&file).remove(0).into_iter().map(|(name, _)| name).collect();
    let mut line = jsonl::Writer::new(Vec::new(), jsonl::Form::Full);
    line.write(&[minimal_click()]).unwrap();
    let line = String::from_utf8(line.finish().unwrap()).unwrap();
    let mut from = 0;
    for name in &names {
        let at = line[from..].find(&format!("\"{name}\":"));
        from += at.unwrap_or_else(|| panic!("{name} is missing or has another place"));
    }
    assert_eq!(names.len(), 23);
}

#[test]
fn schema_has_the_documented_types() {
    let file = written(&[]);
    let mut schema = Vec::new();
    parquet::schema::printer::print_schema(&mut schema, file.metadata().file_metadata().schema());
    assert_eq!(
        String::from_utf8(schema).unwrap(),
        "message click {
  REQUIRED INT64 ts (TIMESTAMP(MILLIS,true));
  REQUIRED BYTE_ARRAY code (STRING);
  OPTIONAL BYTE_ARRAY country (STRING);
  OPTIONAL BYTE_ARRAY ua_hash (STRING);
  OPTIONAL BYTE_ARRAY referrer (STRING);
  OPTIONAL BYTE_ARRAY ip_prefix (STRING);
  REQUIRED BYTE_ARRAY id (STRING);
  REQUIRED BYTE_ARRAY link_id (STRING);
  REQUIRED BYTE_ARRAY workspace_id (STRING);
  OPTIONAL BYTE_ARRAY user_agent (STRING);
  OPTIONAL BYTE_ARRAY city (STRING);
  OPTIONAL DOUBLE latitude;
  OPTIONAL DOUBLE longitude;
  REQUIRED BYTE_ARRAY device (STRING);
  OPTIONAL BYTE_ARRAY browser (STRING);
  OPTIONAL BYTE_ARRAY browser_version (STRING);
  OPTIONAL BYTE_ARRAY system (STRING);
  OPTIONAL BYTE_ARRAY system_version (STRING);
  OPTIONAL BYTE_ARRAY utm_source (STRING);
  OPTIONAL BYTE_ARRAY utm_medium (STRING);
  OPTIONAL BYTE_ARRAY utm_campaign (STRING);
  OPTIONAL BYTE_ARRAY visitor (STRING);
  REQUIRED BOOLEAN bot;
}
"
    );
}

#[test]
fn export_without_clicks_is_a_valid_empty_file() {
    for batches in [&[][..], &[&[][..]][..]] {
        let file = written(batches);
        assert_eq!((file.metadata().file_metadata().num_rows(), file.num_row_groups()), (0, 0));
    }
}

#[test]
fn row_groups_are_bounded_whatever_the_batch_size() {
    let clicks = many(270_000);
    let batches: Vec<&[Click]> = clicks.chunks(9_999).collect();
    let file = written(&batches);
    let sizes: Vec<i64> = file.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    assert_eq!(sizes, [262_144, 7_856]);
    let one = written(&[&clicks]);
    assert_eq!(one.metadata().row_groups().len(), 2);
    let codes = |file: &SerializedFileReader<Bytes>| -> Vec<String> {
        let row = |row: Result<parquet::record::Row, _>| {
            row.unwrap().get_column_iter().nth(1).unwrap().1.to_string()
        };
        file.get_row_iter(None).unwrap().map(row).collect()
    };
    assert!(codes(&file) == codes(&one));
}

#[test]
fn unique_texts_beyond_the_dictionary_are_all_kept() {
    let mut clicks = many(30_000);
    for (k, click) in clicks.iter_mut().enumerate() {
        click.referrer = Some(format!("https://example.com/{k}/{}", "x".repeat(100)));
        click.latitude = Some(f64::from(u32::try_from(k).unwrap()) / 8.0);
    }
    check(&clicks, &written(&[&clicks]));
}
