//! A workspace put back as it was: after a stolen key, after a bad day, and back again.

use rlinks_core::Timestamp;
use rlinks_store::clock::Clock;
use serde_json::{Value, json};

use crate::support::raw_client::{RawConnection, Response, wait_until};
use crate::support::sandbox::Sandbox;
use crate::support::server_process::serve;

/// A moment that is over: whatever comes now comes after it.
fn moment() -> Timestamp {
    let moment = Clock::system().now();
    wait_until("time goes on", || Clock::system().now() > moment);
    moment
}

/// Every link as people see it; a click is no part of it, nor is when it last changed.
fn links(sandbox: &Sandbox) -> Value {
    let mut links = sandbox.json("links list --limit 10000 --show-disabled --show-deleted --json");
    for link in links.as_array_mut().unwrap() {
        let link = link.as_object_mut().unwrap();
        assert!(link.remove("updated_at").is_some() && link.remove("stats").is_some());
    }
    links
}

/// A key on one connection.
struct StolenKey {
    connection: RawConnection,
    key: String,
}

impl StolenKey {
    fn request(&mut self, method: &str, path: &str, body: &Value) -> Response {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.connection.send(format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: rmax.to\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        ));
        self.connection.next_response().unwrap()
    }
}

#[test]
fn mass_repointing_with_a_stolen_key_is_limited_and_rolled_back_by_one_command() {
    let sandbox = Sandbox::new();
    sandbox.ok("domains add rmax.to");
    sandbox.ok("dev seed --links 520 --clicks 1");
    sandbox.ok("links set tagged https://example.com/tagged --tag a --title T --note N --expires 2099-01-01");
    sandbox.ok("links set off https://example.com/off");
    sandbox.ok("links disable off");
    sandbox.ok("links set gone https://example.com/gone");
    sandbox.ok("links delete gone --yes");
    sandbox.ok("links set anew https://example.com/anew");
    let key = sandbox.json("keys create --name stolen --scope links:read,links:write,links:delete --json");
    let server = serve(&sandbox, "");
    let (before, then) = (links(&sandbox), moment());
    let codes: Vec<String> = before
        .as_array()
        .unwrap()
        .iter()
        .filter(|link| link["status"] == "active" && link["code"] != "anew" && link["code"] != "tagged")
        .map(|link| link["code"].as_str().unwrap().to_owned())
        .collect();
    assert!(codes.len() >= 500);

    let mut thief = StolenKey {
        connection: RawConnection::new(server.address),
        key: key["key"].as_str().unwrap().to_owned(),
    };
    let evil = |number: usize| json!({ "target": format!("https://evil.example/{number}") });
    let mut statuses = Vec::new();
    for (number, code) in codes.iter().take(500).enumerate() {
        statuses.push(thief.request("PATCH", &format!("/links/{code}"), &evil(number)).status);
    }
    let (made, refused) = statuses.split_at(100);
    assert!(made.iter().all(|status| *status == 200), "{statuses:?}");
    assert!(refused.iter().all(|status| *status == 429), "{statuses:?}");
    // What the brake does not stop.
    assert_eq!(
        thief.request("PATCH", &format!("/links/{}", codes[200]), &json!({"title": "owned"})).status,
        200
    );
    assert_eq!(thief.request("PATCH", "/links/off", &json!({"state": "active"})).status, 200);
    assert_eq!(thief.request("POST", "/links/gone/restore", &Value::Null).status, 200);
    assert_eq!(thief.request("DELETE", "/links/tagged", &Value::Null).status, 204);
    assert_eq!(thief.request("DELETE", "/links/anew", &Value::Null).status, 204);
    let made = json!({"code": "new", "target": "https://evil.example/new"});
    assert_eq!(thief.request("POST", "/links", &made).status, 201);
    let anew = json!({"code": "anew", "target": "https://example.com/anew", "recreate": true});
    assert_eq!(thief.request("POST", "/links", &anew).status, 201);
    let stops: Vec<Value> = sandbox.json("audit list --limit 10000 --json").as_array().unwrap().clone();
    assert_eq!(stops.iter().filter(|entry| entry["action"] == "auth.brake").count(), 1);
    sandbox.ok(&format!("keys revoke {}", key["id"].as_str().unwrap()));
    let attacked = links(&sandbox);
    assert_ne!(attacked, before);

    // Looked at first, then done. Without an answer it is not done.
    let rehearsed = sandbox.json(&format!("workspaces rollback --to {then} --dry-run --json"));
    assert_eq!((&rehearsed["changed"], &rehearsed["restored"]), (&json!(103), &json!(1)), "{rehearsed:#}");
    assert_eq!(rehearsed["deleted"], 2, "{rehearsed:#}");
    assert_eq!(rehearsed["differences"].as_array().unwrap().len(), 20);
    sandbox.fails(2, &format!("workspaces rollback --to {then}")).says("--yes");
    assert_eq!(links(&sandbox), attacked);
    let done = sandbox.json(&format!("workspaces rollback --to {then} --yes --json"));
    for count in ["changed", "restored", "deleted"] {
        assert_eq!(done[count], rehearsed[count], "{count}");
    }
    let mut after = links(&sandbox);
    // Of what the thief made a tombstone stays: its code was given out.
    after.as_array_mut().unwrap().retain(|link| link["code"] != "new");
    assert_eq!(after, before);
    sandbox.fails(3, "links get new").says("was deleted");
    wait_until("it is served", || {
        server.get(&format!("/{}", codes[0])).location() == before_target(&before, &codes[0])
    });
    let history = sandbox.json(&format!("links history {} --json", codes[0]));
    let last = history.as_array().unwrap().last().unwrap();
    assert_eq!(last["after"]["reason"], format!("rollback to {then}"));
    assert_eq!(last["actor"], "max@rmax.ai");
    let entries = sandbox.json("audit list --limit 10000 --json");
    let noted: Vec<_> =
        entries.as_array().unwrap().iter().filter(|entry| entry["action"] == "workspace.rollback").collect();
    assert_eq!((noted.len(), &noted[0]["after"]["to"]), (1, &json!(then.to_string())));
    sandbox.ok("audit verify");
    sandbox.ok("doctor");

    // A second time there is nothing to do, and what was done can be undone.
    let changes = sandbox.changes();
    assert!(sandbox.ok(&format!("workspaces rollback --to {then} --yes")).stdout.contains("is as it was"));
    assert_eq!(sandbox.changes(), changes);
    sandbox.ok(&format!("workspaces rollback main --to {} --yes", done["undo"].as_str().unwrap()));
    assert_eq!(links(&sandbox), attacked);
    sandbox.ok("doctor");
    // What the log says of it is what a backup holds.
    sandbox.ok("backup all.backup");
    let elsewhere = Sandbox::new();
    let (file, trust) = (sandbox.path("all.backup"), sandbox.fingerprint("all.backup"));
    elsewhere.ok(&format!("restore {} --trust {trust}", file.display()));
    assert_eq!(links(&elsewhere), attacked);
    elsewhere.ok("doctor");
}

