//! Hostile inputs, S25, and more: what every page owes, over what people sign in, and where they are led.

use rlinks_core::{Preset, Role};

use crate::support::browser::{Browser, signed_in};
use crate::support::database::TestStore;
use crate::support::members::{PASSWORD, TestServer, ann, member, preset};
use crate::support::server::operator_in;

/// Hostile inputs, S25.
///
/// [`Browser`] checks the headers of each of them.
#[test]
fn every_page_forbids_framing() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let (mut stranger, mut ann) =
        (Browser::new(server.address), signed_in(server.address, "ann@example.com"));
    for (path, stranger_gets, ann_gets) in [
        ("/admin", 303, 200),
        ("/admin/", 308, 308),
        ("/admin/account", 303, 200),
        ("/admin/login", 200, 303),
        ("/admin/setup", 404, 404),
        ("/admin/invite/x", 404, 404),
        ("/admin/style.css", 200, 200),
        ("/admin/theme.css", 200, 200),
        ("/admin/app.js", 200, 200),
        ("/admin/links", 405, 405),
        ("/admin/links/nothing", 303, 404),
        ("/admin/nothing/here", 404, 404),
        ("/admin/logout", 405, 405),
    ] {
        assert_eq!(stranger.get(path).status, stranger_gets, "{path}");
        assert_eq!(ann.get(path).status, ann_gets, "{path}");
        assert_eq!(ann.send("HEAD", path, None).status, ann_gets, "{path}");
        let trace = ann.send("TRACE", path, None).status;
        assert_eq!(trace, if path.ends_with("here") { 404 } else { 405 }, "{path}");
        assert!(matches!(stranger.send("POST", path, Some("x=1")).status, 303 | 403 | 404 | 405), "{path}");
    }
    let style = stranger.get("/admin/style.css");
    assert!(style.header("content-type")[0].starts_with("text/css"));
    // For programs an error is the envelope, as everywhere.
    let mut program = Browser::new(server.address).with("Accept", "application/json");
    let refused = program.get("/admin/nothing");
    assert_eq!(refused.header("content-type"), ["application/json"]);
    assert!(refused.body.contains("\"NOT_FOUND\""), "{refused:?}");
}

#[test]
fn not_found_page_links_to_the_dashboard_when_signed_in() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    member(&server, &server.main, Role::Viewer, "viewer@example.com");
    let (mut stranger, mut viewer) =
        (Browser::new(server.address), signed_in(server.address, "viewer@example.com"));
    for (path, title, words) in [
        ("/admin/nothing/here", "There is no such page", "Look for a typing mistake in the address."),
        ("/admin/links/nothing", "There is no such page", "nothing"),
        ("/admin/logout", "This does not work here", "GET"),
        ("/admin/members", "This is not for you", "Your role does not allow this."),
        ("/admin/keys", "This is not for you", "Viewers have no keys."),
    ] {
        let page = viewer.get(path).body;
        assert!(page.contains(&format!("<h1>{title}</h1>")) && page.contains(words), "{path}: {page}");
        assert!(
            page.contains("<nav class=\"tabs\"") && page.contains("<a href=\"/admin\">To your links</a>"),
            "{path}: {page}"
        );
        assert!(!page.contains("redirect code"), "{path}: {page}");
    }
    let page = stranger.get("/admin/nothing/here").body;
    assert!(page.contains("<h1>There is no such page</h1>") && !page.contains("class=\"tabs\""), "{page}");
}

#[test]
fn pages_are_absent_from_the_public_listener_when_there_is_a_separate_one() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| {
        config.control_listen = Some("127.0.0.1:0".parse().unwrap());
    });
    ann(&server);
    for path in ["/admin", "/admin/login", "/admin/setup", "/admin/style.css"] {
        assert_eq!(server.visit(path).status, 404, "{path}");
    }
    let mut browser = Browser::new(server.control.unwrap());
    assert_eq!(browser.sign_in("ann@example.com", PASSWORD).status, 303);
}

#[test]
fn workspace_comes_from_the_host_or_the_form() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let team = server.workspace("team", preset(Preset::Team), &["team.localhost"]);
    member(&server, &team, Role::Admin, "eve@example.com");
    crate::support::raw_client::wait_until("the host is known", || {
        let mut browser = Browser::new(server.address);
        browser.host = "team.localhost".to_owned();
        !browser.get("/admin/login").body.contains("name=\"workspace\"")
    });
    let mut browser = Browser::new(server.address);
    assert!(browser.get("/admin/login").body.contains("name=\"workspace\" value=\"main\""));
    browser.host = "team.localhost".to_owned();
    // Whatever the form says, it is the host's workspace.
    assert_eq!(browser.sign_in_to("main", "ann@example.com", PASSWORD).status, 401);
    assert_eq!(browser.sign_in_to("main", "eve@example.com", PASSWORD).status, 303);
    assert!(browser.get("/admin").body.contains("eve@example.com · team"));
}

