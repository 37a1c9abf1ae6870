//! What people and programs are told of a link's clicks.

use std::io::Write as _;

use insta::assert_snapshot;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::raw_client::{RawConnection, get, wait_until};
use crate::support::sandbox::Sandbox;
use crate::support::server_process::{ServerProcess, serve};

/// A folder with some links and clicks of one UTC day, and the code that was clicked most.
fn seeded() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.ok("dev seed --links 3 --clicks 200 --days 1");
    let code = most_clicked(&sandbox);
    (sandbox, code)
}

fn most_clicked(sandbox: &Sandbox) -> String {
    let links = sandbox.json("links list --json");
    let most = links.as_array().unwrap().iter().max_by_key(|link| link["stats"]["hits"].as_u64());
    most.unwrap()["code"].as_str().unwrap().to_owned()
}

fn hits(sandbox: &Sandbox, code: &str) -> u64 {
    sandbox.link(code)["stats"]["hits"].as_u64().unwrap()
}

/// Asks so often, and waits for every answer.
fn click(server: &ServerProcess, path: &str, times: usize) {
    let mut connection = RawConnection::new(server.address);
    connection.send(get(path).repeat(times));
    for _ in 0..times {
        assert_eq!(connection.next_response().unwrap().status, 301);
    }
}

#[test]
fn stats_without_a_terminal_are_plain_text() {
    let (sandbox, code) = seeded();
    let ran = sandbox.rmax(&format!("links stats {code}")).to_string();
    // Thirty days, the last of which is today.
    let (quiet, rest): (Vec<&str>, Vec<&str>) =
        ran.lines().partition(|line| line.starts_with("20") && line.ends_with("      0         0     0"));
    assert_eq!(quiet.len(), 29);
    let today =
        |line: &str| if line.starts_with("20") { format!("<today>{}", &line[10..]) } else { line.to_owned() };
    assert_snapshot!(rest.into_iter().map(today).collect::<Vec<_>>().join("\n"), @"
    exit 0
    --- stdout
    school-notes-1  <time> to <time> (UTC)

    clicks      84
    visitors    66
    bots        4
    last click  <time> (all time)
    hits        88 (all time, bots included)

    DAY         CLICKS  VISITORS  BOTS
    <today>      84        66     4

    REFERRERS
      google.com        12
      duckduckgo.com     4
      mail.google.com    4
      l.facebook.com     3
      l.instagram.com    3
      t.co               3
      blog.example.org   2
      linkedin.com       2
      bing.com           1
      en.wikipedia.org   1

    COUNTRIES
      United States   16
      Brazil           8
      Germany          8
      India            8
      Indonesia        5
      Australia        4
      Japan            4
      United Kingdom   3
      Italy            3
      Nigeria          3

    DEVICES
      desktop  44
      mobile   37
      tablet    3

    BROWSERS
      Chrome   41
      Safari   27
      Edge      8
      Firefox   3
      Opera     3

    SYSTEMS
      Windows    33
      iOS        25
      Android    15
      macOS       6
      Chrome OS   3
      Linux       2

    CAMPAIGNS
      newsletter-week  6
      spring-sale      6
      launch           5
      webinar          2
      black-friday     1
      retargeting      1
    ");
}

#[test]
fn stats_text_lists_every_point_and_states_its_range() {
    let (sandbox, code) = seeded();
    let text = |flags: &str| sandbox.ok(&format!("links stats {code} {flags}")).stdout;
    let table = |text: &str, name: &str| -> Vec<String> {
        let (_, after) = text.split_once(&format!("\n{name} ")).unwrap_or_else(|| panic!("{text}"));
        after.lines().skip(1).take_while(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let old = "--from 2020-01-30 --to 2020-02-05";
    assert_eq!(
        table(&text(&format!("{old} --interval month --tz Europe/Berlin")), "MONTH"),
        ["2020-01       0         0     0", "2020-02       0         0     0"]
    );
    assert_eq!(table(&text(&format!("{old} --interval week")), "WEEK").len(), 2);
    let hours = table(&text("--from 2020-01-30 --to 2020-01-30T02:00:00Z --interval hour"), "HOUR");
    assert_eq!(hours[1], "2020-01-30 01:00       0         0     0");
    let many = table(&text("--from 2020-01-01 --to 2020-12-31"), "DAY");
    assert_eq!(many.len(), 63);
    assert!(many[61].starts_with("2020-12-30 "));
    assert_eq!(many[62], "the last 62 of 365 points; --json gives them all");

    // From a moment on is until now.
    let since = sandbox.json(&format!("links stats {code} --json --from 2020-01-01"));
    assert_eq!(since["total"], sandbox.json(&format!("links stats {code} --json"))["total"]);
    sandbox
        .fails(5, &format!("links stats {code} --from 2099-01-01"))
        .says("from: is after today, and the range ends with today unless `to` is given");

    let plain = text("");
    for word in ["rounded", "whole UTC days", "approximate"] {
        assert!(!plain.contains(word), "{plain}");
    }
    let cut = text("--from 2020-01-30T00:10:00Z --tz Europe/Berlin");
    assert!(cut.contains("\nthe range was rounded to whole hours\n"), "{cut}");
    assert!(cut.contains("only whole UTC days are known, and each counts where it begins\n"), "{cut}");
    assert!(cut.contains("\nwhat follows is of whole UTC days, 2020-01-30T00:00:00Z to "), "{cut}");
    let kathmandu = text("--tz Asia/Kathmandu");
    assert!(kathmandu.contains("days of Asia/Kathmandu begin inside of a UTC hour"), "{kathmandu}");
    assert!(kathmandu.contains("days are approximate"), "{kathmandu}");
    assert_eq!(sandbox.json(&format!("links stats {code} --json --tz Asia/Kathmandu"))["tz_rounded"], true);
}

#[test]
fn stats_json_is_the_api_body_with_all_time_totals() {
    let (sandbox, code) = seeded();
    let stats = sandbox.json(&format!("links stats {code} --json"));
    let keys: Vec<&str> = stats.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "code",
        "hits",
        "last_hit",
        "from",
        "to",
        "interval",
        "tz",
        "bots",
        "total",
        "series",
        "referrers",
        "countries",
        "cities",
        "devices",
        "browsers",
        "systems",
        "campaigns",
    ] {
        assert!(keys.contains(&key), "{key} is not among {keys:?}");
    }
    assert_eq!(stats["code"], code.as_str());
    assert_eq!(
        (&stats["interval"], &stats["tz"], &stats["bots"]),
        (&json!("day"), &json!("UTC"), &json!("exclude"))
    );
    assert_eq!(stats["series"].as_array().unwrap().len(), 30);
    let total = |stats: &Value, what: &str| stats["total"][what].as_u64().unwrap();
    let (people, bots) = (total(&stats, "clicks"), total(&stats, "bots"));
    assert_eq!(stats["hits"], people + bots);
    assert!(bots > 0 && total(&stats, "visitors") <= people);
    assert_eq!(stats["countries"][0]["name"], "United States");

    let all = sandbox.json(&format!("links stats {code} --json --bots --interval month --tz europe/berlin"));
    assert_eq!((total(&all, "clicks"), &all["bots"]), (people + bots, &json!("include")));
    assert_eq!(all["tz"], "Europe/Berlin");
    // A date is the zone's.
    let dated =
        sandbox.json(&format!("links stats {code} --json --from 2026-01-01 --to 2026-01-02 --tz Asia/Tokyo"));
    assert_eq!(
        (&dated["from"], &dated["to"]),
        (&json!("2025-12-31T15:00:00Z"), &json!("2026-01-01T15:00:00Z"))
    );
    assert_eq!((total(&dated, "clicks"), &dated["hits"]), (0, &stats["hits"]));
    let to_come = sandbox.json(&format!("links stats {code} --json --from 9000-01-01 --to 9000-01-03"));
    assert_eq!((total(&to_come, "clicks"), &to_come["hits"]), (0, &stats["hits"]));
}

#[test]
fn invalid_flags_are_reported_together() {
    let (sandbox, code) = seeded();
    assert_snapshot!(sandbox.rmax(&format!("links stats {code} --from soon --to 12345678901234 --interval year --tz Mars/Olympus")), @"
    exit 5
    --- stderr
    error: interval: is none of hour, day, week, month
    error: tz: is no time zone; write it like Europe/Berlin
    error: from: is not a time; write it like <time>, 2030-01-31, or as Unix seconds
    error: to: looks like Unix milliseconds; give whole seconds
    ");
    sandbox
        .fails(5, &format!("links stats {code} --from 2026-02-01 --to 2026-01-01"))
        .says("from: must be before");
    sandbox
        .fails(5, &format!("links stats {code} --from 2000-01-01 --to 2026-01-01 --interval hour"))
        .says("interval:");
    sandbox.fails(3, "links stats nope").says("there is no link `nope`");
    sandbox.fails(2, "links stats");
}

#[test]
fn a_deleted_link_keeps_its_statistics() {
    let (sandbox, code) = seeded();
    let before = sandbox.json(&format!("links stats {code} --json"));
    sandbox.ok(&format!("links delete {code} --yes"));
    assert_eq!(sandbox.json(&format!("links stats {code} --json")), before);
}

#[test]
fn unclicked_link_shows_zeros_and_creates_no_click_database() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    assert_eq!(sandbox.link("x")["stats"], json!({ "hits": 0, "last_hit": null }));
    sandbox.ok("links list --json");
    assert!(!sandbox.path("rlinks-data/clicks.db").exists());
    let stats = sandbox.json("links stats x --json");
    assert_eq!((&stats["hits"], &stats["last_hit"]), (&json!(0), &Value::Null));
    assert!(sandbox.ok("links stats x").stdout.contains("last click  never"));
}

#[test]
fn links_show_click_totals_and_clicks_never_change_a_link() {
    let (sandbox, code) = seeded();
    let before = sandbox.link(&code);
    assert!(before["stats"]["hits"].as_u64().unwrap() > 0 && before["stats"]["last_hit"].is_string());
    let listed = sandbox.json("links list --json");
    let sum: u64 =
        listed.as_array().unwrap().iter().map(|link| link["stats"]["hits"].as_u64().unwrap()).sum();
    assert_eq!(sum, 200);
    assert!(listed.as_array().unwrap().contains(&before));
    let changes = sandbox.changes();
    sandbox.ok("dev seed --links 3 --clicks 300 --days 1");
    let after = sandbox.link(&code);
    assert!(after["stats"]["hits"].as_u64() > before["stats"]["hits"].as_u64());
    assert_eq!((&after["updated_at"], sandbox.changes()), (&before["updated_at"], changes));
    // The numbers are of now, also of a link as it was.
    let at = before["created_at"].as_str().unwrap();
    assert_eq!(sandbox.json(&format!("links get {code} --at {at}"))["stats"], after["stats"]);
    assert_eq!(sandbox.json(&format!("links disable {code} --json"))["stats"], after["stats"]);
}

#[test]
fn unreadable_click_database_does_not_hide_links() {
    let (sandbox, code) = seeded();
    for name in ["clicks.db-wal", "clicks.db-shm"] {
        let _ = std::fs::remove_file(sandbox.path("rlinks-data").join(name));
    }
    let mut file = std::fs::File::create(sandbox.path("rlinks-data/clicks.db")).unwrap();
    file.write_all(&[b'?'; 8192]).unwrap();
    let got = sandbox.ok(&format!("links get {code}"));
    got.says("warning: clicks cannot be read, so none are shown");
    assert_eq!(got.json()["stats"], json!({ "hits": 0, "last_hit": null }));
    sandbox.ok("links list --json").says("warning: clicks cannot be read");
    sandbox.fails(1, &format!("links stats {code}"));
}

#[test]
fn clicks_of_running_and_killed_servers_are_counted() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    let server = serve(&sandbox, "");
    click(&server, "/go", 100);
    wait_until("the server has stored them", || hits(&sandbox, "go") == 100);
    click(&server, "/go", 900);
    server.signal(Signal::KILL);
    let mut server = server;
    server.ends_within(10_000);
    let journal = sandbox.path("rlinks-data/journal");
    assert!(std::fs::read_dir(&journal).unwrap().count() > 0, "the journal is still there");
    assert_eq!(hits(&sandbox, "go"), 1000);
    let left = std::fs::read_dir(&journal).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file());
    assert_eq!(left.count(), 0, "what is stored is not kept twice");
    assert_eq!(sandbox.json("links stats go --json")["hits"], 1000);
    // And the next server stores none of them again.
    let server = serve(&sandbox, "");
    click(&server, "/go", 1);
    server.stop();
    assert_eq!(hits(&sandbox, "go"), 1001);
}
