//! One link: changes and their errors, somebody else who was faster, and the way back.

use rlinks_core::Preset;

use super::{listed, make, send, server_with_admin};
use crate::support::browser::hidden;

const FIELDS: [(&str, &str); 8] = [
    ("target", "https://example.com/"),
    ("title", "A title"),
    ("tags", "one, two"),
    ("expires_at", ""),
    ("redirect_status", "302"),
    ("notes", "first\r\nsecond"),
    ("no_loop", "on"),
    ("metadata", ""),
];

fn with<'a>(version: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let kept = FIELDS.into_iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    [("version", version)].into_iter().chain(kept).chain(more.iter().copied()).collect()
}

#[test]
fn one_form_changes_every_editable_field() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "link")]);
    let page = ann.get("/admin/links/link");
    let version = hidden(&page, "version");
    let changed = with(
        &version,
        &[
            ("target", "https://example.org/new"),
            ("expires_at", "2099-01-31T12:00"),
            ("redirect_status", "307"),
            ("https_only", "on"),
            ("metadata", "{\"campaign\": \"spring\"}"),
        ],
    );
    let saved = send(&mut ann, "/admin/links/link", &changed);
    assert_eq!(saved.location(), Some("/admin/links/link?done=saved#edit"), "{saved:?}");
    assert_eq!(
        (server.visit("/link").status, server.visit("/link").location()),
        (307, Some("https://example.org/new"))
    );
    let page = ann.get("/admin/links/link?done=saved");
    assert!(page.body.split_once("id=\"edit-title\"").unwrap().1.contains("Saved."), "in sight: {page:?}");
    for shown in [
        "Saved.",
        "value=\"https://example.org/new\"",
        "value=\"A title\"",
        "value=\"one, two\"",
        "value=\"2099-01-31T12:00:00\"",
        "<option value=\"307\" selected>",
        "first\nsecond</textarea>",
        "name=\"https_only\" type=\"checkbox\" checked",
        "campaign",
        "<del>https://example.com/</del> <ins>https://example.org/new</ins>",
        "Ann Example",
    ] {
        assert!(page.body.contains(shown), "{shown}: {page:?}");
    }
    // The same again is no change.
    let before = server.actions().len();
    let version = hidden(&page, "version");
    let mut same = changed.clone();
    same[0].1 = &version;
    assert_eq!(send(&mut ann, "/admin/links/link", &same).status, 303);
    assert_eq!(server.actions().len(), before);
    // A link that is over can be renamed without giving it a new end.
    server.advance_ms(100 * 365 * 86_400_000);
    let mut ann = crate::support::browser::signed_in(server.address, "ann@example.com");
    let mut renamed = with(&version, &[("title", "Later"), ("target", "https://example.org/new")]);
    renamed.retain(|(name, _)| *name != "expires_at");
    renamed.push(("expires_at", "2099-01-31T12:00:00"));
    assert_eq!(send(&mut ann, "/admin/links/link", &renamed).status, 303);
    assert!(ann.get("/admin/links/link").body.contains("badge expired"));
}

#[test]
fn errors_are_shown_beside_their_fields() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "link")]);
    for (field, value) in [
        ("target", "ftp://example.com/"),
        ("target", "https://rmax.to/other"),
        ("expires_at", "1999-01-01T00:00"),
        ("metadata", "[1]"),
        ("metadata", "{"),
        ("title", &"x".repeat(501)),
        ("tags", &"x".repeat(65)),
        ("notes", &"x".repeat(10_001)),
    ] {
        let kept = [("title", "Kept title"), (field, value)];
        let refused = send(
            &mut ann,
            "/admin/links/link",
            &with("1", if field == "title" { &kept[1..] } else { &kept[..] }),
        );
        assert_eq!(refused.status, 400, "{field}: {refused:?}");
        assert!(refused.body.contains(&format!("id=\"{field}-wrong\"")), "{field} {value}: {refused:?}");
        assert!(field == "title" || refused.body.contains("value=\"Kept title\""), "{refused:?}");
        assert!(
            !refused.body.contains("The notes has") && !refused.body.contains("The tags has"),
            "{refused:?}"
        );
        // The page opens at the field, and what happened is said where the form is.
        let card = refused.body.split_once("id=\"edit-title\"").unwrap().1;
        assert!(card.contains("role=\"alert\">Nothing was saved yet"), "{card}");
        assert_eq!(refused.body.matches(" autofocus").count(), 2, "with the dialog's: {refused:?}");
        let input = card.split_once(&format!("id=\"{field}\"")).unwrap().1.split('>').next().unwrap();
        assert!(input.contains(" autofocus"), "{field}: {input}");
        let shown = value.replace('[', "&#91;").replace('{', "&#123;");
        assert!(refused.body.contains(value) || refused.body.contains(&shown), "{value}: {refused:?}");
    }
    assert_eq!(server.visit("/link").location(), Some("https://example.com/"));
}

