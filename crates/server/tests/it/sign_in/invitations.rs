//! One-time invitations.

use rlinks_core::{Email, Preset, Role};
use rlinks_ops::OpsError;

use crate::support::api_client::{ApiResponse, at_once};
use crate::support::browser::{Browser, hidden, signed_in};
use crate::support::database::{TestStore, contract};
use crate::support::members::{PASSWORD, TestServer, ann, preset, with_server};
use crate::support::raw_client::Response;
use crate::support::server::operator_in;

contract!(
    an_invitation_works_once,
    accepted_invitation_ends_the_previous_session_of_the_browser,
    new_invitation_replaces_the_previous_one,
);

fn invite(server: &TestServer, workspace: &rlinks_core::Workspace, email: &str) -> String {
    let by = operator_in(workspace);
    let email = Email::parse(email).unwrap();
    let invite = server.ops.invite(&by, email, "Given Name".to_owned(), Role::Member);
    let (_, invitation) = server.runtime.block_on(invite).unwrap();
    let (_, token) = invitation.url.split_once("/admin/invite/").unwrap();
    format!("/admin/invite/{token}")
}

pub(super) fn accept(browser: &mut Browser, page: &Response, password: &str) -> Response {
    let csrf = hidden(page, "csrf");
    browser.post("/admin/invite", &[("csrf", &csrf), ("full_name", "Chosen <Name>"), ("password", password)])
}

async fn an_invitation_works_once(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        ann(&server);
        let path = invite(&server, &server.main, "bob@example.com");
        let mut browser = Browser::new(server.address);
        let page = browser.open(&path);
        assert!(page.body.contains("bob@example.com") && page.body.contains("Given Name"), "{page:?}");
        let short = accept(&mut browser, &page, "short");
        assert_eq!(short.status, 400);
        assert!(
            short.body.contains("Chosen &#60;Name&#62;") || short.body.contains("Chosen &lt;Name&gt;"),
            "{short:?}"
        );
        let replies = at_once(4, |number| {
            let answer = accept(&mut browser.clone(), &page, PASSWORD);
            ApiResponse { what: format!("acceptance {number}"), answer }
        });
        let mut statuses: Vec<_> = replies.iter().map(ApiResponse::status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [303, 404, 404, 404], "{replies:?}");
        let mut signed = Browser::new(server.address);
        assert_eq!(signed.sign_in("bob@example.com", PASSWORD).status, 303);
        let home = signed.get("/admin");
        assert!(!home.body.contains("<Name>") && home.body.contains("Chosen"), "{home:?}");
        assert_eq!(browser.open(&path).status, 404);
        let actions = server.actions();
        assert_eq!(actions.iter().filter(|action| *action == "auth.invitation_accepted").count(), 1);
        let verified = server.runtime.block_on(server.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

async fn accepted_invitation_ends_the_previous_session_of_the_browser(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        ann(&server);
        let path = invite(&server, &server.main, "bob@example.com");
        let mut browser = signed_in(server.address, "ann@example.com");
        let mut old = browser.clone();
        let mut elsewhere = signed_in(server.address, "ann@example.com");
        let page = browser.open(&path);
        assert_eq!(accept(&mut browser, &page, PASSWORD).status, 303);
        assert!(browser.get("/admin").body.contains("bob@example.com"));
        assert!(!old.is_signed_in(), "whoever signs in ends what the browser had");
        assert!(elsewhere.is_signed_in(), "and nothing else");
    })
    .await;
}