#[test]
fn plain_http_sign_in_from_another_machine_needs_insecure_cookies() {
    let refusing = TestServer::new(Preset::Fabric);
    ann(&refusing);
    let mut browser = Browser::new(refusing.address);
    let csrf = browser.token("/admin/login");
    browser.host = "rmax.to".to_owned();
    for path in ["/admin/login", "/admin/setup?token=x", "/admin/invite/x"] {
        let refused = browser.get(path);
        assert_eq!(refused.status, 403, "{path}");
        assert!(refused.body.contains("insecure_cookies"), "{refused:?}");
    }
    let fields = [
        ("csrf", csrf.as_str()),
        ("workspace", "main"),
        ("email", "ann@example.com"),
        ("password", PASSWORD),
    ];
    assert_eq!(browser.post("/admin/login", &fields).status, 403);
    // Nor does a session from elsewhere count there.
    let mut signed = signed_in(refusing.address, "ann@example.com");
    signed.host = "rmax.to".to_owned();
    assert!(!signed.is_signed_in());
    assert_eq!(signed.send("GET", "/api/v1/me", None).status, 401);

    let allowing =
        TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| config.insecure_cookies = true);
    ann(&allowing);
    let mut browser = Browser::new(allowing.address);
    browser.host = "rmax.to".to_owned();
    assert_eq!(browser.sign_in("ann@example.com", PASSWORD).status, 303);
    assert!(browser.is_signed_in());
}

#[test]
fn cookies_are_secure_behind_a_trusted_https_proxy() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| {
        config.reloadable.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    ann(&server);
    let mut browser = Browser::new(server.address)
        .with("X-Forwarded-Proto", "https")
        .with("X-Forwarded-For", "203.0.113.7")
        .with("Sec-Fetch-Site", "same-origin");
    browser.host = "rmax.to".to_owned();
    let form = browser.get("/admin/login");
    let answer = browser.sign_in("ann@example.com", PASSWORD);
    assert_eq!(answer.status, 303, "{answer:?}");
    let csrf = browser.token("/admin/account");
    let dark = browser.post("/admin/theme", &[("csrf", &csrf), ("theme", "dark")]);
    let set = [&form, &answer, &dark].map(|answer| answer.header("set-cookie")).concat();
    assert_eq!(set.len(), 4, "{set:?}");
    for (cookie, name) in set.into_iter().zip(["rlinks-form", "rlinks", "rlinks-known", "theme"]) {
        assert!(cookie.starts_with(&format!("__Host-{name}=")), "{cookie}");
        for word in ["; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax"] {
            assert!(cookie.contains(word), "{word}: {cookie}");
        }
    }
    assert_eq!(browser.get("/admin/theme.css").body, ":root{color-scheme:dark}");
    let cookie = answer.header("set-cookie")[0];
    assert!(
        cookie.starts_with("__Host-rlinks=")
            && cookie.contains("; Secure")
            && cookie.contains("SameSite=Lax"),
        "{cookie}"
    );
    assert!(!cookie.contains("Domain"), "{cookie}");
    assert!(browser.is_signed_in());
    assert!(browser.get("/admin/account").body.contains("203.0.113.0/24"), "only the network is kept");
    // Under the plain name, which another site could have set, it is worth nothing.
    let token = browser.cookie("__Host-rlinks").unwrap().to_owned();
    let mut planted = browser.clone();
    planted.cookies = vec![("rlinks".to_owned(), token)];
    assert!(!planted.is_signed_in());
    // Who claims https without being trusted is not believed.
    let plain = TestServer::new(Preset::Fabric);
    ann(&plain);
    let mut liar = Browser::new(plain.address).with("X-Forwarded-Proto", "https");
    liar.host = "rmax.to".to_owned();
    assert_eq!(liar.get("/admin/login").status, 403);
}

#[test]
fn sign_in_returns_to_the_requested_page() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let mut browser = Browser::new(server.address);
    let away = browser.get("/admin/account?x=1");
    assert_eq!(away.location(), Some("/admin/login?next=%2Fadmin%2Faccount%3Fx%3D1"), "{away:?}");
    for (asked, led) in [
        ("/admin/account?x=1", "/admin/account?x=1"),
        ("//evil.example", "/admin"),
        ("https://evil.example", "/admin"),
    ] {
        let mut browser = Browser::new(server.address);
        let csrf = browser.token("/admin/login");
        let fields = [
            ("csrf", csrf.as_str()),
            ("workspace", "main"),
            ("email", "ann@example.com"),
            ("password", PASSWORD),
            ("next", asked),
        ];
        assert_eq!(browser.post("/admin/login", &fields).location(), Some(led), "{asked}");
    }
}

/// Hostile inputs, S20, for the few pages there are.
#[test]
fn member_names_are_escaped() {
    let server = TestServer::new(Preset::Fabric);
    let evil = "\"><img src=x onerror=1>{{7*7}}";
    let user = ann(&server);
    let patch = rlinks_ops::members::MemberPatch { full_name: Some(evil.to_owned()), ..Default::default() };
    let by = operator_in(&server.main);
    server.runtime.block_on(server.ops.change_member(&by, &user, &patch)).unwrap();
    let mut browser = Browser::new(server.address).with("User-Agent", "<svg/onload=1>");
    let refused = browser.sign_in_to("\"><svg>", evil, "x");
    assert!(!refused.body.contains("<img") && !refused.body.contains("<svg"), "{refused:?}");
    assert_eq!(browser.sign_in("ann@example.com", PASSWORD).status, 303);
    for path in ["/admin", "/admin/account"] {
        let page = browser.get(path);
        assert!(
            !page.body.contains("<img") && !page.body.contains("<svg/") && page.body.contains("{{7*7}}"),
            "{page:?}"
        );
    }
}