#[test]
fn edit_conflict_shows_both_versions() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "link")]);
    let version = hidden(&ann.get("/admin/links/link"), "version");
    assert_eq!(send(&mut ann, "/admin/links/link", &with(&version, &[("title", "Theirs")])).status, 303);
    let refused = send(&mut ann, "/admin/links/link", &with(&version, &[("title", "Mine")]));
    assert_eq!(refused.status, 412, "{refused:?}");
    assert!(refused.body.contains("<th scope=\"row\">Title</th><td>Mine</td><td>Theirs</td>"), "{refused:?}");
    assert!(refused.body.contains("name=\"title\" value=\"Mine\""), "{refused:?}");
    let card = refused.body.split_once("id=\"edit-title\"").unwrap().1;
    assert!(card.contains("role=\"alert\" tabindex=\"-1\" autofocus>Somebody else has changed"), "{card}");
    // The form has the new version: whoever sends it again means it.
    let version = hidden(&refused, "version");
    assert_eq!(send(&mut ann, "/admin/links/link", &with(&version, &[("title", "Mine")])).status, 303);
    assert!(ann.get("/admin/links/link").body.contains("value=\"Mine\""));
    drop(server);
}

#[test]
fn link_is_disabled_deleted_and_restored() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/"), ("code", "link")]);
    let path = "/admin/links/link/state";
    for (act, leads_to, visitor_gets) in [
        ("disable", "/admin/links/link?done=disabled", 410),
        ("enable", "/admin/links/link?done=active", 302),
        ("delete", "/admin", 404),
        ("restore", "/admin/links/link?done=active", 302),
    ] {
        let done = send(&mut ann, path, &[("act", act)]);
        assert_eq!((done.status, done.location()), (303, Some(leads_to)), "{act}: {done:?}");
        assert_eq!(server.visit("/link").status, visitor_gets, "{act}");
        let page = ann.get(leads_to);
        assert_eq!(page.status, 200);
        assert_eq!(page.body.contains(">Undo</button>"), act == "delete", "{act}");
    }
    send(&mut ann, path, &[("act", "delete")]);
    listed(&mut ann, "", &[]);
    listed(&mut ann, "?state=deleted", &["link"]);
    let page = ann.get("/admin/links/link");
    assert!(
        page.body.contains("This link is deleted") && !page.body.contains("name=\"version\""),
        "{page:?}"
    );
    assert_eq!(send(&mut ann, "/admin/links/link", &with("3", &[])).status, 404);
    assert_eq!(send(&mut ann, path, &[("act", "explode")]).status, 400);
}

#[test]
fn history_shows_who_changed_what_and_can_restore_a_version() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    make(&mut ann, &[("target", "https://example.com/first"), ("code", "link"), ("title", "First")]);
    send(&mut ann, "/admin/links/link", &with("1", &[("target", "https://example.com/second")]));
    let page = ann.get("/admin/links/link");
    let history = page.body.split_once("id=\"history-title\"").unwrap().1;
    assert!(history.contains("<strong><bdi>Ann Example</bdi></strong> changed it"), "{history}");
    assert!(history.contains("<strong><bdi>Ann Example</bdi></strong> created it"), "{history}");
    let (_, seq) = history.split_once("name=\"seq\" value=\"").unwrap();
    let seq = seq.split('"').next().unwrap();
    let back = send(&mut ann, "/admin/links/link/rollback", &[("seq", seq)]);
    assert_eq!(back.location(), Some("/admin/links/link?done=back"), "{back:?}");
    assert_eq!(server.visit("/link").location(), Some("https://example.com/first"));
    assert!(ann.get("/admin/links/link").body.contains("value=\"First\""));
    for (seq, status) in [("999999", 404), ("x", 400), ("-1", 404)] {
        assert_eq!(send(&mut ann, "/admin/links/link/rollback", &[("seq", seq)]).status, status, "{seq}");
    }
}
