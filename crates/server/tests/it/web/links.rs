//! The list: new links, finding them again, and many at once.

use rlinks_core::workspace::policy::Visibility;
use rlinks_core::{Policy, Preset, Role};

use super::{browser_of, codes, listed, make, send, server_with_admin};
use crate::support::browser::{form, hidden};
use crate::support::database::TestStore;
use crate::support::members::{TestServer, preset};

#[test]
fn pasted_url_becomes_a_link_ready_to_copy() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    let empty = ann.get("/admin");
    assert!(empty.body.contains("No links yet") && empty.body.contains("Paste a long address"), "{empty:?}");
    let made = make(&mut ann, &[("target", "https://example.com/a?b=c")]);
    assert!(made.body.contains("Your new link:"), "{made:?}");
    let code = codes(&made)[0].to_owned();
    assert!(made.body.contains(&format!("data-copy=\"https://rmax.to/{code}\" data-copy-now")), "{made:?}");
    assert_eq!(server.visit(&format!("/{code}")).location(), Some("https://example.com/a?b=c"));
    // Whoever leaves the scheme out means https.
    let made = make(
        &mut ann,
        &[("target", "example.org/page"), ("code", "bare"), ("title", "A bare one"), ("tags", "x, y")],
    );
    assert!(made.body.contains("https://example.org/page") && made.body.contains("A bare one"), "{made:?}");
    assert_eq!(server.visit("/bare").location(), Some("https://example.org/page"));
    // A bookmark brings an address along; only Enter makes the link.
    let brought = ann.get("/admin?target=https%3A%2F%2Fexample.com%2F%22%3E");
    assert!(brought.body.contains("name=\"target\" value=\"https://example.com/&#34;&#62;\""), "{brought:?}");
    assert_eq!(server.actions().iter().filter(|action| *action == "link.create").count(), 2);
}

#[test]
fn invalid_field_shows_its_error_and_keeps_what_was_typed() {
    let (_server, mut ann) = server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "taken")]);
    for (fields, status, message) in [
        (
            [("target", "no address"), ("code", "fine-code"), ("title", "Kept")],
            400,
            "id=\"target-wrong\">The target ",
        ),
        (
            [("target", "https://example.com/"), ("code", "taken"), ("title", "Kept")],
            409,
            "id=\"code-wrong\">This code is taken",
        ),
        (
            [("target", "https://example.com/"), ("code", "no code"), ("title", "Kept")],
            400,
            "id=\"code-wrong\">The code ",
        ),
    ] {
        let refused = send(&mut ann, "/admin/links", &fields);
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(refused.body.contains(message), "{message}: {refused:?}");
        for (_, value) in fields {
            assert!(refused.body.contains(&format!("value=\"{value}\"")), "{value}: {refused:?}");
        }
    }
}

