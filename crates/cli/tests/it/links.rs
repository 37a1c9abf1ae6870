//! `rmax links`: every flag and every way to go wrong.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::place::Place;

fn codes(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|link| link["code"].as_str().unwrap()).collect()
}

#[track_caller]
fn lists(place: &Place, flags: &str, expected: &[&str]) {
    assert_eq!(codes(&place.json(&format!("links list --json {flags}"))), expected, "{flags}");
}

fn some_links() -> Place {
    let place = Place::new();
    place.ok("links set guide https://docs.example.com/start --title 'The manual' --tag work");
    place.ok("links set blog https://blog.example.com/ --tag work --tag public");
    place.ok("links set guide-api https://api.example.com/ --note 'for programmers'");
    place.ok("links set old https://old.example.com/");
    place.ok("links disable old");
    place.ok("links set gone https://gone.example.com/");
    place.ok("links delete gone --yes");
    place
}

#[test]
fn list_shows_the_active_ones_newest_first() {
    let place = some_links();
    lists(&place, "", &["guide-api", "blog", "guide"]);
    lists(&place, "--show-disabled", &["old", "guide-api", "blog", "guide"]);
    lists(&place, "--show-deleted", &["gone", "guide-api", "blog", "guide"]);
    lists(&place, "--show-disabled --show-deleted", &["gone", "old", "guide-api", "blog", "guide"]);
}

#[test]
fn list_filters() {
    let place = some_links();
    lists(&place, "--prefix guide", &["guide-api", "guide"]);
    lists(&place, "--prefix GUIDE", &["guide-api", "guide"]);
    lists(&place, "--prefix nothing", &[]);
    lists(&place, "--prefix '%'", &[]);
    lists(&place, "--tag work", &["blog", "guide"]);
    lists(&place, "--tag public --prefix b", &["blog"]);
    lists(&place, "--search manual", &["guide"]);
    lists(&place, "--search 'example prog'", &["guide-api"]);
    lists(&place, "--limit 1", &["guide-api"]);
}

