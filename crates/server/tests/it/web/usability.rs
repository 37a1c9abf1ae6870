//! How the pages of links treat whoever uses them: what Enter does, what is said once, what is never lost, and how little of the longest
//! link a list needs.

use rlinks_core::{Policy, Preset, Role};

use super::{browser_of, codes, listed, make, send, server_with_admin};
use crate::support::browser::{hidden, signed_in};
use crate::support::database::TestStore;
use crate::support::members::{TestServer, preset};

/// Browsers press the first button of a form when somebody presses Enter in a field.
#[test]
fn enter_in_the_tag_field_adds_the_tag() {
    let (_server, mut ann) = server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "one")]);
    let page = ann.get("/admin").body;
    let form = page.split_once("action=\"/admin/links/bulk\"").unwrap().1;
    let first = form
        .split("<button")
        .find(|button| !button.contains("type=\"button\"") && button.contains("</button>"));
    assert!(first.unwrap().contains("name=\"act\" value=\"tag\""), "{form}");
}

#[test]
fn flash_message_is_shown_once_and_cannot_be_forged() {
    let (_server, mut ann) = server_with_admin(Preset::Team);
    let made = make(&mut ann, &[("target", "https://example.com/"), ("code", "one")]);
    assert!(made.body.contains("Your new link:") && made.body.contains("data-copy-now"), "{made:?}");
    let again = ann.get("/admin");
    assert!(!again.body.contains("Your new link") && !again.body.contains("data-copy-now"), "{again:?}");
    for query in ["made=one", "act=delete&done=99999&failed=3&undo=one", "missing=tag"] {
        let forged = ann.get(&format!("/admin?{query}"));
        assert!(
            !forged.body.contains("role=\"status\" aria-label") && !forged.body.contains("class=\"notice\"")
        );
        let mut other = ann.clone();
        other.cookies.push(("notice".to_owned(), format!("{}.{query}", "0".repeat(64))));
        let forged = other.get("/admin");
        assert_eq!(codes(&forged), ["one"]);
        assert!(!forged.body.contains("Your new link") && !forged.body.contains("class=\"notice\""));
    }
}

#[test]
fn http_and_own_domains_can_be_allowed_beside_the_error() {
    let strict = Policy { https_only: true, ..preset(Preset::Team) };
    let server = TestServer::at(TestStore::sqlite(), strict, |_| ());
    let mut ann = browser_of(&server, &server.main, Role::Admin, "ann@example.com");
    for (target, allow, label, code) in [
        ("http://example.com/", "allow_http", "may lead to plain http", "plain"),
        ("https://rmax.to/plain", "allow_loop", "may lead to a domain served here", "round"),
    ] {
        let fields = [("target", target), ("code", code)];
        let refused = send(&mut ann, "/admin/links", &fields);
        assert_eq!(refused.status, 400, "{refused:?}");
        let wrong = refused.body.split_once("id=\"target-wrong\">").unwrap().1.split('<').next().unwrap();
        assert!(wrong.contains(label) && !wrong.contains("--") && !wrong.contains('_'), "{wrong}");
        assert!(refused.body.contains("<details open>"), "the box is in sight: {refused:?}");
        assert!(refused.body.contains(&format!("name=\"{allow}\"")), "{refused:?}");
        make(&mut ann, &[&fields[..], &[(allow, "on")]].concat());
    }
    assert_eq!(server.visit("/plain").location(), Some("http://example.com/"));
    let page = ann.get("/admin/links/plain").body;
    assert!(page.contains("name=\"https_only\" type=\"checkbox\">"), "{page}");
    // The other form has its own words for its own boxes.
    let tied = [
        ("target", "http://example.com/x"),
        ("version", "1"),
        ("https_only", "on"),
        ("redirect_status", "302"),
    ];
    let refused = send(&mut ann, "/admin/links/plain", &tied);
    assert!(refused.body.contains("Untick “leads to https only” below"), "{refused:?}");
}

#[test]
fn page_of_the_longest_links_stays_small() {
    let (_server, mut ann) = server_with_admin(Preset::Team);
    let tags: Vec<_> = (0..20).map(|number| format!("a tag of some length {number:02}")).collect();
    let (tags, title) = (tags.join(","), "t".repeat(300));
    for number in 0..32 {
        let target = format!("https://example.com/{number}/{}", "x".repeat(1900));
        make(&mut ann, &[("target", &target), ("title", &title), ("tags", &tags)]);
    }
    let page = ann.get("/admin");
    assert_eq!(codes(&page).len(), 30);
    // With the style and the script that makes less than 100 kB.
    assert!(page.body.len() < 68_000, "{} bytes", page.body.len());
    assert!(page.body.contains(">+15</a>") && page.body.contains("x…"), "{page:?}");
}

