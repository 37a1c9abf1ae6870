//! `rmax shorten` and `rmax explain`.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::sandbox::Sandbox;

/// The code at the end of a short URL.
fn code(url: &str) -> &str {
    url.trim().rsplit('/').next().unwrap()
}

#[test]
fn shorten_prints_only_the_short_url() {
    let sandbox = Sandbox::new().with("RMAX_DOMAIN", "rmax.to");
    let ran = sandbox.ok("shorten https://example.com/a/long/one");
    let url = ran.stdout.strip_prefix("https://rmax.to/").and_then(|rest| rest.strip_suffix('\n')).unwrap();
    assert!(
        url.len() == 7 && url.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
        "{url}"
    );
    assert_eq!(ran.stderr, "");
    // `fabric` makes a new link each time.
    assert_ne!(sandbox.ok("shorten https://example.com/a/long/one").stdout, ran.stdout);
}

#[test]
fn shorten_flags_set_link_fields() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.rmax("shorten https://example.com/ --code guide --title T --tag a --tag b --expires 2099-01-01"), @"
    exit 0
    --- stdout
    http://127.0.0.1:8080/guide
    ");
    let link = sandbox.link("guide");
    assert_eq!((&link["title"], &link["meta"]["tags"]), (&json!("T"), &json!(["a", "b"])));
    assert_eq!(link["rules"]["expires_at"], "2099-01-01T00:00:00Z");
    assert_snapshot!(sandbox.rmax("shorten https://example.com/ --code guide"), @"
    exit 4
    --- stderr
    error: the code `guide` is taken
    hint: `rmax links get guide` shows it; `rmax links set guide <url>` changes it
    ");
    sandbox.fails(5, "shorten http://example.com/");
    sandbox.ok("shorten http://example.com/ --no-https");
    sandbox.fails(5, "shorten https://example.com/ --expires 2020-01-01");
    sandbox.fails(2, "shorten");
}

#[test]
fn a_qr_code_is_drawn_below_the_url() {
    let sandbox = Sandbox::new();
    let drawn = sandbox.ok("shorten https://example.com/ --code guide --qr").stdout;
    let mut lines = drawn.lines();
    assert_eq!(lines.next(), Some("http://127.0.0.1:8080/guide"));
    let rest: Vec<&str> = lines.collect();
    assert!(rest.len() > 10 && rest.iter().all(|line| line.chars().all(|c| " █▀▄".contains(c))), "{drawn}");
}

#[test]
fn team_preset_reuses_the_link_of_a_target() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces create crew --preset team");
    sandbox.ok("--workspace crew domains add crew.example");
    let first = sandbox.ok("--workspace crew shorten https://example.com/page?utm_source=mail").stdout;
    assert_eq!(sandbox.ok("--workspace crew shorten https://example.com/page").stdout, first);

    let again = sandbox.ok("--workspace crew shorten https://example.com/page --title T");
    assert_eq!(again.stdout, first);
    again.says("not applied: title");
    let body = sandbox.json("--workspace crew --json shorten https://example.com/page --tag a");
    assert_eq!(
        (&body["reused"], &body["revived"], &body["not_applied"]),
        (&json!(true), &json!(false), &json!(["tags"]))
    );

    sandbox.ok(&format!("--workspace crew links delete {} --yes", code(&first)));
    let body = sandbox.json("--workspace crew --json shorten https://example.com/page --tag a");
    assert_eq!((&body["reused"], &body["revived"]), (&json!(true), &json!(true)));
    assert_eq!((&body["short_url"], &body["meta"]["tags"]), (&json!(first.trim()), &json!(["a"])));
}

#[test]
fn generated_code_length_depends_on_the_preset() {
    let sandbox = Sandbox::new();
    for (preset, length) in [("fabric", 7), ("edge", 8), ("platform", 10), ("team", 10)] {
        sandbox.ok(&format!("workspaces create {preset} --preset {preset}"));
        let made = sandbox.ok(&format!("--workspace {preset} shorten https://example.com/")).stdout;
        assert_eq!(code(&made).len(), length, "{preset}: {made}");
    }
}

