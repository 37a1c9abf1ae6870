//! What the presets promise: owners in `platform`, reuse in `team`, the quota of `edge`, the grammar of `fabric`.

use std::collections::BTreeSet;

use rlinks_core::{Code, Link, Policy, Preset, Role, Scopes};
use rlinks_ops::WriteMode;
use rlinks_store::write::{Action, LinkOp, LinkWrite};
use serde_json::{Value, json};

use crate::support::api_client::{ApiClient, ApiResponse, at_once};
use crate::support::database::{TestStore, contract};
use crate::support::members::{TestServer, preset, with_server};
use crate::support::raw_client::wait_until;
use crate::support::server::operator;

contract!(
    platform_members_cannot_see_each_others_links,
    deleted_account_takes_its_links_along,
    interrupted_account_deletion_is_finished_at_the_next_start,
    concurrent_requests_for_one_target_get_one_link,
    live_link_quota_holds_under_concurrent_creations,
    team_reuses_and_revives_the_link_of_a_target,
);

fn shorten(caller: &ApiClient, target: &str) -> ApiResponse {
    caller.post("/links", &json!({"target": target}))
}

async fn interrupted_account_deletion_is_finished_at_the_next_start(test_store: TestStore) {
    let mut policy = preset(Preset::Platform);
    policy.limits.creations_per_hour = None;
    with_server(test_store, policy, |mut server| {
        let (ann, bob) = (server.member(), server.member());
        let links: Vec<_> = (0..300)
            .map(|number| json!({"code": format!("anns-{number}"), "target": "https://example.com/"}))
            .collect();
        ann.post("/links/bulk", &json!({"links": links})).expect(200);
        bob.post("/links", &json!({"code": "bobs", "target": "https://example.com/"})).expect(201);
        assert_eq!(server.visit("/anns-0").status, 302);
        // As if the process had ended between the account and its links; of one of these somebody takes care.
        server.stop();
        let (store, by) = (server.store(), operator());
        let user = ann.user.as_ref().unwrap();
        let gone = store.delete_user(user, "deleted-somebody", &by, server.now());
        server.runtime.block_on(gone).unwrap();
        server.advance_ms(1_000);
        let cared_for = async {
            let link =
                store.link(server.main.id, &Code::from_path("anns-7").unwrap()).await.unwrap().unwrap();
            let next = Box::new(Link { title: Some("kept".to_owned()), ..link });
            let op = LinkOp::Replace { next, action: Action::Update };
            store.write(LinkWrite::new(server.main.id, by.clone(), server.now(), op)).await.unwrap();
        };
        server.runtime.block_on(cared_for);
        let left = |server: &TestServer| {
            let workspaces = [server.main.clone()];
            let work = server.ops.finish_deletions(&workspaces, WriteMode::DryRun, server.now());
            server.runtime.block_on(work).unwrap().first().map_or(0, |(_, links)| *links)
        };
        assert_eq!(left(&server), 299, "all of them, and not a page");
        server.restart();
        wait_until("it is finished", || left(&server) == 0);
        for (code, status) in [("anns-0", 410), ("anns-299", 410), ("anns-7", 302), ("bobs", 302)] {
            wait_until("the table has heard", || server.visit(&format!("/{code}")).status == status);
        }
    })
    .await;
}

