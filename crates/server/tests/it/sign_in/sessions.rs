//! S24: sessions begin with a new token, end everywhere at once, and anonymous visitors leave none behind.

use rlinks_core::{Preset, Role, UserStatus};
use rlinks_ops::Requester;
use rlinks_ops::members::MemberPatch;
use sqlx::Connection as _;

use super::browser::{Browser, form, signed_in};
use super::{PASSWORD, ann, member};
use crate::api::house::{House, in_house, preset};
use crate::database::{Place, contract};
use crate::support::operator;

const DAY_MS: i64 = 24 * 3_600_000;

contract!(
    signing_in_and_out,
    s24_signing_out_everywhere_and_a_new_password_end_sessions_on_every_node,
    s24_who_is_suspended_demoted_or_deleted_is_so_at_once,
);

async fn signing_in_and_out(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let user = ann(&house);
        let mut browser = Browser::new(house.address);
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
        let seen = house.runtime.block_on(house.store().user(house.main.id, user.id)).unwrap().unwrap();
        assert_eq!(seen.last_login_at, Some(house.now()));
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
            house.actions().into_iter().filter(|action| action.starts_with("auth.")).collect();
        assert_eq!(actions, ["auth.sign_in", "auth.sign_out"], "a failure is no entry");
        let verified = house.runtime.block_on(house.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

async fn s24_signing_out_everywhere_and_a_new_password_end_sessions_on_every_node(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        ann(&house);
        let other = house.second(|_| ());
        let (mut here, mut there) =
            (signed_in(house.address, "ann@example.com"), signed_in(other.address, "ann@example.com"));
        // A session is known on every node.
        assert!(here.at(other.address).is_signed_in() && there.at(house.address).is_signed_in());
        let csrf = here.token("/admin/account");
        let out = here.post("/admin/account/sign-out-everywhere", &[("csrf", &csrf)]);
        assert_eq!((out.status, out.location()), (303, Some("/admin/login?done=everywhere")), "{out:?}");
        assert!(!there.is_signed_in() && !there.at(house.address).is_signed_in());

        let (mut here, mut there) =
            (signed_in(house.address, "ann@example.com"), signed_in(other.address, "ann@example.com"));
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
        let actions = house.actions();
        for action in ["auth.sign_out_everywhere", "user.password"] {
            assert!(actions.iter().any(|known| known == action), "{action}: {actions:?}");
        }
        other.stop();
    })
    .await;
}

async fn s24_who_is_suspended_demoted_or_deleted_is_so_at_once(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        ann(&house);
        let bob = member(&house, &house.main, Role::Admin, "bob@example.com");
        let by = Requester::operator(operator());
        let mut browser = signed_in(house.address, "bob@example.com");
        let users = |browser: &mut Browser| browser.send("GET", "/api/v1/users", None).status;
        assert_eq!(users(&mut browser), 200);
        let patch = MemberPatch { role: Some(Role::Viewer), ..MemberPatch::default() };
        let bob = house.runtime.block_on(house.ops.change_member(&by, &bob, &patch)).unwrap();
        assert_eq!(users(&mut browser), 403, "the role is asked for on every request");
        assert!(browser.is_signed_in());
        let patch = MemberPatch { status: Some(UserStatus::Suspended), ..MemberPatch::default() };
        let bob = house.runtime.block_on(house.ops.change_member(&by, &bob, &patch)).unwrap();
        assert!(!browser.is_signed_in());
        assert_eq!(Browser::new(house.address).sign_in("bob@example.com", PASSWORD).status, 401);
        let patch = MemberPatch { status: Some(UserStatus::Active), ..MemberPatch::default() };
        let bob = house.runtime.block_on(house.ops.change_member(&by, &bob, &patch)).unwrap();
        assert!(!browser.is_signed_in(), "who is let in again signs in again");
        let mut browser = signed_in(house.address, "bob@example.com");
        house.runtime.block_on(house.ops.remove_member(&by, &house.main, &bob)).unwrap();
        assert!(!browser.is_signed_in());
        assert_eq!(browser.sign_in("bob@example.com", PASSWORD).status, 401);
    })
    .await;
}

