//! Hostile inputs, S34: files that are made to hurt.

use serde_json::json;

use crate::support::sandbox::Sandbox;

fn bytes(sandbox: &Sandbox, name: &str, bytes: &[u8]) {
    std::fs::write(sandbox.path(name), bytes).unwrap();
}

/// Hostile inputs, S34.
#[test]
fn binary_files_are_rejected() {
    let sandbox = Sandbox::new();
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
        bytes(&sandbox, "file", content);
        sandbox.fails(5, "links import file").says(word);
    }
}

/// Hostile inputs, S34.
#[test]
fn every_line_ending_and_a_byte_order_mark_are_accepted() {
    let sandbox = Sandbox::new();
    bytes(&sandbox, "mark.csv", b"\xef\xbb\xbfcode,target\r\na,https://example.com/\r\n");
    bytes(&sandbox, "cr.csv", b"code,target\rb,https://example.com/\rc,https://example.com/\r");
    bytes(
        &sandbox,
        "cr.jsonl",
        b"{\"code\":\"d\",\"target\":\"https://example.com/\"}\r{\"code\":\"e\",\"target\":\"https://example.com/\"}",
    );
    bytes(&sandbox, "semicolon.csv", b"Code;Target\nf;https://example.com/\n");
    for (file, count) in [("mark.csv", 1), ("cr.csv", 2), ("cr.jsonl", 2), ("semicolon.csv", 1)] {
        assert_eq!(sandbox.json(&format!("links import {file} --json"))["created"], count, "{file}");
    }
}

/// Hostile inputs, S34.
#[test]
fn invalid_row_is_reported_and_the_next_one_is_read() {
    let sandbox = Sandbox::new();
    bytes(
        &sandbox,
        "rows.jsonl",
        format!(
            "{{\"code\":\"first\",\"target\":\"https://example.com/\"}}\n{}\n{{\"code\":\"nul\",\"target\":\"https://example.com/\",\"title\":\"a\\u0000b\"}}\n{{\"code\":\"twice\",\"code\":\"x\",\"target\":\"https://example.com/\"}}\n{{\"code\":\"long\",\"title\":\"{}\"}}\nnot json\n[1]\n{{\"code\":\"last\",\"target\":\"https://example.com/\"}}\n",
            "[".repeat(100_000),
            "x".repeat(200_000)
        )
        .as_bytes(),
    );
    let report = sandbox.rmax("links import rows.jsonl --json").json();
    assert_eq!((&report["created"], &report["refused"]), (&json!(2), &json!(6)), "{report:#}");
    let rows: Vec<u64> =
        report["problems"].as_array().unwrap().iter().map(|row| row["row"].as_u64().unwrap()).collect();
    assert_eq!(rows, [2, 3, 4, 5, 6, 7]);

    bytes(&sandbox, "rows.csv", b"code,target,title\na,https://example.com/,x\0y\nb,https://example.com/,\xff\nc,https://example.com/,x,y,z\nd,https://example.com/\n");
    let report = sandbox.rmax("links import rows.csv --json").json();
    assert_eq!((&report["created"], &report["refused"]), (&json!(1), &json!(3)), "{report:#}");
}