fn before_target<'a>(links: &'a Value, code: &str) -> Option<&'a str> {
    links.as_array().unwrap().iter().find(|link| link["code"] == code)?["target"].as_str()
}

#[test]
fn rollback_restores_every_link_during_concurrent_writes() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set kept https://example.com/kept");
    sandbox.ok("workspaces create other");
    sandbox.ok("--workspace other links set theirs https://example.com/theirs");
    let then = moment();
    sandbox.ok("dev seed --links 700 --clicks 1 --yes");
    sandbox.ok("--workspace other links set theirs https://example.com/changed");
    let lines: Vec<String> = (0..4)
        .map(|number| format!("links set kept https://example.com/{number}"))
        .chain([format!("workspaces rollback --to {then} --yes")])
        .collect();
    let mut ran = sandbox.together(&lines);
    let rollback = ran.pop().unwrap();
    assert_eq!(rollback.code, Some(0), "{rollback}");
    assert!(ran.iter().all(|ran| matches!(ran.code, Some(0 | 4))), "made or refused: {ran:?}");
    // Whoever was later than the rollback has the last word; once more, and nobody is.
    sandbox.ok(&format!("workspaces rollback --to {then} --yes"));
    let left = sandbox.json("links list --json");
    assert_eq!(left.as_array().unwrap().len(), 1, "{left:#}");
    assert_eq!(sandbox.link("kept")["target"], "https://example.com/kept");
    let theirs = sandbox.json("--workspace other links get theirs");
    assert_eq!(theirs["target"], "https://example.com/changed", "another workspace is another matter");
    let doctor = sandbox.rmax("doctor").stdout;
    assert!(doctor.contains("ok       links:") && doctor.contains("ok       audit:"), "{doctor}");
}

