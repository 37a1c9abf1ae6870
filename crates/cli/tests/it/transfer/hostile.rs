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
        assert_eq!(ran.code, Some(5), "{ran}");
        let report = ran.json();
        assert!(report["stopped"].as_str().unwrap().contains("longer than 128 KiB"), "{report:#}");
        assert_eq!(report["created"], 1, "{file}");
        place.ok(&format!("links get {code}"));
    }
    place.write("deep.json", &format!("[{}", "[".repeat(100_000)));
    place.fails(5, "links import deep.json");
    let ran = place.rmax("links import deep.json --format chhoto --json");
    assert_eq!(ran.code, Some(5), "{ran}");
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

/// A rule is broken, and the report or the error says which.
#[track_caller]
fn refused(place: &Place, line: &str, word: &str) {
    let ran = place.rmax(line);
    assert_eq!(ran.code, Some(5), "{ran}");
    assert!(ran.to_string().contains(word), "{ran}");
}

/// The rows of problems, and why the reading ended.
fn problems(report: &serde_json::Value) -> (Vec<u64>, &str) {
    let rows = report["problems"].as_array().unwrap().iter().map(|problem| problem["row"].as_u64().unwrap());
    (rows.collect(), report["stopped"].as_str().unwrap_or_default())
}

#[test]
fn a_quote_that_is_never_closed_does_not_swallow_the_rest() {
    let place = Place::new();
    let quoted = "code,target,title\nfine,https://example.com/,\"a \"\"b\"\"\nc\"\nodd,https://example.com/,5\" wide\n";
    place.write("fine.csv", quoted.trim_end());
    refused(&place, "links import fine.csv", "title");
    place.ok("links get odd");
    for (file, rest) in [
        (
            "open.csv",
            "one,https://example.com/,\"never closed\ntwo,https://example.com/,b\nthree,https://example.com/,c\n",
        ),
        ("doubled.csv", "one,https://example.com/,\"closed?\"\"\ntwo,https://example.com/,b\n"),
        ("cut.csv", "one,https://example.com/,\"cut o"),
    ] {
        place.write(file, &format!("code,target,title\n\nzero,https://example.com/,a\n{rest}"));
        for flags in ["--dry-run --json", "--json"] {
            let ran = place.rmax(&format!("links import {file} {flags}"));
            assert_eq!(ran.code, Some(5), "{ran}");
            assert_eq!(ran.error()["code"], "VALIDATION_FAILED", "{ran}");
            let report = ran.json();
            let (rows, stopped) = problems(&report);
            assert!(rows.is_empty() && stopped.contains("row 4: a quote is opened"), "{file}: {report:#}");
        }
        place.ok("links get zero");
        place.fails(3, "links get one");
    }
}

#[test]
fn rows_are_named_by_their_lines_whatever_ends_them() {
    let lines = [
        "code,target",
        "a,https://example.com/",
        "",
        "B,https://example.com/",
        "c,\"https://example.com/",
        "\"",
        "D,https://example.com/",
    ];
    let place = Place::new();
    for end in ["\n", "\r\n", "\r"] {
        place.write("rows.csv", &lines.join(end));
        let report = place.rmax("links import rows.csv --json").json();
        assert_eq!(problems(&report), (vec![4, 5, 7], ""), "{end:?}: {report:#}");
    }
}

