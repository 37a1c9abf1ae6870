//! Statistics on the pages: a visitor comes, and the numbers say so.

use rlinks_core::{Preset, Role};

use super::{browser_of, make};
use crate::support::database::{TestStore, contract};
use crate::support::members::{TestServer, preset, with_server};
use crate::support::raw_client::wait_until;

const FIREFOX: &str =
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n";

contract!(clicks_are_shown_on_the_list_and_the_link_page, all_time_includes_clicks_older_than_the_link,);

async fn clicks_are_shown_on_the_list_and_the_link_page(test_store: TestStore) {
    with_server(test_store, preset(Preset::Team), |server| numbers(&server)).await;
}

fn numbers(server: &TestServer) {
    let mut ann = browser_of(server, &server.main, Role::Admin, "ann@example.com");
    make(&mut ann, &[("target", "https://example.com/"), ("code", "busy")]);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "calm")]);
    for number in 0..3 {
        let lines = format!("{FIREFOX}Referer: https://news.example/{number}\r\n");
        assert_eq!(server.visit_with("/busy?utm_campaign=spring", &lines).status, 302);
    }
    assert_eq!(server.visit_with("/busy", "User-Agent: curl/8.0\r\n").status, 302);
    let figures = |page: &str| -> Vec<String> {
        let figures = page.split_once("class=\"figures\"").unwrap().1.split_once("</dl>").unwrap().0;
        figures.split("<strong>").skip(1).map(|part| part.split('<').next().unwrap().to_owned()).collect()
    };
    wait_until("the clicks are counted", || figures(&ann.get("/admin/links/busy").body) == ["3", "1", "1"]);
    let page = ann.get("/admin/links/busy");
    for shown in [
        "<span class=\"name\">news.example</span><span class=\"number\">3</span>",
        "<span class=\"name\">Firefox</span><span class=\"number\">3</span>",
        "<span class=\"name\">spring</span>",
        "role=\"img\" aria-labelledby=\"chart-title chart-desc\"",
        ": clicks 3, visitors 1</title>",
    ] {
        assert!(page.body.contains(shown), "{shown}: {page:?}");
    }
    assert_eq!(page.body.matches("<rect class=\"hit\"").count(), 30);
    // With bots; every range; one's own.
    assert_eq!(figures(&ann.get("/admin/links/busy?bots=include").body), ["4", "1", "1"]);
    for (range, points) in [("24h", 24), ("7d", 7), ("30d", 30), ("90d", 90), ("all", 1)] {
        let page = ann.get(&format!("/admin/links/busy?range={range}"));
        assert_eq!(figures(&page.body)[0], "3", "{range}");
        let bars = page.body.matches("<rect class=\"hit\"").count();
        assert!(bars >= points, "{range}: {bars}");
    }
    let today = server.now().to_string()[..10].to_owned();
    assert_eq!(figures(&ann.get(&format!("/admin/links/busy?from={today}&to={today}")).body)[0], "3");
    assert_eq!(figures(&ann.get("/admin/links/busy?from=2020-01-01&to=2020-01-31").body)[0], "0");
    assert_eq!(figures(&ann.get("/admin/links/busy?from=2040-01-01&to=2040-01-31").body)[0], "0");
    for wrong in ["?from=2020-02-01&to=2020-01-01", "?from=nonsense", "?to=nonsense"] {
        let page = ann.get(&format!("/admin/links/busy{wrong}"));
        assert!(page.status == 200 && page.body.contains("The last 30 days are shown instead"), "{wrong}");
    }
    // In another zone, and in none.
    for zone in ["Europe%2FBerlin", "Pacific%2FAuckland", "nonsense", "%22%3E"] {
        let mut there = ann.clone();
        there.cookies.push(("tz".to_owned(), zone.to_owned()));
        assert_eq!(figures(&there.get("/admin/links/busy").body)[0], "3", "{zone}");
    }
    let list = ann.get("/admin?sort=clicks");
    assert_eq!(super::codes(&list), ["busy", "calm"]);
    assert!(list.body.contains("aria-label=\"Last 7 days: 0, 0, 0, 0, 0, 0, 3\""), "{list:?}");
    assert!(list.body.contains("aria-label=\"Last 7 days: 0, 0, 0, 0, 0, 0, 0\""), "{list:?}");
    assert!(list.body.contains("<td class=\"number\">3<span"), "{list:?}");
    // What the script listens to takes the session.
    assert_eq!(ann.get("/api/v1/links/busy/qr?format=png").status, 200);
}