#[test]
fn rollback_to_an_unsafe_target_disables_the_link() {
    let sandbox = Sandbox::new().with("RMAX_SAFETY_BLOCKLIST_PATH", "blocked.txt");
    sandbox.write("blocked.txt", "");
    sandbox.ok("links set one https://turned.example/");
    sandbox.ok("links set two https://example.com/");
    let then = moment();
    sandbox.ok("links set one https://example.com/elsewhere");
    sandbox.ok("links set two https://example.com/elsewhere");
    sandbox.write("blocked.txt", "turned.example");
    let done = sandbox.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!((&done["changed"], &done["disabled"]), (&json!(2), &json!(1)), "{done:#}");
    let one = sandbox.link("one");
    assert_eq!((&one["target"], &one["status"]), (&json!("https://turned.example/"), &json!("disabled")));
    assert_eq!(sandbox.link("two")["status"], "active");
    assert!(sandbox.ok("links history one").stdout.contains("unsafe target"));
    sandbox.fails(5, "links enable one").says("block list");
    // Again there is nothing to do.
    let again = sandbox.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!(again["changed"], 0, "{again:#}");
}

#[test]
fn rollback_of_links_that_swapped_a_reused_target_succeeds_and_can_be_undone() {
    // Where targets are reused, one page is found by one link.
    let sandbox = Sandbox::new();
    sandbox.ok("domains add rmax.to");
    sandbox.ok("workspaces policy --preset team");
    let code = |url: &str| {
        let shown = sandbox.ok(&format!("shorten {url}")).stdout;
        shown.trim().rsplit('/').next().unwrap().to_owned()
    };
    let first = code("https://example.com/page");
    let then = moment();
    sandbox.ok(&format!("links set {first} https://example.com/other"));
    let second = code("https://example.com/page");
    assert_ne!(first, second);
    let done = sandbox.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!((&done["changed"], &done["deleted"]), (&json!(1), &json!(1)), "{done:#}");
    assert_eq!(sandbox.link(&first)["target"], "https://example.com/page");
    sandbox.ok("doctor");
    sandbox.ok(&format!("workspaces rollback --to {} --yes", done["undo"].as_str().unwrap()));
    assert_eq!(sandbox.link(&first)["target"], "https://example.com/other");
    assert_eq!(sandbox.link(&second)["target"], "https://example.com/page");
    assert_eq!(code("https://example.com/page"), second);
    sandbox.ok("doctor");
}

#[test]
fn rollback_does_not_restore_links_of_deleted_accounts() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces policy --preset platform");
    sandbox.ok("users create --email ann@example.com --name Ann --role member");
    let key = sandbox.json("keys create --name anns --user ann@example.com --json");
    let server = serve(&sandbox, "");
    let mut ann = StolenKey {
        connection: RawConnection::new(server.address),
        key: key["key"].as_str().unwrap().to_owned(),
    };
    assert_eq!(
        ann.request("POST", "/links", &json!({"code": "anns-link", "target": "https://ann.example/"})).status,
        201
    );
    sandbox.ok("links set ours-link https://example.com/");
    let then = moment();
    sandbox.ok("links delete ours-link --yes");
    sandbox.ok("users delete ann@example.com --yes");
    sandbox.fails(3, "links get anns-link").says("was deleted");
    let done = sandbox.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!((&done["restored"], &done["changed"]), (&json!(1), &json!(0)), "{done:#}");
    sandbox.ok("links get ours-link");
    sandbox.fails(3, "links get anns-link").says("was deleted");
}

