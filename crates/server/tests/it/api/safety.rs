//! Targets nobody may be led to: the block list, Safe Browsing as a stand-in speaks it, and links that become unsafe later.

mod stand_in;

use std::path::{Path, PathBuf};

use rlinks_clicks::ClickStore;
use rlinks_core::{LinkState, Preset};
use rlinks_ops::Requester;
use rlinks_ops::safety::{SafetyConfig, WhenUnavailable};
use serde_json::{Value, json};

use self::stand_in::{KEY, MALWARE, Manner, SOCIAL_ENGINEERING, StandIn};
use super::caller::Reply;
use super::house::{House, Person, in_house_with, preset, runtime};
use crate::client::wait_until;
use crate::database::{Place, contract};
use crate::support::{Bench, NOW, create, operator};

contract!(
    every_way_to_lead_somewhere_unsafe_is_refused,
    a_link_that_becomes_unsafe_is_switched_off_and_says_why,
    the_daily_job_asks_safe_browsing_again,
);

fn google(stand_in: &StandIn, when_unavailable: WhenUnavailable) -> SafetyConfig {
    SafetyConfig { blocklist: None, safe_browsing: Some(stand_in.options()), when_unavailable }
}

/// A server that asks when links are made. The daily job, which would ask too, is done for today: nobody knows when it would begin.
fn asking(stand_in: &StandIn) -> House {
    let options = google(stand_in, WhenUnavailable::Allow);
    let place = Place::sqlite();
    runtime(1).block_on(async {
        // The clicks are beside their store.
        place.open().await.close().await;
        let clicks = ClickStore::open(&place.location).await.unwrap();
        assert!(clicks.claim_job("sweep", 0, NOW).await.unwrap());
        clicks.close().await;
    });
    House::at(place, preset(Preset::Fabric), move |config| config.safety = options)
}

fn make(person: &Person, target: &str) -> Reply {
    person.post("/links", &json!({ "target": target }))
}

fn list_file(place: &Place, text: &str) -> PathBuf {
    let path = place.folder().join("blocked.txt");
    std::fs::write(&path, text).unwrap();
    path
}

/// As editors and `mv` do it.
fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(fresh, path).unwrap();
}

fn state(person: &Person, code: &str) -> Value {
    person.get(&format!("/links/{code}")).expect(200).json()["state"].clone()
}

// ---- the block list ----

async fn every_way_to_lead_somewhere_unsafe_is_refused(place: Place) {
    let path = list_file(&place, "# ours\nevil.example\nhost.example/bad\nnot a host\n");
    let change = move |config: &mut rlinks_server::Config| config.safety.blocklist = Some(path);
    in_house_with(place, preset(Preset::Fabric), change, |house| {
        let member = house.member();
        let evil = "https://www.evil.example/page";
        let refused = make(&member, evil);
        let details = refused.refused(422, "UNSAFE_TARGET");
        assert_eq!(details["source"], "blocklist", "{details}");
        assert!(details["reason"].as_str().unwrap().contains("(evil.example)"), "{details}");
        make(&member, "https://host.example/b%61d/x").refused(422, "UNSAFE_TARGET");
        make(&member, "https://host.example/badly").expect(201);
        // Edits.
        member.post("/links", &json!({"code": "mine", "target": "https://example.com/"})).expect(201);
        member.patch("/links/mine", &json!({ "target": evil })).refused(422, "UNSAFE_TARGET");
        member
            .patch("/links/mine", &json!({"target": evil, "state": "disabled"}))
            .refused(422, "UNSAFE_TARGET");
        // Many, and anew.
        let bulk = json!({"links": [{"target": evil}, {"target": "https://example.com/b"}]});
        let results = member.post("/links/bulk", &bulk).expect(200).json();
        assert_eq!(results["results"][0]["status"], 422, "{results:#}");
        assert_eq!(results["results"][0]["error"]["code"], "UNSAFE_TARGET");
        assert_eq!(results["results"][1]["status"], 201);
        member.delete("/links/mine").expect(204);
        let anew = json!({"code": "mine", "target": evil, "recreate": true});
        member.post("/links", &anew).refused(422, "UNSAFE_TARGET");
        assert!(house.actions().iter().all(|action| action != "link.recreate"), "nothing was written");
    })
    .await;
}

