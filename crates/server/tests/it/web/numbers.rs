//! Statistics on the pages: a visitor comes, and the numbers say so.

use rlinks_core::{Preset, Role};

use super::{browser_of, make};
use crate::api::house::{House, in_house, preset};
use crate::client::wait_until;
use crate::database::{Place, contract};

const FIREFOX: &str =
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n";

contract!(clicks_are_on_the_list_and_on_the_page_of_the_link);

async fn clicks_are_on_the_list_and_on_the_page_of_the_link(place: Place) {
    in_house(place, preset(Preset::Team), |house| numbers(&house)).await;
}

fn numbers(house: &House) {
    let mut ann = browser_of(house, &house.main, Role::Admin, "ann@example.com");
    make(&mut ann, &[("target", "https://example.com/"), ("code", "busy")]);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "calm")]);
    for number in 0..3 {
        let lines = format!("{FIREFOX}Referer: https://news.example/{number}\r\n");
        assert_eq!(house.visit_with("/busy?utm_campaign=spring", &lines).status, 302);
    }
    assert_eq!(house.visit_with("/busy", "User-Agent: curl/8.0\r\n").status, 302);
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
        "none before",
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
    let today = house.now().to_string()[..10].to_owned();
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