/// 600 links that a rollback to the moment before them deletes, in three pages.
fn links_made_after_a_moment() -> (Sandbox, Timestamp, Value) {
    let sandbox = Sandbox::new();
    sandbox.ok("domains add rmax.to");
    let then = moment();
    let rows: Vec<String> =
        (0..600).map(|number| format!("link-{number:03},https://example.com/{number}")).collect();
    sandbox.write("links.csv", &format!("code,target\n{}\n", rows.join("\n")));
    sandbox.ok("links import links.csv");
    let made = links(&sandbox);
    assert_eq!(made.as_array().unwrap().len(), 600);
    (sandbox, then, made)
}

fn living_links(sandbox: &Sandbox) -> usize {
    sandbox.json("links list --limit 10000 --json").as_array().unwrap().len()
}

fn rollback_entries(sandbox: &Sandbox) -> Vec<Value> {
    let entries = sandbox.json("audit list --limit 10000 --json").as_array().unwrap().clone();
    entries
        .into_iter()
        .filter(|entry| entry["action"].as_str().unwrap().starts_with("workspace.rollback"))
        .collect()
}

/// The rest of a rollback that was cut off after 256 of 600 links, and what undoes all of it.
fn finish_and_undo(sandbox: &Sandbox, then: Timestamp, made: &Value) {
    assert_eq!(living_links(sandbox), 344);
    let rehearsed = sandbox.json(&format!("workspaces rollback --to {then} --dry-run --json"));
    assert_eq!((&rehearsed["resumed"], &rehearsed["deleted"]), (&json!(true), &json!(344)), "{rehearsed:#}");
    let done = sandbox.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!((&done["resumed"], &done["deleted"]), (&json!(true), &json!(344)), "{done:#}");
    assert_eq!(living_links(sandbox), 0);
    let entries = rollback_entries(sandbox);
    assert_eq!(entries.len(), 2, "it began once and ended once: {entries:#?}");
    // Now it is over, and there is nothing to continue.
    let again = sandbox.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!((&again["resumed"], &again["undo"]), (&json!(false), &Value::Null), "{again:#}");
    sandbox.ok(&format!("workspaces rollback --to {} --yes", done["undo"].as_str().unwrap()));
    assert_eq!(&links(sandbox), made, "all of it is undone");
    sandbox.ok("audit verify");
}

/// Hostile inputs, S43.
#[test]
fn rollback_killed_half_way_is_continued_and_undone_as_one() {
    let (sandbox, then, made) = links_made_after_a_moment();
    // The second page is never written.
    sandbox.tamper(
        "create trigger endless before insert on audit when new.subject >= 'link:link-256' and new.action = 'link.delete'
         begin
             select count(*) from (with recursive n (x) as (select 1 union all select x + 1 from n) select x from n);
         end",
    );
    let mut rollback = sandbox.command(&format!("workspaces rollback --to {then} --yes")).spawn().unwrap();
    wait_until("the first page is written", || living_links(&sandbox) == 344);
    rollback.kill().unwrap();
    rollback.wait().unwrap();
    sandbox.tamper("drop trigger endless");
    finish_and_undo(&sandbox, then, &made);
}

/// Hostile inputs, S43.
#[test]
fn rollback_stopped_by_an_error_says_how_to_go_on_and_is_undone_as_one() {
    let (sandbox, then, made) = links_made_after_a_moment();
    sandbox.tamper(
        "create trigger broken before insert on audit when new.subject >= 'link:link-256' and new.action = 'link.delete'
         begin select raise(abort, 'the disk is full'); end",
    );
    sandbox
        .fails(6, &format!("workspaces rollback --to {then} --yes"))
        .says("run the same command again: it goes on where this one stopped");
    sandbox.tamper("drop trigger broken");
    finish_and_undo(&sandbox, then, &made);
}

#[test]
fn invalid_rollback_times_are_rejected() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set one https://example.com/");
    for (moment, says) in [
        ("2001-01-01", "before this workspace was made"),
        ("2099-01-01", "still to come"),
        ("yesterday", "is not a time"),
    ] {
        sandbox.fails(5, &format!("workspaces rollback --to {moment} --yes")).says(says);
    }
    sandbox.fails(2, "workspaces rollback --yes").says("--to");
    sandbox.fails(3, "workspaces rollback nobody --to 2026-01-01 --yes").says("workspace `nobody`");
    assert_eq!(sandbox.link("one")["status"], "active");
}