#[test]
fn list_for_people() {
    let place = some_links();
    assert_snapshot!(place.rmax("links list --show-disabled"), @"
    exit 0
    --- stdout
    CODE       STATE     TARGET                          TITLE       TAGS
    old        disabled  https://old.example.com/
    guide-api  active    https://api.example.com/
    blog       active    https://blog.example.com/                   public, work
    guide      active    https://docs.example.com/start  The manual  work
    ");
    assert_snapshot!(place.rmax("links list --limit 1"), @"
    exit 0
    --- stdout
    CODE       STATE   TARGET
    guide-api  active  https://api.example.com/
    --- stderr
    hint: there are more than 1; show more with --limit
    ");
    assert_snapshot!(place.rmax("links list --prefix nothing"), @"
    exit 0
    --- stderr
    no links
    ");
    assert_snapshot!(place.rmax("-q links list --prefix nothing"), @"exit 0");
}

#[test]
fn list_as_json_is_what_get_prints() {
    let place = some_links();
    assert_eq!(place.json("links list --json --prefix blog"), json!([place.link("blog")]));
}

#[test]
fn an_expired_link_is_listed_as_such() {
    let place = Place::new();
    place.ok("links set brief https://example.com/ --expires 2099-01-01");
    place.tamper("update links set expires_at = 1577836800000");
    assert_snapshot!(place.rmax("links list"), @"
    exit 0
    --- stdout
    CODE   STATE    TARGET                EXPIRES
    brief  expired  https://example.com/  2020-01-01T00:00:00Z
    ");
    lists(&place, "", &["brief"]);
}

#[test]
fn list_takes_a_limit_from_1_to_10000() {
    let place = Place::new();
    for limit in ["0", "10001", "-1", "x"] {
        place.fails(2, &format!("links list --limit {limit}"));
    }
    place.ok("links list --limit 10000");
}

#[test]
fn get_says_what_is_not_there() {
    let place = Place::new();
    assert_snapshot!(place.rmax("links get nope"), @"
    exit 3
    --- stderr
    error: there is no link `nope`
    hint: `rmax links list` shows the ones there are; `rmax links set` makes one
    hint: sqlite:rlinks-data/rlinks.db is new and empty: is it the right one? Choose with --data or --env
    ");
    place.ok("links set x https://example.com/");
    assert_snapshot!(place.rmax("links get nope"), @"
    exit 3
    --- stderr
    error: there is no link `nope`
    hint: `rmax links list` shows the ones there are; `rmax links set` makes one
    ");
    assert_snapshot!(place.rmax("--json links get nope"), @r#"
    exit 3
    --- stderr
    {"error":{"code":"NOT_FOUND","status":404,"message":"there is no link `nope`","details":null,"ts":"<time>"}}
    "#);
    place.fails(3, "links get 'no code at all'");
    place.ok("links delete x --yes");
    assert_snapshot!(place.rmax("links get x"), @"
    exit 3
    --- stderr
    error: the link `x` was deleted
    hint: `rmax links restore x` brings it back
    ");
}

#[test]
fn get_shows_a_link_as_it_was() {
    let place = Place::new();
    place.ok("links set x https://example.com/first");
    let first = place.link("x")["updated_at"].as_str().unwrap().to_owned();
    place.ok("links set x https://example.com/second");
    place.ok("links delete x --yes");
    assert_eq!(place.json(&format!("links get x --at {first}"))["target"], "https://example.com/first");
    place.fails(3, "links get x --at 2020-01-01").says("at 2020-01-01T00:00:00Z");
    place.fails(3, "links get x --at 2099-01-01");
    let ran = place.fails(5, "--json links get x --at yesterday");
    assert_eq!(ran.error()["details"]["fields"][0]["field"], "at");
}

#[test]
fn set_keeps_what_is_not_named() {
    let place = Place::new();
    place.ok("links set x https://example.com/ --title T --note N --tag b --tag a --status 302 --allow-loop --no-https --expires 2099-01-01");
    place.ok("links set x https://example.com/2");
    let link = place.link("x");
    assert_eq!(link["target"], "https://example.com/2");
    assert_eq!((&link["title"], &link["redirect_status"]), (&json!("T"), &json!(302)));
    assert_eq!(link["meta"], json!({ "notes": "N", "tags": ["a", "b"] }));
    assert_eq!(
        link["rules"],
        json!({ "https_only": false, "no_loop": false, "expires_at": "2099-01-01T00:00:00Z" })
    );
}

#[test]
fn set_changes_each_field() {
    let place = Place::new();
    place.ok("links set x https://example.com/ --title T --note N --tag a");
    place.ok("links set x https://example.com/ --tag b --tag c --untag a");
    assert_eq!(place.link("x")["meta"]["tags"], json!(["b", "c"]));
    place.ok("links set x https://example.com/ --title '' --note ''");
    assert_eq!((&place.link("x")["title"], &place.link("x")["meta"]["notes"]), (&Value::Null, &Value::Null));
    for status in [302, 307, 308] {
        place.ok(&format!("links set x https://example.com/ --status {status}"));
        assert_eq!(place.link("x")["redirect_status"], status);
    }
    place.ok("links set x https://example.com/ --status 301");
    assert_eq!(place.link("x")["redirect_status"], Value::Null);
    place.ok("links set x https://example.com/ --note '-- a dash'");
    assert_eq!(place.link("x")["meta"]["notes"], "-- a dash");
}

#[test]
fn set_says_what_it_did() {
    let place = Place::new().with("RMAX_DOMAIN", "rmax.to");
    assert_snapshot!(place.rmax("links set parity https://example.com/"), @"
    exit 0
    --- stdout
    created https://rmax.to/parity -> https://example.com/
    ");
    assert_snapshot!(place.rmax("links set parity https://example.com/2"), @"
    exit 0
    --- stdout
    updated https://rmax.to/parity -> https://example.com/2
    ");
    assert_snapshot!(place.rmax("links set parity https://example.com/2"), @"
    exit 0
    --- stdout
    unchanged https://rmax.to/parity -> https://example.com/2
    ");
}

#[test]
fn set_names_everything_that_is_wrong_at_once() {
    let place = Place::new();
    let line = "links set api ftp://example.com --status 303 --expires 2020-01-01 --tag 'a,b'";
    assert_snapshot!(place.rmax(line), @"
    exit 5
    --- stderr
    error: code: `api` is a word the server keeps; choose another
    error: target: must begin with https:// or http://; other schemes are not served
    error: redirect_status: must be 301, 302, 307 or 308
    error: expires_at: is already over (2020-01-01T00:00:00Z); give a time to come
    error: tags: has a comma in a tag; give each tag by itself
    ");
    assert_snapshot!(place.rmax(&format!("--json {line}")), @r#"
    exit 5
    --- stderr
    {"error":{"code":"VALIDATION_FAILED","status":400,"message":"Some fields break a rule","details":{"fields":[{"code":"reserved","field":"code","message":"`api` is a word the server keeps; choose another"},{"code":"scheme","field":"target","message":"must begin with https:// or http://; other schemes are not served"},{"code":"bad_status","field":"redirect_status","message":"must be 301, 302, 307 or 308"},{"code":"past","field":"expires_at","message":"is already over (2020-01-01T00:00:00Z); give a time to come"},{"code":"bad_characters","field":"tags","message":"has a comma in a tag; give each tag by itself"}]},"ts":"<time>"}}
    "#);
    assert_eq!(place.changes(), 1, "only what the first start makes");
}

#[test]
fn set_refuses_what_is_too_much() {
    let place = Place::new();
    for (flag, value) in
        [("--title", "x".repeat(501)), ("--note", "x".repeat(10_001)), ("--tag", "x".repeat(65))]
    {
        place.fails(5, &format!("links set x https://example.com/ {flag} {value}"));
    }
    place.fails(5, "links set x https://example.com/ --title 'a\u{1b}[2Jb'").says("control characters");
    let tags = (0..51).map(|n| format!("--tag t{n}")).collect::<Vec<_>>().join(" ");
    place.fails(5, &format!("links set x https://example.com/ {tags}")).says("at most 50");
}

#[test]
fn set_is_used_wrongly() {
    let place = Place::new();
    for line in [
        "links set",
        "links set x",
        "links set x https://example.com/ extra",
        "links set x https://example.com/ --frobnicate",
        "links set x https://example.com/ --status many",
        "links set x https://example.com/ --https --no-https",
        "links set x https://example.com/ --allow-loop --no-loop",
        "links set x https://example.com/ --expires 2099-01-01 --no-expiry",
        "links set x https://example.com/ --title",
    ] {
        place.fails(2, line);
    }
    assert!(!place.path("rlinks-data").exists(), "nothing was opened");
}

#[test]
fn a_dry_run_shows_each_change_and_writes_nothing() {
    let place = Place::new().with("RMAX_DOMAIN", "rmax.to");
    assert_snapshot!(place.rmax("links set x https://example.com/ --tag a --dry-run"), @"
    exit 0
    --- stdout
    would create https://rmax.to/x
        target: https://example.com/
        state: active
        redirect_status: 301
        https_only: true
        no_loop: true
        tags: a
    ");
    assert_eq!(place.changes(), 1, "not even the configured domain is entered");
    place.fails(5, "links set x https://rmax.to/y --dry-run").says("a domain served here");
    place.ok("links set x https://example.com/ --tag a");
    let (changes, link) = (place.changes(), place.link("x"));
    assert_snapshot!(place.rmax("links set x https://example.com/2 --tag b --expires 2099-01-01 --title T --dry-run"), @"
    exit 0
    --- stdout
    would update https://rmax.to/x
        target: https://example.com/ -> https://example.com/2
        expires_at: 2099-01-01T00:00:00Z
        title: T
        tags: a -> a, b
    ");
    assert_snapshot!(place.rmax("links set x https://example.com/ --dry-run"), @"
    exit 0
    --- stdout
    unchanged https://rmax.to/x
    ");
    assert_snapshot!(place.rmax("--json links set x https://example.com/2 --dry-run"), @r#"
    exit 0
    --- stdout
    {
      "dry_run": true,
      "outcome": "updated",
      "changes": [
        {
          "field": "target",
          "before": "https://example.com/",
          "after": "https://example.com/2"
        }
      ],
      "link": {
        "v": 1,
        "code": "x",
        "target": "https://example.com/2",
        "status": "active",
        "created_at": "<time>",
        "updated_at": "<time>",
        "created_by": "max@rmax.ai",
        "meta": {
          "notes": null,
          "tags": [
            "a"
          ]
        },
        "rules": {
          "https_only": true,
          "no_loop": true,
          "expires_at": null
        },
        "stats": {
          "hits": 0,
          "last_hit": null
        }
      }
    }
    "#);
    place.fails(5, "links set x http://example.com/ --dry-run");
    place.fails(5, "links set y nonsense --dry-run");
    assert_eq!((place.changes(), place.link("x")), (changes, link));
}

#[test]
fn a_deleted_code_is_refused_with_the_ways_out() {
    let place = Place::new();
    place.ok("links set x https://example.com/ --tag a --title T");
    place.ok("links delete x --yes");
    assert_snapshot!(place.rmax("links set x https://example.com/other"), @"
    exit 4
    --- stderr
    error: the code `x` is taken by a deleted link
    hint: `rmax links restore x` brings the deleted link back as it was
    hint: `rmax links set x <url> --recreate` makes a new link of it
    ");
    assert_snapshot!(place.rmax("--json links set x https://example.com/other"), @r#"
    exit 4
    --- stderr
    {"error":{"code":"CODE_TAKEN","status":409,"message":"the code `x` is taken by a deleted link","details":{"deleted":true},"ts":"<time>"}}
    "#);
    place.fails(4, "links set x https://example.com/other --dry-run");
    place.fails(4, "shorten https://example.com/other --code x");
    place.fails(3, "links disable x");
    place.fails(3, "links enable x");
    place.fails(3, "links delete x --yes");

    assert_snapshot!(place.rmax("links restore x"), @"
    exit 0
    --- stdout
    restored http://127.0.0.1:8080/x -> https://example.com/
    ");
    assert_eq!(place.link("x")["title"], "T");
    place.ok("links delete x --yes");
    place.ok("links set x https://example.com/new --recreate");
    let link = place.link("x");
    assert_eq!((&link["title"], &link["meta"]["tags"]), (&Value::Null, &json!([])));
    // On a living link the flag changes nothing.
    place.ok("links set x https://example.com/newer --recreate");
}

#[test]
fn a_disabled_link_comes_back_disabled() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    place.ok("links disable x");
    place.ok("links delete x --yes");
    place.ok("links restore x");
    assert_eq!(place.link("x")["status"], "disabled");
}

#[test]
fn delete_asks_or_is_told() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    assert_snapshot!(place.rmax("links delete x"), @"
    exit 2
    --- stderr
    error: deleting a link needs --yes where nobody can be asked
    hint: `rmax links disable x` only switches it off
    ");
    assert_eq!(place.link("x")["status"], "active");
    assert_snapshot!(place.rmax("links delete x --yes"), @"
    exit 0
    --- stdout
    deleted http://127.0.0.1:8080/x -> https://example.com/
    ");
    place.fails(3, "links delete nope --yes");
}

#[test]
fn delete_looks_before_it_asks() {
    let place = Place::new();
    place.fails(3, "links delete nope").says("there is no link `nope`");
}

#[test]
fn a_search_without_a_word_and_an_empty_tag_are_refused() {
    let place = Place::new();
    for search in ["''", "'*'", "'!!'", "' '"] {
        place.fails(2, &format!("links list --search {search}")).says("`--search` has no word in it");
    }
    for tag in ["''", "' '"] {
        place.fails(2, &format!("links list --tag {tag}")).says("`--tag` is empty");
    }
}

#[test]
fn each_state_as_json_is_the_route_object() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    for (line, status) in [
        ("links disable x --json", "disabled"),
        ("links enable x --json", "active"),
        ("links delete x --yes --json", "deleted"),
        ("links restore x --json", "active"),
    ] {
        assert_eq!(place.json(line)["status"], status, "{line}");
    }
}

#[test]
fn what_is_not_there_cannot_be_changed() {
    let place = Place::new();
    for line in
        ["links disable x", "links enable x", "links restore x", "links history x", "links delete x --yes"]
    {
        place.fails(3, line);
    }
}

#[test]
fn history_tells_every_change() {
    let place = Place::new();
    place.ok("links set x https://example.com/ --tag a");
    place.ok("links set x https://example.com/2 --tag b");
    place.ok("links disable x");
    place.ok("links delete x --yes");
    assert_snapshot!(place.rmax("links history X"), @"
    exit 0
    --- stdout
    <time>  max@rmax.ai  link.create
        target: https://example.com/
        state: active
        redirect_status: 301
        https_only: true
        no_loop: true
        tags: a
    <time>  max@rmax.ai  link.update
        target: https://example.com/ -> https://example.com/2
        tags: a -> a, b
    <time>  max@rmax.ai  link.disable
        state: active -> disabled
    <time>  max@rmax.ai  link.delete
        state: disabled -> deleted
    ");
    let entries = place.json("links history x --json");
    assert_eq!(entries.as_array().unwrap().len(), 4);
    assert_eq!(entries[1]["action"], "link.update");
    assert_eq!(entries[1]["before"]["target"], "https://example.com/");
}

#[test]
fn what_somebody_stored_cannot_drive_a_terminal() {
    let place = Place::new();
    place.ok("links set x https://example.com/ --title t");
    place.tamper("update links set title = 'a' || char(27) || '[2J' || char(10) || 'b'");
    assert_snapshot!(place.rmax("links list"), @r"
    exit 0
    --- stdout
    CODE  STATE   TARGET                TITLE
    x     active  https://example.com/  a\u001b[2J\u000ab
    ");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    let line = format!("set -o pipefail; {} links list --limit 10000 | true", env!("CARGO_BIN_EXE_rmax"));
    let ran =
        std::process::Command::new("bash").arg("-c").arg(line).current_dir(place.path("")).output().unwrap();
    assert_eq!((ran.status.code(), String::from_utf8(ran.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn a_target_of_the_greatest_length_is_listed() {
    let place = Place::new();
    place.ok("workspaces create many --preset team");
    let target = format!("https://a.example/{}", "x".repeat(65_536 - 18));
    place.ok(&format!("--workspace many links set long {target}"));
    let listed = place.ok("--workspace many links list");
    assert!(listed.stdout.contains(&target), "where no terminal is, nothing is cut off");
}

#[test]
fn links_of_our_own_never_lead_in_circles() {
    let place = Place::new();
    // Without a domain the address we listen on is ours.
    place.fails(5, "links set one http://127.0.0.1:8080/one --no-https --allow-loop").says("in circles");
    place.ok("links set one http://127.0.0.1:8080/two --no-https --allow-loop");
    place.fails(5, "links set two http://127.0.0.1:8080/one --no-https --allow-loop").says("in circles");
    place.ok("links set two http://127.0.0.2:8080/one --no-https --allow-loop");
}

#[test]
fn what_one_would_want_to_know_of_a_new_link_is_said() {
    let place = Place::new();
    place.ok("links set over https://example.com/ --expires 2030-01-01T10:00Z");
    assert_eq!(place.link("over")["rules"]["expires_at"], "2030-01-01T10:00:00Z");
    place.tamper("update links set expires_at = 1577836800000");
    let said = place.ok("links set over https://example.com/other");
    said.says("it expired at 2020-01-01T00:00:00Z, so no visitor is redirected");
    place.ok("links set alike https://g\u{43e}ogle.com/").says("xn--gogle-jye.com is g\u{43e}ogle.com");
    let quiet = place.ok("-q links set plain https://example.com/");
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
}

#[test]
fn another_link_for_the_same_page_is_named() {
    let place = Place::new();
    place.ok("workspaces create we --preset team");
    let made = |url: &str| {
        let url = place.ok(&format!("--workspace we shorten {url}")).stdout;
        url.trim().rsplit('/').next().unwrap().to_owned()
    };
    let (one, two) = (made("https://example.com/1"), made("https://example.com/2"));
    let refused = place.fails(4, &format!("--workspace we links set {two} https://example.com/1"));
    refused.says(&format!("the link `{one}` has this target already"));
}