async fn a_link_that_becomes_unsafe_is_switched_off_and_says_why(place: Place) {
    let path = list_file(&place, "");
    let configured = path.clone();
    let change = move |config: &mut rlinks_server::Config| config.safety.blocklist = Some(configured);
    in_house_with(place, preset(Preset::Fabric), change, move |house| {
        let member = house.member();
        for code in ["good", "off", "gone", "turned"] {
            let target = if code == "good" { "https://example.com/" } else { "https://turned.example/x?q=1" };
            member.post("/links", &json!({ "code": code, "target": target })).expect(201);
        }
        member.patch("/links/off", &json!({"state": "disabled"})).expect(200);
        member.delete("/links/gone").expect(204);
        replace(&path, "turned.example\n");
        wait_until("it is switched off", || house.visit("/turned").status == 404);
        assert_eq!(house.visit("/good").status, 301);
        let history = member.get("/links/turned/history").expect(200).json();
        let last = &history["data"][0];
        assert_eq!((&last["actor"], &last["action"]), (&json!("system"), &json!("link.disable")), "{last:#}");
        let reason = last["after"]["reason"].as_str().unwrap();
        assert!(reason.contains("block list") && reason.contains("turned.example"), "{reason}");
        assert_eq!(state(&member, "turned"), "disabled");
        // It does not come back while the target is what it is; words about it may still change.
        for code in ["turned", "off"] {
            let path = format!("/links/{code}");
            member.patch(&path, &json!({"state": "active"})).refused(422, "UNSAFE_TARGET");
            member.patch(&path, &json!({"title": "why?"})).expect(200);
        }
        member.post("/links/gone/restore", &json!({})).refused(422, "UNSAFE_TARGET");
        let by = Requester::operator(operator());
        let enabled = house.runtime.block_on(house.ops.change_state(
            &by,
            &house.main,
            "turned",
            LinkState::Active,
            rlinks_ops::WriteMode::DryRun,
        ));
        assert!(enabled.is_ok(), "somebody without that list may rehearse it");
        member.patch("/links/off", &json!({"state": "active", "target": "https://example.com/"})).expect(200);
        // A list that cannot be read leaves the old one in force.
        std::fs::remove_file(&path).unwrap();
        member.patch("/links/turned", &json!({"state": "active"})).refused(422, "UNSAFE_TARGET");
        replace(&path, "other.example\n");
        wait_until("the new list is in force", || {
            member.patch("/links/turned", &json!({"state": "active"})).status() == 200
        });
        member.post("/links/gone/restore", &json!({})).expect(200);
    })
    .await;
}

#[test]
fn a_list_that_was_changed_while_no_server_ran_counts_from_the_start() {
    let bench = Bench::new();
    bench.runtime.block_on(create(&bench.store, "old", "https://turned.example/"));
    let path = bench.folder.path().join("blocked.txt");
    std::fs::write(&path, "turned.example").unwrap();
    let running = bench.serve(|config| config.safety.blocklist = Some(path));
    wait_until("it is switched off", || running.get("/old").status == 404);
}

#[test]
fn a_server_does_not_start_without_the_list_it_should_have() {
    for name in ["absent.txt", "."] {
        let bench = Bench::new();
        let path = bench.folder.path().join(name);
        let refused = bench.try_serve(|config| config.safety.blocklist = Some(path)).err().unwrap();
        assert!(refused.to_string().contains("the block list"), "{refused}");
    }
}

// ---- Safe Browsing ----

#[test]
fn a_page_safe_browsing_lists_is_refused() {
    let stand_in = StandIn::new();
    stand_in.list("evil.example/", SOCIAL_ENGINEERING);
    stand_in.list("files.example/a/", MALWARE);
    let house = asking(&stand_in);
    let member = house.member();
    for (target, words) in [
        ("https://www.evil.example/some/page?x=1#y", "social engineering"),
        ("https://files.example:8080//a/./b.exe", "malware"),
        ("https://files.example/%61/", "malware"),
    ] {
        let details = make(&member, target).refused(422, "UNSAFE_TARGET");
        assert_eq!(details["source"], "safe_browsing", "{details}");
        assert!(details["reason"].as_str().unwrap().contains(words), "{details}");
    }
    make(&member, "https://files.example/ab").expect(201);
    let made = make(&member, "https://example.com/").expect(201).json();
    let path = format!("/links/{}", made["code"].as_str().unwrap());
    member.patch(&path, &json!({"target": "https://evil.example/"})).refused(422, "UNSAFE_TARGET");
}

#[test]
fn google_sees_four_bytes_of_hashes_and_the_key_is_in_no_address() {
    let stand_in = StandIn::new();
    let house = asking(&stand_in);
    make(&house.member(), "https://secret.example/canary-path?canary=query").expect(201);
    assert_eq!(stand_in.asked(), 1);
    assert!(stand_in.questions()[0].iter().all(|prefix| prefix.len() == 4));
    assert_eq!(stand_in.questions()[0].len(), 3, "the host, the path, and the path with its query");
    let heads = stand_in.heads();
    let head = &heads[0];
    assert!(!head.contains("canary-path") && !head.contains("secret.example"), "{head}");
    assert!(head.lines().any(|line| line.eq_ignore_ascii_case(&format!("x-goog-api-key: {KEY}"))), "{head}");
    assert!(!head.lines().next().unwrap().contains(KEY), "{head}");
}

