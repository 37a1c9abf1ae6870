//! A workspace put back as it was: after a stolen key, after a bad day, and back again.

use rlinks_core::Timestamp;
use rlinks_store::clock::Clock;
use serde_json::{Value, json};

use crate::client::{Answer, Talk, wait_until};
use crate::place::Place;
use crate::serve::served::serve;

/// A moment that is over: whatever comes now comes after it.
fn moment() -> Timestamp {
    let moment = Clock::system().now();
    wait_until("time goes on", || Clock::system().now() > moment);
    moment
}

/// Every link as people see it; a click is no part of it, nor is when it last changed.
fn links(place: &Place) -> Value {
    let mut links = place.json("links list --limit 10000 --show-disabled --show-deleted --json");
    for link in links.as_array_mut().unwrap() {
        let link = link.as_object_mut().unwrap();
        assert!(link.remove("updated_at").is_some() && link.remove("stats").is_some());
    }
    links
}

/// A key on one connection.
struct Thief {
    talk: Talk,
    key: String,
}

impl Thief {
    fn ask(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.talk.send(format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: rmax.to\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        ));
        self.talk.answer().unwrap()
    }
}

#[test]
fn a_stolen_key_that_repoints_500_links_is_stopped_and_one_command_puts_everything_back() {
    let place = Place::new();
    place.ok("domains add rmax.to");
    place.ok("dev seed --links 520 --clicks 1");
    place.ok("links set tagged https://example.com/tagged --tag a --title T --note N --expires 2099-01-01");
    place.ok("links set off https://example.com/off");
    place.ok("links disable off");
    place.ok("links set gone https://example.com/gone");
    place.ok("links delete gone --yes");
    place.ok("links set anew https://example.com/anew");
    let key = place.json("keys create --name stolen --scope links:read,links:write,links:delete --json");
    let server = serve(&place, "");
    let (before, then) = (links(&place), moment());
    let codes: Vec<String> = before
        .as_array()
        .unwrap()
        .iter()
        .filter(|link| link["status"] == "active" && link["code"] != "anew" && link["code"] != "tagged")
        .map(|link| link["code"].as_str().unwrap().to_owned())
        .collect();
    assert!(codes.len() >= 500);

    let mut thief = Thief { talk: Talk::new(server.address), key: key["key"].as_str().unwrap().to_owned() };
    let evil = |number: usize| json!({ "target": format!("https://evil.example/{number}") });
    let mut statuses = Vec::new();
    for (number, code) in codes.iter().take(500).enumerate() {
        statuses.push(thief.ask("PATCH", &format!("/links/{code}"), &evil(number)).status);
    }
    let (made, refused) = statuses.split_at(100);
    assert!(made.iter().all(|status| *status == 200), "{statuses:?}");
    assert!(refused.iter().all(|status| *status == 429), "{statuses:?}");
    // What the brake does not stop.
    assert_eq!(thief.ask("PATCH", &format!("/links/{}", codes[200]), &json!({"title": "owned"})).status, 200);
    assert_eq!(thief.ask("PATCH", "/links/off", &json!({"state": "active"})).status, 200);
    assert_eq!(thief.ask("POST", "/links/gone/restore", &Value::Null).status, 200);
    assert_eq!(thief.ask("DELETE", "/links/tagged", &Value::Null).status, 204);
    assert_eq!(thief.ask("DELETE", "/links/anew", &Value::Null).status, 204);
    let made = json!({"code": "new", "target": "https://evil.example/new"});
    assert_eq!(thief.ask("POST", "/links", &made).status, 201);
    let anew = json!({"code": "anew", "target": "https://example.com/anew", "recreate": true});
    assert_eq!(thief.ask("POST", "/links", &anew).status, 201);
    let stops: Vec<Value> = place.json("audit list --limit 10000 --json").as_array().unwrap().clone();
    assert_eq!(stops.iter().filter(|entry| entry["action"] == "auth.brake").count(), 1);
    place.ok(&format!("keys revoke {}", key["id"].as_str().unwrap()));
    let attacked = links(&place);
    assert_ne!(attacked, before);

    // Looked at first, then done. Without an answer it is not done.
    let rehearsed = place.json(&format!("workspaces rollback --to {then} --dry-run --json"));
    assert_eq!((&rehearsed["changed"], &rehearsed["restored"]), (&json!(103), &json!(1)), "{rehearsed:#}");
    assert_eq!(rehearsed["deleted"], 2, "{rehearsed:#}");
    assert_eq!(rehearsed["differences"].as_array().unwrap().len(), 20);
    place.fails(2, &format!("workspaces rollback --to {then}")).says("--yes");
    assert_eq!(links(&place), attacked);
    let done = place.json(&format!("workspaces rollback --to {then} --yes --json"));
    for count in ["changed", "restored", "deleted"] {
        assert_eq!(done[count], rehearsed[count], "{count}");
    }
    let mut after = links(&place);
    // Of what the thief made a tombstone stays: its code was given out.
    after.as_array_mut().unwrap().retain(|link| link["code"] != "new");
    assert_eq!(after, before);
    place.fails(3, "links get new").says("was deleted");
    wait_until("it is served", || {
        server.get(&format!("/{}", codes[0])).location() == before_target(&before, &codes[0])
    });
    let history = place.json(&format!("links history {} --json", codes[0]));
    let last = history.as_array().unwrap().last().unwrap();
    assert_eq!(last["after"]["reason"], format!("rollback to {then}"));
    assert_eq!(last["actor"], "max@rmax.ai");
    let entries = place.json("audit list --limit 10000 --json");
    let noted: Vec<_> =
        entries.as_array().unwrap().iter().filter(|entry| entry["action"] == "workspace.rollback").collect();
    assert_eq!((noted.len(), &noted[0]["after"]["to"]), (1, &json!(then.to_string())));
    place.ok("audit verify");
    place.ok("doctor");

    // A second time there is nothing to do, and what was done can be undone.
    let changes = place.changes();
    assert!(place.ok(&format!("workspaces rollback --to {then} --yes")).stdout.contains("is as it was"));
    assert_eq!(place.changes(), changes);
    place.ok(&format!("workspaces rollback main --to {} --yes", done["undo"].as_str().unwrap()));
    assert_eq!(links(&place), attacked);
    place.ok("doctor");
    // What the log says of it is what a backup holds.
    place.ok("backup all.backup");
    let elsewhere = Place::new();
    elsewhere.ok(&format!("restore {}", place.path("all.backup").display()));
    assert_eq!(links(&elsewhere), attacked);
    elsewhere.ok("doctor");
}

