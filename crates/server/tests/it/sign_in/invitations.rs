//! One-time invitations.

use rlinks_core::{Email, Preset, Role};
use rlinks_server::ops::By;

use super::browser::{Browser, hidden};
use super::{PASSWORD, ann};
use crate::api::caller::{Reply, at_once};
use crate::api::house::{House, in_house, preset};
use crate::client::Answer;
use crate::database::{Place, contract};
use crate::support::operator;

contract!(an_invitation_works_once);

/// An invitation's path.
fn invite(house: &House, workspace: &rlinks_core::Workspace, email: &str) -> String {
    let by = By::operator(operator());
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
    let by = By::operator(operator());
    house.runtime.block_on(house.ops.remove_member(&by, &house.main, &user)).unwrap();
    assert_eq!(browser.get(&gone).status, 404);

    let platform = house.workspace("platform", preset(Preset::Platform), &[]);
    let refused = browser.get(&invite(&house, &platform, "eve@example.com"));
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("identity provider"), "{refused:?}");
}
