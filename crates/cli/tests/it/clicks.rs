//! Clicks leave, are counted anew, and go when their time is over.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::support::raw_client::wait_until;
use crate::support::sandbox::{Sandbox, block_on};
use crate::support::server_process::serve;

const KEYS: [&str; 7] = ["key", "ts", "code", "country", "ua_hash", "referrer", "ip_prefix"];

fn seeded() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("dev seed --links 5 --clicks 300 --days 3");
    sandbox
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn hits(sandbox: &Sandbox) -> u64 {
    let links = sandbox.json("links list --json");
    links.as_array().unwrap().iter().map(|link| link["stats"]["hits"].as_u64().unwrap()).sum()
}

// `hit:{code}:{YYYYMMDD}:{uuid}`
fn check_key(line: &Value) {
    let key = line["key"].as_str().unwrap();
    let (code, day) = (line["code"].as_str().unwrap(), line["ts"].as_str().unwrap()[..10].replace('-', ""));
    let uuid = key.strip_prefix(&format!("hit:{code}:{day}:")).unwrap_or_else(|| panic!("{line}"));
    let form: Vec<usize> = uuid.split('-').map(str::len).collect();
    assert_eq!(form, [8, 4, 4, 4, 12], "{uuid}");
    assert!(uuid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{uuid}");
}

/// Changes what was counted, as a slip of ours would.
fn tamper(sandbox: &Sandbox, sql: &'static str) {
    let path = sandbox.path("rlinks-data/clicks.db");
    block_on(async move {
        let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

#[test]
fn json_lines_export_has_the_documented_fields() {
    let sandbox = seeded();
    assert_snapshot!(sandbox.rmax("clicks export out.jsonl"), @"
    exit 0
    --- stdout
    wrote 300 clicks to out.jsonl
    ");
    let clicks = lines(&sandbox.read("out.jsonl"));
    assert_eq!(clicks.len(), 300);
    for click in &clicks {
        let keys: BTreeSet<&str> = click.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, KEYS.into_iter().collect());
        check_key(click);
        assert!(click["country"].as_str().unwrap().len() == 2 && click["ua_hash"].is_string(), "{click}");
        let prefix = click["ip_prefix"].as_str().unwrap();
        assert!(prefix.ends_with(".0/24") || prefix.ends_with("::/48"), "{prefix}");
    }
    let keys: BTreeSet<_> = clicks.iter().map(|click| click["key"].as_str().unwrap()).collect();
    assert_eq!(keys.len(), 300, "each has a key of its own");

    let full = lines(&sandbox.ok("clicks export - --full").stdout);
    assert_eq!(full.len(), 300);
    for key in KEYS.iter().chain(&["device", "browser", "utm_campaign", "visitor"]) {
        assert!(full[0].get(key).is_some(), "{key}: {}", full[0]);
    }
    // A part of them.
    let code = clicks[0]["code"].as_str().unwrap();
    let of_code = lines(&sandbox.ok(&format!("clicks export - --code {code}")).stdout);
    assert!(of_code.len() < 300 && of_code.iter().all(|click| click["code"] == code));
    let from = clicks[100]["ts"].as_str().unwrap();
    let later = lines(&sandbox.ok(&format!("clicks export - --from {from}")).stdout).len();
    let earlier = lines(&sandbox.ok(&format!("clicks export - --to {from}")).stdout).len();
    assert_eq!((earlier, later), (100, 200));
}

#[test]
fn export_to_stdout_prints_only_clicks() {
    let sandbox = seeded();
    let ran = sandbox.ok("--json clicks export -");
    assert_eq!(ran.stdout.lines().count(), 300);
    ran.says("wrote 300 clicks");
    assert_eq!(sandbox.ok("-q clicks export -").stderr, "");
    // Somebody who stops reading has what they wanted.
    let mut child = sandbox.command("clicks export - --full").spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn export_format_comes_from_the_extension_or_the_flag() {
    let sandbox = seeded();
    for line in ["clicks export a.parquet", "clicks export b --format parquet"] {
        sandbox.ok(line);
    }
    for name in ["a.parquet", "b"] {
        let bytes = std::fs::read(sandbox.path(name)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
    }
    for name in ["c.jsonl", "c.ndjson", "c.json", "c.log", "c"] {
        sandbox.ok(&format!("clicks export {name}"));
        assert_eq!(sandbox.read(name).lines().count(), 300, "{name}");
    }
    assert_snapshot!(sandbox.rmax("clicks export d.csv"), @"
    exit 2
    --- stderr
    error: the export would be JSON lines, and d.csv says .csv; nothing was written
    hint: name it like d.jsonl
    ");
    assert_snapshot!(sandbox.rmax("clicks export d.parquet --format jsonl"), @"
    exit 2
    --- stderr
    error: the export would be JSON lines, and d.parquet says .parquet; nothing was written
    hint: name it like d.jsonl, or write --format parquet
    ");
    sandbox.fails(2, "clicks export s3://bucket/d.jsonl.gz").says("says .gz");
    sandbox
        .fails(2, "clicks export d.jsonl --format parquet")
        .says("would be Parquet, and d.jsonl says .jsonl");
    sandbox.fails(2, "clicks export - --format parquet").says("cannot go to stdout");
}

#[test]
fn export_to_a_folder_writes_part_files() {
    let sandbox = seeded();
    let wrote = sandbox.json("clicks export out/ --json");
    assert_eq!((&wrote["clicks"], &wrote["place"]), (&300.into(), &"out/".into()));
    let part = wrote["parts"][0].as_str().unwrap();
    assert_eq!(sandbox.read(&format!("out/{part}")).lines().count(), 300);
    assert_eq!(part, "clicks-main-000000000001.jsonl");
}

#[test]
fn part_names_tell_exports_in_one_folder_apart() {
    let sandbox = seeded();
    let codes: Vec<String> = sandbox
        .json("links list --json")
        .as_array()
        .unwrap()
        .iter()
        .filter(|link| link["stats"]["hits"].as_u64() > Some(0))
        .map(|link| link["code"].as_str().unwrap().to_owned())
        .collect();
    let mut wrote = 0;
    for code in &codes {
        let done = sandbox.json(&format!("clicks export out/ --since-last --code {code} --json"));
        assert_eq!(done["parts"][0], format!("clicks-main.{code}-000000000001.jsonl"));
        wrote += done["clicks"].as_u64().unwrap();
    }
    assert_eq!(wrote, 300);
    let part = sandbox.json("clicks export out/ --from 2020-01-31 --to 2099-01-01T00:00:00Z --json");
    assert_eq!(part["parts"][0], "clicks-main.from-20200131.to-20990101T000000Z-000000000001.jsonl");
    // Of all clicks there are two ways to one name. What is there stays, and is not passed over.
    sandbox.ok("clicks export out/");
    sandbox.write("out/clicks-main-000000000001.jsonl", "precious");
    assert_snapshot!(sandbox.rmax("clicks export out/ --since-last"), @"
    exit 4
    --- stderr
    error: out/clicks-main-000000000001.jsonl exists already; nothing was written
    hint: choose another name, or replace it with --force
    ");
    assert_eq!(sandbox.read("out/clicks-main-000000000001.jsonl"), "precious");
    assert_eq!(sandbox.json("clicks export elsewhere/ --since-last --json")["clicks"], 300);
    sandbox.ok("dev seed --links 5 --clicks 2 --days 1");
    assert_eq!(sandbox.json("clicks export out/ --since-last --json")["clicks"], 2);
    sandbox.ok("clicks export out/ --force");
    assert_eq!(sandbox.read("out/clicks-main-000000000001.jsonl").lines().count(), 302);
}

#[test]
fn concurrent_since_last_exports_write_no_click_twice() {
    let sandbox = Sandbox::new();
    sandbox.ok("dev seed --links 5 --clicks 20000 --days 3");
    let ran = sandbox.together(&["a/", "b/"].map(|to| format!("clicks export {to} --since-last")));
    let mut written = 0;
    for (ran, name) in ran.iter().zip(["a", "b"]) {
        // The second may also begin after the first has ended, and have nothing to do.
        assert!(matches!(ran.code, Some(0 | 4)), "{ran}");
        if ran.code == Some(4) {
            ran.says("another export of these clicks since the last one is running");
            assert!(!sandbox.path(name).exists());
        } else if sandbox.path(name).exists() {
            written += sandbox.read(&format!("{name}/clicks-main-000000000001.jsonl")).lines().count();
        }
    }
    assert_eq!(written, 20_000);
}

#[test]
fn leftovers_of_killed_exports_are_removed() {
    let sandbox = seeded();
    let old = |name: &str| {
        sandbox.write(name, "half");
        let file = std::fs::File::options().write(true).open(sandbox.path(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
    };
    let ours = [".clicks-main-000000000001.jsonl.aBc123.part", ".x.jsonl.zzzzzz.part"];
    let others =
        [".y.jsonl.zzzzzz.part", "clicks-main-1.jsonl.part", ".part", ".x.jsonl.part", ".clicks-.part"];
    for name in ours.iter().chain(&others) {
        old(&format!("out/{name}"));
    }
    sandbox.write("out/.x.jsonl.young1.part", "half");
    sandbox.ok("clicks export out/x.jsonl");
    for name in ours {
        assert!(!sandbox.path(&format!("out/{name}")).exists(), "{name}");
    }
    for name in others.iter().chain(&[".x.jsonl.young1.part"]) {
        assert!(sandbox.path(&format!("out/{name}")).exists(), "{name}");
    }
}

#[test]
fn since_last_writes_each_click_once() {
    let sandbox = seeded();
    assert_eq!(sandbox.json("clicks export 1.jsonl --since-last --json")["clicks"], 300);
    assert_eq!(sandbox.json("clicks export 2.jsonl --since-last --json")["clicks"], 0);
    sandbox.ok("dev seed --links 5 --clicks 7 --days 1");
    assert_eq!(sandbox.json("clicks export 3.jsonl --since-last --json")["clicks"], 7);
    let counts = ["1.jsonl", "2.jsonl", "3.jsonl"].map(|name| sandbox.read(name).lines().count());
    assert_eq!(counts, [300, 0, 7]);
    let keys: BTreeSet<String> = ["1.jsonl", "3.jsonl"]
        .iter()
        .flat_map(|name| lines(&sandbox.read(name)))
        .map(|click| click["key"].to_string())
        .collect();
    assert_eq!(keys.len(), 307);
    // An export that failed has exported nothing.
    sandbox.ok("dev seed --links 5 --clicks 3 --days 1");
    sandbox.fails(4, "clicks export 3.jsonl --since-last");
    assert_eq!(sandbox.json("clicks export 4.jsonl --since-last --json")["clicks"], 3);
}

#[test]
fn existing_file_is_kept_and_invalid_destinations_are_rejected() {
    let sandbox = seeded();
    sandbox.write("out.jsonl", "precious");
    assert_snapshot!(sandbox.rmax("clicks export out.jsonl"), @"
    exit 4
    --- stderr
    error: out.jsonl exists already; nothing was written
    hint: choose another name, or replace it with --force
    ");
    assert_eq!(sandbox.read("out.jsonl"), "precious");
    sandbox.ok("clicks export out.jsonl --force");
    assert_eq!(sandbox.read("out.jsonl").lines().count(), 300);
    sandbox.fails(2, "clicks export ftp://example.com/x").says("exports do not go to ftp://");
    sandbox.fails(2, "clicks export");
    sandbox.fails(2, "clicks export x --since-last --from 2026-01-01");
    sandbox.fails(5, "clicks export x --format csv").says("format: is none of jsonl, parquet");
    sandbox.fails(5, "clicks export x --from soon").says("from: is not a time");
    sandbox.fails(5, "clicks export x --from 2026-02-01 --to 2026-01-01").says("from: must be before");
    sandbox.fails(3, "clicks export x --code nope");
    assert_snapshot!(sandbox.rmax("clicks export missing/x.jsonl"), @"
    exit 1
    --- stderr
    error: missing/x.jsonl cannot be written: entity not found
    ");
    assert!(!sandbox.path("x").exists());
}

#[test]
fn recompute_keeps_correct_rollups_and_repairs_wrong_ones() {
    let sandbox = seeded();
    assert_snapshot!(sandbox.rmax("clicks recompute"), @"
    exit 0
    --- stdout
    nothing to do: all 3 days were right
    ");
    let before = sandbox.json("links list --json");
    // A batch that was counted twice, say.
    tamper(
        &sandbox,
        "update totals set clicks = clicks + (select sum(d.clicks) from days d where d.kind = 0 and d.subject = totals.subject)
         where kind = 0;
         update months set clicks = clicks + (
             select sum(d.clicks) from days d where d.kind = 0 and d.subject = months.subject) where kind = 0;
         update days set clicks = 2 * clicks where kind = 0;",
    );
    assert_ne!(sandbox.json("links list --json"), before);
    assert!(sandbox.ok("clicks recompute").stdout.starts_with("recomputed 3 days: 3 wrong, in "));
    let done = sandbox.json("clicks recompute --json");
    assert_eq!((&done["days"], &done["subjects_changed"]), (&3.into(), &0.into()));
    assert_eq!(sandbox.json("links list --json"), before);
}

#[test]
fn prune_deletes_expired_clicks_and_keeps_totals() {
    let sandbox = Sandbox::new().with("RMAX_RETENTION_ARCHIVE", "archive");
    sandbox.ok("workspaces create edgy --preset edge");
    sandbox.ok("--workspace edgy dev seed --links 4 --clicks 1200 --days 120");
    sandbox.ok("dev seed --links 4 --clicks 1200 --days 120");
    let kept =
        |sandbox: &Sandbox| sandbox.ok("--workspace edgy clicks export -").stdout.lines().count() as u64;
    let rehearsed = sandbox.json("clicks prune --dry-run --json");
    let due = rehearsed["workspaces"][0]["pruned_clicks"].as_u64().unwrap();
    assert_eq!(
        (&rehearsed["dry_run"], &rehearsed["workspaces"][0]["workspace"]),
        (&true.into(), &"edgy".into())
    );
    assert!(due > 200 && due < 400, "{rehearsed:#}");
    assert_eq!(kept(&sandbox), 1200, "nothing went");
    assert!(!sandbox.path("archive").exists());

    // What cannot be archived stays.
    sandbox.write("archive", "a file");
    let failed = sandbox.rmax("clicks prune");
    assert_eq!(failed.code, Some(1), "{failed}");
    failed.says("clicks that could not be archived were not deleted: edgy: ");
    assert_eq!(kept(&sandbox), 1200);
    std::fs::remove_file(sandbox.path("archive")).unwrap();

    let pruned = sandbox.json("clicks prune --json");
    assert_eq!(pruned["workspaces"][0]["pruned_clicks"], due, "{pruned:#}");
    let part = pruned["workspaces"][0]["archived"][0].as_str().unwrap();
    assert!(part.starts_with("archive-edgy-") && part.ends_with(".parquet"), "{part}");
    assert!(std::fs::read(sandbox.path(&format!("archive/{part}"))).unwrap().starts_with(b"PAR1"));
    assert_eq!(kept(&sandbox), 1200 - due);
    let listed = sandbox.json("--workspace edgy links list --json");
    let sum: u64 =
        listed.as_array().unwrap().iter().map(|link| link["stats"]["hits"].as_u64().unwrap()).sum();
    assert_eq!((sum, hits(&sandbox)), (1200, 1200));
    assert_eq!(sandbox.ok("clicks export -").stdout.lines().count(), 1200, "fabric keeps them for ever");
    assert_eq!(sandbox.ok("clicks prune").stdout, "nothing to do\n");
    assert!(sandbox.ok("clicks recompute").stdout.starts_with("nothing to do"));
}

#[test]
fn prune_with_a_workspace_flag_leaves_the_others_alone() {
    let sandbox = Sandbox::new();
    for slug in ["one", "two"] {
        sandbox.ok(&format!("workspaces create {slug} --preset edge"));
        sandbox.ok(&format!("--workspace {slug} dev seed --links 2 --clicks 200 --days 120"));
    }
    let pruned = sandbox.json("--workspace one clicks prune --json");
    assert_eq!(pruned["workspaces"].as_array().unwrap().len(), 1, "{pruned:#}");
    assert_eq!(sandbox.ok("--workspace two clicks export -").stdout.lines().count(), 200);
    sandbox.fails(3, "--workspace three clicks prune");
}

#[test]
fn requests_for_unknown_codes_are_counted() {
    let sandbox = Sandbox::new();
    sandbox.ok("clicks misses").says("no misses");
    let server = serve(&sandbox, "");
    for path in ["/nope", "/nope", "/never"] {
        assert_eq!(server.status(path), 404);
    }
    wait_until("the misses are stored", || {
        sandbox
            .json("clicks misses --json")
            .as_array()
            .unwrap()
            .iter()
            .map(|miss| miss["misses"].as_u64().unwrap())
            .sum::<u64>()
            == 3
    });
    assert_snapshot!(sandbox.rmax("clicks misses"), @"
    exit 0
    --- stdout
    CODE   MISSES
    nope   2
    never  1
    ");
    assert_eq!(sandbox.json("clicks misses --json --limit 1").as_array().unwrap().len(), 1);
}