async fn platform_members_cannot_see_each_others_links(test_store: TestStore) {
    with_server(test_store, preset(Preset::Platform), |server| {
        let (ann, bob, admin, root) = (server.member(), server.member(), server.admin(), server.root());
        bob.post(
            "/links",
            &json!({"code": "Bobs-own", "target": "https://secret.example/", "title": "canary"}),
        )
        .expect(201);
        ann.post("/links", &json!({"code": "Anns-own", "target": "https://example.com/"})).expect(201);
        let click = server.visit("/Bobs-own");
        assert_eq!(click.status, 302);
        server.visit("/nothing-there");
        wait_until("the click is counted", || {
            bob.get("/links/Bobs-own/stats?bots=include").expect(200).json()["total"]["clicks"] == 1
        });

        for path in ["", "/history", "/stats", "/clicks", "/qr"] {
            ann.get(&format!("/links/Bobs-own{path}")).refused(404, "NOT_FOUND");
            for caller in [&bob, &admin, &root] {
                caller.get(&format!("/links/Bobs-own{path}")).expect(200);
            }
        }
        ann.patch("/links/Bobs-own", &json!({"title": "mine"})).refused(404, "NOT_FOUND");
        ann.delete("/links/Bobs-own").refused(404, "NOT_FOUND");
        ann.get("/links/Bobs-own?at=2030-01-01").refused(404, "NOT_FOUND");
        for url in ["Bobs-own", "https://rmax.to/Bobs-own", "/Bobs-own+", "rmax.to/Bobs-own"] {
            let url = url.replace('+', "%2B");
            ann.get(&format!("/explain?url={url}")).refused(404, "NOT_FOUND");
            bob.get(&format!("/explain?url={url}")).expect(200);
        }
        for query in ["", "?search=canary", "?prefix=B", "?sort=clicks", "?state=active&sort=code"] {
            let page = ann.get(&format!("/links{query}")).expect(200).json();
            assert!(!page.to_string().contains("Bobs-own"), "{query}: {page}");
            assert_eq!(page["total"], page["data"].as_array().unwrap().len(), "{query}: {page}");
            assert!(admin.get(&format!("/links{query}")).expect(200).json().to_string().contains("Bobs-own"));
        }
        let stats = ann.get("/stats?bots=include").expect(200).json();
        assert_eq!(
            (&stats["total"]["clicks"], &stats["top_links"], &stats["misses"]),
            (&json!(0), &json!([]), &json!([])),
            "{stats}"
        );
        let stats = admin.get("/stats?bots=include").expect(200).json();
        assert_eq!(stats["top_links"][0]["code"], "Bobs-own", "{stats}");
        assert_eq!(root.get("/stats?bots=include").expect(200).json()["top_links"][0]["code"], "Bobs-own");

        // Deleted, it is still Bob's: nobody else brings it back or takes its code and learns what it was.
        bob.delete("/links/Bobs-own").expect(204);
        ann.request("POST", "/links/Bobs-own/restore").send().refused(404, "NOT_FOUND");
        let take = json!({"code": "Bobs-own", "target": "https://example.com/", "recreate": true});
        ann.post("/links", &take).refused(409, "CODE_TAKEN");
        ann.get("/links/Bobs-own/history").refused(404, "NOT_FOUND");
        bob.request("POST", "/links/Bobs-own/restore").send().expect(200);
        bob.delete("/links/Bobs-own").expect(204);
        assert_eq!(server.visit("/Bobs-own").status, 410);
        bob.get("/links/Bobs-own/stats").expect(200);
        bob.post("/links", &take).expect(201);
        // An admin changes what is another's, and it stays another's.
        admin.patch("/links/Bobs-own", &json!({"title": "by admin"})).expect(200);
        assert_eq!(bob.get("/links/Bobs-own").expect(200).json()["title"], "by admin");

        // A viewer sees what is theirs: nothing.
        let viewer = server.viewer();
        assert_eq!(viewer.get("/links").expect(200).json()["total"], 0);
        viewer.get("/links/Bobs-own").refused(404, "NOT_FOUND");
    })
    .await;
}

#[test]
fn platform_aliases_are_unique_ignoring_case() {
    let server = TestServer::new(Preset::Platform);
    let (ann, bob) = (server.member(), server.member());
    let alias = |caller: &ApiClient, code: &str| {
        caller.post("/links", &json!({"code": code, "target": "https://example.com/"}))
    };
    alias(&ann, "Alias").expect(201);
    for other in ["alias", "ALIAS", "Alias"] {
        alias(&ann, other).refused(409, "CODE_TAKEN");
        alias(&bob, other).refused(409, "CODE_TAKEN");
        assert_eq!(ann.get(&format!("/check/{other}")).expect(200).json()["available"], false, "{other}");
    }
    // Generated codes may differ by case alone.
    let made = shorten(&ann, "https://example.com/").expect(201).json();
    let code = made["code"].as_str().unwrap();
    let swapped: String =
        code.chars()
            .map(|letter| {
                if letter.is_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
            })
            .collect();
    if swapped != code {
        alias(&ann, &swapped).expect(201);
    }
    let replies = at_once(20, |number| alias(&ann, if number % 2 == 0 { "RaCe" } else { "rAcE" }));
    assert_eq!(replies.iter().filter(|reply| reply.status() == 201).count(), 1, "{replies:?}");
    for (code, refused) in [
        ("ab", "code: too_short"),
        ("with_line", "code: bad_characters"),
        (&*"x".repeat(51), "code: too_long"),
    ] {
        assert_eq!(alias(&ann, code).fields(), [refused]);
    }
}

