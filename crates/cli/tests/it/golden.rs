//! Data that version 0.1 wrote (`tests/golden`) is opened, served and checked by today's program, and gives the same answers.
//!
//! Renaming code must not change a byte that is stored, signed, hashed or sent. Every test works on a copy in a folder of its own.
//! Where an answer depends on the time, the server's clock stands at the moment the data was made; everything else goes through
//! the real `rmax`, whatever day it is.

mod frozen;
mod migrations;
mod on_postgres;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use crate::support::key_values::{HITS, ROUTES, StubKeyValueApi};
use crate::support::sandbox::{CommandOutput, Sandbox, block_on};
use crate::support::server_process::serve;

const WORKSPACES: [&str; 4] = ["main", "edge", "platform", "team"];

/// A file or folder of the golden data.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/0.1").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(golden(name)).unwrap()
}

fn expected(name: &str) -> Value {
    serde_json::from_str(&text(&format!("expected/{name}"))).unwrap()
}

/// Copies the files of a folder, as private as a data folder is.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o700)).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copied = to.join(entry.file_name());
        std::fs::copy(entry.path(), &copied).unwrap();
        std::fs::set_permissions(copied, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// A copy of the golden SQLite store.
fn store() -> Sandbox {
    let sandbox = Sandbox::new();
    copy(&golden("store"), &sandbox.path("rlinks-data"));
    sandbox
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Runs every command of a list in order and compares what it prints.
#[track_caller]
fn compare_commands(sandbox: &Sandbox, commands: &Value) {
    let mut different = Vec::new();
    for command in commands.as_array().unwrap() {
        let line = strings(&command["words"]).join(" ");
        let ran = sandbox.ok(&line);
        let (prints, printed) = (settled(command["stdout"].as_str().unwrap()), settled(&ran.stdout));
        if prints != printed {
            different.push(format!("rmax {line}\n{}", first_difference(&prints, &printed)));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

/// Fields whose public names changed after 0.1.
const RENAMED_FIELDS: [(&str, &str); 1] = [("concern", "warning")];

/// What an answer of 0.1 and one of today must have in common. Prose may be rewritten: what `explain` says about each step is left out, its
/// steps and its answer are not.
fn settled(text: &str) -> String {
    let Ok(mut whole) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    let is_renamed = rename_fields(&mut whole);
    let Some(steps) = whole.get_mut("steps").and_then(Value::as_array_mut) else {
        return if is_renamed { whole.to_string() } else { text.to_owned() };
    };
    for step in steps {
        assert!(step.as_object_mut().unwrap().remove("result").is_some());
    }
    whole.to_string()
}

/// Gives fields their names of today. Whether there was one that had, or has, another.
fn rename_fields(value: &mut Value) -> bool {
    match value {
        Value::Array(items) => items.iter_mut().fold(false, |found, item| rename_fields(item) | found),
        Value::Object(fields) => {
            let mut found = false;
            for (old, new) in RENAMED_FIELDS {
                if let Some(field) = fields.remove(old) {
                    fields.insert(new.to_owned(), field);
                }
                found |= fields.contains_key(new);
            }
            fields.values_mut().fold(found, |found, field| rename_fields(field) | found)
        }
        _ => false,
    }
}

fn first_difference(before: &str, now: &str) -> String {
    let lines = before.lines().zip(now.lines()).find(|(before, now)| before != now);
    let (before_line, now_line) = lines.unwrap_or(("", ""));
    format!("{} bytes, now {}\nwas {before_line}\nnow {now_line}", before.len(), now.len())
}

// ---- the command line ----

#[test]
fn commands_on_the_golden_store_print_the_same() {
    compare_commands(&store(), &expected("commands.json"));
}

#[test]
fn doctor_finds_the_same_in_the_golden_store() {
    let checks = store().rmax("doctor --json").json();
    let found: Vec<Value> = checks
        .as_array()
        .unwrap()
        .iter()
        // The keys of the golden store grow older than a year while we look.
        .filter(|check| check["check"] != "keys")
        .map(|check| serde_json::json!([check["check"], check["ok"]]))
        .collect();
    assert_eq!(Value::from(found), expected("doctor.json"), "{checks:#}");
}

#[test]
fn redirects_by_the_real_binary_are_the_same() {
    let sandbox = store();
    let server = serve(&sandbox, "");
    crate::support::raw_client::wait_until("the links are there", || {
        server.get("/ready").body.contains("\"ready\"")
    });
    frozen::compare(server.address, &expected("requests.json"), "redirects");
}

// ---- audit ----

#[test]
fn an_audit_export_of_the_golden_store_has_the_same_bytes() {
    let sandbox = store();
    sandbox.ok("audit export audit.jsonl");
    let (before, now) = (text("audit.jsonl"), sandbox.read("audit.jsonl"));
    assert!(before == now, "{}", first_difference(&before, &now));
}

#[test]
fn the_golden_checkpoint_verifies_the_golden_store_and_is_signed_by_its_key() {
    let sandbox = store();
    let ran = sandbox.ok(&format!("audit verify --checkpoint {}", golden("audit.checkpoint").display()));
    assert!(!ran.stderr.contains("warning"), "the store's own key has signed it: {ran}");

    // The store signs the same heads with the same key again.
    sandbox.ok("audit export all.jsonl --all --checkpoint now.checkpoint");
    let heads = |text: &str| -> Vec<(Value, Value)> {
        let checkpoints = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        checkpoints
            .map(|mut checkpoint| {
                let fields = checkpoint.as_object_mut().unwrap();
                assert!(fields.remove("signature").is_some() && fields.remove("ts").is_some(), "{fields:?}");
                (checkpoint["key"].clone(), checkpoint)
            })
            .collect()
    };
    assert_eq!(heads(&sandbox.read("now.checkpoint")), heads(&text("audit.checkpoint")));
}

#[test]
fn an_edited_checkpoint_is_refused() {
    let sandbox = store();
    let whole = text("audit.checkpoint");
    let edited = whole.replacen("\"seq\":", "\"seq\":1", 1);
    assert_ne!(edited, whole);
    sandbox.write("edited.checkpoint", &edited);
    sandbox.fails(1, "audit verify --checkpoint edited.checkpoint").says("signature");
}

#[test]
fn an_entry_edited_after_the_checkpoint_is_named() {
    let sandbox = store();
    sandbox.tamper("update audit set actor = 'somebody' where seq = 7 and workspace_id = 1");
    let ran = sandbox.rmax(&format!("audit verify --checkpoint {}", golden("audit.checkpoint").display()));
    assert_eq!(ran.code, Some(1), "{ran}");
}

// ---- backup ----

/// The lines of a backup that do not depend on when it was made, and the first and last one without what does.
fn lines_of(backup: &str) -> Vec<String> {
    let mut lines: Vec<Value> =
        backup.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    let last = lines.len() - 1;
    assert!(lines[0]["rlinks_backup"].as_object_mut().unwrap().remove("created_at").is_some());
    assert!(lines[0]["rlinks_backup"].as_object_mut().unwrap().remove("version").is_some());
    assert!(lines[last]["end"].as_object_mut().unwrap().remove("sha256").is_some());
    // Since then backups are signed.
    for name in ["format", "key", "fingerprint", "encryption"] {
        lines[0]["rlinks_backup"].as_object_mut().unwrap().remove(name);
    }
    lines[last]["end"].as_object_mut().unwrap().remove("signature");
    let ends = [lines[0].to_string(), lines[last].to_string()];
    let between = backup.lines().skip(1).take(last - 1).map(str::to_owned);
    between.chain(ends).collect()
}

#[test]
fn a_backup_of_the_golden_store_is_the_golden_backup() {
    let sandbox = store();
    sandbox.ok("backup now.jsonl");
    assert_eq!(lines_of(&sandbox.read("now.jsonl")), lines_of(&text("backup.jsonl")));
}

#[test]
fn the_golden_backup_restores_into_an_empty_folder_and_gives_the_same_backup() {
    let sandbox = Sandbox::new();
    let file = golden("backup.jsonl");
    sandbox.fails(1, &format!("restore {}", file.display())).says("is not signed");
    sandbox.ok(&format!("restore {} --unsigned", file.display())).says("is not signed");
    sandbox.ok("audit verify");
    sandbox.ok("backup again.jsonl");
    assert_eq!(lines_of(&sandbox.read("again.jsonl")), lines_of(&text("backup.jsonl")));
    // A host that was unproven or suspended does not answer after a restore either.
    for (host, status) in [("proven.example", 302), ("unproven.example", 404), ("suspended.example", 404)] {
        assert_eq!(sandbox.json(&format!("explain https://{host}/plain --json"))["status"], status, "{host}");
    }
}

// ---- clicks ----

fn clicks(sandbox: &Sandbox, workspace: &str) -> Vec<String> {
    let ran = sandbox.ok(&format!("--workspace {workspace} clicks export - --full"));
    ran.stdout.lines().map(str::to_owned).collect()
}

/// The rows of a table of the clicks' database as JSON arrays, sorted.
fn rows(sandbox: &Sandbox, table: &str) -> Vec<String> {
    let (path, table) = (sandbox.path("rlinks-data/clicks.db"), table.to_owned());
    let mut rows: Vec<String> = block_on(async move {
        let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
        let columns: String = sqlx::query_scalar("select group_concat(name) from pragma_table_info($1)")
            .bind(&table)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        let sql = AssertSqlSafe(format!("select json_array({columns}) from {table}"));
        let rows = sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows
    });
    rows.sort();
    rows
}

#[test]
fn golden_journal_segments_are_stored_with_the_same_ids_and_the_same_losses() {
    let before = store();
    let sandbox = store();
    copy(&golden("journal"), &sandbox.path("rlinks-data/journal"));
    let expected = expected("journal.json");
    for workspace in WORKSPACES {
        let known: BTreeSet<String> = clicks(&before, workspace).into_iter().collect();
        let mut new = clicks(&sandbox, workspace);
        new.retain(|line| !known.contains(line));
        assert_eq!(new, strings(&expected["clicks"][workspace]), "{workspace}");
    }
    for (table, wanted) in expected["tables"].as_object().unwrap() {
        let mut wanted: Vec<String> = wanted.as_array().unwrap().iter().map(Value::to_string).collect();
        wanted.sort();
        assert_eq!(rows(&sandbox, table), wanted, "{table}");
    }
    let left: Vec<String> = crate::support::sandbox::bytes_of(&sandbox.path("rlinks-data/journal"))
        .into_iter()
        .map(|(path, _)| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(left, strings(&expected["left"]), "what is stored is removed");
    // Stored once: another command finds nothing new.
    let counted = rows(&sandbox, "totals");
    assert_eq!(
        clicks(&sandbox, "team").len(),
        clicks(&before, "team").len() + strings(&expected["clicks"]["team"]).len()
    );
    assert_eq!(rows(&sandbox, "totals"), counted);
}

#[test]
fn golden_rollups_are_what_the_golden_clicks_add_up_to() {
    let sandbox = store();
    let tables = ["days", "hours", "months", "totals", "day_values"];
    let before = tables.map(|table| rows(&sandbox, table));
    assert!(before.iter().all(|rows| !rows.is_empty()), "{before:?}");
    assert_eq!(sandbox.json("clicks recompute --json")["subjects_changed"], 0);
    assert_eq!(tables.map(|table| rows(&sandbox, table)), before);
}

// ---- Cloudflare ----

fn at_cloudflare(sandbox: Sandbox, kv: &StubKeyValueApi) -> Sandbox {
    sandbox.write(
        "rmax.toml",
        &format!("[env.cloudflare]\ncloudflare = {{ account_id = \"acc\", routes = \"{ROUTES}\", hits = \"{HITS}\" }}\n"),
    );
    sandbox.with("CLOUDFLARE_API_TOKEN", "golden-token").with("CLOUDFLARE_API_BASE_URL", &kv.base)
}

#[test]
fn published_route_objects_have_the_same_bytes() {
    let kv = StubKeyValueApi::start();
    let sandbox = at_cloudflare(store(), &kv);
    let routes = &serde_json::from_str::<Value>(&text("kv.json")).unwrap()["routes"];
    for workspace in WORKSPACES {
        kv.fill(ROUTES, &Value::Object(serde_json::Map::new()));
        sandbox.ok(&format!("--workspace {workspace} publish --to cloudflare --all"));
        assert_eq!(kv.all(ROUTES), routes[workspace], "{workspace}");
        sandbox.ok(&format!("--workspace {workspace} publish --to cloudflare --check"));
    }
}

#[test]
fn golden_route_objects_are_read_as_the_links_they_were() {
    let kv = StubKeyValueApi::start();
    let sandbox = at_cloudflare(store(), &kv);
    kv.fill(ROUTES, &serde_json::from_str::<Value>(&text("kv.json")).unwrap()["routes"]["main"]);
    for code in ["plain", "titled", "unicode", "future", "disabled", "expired", "circle"] {
        let there = sandbox.ok(&format!("--env cloudflare links get {code}")).stdout;
        assert_eq!(there, sandbox.ok(&format!("links get {code}")).stdout, "{code}");
    }
    sandbox.fails(3, "--env cloudflare links get deleted").says("was deleted");
}

#[test]
fn the_golden_mark_of_a_publication_is_still_the_last_one() {
    let kv = StubKeyValueApi::start();
    let sandbox = at_cloudflare(store(), &kv);
    let published: CommandOutput = sandbox.ok("--workspace team publish --to cloudflare --json");
    assert_eq!(published.json()["changed"], serde_json::json!([]), "{published}");
    assert_eq!(kv.asked(), 0, "a mark that is understood leaves nothing to ask");
}

#[test]
fn golden_hits_are_known_and_not_imported_again() {
    let kv = StubKeyValueApi::start();
    let sandbox = at_cloudflare(store(), &kv);
    kv.fill(HITS, &serde_json::from_str::<Value>(&text("kv.json")).unwrap()["hits"]);
    let imported = sandbox.json("clicks import-hits --from cloudflare --json");
    assert_eq!(
        (&imported["imported"], &imported["known"]),
        (&Value::from(0), &Value::from(5)),
        "{imported:#}"
    );
}
