//! Unsafe targets at the command line: the operator is bound by the check like anybody else.

use rustix::process::Signal;

use crate::client::wait_until;
use crate::place::Place;
use crate::serve::served::serve;

fn with_list(text: &str) -> Place {
    let place = Place::new().with("RMAX_SAFETY_BLOCKLIST_PATH", "blocked.txt");
    place.write("blocked.txt", text);
    place
}

#[test]
fn a_blocked_target_is_exit_5_with_every_command() {
    let place = with_list("evil.example\n");
    place.ok("links set good https://example.com/");
    for line in [
        "links set bad https://www.evil.example/",
        "links set bad https://www.evil.example/ --dry-run",
        "links set good https://evil.example/",
        "shorten https://evil.example/x",
    ] {
        place.fails(5, line).says("not safe");
    }
    let error = place.fails(5, "shorten https://evil.example/ --json").error();
    assert_eq!(error["code"], "UNSAFE_TARGET");
    assert_eq!(error["details"]["source"], "blocklist");
    assert_eq!(place.link("good")["target"], "https://example.com/");
    // What nobody can read is no answer.
    let place = place.with("RMAX_SAFETY_BLOCKLIST_PATH", "absent.txt");
    place.fails(6, "links set new https://example.com/").says("absent.txt");
    place.ok("links list");
    place.fails(1, "serve --listen 127.0.0.1:0").says("absent.txt");
    // The daily job does the rest, and does not say that all is well.
    for flags in ["", "--dry-run"] {
        let ran = place.fails(6, &format!("sweep {flags}"));
        ran.says("absent.txt");
        assert!(!ran.stdout.contains("nothing to do"), "{ran}");
    }
    let swept = place.rmax("sweep --json").json();
    assert!(swept["unchecked"].as_str().unwrap().contains("absent.txt"), "{swept:#}");
}

#[test]
fn the_daily_job_by_hand_switches_off_what_became_unsafe() {
    let place = with_list("");
    for code in ["one", "two", "off"] {
        place.ok(&format!("links set {code} https://{code}.example/"));
    }
    place.ok("links disable off");
    place.write("blocked.txt", "one.example\noff.example\n");
    assert_eq!(
        place.ok("sweep --dry-run").stdout,
        "main: 1 unsafe link would be disabled\n    one: it is on the block list of this installation (one.example)\n"
    );
    assert_eq!(place.link("one")["status"], "active");
    let swept = place.json("sweep --json");
    assert_eq!(swept["workspaces"][0]["disabled_links"], 1, "{swept:#}");
    assert_eq!(swept["workspaces"][0]["unsafe_links"][0]["code"], "one");
    assert_eq!(place.link("one")["status"], "disabled");
    assert_eq!(place.link("two")["status"], "active");
    assert_eq!(place.ok("sweep").stdout, "nothing to do\n");
    place.fails(5, "links enable one").says("block list");
    place.fails(5, "links enable off").says("block list");
    place.write("blocked.txt", "");
    place.ok("links enable one");
    place.ok("doctor");
}

#[test]
fn a_server_says_which_lines_block_nothing_and_shows_no_key() {
    let place = with_list("good.example\n*.bad.example\n")
        .with("RMAX_SAFETY_SAFE_BROWSING_KEY", "canary-key")
        .with("RMAX_SAFETY_SAFE_BROWSING_URL", "http://127.0.0.1:9/")
        .with("RMAX_SAFETY_WHEN_UNAVAILABLE", "refuse");
    let server = serve(&place, "");
    assert!(server.says("line=2"), "{}", server.log());
    place.fails(6, "links set any https://example.com/").says("Safe Browsing cannot be reached");
    place.fails(5, "links set any https://good.example/");
    place.write("blocked.txt", "other.example\n");
    wait_until("the list was read again", || server.log().matches("the block list was read").count() == 2);
    assert!(!server.log().contains("canary-key"), "{}", server.log());
    let printed = place.ok("serve --print-config").stdout;
    assert!(
        printed.contains("safety.safe_browsing_key = \"***\"") && !printed.contains("canary-key"),
        "{printed}"
    );
    place.with("RMAX_SAFETY_WHEN_UNAVAILABLE", "perhaps").fails(2, "links list").says("allow or refuse");
}

#[test]
fn s35_every_host_says_whom_to_tell_about_a_bad_link() {
    const PATH: &str = "/.well-known/security.txt";
    let place = Place::new();
    let server = serve(&place, "");
    assert_eq!(server.status(PATH), 404);
    place.write("rmax.toml", "[safety]\ncontact = \"mailto:abuse@go.example\"\n");
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
