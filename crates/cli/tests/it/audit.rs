//! The log shows whatever was done to it: in the store, in an export, and against what was recorded earlier.

use insta::assert_snapshot;

use crate::place::Place;

/// Six entries: main, and five links.
fn five_links() -> Place {
    let place = Place::new();
    for code in ["a", "b", "c", "d", "e"] {
        place.ok(&format!("links set {code} https://example.com/{code}"));
    }
    place
}

/// `audit verify` must name this entry.
#[track_caller]
fn names(place: &Place, seq: i64, why: &str) {
    let ran = place.rmax("audit verify");
    assert_eq!(ran.code, Some(1), "{ran}");
    ran.says(&format!("workspace main, entry {seq}: {why}"));
}

#[test]
fn a_good_log_verifies() {
    let place = five_links();
    assert_snapshot!(place.rmax("audit verify"), @"
    exit 0
    --- stdout
    ok  main: 6 entries, head <hash>
    ");
    let verdict = place.json("audit verify --json");
    assert_eq!((&verdict["ok"], &verdict["heads"][0]["seq"]), (&true.into(), &6.into()));
}

#[test]
fn an_edited_entry_is_named() {
    for edit in [
        "actor = 'mallory'",
        "ts = ts + 1",
        "action = 'link.update'",
        "after = replace(after, 'example', 'evil')",
        "after = 'no json'",
        "subject = 'link:z'",
        "before = '{}'",
    ] {
        let place = five_links();
        place.tamper(&format!("update audit set {edit} where seq = 4"));
        names(&place, 4, "was edited");
    }
}

#[test]
fn a_removed_swapped_or_cut_off_entry_is_named() {
    let place = five_links();
    place.tamper("delete from audit where seq = 3");
    names(&place, 3, "is missing or out of order");

    let place = five_links();
    place.tamper("update audit set seq = 100 where seq = 3; update audit set seq = 3 where seq = 4; update audit set seq = 4 where seq = 100");
    names(&place, 3, "does not follow the entry before it");

    let place = five_links();
    place.tamper("delete from audit where seq > 4");
    names(&place, 5, "is missing");
}

#[test]
fn a_cut_off_end_shows_in_the_log_of_signed_heads() {
    let place = five_links();
    // The head is moved back too, so the chain alone is sound.
    place.tamper("delete from audit where seq > 4; update heads set seq = 4, hash = (select hash from audit where seq = 4); delete from links where code in ('d', 'e')");
    names(&place, 5, "is missing: an earlier checkpoint recorded it");
    // Whoever removes that log as well meets the checkpoint that was kept elsewhere.
    std::fs::remove_file(place.path("rlinks-data/audit-heads.log")).unwrap();
    place.ok("audit verify").says("there is no rlinks-data/audit-heads.log yet");
}

#[test]
fn a_checkpoint_kept_elsewhere_binds() {
    let place = five_links();
    place.ok("audit export log.jsonl --checkpoint checkpoint");
    place.ok("audit verify --checkpoint checkpoint");
    place.ok("links set f https://example.com/f");
    place.ok("audit verify --checkpoint checkpoint");
    place.tamper("delete from audit where seq > 4; update heads set seq = 4, hash = (select hash from audit where seq = 4); delete from links where code in ('d', 'e', 'f')");
    std::fs::remove_file(place.path("rlinks-data/audit-heads.log")).unwrap();
    place.ok("audit verify");
    let ran = place.rmax("audit verify --checkpoint checkpoint");
    assert_eq!(ran.code, Some(1), "{ran}");
    ran.says("workspace main, entry 5: is missing");
}

#[test]
fn an_edited_checkpoint_is_not_believed() {
    let place = five_links();
    place.ok("audit export log.jsonl --checkpoint checkpoint");
    place.write("edited", &place.read("checkpoint").replace("\"seq\":6", "\"seq\":5"));
    assert_snapshot!(place.rmax("audit verify --checkpoint edited"), @"
    exit 1
    --- stderr
    error: edited, line 1: the signature is wrong: this checkpoint was edited
    ");
    place.fails(1, "audit verify --file log.jsonl --checkpoint edited");
    place.fails(1, "audit verify --checkpoint missing").says("missing cannot be read");

    let log = place.read("rlinks-data/audit-heads.log");
    place.write("rlinks-data/audit-heads.log", &log.replacen("\"seq\":3", "\"seq\":2", 1));
    assert_eq!(place.rmax("audit verify").code, Some(1));
    place.rmax("audit verify").says("the signature is wrong");
}

#[test]
fn a_checkpoint_file_without_a_checkpoint_is_refused() {
    let place = five_links();
    place.ok("audit export log.jsonl");
    for text in ["", "\n\n"] {
        place.write("empty", text);
        place.fails(1, "audit verify --checkpoint empty").says("empty holds no checkpoint");
        place.fails(1, "audit verify --file log.jsonl --checkpoint empty").says("empty holds no checkpoint");
    }
}

#[test]
fn an_empty_export_is_no_good_one() {
    let place = Place::new();
    place.write("empty", "");
    place.fails(1, "audit verify --file empty").says("empty holds no audit entry");
}

#[test]
fn an_empty_log_of_heads_is_told() {
    let place = five_links();
    place.write("rlinks-data/audit-heads.log", "");
    place.ok("audit verify").says("a cut-off end may not show");
    assert!(place.ok("doctor").stdout.contains("audit-heads.log holds no signed head"));
}

#[test]
fn a_torn_line_in_the_log_of_heads_is_passed_over() {
    let place = five_links();
    let log = place.read("rlinks-data/audit-heads.log");
    let torn = &log[..log.len() - 40];
    place.write("rlinks-data/audit-heads.log", torn);
    place
        .ok("audit verify")
        .says("warning: rlinks-data/audit-heads.log, line 5: is torn and was passed over");
    // Writing goes on after it, and what it says binds.
    place.ok("links set f https://example.com/f");
    place.ok("audit verify").says("line 5: is torn");
    assert!(place.ok("doctor").stdout.contains("line 5 is torn and was passed over"));
    place.tamper("delete from audit where seq > 4; update heads set seq = 4, hash = (select hash from audit where seq = 4); delete from links where code in ('d', 'e', 'f')");
    names(&place, 5, "is missing: an earlier checkpoint recorded it");

    // Only there: a checkpoint somebody kept is whole or worth nothing.
    place.write("kept", torn);
    place.fails(1, "audit verify --checkpoint kept").says("line 5: is no checkpoint");
    // And what is whole must be signed.
    place.write("rlinks-data/audit-heads.log", "{\"workspace\":\"main\"}\n");
    place.rmax("audit verify").says("line 1: is no checkpoint");
}

#[test]
fn a_workspace_nobody_has_is_a_slip() {
    let place = five_links();
    place.fails(3, "audit verify --workspace nope").says("there is no workspace `nope`");
    place.ok("workspaces create crew");
    place.ok("workspaces delete crew --yes");
    place.ok("audit verify --workspace crew");
}

#[test]
fn a_link_changed_past_the_log_is_named() {
    let place = five_links();
    place.tamper("update links set target = 'https://evil.example/' where code in ('b', 'd')");
    assert_snapshot!(place.rmax("audit verify"), @"
    exit 1
    --- stdout
    ok  main: 6 entries, head <hash>
    --- stderr
    error: links that are not what the log says, so changed past it: b, d
    hint: `rmax links history <code>` shows what the log knows; `rmax links set` makes both agree again
    ");
    assert_snapshot!(place.rmax("--json audit verify"), @r#"
    exit 1
    --- stdout
    {
      "directory_beside_the_log": [],
      "fault": null,
      "heads": [
        {
          "hash": "<hash>",
          "seq": 6,
          "workspace": "main"
        }
      ],
      "links_beside_the_log": [
        "b",
        "d"
      ],
      "ok": false
    }
    --- stderr
    {"error":{"code":"INTERNAL","status":500,"message":"links that are not what the log says, so changed past it: b, d","details":null,"ts":"<time>"}}
    "#);
}

#[test]
fn a_directory_changed_past_the_log_is_named() {
    let place = five_links();
    place.tamper(
        "insert into domains values ('evil.example', 1, false, 1); update workspaces set name = 'Evil'",
    );
    let found = "changed past it: domain evil.example, workspace main";
    place.rmax("audit verify").says(found);
    assert!(
        place
            .rmax("doctor")
            .stdout
            .contains("changed past the audit log: domain evil.example, workspace main")
    );
    place.ok("backup save");
    place.ok("restore save --force");
    place.ok("audit verify");
}

#[test]
fn list_shows_the_newest_first_and_goes_back() {
    let place = five_links();
    assert_snapshot!(place.rmax("audit list --limit 2"), @"
    exit 0
    --- stdout
    SEQ  TIME                      ACTOR        ACTION       SUBJECT
    6    <time>  max@rmax.ai  link.create  link:e
    5    <time>  max@rmax.ai  link.create  link:d
    ");
    assert_eq!(place.json("audit list --limit 1 --before 3 --json")[0]["subject"], "link:a");
    place.fails(2, "audit list --limit 0");
}

#[test]
fn an_export_verifies_without_a_store() {
    let place = five_links();
    assert_snapshot!(place.rmax("audit export log.jsonl --checkpoint checkpoint"), @"
    exit 0
    --- stdout
    wrote: workspaces 1, audit entries 6
    ");
    assert_snapshot!(place.rmax("audit export log.jsonl"), @"
    exit 4
    --- stderr
    error: log.jsonl exists already; nothing was written
    hint: choose another name, or replace it with --force
    ");
    place.ok("audit export log.jsonl --force");
    std::fs::remove_dir_all(place.path("rlinks-data")).unwrap();
    assert_snapshot!(place.rmax("audit verify --file log.jsonl --checkpoint checkpoint"), @"
    exit 0
    --- stdout
    ok  main: 6 entries, head <hash>
    ");
    place.ok("audit verify --file log.jsonl").says("a cut-off end does not show");
    assert!(!place.path("rlinks-data").exists(), "no store was opened");

    let log = place.read("log.jsonl");
    let lines: Vec<&str> = log.lines().collect();
    let check = |name: &str, text: String, message: &str| {
        place.write(name, &text);
        let ran = place.rmax(&format!("audit verify --file {name} --checkpoint checkpoint"));
        assert_eq!(ran.code, Some(1), "{name}\n{ran}");
        ran.says(message);
    };
    check("edited", log.replacen("example.com/c", "evil.com/c", 1), "entry 4: was edited");
    check("removed", [&lines[..2], &lines[3..]].concat().join("\n"), "entry 3: is missing");
    check("swapped", [lines[0], lines[2], lines[1]].join("\n"), "entry 2: is missing or out of order");
    check("cut", lines[..4].join("\n"), "entry 5: is missing");
    check("empty", String::new(), "entry 1: is missing with its whole workspace");
    check("broken", format!("{}\nnonsense\n", lines[0]), "line 2: is no audit entry");
}

#[test]
fn an_export_of_all_has_every_workspace() {
    let place = five_links();
    place.ok("workspaces create crew");
    place.ok("audit export one.jsonl --workspace crew");
    assert_eq!(place.read("one.jsonl").lines().count(), 1);
    place.ok("audit export all.jsonl --all --checkpoint checkpoint");
    assert_eq!(place.read("all.jsonl").lines().count(), 7);
    assert_snapshot!(place.rmax("audit verify --file all.jsonl --checkpoint checkpoint"), @"
    exit 0
    --- stdout
    ok  crew: 1 entries, head <hash>
    ok  main: 6 entries, head <hash>
    ");
    place.fails(1, "audit export nowhere/x.jsonl");
}

#[test]
fn every_change_signs_where_the_log_ends() {
    let place = five_links();
    assert_eq!(place.read("rlinks-data/audit-heads.log").lines().count(), 5);
    place.ok("links set a https://example.com/a");
    assert_eq!(place.read("rlinks-data/audit-heads.log").lines().count(), 5, "nothing changed");
    // The change is made whether or not its head can be signed.
    place.write("rlinks-data/audit-key", "no key");
    place.ok("links set f https://example.com/f").says("the audit heads were not signed");
}