#[test]
fn platform_member_is_limited_to_100_links_an_hour() {
    let server = TestServer::new(Preset::Platform);
    let (ann, bob) = (server.member(), server.member());
    let second = server.key(&server.main, ann.user.as_ref(), Scopes::ALL);
    let header = |reply: &ApiResponse, name: &str| {
        reply.header(name).unwrap_or_else(|| panic!("{name}: {reply:?}")).parse::<u32>().unwrap()
    };
    let first = shorten(&ann, "https://example.com/").expect(201);
    assert_eq!((header(&first, "x-ratelimit-limit"), header(&first, "x-ratelimit-remaining")), (100, 99));
    assert_eq!(header(&first, "x-ratelimit-reset"), 3600);
    // Refused ones are requests only.
    for _ in 0..5 {
        let refused = ann.post("/links", &json!({"target": "nowhere"}));
        refused.refused(400, "VALIDATION_FAILED");
        assert_eq!(header(&refused, "x-ratelimit-limit"), 1000);
    }
    let items: Vec<Value> = (0..50).map(|n| json!({"target": format!("https://example.com/{n}")})).collect();
    let made = second.post("/links/bulk", &json!({"links": items})).expect(200).json();
    assert!(made["results"].as_array().unwrap().iter().all(|result| result["status"] == 201), "{made}");
    // 49 are left, however many ask; the limit is the person's and not the key's.
    let items: Vec<Value> =
        (0..60).map(|n| json!({"target": format!("https://example.com/more/{n}")})).collect();
    let made = ann.post("/links/bulk", &json!({"links": items})).expect(200).json();
    let results = made["results"].as_array().unwrap();
    let count = |status: u64| results.iter().filter(|result| result["status"] == status).count();
    assert_eq!((count(201), count(429)), (49, 11), "{made}");
    let refused = shorten(&second, "https://example.com/last");
    refused.refused(429, "RATE_LIMITED");
    assert_eq!((header(&refused, "x-ratelimit-limit"), header(&refused, "x-ratelimit-remaining")), (100, 0));
    assert_eq!((header(&refused, "retry-after"), header(&refused, "x-ratelimit-reset")), (3600, 3600));
    shorten(&bob, "https://example.com/").expect(201);
    ann.get("/links").expect(200);
    // A key that is nobody's counts as a user of its own.
    let roots = [server.root(), server.root()];
    for root in roots {
        assert_eq!(header(&shorten(&root, "https://example.com/").expect(201), "x-ratelimit-remaining"), 99);
    }
}

#[test]
fn key_is_limited_to_its_requests_an_hour() {
    let mut policy = Policy::preset(Preset::Team);
    assert_eq!(policy.limits.requests_per_hour, Some(1000));
    policy.limits.requests_per_hour = Some(3);
    let server = TestServer::at(TestStore::sqlite(), policy, |_| ());
    let ann = server.member();
    for left in ["2", "1", "0"] {
        let reply = ann.get("/links").expect(200);
        assert_eq!(
            (reply.header("x-ratelimit-limit"), reply.header("x-ratelimit-remaining")),
            (Some("3"), Some(left))
        );
    }
    let refused = ann.get("/links");
    refused.refused(429, "RATE_LIMITED");
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(refused.header("retry-after"), Some("3600"));
    // The limit is of the key; who has no key is not known well enough to have one.
    server.key(&server.main, ann.user.as_ref(), Scopes::ALL).get("/links").expect(200);
    server.anonymous().get("/links").refused(401, "UNAUTHENTICATED");
}

async fn deleted_account_takes_its_links_along(test_store: TestStore) {
    with_server(test_store, preset(Preset::Platform), |server| {
        server.admin();
        let email = "ann-who-leaves@example.com";
        let user = server.user_with_email(&server.main, Role::Member, email);
        let (ann, second) = (
            server.key(&server.main, Some(&user), Scopes::ALL),
            server.key(&server.main, Some(&user), Scopes::DEFAULT),
        );
        let bob = server.member();
        for number in 0..5 {
            ann.post("/links", &json!({"code": format!("anns-{number}"), "target": "https://example.com/"}))
                .expect(201);
        }
        ann.patch("/links/anns-4", &json!({"state": "disabled"})).expect(200);
        bob.post("/links", &json!({"code": "bobs", "target": "https://example.com/"})).expect(201);
        assert_eq!(server.visit("/anns-1").status, 302);
        ann.delete("/me").refused(403, "FORBIDDEN");
        server.admin().delete(&format!("/users/{}", user.id)).expect(204);
        ann.get("/me").refused(401, "UNAUTHENTICATED");
        second.get("/me").refused(401, "UNAUTHENTICATED");
        let admin = server.admin();
        assert_eq!(admin.get("/links?state=deleted").expect(200).json()["total"], 5);
        wait_until("their links are gone", || {
            (0..5).all(|number| server.visit(&format!("/anns-{number}")).status == 410)
        });
        assert_eq!(server.visit("/bobs").status, 302);
        let users = admin.get("/users").expect(200).json().to_string();
        assert!(!users.contains(email), "{users}");
        // The same person may come back, as somebody new.
        let again = admin.post("/users", &json!({"email": email.to_uppercase()})).expect(201).json();
        assert_ne!(again["id"], user.id.to_string());
        assert_eq!(again["email"], email);
    })
    .await;
}

