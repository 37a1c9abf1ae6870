//! A store that is damaged, newer or gone is refused with exit code 1 and left as it is. It is never replaced by an empty one.

use insta::assert_snapshot;

use crate::support::sandbox::{Sandbox, bytes_of};

const COMMANDS: [&str; 6] = [
    "links list",
    "links set y https://example.com/",
    "shorten https://example.com/",
    "audit verify",
    "backup all.jsonl",
    "serve --listen 127.0.0.1:0",
];

fn one_link() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    sandbox
}

/// Every command is refused, says so, and changes no byte.
#[track_caller]
fn refused(sandbox: &Sandbox, why: &str) {
    let before = std::fs::read(sandbox.database()).ok();
    for line in COMMANDS {
        sandbox.fails(1, line).says(why);
        assert_eq!(std::fs::read(sandbox.database()).ok(), before, "{line}");
    }
    assert!(!sandbox.path("all.jsonl").exists());
}

#[test]
fn garbage_file_is_refused() {
    let sandbox = one_link();
    std::fs::write(sandbox.database(), vec![b'x'; 8192]).unwrap();
    refused(&sandbox, "is not a readable database");
    assert_snapshot!(sandbox.rmax("links list"), @"
    exit 1
    --- stderr
    error: rlinks-data/rlinks.db is not a readable database (file is not a database); nothing was changed. Restore a backup, or choose another folder with --data
    ");
}

/// Guessing what a link was would switch a disabled one on.
#[test]
fn link_whose_deletion_cannot_be_read_is_not_restored() {
    let sandbox = one_link();
    sandbox.ok("links disable x");
    sandbox.ok("links delete x --yes");
    sandbox.tamper(
        "update audit set before = replace(before, '\"state\":\"disabled\"', '\"state\":\"paused\"') where action = 'link.delete'",
    );
    sandbox.fails(4, "links restore x").says("what link x was before it was deleted can't be read");
    sandbox.tamper(
        "update audit set before = replace(before, '\"state\":\"paused\"', '\"state\":\"disabled\"') where action = 'link.delete'",
    );
    sandbox.ok("links restore x");
    assert_eq!(sandbox.ok("links get x").json()["status"], "disabled");
}

/// Servers of two versions share a store while they are replaced one by one.
#[test]
fn policy_that_a_later_version_wrote_is_read() {
    let sandbox = one_link();
    sandbox.tamper("update workspaces set policy = replace(policy, '{\"preset\"', '{\"sampling\":{\"rate\":5},\"preset\"')");
    assert_eq!(sandbox.ok("links get x").json()["code"], "x");
    sandbox.ok("links set y https://example.com/");
    sandbox.tamper("update workspaces set policy = replace(policy, '\"reuse\":false,', '')");
    assert_eq!(sandbox.ok("workspaces show --json").json()["policy"]["reuse"], false);
    sandbox.fails(5, "workspaces policy --set sampling=1").says("is no field of a policy");
}

#[test]
fn truncated_database_is_refused() {
    let sandbox = one_link();
    let whole = std::fs::read(sandbox.database()).unwrap();
    std::fs::write(sandbox.database(), &whole[..whole.len() / 2]).unwrap();
    let ran = sandbox.rmax("links set y https://example.com/");
    assert_eq!(ran.code, Some(1), "{ran}");
    assert_eq!(sandbox.rmax("doctor").code, Some(1));
    assert_eq!(std::fs::read(sandbox.database()).unwrap().len(), whole.len() / 2);
}

#[test]
fn database_with_a_newer_schema_is_refused() {
    let sandbox = one_link();
    sandbox.tamper("insert into _sqlx_migrations (version, description, success, checksum, execution_time) values (9999, 'to come', true, x'00', 0)");
    refused(&sandbox, "was written by a newer rmax (schema 9999)");
}

#[test]
fn database_of_another_program_is_refused() {
    let sandbox = one_link();
    sandbox.tamper("pragma application_id = 1");
    refused(&sandbox, "is another program's database");
}

#[test]
fn missing_database_is_refused_and_not_recreated() {
    let sandbox = one_link();
    for name in ["rlinks.db", "rlinks.db-wal", "rlinks.db-shm"] {
        let _ = std::fs::remove_file(sandbox.path("rlinks-data").join(name));
    }
    refused(&sandbox, "shows there was a store here");
    std::fs::write(sandbox.database(), "").unwrap();
    refused(&sandbox, "shows there was a store here");
}

#[test]
fn unusable_data_folder_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("file", "");
    sandbox.fails(6, "--data file/x links list").says("hint: `rmax doctor` looks closer");
    let before = bytes_of(&sandbox.path(""));
    sandbox.fails(6, "--data file links list").says("file is not a folder");
    sandbox.fails(6, "--data file serve --listen 127.0.0.1:0").says("file is not a folder");
    sandbox.fails(6, "--data file restore all.jsonl").says("file is not a folder");
    assert_eq!(bytes_of(&sandbox.path("")), before);
}

#[test]
fn unreachable_database_server_is_unavailable() {
    let sandbox = Sandbox::new().with("RMAX_STORE", "postgres://nobody@127.0.0.1:1/rlinks");
    let ran = sandbox.fails(6, "--json links list");
    assert_eq!((&ran.error()["code"], &ran.error()["status"]), (&"KV_UNAVAILABLE".into(), &503.into()));
}