async fn new_invitation_replaces_the_previous_one(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        ann(&server);
        let lost = invite(&server, &server.main, "bob@example.com");
        let by = operator_in(&server.main);
        let again = || {
            let bob = server.runtime.block_on(server.ops.member(&server.main, "bob@example.com")).unwrap();
            server.runtime.block_on(server.ops.reinvite(&by, &bob))
        };
        let path = |url: &str| format!("/admin/invite/{}", url.rsplit('/').next().unwrap());
        let second = path(&again().unwrap().url);
        let mut browser = Browser::new(server.address);
        assert_eq!(browser.get(&lost).status, 404, "the earlier one no longer works");
        let page = browser.open(&second);
        assert_eq!(accept(&mut browser, &page, PASSWORD).status, 303);
        // Who has accepted needs a reset.
        assert!(matches!(again(), Err(OpsError::Forbidden(_))));
        assert!(browser.is_signed_in());
        let actions = server.actions();
        assert_eq!(actions.iter().filter(|action| *action == "user.invite").count(), 1, "{actions:?}");
        let verified = server.runtime.block_on(server.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

#[test]
fn expired_or_unknown_invitation_is_404() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let mut browser = Browser::new(server.address);
    for path in ["/admin/invite/x", "/admin/invite/%00", "/admin/invite/"] {
        assert_eq!(browser.get(path).status, 404, "{path}");
    }
    let late = invite(&server, &server.main, "late@example.com");
    let page = browser.open(&late);
    assert_eq!(page.status, 200);
    server.advance_ms(7 * 24 * 3_600_000);
    assert_eq!(browser.open(&late).status, 200, "good up to and including the moment");
    server.advance_ms(1);
    assert_eq!(browser.open(&late).status, 404);
    assert_eq!(accept(&mut browser, &page, PASSWORD).status, 404);

    let gone = invite(&server, &server.main, "gone@example.com");
    let user = server.runtime.block_on(server.ops.member(&server.main, "gone@example.com")).unwrap();
    let by = operator_in(&server.main);
    server.runtime.block_on(server.ops.remove_member(&by, &user)).unwrap();
    assert_eq!(browser.get(&gone).status, 404);

    let platform = server.workspace("platform", preset(Preset::Platform), &[]);
    let refused = browser.open(&invite(&server, &platform, "eve@example.com"));
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("identity provider"), "{refused:?}");
}

/// Hostile inputs, S31.
#[test]
fn invitation_address_becomes_a_cookie_and_looking_uses_nothing_up() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let path = invite(&server, &server.main, "bob@example.com");
    let (_, token) = path.rsplit_once('/').unwrap();
    let mut browser = Browser::new(server.address);
    for method in ["HEAD", "GET", "GET"] {
        let opened = browser.clone().with("Sec-Fetch-Site", "cross-site").send(method, &path, None);
        assert_eq!((opened.status, opened.location()), (303, Some("/admin/invite")), "{opened:?}");
        let cookie = format!("rlinks-invitation={token}; Path=/; Max-Age=900; HttpOnly; SameSite=Lax");
        assert_eq!(opened.header("set-cookie"), [cookie]);
        assert_eq!(opened.header("cache-control"), ["no-store"]);
        assert_eq!(opened.header("referrer-policy"), ["no-referrer"]);
    }
    assert_eq!(browser.send("POST", &path, Some("x=1")).status, 405, "no form leads to the token");
    assert_eq!(browser.get("/admin/invite").status, 404, "it was not opened here");
    let page = browser.open(&path);
    assert!(page.status == 200 && !page.body.contains(token), "{page:?}");
    assert_eq!(accept(&mut browser, &page, PASSWORD).status, 303);
    assert_eq!(browser.cookie("rlinks-invitation"), None);
}

#[test]
fn last_opened_invitation_counts() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let paths = ["bob@example.com", "eve@example.com"].map(|email| invite(&server, &server.main, email));
    let mut browser = Browser::new(server.address);
    assert!(browser.open(&paths[0]).body.contains("bob@example.com"));
    let page = browser.open(&paths[1]);
    assert!(page.body.contains("eve@example.com"), "{page:?}");
    assert_eq!(accept(&mut browser, &page, PASSWORD).status, 303);
    assert!(browser.get("/admin").body.contains("eve@example.com"));
    assert!(Browser::new(server.address).open(&paths[0]).body.contains("bob@example.com"), "still good");
}

#[test]
fn invitation_opened_while_signed_in_names_both_workspaces_and_changes_nothing() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let team = server.workspace("team", preset(Preset::Team), &[]);
    let path = invite(&server, &team, "ann@elsewhere.example");
    let mut browser = signed_in(server.address, "ann@example.com");
    let session = browser.session();
    let page = browser.open(&path);
    for words in
        ["signed in as <strong>ann@example.com</strong>", "(main)", "(team)", "Stay signed in as you are"]
    {
        assert!(page.body.contains(words), "{words}: {page:?}");
    }
    assert_eq!(browser.session(), session);
    assert!(browser.get("/admin").body.contains("ann@example.com"));
    assert_eq!(accept(&mut browser, &page, PASSWORD).status, 303);
    assert!(browser.get("/admin").body.contains("ann@elsewhere.example"));
}