#[test]
fn entries_that_do_not_count_for_pages_are_passed_over() {
    let stand_in = StandIn::new();
    // A trial, for frames, an attribute and a threat of the future, and none at all.
    for (host, threats) in [
        ("trial.example/", vec![(MALWARE, vec![1])]),
        ("frames.example/", vec![(MALWARE, vec![2])]),
        ("attribute.example/", vec![(MALWARE, vec![77])]),
        ("threat.example/", vec![(99, vec![])]),
        ("none.example/", vec![]),
    ] {
        stand_in.list_with(host, threats);
    }
    stand_in.list_with("both.example/", vec![(MALWARE, vec![1]), (SOCIAL_ENGINEERING, vec![])]);
    let house = asking(&stand_in);
    let member = house.member();
    for host in ["trial", "frames", "attribute", "threat", "none"] {
        make(&member, &format!("https://{host}.example/")).expect(201);
    }
    make(&member, "https://both.example/").refused(422, "UNSAFE_TARGET");
}

#[test]
fn answers_are_kept_as_long_as_they_say() {
    let stand_in = StandIn::new();
    stand_in.list("evil.example/", MALWARE);
    let house = asking(&stand_in);
    let member = house.member();
    for _ in 0..3 {
        make(&member, "https://evil.example/").refused(422, "UNSAFE_TARGET");
        make(&member, "https://example.com/").expect(201);
    }
    assert_eq!(stand_in.asked(), 2, "also that nothing was found is kept");
    let links: Vec<_> =
        (0..1000).map(|number| json!({ "target": format!("https://h{number}.example/p") })).collect();
    member.post("/links/bulk", &json!({ "links": links })).expect(200);
    assert_eq!(stand_in.asked(), 2 + 2_usize.pow(3), "two prefixes of each, 256 in a question");
    // What says that it is good for no time is asked about each time.
    stand_in.keep_for(0);
    for asked in 1..=2 {
        make(&member, "https://again.example/").expect(201);
        assert_eq!(stand_in.asked(), 10 + asked);
    }
}

#[test]
fn while_nobody_can_be_asked_the_setting_decides() {
    for manner in [
        Manner::Status(500),
        Manner::Status(403),
        Manner::Garbage,
        Manner::Endless,
        Manner::Torn,
        Manner::Elsewhere,
        Manner::Silent,
    ] {
        let stand_in = StandIn::new();
        stand_in.answer(manner);
        for when_unavailable in [WhenUnavailable::Allow, WhenUnavailable::Refuse] {
            let options = google(&stand_in, when_unavailable);
            let house =
                House::at(Place::sqlite(), preset(Preset::Fabric), move |config| config.safety = options);
            let made = make(&house.member(), "https://example.com/");
            match when_unavailable {
                WhenUnavailable::Allow => drop(made.expect(201)),
                WhenUnavailable::Refuse => {
                    made.refused(503, "KV_UNAVAILABLE");
                    assert!(made.answer.body.contains("Safe Browsing"), "{manner:?}: {made:?}");
                    assert!(!made.answer.body.contains(KEY) && !made.answer.body.contains("127.0.0.1"));
                }
            }
            assert_eq!(stand_in.followed(), 0, "{manner:?}");
        }
    }
}

#[test]
fn who_does_not_answer_is_left_alone_for_a_while() {
    let stand_in = StandIn::new();
    stand_in.answer(Manner::Status(500));
    let house = asking(&stand_in);
    let member = house.member();
    for number in 0..10 {
        make(&member, &format!("https://h{number}.example/")).expect(201);
    }
    assert_eq!(stand_in.asked(), 3);
}

async fn the_daily_job_asks_safe_browsing_again(place: Place) {
    let stand_in = StandIn::new();
    let options = google(&stand_in, WhenUnavailable::Refuse);
    let store = place.open().await;
    for number in 0..300 {
        create(&store, &format!("old-{number}"), &format!("https://h{number}.example/")).await;
    }
    // It was away when they were made, and knows some of them by now.
    stand_in.list("h7.example/", MALWARE);
    stand_in.list("h299.example/", MALWARE);
    let change = move |config: &mut rlinks_server::Config| config.safety = options;
    in_house_with(place, preset(Preset::Fabric), change, move |house| {
        let member = house.member();
        for code in ["old-7", "old-299"] {
            wait_until("the daily job has found it", || state(&member, code) == "disabled");
        }
        assert_eq!(state(&member, "old-8"), "active");
        let last = member.get("/links/old-7/history").expect(200).json()["data"][0].clone();
        assert!(last["after"]["reason"].as_str().unwrap().contains("malware"), "{last:#}");
        member.patch("/links/old-7", &json!({"state": "active"})).refused(422, "UNSAFE_TARGET");
        // Off the list and out of the memory of it, it is what it was.
        stand_in.clear();
        member
            .patch("/links/old-7", &json!({"state": "active", "target": "https://h8.example/"}))
            .expect(200);
    })
    .await;
}
