//! Clicks leave, are counted anew, and go when their time is over.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::client::wait_until;
use crate::place::{Place, block_on};
use crate::serve::served::serve;

const KEYS: [&str; 7] = ["key", "ts", "code", "country", "ua_hash", "referrer", "ip_prefix"];

fn seeded() -> Place {
    let place = Place::new();
    place.ok("dev seed --links 5 --clicks 300 --days 3");
    place
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn hits(place: &Place) -> u64 {
    let links = place.json("links list --json");
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
fn tamper(place: &Place, sql: &'static str) {
    let path = place.path("rlinks-data/clicks.db");
    block_on(async move {
        let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

#[test]
fn json_lines_are_the_log_format() {
    let place = seeded();
    assert_snapshot!(place.rmax("clicks export out.jsonl"), @"
    exit 0
    --- stdout
    wrote 300 clicks to out.jsonl
    ");
    let clicks = lines(&place.read("out.jsonl"));
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

    let full = lines(&place.ok("clicks export - --full").stdout);
    assert_eq!(full.len(), 300);
    for key in KEYS.iter().chain(&["device", "browser", "utm_campaign", "visitor"]) {
        assert!(full[0].get(key).is_some(), "{key}: {}", full[0]);
    }
    // A part of them.
    let code = clicks[0]["code"].as_str().unwrap();
    let of_code = lines(&place.ok(&format!("clicks export - --code {code}")).stdout);
    assert!(of_code.len() < 300 && of_code.iter().all(|click| click["code"] == code));
    let from = clicks[100]["ts"].as_str().unwrap();
    let later = lines(&place.ok(&format!("clicks export - --from {from}")).stdout).len();
    let earlier = lines(&place.ok(&format!("clicks export - --to {from}")).stdout).len();
    assert_eq!((earlier, later), (100, 200));
}

#[test]
fn stdout_holds_clicks_and_nothing_else() {
    let place = seeded();
    let ran = place.ok("--json clicks export -");
    assert_eq!(ran.stdout.lines().count(), 300);
    ran.says("wrote 300 clicks");
    assert_eq!(place.ok("-q clicks export -").stderr, "");
    // Somebody who stops reading has what they wanted.
    let mut child = place.command("clicks export - --full").spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn parquet_by_its_name_or_by_word() {
    let place = seeded();
    for line in ["clicks export a.parquet", "clicks export b --format parquet"] {
        place.ok(line);
    }
    for name in ["a.parquet", "b"] {
        let bytes = std::fs::read(place.path(name)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
    }
    for name in ["c.jsonl", "c.ndjson", "c.json", "c.log", "c"] {
        place.ok(&format!("clicks export {name}"));
        assert_eq!(place.read(name).lines().count(), 300, "{name}");
    }
    assert_snapshot!(place.rmax("clicks export d.csv"), @"
    exit 2
    --- stderr
    error: the export would be JSON lines, and d.csv says .csv; nothing was written
    hint: name it like d.jsonl
    ");
    assert_snapshot!(place.rmax("clicks export d.parquet --format jsonl"), @"
    exit 2
    --- stderr
    error: the export would be JSON lines, and d.parquet says .parquet; nothing was written
    hint: name it like d.jsonl, or write --format parquet
    ");
    place.fails(2, "clicks export s3://bucket/d.jsonl.gz").says("says .gz");
    place
        .fails(2, "clicks export d.jsonl --format parquet")
        .says("would be Parquet, and d.jsonl says .jsonl");
    place.fails(2, "clicks export - --format parquet").says("cannot go to stdout");
}

#[test]
fn a_folder_takes_parts() {
    let place = seeded();
    let wrote = place.json("clicks export out/ --json");
    assert_eq!((&wrote["clicks"], &wrote["place"]), (&300.into(), &"out/".into()));
    let part = wrote["parts"][0].as_str().unwrap();
    assert_eq!(place.read(&format!("out/{part}")).lines().count(), 300);
    assert_eq!(part, "clicks-main-000000000001.jsonl");
}

#[test]
fn in_a_folder_each_export_has_names_of_its_own() {
    let place = seeded();
    let codes: Vec<String> = place
        .json("links list --json")
        .as_array()
        .unwrap()
        .iter()
        .filter(|link| link["stats"]["hits"].as_u64() > Some(0))
        .map(|link| link["code"].as_str().unwrap().to_owned())
        .collect();
    let mut wrote = 0;
    for code in &codes {
        let done = place.json(&format!("clicks export out/ --since-last --code {code} --json"));
        assert_eq!(done["parts"][0], format!("clicks-main.{code}-000000000001.jsonl"));
        wrote += done["clicks"].as_u64().unwrap();
    }
    assert_eq!(wrote, 300);
    let part = place.json("clicks export out/ --from 2020-01-31 --to 2099-01-01T00:00:00Z --json");
    assert_eq!(part["parts"][0], "clicks-main.from-20200131.to-20990101T000000Z-000000000001.jsonl");
    // Of all clicks there are two ways to one name. What is there stays, and is not passed over.
    place.ok("clicks export out/");
    place.write("out/clicks-main-000000000001.jsonl", "precious");
    assert_snapshot!(place.rmax("clicks export out/ --since-last"), @"
    exit 4
    --- stderr
    error: out/clicks-main-000000000001.jsonl exists already; nothing was written
    hint: choose another name, or replace it with --force
    ");
    assert_eq!(place.read("out/clicks-main-000000000001.jsonl"), "precious");
    assert_eq!(place.json("clicks export elsewhere/ --since-last --json")["clicks"], 300);
    place.ok("dev seed --links 5 --clicks 2 --days 1");
    assert_eq!(place.json("clicks export out/ --since-last --json")["clicks"], 2);
    place.ok("clicks export out/ --force");
    assert_eq!(place.read("out/clicks-main-000000000001.jsonl").lines().count(), 302);
}

#[test]
fn two_exports_since_the_last_at_once_write_no_click_twice() {
    let place = Place::new();
    place.ok("dev seed --links 5 --clicks 20000 --days 3");
    let ran = place.together(&["a/", "b/"].map(|to| format!("clicks export {to} --since-last")));
    let mut written = 0;
    for (ran, name) in ran.iter().zip(["a", "b"]) {
        // The second may also begin after the first has ended, and have nothing to do.
        assert!(matches!(ran.code, Some(0 | 4)), "{ran}");
        if ran.code == Some(4) {
            ran.says("another export of these clicks since the last one is running");
            assert!(!place.path(name).exists());
        } else if place.path(name).exists() {
            written += place.read(&format!("{name}/clicks-main-000000000001.jsonl")).lines().count();
        }
    }
    assert_eq!(written, 20_000);
}

#[test]
fn what_killed_exports_left_is_removed_by_a_later_one() {
    let place = seeded();
    let old = |name: &str| {
        place.write(name, "half");
        let file = std::fs::File::options().write(true).open(place.path(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
    };
    let ours = [".clicks-main-000000000001.jsonl.aBc123.part", ".x.jsonl.zzzzzz.part"];
    let others =
        [".y.jsonl.zzzzzz.part", "clicks-main-1.jsonl.part", ".part", ".x.jsonl.part", ".clicks-.part"];
    for name in ours.iter().chain(&others) {
        old(&format!("out/{name}"));
    }
    place.write("out/.x.jsonl.young1.part", "half");
    place.ok("clicks export out/x.jsonl");
    for name in ours {
        assert!(!place.path(&format!("out/{name}")).exists(), "{name}");
    }
    for name in others.iter().chain(&[".x.jsonl.young1.part"]) {
        assert!(place.path(&format!("out/{name}")).exists(), "{name}");
    }
}

#[test]
fn since_last_writes_each_click_once() {
    let place = seeded();
    assert_eq!(place.json("clicks export 1.jsonl --since-last --json")["clicks"], 300);
    assert_eq!(place.json("clicks export 2.jsonl --since-last --json")["clicks"], 0);
    place.ok("dev seed --links 5 --clicks 7 --days 1");
    assert_eq!(place.json("clicks export 3.jsonl --since-last --json")["clicks"], 7);
    let counts = ["1.jsonl", "2.jsonl", "3.jsonl"].map(|name| place.read(name).lines().count());
    assert_eq!(counts, [300, 0, 7]);
    let keys: BTreeSet<String> = ["1.jsonl", "3.jsonl"]
        .iter()
        .flat_map(|name| lines(&place.read(name)))
        .map(|click| click["key"].to_string())
        .collect();
    assert_eq!(keys.len(), 307);
    // An export that failed has exported nothing.
    place.ok("dev seed --links 5 --clicks 3 --days 1");
    place.fails(4, "clicks export 3.jsonl --since-last");
    assert_eq!(place.json("clicks export 4.jsonl --since-last --json")["clicks"], 3);
}

#[test]
fn what_is_there_is_kept_and_what_is_no_place_is_refused() {
    let place = seeded();
    place.write("out.jsonl", "precious");
    assert_snapshot!(place.rmax("clicks export out.jsonl"), @"
    exit 4
    --- stderr
    error: out.jsonl exists already; nothing was written
    hint: choose another name, or replace it with --force
    ");
    assert_eq!(place.read("out.jsonl"), "precious");
    place.ok("clicks export out.jsonl --force");
    assert_eq!(place.read("out.jsonl").lines().count(), 300);
    place.fails(2, "clicks export ftp://example.com/x").says("exports do not go to ftp://");
    place.fails(2, "clicks export");
    place.fails(2, "clicks export x --since-last --from 2026-01-01");
    place.fails(5, "clicks export x --format csv").says("format: is none of jsonl, parquet");
    place.fails(5, "clicks export x --from soon").says("from: is not a time");
    place.fails(5, "clicks export x --from 2026-02-01 --to 2026-01-01").says("from: must be before");
    place.fails(3, "clicks export x --code nope");
    assert_snapshot!(place.rmax("clicks export missing/x.jsonl"), @"
    exit 1
    --- stderr
    error: missing/x.jsonl cannot be written: entity not found
    ");
    assert!(!place.path("x").exists());
}

#[test]
fn recompute_finds_rollups_right_and_mends_what_is_wrong() {
    let place = seeded();
    assert_snapshot!(place.rmax("clicks recompute"), @"
    exit 0
    --- stdout
    nothing to do: all 3 days were right
    ");
    let before = place.json("links list --json");
    // A batch that was counted twice, say.
    tamper(
        &place,
        "update totals set clicks = clicks + (select sum(d.clicks) from days d where d.kind = 0 and d.subject = totals.subject)
         where kind = 0;
         update months set clicks = clicks + (
             select sum(d.clicks) from days d where d.kind = 0 and d.subject = months.subject) where kind = 0;
         update days set clicks = 2 * clicks where kind = 0;",
    );
    assert_ne!(place.json("links list --json"), before);
    assert!(place.ok("clicks recompute").stdout.starts_with("recomputed 3 days: 3 wrong, in "));
    let done = place.json("clicks recompute --json");
    assert_eq!((&done["days"], &done["subjects_changed"]), (&3.into(), &0.into()));
    assert_eq!(place.json("links list --json"), before);
}

#[test]
fn prune_deletes_what_is_not_kept_and_no_total_sinks() {
    let place = Place::new().with("RMAX_RETENTION_ARCHIVE", "archive");
    place.ok("workspaces create edgy --preset edge");
    place.ok("--workspace edgy dev seed --links 4 --clicks 1200 --days 120");
    place.ok("dev seed --links 4 --clicks 1200 --days 120");
    let kept = |place: &Place| place.ok("--workspace edgy clicks export -").stdout.lines().count() as u64;
    let rehearsed = place.json("clicks prune --dry-run --json");
    let due = rehearsed["workspaces"][0]["pruned_clicks"].as_u64().unwrap();
    assert_eq!(
        (&rehearsed["dry_run"], &rehearsed["workspaces"][0]["workspace"]),
        (&true.into(), &"edgy".into())
    );
    assert!(due > 200 && due < 400, "{rehearsed:#}");
    assert_eq!(kept(&place), 1200, "nothing went");
    assert!(!place.path("archive").exists());

    // What cannot be archived stays.
    place.write("archive", "a file");
    let failed = place.rmax("clicks prune");
    assert_eq!(failed.code, Some(1), "{failed}");
    failed.says("clicks that could not be archived were not deleted: edgy: ");
    assert_eq!(kept(&place), 1200);
    std::fs::remove_file(place.path("archive")).unwrap();

    let pruned = place.json("clicks prune --json");
    assert_eq!(pruned["workspaces"][0]["pruned_clicks"], due, "{pruned:#}");
    let part = pruned["workspaces"][0]["archived"][0].as_str().unwrap();
    assert!(part.starts_with("archive-edgy-") && part.ends_with(".parquet"), "{part}");
    assert!(std::fs::read(place.path(&format!("archive/{part}"))).unwrap().starts_with(b"PAR1"));
    assert_eq!(kept(&place), 1200 - due);
    let listed = place.json("--workspace edgy links list --json");
    let sum: u64 =
        listed.as_array().unwrap().iter().map(|link| link["stats"]["hits"].as_u64().unwrap()).sum();
    assert_eq!((sum, hits(&place)), (1200, 1200));
    assert_eq!(place.ok("clicks export -").stdout.lines().count(), 1200, "fabric keeps them for ever");
    assert_eq!(place.ok("clicks prune").stdout, "nothing to do\n");
    assert!(place.ok("clicks recompute").stdout.starts_with("nothing to do"));
}

#[test]
fn a_named_workspace_is_the_only_one_pruned() {
    let place = Place::new();
    for slug in ["one", "two"] {
        place.ok(&format!("workspaces create {slug} --preset edge"));
        place.ok(&format!("--workspace {slug} dev seed --links 2 --clicks 200 --days 120"));
    }
    let pruned = place.json("--workspace one clicks prune --json");
    assert_eq!(pruned["workspaces"].as_array().unwrap().len(), 1, "{pruned:#}");
    assert_eq!(place.ok("--workspace two clicks export -").stdout.lines().count(), 200);
    place.fails(3, "--workspace three clicks prune");
}

#[test]
fn codes_nobody_has_are_counted() {
    let place = Place::new();
    place.ok("clicks misses").says("no misses");
    let server = serve(&place, "");
    for path in ["/nope", "/nope", "/never"] {
        assert_eq!(server.status(path), 404);
    }
    wait_until("the misses are stored", || {
        place
            .json("clicks misses --json")
            .as_array()
            .unwrap()
            .iter()
            .map(|miss| miss["misses"].as_u64().unwrap())
            .sum::<u64>()
            == 3
    });
    assert_snapshot!(place.rmax("clicks misses"), @"
    exit 0
    --- stdout
    CODE   MISSES
    nope   2
    never  1
    ");
    assert_eq!(place.json("clicks misses --json --limit 1").as_array().unwrap().len(), 1);
}