async fn concurrent_requests_for_one_target_get_one_link(test_store: TestStore) {
    with_server(test_store, preset(Preset::Team), |server| {
        let member = server.member();
        let replies = at_once(100, |number| {
            shorten(
                &member,
                if number % 2 == 0 {
                    "https://example.com/one?b=2&a=1"
                } else {
                    "HTTPS://EXAMPLE.com:443/one/?a=1&utm_source=x&b=2"
                },
            )
        });
        let count = |status| replies.iter().filter(|reply| reply.status() == status).count();
        assert_eq!((count(201), count(200)), (1, 99), "{replies:?}");
        let mut bodies = BTreeSet::new();
        for reply in &replies {
            let mut body = reply.json();
            assert_eq!(body["reused"], reply.status() == 200);
            body.as_object_mut().unwrap().remove("reused");
            bodies.insert(body.to_string());
        }
        assert_eq!(bodies.len(), 1, "{bodies:?}");
        assert_eq!(member.get("/links").expect(200).json()["total"], 1);
        assert_eq!(server.actions().iter().filter(|action| action.starts_with("link.")).count(), 1);
    })
    .await;
}

async fn team_reuses_and_revives_the_link_of_a_target(test_store: TestStore) {
    with_server(test_store, preset(Preset::Team), |server| {
        let member = server.member();
        let first = member.post("/links", &json!({"target": "https://example.com/Page/?utm_source=a&x=1", "title": "One"})).expect(201).json();
        let code = first["code"].as_str().unwrap().to_owned();
        assert_eq!(code.len(), 10);
        assert_eq!(first["target"], "https://example.com/Page/?utm_source=a&x=1", "it leads where it was told to");
        for (target, same) in [
            ("HTTPS://Example.COM:443/Page?x=1", true),
            ("https://example.com/Page?x=1&gclid=9", true),
            ("https://example.com/page?x=1", false),
            ("http://example.com/Page?x=1", false),
            ("https://example.com/Page?x=1#part", false),
        ] {
            let reply = shorten(&member, target);
            assert_eq!(reply.status() == 200, same, "{target}: {reply:?}");
            assert_eq!(reply.json()["code"] == *code, same, "{target}");
        }
        // A live one is handed back as it is, and says what of the request it does not have.
        let asked = json!({"target": "https://example.com/Page?x=1", "title": "Two", "redirect_status": 301, "tags": ["new"], "notes": ""});
        let reused = member.post("/links", &asked).expect(200).json();
        assert_eq!((&reused["reused"], &reused["revived"]), (&json!(true), &json!(false)));
        let missing: BTreeSet<_> = reused["not_applied"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(missing, BTreeSet::from(["title", "redirect_status", "tags"]));
        assert_eq!((&reused["title"], &reused["version"]), (&json!("One"), &json!(1)));
        // A chosen code makes a link of its own.
        let chosen = member.post("/links", &json!({"code": "Chosen_1", "target": "https://example.com/Page?x=1"})).expect(201).json();
        assert_eq!(chosen["reused"], false);

        // Deleted, disabled or expired, it comes back under the same code.
        let path = format!("/links/{code}");
        member.delete(&path).expect(204);
        assert_eq!(server.visit(&format!("/{code}")).status, 404);
        let revived = member.post("/links", &asked).expect(200).json();
        assert_eq!((&revived["reused"], &revived["revived"], &revived["code"]), (&json!(true), &json!(true), &json!(code)));
        assert_eq!((&revived["title"], &revived["redirect_status"], &revived["id"]), (&json!("Two"), &json!(301), &first["id"]));
        assert_eq!(server.visit(&format!("/{code}")).status, 301);
        assert_eq!(server.actions().last().unwrap(), "link.restore");
        member.patch(&path, &json!({"state": "disabled"})).expect(200);
        assert_eq!(shorten(&member, "https://example.com/Page?x=1").expect(200).json()["state"], "active");
        let soon = server.now().plus_ms(1000).to_string();
        member.patch(&path, &json!({"expires_at": soon})).expect(200);
        server.advance_ms(2000);
        let revived = shorten(&member, "https://example.com/Page?x=1").expect(200).json();
        assert_eq!((&revived["revived"], &revived["expires_at"], &revived["expired"]), (&json!(true), &Value::Null, &json!(false)));

        // Two generated links never lead to one page.
        let other = shorten(&member, "https://example.com/other").expect(201).json();
        let other = other["code"].as_str().unwrap();
        member.patch(&format!("/links/{other}"), &json!({"target": "https://example.com/Page?x=1&utm_medium=y"})).refused(409, "CONFLICT");
        member.patch(&format!("/links/{other}"), &json!({"target": "https://example.com/third"})).expect(200);
        assert_eq!(shorten(&member, "https://example.com/third").expect(200).json()["code"], other, "found by what it leads to now");
        let anew = shorten(&member, "https://example.com/other").expect(201).json();
        assert_ne!(anew["code"], other, "the code of its hash is taken, so the next salt");
    })
    .await;
}

async fn live_link_quota_holds_under_concurrent_creations(test_store: TestStore) {
    let mut policy = Policy::preset(Preset::Edge);
    assert_eq!(policy.limits.live_links, Some(1000));
    policy.limits.live_links = Some(20);
    with_server(test_store, policy, |server| {
        let root = server.root();
        for number in 0..10 {
            shorten(&root, &format!("https://example.com/{number}")).expect(201);
        }
        let replies = at_once(50, |number| shorten(&root, &format!("https://example.com/at-once/{number}")));
        let made: Vec<_> = replies.iter().filter(|reply| reply.status() == 201).collect();
        assert_eq!(made.len(), 10, "{replies:?}");
        for reply in replies.iter().filter(|reply| reply.status() != 201) {
            reply.refused(409, "QUOTA_EXCEEDED");
        }
        // What is gone makes room, and what comes back needs it.
        let code = made[0].json()["code"].as_str().unwrap().to_owned();
        root.delete(&format!("/links/{code}")).expect(204);
        shorten(&root, "https://example.com/room").expect(201);
        root.request("POST", &format!("/links/{code}/restore")).send().refused(409, "QUOTA_EXCEEDED");
        // Disabled ones are still there; expired ones are not counted.
        let code = made[1].json()["code"].as_str().unwrap().to_owned();
        root.patch(&format!("/links/{code}"), &json!({"state": "disabled"})).expect(200);
        shorten(&root, "https://example.com/no-room").refused(409, "QUOTA_EXCEEDED");
        root.patch(&format!("/links/{code}"), &json!({"expires_at": server.now().plus_ms(1000).to_string()}))
            .expect(200);
        server.advance_ms(2000);
        shorten(&root, "https://example.com/room-again").expect(201);
        root.patch(&format!("/links/{code}"), &json!({"expires_at": null})).refused(409, "QUOTA_EXCEEDED");
    })
    .await;
}

#[test]
fn fabric_refuses_upper_case_codes_and_folds_them_when_reading() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    let reply = member.post("/links", &json!({"code": "Parity", "target": "https://example.com/"}));
    assert_eq!(reply.fields(), ["code: bad_characters"]);
    assert!(reply.answer.body.contains("parity"), "the lower-case form is the way out: {reply:?}");
    member.post("/links", &json!({"code": "parity", "target": "https://example.com/"})).expect(201);
    assert_eq!(server.visit("/PARITY").status, 301);
    let made = shorten(&member, "https://example.com/").expect(201).json();
    let code = made["code"].as_str().unwrap();
    assert!(
        code.len() == 7 && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
        "{code}"
    );
}

/// The policy refuses the two together; a workspace that had them before hands out nothing of others.
#[test]
fn owner_visibility_prevents_reuse_of_links_of_others() {
    let policy = Policy {
        visibility: rlinks_core::workspace::policy::Visibility::Owner,
        ..Policy::preset(Preset::Team)
    };
    let server = TestServer::at(TestStore::sqlite(), policy, |_| ());
    let (ann, bob) = (server.member(), server.member());
    let target = "https://example.com/private";
    let anns = ann.post("/links", &json!({"target": target, "title": "Ann's"})).expect(201).json();
    let at = format!("/links/{}", anns["code"].as_str().unwrap());
    let bobs = shorten(&bob, target).expect(201).json();
    assert_ne!((&bobs["code"], &bobs["title"]), (&anns["code"], &anns["title"]));
    ann.patch(&at, &json!({"state": "disabled"})).expect(200);
    bob.post("/links", &json!({"target": target, "title": "Bob's"})).expect(201);
    let now = ann.get(&at).expect(200).json();
    assert_eq!((&now["state"], &now["title"]), (&json!("disabled"), &json!("Ann's")));
}