async fn all_time_includes_clicks_older_than_the_link(test_store: TestStore) {
    with_server(test_store, preset(Preset::Team), |server| older(&server)).await;
}

/// What a page says of its clicks.
fn clicks(page: &str) -> &str {
    let figure = page.split_once("<dt>Clicks</dt><dd><strong>").unwrap().1;
    figure.split('<').next().unwrap()
}

fn older(server: &TestServer) {
    let mut ann = browser_of(server, &server.main, Role::Admin, "ann@example.com");
    make(&mut ann, &[("target", "https://example.com/"), ("code", "moved")]);
    // A link that was made anew while its clicks stayed, as after an import: the clock goes back and the visitors come.
    server.advance_ms(-40 * 86_400_000);
    for _ in 0..3 {
        assert_eq!(server.visit_with("/moved", FIREFOX).status, 302);
    }
    server.advance_ms(40 * 86_400_000);
    let all = "/admin/links/moved?range=all";
    wait_until("the clicks are counted", || clicks(&ann.get(all).body) == "3");
    let page = ann.get(all);
    assert!(page.body.contains("6 Dec 2026 to 15 Jan 2027, UTC."), "{page:?}");
    assert_eq!(clicks(&ann.get("/admin/stats?range=all").body), "3");
    assert_eq!(clicks(&ann.get("/admin/links/moved").body), "0");
    // Of some clicks nothing but their number came along.
    let file = "{\"code\":\"brought\",\"target\":\"https://example.com/\",\"clicks\":1200,\"hits\":1500}";
    crate::support::api_client::import_links(&server.admin(), "?dry_run=false", "application/x-ndjson", file)
        .expect(200);
    let words = "more clicks were counted before the link came here";
    assert!(ann.get("/admin/links/brought?range=all").body.contains(&format!("1,200 {words}")));
    assert!(ann.get("/admin/links/brought?range=all&bots=include").body.contains(&format!("1,500 {words}")));
    assert!(!ann.get("/admin/links/brought").body.contains(words));
}

#[test]
fn default_range_ends_today_in_half_hour_zones() {
    let (_server, mut ann) = super::server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "far")]);
    for path in ["/admin/links/far", "/admin/stats"] {
        for zone in ["Asia%2FKolkata", "Asia%2FKathmandu", "Australia%2FEucla"] {
            let page = ann.get(&format!("{path}?range=7d&tz={zone}"));
            let span = format!("9 Jan to 15 Jan 2027, {}.", zone.replace("%2F", "/"));
            assert!(page.status == 200 && page.body.contains(&span), "{zone}: {page:?}");
            assert!(
                page.body.contains("name=\"to\" type=\"date\" min=\"1970-01-01\" value=\"2027-01-15\""),
                "{page:?}"
            );
            assert_eq!(page.body.matches("<rect class=\"hit\"").count(), 7, "{page:?}");
        }
    }
}

#[test]
fn breakdown_states_its_range_where_it_differs_from_the_total() {
    let (server, mut ann) = super::server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "busy")]);
    for _ in 0..3 {
        assert_eq!(server.visit_with("/busy", FIREFOX).status, 302);
    }
    wait_until("the clicks are counted", || clicks(&ann.get("/admin/links/busy").body) == "3");
    assert!(!ann.get("/admin/links/busy").body.contains("whole UTC days"));
    server.advance_ms(26 * 3_600_000);
    for path in ["/admin/links/busy", "/admin/stats"] {
        let page = ann.get(&format!("{path}?range=24h"));
        assert_eq!(clicks(&page.body), "0", "{page:?}");
        let words = "The parts below count whole UTC days, 15 Jan to 16 Jan 2027: 3 clicks.";
        assert!(page.body.contains(words), "{page:?}");
        assert!(
            page.body.contains("<span class=\"name\">Firefox</span><span class=\"number\">3</span>"),
            "{page:?}"
        );
    }
}

#[test]
fn invalid_range_is_explained() {
    let (_server, mut ann) = super::server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "busy")]);
    for (query, words) in [
        ("from=2020-02-01&to=2020-01-01", "From must not be after To. The last 30 days are shown instead."),
        ("from=1900-01-01", "Choose days since 1970. The last 30 days are shown instead."),
    ] {
        let page = ann.get(&format!("/admin/links/busy?{query}"));
        assert!(page.body.contains(words), "{page:?}");
    }
}