#[test]
fn links_are_found_filtered_sorted_and_paged() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    for (code, title, tags) in
        [("alpha", "Spring sale", "shop,spring"), ("beta", "Spring walk", "out"), ("gamma", "", "shop")]
    {
        make(
            &mut ann,
            &[("target", "https://example.com/"), ("code", code), ("title", title), ("tags", tags)],
        );
        server.advance_ms(1000);
    }
    send(&mut ann, "/admin/links/beta/state", &[("act", "disable")]);
    listed(&mut ann, "", &["gamma", "beta", "alpha"]);
    listed(&mut ann, "?sort=oldest", &["alpha", "beta", "gamma"]);
    listed(&mut ann, "?sort=code", &["alpha", "beta", "gamma"]);
    listed(&mut ann, "?q=spri", &["beta", "alpha"]);
    listed(&mut ann, "?q=spring+walk", &["beta"]);
    listed(&mut ann, "?tag=shop", &["gamma", "alpha"]);
    listed(&mut ann, "?tag=shop&q=sale", &["alpha"]);
    listed(&mut ann, "?state=disabled", &["beta"]);
    listed(&mut ann, "?state=deleted", &[]);
    listed(&mut ann, "?q=nothing", &[]);
    // What makes no sense is left out.
    listed(&mut ann, "?state=x&sort=y&cursor=z&unknown=1", &["gamma", "beta", "alpha"]);
    // The list alone, for the script.
    let part = ann.get("/admin?q=sale&part=list");
    assert!(codes(&part) == ["alpha"] && !part.body.contains("<html"), "{part:?}");

    for number in 0..40 {
        make(
            &mut ann,
            &[("target", "https://example.com/"), ("code", &format!("many-{number:02}")), ("tags", "many")],
        );
        server.advance_ms(1000);
    }
    let (mut query, mut seen) = ("/admin?tag=many".to_owned(), Vec::new());
    for _ in 0..3 {
        let page = ann.get(&query);
        assert!(page.body.len() < 60_000, "{} bytes", page.body.len());
        seen.extend(codes(&page).into_iter().map(str::to_owned));
        let Some((_, next)) = page.body.split_once("rel=\"next\" href=\"") else { break };
        query = next.split('"').next().unwrap().replace("&#38;", "&");
        // What is made meanwhile does not shift the pages.
        make(&mut ann, &[("target", "https://example.com/"), ("tags", "many")]);
    }
    let expected: Vec<_> = (0..40).rev().map(|number| format!("many-{number:02}")).collect();
    assert_eq!(seen, expected);
    assert!(ann.get(&query).body.contains("Back to the first page"));
}

/// Hostile inputs, S43.
#[test]
fn bulk_removal_stops_at_the_limit_and_says_so() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Team), |config| {
        config.removals_per_minute = 2;
    });
    let mut ann = browser_of(&server, &server.main, Role::Admin, "ann@example.com");
    for code in ["one", "two", "three", "four"] {
        make(&mut ann, &[("target", "https://example.com/"), ("code", code)]);
    }
    let ticked = ["one", "two", "three", "four"].map(|code| (format!("code.{code}"), "on"));
    let mut fields: Vec<(&str, &str)> = ticked.iter().map(|(name, on)| (name.as_str(), *on)).collect();
    fields.push(("act", "disable"));
    let done = send(&mut ann, "/admin/links/bulk", &fields);
    let page = ann.get(done.location().unwrap());
    assert!(
        page.body.contains("2 links were disabled. Rate limit reached: 2 were left as they are."),
        "{page:?}"
    );
    assert_eq!(server.actions().iter().filter(|action| *action == "link.disable").count(), 2);
    // One by one it is the same.
    let refused = send(&mut ann, "/admin/links/two/state", &[("act", "delete"), ("sure", "yes")]);
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.header("retry-after").len(), 1, "{refused:?}");
}

