//! Members.

use rlinks_core::{Preset, Role};

use super::{open, person, send, send_twice, server_with_admin, value};
use crate::support::browser::{Browser, hidden};
use crate::support::members::{PASSWORD, member};

const PAGE: &str = "/admin/members";

#[test]
fn member_is_invited_joins_and_changes_role() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let fields = [("email", "bob@example.com"), ("full_name", "Bob"), ("role", "viewer")];
    let invited = send(&mut ann, PAGE, PAGE, &fields);
    assert_eq!(invited.status, 200, "{invited:?}");
    let url = value(&invited.body, "invitation");
    let path = &url[url.find("/admin/invite/").unwrap()..];
    let list = open(&mut ann, PAGE);
    assert!(list.contains("bob@example.com") && !list.contains(path), "shown once: {list}");

    let mut bob = Browser::new(server.address);
    let form = bob.open(path);
    let csrf = hidden(&form, "csrf");
    let joined = bob.post("/admin/invite", &[("csrf", &csrf), ("full_name", "Bob"), ("password", PASSWORD)]);
    assert_eq!(joined.status, 303, "{joined:?}");
    assert_eq!(bob.get("/admin/keys").status, 403);
    let list = open(&mut ann, PAGE);
    let id = list.split("bob@example.com").nth(1).unwrap().split("/admin/members/").nth(1).unwrap();
    let id = id.split('/').next().unwrap();
    let changed = send(&mut ann, PAGE, &format!("{PAGE}/{id}/role"), &[("role", "member")]);
    assert_eq!(changed.location(), Some("/admin/members?done=role"), "{changed:?}");
    assert_eq!(bob.get("/admin/keys").status, 200, "from the next request on");
    assert!(server.actions().ends_with(&["user.role".to_owned()]));
    let wrong = send(&mut ann, PAGE, &format!("{PAGE}/{id}/role"), &[("role", "owner")]);
    assert_eq!(wrong.status, 400, "{wrong:?}");
}

#[test]
fn lost_invitation_can_be_replaced() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let fields = [("email", "bob@example.com"), ("full_name", "Bob"), ("role", "viewer")];
    let first = value(&send(&mut ann, PAGE, PAGE, &fields).body, "invitation");
    let list = open(&mut ann, PAGE);
    let id = list.split("bob@example.com").nth(1).unwrap().split("/admin/members/").nth(1).unwrap();
    let again = format!("{PAGE}/{}/invite", id.split('/').next().unwrap());
    let path = |url: &str| url[url.find("/admin/invite/").unwrap()..].to_owned();
    let mut bob = Browser::new(server.address);
    let asked = send(&mut ann, PAGE, &again, &[]);
    assert!(asked.status == 200 && asked.body.contains("Invite once more"), "{asked:?}");
    assert_eq!(bob.open(&path(&first)).status, 200, "nothing is done before it is confirmed");
    let invited = send(&mut ann, PAGE, &again, &[("confirmed", "yes")]);
    let second = value(&invited.body, "invitation");
    assert_eq!((bob.open(&path(&first)).status, bob.open(&path(&second)).status), (404, 200));
    assert!(server.actions().ends_with(&["user.invite".to_owned()]));
}

#[test]
fn invalid_invitation_is_explained() {
    let (_server, mut ann) = server_with_admin(Preset::Fabric);
    let fields = [("email", "not an address"), ("full_name", "Kept"), ("role", "admin")];
    let refused = send(&mut ann, PAGE, PAGE, &fields);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(
        refused.body.contains("id=\"email-problem\"") && refused.body.contains("value=\"Kept\""),
        "{refused:?}"
    );
    assert!(refused.body.contains("value=\"admin\" selected"), "{refused:?}");
    let fields = [("email", "ann@example.com"), ("full_name", ""), ("role", "admin")];
    let taken = send(&mut ann, PAGE, PAGE, &fields);
    assert_eq!(taken.status, 409, "{taken:?}");
    assert!(taken.body.contains("A member has this e-mail address already"), "{taken:?}");
}

#[test]
fn member_is_suspended_reactivated_and_deleted() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let bob = member(&server, &server.main, Role::Member, "bob@example.com");
    let mut browser = crate::support::browser::signed_in(server.address, "bob@example.com");
    let path = format!("{PAGE}/{}", bob.id);
    let asked = send(&mut ann, PAGE, &format!("{path}/suspend"), &[]);
    assert!(asked.body.contains("Suspend Ann Example (bob@example.com)?"), "{asked:?}");
    assert!(browser.is_signed_in(), "asking does nothing");
    let done = send_twice(&mut ann, PAGE, &format!("{path}/suspend"), &[]);
    assert_eq!(done.location(), Some("/admin/members?done=suspended"), "{done:?}");
    assert!(!browser.is_signed_in());
    assert!(open(&mut ann, PAGE).contains("Let in again"));
    let done = send(&mut ann, PAGE, &format!("{path}/activate"), &[]);
    assert_eq!(done.location(), Some("/admin/members?done=activated"), "{done:?}");
    assert_eq!(browser.sign_in("bob@example.com", PASSWORD).status, 303);
    let done = send_twice(&mut ann, PAGE, &format!("{path}/delete"), &[]);
    assert_eq!(done.location(), Some("/admin/members?done=deleted"), "{done:?}");
    assert!(!browser.is_signed_in());
    let page = open(&mut ann, "/admin/members?done=deleted");
    assert!(!page.contains("bob@example.com") && page.contains("The account was deleted"), "{page}");
    assert_eq!(send(&mut ann, PAGE, &format!("{path}/delete"), &[("confirmed", "yes")]).status, 404);
}

/// Hostile inputs, S28.
///
/// A workspace keeps somebody who can let others in.
#[test]
fn last_admin_cannot_leave_and_learns_why() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let own = open(&mut ann, PAGE);
    assert!(own.contains("ann@example.com <strong>(you)</strong>"), "{own}");
    assert!(!own.contains(">Suspend<"), "nobody is offered to suspend themselves: {own}");
    let id = own.split("/admin/members/").nth(1).unwrap().split('/').next().unwrap().to_owned();
    for (act, fields) in [("role", &[("role", "viewer")][..]), ("suspend", &[])] {
        let refused = send_twice(&mut ann, PAGE, &format!("{PAGE}/{id}/{act}"), fields);
        assert_eq!(refused.status, 409, "{refused:?}");
        assert!(refused.body.contains("The last admin of a workspace cannot leave"), "{refused:?}");
    }
    assert!(ann.is_signed_in());
    // One's own account is deleted where the password is asked for, however many admins there are.
    person(&server, Role::Admin, "second@example.com");
    let led = send(&mut ann, PAGE, &format!("{PAGE}/{id}/delete"), &[("confirmed", "yes")]);
    assert_eq!(led.location(), Some("/admin/account#delete-title"), "{led:?}");
    assert!(ann.is_signed_in());
}

#[test]
fn long_member_list_is_paged() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    for _ in 0..60 {
        server.user(&server.main, Role::Viewer);
    }
    let first = open(&mut ann, PAGE);
    let next = first.split("href=\"/admin/members?after=").nth(1).unwrap().split('"').next().unwrap();
    let second = open(&mut ann, &format!("/admin/members?after={next}"));
    let rows = |page: &str| page.matches("<th scope=\"row\">").count();
    assert_eq!((rows(&first), rows(&second)), (50, 11));
    assert!(!second.contains("?after="), "{second}");
}
