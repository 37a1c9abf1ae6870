//! What people and programs are told of a link's clicks.

use std::io::Write as _;

use insta::assert_snapshot;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Talk, get, wait_until};
use crate::place::Place;
use crate::serve::served::{Served, serve};

/// A folder with some links and clicks of one UTC day, and the code that was clicked most.
fn seeded() -> (Place, String) {
    let place = Place::new();
    place.ok("dev seed --links 3 --clicks 200 --days 1");
    let code = most_clicked(&place);
    (place, code)
}

fn most_clicked(place: &Place) -> String {
    let links = place.json("links list --json");
    let most = links.as_array().unwrap().iter().max_by_key(|link| link["stats"]["hits"].as_u64());
    most.unwrap()["code"].as_str().unwrap().to_owned()
}

fn hits(place: &Place, code: &str) -> u64 {
    place.link(code)["stats"]["hits"].as_u64().unwrap()
}

/// Asks so often, and waits for every answer.
fn click(server: &Served, path: &str, times: usize) {
    let mut talk = Talk::new(server.address);
    talk.send(get(path).repeat(times));
    for _ in 0..times {
        assert_eq!(talk.answer().unwrap().status, 301);
    }
}

#[test]
fn for_people_without_a_terminal_it_is_plain_text() {
    let (place, code) = seeded();
    let ran = place.rmax(&format!("links stats {code}")).to_string();
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
fn the_text_shows_every_point_and_says_what_the_answer_is_about() {
    let (place, code) = seeded();
    let text = |flags: &str| place.ok(&format!("links stats {code} {flags}")).stdout;
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
    let since = place.json(&format!("links stats {code} --json --from 2020-01-01"));
    assert_eq!(since["total"], place.json(&format!("links stats {code} --json"))["total"]);
    place
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
    assert_eq!(place.json(&format!("links stats {code} --json --tz Asia/Kathmandu"))["tz_rounded"], true);
}

#[test]
fn for_programs_it_is_the_statistics_body_and_what_was_ever_counted() {
    let (place, code) = seeded();
    let stats = place.json(&format!("links stats {code} --json"));
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

    let all = place.json(&format!("links stats {code} --json --bots --interval month --tz europe/berlin"));
    assert_eq!((total(&all, "clicks"), &all["bots"]), (people + bots, &json!("include")));
    assert_eq!(all["tz"], "Europe/Berlin");
    // A date is the zone's.
    let dated =
        place.json(&format!("links stats {code} --json --from 2026-01-01 --to 2026-01-02 --tz Asia/Tokyo"));
    assert_eq!(
        (&dated["from"], &dated["to"]),
        (&json!("2025-12-31T15:00:00Z"), &json!("2026-01-01T15:00:00Z"))
    );
    assert_eq!((total(&dated, "clicks"), &dated["hits"]), (0, &stats["hits"]));
    let to_come = place.json(&format!("links stats {code} --json --from 9000-01-01 --to 9000-01-03"));
    assert_eq!((total(&to_come, "clicks"), &to_come["hits"]), (0, &stats["hits"]));
}

#[test]
fn what_cannot_be_meant_is_named_at_once() {
    let (place, code) = seeded();
    assert_snapshot!(place.rmax(&format!("links stats {code} --from soon --to 12345678901234 --interval year --tz Mars/Olympus")), @"
    exit 5
    --- stderr
    error: interval: is none of hour, day, week, month
    error: tz: is no time zone; write it like Europe/Berlin
    error: from: is not a time; write it like <time>, 2030-01-31, or as Unix seconds
    error: to: looks like Unix milliseconds; give whole seconds
    ");
    place
        .fails(5, &format!("links stats {code} --from 2026-02-01 --to 2026-01-01"))
        .says("from: must be before");
    place
        .fails(5, &format!("links stats {code} --from 2000-01-01 --to 2026-01-01 --interval hour"))
        .says("interval:");
    place.fails(3, "links stats nope").says("there is no link `nope`");
    place.fails(2, "links stats");
}

#[test]
fn a_deleted_link_keeps_its_statistics() {
    let (place, code) = seeded();
    let before = place.json(&format!("links stats {code} --json"));
    place.ok(&format!("links delete {code} --yes"));
    assert_eq!(place.json(&format!("links stats {code} --json")), before);
}

#[test]
fn a_link_nobody_clicked_has_zeros_and_no_database_of_clicks_is_made_for_it() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    assert_eq!(place.link("x")["stats"], json!({ "hits": 0, "last_hit": null }));
    place.ok("links list --json");
    assert!(!place.path("rlinks-data/clicks.db").exists());
    let stats = place.json("links stats x --json");
    assert_eq!((&stats["hits"], &stats["last_hit"]), (&json!(0), &Value::Null));
    assert!(place.ok("links stats x").stdout.contains("last click  never"));
}

#[test]
fn links_carry_their_numbers_and_clicks_never_change_a_link() {
    let (place, code) = seeded();
    let before = place.link(&code);
    assert!(before["stats"]["hits"].as_u64().unwrap() > 0 && before["stats"]["last_hit"].is_string());
    let listed = place.json("links list --json");
    let sum: u64 =
        listed.as_array().unwrap().iter().map(|link| link["stats"]["hits"].as_u64().unwrap()).sum();
    assert_eq!(sum, 200);
    assert!(listed.as_array().unwrap().contains(&before));
    let changes = place.changes();
    place.ok("dev seed --links 3 --clicks 300 --days 1");
    let after = place.link(&code);
    assert!(after["stats"]["hits"].as_u64() > before["stats"]["hits"].as_u64());
    assert_eq!((&after["updated_at"], place.changes()), (&before["updated_at"], changes));
    // The numbers are of now, also of a link as it was.
    let at = before["created_at"].as_str().unwrap();
    assert_eq!(place.json(&format!("links get {code} --at {at}"))["stats"], after["stats"]);
    assert_eq!(place.json(&format!("links disable {code} --json"))["stats"], after["stats"]);
}

#[test]
fn clicks_that_cannot_be_read_do_not_hide_a_link() {
    let (place, code) = seeded();
    for name in ["clicks.db-wal", "clicks.db-shm"] {
        let _ = std::fs::remove_file(place.path("rlinks-data").join(name));
    }
    let mut file = std::fs::File::create(place.path("rlinks-data/clicks.db")).unwrap();
    file.write_all(&[b'?'; 8192]).unwrap();
    let got = place.ok(&format!("links get {code}"));
    got.says("warning: clicks cannot be read, so none are shown");
    assert_eq!(got.json()["stats"], json!({ "hits": 0, "last_hit": null }));
    place.ok("links list --json").says("warning: clicks cannot be read");
    place.fails(1, &format!("links stats {code}"));
}

#[test]
fn a_running_servers_clicks_are_seen_and_a_killed_ones_are_stored_by_whoever_looks() {
    let place = Place::new();
    place.ok("links set go https://example.com/");
    let server = serve(&place, "");
    click(&server, "/go", 100);
    wait_until("the server has stored them", || hits(&place, "go") == 100);
    click(&server, "/go", 900);
    server.signal(Signal::KILL);
    let mut server = server;
    server.ends_within(10_000);
    let journal = place.path("rlinks-data/journal");
    assert!(std::fs::read_dir(&journal).unwrap().count() > 0, "the journal is still there");
    assert_eq!(hits(&place, "go"), 1000);
    let left = std::fs::read_dir(&journal).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file());
    assert_eq!(left.count(), 0, "what is stored is not kept twice");
    assert_eq!(place.json("links stats go --json")["hits"], 1000);
    // And the next server stores none of them again.
    let server = serve(&place, "");
    click(&server, "/go", 1);
    server.stop();
    assert_eq!(hits(&place, "go"), 1001);
}
