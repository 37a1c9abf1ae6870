//! Hourly limits that slide and outlive a restart, and how many keys, invitations and hosts there may be.

use rlinks_core::{Policy, Preset, Role, Scopes};
use rlinks_server::Config;
use rlinks_store::Store;
use serde_json::{Value, json};

use crate::support::api_client::{ApiClient, ApiResponse, at_once};
use crate::support::database::{TestStore, contract};
use crate::support::members::{ApiUser, TestServer, preset, with_configured_server, with_server};
use crate::support::raw_client::wait_until;

contract!(
    hourly_limit_survives_a_restart,
    uses_are_stored_while_the_server_runs,
    servers_on_one_store_add_up_what_they_counted,
    keys_of_a_member_stop_at_the_quota,
    keys_of_a_workspace_stop_at_ten_times_the_quota,
    invitations_stop_at_the_quota_and_leave_no_member_behind,
    domains_stop_at_the_quota_of_member_and_workspace,
    concurrent_key_creations_stop_at_the_quota,
);

const HOUR_MS: i64 = 3_600_000;

fn number(reply: &ApiResponse, name: &str) -> u32 {
    reply.header(name).unwrap_or_else(|| panic!("{name}: {reply:?}")).parse().unwrap()
}

/// What a refusal says, in words.
#[track_caller]
fn message(reply: &ApiResponse, status: u16, code: &str) -> String {
    reply.refused(status, code);
    reply.json()["error"]["message"].as_str().unwrap().to_owned()
}

fn limited(per_hour: u32) -> Policy {
    let mut policy = preset(Preset::Fabric);
    policy.limits.requests_per_hour = Some(per_hour);
    policy
}

/// So many requests that are answered.
fn requests(person: &ApiUser, count: usize) {
    for _ in 0..count {
        person.get("/links").expect(200);
    }
}

fn stored_uses(store: &Store, server: &TestServer) -> i64 {
    let since = server.now().plus_ms(-HOUR_MS);
    let rows = server.runtime.block_on(store.limit_uses_since(since, None)).unwrap();
    rows.iter().filter(|row| row.kind == "requests").map(|row| row.uses).sum()
}

fn make_key(maker: &ApiUser) -> ApiResponse {
    maker.post("/keys", &json!({"name": "one more"}))
}

fn made_key(maker: &ApiUser) -> (Value, ApiUser) {
    let made = make_key(maker).expect(201).json();
    let caller = ApiClient { key: Some(made["key"].as_str().unwrap().to_owned()), ..maker.caller.clone() };
    (made, ApiUser { caller, ..maker.clone() })
}

/// Hostile inputs, S43.
#[test]
fn requests_of_any_hour_stay_within_the_limit() {
    let server = TestServer::at(TestStore::sqlite(), limited(1000), |_| ());
    let ann = server.member();
    requests(&ann, 500);
    server.advance_ms(HOUR_MS / 2);
    requests(&ann, 499);
    let last = ann.get("/links").expect(200);
    assert_eq!((number(&last, "x-ratelimit-remaining"), number(&last, "x-ratelimit-reset")), (0, 1800));
    for _ in 0..2 {
        let refused = ann.get("/links");
        refused.refused(429, "RATE_LIMITED");
        assert_eq!((number(&refused, "retry-after"), number(&refused, "x-ratelimit-reset")), (1800, 1800));
    }
    server.advance_ms(HOUR_MS / 2 - 1);
    let refused = ann.get("/links");
    refused.refused(429, "RATE_LIMITED");
    assert_eq!(number(&refused, "retry-after"), 1);
    server.advance_ms(1);
    requests(&ann, 500);
    ann.get("/links").refused(429, "RATE_LIMITED");
}

/// Hostile inputs, S43.
#[test]
fn links_made_in_any_hour_stay_within_the_limit() {
    let server = TestServer::new(Preset::Platform);
    let ann = server.member();
    let make = |count: usize| {
        let items: Vec<Value> =
            (0..count).map(|number| json!({"target": format!("https://example.com/{number}")})).collect();
        let made = ann.post("/links/bulk", &json!({ "links": items })).expect(200).json();
        made["results"].as_array().unwrap().iter().filter(|result| result["status"] == 201).count()
    };
    assert_eq!(make(100), 100);
    server.advance_ms(HOUR_MS / 2);
    assert_eq!(make(60), 0, "a bucket would have refilled by fifty");
    let refused = ann.post("/links", &json!({"target": "https://example.com/x"}));
    refused.refused(429, "RATE_LIMITED");
    assert_eq!(number(&refused, "retry-after"), 1800);
    server.advance_ms(HOUR_MS / 2);
    assert_eq!(make(160), 100);
}

#[test]
fn clock_set_back_frees_no_requests() {
    let server = TestServer::at(TestStore::sqlite(), limited(5), |_| ());
    let ann = server.member();
    requests(&ann, 5);
    for step in [-HOUR_MS, -24 * HOUR_MS, 25 * HOUR_MS] {
        server.advance_ms(step);
        ann.get("/links").refused(429, "RATE_LIMITED");
    }
}

