//! Files of others, written by hand in the shape each of them exports.

use serde_json::{Value, json};

use crate::support::import_files::{exported_link, import_file};
use crate::support::sandbox::Sandbox;

/// Imports a file twice, recognised and by its name, and gives the sandbox and the report.
#[track_caller]
fn import(file: &str, format: &str) -> (Sandbox, Value) {
    let sandbox = Sandbox::new();
    let named =
        Sandbox::new().rmax(&format!("links import {} --format {format} --json", import_file(file))).json();
    let report = sandbox.rmax(&format!("links import {} --json", import_file(file))).json();
    assert_eq!(report, named);
    assert_eq!(report["format"], format, "{report:#}");
    // What was imported is there, so a second time is no news.
    let again = sandbox.rmax(&format!("links import {} --json", import_file(file))).json();
    assert_eq!((&again["created"], &again["skipped"]), (&json!(0), &report["created"]), "{again:#}");
    (sandbox, report)
}

/// Numbers of a report: created, conflicting, refused.
fn numbers(report: &Value) -> [u64; 3] {
    ["created", "conflicting", "refused"].map(|name| report[name].as_u64().unwrap())
}

#[track_caller]
fn has(sandbox: &Sandbox, code: &str, fields: &Value) {
    let link = exported_link(sandbox, code);
    for (name, value) in fields.as_object().unwrap() {
        assert_eq!(&link[name], value, "{name} of {code}");
    }
}

#[test]
fn shlink_files_are_imported() {
    let (sandbox, report) = import("shlink-export.csv", "shlink");
    assert_eq!(numbers(&report), [3, 0, 0]);
    has(
        &sandbox,
        "spring",
        &json!({"target": "https://example.com/spring?a=1&b=2", "title": "Spring, and more", "tags": ["sale", "season"],
            "created_at": "2023-05-01T10:00:00Z", "clicks": 42, "source": "import"}),
    );
    // The code is read from the short URL.
    has(&sandbox, "leap", &json!({"clicks": 7}));
    let (sandbox, report) = import("shlink-import.csv", "shlink");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(&sandbox, "one", &json!({"title": "First", "tags": ["a", "b"], "clicks": 0}));
}

#[test]
fn dub_files_are_imported() {
    let (sandbox, report) = import("dub.csv", "dub");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(
        &sandbox,
        "launch",
        &json!({"clicks": 1234, "tags": ["launch", "q1"], "created_at": "2024-01-15T10:00:00Z", "metadata": {}}),
    );
    // Archived there is out of sight and goes on answering.
    has(&sandbox, "old-launch", &json!({"state": "active", "metadata": {"archived": true}}));
}

#[test]
fn chhoto_files_are_imported() {
    let (sandbox, report) = import("chhoto.json", "chhoto");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(&sandbox, "chhoto", &json!({"clicks": 12, "notes": "kept at home", "expires_at": null}));
    has(&sandbox, "over", &json!({"expires_at": "2020-09-13T12:26:40Z", "notes": null}));
}

#[test]
fn yourls_files_are_imported() {
    let (sandbox, report) = import("yourls.sql", "yourls");
    assert_eq!(numbers(&report), [3, 0, 0]);
    has(
        &sandbox,
        "ozh",
        &json!({"title": "Ozh's \"place\"; here", "created_at": "2010-06-01T12:34:56Z", "clicks": 98765}),
    );
    has(&sandbox, "path", &json!({"target": "https://example.com/a(b)c?x=%27y%27", "title": null}));
    has(&sandbox, "named", &json!({"clicks": 3}));
    let (sandbox, report) = import("yourls.csv", "yourls");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(&sandbox, "two-lines", &json!({"title": "One title"}));
}

#[test]
fn kutt_files_are_imported() {
    let (sandbox, report) = import("kutt.json", "kutt");
    assert_eq!(numbers(&report), [2, 0, 1]);
    has(
        &sandbox,
        "kutt",
        &json!({"clicks": 17, "notes": "my note", "created_at": "2022-03-04T05:06:07.890Z"}),
    );
    has(&sandbox, "banned", &json!({"state": "disabled", "expires_at": "2035-01-01T00:00:00Z"}));
    // Without its password everybody could follow it.
    assert_eq!(
        (&report["problems"][0]["row"], &report["problems"][0]["code"]),
        (&json!(3), &json!("secret"))
    );
}

#[test]
fn sink_files_are_imported() {
    let (sandbox, report) = import("sink.json", "sink");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(
        &sandbox,
        "sink",
        &json!({"title": "Sink", "notes": "a comment", "tags": ["one", "two"], "created_at": "2024-06-11T15:30:09Z"}),
    );
    has(&sandbox, "gone", &json!({"expires_at": "2024-06-12T13:46:40Z"}));
}

#[test]
fn golink_files_are_imported() {
    let (sandbox, report) = import("golink.jsonl", "golink");
    assert_eq!(numbers(&report), [1, 0, 1]);
    has(
        &sandbox,
        "who",
        &json!({"created_at": "2022-06-02T12:34:56.789Z", "metadata": {"owner": "amelie@example.com"}}),
    );
}

#[test]
fn bitly_files_are_imported() {
    let (sandbox, report) = import("bitly.json", "bitly");
    assert_eq!(numbers(&report), [2, 0, 0]);
    let both = json!({"target": "https://example.com/bitly", "title": "Bitly", "tags": ["x"],
        "created_at": "2019-08-07T06:05:04Z", "metadata": {"archived": true}});
    has(&sandbox, "3cmn", &both);
    has(&sandbox, "my-name", &both);
}

#[test]
fn own_files_are_imported() {
    let (sandbox, report) = import("ours.jsonl", "jsonl");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(
        &sandbox,
        "line",
        &json!({"redirect_status": 308, "notes": "two\nlines", "tags": ["a", "b"], "metadata": {"k": [1, 2]},
            "expires_at": "2020-01-01T00:00:00Z", "created_at": "2019-01-01T00:00:00Z", "clicks": 5, "hits": 9}),
    );
    has(&sandbox, "from-url", &json!({"https_only": false}));
    let (sandbox, report) = import("ours.csv", "csv");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(&sandbox, "ours", &json!({"title": "=1+1", "tags": ["a", "b"], "state": "disabled", "clicks": 3}));
}

#[test]
fn file_of_another_or_unknown_format_is_rejected() {
    let sandbox = Sandbox::new();
    sandbox.fails(5, &format!("links import {} --format dub", import_file("shlink-export.csv")));
    sandbox.fails(5, &format!("links import {} --format sink", import_file("kutt.json")));
    sandbox.fails(5, &format!("links import {} --format bits", import_file("bitly.json")));
    sandbox.write("what.txt", "some words\n");
    sandbox.fails(5, "links import what.txt").says("its format is not known");
    sandbox.write("extra.csv", "code,target,colour\n");
    sandbox.fails(5, "links import extra.csv").says("column `colour`");
    sandbox.fails(1, "links import nothing.csv");
    sandbox.fails(1, "links import .");
}