#[test]
fn short_url_follows_the_configuration() {
    let check = |sandbox: &Sandbox, url: &str| {
        let made = sandbox.ok("shorten https://example.com/").stdout;
        assert_eq!(made.trim().rsplit_once('/').unwrap().0, url);
    };
    check(&Sandbox::new(), "http://127.0.0.1:8080");
    check(&Sandbox::new().with("RMAX_LISTEN", "0.0.0.0:9000"), "http://127.0.0.1:9000");
    check(&Sandbox::new().with("RMAX_PUBLIC_URL", "https://go.example/"), "https://go.example");
    check(&Sandbox::new().with("RMAX_BASE_DOMAIN", "links.example"), "https://main.links.example");
    let sandbox =
        Sandbox::new().with("RMAX_DOMAIN", "rmax.to").with("RMAX_PUBLIC_URL", "https://go.example/");
    check(&sandbox, "https://rmax.to");
    check(&sandbox.with("RMAX_PUBLIC_SCHEME", "http"), "http://rmax.to");
}

#[test]
fn explain_prints_each_step_of_a_redirect() {
    let sandbox = Sandbox::new().with("RMAX_DOMAIN", "rmax.to");
    sandbox.ok("links set parity https://example.com/ --expires 2099-01-01");
    assert_snapshot!(sandbox.rmax("explain parity"), @"
    exit 0
    --- stdout
    rmax.to/parity
      host    rmax.to is answered by workspace main
      code    parity
      link    leads to https://example.com/
      state   active
      expiry  until 2099-01-01T00:00:00Z
      https   required, and it is https
      loop    example.com is not ours
      answer  301 to https://example.com/ (private, max-age=0)
    ");
    assert_snapshot!(sandbox.rmax("explain parity --at 2099-06-01"), @"
    exit 0
    --- stdout
    rmax.to/parity
      host    rmax.to is answered by workspace main
      code    parity
      link    leads to https://example.com/
      state   active
      expiry  expired at 2099-01-01T00:00:00Z
      answer  410 EXPIRED
    ");
    assert_snapshot!(sandbox.rmax("explain https://rmax.to/Parity?x=1"), @"
    exit 0
    --- stdout
    rmax.to/Parity
      host    rmax.to is answered by workspace main
      code    Parity
      link    leads to https://example.com/
      state   active
      expiry  until 2099-01-01T00:00:00Z
      https   required, and it is https
      loop    example.com is not ours
      answer  301 to https://example.com/ (private, max-age=0)
    ");
    assert_snapshot!(sandbox.rmax("explain https://other.example/parity"), @"
    exit 0
    --- stdout
    other.example/parity
      host    other.example belongs to no workspace here
      answer  404 NOT_FOUND
    ");
    assert_snapshot!(sandbox.rmax("explain rmax.to/parity/more"), @"
    exit 0
    --- stdout
    rmax.to/parity/more
      host    rmax.to is answered by workspace main
      path    /parity/more is no path a link can have
      answer  404 NOT_FOUND
    ");
    assert_snapshot!(sandbox.rmax("--json explain nope"), @r#"
    exit 0
    --- stdout
    {
      "address": "rmax.to/nope",
      "steps": [
        {
          "step": "host",
          "result": "rmax.to is answered by workspace main"
        },
        {
          "step": "code",
          "result": "nope"
        },
        {
          "step": "link",
          "result": "there is none with this code"
        },
        {
          "step": "answer",
          "result": "404 NOT_FOUND"
        }
      ],
      "status": 404,
      "location": null,
      "error": "NOT_FOUND"
    }
    "#);
    assert_eq!(sandbox.json("explain parity --json")["location"], "https://example.com/");
    sandbox.fails(5, "explain parity --at sometime");
}

#[test]
fn explain_covers_paths_that_are_not_links() {
    let sandbox = Sandbox::new();
    let explained = |question: &str| {
        let told = sandbox.json(&format!("explain {question} --json"));
        (told["status"].as_u64().unwrap(), told["location"].as_str().map(str::to_owned))
    };
    for (path, status) in [
        ("/health", 200),
        ("/favicon.ico", 204),
        ("/admin/login", 200),
        ("/api/docs", 200),
        ("/api/v1/links", 401),
    ] {
        assert_eq!(explained(path), (status, None), "{path}");
    }
    assert_eq!(explained("/admin"), (303, Some("/admin/login".to_owned())));
    assert_eq!(explained(&format!("/{}", "x".repeat(2100))).0, 414);
    sandbox.ok("links set go https://example.com/");
    assert_eq!(explained("http://other.example/go").0, 301, "while there is no domain, every host is ours");
    // A server would enter it before it serves.
    sandbox.write("rmax.toml", "domain = \"links.example\"\n");
    assert_eq!(explained("http://other.example/go").0, 404);
    assert_eq!(explained("/go"), (301, Some("https://example.com/".to_owned())));
}
