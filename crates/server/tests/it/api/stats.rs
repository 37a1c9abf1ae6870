//! Statistics and clicks: a visitor comes, and the numbers say so.

use rlinks_core::{Preset, Role};
use serde_json::{Value, json};

use crate::support::api_client::EventStream;
use crate::support::database::{TestStore, contract};
use crate::support::members::{TestServer, preset, with_server};
use crate::support::raw_client::wait_until;

const FIREFOX: &str =
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n";

contract!(clicks_appear_in_the_statistics);

async fn clicks_appear_in_the_statistics(test_store: TestStore) {
    with_server(test_store, preset(Preset::Team), |server| {
        let (member, viewer) = (server.member(), server.viewer());
        for code in ["busy", "calm"] {
            member.post("/links", &json!({"code": code, "target": "https://example.com/"})).expect(201);
        }
        for number in 0..3 {
            let lines = format!("{FIREFOX}Referer: https://news.example/{number}?q=1\r\n");
            assert_eq!(server.visit_with("/busy", &lines).status, 302);
        }
        assert_eq!(server.visit_with("/busy", "User-Agent: curl/8.0\r\n").status, 302);
        assert_eq!(server.visit_with("/calm", FIREFOX).status, 302);
        assert_eq!(server.visit("/missing-code").status, 404);
        wait_until("the clicks are counted", || {
            viewer.get("/stats?bots=include").expect(200).json()["total"]["clicks"] == 5
        });
        let stats = viewer.get("/links/busy/stats").expect(200).json();
        assert_eq!(stats["total"], json!({"clicks": 3, "visitors": 1, "bots": 1}), "{stats}");
        assert_eq!(
            (&stats["interval"], &stats["tz"], &stats["bots"]),
            (&json!("day"), &json!("UTC"), &json!("exclude"))
        );
        assert_eq!(stats["series"].as_array().unwrap().len(), 30);
        assert_eq!(stats["series"][29]["clicks"], 3);
        assert_eq!(stats["browsers"], json!([{"value": "Firefox", "clicks": 3}]));
        assert_eq!(stats["referrers"][0]["clicks"], 3, "{stats}");
        let link = viewer.get("/links/busy").expect(200).json();
        assert_eq!((&link["clicks"], &link["hits"]), (&json!(3), &json!(4)), "{link}");
        assert_eq!(link["last_clicked_at"], server.now().to_string());
        let order: Vec<_> = viewer.get("/links?sort=clicks").expect(200).json()["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|link| link["code"].clone())
            .collect();
        assert_eq!(order, ["busy", "calm"]);
        let all = viewer.get("/stats").expect(200).json();
        assert_eq!(all["top_links"], json!([{"code": "busy", "clicks": 3}, {"code": "calm", "clicks": 1}]));
        wait_until("the miss is counted", || {
            viewer.get("/stats").expect(200).json()["misses"]
                == json!([{"code": "missing-code", "misses": 1}])
        });

        let page = viewer.get("/links/busy/clicks?limit=3").expect(200).json();
        let newest = &page["data"][0];
        assert_eq!(
            (&newest["code"], &newest["device"], &newest["bot"]),
            (&json!("busy"), &json!("bot"), &json!(true)),
            "{page}"
        );
        assert!(newest["key"].as_str().unwrap().starts_with("hit:busy:"), "{newest}");
        assert_eq!(page["data"][1]["referrer"], "https://news.example/2");
        assert_eq!(page["data"][1]["ip_prefix"], "127.0.0.0/24");
        let rest = viewer
            .get(&format!("/links/busy/clicks?limit=3&cursor={}", page["next_cursor"].as_str().unwrap()))
            .expect(200)
            .json();
        assert_eq!((rest["data"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
        viewer
            .get(&format!("/links/calm/clicks?cursor={}", page["next_cursor"].as_str().unwrap()))
            .refused(400, "VALIDATION_FAILED");

        for (query, field) in [
            ("from=never", "from"),
            ("to=x", "to"),
            ("interval=minute", "interval"),
            ("tz=Mars/Base", "tz"),
            ("bots=maybe", "bots"),
            ("from=2030-01-02&to=2030-01-01", "to"),
            ("from=2020-01-01&to=2026-01-01&interval=hour", "interval"),
            ("from=99999999999999", "from"),
        ] {
            for path in ["/links/busy/stats", "/stats"] {
                let reply = viewer.get(&format!("{path}?{query}"));
                let fields = reply.fields();
                assert!(
                    fields.iter().any(|known| known.starts_with(field) || known.starts_with("from")),
                    "{query}: {fields:?}"
                );
            }
        }
        for interval in ["hour", "week", "month"] {
            let day = server.now().to_string()[..10].to_owned();
            let stats = viewer
                .get(&format!("/stats?from={day}&interval={interval}&tz=Europe/Berlin&bots=include"))
                .expect(200)
                .json();
            assert_eq!(stats["interval"], interval);
        }
        // Days to come have nothing, and a series of it.
        for query in ["from=2030-01-01&to=2030-02-01", "from=9999-12-01&to=9999-12-31&tz=Asia/Tokyo"] {
            for path in ["/links/busy/stats", "/stats"] {
                let stats = viewer.get(&format!("{path}?{query}")).expect(200).json();
                assert_eq!(stats["total"], json!({"clicks": 0, "visitors": 0, "bots": 0}), "{stats}");
                assert!(stats["series"].as_array().unwrap().len() >= 30, "{stats}");
            }
        }
        // Deleted, the numbers stay.
        member.delete("/links/busy").expect(204);
        assert_eq!(viewer.get("/links/busy/stats").expect(200).json()["total"]["clicks"], 3);
        viewer.get("/links/nothing/stats").refused(404, "NOT_FOUND");
    })
    .await;
}

#[test]
fn csv_of_clicks_is_safe_in_a_spreadsheet() {
    let server = TestServer::new(Preset::Team);
    let member = server.member();
    member.post("/links", &json!({"code": "csv", "target": "https://example.com/"})).expect(201);
    for agent in ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "'=1", "plain", "a \"quoted\", text"] {
        server.visit_with("/csv", &format!("User-Agent: {agent}\r\n"));
    }
    wait_until("the clicks are stored", || {
        member.get("/links/csv/clicks").expect(200).json()["data"].as_array().unwrap().len() == 7
    });
    let csv = member.request("GET", "/links/csv/clicks").header("Accept", "text/csv").send().expect(200);
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(csv.header("content-disposition"), Some("attachment; filename=\"clicks.csv\""));
    assert_eq!(csv.header("x-content-type-options"), Some("nosniff"));
    assert_eq!((csv.header("link"), csv.header("x-next-cursor")), (None, None), "there is no next page");
    let lines: Vec<_> = csv.answer.body.split("\r\n").collect();
    assert!(lines[0].starts_with("key,ts,code,country,ua_hash,"), "{csv:?}");
    assert_eq!(lines.len(), 9, "a head, seven clicks, and the last end of a line");
    // The same cells as in an export of links.
    for safe in [
        ",\"'=cmd|' /C calc'!A0\",",
        ",\"'+1\",",
        ",\"'-1\",",
        ",\"'@SUM(A1)\",",
        ",\"''=1\",",
        ",plain,",
        ",\"a \"\"quoted\"\", text\",",
    ] {
        assert!(csv.answer.body.contains(safe), "{safe}: {csv:?}");
    }
    assert!(!csv.answer.body.contains(",\"=") && !csv.answer.body.contains(",="), "{csv:?}");

    // The pages after each other are the whole.
    let mut pages = vec![lines[0].to_owned()];
    let mut path = "/links/csv/clicks?limit=2".to_owned();
    loop {
        let page = member.request("GET", &path).header("Accept", "text/csv").send().expect(200);
        pages.extend(
            page.answer.body.split("\r\n").skip(1).filter(|line| !line.is_empty()).map(str::to_owned),
        );
        let Some(next) = page.header("link") else { break };
        let address =
            next.strip_prefix("</api/v1").and_then(|rest| rest.split_once(">; rel=\"next\"")).unwrap().0;
        assert!(address.ends_with(page.header("x-next-cursor").unwrap()), "{next}");
        path = address.to_owned();
    }
    assert_eq!(pages, lines[..8]);
}

#[test]
fn live_stream_delivers_clicks_and_ends_when_the_server_drains() {
    let mut test_server = TestServer::new(Preset::Platform);
    let (ann, bob) = (test_server.member(), test_server.member());
    ann.post("/links", &json!({"code": "anns", "target": "https://example.com/"})).expect(201);
    bob.post("/links", &json!({"code": "bobs", "target": "https://example.com/"})).expect(201);
    let mut hears_all = EventStream::new(&test_server.root());
    let mut hears_own = EventStream::new(&ann);
    // Clicks of both, until each listener has heard what they may.
    let heard = std::thread::scope(|scope| {
        let listening = scope.spawn(|| {
            let first = hears_own.click().unwrap();
            (first, hears_all.click().unwrap())
        });
        wait_until("a click is heard", || {
            test_server.visit("/bobs");
            test_server.visit("/anns");
            listening.is_finished()
        });
        listening.join().unwrap()
    });
    assert_eq!(heard.0["code"], "anns", "only their own");
    assert!(["anns", "bobs"].contains(&heard.1["code"].as_str().unwrap()));
    assert!(heard.0["id"].is_string() && heard.0["ts"].is_string(), "{}", heard.0);
    let server = test_server.take_server();
    let stopping = std::thread::spawn(move || server.stop());
    while let Some(click) = hears_own.click() {
        assert_eq!(click["code"], "anns");
    }
    while hears_all.click().is_some() {}
    stopping.join().unwrap();
}

/// Places are limited: nobody keeps the others from listening for ever. Hostile inputs, S43.
#[test]
fn live_streams_of_one_member_are_limited_and_leave_room_for_others() {
    let server = TestServer::new(Preset::Fabric);
    let viewer = server.viewer();
    let second = server.key(&server.main, viewer.user.as_ref(), viewer.key.scopes);
    let mut listeners: Vec<_> = (0..20).map(|_| EventStream::new(&viewer)).collect();
    for person in [&viewer, &second] {
        let refused = person.get("/stats/live");
        refused.refused(429, "RATE_LIMITED");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
    }
    let others: Vec<_> = (0..3).map(|_| EventStream::new(&server.viewer())).collect();
    listeners.pop();
    wait_until("a place is free", || viewer.get("/stats/live").status() == 200);
    drop(others);
}

/// Hostile inputs, S43.
#[test]
fn live_streams_of_one_workspace_are_limited_and_leave_room_for_other_workspaces() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| {
        config.resource_limits.live_streams = Some(1);
    });
    let listeners: Vec<_> = (0..10).map(|_| EventStream::new(&server.reader())).collect();
    server.reader().get("/stats/live").refused(429, "RATE_LIMITED");
    let tenant = server.workspace("tenant", preset(Preset::Team), &[]);
    drop(EventStream::new(&server.person(&tenant, Role::Viewer)));
    drop(listeners);
    wait_until("a place is free", || server.reader().get("/stats/live").status() == 200);
}

#[test]
fn live_stream_ends_when_its_key_is_revoked() {
    let server = TestServer::new(Preset::Fabric);
    let (reader, root) = (server.reader(), server.root());
    let mut listener = EventStream::new(&reader);
    root.delete(&format!("/keys/{}", reader.key_id())).expect(204);
    assert_eq!(listener.click(), None, "the stream ends");
}

#[test]
fn live_stream_of_a_demoted_admin_has_only_own_clicks() {
    let server = TestServer::new(Preset::Platform);
    let (ann, bob, admin) = (server.admin(), server.member(), server.admin());
    ann.post("/links", &json!({"code": "anns", "target": "https://example.com/"})).expect(201);
    bob.post("/links", &json!({"code": "bobs", "target": "https://example.com/"})).expect(201);
    let mut listener = EventStream::new(&ann);
    let code = |click: Option<Value>| click.unwrap()["code"].as_str().unwrap().to_owned();
    let click_until = |listening: &std::thread::ScopedJoinHandle<'_, ()>| {
        wait_until("the clicks are heard", || {
            server.visit("/bobs");
            server.visit("/anns");
            listening.is_finished()
        });
    };
    std::thread::scope(|scope| {
        let listening = scope.spawn(|| while code(listener.click()) != "bobs" {});
        click_until(&listening);
    });
    admin.patch(&format!("/users/{}", ann.user_id()), &json!({"role": "member"})).expect(200);
    // Both links are clicked in turn; so many of one alone come only when the other is not heard of.
    std::thread::scope(|scope| {
        let listening = scope.spawn(|| {
            let mut own = 0;
            while own < 20 {
                own = if code(listener.click()) == "anns" { own + 1 } else { 0 };
            }
        });
        click_until(&listening);
    });
}

/// Whoever hears that the stream is open may click at once: what is stored before the first look is heard too.
#[test]
fn click_right_after_opening_a_live_stream_is_delivered() {
    let server = TestServer::new(Preset::Fabric);
    let reader = server.reader();
    server.root().post("/links", &json!({"code": "go", "target": "https://example.com/"})).expect(201);
    let mut listener = EventStream::new(&reader);
    assert_eq!(server.visit("/go").status, 301);
    assert_eq!(listener.click().unwrap()["code"], "go");
}