#[test]
fn s24_a_cookie_that_was_there_before_is_not_adopted() {
    let house = House::new(Preset::Fabric);
    ann(&house);
    let mut browser = Browser::new(house.address);
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

#[test]
fn s24_visitors_who_are_not_signed_in_leave_nothing_behind() {
    let house = House::new(Preset::Fabric);
    ann(&house);
    for _ in 0..50 {
        let mut browser = Browser::new(house.address);
        browser.get("/admin/login");
        browser.get("/admin");
        browser.get("/admin/setup?token=x");
        browser.post("/admin/login", &[("email", "x")]);
    }
    assert_eq!(rows(&house, "select count(*) from sessions"), 0);
    assert_eq!(rows(&house, "select count(*) from attempts"), 0);
}

#[test]
fn a_session_ends_when_nobody_uses_it_and_after_90_days_in_any_case() {
    let house = House::new(Preset::Fabric);
    ann(&house);
    let mut idle = signed_in(house.address, "ann@example.com");
    let mut used = signed_in(house.address, "ann@example.com");
    for _ in 0..13 {
        house.advance_ms(DAY_MS);
        assert!(used.is_signed_in());
    }
    house.advance_ms(DAY_MS + 1);
    assert!(!idle.is_signed_in(), "14 days were enough");
    for _ in 0..76 {
        assert!(used.is_signed_in());
        house.advance_ms(DAY_MS);
    }
    assert!(!used.is_signed_in(), "90 days were enough");
    house.runtime.block_on(house.store().purge_sessions(house.now())).unwrap();
    assert_eq!(rows(&house, "select count(*) from sessions"), 0);
}

#[test]
fn one_member_has_so_many_sessions_and_no_more() {
    let house = House::new(Preset::Fabric);
    let user = ann(&house);
    let mut first = signed_in(house.address, "ann@example.com");
    let new = |number: u32| rlinks_store::NewSession {
        hash: format!("blake2b256:{number}"),
        how: rlinks_store::AuthMethod::Password,
        agent: String::new(),
        network: String::new(),
        expires_at: house.now().plus_ms(DAY_MS),
        replaces: None,
    };
    for number in 0..60 {
        house.advance_ms(1);
        let (new, now) = (new(number), house.now());
        house.runtime.block_on(house.store().start_session(&user, &new, now)).unwrap();
    }
    assert_eq!(rows(&house, "select count(*) from sessions"), 50);
    assert!(!first.is_signed_in(), "the oldest go");
}

#[test]
fn a_deleted_workspace_and_a_policy_without_passwords_sign_people_out() {
    let house = House::new(Preset::Fabric);
    ann(&house);
    let team = house.workspace("team", preset(Preset::Team), &[]);
    member(&house, &team, Role::Admin, "eve@example.com");
    let mut browser = Browser::new(house.address);
    assert_eq!(browser.sign_in_to("team", "eve@example.com", PASSWORD).status, 303);
    assert!(browser.is_signed_in());
    house.workspace("team", preset(Preset::Platform), &[]);
    assert!(!browser.is_signed_in());
    let refused = browser.sign_in_to("team", "eve@example.com", PASSWORD);
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("does not accept passwords"), "{refused:?}");
    house.workspace("team", preset(Preset::Team), &[]);
    let mut browser = Browser::new(house.address);
    assert_eq!(browser.sign_in_to("team", "eve@example.com", PASSWORD).status, 303);
    let seen = house.runtime.block_on(house.ops.workspace(&team.slug)).unwrap();
    let gone = rlinks_core::Workspace { deleted_at: Some(house.now()), ..seen.clone() };
    let by = operator();
    let delete = house.store().update_workspace(&seen, gone, "workspace.delete", &by, house.now());
    house.runtime.block_on(delete).unwrap();
    assert!(!browser.is_signed_in());
    assert_eq!(Browser::new(house.address).sign_in_to("team", "eve@example.com", PASSWORD).status, 401);
}

/// Neither the token, nor its CSRF token, nor a password is in any file.
#[test]
fn no_token_and_no_password_is_in_any_file() {
    let mut house = House::new(Preset::Fabric);
    ann(&house);
    let mut browser = signed_in(house.address, "ann@example.com");
    let (token, csrf) = (browser.session(), browser.token("/admin/account"));
    let typed = "canary-typed-as-address@example.com";
    assert_eq!(Browser::new(house.address).sign_in(typed, "canary-wrong-password").status, 401);
    house.stop();
    house.runtime.block_on(house.store().close());
    for secret in
        [token.as_str(), &csrf, PASSWORD, &form(&[("x", PASSWORD)])[2..], typed, "canary-wrong-password"]
    {
        assert_eq!(crate::api::keys::files_with(house.place.folder(), secret), [""; 0], "{secret}");
    }
}

/// A number asked of a SQLite store past the program.
pub(super) fn rows(house: &House, sql: &'static str) -> i64 {
    let rlinks_store::Location::Sqlite(path) = &house.place.location else { panic!("SQLite only") };
    house.runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).read_only(true);
        let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        let (count,): (i64,) = sqlx::query_as(sql).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        count
    })
}