fn before_target<'a>(links: &'a Value, code: &str) -> Option<&'a str> {
    links.as_array().unwrap().iter().find(|link| link["code"] == code)?["target"].as_str()
}

#[test]
fn all_of_many_are_put_back_while_others_work() {
    let place = Place::new();
    place.ok("links set kept https://example.com/kept");
    place.ok("workspaces create other");
    place.ok("--workspace other links set theirs https://example.com/theirs");
    let then = moment();
    place.ok("dev seed --links 700 --clicks 1 --yes");
    place.ok("--workspace other links set theirs https://example.com/changed");
    let lines: Vec<String> = (0..4)
        .map(|number| format!("links set kept https://example.com/{number}"))
        .chain([format!("workspaces rollback --to {then} --yes")])
        .collect();
    let mut ran = place.together(&lines);
    let rollback = ran.pop().unwrap();
    assert_eq!(rollback.code, Some(0), "{rollback}");
    assert!(ran.iter().all(|ran| matches!(ran.code, Some(0 | 4))), "made or refused: {ran:?}");
    // Whoever was later than the rollback has the last word; once more, and nobody is.
    place.ok(&format!("workspaces rollback --to {then} --yes"));
    let left = place.json("links list --json");
    assert_eq!(left.as_array().unwrap().len(), 1, "{left:#}");
    assert_eq!(place.link("kept")["target"], "https://example.com/kept");
    let theirs = place.json("--workspace other links get theirs");
    assert_eq!(theirs["target"], "https://example.com/changed", "another workspace is another matter");
    place.ok("doctor");
}