#[test]
fn a_code_is_never_made_of_a_part_of_one() {
    let place = Place::new();
    place.write(
        "ours.jsonl",
        r#"{"code":"foo/bar","target":"https://example.com/"}
{"code":"../x","target":"https://example.com/"}
{"short_url":"https://rmax.to/docs/faq","target":"https://example.com/"}
{"short_url":"https://rmax.to/whole","target":"https://example.com/"}
{"code":"https://rmax.to/also","target":"https://example.com/"}
"#,
    );
    place.write("shlink.csv", "shortCode,longUrl\na/b,https://example.com/\n");
    place.write("dub.csv", "Short link,Destination URL,Clicks\nhttps://dub.sh/a/b,https://example.com/,\"1,234\"\nhttps://dub.sh/dub,https://example.com/,\"1,234\"\n");
    for (file, created, refused) in [("ours.jsonl", 2, 3), ("shlink.csv", 0, 1), ("dub.csv", 1, 1)] {
        let report = place.rmax(&format!("links import {file} --json")).json();
        assert_eq!(
            (&report["created"], &report["refused"]),
            (&json!(created), &json!(refused)),
            "{report:#}"
        );
    }
    for code in ["bar", "x", "faq", "b"] {
        place.fails(3, &format!("links get {code}"));
    }
    assert_eq!(place.link("dub")["stats"]["hits"], 1234);
    let report = place.rmax("links import ours.jsonl --exact --json").json();
    assert_eq!(report["refused"], 3, "{report:#}");
}

#[test]
fn what_no_link_can_have_is_refused_also_with_exact() {
    let place = Place::new();
    for (field, value) in [
        ("clicks", "9223372036854775807"),
        ("hits", "1000000000001"),
        ("version", "9223372036854775807"),
        ("version", "0"),
    ] {
        let row = format!("{{\"code\":\"a\",\"target\":\"https://example.com/\",\"{field}\":{value}}}\n");
        place.write("row.jsonl", &row);
        refused(&place, "links import row.jsonl --exact", field);
    }
    place.write(
        "dub.csv",
        "Short link,Destination URL,Clicks\nhttps://dub.sh/a,https://example.com/,9223372036854775807\n",
    );
    refused(&place, "links import dub.csv", "clicks");
    let words = ["health", "ready", "API", "admin", "metrics"];
    let rows = words.map(|word| format!("{{\"code\":\"{word}\",\"target\":\"https://example.com/\"}}\n"));
    place.write("words.jsonl", &rows.concat());
    let report = place.rmax("links import words.jsonl --exact --json").json();
    assert_eq!((&report["created"], &report["refused"]), (&json!(0), &json!(5)), "{report:#}");
    place.fails(3, "links get a");
    place.write("twice.csv", "code,target,Code\na,https://example.com/,b\n");
    place.fails(5, "links import twice.csv").says("`Code` is there twice");
}

#[test]
fn a_dump_is_read_as_its_tables_say() {
    let place = Place::new();
    place.write(
        "dump.sql",
        "-- a dump\nCREATE TABLE IF NOT EXISTS `my_url` (\n  `url` text NOT NULL,\n  `keyword` varchar(100) COLLATE utf8_bin DEFAULT '',\n  `extra` decimal(10,2),\n  `title` text,\n  PRIMARY KEY (`keyword`),\n  KEY `ip` (`extra`)\n) ENGINE=InnoDB;\n\
         INSERT INTO `my_url` VALUES (_utf8mb4'https://example.com/1','one',1.5,NULL),('https://example.com/2','two'),('https://example.com/3','three',NULL,'Three');\n",
    );
    let report = place.rmax("links import dump.sql --json").json();
    assert_eq!((&report["created"], problems(&report)), (&json!(2), (vec![2], "")), "{report:#}");
    assert_eq!(place.link("one")["target"], "https://example.com/1");
    assert_eq!(place.link("three")["title"], "Three");
    bytes(&place, "latin.sql", b"INSERT INTO yourls_url VALUES ('four','https://example.com/','caf\xe9','2020-01-01 00:00:00','',1),('five','https://example.com/','','2020-01-01 00:00:00','',1);");
    let report = place.rmax("links import latin.sql --json").json();
    assert_eq!((&report["created"], problems(&report)), (&json!(1), (vec![1], "")), "{report:#}");
    place.write("other.sql", "CREATE TABLE foo (a int);\nINSERT INTO foo VALUES (1);\n");
    refused(&place, "links import other.sql", "without a table of links");
    place.write("empty.sql", "CREATE TABLE yourls_url (keyword text, url text);\n");
    place.ok("links import empty.sql");
}
