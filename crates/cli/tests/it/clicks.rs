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

/// `hit:{code}:{YYYYMMDD}:{uuid}`
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
    wrote: clicks 300 to out.jsonl
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
    ran.says("wrote: clicks 300");
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
    place.ok("clicks export c.parquet --format jsonl");
    assert_eq!(place.read("c.parquet").lines().count(), 300);
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
    place.fails(1, "clicks export 3.jsonl --since-last");
    assert_eq!(place.json("clicks export 4.jsonl --since-last --json")["clicks"], 3);
}

#[test]
fn what_is_there_is_kept_and_what_is_no_place_is_refused() {
    let place = seeded();
    place.write("out.jsonl", "precious");
    assert_snapshot!(place.rmax("clicks export out.jsonl"), @"
    exit 1
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
    place.fails(1, "clicks export missing/x.jsonl").says("cannot be written");
    assert!(!place.path("x").exists());
}

#[test]
fn recompute_finds_rollups_right_and_mends_what_is_wrong() {
    let place = seeded();
    assert_snapshot!(place.rmax("clicks recompute"), @"
    exit 0
    --- stdout
    nothing to do: 3 days were right
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
    assert!(place.ok("clicks recompute").stdout.starts_with("recomputed 3 days: 3 of them were wrong"));
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
