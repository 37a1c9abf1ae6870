//! Hostile inputs, S23: nothing happens because somebody looked at another site.

use rlinks_core::Preset;
use rlinks_ops::shared_keys::{InstallationKey, OldSignatures};

use crate::support::browser::{Browser, form, signed_in};
use crate::support::members::{PASSWORD, TestServer, ann};
use crate::support::raw_client::wait_until;
use crate::support::server::operator_in;

/// What browsers, old ones and evil sites say about where a form comes from, and whether it counts.
const ORIGINS: &[(&[(&str, &str)], bool)] = &[
    (&[("Sec-Fetch-Site", "same-origin")], true),
    (&[("Sec-Fetch-Site", "none")], true),
    // Over plain HTTP browsers send no Sec-Fetch-Site.
    (&[("Origin", "OURS")], true),
    (&[], true),
    (&[("Sec-Fetch-Site", "same-origin"), ("Origin", "https://behind-a-proxy.example")], true),
    (&[("Sec-Fetch-Site", "cross-site")], false),
    (&[("Sec-Fetch-Site", "cross-site"), ("Origin", "OURS")], false),
    // A short domain, or any other name, that shares a registrable domain with the dashboard.
    (&[("Sec-Fetch-Site", "same-site")], false),
    (&[("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")], false),
    (&[("Origin", "null")], false),
    (&[("Origin", "http://evil.example")], false),
    (&[("Origin", "http://sibling.localhost")], false),
    (&[("Origin", "https://OURS")], false),
    (&[("Origin", "OURS.evil.example")], false),
    (&[("Origin", "OURS"), ("Origin", "http://evil.example")], false),
];

fn lines(browser: &Browser, lines: &[(&str, &str)]) -> Vec<(String, String)> {
    let ours = format!("http://{}", browser.host);
    let line = |(name, value): &(&str, &str)| {
        let value = value.replace("https://OURS", &ours.replace("http:", "https:")).replace("OURS", &ours);
        ((*name).to_owned(), value)
    };
    lines.iter().map(line).collect()
}

fn borrowed(lines: &[(String, String)]) -> Vec<(&str, &str)> {
    lines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Row 21c: a form that was open when its key was rotated still counts, unless somebody else may have the old key.
#[test]
fn open_form_survives_a_rotation_of_its_key_unless_the_old_one_is_refused() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let rotate = |old: OldSignatures| {
        let operator = operator_in(&server.main);
        let rotated = server.ops.rotate_shared_key(&operator, InstallationKey::Form, old);
        server.runtime.block_on(rotated).unwrap();
    };
    let mut browser = Browser::new(server.address);
    let first = browser.token("/admin/login");
    let send = |browser: &mut Browser, csrf: &str| {
        let fields =
            [("csrf", csrf), ("workspace", "main"), ("email", "ann@example.com"), ("password", "wrong")];
        browser.post("/admin/login", &fields).status
    };
    let (wrong_password, refused) = (send(&mut browser, &first), send(&mut browser, "0"));
    assert_ne!(wrong_password, refused);
    rotate(OldSignatures::AcceptForAWhile);
    wait_until("the server signs with the new key", || browser.token("/admin/login") != first);
    let second = browser.token("/admin/login");
    assert_eq!(send(&mut browser, &first), wrong_password);
    server.advance_ms(60 * 60 * 1000 + 1);
    assert_eq!(send(&mut browser, &first), refused, "an hour is enough");
    assert_eq!(send(&mut browser, &second), wrong_password);
    rotate(OldSignatures::Refuse);
    wait_until("the server signs with the new key", || browser.token("/admin/login") != second);
    assert_eq!(send(&mut browser, &second), refused);
}

