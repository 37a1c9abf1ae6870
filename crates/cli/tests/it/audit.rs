//! The log shows whatever was done to it: in the store, in an export, and against what was recorded earlier.

use insta::assert_snapshot;

use crate::support::sandbox::Sandbox;

/// Six entries: main, and five links.
fn five_links() -> Sandbox {
    let sandbox = Sandbox::new();
    for code in ["a", "b", "c", "d", "e"] {
        sandbox.ok(&format!("links set {code} https://example.com/{code}"));
    }
    sandbox
}

/// `audit verify` must name this entry.
#[track_caller]
fn names(sandbox: &Sandbox, seq: i64, why: &str) {
    let ran = sandbox.rmax("audit verify");
    assert_eq!(ran.code, Some(1), "{ran}");
    ran.says(&format!("workspace main, entry {seq}: {why}"));
}

/// `audit verify` finds this, though every chain holds.
#[track_caller]
fn fails_verification(sandbox: &Sandbox, why: &str) {
    let ran = sandbox.rmax("audit verify");
    assert_eq!(ran.code, Some(1), "{ran}");
    ran.says(why);
}

#[test]
fn intact_log_verifies() {
    let sandbox = five_links();
    assert_snapshot!(sandbox.rmax("audit verify"), @"
    exit 0
    --- stdout
    ok  main: 6 entries, head <hash>
    ");
    let verdict = sandbox.json("audit verify --json");
    assert_eq!((&verdict["ok"], &verdict["heads"][0]["seq"]), (&true.into(), &6.into()));
}

#[test]
fn edited_entry_is_reported() {
    for edit in [
        "actor = 'mallory'",
        "ts = ts + 1",
        "action = 'link.update'",
        "after = replace(after, 'example', 'evil')",
        "after = 'no json'",
        "subject = 'link:z'",
        "before = '{}'",
    ] {
        let sandbox = five_links();
        sandbox.tamper(&format!("update audit set {edit} where seq = 4"));
        names(&sandbox, 4, "was edited");
    }
}

#[test]
fn removed_swapped_or_truncated_entry_is_reported() {
    let sandbox = five_links();
    sandbox.tamper("delete from audit where seq = 3");
    names(&sandbox, 3, "is missing or out of order");

    let sandbox = five_links();
    sandbox.tamper("update audit set seq = 100 where seq = 3; update audit set seq = 3 where seq = 4; update audit set seq = 4 where seq = 100");
    names(&sandbox, 3, "does not follow the entry before it");

    let sandbox = five_links();
    sandbox.tamper("delete from audit where seq > 4");
    names(&sandbox, 5, "is missing");
}

#[test]
fn truncated_log_is_detected_by_signed_heads() {
    let sandbox = five_links();
    // The head is moved back too, so the chain alone is sound.
    sandbox.tamper("delete from audit where seq > 4; update heads set seq = 4, hash = (select hash from audit where seq = 4); delete from links where code in ('d', 'e')");
    names(&sandbox, 5, "is missing: an earlier checkpoint recorded it");
    // Whoever removes that log as well meets the checkpoint that was kept elsewhere.
    std::fs::remove_file(sandbox.path("rlinks-data/audit-heads.log")).unwrap();
    fails_verification(
        &sandbox,
        "there is no rlinks-data/audit-heads.log yet, though heads of this store were signed",
    );
}

#[test]
fn checkpoint_file_detects_a_truncated_log() {
    let sandbox = five_links();
    sandbox.ok("audit export log.jsonl --checkpoint checkpoint");
    sandbox.ok("audit verify --checkpoint checkpoint");
    sandbox.ok("links set f https://example.com/f");
    sandbox.ok("audit verify --checkpoint checkpoint");
    sandbox.tamper("delete from audit where seq > 4; update heads set seq = 4, hash = (select hash from audit where seq = 4); delete from links where code in ('d', 'e', 'f')");
    std::fs::remove_file(sandbox.path("rlinks-data/audit-heads.log")).unwrap();
    let ran = sandbox.rmax("audit verify --checkpoint checkpoint");
    assert_eq!(ran.code, Some(1), "{ran}");
    ran.says("workspace main, entry 5: is missing");
}

#[test]
fn edited_checkpoint_is_rejected() {
    let sandbox = five_links();
    sandbox.ok("audit export log.jsonl --checkpoint checkpoint");
    sandbox.write("edited", &sandbox.read("checkpoint").replace("\"seq\":6", "\"seq\":5"));
    assert_snapshot!(sandbox.rmax("audit verify --checkpoint edited"), @"
    exit 1
    --- stderr
    error: edited, line 1: the signature is wrong: this checkpoint was edited
    ");
    sandbox.fails(1, "audit verify --file log.jsonl --checkpoint edited");
    sandbox.fails(1, "audit verify --checkpoint missing").says("missing cannot be read");

    let log = sandbox.read("rlinks-data/audit-heads.log");
    sandbox.write("rlinks-data/audit-heads.log", &log.replacen("\"seq\":3", "\"seq\":2", 1));
    assert_eq!(sandbox.rmax("audit verify").code, Some(1));
    sandbox.rmax("audit verify").says("the signature is wrong");
}

#[test]
fn empty_checkpoint_file_is_rejected() {
    let sandbox = five_links();
    sandbox.ok("audit export log.jsonl");
    for text in ["", "\n\n"] {
        sandbox.write("empty", text);
        sandbox.fails(1, "audit verify --checkpoint empty").says("empty holds no checkpoint");
        sandbox
            .fails(1, "audit verify --file log.jsonl --checkpoint empty")
            .says("empty holds no checkpoint");
    }
}

#[test]
fn empty_export_fails_verification() {
    let sandbox = Sandbox::new();
    sandbox.write("empty", "");
    sandbox.fails(1, "audit verify --file empty").says("empty holds no audit entry");
}

#[test]
fn empty_signed_head_log_is_a_finding() {
    let sandbox = five_links();
    sandbox.write("rlinks-data/audit-heads.log", "");
    fails_verification(
        &sandbox,
        "audit-heads.log holds no signed head, though heads of this store were signed",
    );
    assert!(sandbox.rmax("doctor").stdout.contains("audit-heads.log holds no signed head"));
}

#[test]
fn torn_line_in_the_signed_head_log_is_skipped_with_a_warning() {
    let sandbox = five_links();
    let log = sandbox.read("rlinks-data/audit-heads.log");
    let torn = &log[..log.len() - 40];
    sandbox.write("rlinks-data/audit-heads.log", torn);
    sandbox
        .ok("audit verify")
        .says("warning: rlinks-data/audit-heads.log, line 5: is torn and was passed over");
    // Writing goes on after it, and what it says binds.
    sandbox.ok("links set f https://example.com/f");
    sandbox.ok("audit verify").says("line 5: is torn");
    assert!(sandbox.ok("doctor").stdout.contains("line 5 is torn and was passed over"));
    sandbox.tamper("delete from audit where seq > 4; update heads set seq = 4, hash = (select hash from audit where seq = 4); delete from links where code in ('d', 'e', 'f')");
    names(&sandbox, 5, "is missing: an earlier checkpoint recorded it");

    // Only there: a checkpoint somebody kept is whole or worth nothing.
    sandbox.write("kept", torn);
    sandbox.fails(1, "audit verify --checkpoint kept").says("line 5: is no checkpoint");
    // And what is whole must be signed.
    sandbox.write("rlinks-data/audit-heads.log", "{\"workspace\":\"main\"}\n");
    sandbox.rmax("audit verify").says("line 1: is no checkpoint");
}

#[test]
fn verifying_an_unknown_workspace_is_not_found() {
    let sandbox = five_links();
    sandbox.fails(3, "audit verify --workspace nope").says("there is no workspace `nope`");
    sandbox.ok("workspaces create crew");
    sandbox.ok("workspaces delete crew --yes");
    sandbox.ok("audit verify --workspace crew");
}

#[test]
fn link_changed_behind_the_log_is_reported() {
    let sandbox = five_links();
    sandbox.tamper("update links set target = 'https://evil.example/' where code in ('b', 'd')");
    assert_snapshot!(sandbox.rmax("audit verify"), @"
    exit 1
    --- stdout
    ok  main: 6 entries, head <hash>
    --- stderr
    error: links that are not what the log says, so changed past it: b, d
    hint: `rmax links history <code>` shows what the log knows; `rmax links set` makes both agree again
    ");
    assert_snapshot!(sandbox.rmax("--json audit verify"), @r#"
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
fn workspace_or_domain_changed_behind_the_log_is_reported() {
    let sandbox = five_links();
    sandbox.tamper(
        "insert into domains values ('evil.example', 1, false, 1); update workspaces set name = 'Evil'",
    );
    let found = "changed past it: domain evil.example, workspace main";
    sandbox.rmax("audit verify").says(found);
    assert!(
        sandbox
            .rmax("doctor")
            .stdout
            .contains("changed past the audit log: domain evil.example, workspace main")
    );
    sandbox.ok("backup save");
    sandbox.ok("restore save --force");
    sandbox.ok("audit verify");
}

#[test]
fn list_is_newest_first_and_pages_back() {
    let sandbox = five_links();
    assert_snapshot!(sandbox.rmax("audit list --limit 2"), @"
    exit 0
    --- stdout
    SEQ  TIME                      ACTOR        ACTION       SUBJECT
    6    <time>  max@rmax.ai  link.create  link:e
    5    <time>  max@rmax.ai  link.create  link:d
    ");
    assert_eq!(sandbox.json("audit list --limit 1 --before 3 --json")[0]["subject"], "link:a");
    sandbox.fails(2, "audit list --limit 0");
}

#[test]
fn an_export_verifies_without_a_store() {
    let sandbox = five_links();
    assert_snapshot!(sandbox.rmax("audit export log.jsonl --checkpoint checkpoint"), @"
    exit 0
    --- stdout
    wrote: workspaces 1, audit entries 6
    ");
    assert_snapshot!(sandbox.rmax("audit export log.jsonl"), @"
    exit 4
    --- stderr
    error: log.jsonl exists already; nothing was written
    hint: choose another name, or replace it with --force
    ");
    sandbox.ok("audit export log.jsonl --force");
    std::fs::remove_dir_all(sandbox.path("rlinks-data")).unwrap();
    assert_snapshot!(sandbox.rmax("audit verify --file log.jsonl --checkpoint checkpoint"), @"
    exit 0
    --- stdout
    ok  main: 6 entries, head <hash>
    ");
    sandbox.ok("audit verify --file log.jsonl").says("a cut-off end does not show");
    assert!(!sandbox.path("rlinks-data").exists(), "no store was opened");

    let log = sandbox.read("log.jsonl");
    let lines: Vec<&str> = log.lines().collect();
    let check = |name: &str, text: String, message: &str| {
        sandbox.write(name, &text);
        let ran = sandbox.rmax(&format!("audit verify --file {name} --checkpoint checkpoint"));
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
fn export_all_covers_every_workspace() {
    let sandbox = five_links();
    sandbox.ok("workspaces create crew");
    sandbox.ok("audit export one.jsonl --workspace crew");
    assert_eq!(sandbox.read("one.jsonl").lines().count(), 1);
    sandbox.ok("audit export all.jsonl --all --checkpoint checkpoint");
    assert_eq!(sandbox.read("all.jsonl").lines().count(), 7);
    assert_snapshot!(sandbox.rmax("audit verify --file all.jsonl --checkpoint checkpoint"), @"
    exit 0
    --- stdout
    ok  crew: 1 entries, head <hash>
    ok  main: 6 entries, head <hash>
    ");
    sandbox.fails(1, "audit export nowhere/x.jsonl");
}

#[test]
fn every_change_signs_the_new_head() {
    let sandbox = five_links();
    assert_eq!(sandbox.read("rlinks-data/audit-heads.log").lines().count(), 5);
    sandbox.ok("links set a https://example.com/a");
    assert_eq!(sandbox.read("rlinks-data/audit-heads.log").lines().count(), 5, "nothing changed");
    // The change is made whether or not its head can be signed.
    sandbox.write("rlinks-data/audit-key", "no key");
    sandbox.ok("links set f https://example.com/f").says("the audit heads were not signed");
}