/// Hostile inputs, S34.
#[test]
fn overlong_row_stops_the_import_within_bounded_memory() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(3_000_000);
    sandbox.write(
        "field.csv",
        &format!("code,target\na,https://example.com/\nb,\"{long}\"\nc,https://example.com/\n"),
    );
    sandbox.write("list.json", &format!(r#"[{{"shortlink":"d","longlink":"https://example.com/"}},{{"shortlink":"e","longlink":"{long}"}}]"#));
    sandbox.write("dump.sql", &format!("INSERT INTO yourls_log VALUES ('{long}');\nINSERT INTO yourls_url VALUES ('f','https://example.com/','','2020-01-01 00:00:00','',1),('g','{long}','','','',1);"));
    for (file, code) in [("field.csv", "a"), ("list.json", "d"), ("dump.sql", "f")] {
        let ran = sandbox.rmax(&format!("links import {file} --json"));
        assert_eq!(ran.code, Some(5), "{ran}");
        let report = ran.json();
        assert!(report["stopped"].as_str().unwrap().contains("longer than 128 KiB"), "{report:#}");
        assert_eq!(report["created"], 1, "{file}");
        sandbox.ok(&format!("links get {code}"));
    }
    sandbox.write("deep.json", &format!("[{}", "[".repeat(100_000)));
    sandbox.fails(5, "links import deep.json");
    let ran = sandbox.rmax("links import deep.json --format chhoto --json");
    assert_eq!(ran.code, Some(5), "{ran}");
    sandbox.write("columns.csv", &format!("code,target,{}\na,https://example.com/\n", "x,".repeat(100_000)));
    sandbox.fails(5, "links import columns.csv");
}

/// Hostile inputs, S34.
#[test]
fn repeated_rows_of_one_code_make_one_link() {
    let sandbox = Sandbox::new();
    sandbox.write("same.csv", &format!("code,target\n{}", "a,https://example.com/\n".repeat(3_000)));
    let report = sandbox.json("links import same.csv --json");
    assert_eq!(
        (&report["created"], &report["skipped"], &report["rows"]),
        (&json!(1), &json!(2_999), &json!(3_000))
    );
    let rows: Vec<String> = (0..3_000).map(|n| format!("a,https://example.com/{n}")).collect();
    sandbox.write("other.csv", &format!("code,target\n{}", rows.join("\n")));
    let report = sandbox.rmax("links import other.csv --json").json();
    assert_eq!((&report["conflicting"], &report["more"]), (&json!(3_000), &json!(2_000)));
    assert_eq!(report["problems"].as_array().unwrap().len(), 1_000);
}

/// Hostile inputs, S33.
#[test]
fn concurrent_imports_create_each_link_once() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set first https://example.com/");
    let rows: Vec<String> = (0..900).map(|n| format!("c{n},https://example.com/{n},5")).collect();
    sandbox.write("links.csv", &format!("code,target,clicks\n{}", rows.join("\n")));
    let ran = sandbox
        .together(&["links import links.csv --json".to_owned(), "links import links.csv --json".to_owned()]);
    let created: u64 = ran.iter().map(|ran| ran.json()["created"].as_u64().unwrap()).sum();
    assert_eq!(created, 900, "{ran:#?}");
    assert_eq!(sandbox.link("c899")["stats"]["hits"], 5);
    sandbox.ok("audit verify");
    sandbox.ok("doctor");
}

/// A rule is broken, and the report or the error says which.
#[track_caller]
fn refused(sandbox: &Sandbox, line: &str, word: &str) {
    let ran = sandbox.rmax(line);
    assert_eq!(ran.code, Some(5), "{ran}");
    assert!(ran.to_string().contains(word), "{ran}");
}

/// The rows of problems, and why the reading ended.
fn problems(report: &serde_json::Value) -> (Vec<u64>, &str) {
    let rows = report["problems"].as_array().unwrap().iter().map(|problem| problem["row"].as_u64().unwrap());
    (rows.collect(), report["stopped"].as_str().unwrap_or_default())
}

#[test]
fn unclosed_quote_does_not_swallow_later_rows() {
    let sandbox = Sandbox::new();
    let quoted = "code,target,title\nfine,https://example.com/,\"a \"\"b\"\"\nc\"\nodd,https://example.com/,5\" wide\n";
    sandbox.write("fine.csv", quoted.trim_end());
    refused(&sandbox, "links import fine.csv", "title");
    sandbox.ok("links get odd");
    for (file, rest) in [
        (
            "open.csv",
            "one,https://example.com/,\"never closed\ntwo,https://example.com/,b\nthree,https://example.com/,c\n",
        ),
        ("doubled.csv", "one,https://example.com/,\"closed?\"\"\ntwo,https://example.com/,b\n"),
        ("cut.csv", "one,https://example.com/,\"cut o"),
    ] {
        sandbox.write(file, &format!("code,target,title\n\nzero,https://example.com/,a\n{rest}"));
        for flags in ["--dry-run --json", "--json"] {
            let ran = sandbox.rmax(&format!("links import {file} {flags}"));
            assert_eq!(ran.code, Some(5), "{ran}");
            assert_eq!(ran.error()["code"], "VALIDATION_FAILED", "{ran}");
            let report = ran.json();
            let (rows, stopped) = problems(&report);
            assert!(rows.is_empty() && stopped.contains("row 4: a quote is opened"), "{file}: {report:#}");
        }
        sandbox.ok("links get zero");
        sandbox.fails(3, "links get one");
    }
}

#[test]
fn row_numbers_are_right_for_every_line_ending() {
    let lines = [
        "code,target",
        "a,https://example.com/",
        "",
        "B,https://example.com/",
        "c,\"https://example.com/",
        "\"",
        "D,https://example.com/",
    ];
    let sandbox = Sandbox::new();
    for end in ["\n", "\r\n", "\r"] {
        sandbox.write("rows.csv", &lines.join(end));
        let report = sandbox.rmax("links import rows.csv --json").json();
        assert_eq!(problems(&report), (vec![4, 5, 7], ""), "{end:?}: {report:#}");
    }
}

