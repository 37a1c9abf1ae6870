//! The statistics of the workspace.

use rlinks_core::{Preset, Role};
use serde_json::json;

use super::{house, open, person};
use crate::client::wait_until;

const PEOPLE: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\nReferer: https://news.example/a\r\n";

#[test]
fn clicks_are_counted_drawn_and_written_out() {
    let (house, mut ann) = house(Preset::Fabric);
    let admin = house.admin();
    admin.post("/links", &json!({"code": "parity", "target": "https://example.com/"})).expect(201);
    let empty = open(&mut ann, "/admin/stats");
    assert!(empty.contains("No clicks in this time"), "{empty}");
    for _ in 0..3 {
        assert_eq!(house.visit_with("/parity", PEOPLE).status, 301);
    }
    assert_eq!(house.visit_with("/nowhere", PEOPLE).status, 404);
    let mut viewer = person(&house, Role::Viewer, "viewer@example.com");
    wait_until("clicks are counted", || {
        open(&mut viewer, "/admin/stats").contains("<dt>Clicks</dt><dd><strong>3</strong></dd>")
    });
    wait_until("misses are counted", || {
        open(&mut viewer, "/admin/stats").contains("<span class=\"name\">nowhere</span>")
    });
    let page = open(&mut viewer, "/admin/stats?range=7");
    assert!(
        page.contains("<figure class=\"chart\">")
            && page.contains("<title>2027-01-15: clicks 3, visitors 1</title>"),
        "{page}"
    );
    assert!(
        page.contains(
            "<th scope=\"row\">2027-01-15</th><td class=\"number\">3</td><td class=\"number\">1</td>"
        ),
        "{page}"
    );
    assert!(page.contains("<span class=\"name\">news.example</span>") && page.contains("Firefox"), "{page}");
    assert!(page.contains("href=\"/admin/links/parity\""), "{page}");
    assert_eq!(page.matches("<rect class=\"hit\"").count(), 7, "{page}");
    let year = open(&mut viewer, "/admin/stats?range=365&tz=Europe%2FBerlin");
    assert!(year.contains("days of Europe/Berlin") && year.contains("By week"), "{year}");
    let before = open(&mut viewer, "/admin/stats?from=2026-12-01&to=2027-01-01");
    assert!(before.contains("<dt>Clicks</dt><dd><strong>0</strong></dd>"), "{before}");
    let after = open(&mut viewer, "/admin/stats?from=2030-12-01&to=2031-01-01");
    assert!(after.contains("<dt>Clicks</dt><dd><strong>0</strong></dd>"), "{after}");
}

#[test]
fn a_question_without_sense_is_explained_beside_its_field() {
    let (_house, mut ann) = house(Preset::Fabric);
    for (query, field) in [
        ("from=soon", "from"),
        ("to=1999-13-01", "to"),
        ("tz=Middle%2FEarth", "tz"),
        ("from=2027-01-10&to=2027-01-01", "from"),
    ] {
        let refused = ann.get(&format!("/admin/stats?{query}"));
        assert_eq!(refused.status, 400, "{query}: {refused:?}");
        assert!(refused.body.contains(&format!("id=\"{field}-problem\"")), "{query}: {refused:?}");
    }
}
