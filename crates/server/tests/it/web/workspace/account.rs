//! Oneself.

use rlinks_core::{Preset, Role};

use super::{open, person, send, server_with_admin};
use crate::support::browser::signed_in;
use crate::support::members::PASSWORD;

const PAGE: &str = "/admin/account";

#[test]
fn member_name_is_changed() {
    let (_server, mut ann) = server_with_admin(Preset::Fabric);
    let done = send(&mut ann, PAGE, "/admin/account/name", &[("full_name", "Ann Other")]);
    assert_eq!(done.location(), Some("/admin/account?done=name"), "{done:?}");
    assert!(open(&mut ann, "/admin/account?done=name").contains("value=\"Ann Other\""));
    let refused = send(&mut ann, PAGE, "/admin/account/name", &[("full_name", "a\nb")]);
    assert!(refused.status == 400 && refused.body.contains("id=\"name-problem\""), "{refused:?}");
}

#[test]
fn other_sessions_are_ended_and_this_one_is_kept() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let mut others =
        [signed_in(server.address, "ann@example.com"), signed_in(server.address, "ann@example.com")];
    let page = open(&mut ann, PAGE);
    assert_eq!((page.matches("(this one)").count(), page.matches("<tr><td>").count()), (1, 3), "{page}");
    let done = send(&mut ann, PAGE, "/admin/account/sign-out-others", &[]);
    assert_eq!(done.location(), Some("/admin/account?done=others"), "{done:?}");
    assert!(ann.is_signed_in() && !others[0].is_signed_in() && !others[1].is_signed_in());
}

/// What the first form on a page that ends a session is sent to.
fn end_form(page: &str) -> &str {
    page.split("action=\"")
        .filter(|form| form.contains("Sign out<span"))
        .map(|form| form.split('"').next().unwrap())
        .next()
        .unwrap()
}

#[test]
fn one_session_is_ended_and_others_are_kept() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let mut other = signed_in(server.address, "ann@example.com");
    let page = open(&mut ann, PAGE);
    assert_eq!(page.matches("/admin/account/sessions/").count(), 1, "not this one: {page}");
    let path = end_form(&page);
    for _ in 0..2 {
        let done = send(&mut ann, PAGE, path, &[]);
        assert_eq!(done.location(), Some("/admin/account?done=session"), "{done:?}");
        assert!(ann.is_signed_in() && !other.is_signed_in());
    }
    assert!(open(&mut ann, "/admin/account?done=session").contains("That session has ended."));
}

#[test]
fn admin_sees_and_ends_the_sessions_of_a_member() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let mut bob = person(&server, Role::Viewer, "bob@example.com");
    let mut elsewhere = signed_in(server.address, "bob@example.com");
    let members = open(&mut ann, "/admin/members");
    let row = members.split("<th scope=\"row\">bob@example.com").nth(1).unwrap();
    let path = row.split_once("href=\"").unwrap().1.split('"').next().unwrap().to_owned();
    assert!(path.ends_with("/sessions"), "{path}");
    let page = open(&mut ann, &path);
    assert_eq!(page.matches("Sign out<span").count(), 2, "{page}");
    let done = send(&mut ann, &path, end_form(&page), &[]);
    assert_eq!(done.location(), Some(format!("{path}?done=session").as_str()), "{done:?}");
    assert_eq!([bob.is_signed_in(), elsewhere.is_signed_in()].iter().filter(|&&signed| signed).count(), 1);
    let done = send(&mut ann, &path, &format!("{path}/end"), &[]);
    assert_eq!(done.location(), Some(format!("{path}?done=all").as_str()), "{done:?}");
    assert!(!bob.is_signed_in() && !elsewhere.is_signed_in() && ann.is_signed_in());
    assert!(open(&mut ann, &format!("{path}?done=all")).contains("<p>None.</p>"));
    assert!(server.actions().ends_with(&["auth.sign_out_everywhere".to_owned()]));
}

#[test]
fn account_deletion_requires_the_address_and_the_password() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let mut bob = person(&server, Role::Viewer, "bob@example.com");
    // A browser goes to where the cursor is, unless the address names another place.
    let page = open(&mut bob, PAGE);
    assert!(page.contains("action=\"/admin/account/delete\""), "{page}");
    for typed in ["", "yes", "ann@example.com"] {
        let refused = send(&mut bob, PAGE, "/admin/account/delete", &[("email", typed)]);
        assert!(refused.status == 400 && refused.body.contains("id=\"delete-problem\""), "{refused:?}");
        assert!(refused.body.contains("aria-describedby=\"delete-problem\" autofocus"), "{refused:?}");
    }
    assert!(bob.is_signed_in());
    // A browser left open isn't enough.
    for password in ["", "not the password!"] {
        let fields = [("email", "bob@example.com"), ("password", password)];
        let refused = send(&mut bob, PAGE, "/admin/account/delete", &fields);
        assert!(refused.status == 403 && refused.body.contains("id=\"delete-problem\""), "{refused:?}");
    }
    assert!(bob.is_signed_in());
    let fields = [("email", "Bob@example.com"), ("password", PASSWORD)];
    let gone = send(&mut bob, PAGE, "/admin/account/delete", &fields);
    assert_eq!(gone.location(), Some("/admin/login?done=deleted"), "{gone:?}");
    assert!(bob.get("/admin/login?done=deleted").body.contains("Your account is deleted."));
    assert!(!bob.is_signed_in() && bob.sign_in("bob@example.com", PASSWORD).status == 401);
    // The last admin stays, and is told why.
    let fields = [("email", "ann@example.com"), ("password", PASSWORD)];
    let refused = send(&mut ann, PAGE, "/admin/account/delete", &fields);
    assert!(refused.status == 409 && refused.body.contains("You are the last admin"), "{refused:?}");
    assert!(ann.is_signed_in());
}

#[test]
fn session_is_listed_by_its_browser() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    let mut fox = crate::support::browser::Browser::new(server.address).with("User-Agent", agent);
    assert_eq!(fox.sign_in("ann@example.com", PASSWORD).status, 303);
    let page = open(&mut ann, PAGE);
    assert!(page.contains(&format!("<span title=\"{agent}\">Firefox 140 on Linux</span>")), "{page}");
}