/// Hostile inputs, S23.
#[test]
fn form_from_another_site_is_refused() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let mut browser = signed_in(server.address, "ann@example.com");
    let csrf = browser.token("/admin/account");
    for (said, _) in ORIGINS.iter().filter(|(_, counts)| !counts) {
        let said = lines(&browser, said);
        for path in ["/admin/logout", "/admin/account/sign-out-everywhere", "/admin/account/password"] {
            let fields =
                [("csrf", csrf.as_str()), ("old_password", PASSWORD), ("password", "a new password!")];
            let answer = browser.post_with(path, &fields, &borrowed(&said));
            assert_eq!(answer.status, 403, "{path} {said:?}");
        }
    }
    assert!(browser.is_signed_in());
    for (said, _) in ORIGINS.iter().filter(|(_, counts)| *counts) {
        let said = lines(&browser, said);
        // Wherever it comes from, it needs the token of this very session.
        let theirs = signed_in(server.address, "ann@example.com").token("/admin/account");
        for wrong in ["", "0", &"0".repeat(64), &csrf[1..], &format!("{csrf}0"), &theirs] {
            let answer = browser.post_with("/admin/logout", &[("csrf", wrong)], &borrowed(&said));
            assert_eq!(answer.status, 403, "{wrong} {said:?}");
        }
        let mut other = signed_in(server.address, "ann@example.com");
        let csrf = other.token("/admin/account");
        assert_eq!(
            other.post_with("/admin/logout", &[("csrf", &csrf)], &borrowed(&said)).status,
            303,
            "{said:?}"
        );
    }
    assert!(browser.is_signed_in());
}

/// Hostile inputs, S23.
///
/// Otherwise a site could sign its visitors in to an account of its own, and see what they make.
#[test]
fn sign_in_form_from_another_site_is_refused() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let fields = |csrf: &'_ str| {
        form(&[("csrf", csrf), ("workspace", "main"), ("email", "ann@example.com"), ("password", PASSWORD)])
    };
    let mut evil = Browser::new(server.address);
    let theirs = evil.token("/admin/login");
    for token in ["", "00", theirs.as_str()] {
        // Without a cookie of ours, and with one that goes with another form.
        let mut fresh = Browser::new(server.address);
        assert_eq!(fresh.send("POST", "/admin/login", Some(&fields(token))).status, 403);
        let own = fresh.token("/admin/login");
        assert_eq!(fresh.send("POST", "/admin/login", Some(&fields(token))).status, 403);
        assert!(fresh.cookie("rlinks").is_none());
        assert_eq!(fresh.send("POST", "/admin/login", Some(&fields(&own))).status, 303);
    }
    for (said, counts) in ORIGINS {
        let mut browser = Browser::new(server.address);
        let csrf = browser.token("/admin/login");
        let said = lines(&browser, said);
        let fields = [
            ("csrf", csrf.as_str()),
            ("workspace", "main"),
            ("email", "ann@example.com"),
            ("password", PASSWORD),
        ];
        let answer = browser.post_with("/admin/login", &fields, &borrowed(&said));
        assert_eq!(answer.status, if *counts { 303 } else { 403 }, "{said:?}");
        assert_eq!(browser.cookie("rlinks").is_some(), *counts, "{said:?}");
    }
}

/// Hostile inputs, S23.
#[test]
fn other_content_types_and_malformed_forms_are_refused() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let mut browser = signed_in(server.address, "ann@example.com");
    let csrf = browser.token("/admin/account");
    let body = form(&[("csrf", &csrf)]);
    for kind in [
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/json",
        "",
        "text/plain; application/x-www-form-urlencoded",
    ] {
        let answer = browser.clone().with("Content-Type", kind).send("POST", "/admin/logout", Some(&body));
        assert_eq!(answer.status, 415, "{kind}");
    }
    let json = format!("{{\"csrf\":\"{csrf}\"}}");
    assert_eq!(
        browser.clone().with("Content-Type", "text/plain").send("POST", "/admin/logout", Some(&json)).status,
        415
    );
    // A field that is there twice means two things.
    let twice = format!("{body}&csrf=x");
    assert_eq!(browser.send("POST", "/admin/logout", Some(&twice)).status, 400);
    assert_eq!(browser.send("POST", "/admin/logout", Some(&"x=1&".repeat(5000))).status, 413);
    assert!(browser.is_signed_in());
}

/// Hostile inputs, S23.
#[test]
fn get_requests_change_nothing() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let mut browser = signed_in(server.address, "ann@example.com");
    let csrf = browser.token("/admin/account");
    for path in ["/admin/logout", "/admin/account/sign-out-everywhere", "/admin/account/password"] {
        for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH"] {
            for path in [path.to_owned(), format!("{path}?csrf={csrf}&_method=POST")] {
                let answer = browser.clone().with("X-HTTP-Method-Override", "POST").send(method, &path, None);
                assert_eq!((answer.status, answer.header("allow")), (405, vec!["POST"]), "{method} {path}");
            }
        }
    }
    assert!(browser.is_signed_in());
}