#[test]
fn code_with_a_path_is_refused_and_not_shortened() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "ours.jsonl",
        r#"{"code":"foo/bar","target":"https://example.com/"}
{"code":"../x","target":"https://example.com/"}
{"short_url":"https://rmax.to/docs/faq","target":"https://example.com/"}
{"short_url":"https://rmax.to/whole","target":"https://example.com/"}
{"code":"https://rmax.to/also","target":"https://example.com/"}
"#,
    );
    sandbox.write("shlink.csv", "shortCode,longUrl\na/b,https://example.com/\n");
    sandbox.write("dub.csv", "Short link,Destination URL,Clicks\nhttps://dub.sh/a/b,https://example.com/,\"1,234\"\nhttps://dub.sh/dub,https://example.com/,\"1,234\"\n");
    for (file, created, refused) in [("ours.jsonl", 2, 3), ("shlink.csv", 0, 1), ("dub.csv", 1, 1)] {
        let report = sandbox.rmax(&format!("links import {file} --json")).json();
        assert_eq!(
            (&report["created"], &report["refused"]),
            (&json!(created), &json!(refused)),
            "{report:#}"
        );
    }
    for code in ["bar", "x", "faq", "b"] {
        sandbox.fails(3, &format!("links get {code}"));
    }
    assert_eq!(sandbox.link("dub")["stats"]["hits"], 1234);
    let report = sandbox.rmax("links import ours.jsonl --exact --json").json();
    assert_eq!(report["refused"], 3, "{report:#}");
}

#[test]
fn exact_import_rejects_impossible_values() {
    let sandbox = Sandbox::new();
    for (field, value) in [
        ("clicks", "9223372036854775807"),
        ("hits", "1000000000001"),
        ("version", "9223372036854775807"),
        ("version", "0"),
    ] {
        let row = format!("{{\"code\":\"a\",\"target\":\"https://example.com/\",\"{field}\":{value}}}\n");
        sandbox.write("row.jsonl", &row);
        refused(&sandbox, "links import row.jsonl --exact", field);
    }
    sandbox.write(
        "dub.csv",
        "Short link,Destination URL,Clicks\nhttps://dub.sh/a,https://example.com/,9223372036854775807\n",
    );
    refused(&sandbox, "links import dub.csv", "clicks");
    let words = ["health", "ready", "API", "admin", "metrics"];
    let rows = words.map(|word| format!("{{\"code\":\"{word}\",\"target\":\"https://example.com/\"}}\n"));
    sandbox.write("words.jsonl", &rows.concat());
    let report = sandbox.rmax("links import words.jsonl --exact --json").json();
    assert_eq!((&report["created"], &report["refused"]), (&json!(0), &json!(5)), "{report:#}");
    sandbox.fails(3, "links get a");
    sandbox.write("twice.csv", "code,target,Code\na,https://example.com/,b\n");
    sandbox.fails(5, "links import twice.csv").says("`Code` is there twice");
}

#[test]
fn sql_dump_columns_follow_its_table_definition() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "dump.sql",
        "-- a dump\nCREATE TABLE IF NOT EXISTS `my_url` (\n  `url` text NOT NULL,\n  `keyword` varchar(100) COLLATE utf8_bin DEFAULT '',\n  `extra` decimal(10,2),\n  `title` text,\n  PRIMARY KEY (`keyword`),\n  KEY `ip` (`extra`)\n) ENGINE=InnoDB;\n\
         INSERT INTO `my_url` VALUES (_utf8mb4'https://example.com/1','one',1.5,NULL),('https://example.com/2','two'),('https://example.com/3','three',NULL,'Three');\n",
    );
    let report = sandbox.rmax("links import dump.sql --json").json();
    assert_eq!((&report["created"], problems(&report)), (&json!(2), (vec![2], "")), "{report:#}");
    assert_eq!(sandbox.link("one")["target"], "https://example.com/1");
    assert_eq!(sandbox.link("three")["title"], "Three");
    bytes(&sandbox, "latin.sql", b"INSERT INTO yourls_url VALUES ('four','https://example.com/','caf\xe9','2020-01-01 00:00:00','',1),('five','https://example.com/','','2020-01-01 00:00:00','',1);");
    let report = sandbox.rmax("links import latin.sql --json").json();
    assert_eq!((&report["created"], problems(&report)), (&json!(1), (vec![1], "")), "{report:#}");
    sandbox.write("other.sql", "CREATE TABLE foo (a int);\nINSERT INTO foo VALUES (1);\n");
    refused(&sandbox, "links import other.sql", "without a table of links");
    sandbox.write("empty.sql", "CREATE TABLE yourls_url (keyword text, url text);\n");
    sandbox.ok("links import empty.sql");
}
