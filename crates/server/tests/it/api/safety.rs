//! Targets nobody may be led to: the block list, Safe Browsing as a stand-in speaks it, and links that become unsafe later.

use std::path::{Path, PathBuf};

use rlinks_clicks::ClickStore;
use rlinks_core::{LinkState, Preset};
use rlinks_ops::safety::{SafetyConfig, WhenUnavailable};
use serde_json::{Value, json};

use crate::support::api_client::ApiResponse;
use crate::support::database::{TestStore, contract};
use crate::support::members::{ApiUser, TestServer, preset, runtime, with_configured_server};
use crate::support::raw_client::wait_until;
use crate::support::safe_browsing::{KEY, MALWARE, SOCIAL_ENGINEERING, StubBehavior, StubSafeBrowsing};
use crate::support::server::{NOW, UnstartedServer, create, operator_in};

contract!(
    unsafe_target_is_refused_by_every_operation,
    link_that_becomes_unsafe_is_disabled_with_a_reason,
    daily_job_rechecks_links_with_safe_browsing,
);

fn google(stand_in: &StubSafeBrowsing, when_unavailable: WhenUnavailable) -> SafetyConfig {
    SafetyConfig { blocklist: None, safe_browsing: Some(stand_in.options()), when_unavailable }
}

/// A server that asks when links are made. The daily job, which would ask too, is done for today: nobody knows when it would begin.
fn asking(stand_in: &StubSafeBrowsing) -> TestServer {
    let options = google(stand_in, WhenUnavailable::Allow);
    let test_store = TestStore::sqlite();
    runtime(1).block_on(async {
        // The clicks are beside their store.
        test_store.open().await.close().await;
        let clicks = ClickStore::open(&test_store.location).await.unwrap();
        assert!(clicks.claim_job("sweep", 0, NOW).await.unwrap());
        clicks.close().await;
    });
    TestServer::at(test_store, preset(Preset::Fabric), move |config| config.safety = options)
}

fn make(person: &ApiUser, target: &str) -> ApiResponse {
    person.post("/links", &json!({ "target": target }))
}

fn list_file(test_store: &TestStore, text: &str) -> PathBuf {
    let path = test_store.folder().join("blocked.txt");
    std::fs::write(&path, text).unwrap();
    path
}

/// As editors and `mv` do it.
fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(fresh, path).unwrap();
}

fn state(person: &ApiUser, code: &str) -> Value {
    person.get(&format!("/links/{code}")).expect(200).json()["state"].clone()
}

// ---- the block list ----

async fn unsafe_target_is_refused_by_every_operation(test_store: TestStore) {
    let path = list_file(&test_store, "# ours\nevil.example\nhost.example/bad\nnot a host\n");
    let change = move |config: &mut rlinks_server::Config| config.safety.blocklist = Some(path);
    with_configured_server(test_store, preset(Preset::Fabric), change, |server| {
        let member = server.member();
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
        assert!(server.actions().iter().all(|action| action != "link.recreate"), "nothing was written");
    })
    .await;
}

