//! The statistics of the workspace.

use rlinks_core::{Preset, Role};
use serde_json::json;

use super::{open, person, server_with_admin};
use crate::support::browser::signed_in;
use crate::support::raw_client::wait_until;

const PEOPLE: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\nReferer: https://news.example/a\r\n";

#[test]
fn clicks_are_counted_charted_and_listed() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let admin = server.admin();
    admin.post("/links", &json!({"code": "parity", "target": "https://example.com/"})).expect(201);
    let empty = open(&mut ann, "/admin/stats");
    assert!(empty.contains("No clicks in this time"), "{empty}");
    for _ in 0..3 {
        assert_eq!(server.visit_with("/parity", PEOPLE).status, 301);
    }
    assert_eq!(server.visit_with("/nowhere", PEOPLE).status, 404);
    let mut viewer = person(&server, Role::Viewer, "viewer@example.com");
    wait_until("clicks are counted", || {
        open(&mut viewer, "/admin/stats").contains("<dt>Clicks</dt><dd><strong>3</strong></dd>")
    });
    wait_until("misses are counted", || {
        open(&mut viewer, "/admin/stats").contains("<span class=\"name\">nowhere</span>")
    });
    let page = open(&mut viewer, "/admin/stats?range=7d");
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
    let year = open(&mut viewer, "/admin/stats?range=1y&tz=Europe%2FBerlin");
    assert!(year.contains("2026 to 15 Jan 2027, Europe/Berlin") && year.contains("By week"), "{year}");
    // The last day is a whole day, as on the page of a link.
    let today = open(&mut viewer, "/admin/stats?from=2027-01-15&to=2027-01-15");
    assert!(today.contains("<dt>Clicks</dt><dd><strong>3</strong>"), "{today}");
    assert!(today.contains("15 Jan 2027, UTC.") && !today.contains("16 Jan"), "{today}");
    let before = open(&mut viewer, "/admin/stats?from=2026-12-01&to=2027-01-01");
    assert!(before.contains("<dt>Clicks</dt><dd><strong>0</strong></dd>"), "{before}");
    let after = open(&mut viewer, "/admin/stats?from=2030-12-01&to=2031-01-01");
    assert!(after.contains("<dt>Clicks</dt><dd><strong>0</strong></dd>"), "{after}");
}

#[test]
fn invalid_range_is_explained_and_the_last_thirty_days_are_shown() {
    let (_server, mut ann) = server_with_admin(Preset::Fabric);
    for (query, field, words) in [
        ("from=soon", "from", "From is not a day; write it like 2026-01-31."),
        ("to=1999-13-01", "to", "To is not a day; write it like 2026-01-31."),
        ("tz=Middle%2FEarth", "tz", "There is no such time zone; write it like Europe/Berlin."),
        ("from=2027-01-10&to=2027-01-01", "from", "From must not be after To."),
        ("from=1900-01-01", "from", "Choose days since 1970."),
        ("from=2030-01-01", "from", "From must not be after today."),
    ] {
        let refused = ann.get(&format!("/admin/stats?{query}"));
        assert_eq!(refused.status, 400, "{query}: {refused:?}");
        assert!(refused.body.contains(words), "{query}: {refused:?}");
        let input = refused.body.split_once(&format!("<input id=\"{field}\"")).unwrap().1;
        assert!(input.split('>').next().unwrap().contains("aria-invalid=\"true\""), "{query}: {refused:?}");
        assert!(refused.body.contains("17 Dec 2026 to 15 Jan 2027, UTC."), "{query}: {refused:?}");
    }
}

#[test]
fn period_is_compared_with_the_one_before() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    server.admin().post("/links", &json!({"code": "parity", "target": "https://example.com/"})).expect(201);
    assert_eq!(server.visit_with("/parity", PEOPLE).status, 301);
    let figure = "<dt>Clicks</dt><dd><strong>1</strong></dd>";
    wait_until("the click is counted", || open(&mut ann, "/admin/stats").contains(figure));
    server.advance_ms(2 * 86_400_000);
    let mut ann = signed_in(server.address, "ann@example.com");
    for _ in 0..2 {
        assert_eq!(server.visit_with("/parity", PEOPLE).status, 301);
    }
    let today = "/admin/stats?from=2027-01-16&to=2027-01-17";
    let figure = "<dt>Clicks</dt><dd><strong>2</strong><span class=\"muted\">+100 % (1 before)</span></dd>";
    wait_until("the clicks are counted", || open(&mut ann, today).contains(figure));
}
