//! Hostile inputs, S24: sessions begin with a new token, end everywhere at once, and anonymous visitors leave none behind.

use rlinks_core::{Preset, Role, UserStatus};
use rlinks_ops::members::MemberPatch;
use sqlx::Connection as _;

use crate::support::browser::{Browser, form, signed_in};
use crate::support::database::{TestStore, contract};
use crate::support::members::{PASSWORD, TestServer, ann, member, preset, with_server};
use crate::support::server::{operator, operator_in};

const DAY_MS: i64 = 24 * 3_600_000;

contract!(
    session_begins_at_sign_in_and_ends_at_sign_out,
    signing_out_everywhere_or_changing_the_password_ends_sessions_on_every_node,
    suspension_demotion_and_deletion_apply_at_once,
);

async fn session_begins_at_sign_in_and_ends_at_sign_out(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let user = ann(&server);
        let mut browser = Browser::new(server.address);
        assert!(!browser.is_signed_in());
        let wrong = browser.sign_in("ann@example.com", "not my password!");
        assert_eq!(wrong.status, 401, "{wrong:?}");
        assert!(wrong.body.contains("value=\"ann@example.com\"") && !wrong.body.contains("not my password!"));
        assert_eq!(browser.cookie("rlinks"), None);
        let right = browser.sign_in(" ANN@example.com ", PASSWORD);
        assert_eq!((right.status, right.location()), (303, Some("/admin")), "{right:?}");
        let home = browser.get("/admin");
        assert!(home.body.contains("ann@example.com") && home.body.contains("Ann Example"), "{home:?}");
        assert_eq!(browser.get("/admin/login").location(), Some("/admin"), "there is nothing to sign in to");
        let seen = server.runtime.block_on(server.store().user(server.main.id, user.id)).unwrap().unwrap();
        assert_eq!(seen.last_login_at, Some(server.now()));
        assert_eq!(seen.updated_at, user.updated_at, "signing in does not change an account");

        let stolen = browser.clone();
        let csrf = browser.token("/admin/account");
        let out = browser.post("/admin/logout", &[("csrf", &csrf)]);
        assert_eq!((out.status, out.location()), (303, Some("/admin/login")), "{out:?}");
        assert_eq!(browser.cookie("rlinks"), None);
        assert!(!stolen.clone().is_signed_in(), "a stolen cookie is worth nothing afterwards");
        // Once more does no harm.
        let again = stolen.clone().post("/admin/logout", &[("csrf", &csrf)]);
        assert_eq!((again.status, again.location()), (303, Some("/admin/login")), "{again:?}");

        let actions: Vec<_> =
            server.actions().into_iter().filter(|action| action.starts_with("auth.")).collect();
        assert_eq!(actions, ["auth.sign_in", "auth.sign_out"], "a failure is no entry");
        let verified = server.runtime.block_on(server.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

/// Hostile inputs, S24.
async fn signing_out_everywhere_or_changing_the_password_ends_sessions_on_every_node(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        ann(&server);
        let other = server.second(|_| ());
        let (mut here, mut there) =
            (signed_in(server.address, "ann@example.com"), signed_in(other.address, "ann@example.com"));
        // A session is known on every node.
        assert!(here.at(other.address).is_signed_in() && there.at(server.address).is_signed_in());
        let csrf = here.token("/admin/account");
        let out = here.post("/admin/account/sign-out-everywhere", &[("csrf", &csrf)]);
        assert_eq!((out.status, out.location()), (303, Some("/admin/login?done=everywhere")), "{out:?}");
        assert!(!there.is_signed_in() && !there.at(server.address).is_signed_in());

        let (mut here, mut there) =
            (signed_in(server.address, "ann@example.com"), signed_in(other.address, "ann@example.com"));
        let (csrf, before) = (here.token("/admin/account"), here.clone());
        let new = "another horse, another staple";
        let change = |browser: &mut Browser, old: &str, new: &str| {
            let fields = [("csrf", csrf.as_str()), ("old_password", old), ("password", new)];
            browser.post("/admin/account/password", &fields)
        };
        assert_eq!(change(&mut here, "not my password!", new).status, 401);
        assert_eq!(change(&mut here, PASSWORD, "too short").status, 400);
        assert!(there.is_signed_in());
        let changed = change(&mut here, PASSWORD, new);
        assert_eq!(changed.location(), Some("/admin/account?done=password"), "{changed:?}");
        assert!(here.is_signed_in(), "who changed it goes on");
        assert_ne!(here.session(), before.session(), "in a session of another token");
        assert!(!there.is_signed_in() && !before.clone().is_signed_in());
        assert_eq!(there.sign_in("ann@example.com", PASSWORD).status, 401);
        assert_eq!(there.sign_in("ann@example.com", new).status, 303);
        let actions = server.actions();
        for action in ["auth.sign_out_everywhere", "user.password"] {
            assert!(actions.iter().any(|known| known == action), "{action}: {actions:?}");
        }
        other.stop();
    })
    .await;
}

