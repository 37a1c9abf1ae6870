//! Many links in one request: what comes of them is what would come of them one after the other.

use rlinks_core::{Policy, Preset};
use serde_json::{Value, json};

use crate::support::database::{TestStore, contract};
use crate::support::members::{ApiUser, preset, with_server};

contract!(
    equal_targets_in_one_request_share_the_first_link,
    first_link_with_a_code_wins,
    remaining_hourly_limit_goes_to_the_first_links,
    loop_within_one_request_is_rejected,
);

fn bulk(person: &ApiUser, links: &[Value]) -> Vec<Value> {
    let made = person.post("/links/bulk", &json!({ "links": links })).expect(200).json();
    made["results"].as_array().unwrap().clone()
}

fn statuses(results: &[Value]) -> Vec<u64> {
    results.iter().map(|result| result["status"].as_u64().unwrap()).collect()
}

async fn equal_targets_in_one_request_share_the_first_link(test_store: TestStore) {
    with_server(test_store, preset(Preset::Team), |server| {
        let member = server.member();
        for round in 0..5 {
            let target = format!("https://example.com/{round}");
            let links: Vec<_> =
                (0..5).map(|n| json!({"target": target, "title": format!("title {n}")})).collect();
            let results = bulk(&member, &links);
            assert_eq!(statuses(&results), [201, 200, 200, 200, 200], "{results:?}");
            for result in &results {
                assert_eq!(result["link"]["title"], "title 0", "{results:?}");
                assert_eq!(result["link"]["code"], results[0]["link"]["code"], "{results:?}");
            }
            assert_eq!(results[4]["link"]["not_applied"], json!(["title"]), "{results:?}");
        }
    })
    .await;
}

async fn first_link_with_a_code_wins(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        for round in 0..5 {
            let link = |n: usize| {
                json!({"code": format!("code-{round}"), "target": format!("https://example.com/{n}")})
            };
            let results = bulk(&member, &(0..300).map(link).collect::<Vec<_>>());
            let mut expected = vec![409; 300];
            expected[0] = 201;
            assert_eq!(statuses(&results), expected);
        }
    })
    .await;
}

async fn remaining_hourly_limit_goes_to_the_first_links(test_store: TestStore) {
    let mut policy: Policy = preset(Preset::Platform);
    policy.limits.creations_per_hour = Some(7);
    with_server(test_store, policy, |server| {
        let member = server.member();
        let mut links: Vec<_> =
            (0..12).map(|n| json!({"target": format!("https://example.com/{n}")})).collect();
        // What is refused takes nobody's place.
        links[2] = json!({"target": "nowhere"});
        links[3] = json!("no object");
        links[5] = json!({"target": "https://example.com/", "code": "admin"});
        let results = bulk(&member, &links);
        let expected = [201, 201, 400, 400, 201, 400, 201, 201, 201, 201, 429, 429];
        assert_eq!(statuses(&results), expected, "{results:?}");
    })
    .await;
}

async fn loop_within_one_request_is_rejected(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let link = |code: &str, target: &str| json!({"code": code, "target": target, "no_loop": false});
        let links = [
            link("here", "https://rmax.to/there"),
            link("apart", "https://example.com/"),
            link("there", "https://rmax.to/here"),
            link("on", "https://rmax.to/apart"),
        ];
        let results = bulk(&server.member(), &links);
        assert_eq!(statuses(&results), [201, 201, 400, 201], "{results:?}");
    })
    .await;
}