#[test]
fn search_finds_a_pasted_short_url_and_tags_are_suggested() {
    let (_server, mut ann) = server_with_admin(Preset::Team);
    for (code, tags) in [("spring-sale", "shop, spring"), ("spring", ""), ("sale", "shop")] {
        make(&mut ann, &[("target", &format!("https://example.com/{code}")), ("code", code), ("tags", tags)]);
    }
    for pasted in [
        "https://rmax.to/spring-sale",
        "http://rmax.to/spring-sale",
        "RMAX.to/spring-sale/",
        "rmax.to/spring-sale%2B",
    ] {
        listed(&mut ann, &format!("?q={pasted}"), &["spring-sale"]);
    }
    listed(&mut ann, "?q=https://elsewhere.example/spring-sale", &[]);
    listed(&mut ann, "?q=rmax.to/nothing", &[]);
    // An address that is no link of ours is searched for as ever.
    listed(&mut ann, "?q=example.com/sale&sort=code", &["sale", "spring-sale"]);
    let page = ann.get("/admin").body;
    let known =
        page.split_once("<datalist id=\"known-tags\">").unwrap().1.split("</datalist>").next().unwrap();
    assert_eq!(known, "<option value=\"shop\"></option><option value=\"spring\"></option>");
    let none = ann.get("/admin?state=disabled").body;
    assert!(none.contains("No link is disabled."), "{none}");
}

#[test]
fn expired_session_is_explained_and_keeps_the_pasted_url() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "one")]);
    let csrf = ann.token("/admin");
    server.advance_ms(20 * 86_400_000);
    for (path, fields, next) in [
        (
            "/admin/links",
            vec![("target", "https://example.org/a?b=c")],
            "/admin?target=https%3A%2F%2Fexample.org%2Fa%3Fb%3Dc",
        ),
        ("/admin/links/one", vec![("title", "x")], "/admin/links/one"),
        ("/admin/links/one/state", vec![("act", "disable")], "/admin/links/one"),
        ("/admin/links/bulk", vec![("act", "disable")], "/admin"),
        ("/admin/keys", vec![("name", "x")], "/admin/keys"),
    ] {
        let fields = [&[("csrf", csrf.as_str())], &fields[..]].concat();
        let away = ann.clone().post(path, &fields);
        assert_eq!(away.status, 303, "{away:?}");
        let mut later = ann.clone();
        let asked = later.get(away.location().unwrap());
        assert!(asked.body.contains("what you sent last was not saved"), "{path}: {asked:?}");
        let carried = hidden(&asked, "next").replace("&#38;", "&");
        assert_eq!(carried, next, "{path}");
    }
    // A page that is merely looked at lost nothing.
    let away = ann.get("/admin/links/one");
    let asked = ann.get(away.location().unwrap());
    assert!(asked.body.contains("You were signed out. Sign in to go on."), "{asked:?}");
    assert!(!ann.get("/admin/login").body.contains("You were signed out"), "that is said once");
    // Signed in again, the target waits in its field.
    let back = signed_in(server.address, "ann@example.com")
        .get("/admin?target=https%3A%2F%2Fexample.org%2Fa%3Fb%3Dc");
    assert!(back.body.contains("value=\"https://example.org/a?b=c\""), "{back:?}");
}

#[test]
fn right_to_left_text_is_isolated() {
    let (_server, mut ann) = server_with_admin(Preset::Team);
    let turned = "\u{202e}evil";
    make(
        &mut ann,
        &[("target", "https://example.com/"), ("code", "one"), ("title", turned), ("tags", turned)],
    );
    let style = ann.get("/admin/style.css").body;
    let rule = style.lines().find(|line| line.contains("unicode-bidi: isolate")).unwrap().to_owned();
    for (path, element) in [
        ("/admin", format!("<span class=\"title\">{turned}</span>")),
        ("/admin", format!(">{turned}</a>")),
        ("/admin/links/one", format!("<p class=\"name\">{turned}</p>")),
        ("/admin/links/one", format!("<ins>{turned}</ins>")),
        ("/admin/links/one", "<strong><bdi>Ann Example</bdi></strong>".to_owned()),
    ] {
        let page = ann.get(path);
        assert!(page.body.contains(&element), "{element}: {page:?}");
    }
    for kind in [".title", ".tag", "ins", "del", "bdi"] {
        assert!(rule.split(['{', ',']).any(|part| part.trim() == kind), "{kind}: {rule}");
    }
}

#[test]
fn shortcut_help_lists_what_the_role_may_do() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    let mut viewer = browser_of(&server, &server.main, Role::Viewer, "vic@example.com");
    for (browser, writes) in [(&mut ann, true), (&mut viewer, false)] {
        let page = browser.get("/admin").body;
        assert!(page.contains("<kbd>y</kbd>"));
        assert_eq!((page.contains("<kbd>c</kbd>"), page.contains("<kbd>x</kbd>")), (writes, writes));
    }
}