/// Hostile inputs, S24.
async fn suspension_demotion_and_deletion_apply_at_once(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        ann(&server);
        let bob = member(&server, &server.main, Role::Admin, "bob@example.com");
        let by = operator_in(&server.main);
        let mut browser = signed_in(server.address, "bob@example.com");
        let users = |browser: &mut Browser| browser.send("GET", "/api/v1/users", None).status;
        assert_eq!(users(&mut browser), 200);
        let patch = MemberPatch { role: Some(Role::Viewer), ..MemberPatch::default() };
        let bob = server.runtime.block_on(server.ops.change_member(&by, &bob, &patch)).unwrap();
        assert_eq!(users(&mut browser), 403, "the role is asked for on every request");
        assert!(browser.is_signed_in());
        let patch = MemberPatch { status: Some(UserStatus::Suspended), ..MemberPatch::default() };
        let bob = server.runtime.block_on(server.ops.change_member(&by, &bob, &patch)).unwrap();
        assert!(!browser.is_signed_in());
        assert_eq!(Browser::new(server.address).sign_in("bob@example.com", PASSWORD).status, 401);
        let patch = MemberPatch { status: Some(UserStatus::Active), ..MemberPatch::default() };
        let bob = server.runtime.block_on(server.ops.change_member(&by, &bob, &patch)).unwrap();
        assert!(!browser.is_signed_in(), "who is let in again signs in again");
        let mut browser = signed_in(server.address, "bob@example.com");
        server.runtime.block_on(server.ops.remove_member(&by, &bob)).unwrap();
        assert!(!browser.is_signed_in());
        assert_eq!(browser.sign_in("bob@example.com", PASSWORD).status, 401);
    })
    .await;
}

/// Hostile inputs, S24.
#[test]
fn preset_session_cookie_is_not_adopted() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let mut browser = Browser::new(server.address);
    let planted = "A".repeat(43);
    browser.cookies.push(("rlinks".to_owned(), planted.clone()));
    assert!(!browser.is_signed_in());
    let csrf = browser.token("/admin/login");
    let fields = [
        ("csrf", csrf.as_str()),
        ("workspace", "main"),
        ("email", "ann@example.com"),
        ("password", PASSWORD),
    ];
    assert_eq!(browser.post("/admin/login", &fields).status, 303);
    let first = browser.session();
    assert_ne!(first, planted);
    // Who signs in again gets another, and the one before ends.
    let mut before = browser.clone();
    assert_eq!(browser.post("/admin/login", &fields).status, 303);
    assert_ne!(browser.session(), first);
    assert!(browser.is_signed_in() && !before.is_signed_in());
    // Of two cookies with our name one is somebody else's.
    browser.cookies.push(("rlinks".to_owned(), planted));
    assert!(!browser.is_signed_in());
}

/// Hostile inputs, S24.
#[test]
fn anonymous_visitors_leave_no_rows() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    for _ in 0..50 {
        let mut browser = Browser::new(server.address);
        browser.get("/admin/login");
        browser.get("/admin");
        browser.get("/admin/setup?token=x");
        browser.post("/admin/login", &[("email", "x")]);
    }
    assert_eq!(rows(&server, "select count(*) from sessions"), 0);
    assert_eq!(rows(&server, "select count(*) from attempts"), 0);
}