/// Hostile inputs, S43.
async fn hourly_limit_survives_a_restart(test_store: TestStore) {
    with_server(test_store, limited(10), |mut server| {
        let ann = server.member();
        requests(&ann, 7);
        server.advance_ms(1_200_000);
        requests(&ann, 3);
        server.restart();
        let ann = ApiUser { caller: ApiClient { address: server.address, ..ann.caller.clone() }, ..ann };
        let refused = ann.get("/links");
        refused.refused(429, "RATE_LIMITED");
        assert_eq!(number(&refused, "retry-after"), 2400);
        server.advance_ms(2_400_000);
        requests(&ann, 7);
        ann.get("/links").refused(429, "RATE_LIMITED");
    })
    .await;
}

/// What a second server starts with is what remains of the first after `kill -9`.
async fn uses_are_stored_while_the_server_runs(test_store: TestStore) {
    with_server(test_store, limited(10), |server| {
        let ann = server.member();
        requests(&ann, 10);
        wait_until("the uses are stored", || stored_uses(server.store(), &server) == 10);
        let second = server.second(|_| ());
        let there = ApiClient { address: second.address, ..ann.caller.clone() };
        there.get("/links").refused(429, "RATE_LIMITED");
        second.stop();
    })
    .await;
}

async fn servers_on_one_store_add_up_what_they_counted(test_store: TestStore) {
    with_server(test_store, limited(10), |mut server| {
        let ann = server.member();
        let second = server.second(|_| ());
        let there = ApiClient { address: second.address, ..ann.caller.clone() };
        requests(&ann, 6);
        for _ in 0..4 {
            there.get("/links").expect(200);
        }
        second.stop();
        server.restart();
        assert_eq!(stored_uses(server.store(), &server), 10);
        let ann = ApiClient { address: server.address, ..ann.caller.clone() };
        ann.get("/links").refused(429, "RATE_LIMITED");
        // What counts no longer goes when the daily job comes.
        server.advance_ms(HOUR_MS);
        let purged = server.runtime.block_on(server.store().purge_limit_uses(server.now().plus_ms(-HOUR_MS)));
        assert!(purged.unwrap() > 0);
        assert_eq!(stored_uses(server.store(), &server), 0);
    })
    .await;
}

/// More keys don't make more requests. Hostile inputs, S43.
#[test]
fn requests_of_all_keys_of_a_member_stop_at_ten_times_the_limit() {
    let server = TestServer::at(TestStore::sqlite(), limited(4), |config| {
        config.resource_limits.keys = Some(0);
    });
    let (ann, bob) = (server.member(), server.member());
    let user = ann.user.clone().unwrap();
    let keys: Vec<_> = (0..12).map(|_| server.key(&server.main, Some(&user), Scopes::DEFAULT)).collect();
    let answered: usize =
        keys.iter().map(|key| (0..5).filter(|_| key.get("/links").status() == 200).count()).sum();
    assert_eq!(answered, 40);
    let refused = keys[11].get("/links");
    let message = message(&refused, 429, "RATE_LIMITED");
    assert!(message.contains("all your API keys together"), "{message}");
    assert_eq!(number(&refused, "x-ratelimit-limit"), 40);
    ann.get("/links").refused(429, "RATE_LIMITED");
    requests(&bob, 4);
    // What was refused for all keys together isn't counted for the key.
    server.advance_ms(HOUR_MS);
    requests(&keys[11], 4);
}

/// Hostile inputs, S43.
#[test]
fn creating_a_key_counts_as_a_request() {
    let server = TestServer::at(TestStore::sqlite(), limited(3), |_| ());
    let ann = server.member();
    for left in [2, 1, 0] {
        assert_eq!(number(&make_key(&ann).expect(201), "x-ratelimit-remaining"), left);
    }
    make_key(&ann).refused(429, "RATE_LIMITED");
}

fn quotas(config: &mut Config) {
    config.resource_limits.keys = Some(3);
    config.resource_limits.invitations = Some(2);
    config.resource_limits.domains = Some(2);
}

async fn keys_of_a_member_stop_at_the_quota(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), quotas, |server| {
        let (ann, bob) = (server.member(), server.member());
        let (first, second) = (made_key(&ann), made_key(&ann));
        for maker in [&ann, &first.1] {
            let refused = message(&make_key(maker), 409, "QUOTA_EXCEEDED");
            assert!(refused.contains("`limits.keys`"), "{refused}");
        }
        made_key(&bob);
        // Each key can still be replaced, and the old ones work for a day: twice the quota and no more.
        let rotate = |by: &ApiUser, id: &str| by.request("POST", &format!("/keys/{id}/rotate")).send();
        let id = |made: &Value| made["id"].as_str().unwrap().to_owned();
        let [first, second, own] = [id(&first.0), id(&second.0), ann.key_id()]
            .map(|replaced| rotate(&ann, &replaced).expect(201).json());
        let caller = ApiClient { key: Some(own["key"].as_str().unwrap().to_owned()), ..ann.caller.clone() };
        let ann = ApiUser { caller, ..ann.clone() };
        rotate(&ann, &id(&first)).refused(409, "QUOTA_EXCEEDED");
        make_key(&ann).refused(409, "QUOTA_EXCEEDED");
        // Keys that are over don't count.
        server.advance_ms(24 * HOUR_MS + 1);
        make_key(&ann).refused(409, "QUOTA_EXCEEDED");
        ann.delete(&format!("/keys/{}", id(&second))).expect(204);
        make_key(&ann).expect(201);
    })
    .await;
}

