//! A store that is away: the API says so, and redirects go on.

use rlinks_core::Preset;
use serde_json::json;

use super::house::House;
use crate::client::wait_until;

#[test]
fn a_store_that_is_away_is_503_and_redirects_go_on() {
    let house = House::new(Preset::Fabric);
    let root = house.root();
    root.post("/links", &json!({"code": "here", "target": "https://example.com/"})).expect(201);
    root.get("/links/here").expect(200);
    let path = house.place.folder().join("data/rlinks.db");
    let aside = house.place.folder().join("data/aside.db");
    std::fs::rename(&path, &aside).unwrap();
    wait_until("the API says that the store is away", || root.get("/links/here").status() == 503);
    root.get("/links").refused(503, "KV_UNAVAILABLE");
    root.get("/me").refused(503, "KV_UNAVAILABLE");
    root.post("/links", &json!({"target": "https://example.com/"})).refused(503, "KV_UNAVAILABLE");
    root.delete("/links/here").refused(503, "KV_UNAVAILABLE");
    // Nobody is told that they are unknown: they may well be known.
    let answer = root.get("/keys");
    answer.refused(503, "KV_UNAVAILABLE");
    assert!(!answer.answer.body.contains("rlinks.db"), "{answer:?}");
    assert_eq!(house.visit("/here").location(), Some("https://example.com/"));
    house.anonymous().get("/api/openapi.json").expect(200);
    std::fs::rename(&aside, &path).unwrap();
    wait_until("the API answers again", || root.get("/links/here").status() == 200);
}
