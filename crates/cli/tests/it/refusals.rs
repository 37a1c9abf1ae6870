//! A store that is damaged, newer or gone is refused with exit code 1 and left as it is. It is never replaced by an empty one.

use insta::assert_snapshot;

use crate::place::{Place, bytes_of};

const COMMANDS: [&str; 6] = [
    "links list",
    "links set y https://example.com/",
    "shorten https://example.com/",
    "audit verify",
    "backup all.jsonl",
    "serve --listen 127.0.0.1:0",
];

fn one_link() -> Place {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    place
}

/// Every command is refused, says so, and changes no byte.
#[track_caller]
fn refused(place: &Place, why: &str) {
    let before = std::fs::read(place.database()).ok();
    for line in COMMANDS {
        place.fails(1, line).says(why);
        assert_eq!(std::fs::read(place.database()).ok(), before, "{line}");
    }
    assert!(!place.path("all.jsonl").exists());
}

#[test]
fn a_file_that_is_no_database() {
    let place = one_link();
    std::fs::write(place.database(), vec![b'x'; 8192]).unwrap();
    refused(&place, "is not a readable database");
    assert_snapshot!(place.rmax("links list"), @"
    exit 1
    --- stderr
    error: rlinks-data/rlinks.db is not a readable database (file is not a database); nothing was changed. Restore a backup, or choose another folder with --data
    ");
}

#[test]
fn a_database_cut_in_half() {
    let place = one_link();
    let whole = std::fs::read(place.database()).unwrap();
    std::fs::write(place.database(), &whole[..whole.len() / 2]).unwrap();
    let ran = place.rmax("links set y https://example.com/");
    assert_eq!(ran.code, Some(1), "{ran}");
    assert_eq!(place.rmax("doctor").code, Some(1));
    assert_eq!(std::fs::read(place.database()).unwrap().len(), whole.len() / 2);
}

#[test]
fn a_database_of_a_newer_program() {
    let place = one_link();
    place.tamper("insert into _sqlx_migrations (version, description, success, checksum, execution_time) values (9999, 'to come', true, x'00', 0)");
    refused(&place, "was written by a newer rmax (schema 9999)");
}

#[test]
fn another_programs_database() {
    let place = one_link();
    place.tamper("pragma application_id = 1");
    refused(&place, "is another program's database");
}

#[test]
fn a_database_that_was_there_and_is_gone() {
    let place = one_link();
    for name in ["rlinks.db", "rlinks.db-wal", "rlinks.db-shm"] {
        let _ = std::fs::remove_file(place.path("rlinks-data").join(name));
    }
    refused(&place, "shows there was a store here");
    std::fs::write(place.database(), "").unwrap();
    refused(&place, "shows there was a store here");
}

#[test]
fn a_folder_that_cannot_be_used() {
    let place = Place::new();
    place.write("file", "");
    place.fails(6, "--data file/x links list").says("hint: `rmax doctor` looks closer");
    let before = bytes_of(&place.path(""));
    place.fails(6, "--data file links list").says("file is not a folder");
    place.fails(6, "--data file serve --listen 127.0.0.1:0").says("file is not a folder");
    place.fails(6, "--data file restore all.jsonl").says("file is not a folder");
    assert_eq!(bytes_of(&place.path("")), before);
}

#[test]
fn a_database_server_that_does_not_answer() {
    let place = Place::new().with("RMAX_STORE", "postgres://nobody@127.0.0.1:1/rlinks");
    let ran = place.fails(6, "--json links list");
    assert_eq!((&ran.error()["code"], &ran.error()["status"]), (&"KV_UNAVAILABLE".into(), &503.into()));
}
