//! Many links in one request: what comes of them is what would come of them one after the other.

use rlinks_core::{Policy, Preset};
use serde_json::{Value, json};

use super::house::{Person, in_house, preset};
use crate::database::{Place, contract};

contract!(
    of_several_the_first_is_made_and_the_others_get_it,
    of_one_code_the_first_wins,
    what_is_left_of_the_hour_goes_to_the_first,
    a_circle_within_one_request_is_seen,
);

fn bulk(person: &Person, links: &[Value]) -> Vec<Value> {
    let made = person.post("/links/bulk", &json!({ "links": links })).expect(200).json();
    made["results"].as_array().unwrap().clone()
}

fn statuses(results: &[Value]) -> Vec<u64> {
    results.iter().map(|result| result["status"].as_u64().unwrap()).collect()
}

async fn of_several_the_first_is_made_and_the_others_get_it(place: Place) {
    in_house(place, preset(Preset::Team), |house| {
        let member = house.member();
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

async fn of_one_code_the_first_wins(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let member = house.member();
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

async fn what_is_left_of_the_hour_goes_to_the_first(place: Place) {
    let mut policy: Policy = preset(Preset::Platform);
    policy.limits.creations_per_hour = Some(7);
    in_house(place, policy, |house| {
        let member = house.member();
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

async fn a_circle_within_one_request_is_seen(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let link = |code: &str, target: &str| json!({"code": code, "target": target, "no_loop": false});
        let links = [
            link("here", "https://rmax.to/there"),
            link("apart", "https://example.com/"),
            link("there", "https://rmax.to/here"),
            link("on", "https://rmax.to/apart"),
        ];
        let results = bulk(&house.member(), &links);
        assert_eq!(statuses(&results), [201, 201, 400, 201], "{results:?}");
    })
    .await;
}