#[test]
fn bulk_actions_change_many_links_and_deletion_is_confirmed_and_undoable() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    for code in ["one", "two", "three"] {
        make(&mut ann, &[("target", "https://example.com/"), ("code", code)]);
        server.advance_ms(1000);
    }
    let ticked =
        [("code.one", "on"), ("code.two", "on"), ("code.nothing", "on"), ("back", "sort=code&evil=1")];
    let with = |more: &[(&'static str, &'static str)]| [&ticked[..], more].concat();
    let done = send(&mut ann, "/admin/links/bulk", &with(&[("act", "disable")]));
    assert_eq!(done.location(), Some("/admin?sort=code"), "{done:?}");
    let page = ann.get(done.location().unwrap());
    assert!(page.body.contains("2 links were disabled. 1 could not be"), "{page:?}");
    listed(&mut ann, "?state=disabled&sort=code", &["one", "two"]);
    assert_eq!(server.visit("/one").status, 410);
    send(&mut ann, "/admin/links/bulk", &with(&[("act", "enable")]));
    assert_eq!(server.visit("/one").status, 302);
    send(&mut ann, "/admin/links/bulk", &with(&[("act", "tag"), ("new_tag", "Blue, green")]));
    listed(&mut ann, "?tag=green&sort=code", &["one", "two"]);
    send(&mut ann, "/admin/links/bulk", &[("code.one", "on"), ("act", "untag"), ("new_tag", "green")]);
    listed(&mut ann, "?tag=green", &["two"]);

    let asks =
        send(&mut ann, "/admin/links/bulk", &[("code.one", "on"), ("code.two", "on"), ("act", "delete")]);
    assert_eq!(asks.status, 200);
    assert!(
        asks.body.contains("Delete these 2 links?") && asks.body.contains("name=\"code.one\""),
        "{asks:?}"
    );
    listed(&mut ann, "?sort=code", &["one", "three", "two"]);
    let csrf = hidden(&asks, "csrf");
    let sure =
        [("csrf", csrf.as_str()), ("code.one", "on"), ("code.two", "on"), ("act", "delete"), ("sure", "yes")];
    let deleted = ann.post("/admin/links/bulk", &sure);
    assert_eq!(deleted.location(), Some("/admin"), "{deleted:?}");
    let notice = ann.get(deleted.location().unwrap());
    assert!(
        notice.body.contains("2 links were deleted.") && notice.body.contains(">Undo</button>"),
        "{notice:?}"
    );
    assert_eq!(codes(&notice), ["three"]);
    assert_eq!(server.visit("/two").status, 404);
    send(&mut ann, "/admin/links/bulk", &[("act", "restore"), ("code.one", "on"), ("code.two", "on")]);
    listed(&mut ann, "?sort=code", &["one", "three", "two"]);
    assert_eq!(server.visit("/two").status, 302);
    assert_eq!(send(&mut ann, "/admin/links/bulk", &[("act", "explode"), ("code.one", "on")]).status, 400);
    // What is missing is said.
    for (fields, said) in [
        ([("act", "disable"), ("new_tag", "")], "tick the links first"),
        ([("act", "delete"), ("new_tag", "")], "tick the links first"),
        ([("act", "tag"), ("code.one", "on")], "write the tag first"),
        ([("act", "untag"), ("code.one", "on")], "write the tag first"),
    ] {
        let before = server.actions().len();
        let nothing = send(&mut ann, "/admin/links/bulk", &fields);
        assert!(ann.get(nothing.location().unwrap()).body.contains(said), "{fields:?}");
        assert_eq!(server.actions().len(), before);
    }
}

#[test]
fn form_without_csrf_token_or_from_another_site_is_refused() {
    let (_server, mut ann) = server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "safe")]);
    for (path, fields) in [
        ("/admin/links", vec![("target", "https://evil.example/")]),
        ("/admin/links/bulk", vec![("act", "delete"), ("sure", "yes"), ("code.safe", "on")]),
        ("/admin/links/safe", vec![("target", "https://evil.example/"), ("version", "1")]),
        ("/admin/links/safe/state", vec![("act", "delete")]),
        ("/admin/links/safe/rollback", vec![("seq", "1")]),
        ("/admin/theme", vec![("theme", "dark")]),
    ] {
        assert_eq!(ann.post(path, &fields).status, 403, "{path}");
        let csrf = ann.token("/admin");
        let fields = [&[("csrf", csrf.as_str())], &fields[..]].concat();
        assert_eq!(ann.post_with(path, &fields, &[("Origin", "https://evil.example")]).status, 403, "{path}");
        let json = ann.clone().with("Content-Type", "text/plain").send("POST", path, Some(&form(&fields)));
        assert_eq!(json.status, 415, "{path}");
    }
    listed(&mut ann, "", &["safe"]);
}

