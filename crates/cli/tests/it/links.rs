//! `rmax links`: every flag and every way to go wrong.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::sandbox::Sandbox;

fn codes(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|link| link["code"].as_str().unwrap()).collect()
}

#[track_caller]
fn lists(sandbox: &Sandbox, flags: &str, expected: &[&str]) {
    assert_eq!(codes(&sandbox.json(&format!("links list --json {flags}"))), expected, "{flags}");
}

fn some_links() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("links set guide https://docs.example.com/start --title 'The manual' --tag work");
    sandbox.ok("links set blog https://blog.example.com/ --tag work --tag public");
    sandbox.ok("links set guide-api https://api.example.com/ --note 'for programmers'");
    sandbox.ok("links set old https://old.example.com/");
    sandbox.ok("links disable old");
    sandbox.ok("links set gone https://gone.example.com/");
    sandbox.ok("links delete gone --yes");
    sandbox
}

#[test]
fn list_shows_active_links_newest_first() {
    let sandbox = some_links();
    lists(&sandbox, "", &["guide-api", "blog", "guide"]);
    lists(&sandbox, "--show-disabled", &["old", "guide-api", "blog", "guide"]);
    lists(&sandbox, "--show-deleted", &["gone", "guide-api", "blog", "guide"]);
    lists(&sandbox, "--show-disabled --show-deleted", &["gone", "old", "guide-api", "blog", "guide"]);
}

#[test]
fn list_filters_by_prefix_tag_search_and_limit() {
    let sandbox = some_links();
    lists(&sandbox, "--prefix guide", &["guide-api", "guide"]);
    lists(&sandbox, "--prefix GUIDE", &["guide-api", "guide"]);
    lists(&sandbox, "--prefix nothing", &[]);
    lists(&sandbox, "--prefix '%'", &[]);
    lists(&sandbox, "--tag work", &["blog", "guide"]);
    lists(&sandbox, "--tag public --prefix b", &["blog"]);
    lists(&sandbox, "--search manual", &["guide"]);
    lists(&sandbox, "--search 'example prog'", &["guide-api"]);
    lists(&sandbox, "--limit 1", &["guide-api"]);
}