#[test]
fn session_ends_after_14_idle_days_or_90_days() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let mut idle = signed_in(server.address, "ann@example.com");
    let mut used = signed_in(server.address, "ann@example.com");
    for _ in 0..13 {
        server.advance_ms(DAY_MS);
        assert!(used.is_signed_in());
    }
    server.advance_ms(DAY_MS + 1);
    assert!(!idle.is_signed_in(), "14 days were enough");
    for _ in 0..76 {
        assert!(used.is_signed_in());
        server.advance_ms(DAY_MS);
    }
    assert!(!used.is_signed_in(), "90 days were enough");
    server.runtime.block_on(server.store().purge_sessions(server.now())).unwrap();
    assert_eq!(rows(&server, "select count(*) from sessions"), 0);
}

#[test]
fn number_of_sessions_per_member_is_limited() {
    let server = TestServer::new(Preset::Fabric);
    let user = ann(&server);
    let mut first = signed_in(server.address, "ann@example.com");
    let new = |number: u32| rlinks_store::NewSession {
        hash: format!("blake2b256:{number}"),
        how: rlinks_store::AuthMethod::Password,
        agent: String::new(),
        network: String::new(),
        expires_at: server.now().plus_ms(DAY_MS),
        replaces: None,
    };
    for number in 0..60 {
        server.advance_ms(1);
        let (new, now) = (new(number), server.now());
        server.runtime.block_on(server.store().start_session(&user, &new, now)).unwrap();
    }
    assert_eq!(rows(&server, "select count(*) from sessions"), 50);
    assert!(!first.is_signed_in(), "the oldest go");
}

#[test]
fn deleted_workspace_or_policy_without_passwords_ends_sessions() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let team = server.workspace("team", preset(Preset::Team), &[]);
    member(&server, &team, Role::Admin, "eve@example.com");
    let mut browser = Browser::new(server.address);
    assert_eq!(browser.sign_in_to("team", "eve@example.com", PASSWORD).status, 303);
    assert!(browser.is_signed_in());
    server.workspace("team", preset(Preset::Platform), &[]);
    assert!(!browser.is_signed_in());
    let refused = browser.sign_in_to("team", "eve@example.com", PASSWORD);
    assert_eq!(refused.status, 401, "a name alone tells nothing of a workspace");
    server.workspace("team", preset(Preset::Team), &[]);
    let mut browser = Browser::new(server.address);
    assert_eq!(browser.sign_in_to("team", "eve@example.com", PASSWORD).status, 303);
    let seen = server.runtime.block_on(server.ops.workspace(&team.slug)).unwrap();
    let gone = rlinks_core::Workspace { deleted_at: Some(server.now()), ..seen.clone() };
    let by = operator();
    let delete = server.store().update_workspace(&seen, gone, "workspace.delete", &by, server.now());
    server.runtime.block_on(delete).unwrap();
    assert!(!browser.is_signed_in());
    assert_eq!(Browser::new(server.address).sign_in_to("team", "eve@example.com", PASSWORD).status, 401);
}

/// Neither the token, nor its CSRF token, nor a password is in any file.
#[test]
fn no_token_and_no_password_is_in_any_file() {
    let mut server = TestServer::new(Preset::Fabric);
    ann(&server);
    let mut browser = signed_in(server.address, "ann@example.com");
    let (token, csrf) = (browser.session(), browser.token("/admin/account"));
    let typed = "canary-typed-as-address@example.com";
    assert_eq!(Browser::new(server.address).sign_in(typed, "canary-wrong-password").status, 401);
    server.stop();
    server.runtime.block_on(server.store().close());
    for secret in
        [token.as_str(), &csrf, PASSWORD, &form(&[("x", PASSWORD)])[2..], typed, "canary-wrong-password"]
    {
        assert_eq!(
            crate::support::files::files_with(server.test_store.folder(), secret),
            [""; 0],
            "{secret}"
        );
    }
}

/// A number asked of a SQLite store past the program.
pub(super) fn rows(server: &TestServer, sql: &'static str) -> i64 {
    let rlinks_store::Location::Sqlite(path) = &server.test_store.location else { panic!("SQLite only") };
    server.runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).read_only(true);
        let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        let (count,): (i64,) = sqlx::query_as(sql).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        count
    })
}
