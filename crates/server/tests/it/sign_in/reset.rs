//! The reset of a sign-in: what a member signs in with ends at once, the log names the admin, and the member is told.

use rlinks_core::{Actor, Email, Preset, Role, Scopes, User};
use rlinks_store::{NewUser, OidcIdentity};

use super::invitations::accept;
use crate::support::browser::{Browser, signed_in};
use crate::support::database::{TestStore, contract};
use crate::support::members::{PASSWORD, TestServer, ann, member, preset, with_server};
use crate::support::raw_client::Response;

contract!(
    reset_ends_sessions_password_and_keys_at_once_and_is_shown_to_the_member,
    keys_are_kept_by_a_reset_where_asked,
    reset_unlinks_the_account_at_the_identity_provider,
);

/// What an admin does on the members page.
fn reset(admin: &mut Browser, user: &User, fields: &[(&str, &str)]) -> Response {
    let csrf = admin.token("/admin/members");
    let mut all = vec![("csrf", csrf.as_str())];
    all.extend_from_slice(fields);
    admin.post(&format!("/admin/members/{}/invite", user.id), &all)
}

fn invitation(page: &Response) -> String {
    let (_, after) = page.body.split_once("id=\"invitation\"").unwrap_or_else(|| panic!("{page:?}"));
    let url = after.split_once("value=\"").unwrap().1.split('"').next().unwrap();
    url[url.find("/admin/invite/").unwrap()..].to_owned()
}

fn last_entry(server: &TestServer, action: &str) -> rlinks_core::audit::AuditEntry {
    let entries =
        server.runtime.block_on(server.store().audit_before(server.main.id, i64::MAX, 100)).unwrap();
    entries.into_iter().find(|entry| entry.action == action).unwrap()
}

/// Hostile inputs, S24.
async fn reset_ends_sessions_password_and_keys_at_once_and_is_shown_to_the_member(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let admin = ann(&server);
        let bob = member(&server, &server.main, Role::Member, "bob@example.com");
        let mut ann = signed_in(server.address, "ann@example.com");
        let mut old = signed_in(server.address, "bob@example.com");
        let key = server.key(&server.main, Some(&bob), Scopes::DEFAULT);
        let made = key.post("/keys", &serde_json::json!({"name": "made with it"})).expect(201).json();
        let bob = server.runtime.block_on(server.ops.member(&server.main, "bob@example.com")).unwrap();

        let asked = reset(&mut ann, &bob, &[]);
        assert!(asked.body.contains("Reset the sign-in of") && asked.body.contains("“a key”"), "{asked:?}");
        assert!(
            asked.body.contains("made with it") && asked.body.contains("name=\"keep_keys\""),
            "{asked:?}"
        );
        assert!(old.is_signed_in(), "nothing is done before it is confirmed");

        let done = reset(&mut ann, &bob, &[("confirmed", "yes")]);
        assert_eq!(done.status, 200, "{done:?}");
        assert!(!old.is_signed_in());
        assert_eq!(Browser::new(server.address).sign_in("bob@example.com", PASSWORD).status, 401);
        key.get("/me").refused(401, "UNAUTHENTICATED");
        let made = crate::support::api_client::ApiClient {
            address: server.address,
            key: Some(made["key"].as_str().unwrap().to_owned()),
        };
        made.get("/me").refused(401, "UNAUTHENTICATED");
        let entry = last_entry(&server, "user.reset_sign_in");
        assert_eq!(entry.actor.as_str(), format!("user:{}", admin.id));
        assert_eq!(entry.subject, format!("user:{}", bob.id));
        let ended = &serde_json::to_value(&entry).unwrap()["after"]["ended"];
        let expected =
            serde_json::json!({"sessions": 1, "password": true, "oidc": false, "keys": 2, "invitations": 0});
        assert_eq!(*ended, expected);
        assert_eq!(server.actions().iter().filter(|action| *action == "key.revoke").count(), 2);

        // At the next sign-in they are told, on every page, until they say that they have read it.
        let mut new = Browser::new(server.address);
        let path = invitation(&done);
        let page = new.open(&path);
        assert_eq!(accept(&mut new, &page, "another password, longer").status, 303);
        let mut elsewhere = Browser::new(server.address);
        assert_eq!(elsewhere.sign_in("bob@example.com", "another password, longer").status, 303);
        for path in ["/admin", "/admin/account"] {
            let page = elsewhere.get(path);
            assert!(page.body.contains("Your sign-in was reset"), "{page:?}");
            assert!(page.body.contains("by ann@example.com"), "{page:?}");
            assert!(page.body.contains(&server.now().to_string()), "{page:?}");
        }
        assert!(!ann.get("/admin").body.contains("sign-in was reset"));
        let csrf = elsewhere.token("/admin/account");
        let seen = elsewhere.post("/admin/account/sign-in-reset-seen", &[("csrf", &csrf)]);
        assert_eq!(seen.location(), Some("/admin/account"), "{seen:?}");
        assert!(!elsewhere.get("/admin").body.contains("sign-in was reset"));
        assert!(!new.get("/admin").body.contains("sign-in was reset"));
        let verified = server.runtime.block_on(server.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

async fn keys_are_kept_by_a_reset_where_asked(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        ann(&server);
        let bob = member(&server, &server.main, Role::Member, "bob@example.com");
        let mut ann = signed_in(server.address, "ann@example.com");
        let mut old = signed_in(server.address, "bob@example.com");
        let key = server.key(&server.main, Some(&bob), Scopes::DEFAULT);
        let done = reset(&mut ann, &bob, &[("confirmed", "yes"), ("keep_keys", "yes")]);
        assert_eq!(done.status, 200, "{done:?}");
        assert!(!old.is_signed_in());
        key.get("/me").expect(200);

        // Who has never signed in has nothing to reset: they are invited once more.
        let carol = server.user_with_email(&server.main, Role::Member, "carol@example.com");
        let key = server.key(&server.main, Some(&carol), Scopes::DEFAULT);
        let invited = reset(&mut ann, &carol, &[("confirmed", "yes")]);
        assert!(invited.body.contains("carol@example.com is invited"), "{invited:?}");
        key.get("/me").expect(200);
        assert_eq!(server.actions().last().unwrap(), "user.invite");
    })
    .await;
}

async fn reset_unlinks_the_account_at_the_identity_provider(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        ann(&server);
        let mut ann = signed_in(server.address, "ann@example.com");
        let identity =
            OidcIdentity { issuer: "https://id.example.com".to_owned(), subject: "bob".to_owned() };
        let new = NewUser {
            workspace: server.main.id,
            email: Email::parse("bob@example.com").unwrap(),
            full_name: String::new(),
            role: Role::Member,
        };
        let system = Actor::system();
        let create = server.store().create_oidc_user(new, &identity, &system, server.now());
        let bob = server.runtime.block_on(create).unwrap();
        assert_eq!(reset(&mut ann, &bob, &[("confirmed", "yes")]).status, 200);
        let accounts = server.runtime.block_on(server.store().accounts_of(&identity)).unwrap();
        assert!(accounts.is_empty(), "{accounts:?}");
    })
    .await;
}