#[test]
fn list_prints_an_aligned_table() {
    let sandbox = some_links();
    assert_snapshot!(sandbox.rmax("links list --show-disabled"), @"
    exit 0
    --- stdout
    CODE       STATE     TARGET                          TITLE       TAGS
    old        disabled  https://old.example.com/
    guide-api  active    https://api.example.com/
    blog       active    https://blog.example.com/                   public, work
    guide      active    https://docs.example.com/start  The manual  work
    ");
    assert_snapshot!(sandbox.rmax("links list --limit 1"), @"
    exit 0
    --- stdout
    CODE       STATE   TARGET
    guide-api  active  https://api.example.com/
    --- stderr
    hint: there are more than 1; show more with --limit
    ");
    assert_snapshot!(sandbox.rmax("links list --prefix nothing"), @"
    exit 0
    --- stderr
    no links
    ");
    assert_snapshot!(sandbox.rmax("-q links list --prefix nothing"), @"exit 0");
}

#[test]
fn list_json_matches_the_output_of_get() {
    let sandbox = some_links();
    assert_eq!(sandbox.json("links list --json --prefix blog"), json!([sandbox.link("blog")]));
}

#[test]
fn expired_link_is_listed_as_expired() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set brief https://example.com/ --expires 2099-01-01");
    sandbox.tamper("update links set expires_at = 1577836800000");
    assert_snapshot!(sandbox.rmax("links list"), @"
    exit 0
    --- stdout
    CODE   STATE    TARGET                EXPIRES
    brief  expired  https://example.com/  2020-01-01T00:00:00Z
    ");
    lists(&sandbox, "", &["brief"]);
}

#[test]
fn list_takes_a_limit_from_1_to_10000() {
    let sandbox = Sandbox::new();
    for limit in ["0", "10001", "-1", "x"] {
        sandbox.fails(2, &format!("links list --limit {limit}"));
    }
    sandbox.ok("links list --limit 10000");
}

#[test]
fn get_of_an_unknown_or_deleted_code_is_not_found() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.rmax("links get nope"), @"
    exit 3
    --- stderr
    error: there is no link `nope`
    hint: `rmax links list` shows the ones there are; `rmax links set` makes one
    hint: sqlite:rlinks-data/rlinks.db is new and empty: is it the right one? Choose with --data or --env
    ");
    sandbox.ok("links set x https://example.com/");
    assert_snapshot!(sandbox.rmax("links get nope"), @"
    exit 3
    --- stderr
    error: there is no link `nope`
    hint: `rmax links list` shows the ones there are; `rmax links set` makes one
    ");
    assert_snapshot!(sandbox.rmax("--json links get nope"), @r#"
    exit 3
    --- stderr
    {"error":{"code":"NOT_FOUND","status":404,"message":"there is no link `nope`","details":null,"ts":"<time>"}}
    "#);
    sandbox.fails(3, "links get 'no code at all'");
    sandbox.ok("links delete x --yes");
    assert_snapshot!(sandbox.rmax("links get x"), @"
    exit 3
    --- stderr
    error: the link `x` was deleted
    hint: `rmax links restore x` brings it back
    ");
}

#[test]
fn get_at_a_time_shows_the_link_as_it_was() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/first");
    let first = sandbox.link("x")["updated_at"].as_str().unwrap().to_owned();
    sandbox.ok("links set x https://example.com/second");
    sandbox.ok("links delete x --yes");
    assert_eq!(sandbox.json(&format!("links get x --at {first}"))["target"], "https://example.com/first");
    sandbox.fails(3, "links get x --at 2020-01-01").says("at 2020-01-01T00:00:00Z");
    sandbox.fails(3, "links get x --at 2099-01-01");
    let ran = sandbox.fails(5, "--json links get x --at yesterday");
    assert_eq!(ran.error()["details"]["fields"][0]["field"], "at");
}

#[test]
fn set_keeps_fields_that_are_not_given() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/ --title T --note N --tag b --tag a --status 302 --allow-loop --no-https --expires 2099-01-01");
    sandbox.ok("links set x https://example.com/2");
    let link = sandbox.link("x");
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
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/ --title T --note N --tag a");
    sandbox.ok("links set x https://example.com/ --tag b --tag c --untag a");
    assert_eq!(sandbox.link("x")["meta"]["tags"], json!(["b", "c"]));
    sandbox.ok("links set x https://example.com/ --title '' --note ''");
    assert_eq!(
        (&sandbox.link("x")["title"], &sandbox.link("x")["meta"]["notes"]),
        (&Value::Null, &Value::Null)
    );
    for status in [302, 307, 308] {
        sandbox.ok(&format!("links set x https://example.com/ --status {status}"));
        assert_eq!(sandbox.link("x")["redirect_status"], status);
    }
    sandbox.ok("links set x https://example.com/ --status 301");
    assert_eq!(sandbox.link("x")["redirect_status"], Value::Null);
    sandbox.ok("links set x https://example.com/ --note '-- a dash'");
    assert_eq!(sandbox.link("x")["meta"]["notes"], "-- a dash");
}

#[test]
fn set_prints_created_updated_or_unchanged() {
    let sandbox = Sandbox::new().with("RMAX_DOMAIN", "rmax.to");
    assert_snapshot!(sandbox.rmax("links set parity https://example.com/"), @"
    exit 0
    --- stdout
    created https://rmax.to/parity -> https://example.com/
    ");
    assert_snapshot!(sandbox.rmax("links set parity https://example.com/2"), @"
    exit 0
    --- stdout
    updated https://rmax.to/parity -> https://example.com/2
    ");
    assert_snapshot!(sandbox.rmax("links set parity https://example.com/2"), @"
    exit 0
    --- stdout
    unchanged https://rmax.to/parity -> https://example.com/2
    ");
}

#[test]
fn set_reports_all_invalid_fields_at_once() {
    let sandbox = Sandbox::new();
    let line = "links set api ftp://example.com --status 303 --expires 2020-01-01 --tag 'a,b'";
    assert_snapshot!(sandbox.rmax(line), @"
    exit 5
    --- stderr
    error: code: `api` is a word the server keeps; choose another
    error: target: must begin with https:// or http://; other schemes are not served
    error: redirect_status: must be 301, 302, 307 or 308
    error: expires_at: is already over (2020-01-01T00:00:00Z); give a time to come
    error: tags: has a comma in a tag; give each tag by itself
    ");
    assert_snapshot!(sandbox.rmax(&format!("--json {line}")), @r#"
    exit 5
    --- stderr
    {"error":{"code":"VALIDATION_FAILED","status":400,"message":"Some fields break a rule","details":{"fields":[{"code":"reserved","field":"code","message":"`api` is a word the server keeps; choose another"},{"code":"scheme","field":"target","message":"must begin with https:// or http://; other schemes are not served"},{"code":"bad_status","field":"redirect_status","message":"must be 301, 302, 307 or 308"},{"code":"past","field":"expires_at","message":"is already over (2020-01-01T00:00:00Z); give a time to come"},{"code":"bad_characters","field":"tags","message":"has a comma in a tag; give each tag by itself"}]},"ts":"<time>"}}
    "#);
    assert_eq!(sandbox.changes(), 1, "only what the first start makes");
}

#[test]
fn set_rejects_values_over_the_limits() {
    let sandbox = Sandbox::new();
    for (flag, value) in
        [("--title", "x".repeat(501)), ("--note", "x".repeat(10_001)), ("--tag", "x".repeat(65))]
    {
        sandbox.fails(5, &format!("links set x https://example.com/ {flag} {value}"));
    }
    sandbox.fails(5, "links set x https://example.com/ --title 'a\u{1b}[2Jb'").says("control characters");
    let tags = (0..51).map(|n| format!("--tag t{n}")).collect::<Vec<_>>().join(" ");
    sandbox.fails(5, &format!("links set x https://example.com/ {tags}")).says("at most 50");
}

#[test]
fn set_usage_errors_exit_with_2() {
    let sandbox = Sandbox::new();
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
        sandbox.fails(2, line);
    }
    assert!(!sandbox.path("rlinks-data").exists(), "nothing was opened");
}

#[test]
fn a_dry_run_shows_each_change_and_writes_nothing() {
    let sandbox = Sandbox::new().with("RMAX_DOMAIN", "rmax.to");
    assert_snapshot!(sandbox.rmax("links set x https://example.com/ --tag a --dry-run"), @"
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
    assert_eq!(sandbox.changes(), 1, "not even the configured domain is entered");
    sandbox.fails(5, "links set x https://rmax.to/y --dry-run").says("a domain served here");
    sandbox.ok("links set x https://example.com/ --tag a");
    let (changes, link) = (sandbox.changes(), sandbox.link("x"));
    assert_snapshot!(sandbox.rmax("links set x https://example.com/2 --tag b --expires 2099-01-01 --title T --dry-run"), @"
    exit 0
    --- stdout
    would update https://rmax.to/x
        target: https://example.com/ -> https://example.com/2
        expires_at: 2099-01-01T00:00:00Z
        title: T
        tags: a -> a, b
    ");
    assert_snapshot!(sandbox.rmax("links set x https://example.com/ --dry-run"), @"
    exit 0
    --- stdout
    unchanged https://rmax.to/x
    ");
    assert_snapshot!(sandbox.rmax("--json links set x https://example.com/2 --dry-run"), @r#"
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
    sandbox.fails(5, "links set x http://example.com/ --dry-run");
    sandbox.fails(5, "links set y nonsense --dry-run");
    assert_eq!((sandbox.changes(), sandbox.link("x")), (changes, link));
}

#[test]
fn setting_a_deleted_code_is_refused_with_restore_and_recreate_hints() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/ --tag a --title T");
    sandbox.ok("links delete x --yes");
    assert_snapshot!(sandbox.rmax("links set x https://example.com/other"), @"
    exit 4
    --- stderr
    error: the code `x` is taken by a deleted link
    hint: `rmax links restore x` brings the deleted link back as it was
    hint: `rmax links set x <url> --recreate` makes a new link of it
    ");
    assert_snapshot!(sandbox.rmax("--json links set x https://example.com/other"), @r#"
    exit 4
    --- stderr
    {"error":{"code":"CODE_TAKEN","status":409,"message":"the code `x` is taken by a deleted link","details":{"deleted":true},"ts":"<time>"}}
    "#);
    sandbox.fails(4, "links set x https://example.com/other --dry-run");
    sandbox.fails(4, "shorten https://example.com/other --code x");
    sandbox.fails(3, "links disable x");
    sandbox.fails(3, "links enable x");
    sandbox.fails(3, "links delete x --yes");

    assert_snapshot!(sandbox.rmax("links restore x"), @"
    exit 0
    --- stdout
    restored http://127.0.0.1:8080/x -> https://example.com/
    ");
    assert_eq!(sandbox.link("x")["title"], "T");
    sandbox.ok("links delete x --yes");
    sandbox.ok("links set x https://example.com/new --recreate");
    let link = sandbox.link("x");
    assert_eq!((&link["title"], &link["meta"]["tags"]), (&Value::Null, &json!([])));
    // On a living link the flag changes nothing.
    sandbox.ok("links set x https://example.com/newer --recreate");
}

#[test]
fn restored_link_keeps_its_disabled_state() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    sandbox.ok("links disable x");
    sandbox.ok("links delete x --yes");
    sandbox.ok("links restore x");
    assert_eq!(sandbox.link("x")["status"], "disabled");
}

#[test]
fn delete_needs_confirmation_or_the_yes_flag() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    assert_snapshot!(sandbox.rmax("links delete x"), @"
    exit 2
    --- stderr
    error: deleting a link needs --yes where nobody can be asked
    hint: `rmax links disable x` only switches it off
    ");
    assert_eq!(sandbox.link("x")["status"], "active");
    assert_snapshot!(sandbox.rmax("links delete x --yes"), @"
    exit 0
    --- stdout
    deleted http://127.0.0.1:8080/x -> https://example.com/
    ");
    sandbox.fails(3, "links delete nope --yes");
}

#[test]
fn delete_of_an_unknown_code_fails_before_confirmation() {
    let sandbox = Sandbox::new();
    sandbox.fails(3, "links delete nope").says("there is no link `nope`");
}

#[test]
fn search_without_a_word_and_empty_tag_are_rejected() {
    let sandbox = Sandbox::new();
    for search in ["''", "'*'", "'!!'", "' '"] {
        sandbox.fails(2, &format!("links list --search {search}")).says("`--search` has no word in it");
    }
    for tag in ["''", "' '"] {
        sandbox.fails(2, &format!("links list --tag {tag}")).says("`--tag` is empty");
    }
}

#[test]
fn state_changes_print_the_route_object_as_json() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    for (line, status) in [
        ("links disable x --json", "disabled"),
        ("links enable x --json", "active"),
        ("links delete x --yes --json", "deleted"),
        ("links restore x --json", "active"),
    ] {
        assert_eq!(sandbox.json(line)["status"], status, "{line}");
    }
}

#[test]
fn changing_an_unknown_link_is_not_found() {
    let sandbox = Sandbox::new();
    for line in
        ["links disable x", "links enable x", "links restore x", "links history x", "links delete x --yes"]
    {
        sandbox.fails(3, line);
    }
}

#[test]
fn history_lists_every_change() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/ --tag a");
    sandbox.ok("links set x https://example.com/2 --tag b");
    sandbox.ok("links disable x");
    sandbox.ok("links delete x --yes");
    assert_snapshot!(sandbox.rmax("links history X"), @"
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
    let entries = sandbox.json("links history x --json");
    assert_eq!(entries.as_array().unwrap().len(), 4);
    assert_eq!(entries[1]["action"], "link.update");
    assert_eq!(entries[1]["before"]["target"], "https://example.com/");
}

#[test]
fn control_characters_in_stored_text_are_escaped() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/ --title t");
    sandbox.tamper("update links set title = 'a' || char(27) || '[2J' || char(10) || 'b'");
    assert_snapshot!(sandbox.rmax("links list"), @r"
    exit 0
    --- stdout
    CODE  STATE   TARGET                TITLE
    x     active  https://example.com/  a\u001b[2J\u000ab
    ");
}

#[test]
fn closed_pipe_is_not_an_error() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    let line = format!("set -o pipefail; {} links list --limit 10000 | true", env!("CARGO_BIN_EXE_rmax"));
    let ran = std::process::Command::new("bash")
        .arg("-c")
        .arg(line)
        .current_dir(sandbox.path(""))
        .output()
        .unwrap();
    assert_eq!((ran.status.code(), String::from_utf8(ran.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn longest_target_is_listed_uncut() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces create many --preset team");
    let target = format!("https://a.example/{}", "x".repeat(65_536 - 18));
    sandbox.ok(&format!("--workspace many links set long {target}"));
    let listed = sandbox.ok("--workspace many links list");
    assert!(listed.stdout.contains(&target), "where no terminal is, nothing is cut off");
}

#[test]
fn redirect_loops_between_own_links_are_refused() {
    let sandbox = Sandbox::new();
    // Without a domain the address we listen on is ours.
    sandbox.fails(5, "links set one http://127.0.0.1:8080/one --no-https --allow-loop").says("in circles");
    sandbox.ok("links set one http://127.0.0.1:8080/two --no-https --allow-loop");
    sandbox.fails(5, "links set two http://127.0.0.1:8080/one --no-https --allow-loop").says("in circles");
    sandbox.ok("links set two http://127.0.0.2:8080/one --no-https --allow-loop");
}

/// Hostile inputs, S4.
#[test]
fn own_ipv6_address_is_a_loop_while_no_domain_is_configured() {
    let sandbox = Sandbox::new();
    sandbox.write("rmax.toml", "listen = \"[2001:db8::7]:8080\"\n");
    for host in ["[2001:db8::7]:8080", "[2001:DB8:0::7]"] {
        sandbox.fails(5, &format!("links set one http://{host}/two --no-https"));
        sandbox
            .fails(5, &format!("links set one http://{host}/one --no-https --allow-loop"))
            .says("in circles");
    }
    sandbox.ok("links set one http://[2001:db8::8]:8080/one --no-https");
}

#[test]
fn set_warns_about_expired_links_and_lookalike_targets() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set over https://example.com/ --expires 2030-01-01T10:00Z");
    assert_eq!(sandbox.link("over")["rules"]["expires_at"], "2030-01-01T10:00:00Z");
    sandbox.tamper("update links set expires_at = 1577836800000");
    let said = sandbox.ok("links set over https://example.com/other");
    said.says("it expired at 2020-01-01T00:00:00Z, so no visitor is redirected");
    sandbox.ok("links set alike https://g\u{43e}ogle.com/").says("xn--gogle-jye.com is g\u{43e}ogle.com");
    let quiet = sandbox.ok("-q links set plain https://example.com/");
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
}

#[test]
fn duplicate_target_error_names_the_existing_link() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces create we --preset team");
    let made = |url: &str| {
        let url = sandbox.ok(&format!("--workspace we shorten {url}")).stdout;
        url.trim().rsplit('/').next().unwrap().to_owned()
    };
    let (one, two) = (made("https://example.com/1"), made("https://example.com/2"));
    let refused = sandbox.fails(4, &format!("--workspace we links set {two} https://example.com/1"));
    refused.says(&format!("the link `{one}` has this target already"));
}