async fn link_that_becomes_unsafe_is_disabled_with_a_reason(test_store: TestStore) {
    let path = list_file(&test_store, "");
    let configured = path.clone();
    let change = move |config: &mut rlinks_server::Config| config.safety.blocklist = Some(configured);
    with_configured_server(test_store, preset(Preset::Fabric), change, move |server| {
        let member = server.member();
        for code in ["good", "off", "gone", "turned"] {
            let target = if code == "good" { "https://example.com/" } else { "https://turned.example/x?q=1" };
            member.post("/links", &json!({ "code": code, "target": target })).expect(201);
        }
        member.patch("/links/off", &json!({"state": "disabled"})).expect(200);
        member.delete("/links/gone").expect(204);
        replace(&path, "turned.example\n");
        wait_until("it is switched off", || server.visit("/turned").status == 404);
        assert_eq!(server.visit("/good").status, 301);
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
        let by = operator_in(&server.main);
        let enabled = server.runtime.block_on(server.ops.change_state(
            &by,
            "turned",
            LinkState::Active,
            None,
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
fn block_list_changed_while_stopped_applies_at_the_start() {
    let unstarted = UnstartedServer::new();
    unstarted.runtime.block_on(create(&unstarted.store, "old", "https://turned.example/"));
    let path = unstarted.folder.path().join("blocked.txt");
    std::fs::write(&path, "turned.example").unwrap();
    let running = unstarted.serve(|config| config.safety.blocklist = Some(path));
    wait_until("it is switched off", || running.get("/old").status == 404);
}

#[test]
fn missing_block_list_prevents_the_start() {
    for name in ["absent.txt", "."] {
        let unstarted = UnstartedServer::new();
        let path = unstarted.folder.path().join(name);
        let refused = unstarted.try_serve(|config| config.safety.blocklist = Some(path)).err().unwrap();
        assert!(refused.to_string().contains("the block list"), "{refused}");
    }
}

// ---- Safe Browsing ----

#[test]
fn target_listed_by_safe_browsing_is_refused() {
    let stand_in = StubSafeBrowsing::new();
    stand_in.list("evil.example/", SOCIAL_ENGINEERING);
    stand_in.list("files.example/a/", MALWARE);
    let server = asking(&stand_in);
    let member = server.member();
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
fn safe_browsing_receives_only_hash_prefixes_and_urls_hold_no_key() {
    let stand_in = StubSafeBrowsing::new();
    let server = asking(&stand_in);
    make(&server.member(), "https://secret.example/canary-path?canary=query").expect(201);
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
fn irrelevant_safe_browsing_threats_are_ignored() {
    let stand_in = StubSafeBrowsing::new();
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
    let server = asking(&stand_in);
    let member = server.member();
    for host in ["trial", "frames", "attribute", "threat", "none"] {
        make(&member, &format!("https://{host}.example/")).expect(201);
    }
    make(&member, "https://both.example/").refused(422, "UNSAFE_TARGET");
}

#[test]
fn safe_browsing_responses_are_cached_for_their_stated_time() {
    let stand_in = StubSafeBrowsing::new();
    stand_in.list("evil.example/", MALWARE);
    let server = asking(&stand_in);
    let member = server.member();
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
fn when_unavailable_setting_decides_during_an_outage() {
    for manner in [
        StubBehavior::Status(500),
        StubBehavior::Status(403),
        StubBehavior::Garbage,
        StubBehavior::Endless,
        StubBehavior::Torn,
        StubBehavior::Elsewhere,
        StubBehavior::Silent,
    ] {
        let stand_in = StubSafeBrowsing::new();
        stand_in.answer(manner);
        for when_unavailable in [WhenUnavailable::Allow, WhenUnavailable::Refuse] {
            let options = google(&stand_in, when_unavailable);
            let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), move |config| {
                config.safety = options;
            });
            let made = make(&server.member(), "https://example.com/");
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
fn circuit_breaker_pauses_requests_after_failures() {
    let stand_in = StubSafeBrowsing::new();
    stand_in.answer(StubBehavior::Status(500));
    let server = asking(&stand_in);
    let member = server.member();
    for number in 0..10 {
        make(&member, &format!("https://h{number}.example/")).expect(201);
    }
    assert_eq!(stand_in.asked(), 3);
}

async fn daily_job_rechecks_links_with_safe_browsing(test_store: TestStore) {
    let stand_in = StubSafeBrowsing::new();
    let options = google(&stand_in, WhenUnavailable::Refuse);
    let store = test_store.open().await;
    for number in 0..300 {
        create(&store, &format!("old-{number}"), &format!("https://h{number}.example/")).await;
    }
    // It was away when they were made, and knows some of them by now.
    stand_in.list("h7.example/", MALWARE);
    stand_in.list("h299.example/", MALWARE);
    let change = move |config: &mut rlinks_server::Config| config.safety = options;
    with_configured_server(test_store, preset(Preset::Fabric), change, move |server| {
        let member = server.member();
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