#[test]
fn what_was_safe_then_and_is_not_now_comes_back_switched_off() {
    let place = Place::new().with("RMAX_SAFETY_BLOCKLIST_PATH", "blocked.txt");
    place.write("blocked.txt", "");
    place.ok("links set one https://turned.example/");
    place.ok("links set two https://example.com/");
    let then = moment();
    place.ok("links set one https://example.com/elsewhere");
    place.ok("links set two https://example.com/elsewhere");
    place.write("blocked.txt", "turned.example");
    let done = place.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!((&done["changed"], &done["disabled"]), (&json!(2), &json!(1)), "{done:#}");
    let one = place.link("one");
    assert_eq!((&one["target"], &one["status"]), (&json!("https://turned.example/"), &json!("disabled")));
    assert_eq!(place.link("two")["status"], "active");
    assert!(place.ok("links history one").stdout.contains("unsafe target"));
    place.fails(5, "links enable one").says("block list");
    // Again there is nothing to do.
    let again = place.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!(again["changed"], 0, "{again:#}");
}

#[test]
fn two_links_that_were_to_lead_to_one_page_both_do() {
    // Where targets are reused, one page is found by one link.
    let place = Place::new();
    place.ok("domains add rmax.to");
    place.ok("workspaces policy --preset team");
    let code = |url: &str| {
        let shown = place.ok(&format!("shorten {url}")).stdout;
        shown.trim().rsplit('/').next().unwrap().to_owned()
    };
    let first = code("https://example.com/page");
    let then = moment();
    place.ok(&format!("links set {first} https://example.com/other"));
    let second = code("https://example.com/page");
    assert_ne!(first, second);
    let done = place.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!((&done["changed"], &done["deleted"]), (&json!(1), &json!(1)), "{done:#}");
    assert_eq!(place.link(&first)["target"], "https://example.com/page");
    place.ok("doctor");
    place.ok(&format!("workspaces rollback --to {} --yes", done["undo"].as_str().unwrap()));
    assert_eq!(place.link(&first)["target"], "https://example.com/other");
    assert_eq!(place.link(&second)["target"], "https://example.com/page");
    assert_eq!(code("https://example.com/page"), second);
    place.ok("doctor");
}

#[test]
fn links_that_went_with_their_owners_account_stay_gone() {
    let place = Place::new();
    place.ok("workspaces policy --preset platform");
    place.ok("users create --email ann@example.com --name Ann --role member");
    let key = place.json("keys create --name anns --user ann@example.com --json");
    let server = serve(&place, "");
    let mut ann = Thief { talk: Talk::new(server.address), key: key["key"].as_str().unwrap().to_owned() };
    assert_eq!(
        ann.ask("POST", "/links", &json!({"code": "anns-link", "target": "https://ann.example/"})).status,
        201
    );
    place.ok("links set ours-link https://example.com/");
    let then = moment();
    place.ok("links delete ours-link --yes");
    place.ok("users delete ann@example.com --yes");
    place.fails(3, "links get anns-link").says("was deleted");
    let done = place.json(&format!("workspaces rollback --to {then} --yes --json"));
    assert_eq!((&done["restored"], &done["changed"]), (&json!(1), &json!(0)), "{done:#}");
    place.ok("links get ours-link");
    place.fails(3, "links get anns-link").says("was deleted");
}

#[test]
fn moments_that_make_no_sense_are_refused() {
    let place = Place::new();
    place.ok("links set one https://example.com/");
    for (moment, says) in [
        ("2001-01-01", "before this workspace was made"),
        ("2099-01-01", "still to come"),
        ("yesterday", "is not a time"),
    ] {
        place.fails(5, &format!("workspaces rollback --to {moment} --yes")).says(says);
    }
    place.fails(2, "workspaces rollback --yes").says("--to");
    place.fails(3, "workspaces rollback nobody --to 2026-01-01 --yes").says("workspace `nobody`");
    assert_eq!(place.link("one")["status"], "active");
}