async fn concurrent_key_creations_stop_at_the_quota(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), quotas, |server| {
        let ann = server.member();
        let replies = at_once(20, |_| make_key(&ann));
        let made = replies.iter().filter(|reply| reply.status() == 201).count();
        let refused = replies.iter().filter(|reply| reply.status() == 409).count();
        assert_eq!((made, refused), (2, 18), "{replies:?}");
    })
    .await;
}

async fn keys_of_a_workspace_stop_at_ten_times_the_quota(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), quotas, |server| {
        let members: Vec<_> = (0..11).map(|_| server.member()).collect();
        for member in &members[..9] {
            made_key(member);
            made_key(member);
        }
        made_key(&members[9]);
        let refused = message(&make_key(&members[10]), 409, "QUOTA_EXCEEDED");
        assert!(refused.starts_with("this workspace"), "{refused}");
        let tenant = server.workspace("tenant", preset(Preset::Fabric), &[]);
        made_key(&server.person(&tenant, Role::Admin));
    })
    .await;
}

#[test]
fn platform_has_no_quota_of_keys_unless_it_is_configured() {
    let server = TestServer::new(Preset::Platform);
    let ann = server.member();
    for _ in 0..60 {
        make_key(&ann).expect(201);
    }
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Platform), quotas);
    let ann = server.member();
    made_key(&ann);
    made_key(&ann);
    make_key(&ann).refused(409, "QUOTA_EXCEEDED");
}

/// Hostile inputs, S43.
#[test]
fn default_quota_stops_a_flood_of_keys() {
    let server = TestServer::new(Preset::Fabric);
    let ann = server.member();
    let made = (0..60).filter(|_| make_key(&ann).status() == 201).count();
    assert_eq!(made, 49, "fifty with the one they call with");
}

async fn invitations_stop_at_the_quota_and_leave_no_member_behind(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), quotas, |server| {
        let (admin, other) = (server.admin(), server.admin());
        let invite = |by: &ApiUser, name: &str| {
            by.post("/users", &json!({"email": format!("{name}@example.com"), "role": "member"}))
        };
        let first = invite(&admin, "one").expect(201).json();
        invite(&admin, "two").expect(201);
        let refused = message(&invite(&admin, "three"), 409, "QUOTA_EXCEEDED");
        assert!(refused.contains("`limits.invitations`"), "{refused}");
        let listed = admin.get("/users").expect(200).json().to_string();
        assert!(!listed.contains("three@example.com"), "{listed}");
        invite(&other, "three").expect(201);
        // Somebody who is gone waits for nothing, and invitations end by themselves.
        admin.delete(&format!("/users/{}", first["id"].as_str().unwrap())).expect(204);
        invite(&admin, "four").expect(201);
        invite(&admin, "five").refused(409, "QUOTA_EXCEEDED");
        server.advance_ms(7 * 24 * HOUR_MS + 1);
        invite(&admin, "five").expect(201);
    })
    .await;
}

async fn domains_stop_at_the_quota_of_member_and_workspace(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), quotas, |server| {
        let admins: Vec<_> = (0..3).map(|_| server.admin()).collect();
        let second = server.key(&server.main, admins[0].user.as_ref(), Scopes::ALL);
        let add = |by: &ApiUser, host: &str| by.post("/domains", &json!({ "host": host }));
        add(&admins[0], "a.example").expect(201);
        add(&second, "b.example").expect(201);
        for by in [&admins[0], &second] {
            let refused = message(&add(by, "c.example"), 409, "QUOTA_EXCEEDED");
            assert!(refused.contains("`limits.domains`"), "{refused}");
        }
        add(&admins[0], "a.example").expect(200);
        add(&admins[1], "c.example").expect(201);
        admins[2].delete("/domains/a.example").expect(204);
        add(&admins[0], "d.example").expect(201);
        // `main` has rmax.to and three others; the operator's count for the workspace alone.
        server.workspace(
            "main",
            server.main.policy.clone(),
            &[
                "1.example",
                "2.example",
                "3.example",
                "4.example",
                "5.example",
                "6.example",
                "7.example",
                "8.example",
                "9.example",
                "10.example",
                "11.example",
                "12.example",
                "13.example",
                "14.example",
                "15.example",
                "16.example",
            ],
        );
        let refused = message(&add(&admins[2], "e.example"), 409, "QUOTA_EXCEEDED");
        assert!(refused.starts_with("this workspace has 20 hosts"), "{refused}");
    })
    .await;
}
