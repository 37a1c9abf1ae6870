//! What Cloudflare's API may do to us, and what is said then. The token is in none of it.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::cloudflare::{CloudflareSandbox, HITS, ROUTES, TOKEN};
use crate::support::sandbox::CommandOutput;

fn no_canary(ran: &CommandOutput) {
    assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN), "{ran}");
}

#[test]
fn transient_api_errors_are_retried() {
    let edge = CloudflareSandbox::new();
    edge.fault("/values/route:a", 429, 2, &json!({ "headers": { "retry-after": "0" } }));
    edge.ok("links set a https://example.com/");
    edge.fault("/values/route:a", 503, 2, &json!({}));
    assert_eq!(edge.json("links get a")["target"], "https://example.com/");
    edge.fault("PUT .*/values/route:a", 500, 1, &json!({}));
    edge.ok("links disable a");
    assert_eq!(edge.get(ROUTES, "route:a").unwrap()["status"], "disabled");
    let tries = |what: &str| edge.asked().iter().filter(|line| line.ends_with(what)).count();
    assert_eq!(
        edge.asked().iter().filter(|line| line.starts_with("PUT") && line.ends_with("route:a")).count(),
        3
    );
    assert!(tries("route:a") > 8);
}

#[test]
fn permanent_api_errors_map_to_exit_codes() {
    let edge = CloudflareSandbox::new();
    edge.ok("links set a https://example.com/");
    let check = |matching: &str, status: u16, more: serde_json::Value, line: &str, code: i32| {
        edge.fault(matching, status, 100, &more);
        let ran = edge.fails(code, line);
        no_canary(&ran);
        ran
    };
    let echo = json!({ "code": 10000, "message": format!("Authentication error: {TOKEN}") });
    assert_snapshot!(check("GET", 403, echo.clone(), "links get a", 7), @"
    exit 7
    --- stderr
    error: the token in CLOUDFLARE_API_TOKEN may not read Cloudflare's namespace 11111111111111111111111111111111 (links) (10000 Authentication error: ***)
    hint: it needs the permission Account > Workers KV Storage > Read (to change links: Edit) for account acc; it may also be expired, revoked or mistyped
    ");
    assert_snapshot!(check("PUT", 403, echo.clone(), "links set a https://example.com/b", 7), @"
    exit 7
    --- stderr
    error: the token in CLOUDFLARE_API_TOKEN may not write to Cloudflare's namespace 11111111111111111111111111111111 (links) (10000 Authentication error: ***)
    hint: it needs the permission Account > Workers KV Storage > Edit for account acc; it may also be expired, revoked or mistyped
    ");
    assert_snapshot!(check("GET", 401, echo.clone(), "links get a --json", 7), @r#"
    exit 7
    --- stderr
    {"error":{"code":"UNAUTHENTICATED","status":401,"message":"the token in CLOUDFLARE_API_TOKEN may not read Cloudflare's namespace 11111111111111111111111111111111 (links) (10000 Authentication error: ***)","details":null,"ts":"<time>"}}
    "#);
    assert_snapshot!(check("GET", 400, echo, "links get a", 7), @"
    exit 7
    --- stderr
    error: the token in CLOUDFLARE_API_TOKEN may not read Cloudflare's namespace 11111111111111111111111111111111 (links) (10000 Authentication error: ***)
    hint: it needs the permission Account > Workers KV Storage > Read (to change links: Edit) for account acc; it may also be expired, revoked or mistyped
    ");
    assert_snapshot!(check("GET", 429, json!({ "headers": { "retry-after": "3600" } }), "links get a", 6), @"
    exit 6
    --- stderr
    error: Cloudflare is asked too often and wants a pause of 3600 seconds
    hint: a command waits 330 seconds in all; an account may ask 1,200 times in five minutes, so repeat it later
    ");
    assert_snapshot!(check("GET", 502, json!({ "raw": "<html>" }), "links get a", 6), @"
    exit 6
    --- stderr
    error: Cloudflare's namespace 11111111111111111111111111111111 (links) cannot answer now (status 502)
    ");
    assert_snapshot!(check("GET", 200, json!({ "raw": "<html>" }), "links list", 1), @"
    exit 1
    --- stderr
    error: 127.0.0.1 does not answer like Cloudflare's API (status 200)
    ");
    assert_snapshot!(check("GET", 404, json!({ "code": 10013, "message": "namespace not found" }), "links list", 2), @"
    exit 2
    --- stderr
    error: there is no namespace 11111111111111111111111111111111 (links)
    hint: `wrangler kv namespace list` shows the ids; they are `cloudflare.routes` and `cloudflare.hits` of the environment
    ");
    check("GET", 404, json!({ "raw": "<html>" }), "links get a", 1).says("does not answer like");
    assert_snapshot!(check("GET", 404, json!({ "code": 7003, "message": "Could not route" }), "links list", 2), @"
    exit 2
    --- stderr
    error: Cloudflare knows no account acc (7003 Could not route)
    hint: `cloudflare.account_id` of the environment is shown on every page of Cloudflare's dashboard
    ");
    assert_snapshot!(check("GET", 302, json!({ "raw": "", "headers": { "location": "http://127.0.0.1:1/" } }), "links list", 1), @"
    exit 1
    --- stderr
    error: 127.0.0.1 does not answer like Cloudflare's API (status 302)
    ");
    // A log that cannot be written is said; the change is made.
    assert_snapshot!(check(&format!("PUT .*{HITS}"), 403, json!({}), "links disable a", 7), @"
    exit 7
    --- stderr
    error: the token in CLOUDFLARE_API_TOKEN may not write to Cloudflare's namespace 22222222222222222222222222222222 (hits) (10001 injected)
    hint: it needs the permission Account > Workers KV Storage > Edit for account acc; it may also be expired, revoked or mistyped
    hint: link `a` is changed, and the log of changes does not tell of it: the change itself need not be repeated
    ");
    assert_eq!(edge.get(ROUTES, "route:a").unwrap()["status"], "disabled");
}

#[test]
fn rejected_bulk_keys_are_retried_or_reported() {
    let edge = CloudflareSandbox::new();
    let v0 = r#"{"v":0,"code":"old","url":"https://example.com/old","enabled":true}"#;
    edge.put(ROUTES, "route:old", v0);
    let left = json!({ "result": { "successful_key_count": 0, "unsuccessful_keys": ["route:old"] } });
    edge.fault("PUT .*/bulk$", 200, 1, &left);
    edge.ok("links migrate");
    assert_eq!(edge.get(ROUTES, "route:old").unwrap()["v"], 1);
    edge.put(ROUTES, "route:old", v0);
    edge.fault("PUT .*/bulk$", 200, 100, &left);
    edge.fails(6, "links migrate").says("route:old");
}

#[test]
fn api_token_comes_from_the_environment_and_is_never_printed() {
    let edge = CloudflareSandbox::new();
    for line in [
        "links set a https://example.com/",
        "links list -vv",
        "links get nobody -vv",
        "links migrate --json -vv",
    ] {
        no_canary(&edge.sandbox.rmax(&format!("--env edge {line}")));
    }
    no_canary(&edge.sandbox.rmax("serve --print-config --env edge"));
    let edge_place = edge.sandbox.path("rmax.toml");
    let text = std::fs::read_to_string(&edge_place).unwrap();
    std::fs::write(&edge_place, format!("{text}\n[env.bad]\ncloudflare = {{ token = \"x\" }}\n")).unwrap();
    edge.fails(2, "links list").says("never read from a file");
    std::fs::write(&edge_place, &text).unwrap();
    let unset = |name: &str, value: &str| {
        let mut command = edge.sandbox.command("--env edge links list");
        command.env(name, value);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_snapshot!(unset("CLOUDFLARE_API_TOKEN", "").1, @"
    error: environment `edge` points at Cloudflare, and CLOUDFLARE_API_TOKEN with a token to it is not set
    hint: Cloudflare's dashboard makes one under My Profile > API Tokens; it needs Account > Workers KV Storage > Edit
    ");
    assert_eq!(unset("CLOUDFLARE_API_TOKEN", "").0, Some(2));
    let (code, said) = unset("CLOUDFLARE_API_TOKEN", "two words");
    assert!(code == Some(2) && !said.contains("two words"), "{said}");
    let (code, said) = unset("CLOUDFLARE_API_BASE_URL", "http://api.example.com/client/v4");
    assert!(code == Some(2) && said.contains("in the clear"), "{said}");
    assert_eq!(unset("CLOUDFLARE_API_BASE_URL", "http://127.0.0.1:1/client/v4").0, Some(6));
}
