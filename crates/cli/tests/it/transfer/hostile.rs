//! S34: files that are made to hurt.

use serde_json::json;

use crate::place::Place;

fn bytes(place: &Place, name: &str, bytes: &[u8]) {
    std::fs::write(place.path(name), bytes).unwrap();
}

#[test]
fn s34_what_is_no_text_is_not_opened() {
    let place = Place::new();
    let cases: [(&[u8], &str); 7] = [
        (b"\x1f\x8b\x08\0\0\0\0\0", "gzip"),
        (b"PK\x03\x04\x14\0../../x", "zip"),
        (b"\x28\xb5\x2f\xfd\0", "zstd"),
        (b"SQLite format 3\0", "database"),
        (b"\xff\xfec\0o\0d\0e\0", "UTF-16"),
        (b"c\0o\0d\0e\0", "UTF-16"),
        (b"", "empty"),
    ];
    for (content, word) in cases {
        bytes(&place, "file", content);
        place.fails(5, "links import file").says(word);
    }
}

#[test]
fn s34_every_end_of_line_and_a_mark_in_front_are_fine() {
    let place = Place::new();
    bytes(&place, "mark.csv", b"\xef\xbb\xbfcode,target\r\na,https://example.com/\r\n");
    bytes(&place, "cr.csv", b"code,target\rb,https://example.com/\rc,https://example.com/\r");
    bytes(
        &place,
        "cr.jsonl",
        b"{\"code\":\"d\",\"target\":\"https://example.com/\"}\r{\"code\":\"e\",\"target\":\"https://example.com/\"}",
    );
    bytes(&place, "semicolon.csv", b"Code;Target\nf;https://example.com/\n");
    for (file, count) in [("mark.csv", 1), ("cr.csv", 2), ("cr.jsonl", 2), ("semicolon.csv", 1)] {
        assert_eq!(place.json(&format!("links import {file} --json"))["created"], count, "{file}");
    }
}

#[test]
fn s34_a_bad_row_is_reported_and_the_next_one_is_read() {
    let place = Place::new();
    bytes(
        &place,
        "rows.jsonl",
        format!(
            "{{\"code\":\"first\",\"target\":\"https://example.com/\"}}\n{}\n{{\"code\":\"nul\",\"target\":\"https://example.com/\",\"title\":\"a\\u0000b\"}}\n{{\"code\":\"twice\",\"code\":\"x\",\"target\":\"https://example.com/\"}}\n{{\"code\":\"long\",\"title\":\"{}\"}}\nnot json\n[1]\n{{\"code\":\"last\",\"target\":\"https://example.com/\"}}\n",
            "[".repeat(100_000),
            "x".repeat(200_000)
        )
        .as_bytes(),
    );
    let report = place.rmax("links import rows.jsonl --json").json();
    assert_eq!((&report["created"], &report["refused"]), (&json!(2), &json!(6)), "{report:#}");
    let rows: Vec<u64> =
        report["problems"].as_array().unwrap().iter().map(|row| row["row"].as_u64().unwrap()).collect();
    assert_eq!(rows, [2, 3, 4, 5, 6, 7]);

    bytes(&place, "rows.csv", b"code,target,title\na,https://example.com/,x\0y\nb,https://example.com/,\xff\nc,https://example.com/,x,y,z\nd,https://example.com/\n");
    let report = place.rmax("links import rows.csv --json").json();
    assert_eq!((&report["created"], &report["refused"]), (&json!(1), &json!(3)), "{report:#}");
}

#[test]
fn s34_a_row_without_end_ends_the_reading_and_not_the_memory() {
    let place = Place::new();
    let long = "x".repeat(3_000_000);
    place.write(
        "field.csv",
        &format!("code,target\na,https://example.com/\nb,\"{long}\"\nc,https://example.com/\n"),
    );
    place.write("list.json", &format!(r#"[{{"shortlink":"d","longlink":"https://example.com/"}},{{"shortlink":"e","longlink":"{long}"}}]"#));
    place.write("dump.sql", &format!("INSERT INTO yourls_log VALUES ('{long}');\nINSERT INTO yourls_url VALUES ('f','https://example.com/','','2020-01-01 00:00:00','',1),('g','{long}','','','',1);"));
    for (file, code) in [("field.csv", "a"), ("list.json", "d"), ("dump.sql", "f")] {
        let ran = place.rmax(&format!("links import {file} --json"));
        assert_eq!(ran.code, Some(1), "{ran}");
        let report = ran.json();
        assert!(report["stopped"].as_str().unwrap().contains("longer than 128 KiB"), "{report:#}");
        assert_eq!(report["created"], 1, "{file}");
        place.ok(&format!("links get {code}"));
    }
    place.write("deep.json", &format!("[{}", "[".repeat(100_000)));
    place.fails(5, "links import deep.json");
    let ran = place.rmax("links import deep.json --format chhoto --json");
    assert_eq!(ran.code, Some(1), "{ran}");
    place.write("columns.csv", &format!("code,target,{}\na,https://example.com/\n", "x,".repeat(100_000)));
    place.fails(5, "links import columns.csv");
}

#[test]
fn s34_many_rows_of_one_code_are_one_link() {
    let place = Place::new();
    place.write("same.csv", &format!("code,target\n{}", "a,https://example.com/\n".repeat(3_000)));
    let report = place.json("links import same.csv --json");
    assert_eq!(
        (&report["created"], &report["skipped"], &report["rows"]),
        (&json!(1), &json!(2_999), &json!(3_000))
    );
    let rows: Vec<String> = (0..3_000).map(|n| format!("a,https://example.com/{n}")).collect();
    place.write("other.csv", &format!("code,target\n{}", rows.join("\n")));
    let report = place.rmax("links import other.csv --json").json();
    assert_eq!((&report["conflicting"], &report["more"]), (&json!(3_000), &json!(2_000)));
    assert_eq!(report["problems"].as_array().unwrap().len(), 1_000);
}

#[test]
fn s33_two_imports_at_once_make_each_link_once() {
    let place = Place::new();
    place.ok("links set first https://example.com/");
    let rows: Vec<String> = (0..900).map(|n| format!("c{n},https://example.com/{n},5")).collect();
    place.write("links.csv", &format!("code,target,clicks\n{}", rows.join("\n")));
    let ran = place
        .together(&["links import links.csv --json".to_owned(), "links import links.csv --json".to_owned()]);
    let created: u64 = ran.iter().map(|ran| ran.json()["created"].as_u64().unwrap()).sum();
    assert_eq!(created, 900, "{ran:#?}");
    assert_eq!(place.link("c899")["stats"]["hits"], 5);
    place.ok("audit verify");
    place.ok("doctor");
}
