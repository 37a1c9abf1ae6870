//! One-time invitations.

use rlinks_core::{Email, Preset, Role};
use rlinks_ops::Requester;

use super::browser::{Browser, hidden, signed_in};
use super::{PASSWORD, ann};
use crate::api::caller::{Reply, at_once};
use crate::api::house::{House, in_house, preset};
use crate::client::Answer;
use crate::database::{Place, contract};
use crate::support::operator;

contract!(
    an_invitation_works_once,
    an_invitation_ends_the_session_the_browser_had,
    a_member_is_invited_once_more,
);

fn invite(house: &House, workspace: &rlinks_core::Workspace, email: &str) -> String {
    let by = Requester::operator(operator());
    let email = Email::parse(email).unwrap();
    let invite = house.ops.invite(&by, workspace, email, "Given Name".to_owned(), Role::Member);
    let (_, invitation) = house.runtime.block_on(invite).unwrap();
    let (_, token) = invitation.url.split_once("/admin/invite/").unwrap();
    format!("/admin/invite/{token}")
}

fn accept(browser: &mut Browser, path: &str, page: &Answer, password: &str) -> Answer {
    let csrf = hidden(page, "csrf");
    browser.post(path, &[("csrf", &csrf), ("full_name", "Chosen <Name>"), ("password", password)])
}

async fn an_invitation_works_once(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        ann(&house);
        let path = invite(&house, &house.main, "bob@example.com");
        let mut browser = Browser::new(house.address);
        let page = browser.get(&path);
        assert!(page.body.contains("bob@example.com") && page.body.contains("Given Name"), "{page:?}");
        let short = accept(&mut browser, &path, &page, "short");
        assert_eq!(short.status, 400);
        assert!(
            short.body.contains("Chosen &#60;Name&#62;") || short.body.contains("Chosen &lt;Name&gt;"),
            "{short:?}"
        );
        let replies = at_once(4, |number| {
            let answer = accept(&mut browser.clone(), &path, &page, PASSWORD);
            Reply { what: format!("acceptance {number}"), answer }
        });
        let mut statuses: Vec<_> = replies.iter().map(Reply::status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [303, 404, 404, 404], "{replies:?}");
        let mut signed = Browser::new(house.address);
        assert_eq!(signed.sign_in("bob@example.com", PASSWORD).status, 303);
        let home = signed.get("/admin");
        assert!(!home.body.contains("<Name>") && home.body.contains("Chosen"), "{home:?}");
        assert_eq!(browser.get(&path).status, 404);
        let actions = house.actions();
        assert_eq!(actions.iter().filter(|action| *action == "auth.invitation_accepted").count(), 1);
        let verified = house.runtime.block_on(house.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

async fn an_invitation_ends_the_session_the_browser_had(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        ann(&house);
        let path = invite(&house, &house.main, "bob@example.com");
        let mut browser = signed_in(house.address, "ann@example.com");
        let mut old = browser.clone();
        let mut elsewhere = signed_in(house.address, "ann@example.com");
        let page = browser.get(&path);
        assert_eq!(accept(&mut browser, &path, &page, PASSWORD).status, 303);
        assert!(browser.get("/admin").body.contains("bob@example.com"));
        assert!(!old.is_signed_in(), "whoever signs in ends what the browser had");
        assert!(elsewhere.is_signed_in(), "and nothing else");
    })
    .await;
}

async fn a_member_is_invited_once_more(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        ann(&house);
        let lost = invite(&house, &house.main, "bob@example.com");
        let by = Requester::operator(operator());
        let again = || {
            let bob = house.runtime.block_on(house.ops.member(&house.main, "bob@example.com")).unwrap();
            house.runtime.block_on(house.ops.reinvite(&by, &bob))
        };
        let path = |url: &str| format!("/admin/invite/{}", url.rsplit('/').next().unwrap());
        let second = path(&again().unwrap().url);
        let mut browser = Browser::new(house.address);
        assert_eq!(browser.get(&lost).status, 404, "the earlier one no longer works");
        let page = browser.get(&second);
        assert_eq!(accept(&mut browser, &second, &page, PASSWORD).status, 303);
        // Somebody who has a password goes on with it until they take the invitation; then everything else ends.
        let third = path(&again().unwrap().url);
        assert!(browser.is_signed_in());
        let mut other = Browser::new(house.address);
        assert_eq!(other.sign_in("bob@example.com", PASSWORD).status, 303);
        let mut new = Browser::new(house.address);
        let page = new.get(&third);
        assert_eq!(accept(&mut new, &third, &page, "another password, longer").status, 303);
        assert!(new.is_signed_in() && !browser.is_signed_in() && !other.is_signed_in());
        let actions = house.actions();
        assert_eq!(actions.iter().filter(|action| *action == "user.invite").count(), 2, "{actions:?}");
        let verified = house.runtime.block_on(house.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

#[test]
fn an_invitation_that_is_over_wrong_or_for_nobody_is_404() {
    let house = House::new(Preset::Fabric);
    ann(&house);
    let mut browser = Browser::new(house.address);
    for path in ["/admin/invite/x", "/admin/invite/%00", "/admin/invite/"] {
        assert_eq!(browser.get(path).status, 404, "{path}");
    }
    let late = invite(&house, &house.main, "late@example.com");
    let page = browser.get(&late);
    assert_eq!(page.status, 200);
    house.advance_ms(7 * 24 * 3_600_000);
    assert_eq!(browser.get(&late).status, 200, "good up to and including the moment");
    house.advance_ms(1);
    assert_eq!(browser.get(&late).status, 404);
    assert_eq!(accept(&mut browser, &late, &page, PASSWORD).status, 404);

    let gone = invite(&house, &house.main, "gone@example.com");
    let user = house.runtime.block_on(house.ops.member(&house.main, "gone@example.com")).unwrap();
    let by = Requester::operator(operator());
    house.runtime.block_on(house.ops.remove_member(&by, &house.main, &user)).unwrap();
    assert_eq!(browser.get(&gone).status, 404);

    let platform = house.workspace("platform", preset(Preset::Platform), &[]);
    let refused = browser.get(&invite(&house, &platform, "eve@example.com"));
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("identity provider"), "{refused:?}");
}
