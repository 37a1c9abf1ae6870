//! Unsafe targets at the command line: the operator is bound by the check like anybody else.

use rustix::process::Signal;

use crate::support::raw_client::wait_until;
use crate::support::sandbox::Sandbox;
use crate::support::server_process::serve;

fn with_list(text: &str) -> Sandbox {
    let sandbox = Sandbox::new().with("RMAX_SAFETY_BLOCKLIST_PATH", "blocked.txt");
    sandbox.write("blocked.txt", text);
    sandbox
}

#[test]
fn blocked_target_is_rejected_by_every_command() {
    let sandbox = with_list("evil.example\n");
    sandbox.ok("links set good https://example.com/");
    for line in [
        "links set bad https://www.evil.example/",
        "links set bad https://www.evil.example/ --dry-run",
        "links set good https://evil.example/",
        "shorten https://evil.example/x",
    ] {
        sandbox.fails(5, line).says("not safe");
    }
    let error = sandbox.fails(5, "shorten https://evil.example/ --json").error();
    assert_eq!(error["code"], "UNSAFE_TARGET");
    assert_eq!(error["details"]["source"], "blocklist");
    assert_eq!(sandbox.link("good")["target"], "https://example.com/");
    // What nobody can read is no answer.
    let sandbox = sandbox.with("RMAX_SAFETY_BLOCKLIST_PATH", "absent.txt");
    sandbox.fails(6, "links set new https://example.com/").says("absent.txt");
    sandbox.ok("links list");
    sandbox.fails(1, "serve --listen 127.0.0.1:0").says("absent.txt");
    // The daily job does the rest, and does not say that all is well.
    for flags in ["", "--dry-run"] {
        let ran = sandbox.fails(6, &format!("sweep {flags}"));
        ran.says("absent.txt");
        assert!(!ran.stdout.contains("nothing to do"), "{ran}");
    }
    let swept = sandbox.rmax("sweep --json").json();
    assert!(swept["unchecked"].as_str().unwrap().contains("absent.txt"), "{swept:#}");
}

#[test]
fn sweep_disables_links_that_became_unsafe() {
    let sandbox = with_list("");
    for code in ["one", "two", "off"] {
        sandbox.ok(&format!("links set {code} https://{code}.example/"));
    }
    sandbox.ok("links disable off");
    sandbox.write("blocked.txt", "one.example\noff.example\n");
    assert_eq!(
        sandbox.ok("sweep --dry-run").stdout,
        "main: 1 unsafe link would be disabled\n    one: it is on the block list of this installation (one.example)\n"
    );
    assert_eq!(sandbox.link("one")["status"], "active");
    let swept = sandbox.json("sweep --json");
    assert_eq!(swept["workspaces"][0]["disabled_links"], 1, "{swept:#}");
    assert_eq!(swept["workspaces"][0]["unsafe_links"][0]["code"], "one");
    assert_eq!(sandbox.link("one")["status"], "disabled");
    assert_eq!(sandbox.link("two")["status"], "active");
    assert_eq!(sandbox.ok("sweep").stdout, "nothing to do\n");
    sandbox.fails(5, "links enable one").says("block list");
    sandbox.fails(5, "links enable off").says("block list");
    sandbox.write("blocked.txt", "");
    sandbox.ok("links enable one");
    sandbox.ok("doctor");
}

#[test]
fn invalid_block_list_lines_are_logged_and_the_key_is_not() {
    let sandbox = with_list("good.example\n*.bad.example\n")
        .with("RMAX_SAFETY_SAFE_BROWSING_KEY", "canary-key")
        .with("RMAX_SAFETY_SAFE_BROWSING_URL", "http://127.0.0.1:9/")
        .with("RMAX_SAFETY_WHEN_UNAVAILABLE", "refuse");
    let server = serve(&sandbox, "");
    assert!(server.says("line=2"), "{}", server.log());
    sandbox.fails(6, "links set any https://example.com/").says("Safe Browsing cannot be reached");
    sandbox.fails(5, "links set any https://good.example/");
    sandbox.write("blocked.txt", "other.example\n");
    wait_until("the list was read again", || server.log().matches("the block list was read").count() == 2);
    assert!(!server.log().contains("canary-key"), "{}", server.log());
    let printed = sandbox.ok("serve --print-config").stdout;
    assert!(
        printed.contains("safety.safe_browsing_key = \"***\"") && !printed.contains("canary-key"),
        "{printed}"
    );
    sandbox.with("RMAX_SAFETY_WHEN_UNAVAILABLE", "perhaps").fails(2, "links list").says("allow or refuse");
}

/// Hostile inputs, S35.
#[test]
fn security_txt_is_served_on_every_host() {
    const PATH: &str = "/.well-known/security.txt";
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, "");
    assert_eq!(server.status(PATH), 404);
    sandbox.write("rmax.toml", "[safety]\ncontact = \"mailto:abuse@go.example\"\n");
    server.signal(Signal::HUP);
    wait_until("it was read again", || server.status(PATH) == 200);
    assert!(!server.says("restart"), "{}", server.log());
    let answer = server.get(PATH);
    let (contact, expires) = answer.body.split_once('\n').unwrap();
    assert_eq!(contact, "Contact: mailto:abuse@go.example");
    let expires = expires.strip_prefix("Expires: ").unwrap().trim_end();
    assert!(rlinks_core::Timestamp::parse(expires).is_ok(), "{expires}");
    assert_eq!(answer.header("content-type"), ["text/plain; charset=utf-8"]);
    server.stop();
}
