//! Files of others, written by hand in the shape each of them exports.

use serde_json::{Value, json};

use super::{exported, fixture};
use crate::place::Place;

/// Imports a file twice, recognised and by its name, and gives the place and the report.
#[track_caller]
fn import(file: &str, format: &str) -> (Place, Value) {
    let place = Place::new();
    let named = Place::new().rmax(&format!("links import {} --format {format} --json", fixture(file))).json();
    let report = place.rmax(&format!("links import {} --json", fixture(file))).json();
    assert_eq!(report, named);
    assert_eq!(report["format"], format, "{report:#}");
    // What was imported is there, so a second time is no news.
    let again = place.rmax(&format!("links import {} --json", fixture(file))).json();
    assert_eq!((&again["created"], &again["skipped"]), (&json!(0), &report["created"]), "{again:#}");
    (place, report)
}

/// Numbers of a report: created, conflicting, refused.
fn numbers(report: &Value) -> [u64; 3] {
    ["created", "conflicting", "refused"].map(|name| report[name].as_u64().unwrap())
}

#[track_caller]
fn has(place: &Place, code: &str, fields: &Value) {
    let link = exported(place, code);
    for (name, value) in fields.as_object().unwrap() {
        assert_eq!(&link[name], value, "{name} of {code}");
    }
}

#[test]
fn shlink() {
    let (place, report) = import("shlink-export.csv", "shlink");
    assert_eq!(numbers(&report), [3, 0, 0]);
    has(
        &place,
        "spring",
        &json!({"target": "https://example.com/spring?a=1&b=2", "title": "Spring, and more", "tags": ["sale", "season"],
            "created_at": "2023-05-01T10:00:00Z", "clicks": 42, "source": "import"}),
    );
    // The code is read from the short URL.
    has(&place, "leap", &json!({"clicks": 7}));
    let (place, report) = import("shlink-import.csv", "shlink");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(&place, "one", &json!({"title": "First", "tags": ["a", "b"], "clicks": 0}));
}

#[test]
fn dub() {
    let (place, report) = import("dub.csv", "dub");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(
        &place,
        "launch",
        &json!({"clicks": 1234, "tags": ["launch", "q1"], "created_at": "2024-01-15T10:00:00Z", "metadata": {}}),
    );
    // Archived there is out of sight and goes on answering.
    has(&place, "old-launch", &json!({"state": "active", "metadata": {"archived": true}}));
}

#[test]
fn chhoto() {
    let (place, report) = import("chhoto.json", "chhoto");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(&place, "chhoto", &json!({"clicks": 12, "notes": "kept at home", "expires_at": null}));
    has(&place, "over", &json!({"expires_at": "2020-09-13T12:26:40Z", "notes": null}));
}

#[test]
fn yourls() {
    let (place, report) = import("yourls.sql", "yourls");
    assert_eq!(numbers(&report), [3, 0, 0]);
    has(
        &place,
        "ozh",
        &json!({"title": "Ozh's \"place\"; here", "created_at": "2010-06-01T12:34:56Z", "clicks": 98765}),
    );
    has(&place, "path", &json!({"target": "https://example.com/a(b)c?x=%27y%27", "title": null}));
    has(&place, "named", &json!({"clicks": 3}));
    let (place, report) = import("yourls.csv", "yourls");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(&place, "two-lines", &json!({"title": "One title"}));
}

#[test]
fn kutt() {
    let (place, report) = import("kutt.json", "kutt");
    assert_eq!(numbers(&report), [2, 0, 1]);
    has(&place, "kutt", &json!({"clicks": 17, "notes": "my note", "created_at": "2022-03-04T05:06:07.890Z"}));
    has(&place, "banned", &json!({"state": "disabled", "expires_at": "2035-01-01T00:00:00Z"}));
    // Without its password everybody could follow it.
    assert_eq!(
        (&report["problems"][0]["row"], &report["problems"][0]["code"]),
        (&json!(3), &json!("secret"))
    );
}

#[test]
fn sink() {
    let (place, report) = import("sink.json", "sink");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(
        &place,
        "sink",
        &json!({"title": "Sink", "notes": "a comment", "tags": ["one", "two"], "created_at": "2024-06-11T15:30:09Z"}),
    );
    has(&place, "gone", &json!({"expires_at": "2024-06-12T13:46:40Z"}));
}

#[test]
fn golink() {
    let (place, report) = import("golink.jsonl", "golink");
    assert_eq!(numbers(&report), [1, 0, 1]);
    has(
        &place,
        "who",
        &json!({"created_at": "2022-06-02T12:34:56.789Z", "metadata": {"owner": "amelie@example.com"}}),
    );
}

#[test]
fn bitly() {
    let (place, report) = import("bitly.json", "bitly");
    assert_eq!(numbers(&report), [2, 0, 0]);
    let both = json!({"target": "https://example.com/bitly", "title": "Bitly", "tags": ["x"],
        "created_at": "2019-08-07T06:05:04Z", "metadata": {"archived": true}});
    has(&place, "3cmn", &both);
    has(&place, "my-name", &both);
}

#[test]
fn ours() {
    let (place, report) = import("ours.jsonl", "jsonl");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(
        &place,
        "line",
        &json!({"redirect_status": 308, "notes": "two\nlines", "tags": ["a", "b"], "metadata": {"k": [1, 2]},
            "expires_at": "2020-01-01T00:00:00Z", "created_at": "2019-01-01T00:00:00Z", "clicks": 5, "hits": 9}),
    );
    has(&place, "from-url", &json!({"https_only": false}));
    let (place, report) = import("ours.csv", "csv");
    assert_eq!(numbers(&report), [2, 0, 0]);
    has(&place, "ours", &json!({"title": "=1+1", "tags": ["a", "b"], "state": "disabled", "clicks": 3}));
}

#[test]
fn a_file_is_not_what_it_is_not() {
    let place = Place::new();
    place.fails(5, &format!("links import {} --format dub", fixture("shlink-export.csv")));
    place.fails(5, &format!("links import {} --format sink", fixture("kutt.json")));
    place.fails(5, &format!("links import {} --format bits", fixture("bitly.json")));
    place.write("what.txt", "some words\n");
    place.fails(5, "links import what.txt").says("its format is not known");
    place.write("extra.csv", "code,target,colour\n");
    place.fails(5, "links import extra.csv").says("column `colour`");
    place.fails(1, "links import nothing.csv");
    place.fails(1, "links import .");
}