#[test]
fn pages_offer_only_what_the_role_may_do() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "anns")]);
    let mut viewer = browser_of(&server, &server.main, Role::Viewer, "vic@example.com");
    let mut member = browser_of(&server, &server.main, Role::Member, "mel@example.com");
    for (browser, writes, administers) in
        [(&mut ann, true, true), (&mut member, true, false), (&mut viewer, false, false)]
    {
        let page = browser.get("/admin");
        assert_eq!(codes(&page), ["anns"]);
        assert_eq!(page.body.contains("action=\"/admin/links\""), writes);
        assert_eq!(page.body.contains("value=\"delete\""), writes);
        assert_eq!(page.body.contains(">Import</a>"), writes);
        assert_eq!(page.body.contains("href=\"/admin/keys\""), writes);
        for path in ["audit", "members", "domains", "policy"] {
            assert_eq!(page.body.contains(&format!("href=\"/admin/{path}\"")), administers, "{path}");
        }
        assert!(page.body.contains("href=\"/admin/stats\"") && page.body.contains("href=\"/admin/account\""));
        let link = browser.get("/admin/links/anns");
        assert_eq!(link.body.contains("name=\"version\""), writes, "{link:?}");
    }
    for (path, fields) in [
        ("/admin/links", [("target", "https://example.com/"), ("code", "vics")]),
        ("/admin/links/bulk", [("act", "disable"), ("code.anns", "on")]),
        ("/admin/links/anns", [("target", "https://example.org/"), ("version", "1")]),
        ("/admin/links/anns/state", [("act", "delete"), ("x", "y")]),
        ("/admin/links/anns/rollback", [("seq", "1"), ("x", "y")]),
    ] {
        assert_eq!(send(&mut viewer, path, &fields).status, 403, "{path}");
    }
    listed(&mut viewer, "", &["anns"]);
    make(&mut member, &[("target", "https://example.com/"), ("code", "mels")]);
}

#[test]
fn links_of_other_owners_and_workspaces_are_404() {
    let owners = Policy { visibility: Visibility::Owner, reuse: false, ..preset(Preset::Team) };
    let server = TestServer::at(TestStore::sqlite(), owners, |_| ());
    let mut ann = browser_of(&server, &server.main, Role::Admin, "ann@example.com");
    let team = server.workspace("team", preset(Preset::Team), &["team.example"]);
    let mut eve = browser_of(&server, &team, Role::Admin, "eve@example.com");
    make(&mut eve, &[("target", "https://example.com/"), ("code", "elsewhere")]);
    let mut mel = browser_of(&server, &server.main, Role::Member, "mel@example.com");
    let mut max = browser_of(&server, &server.main, Role::Member, "max@example.com");
    let own = codes(&make(&mut mel, &[("target", "https://example.com/mine")]))[0].to_owned();
    listed(&mut mel, "", &[&own]);
    listed(&mut max, "", &[]);
    listed(&mut ann, "", &[&own]);
    for (browser, code) in [(&mut max, own.as_str()), (&mut ann, "elsewhere"), (&mut mel, "elsewhere")] {
        assert_eq!(browser.get(&format!("/admin/links/{code}")).status, 404, "{code}");
        let path = format!("/admin/links/{code}");
        for (path, fields) in [
            (path.clone(), [("target", "https://evil.example/"), ("version", "1")]),
            (format!("{path}/state"), [("act", "delete"), ("x", "y")]),
            (format!("{path}/rollback"), [("seq", "1"), ("x", "y")]),
        ] {
            assert_eq!(send(browser, &path, &fields).status, 404, "{path}");
        }
        let field = format!("code.{code}");
        let bulk = send(browser, "/admin/links/bulk", &[("act", "delete"), ("sure", "yes"), (&field, "on")]);
        assert_eq!(bulk.location(), Some("/admin"), "{bulk:?}");
        assert!(browser.get("/admin").body.contains("0 links were deleted. 1 could not be"));
    }
    listed(&mut mel, "", &[&own]);
    listed(&mut eve, "", &["elsewhere"]);
}

#[test]
fn choice_of_light_or_dark_is_remembered() {
    let (_server, mut ann) = server_with_admin(Preset::Team);
    assert_eq!(ann.get("/admin/theme.css").body, "");
    for (theme, style) in
        [("dark", ":root{color-scheme:dark}"), ("light", ":root{color-scheme:light}"), ("system", "")]
    {
        assert_eq!(send(&mut ann, "/admin/theme", &[("theme", theme)]).status, 303);
        assert_eq!(ann.get("/admin/theme.css").body, style);
    }
    ann.cookies.push(("theme".to_owned(), "}body{display:none".to_owned()));
    assert_eq!(ann.get("/admin/theme.css").body, "");
}
