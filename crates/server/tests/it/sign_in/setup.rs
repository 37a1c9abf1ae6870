//! Hostile inputs, S31: the first admin, once.

use rlinks_core::{Preset, Role};

use crate::support::api_client::{ApiResponse, at_once};
use crate::support::browser::{Browser, hidden};
use crate::support::database::{TestStore, contract};
use crate::support::members::{PASSWORD, TestServer, ann, preset, with_server};
use crate::support::raw_client::Response;

contract!(first_admin_is_created_once, concurrent_setups_create_one_admin);

/// The path of an address.
#[track_caller]
fn path(url: &str) -> String {
    let (_, path) = url.split_once("/admin/setup").unwrap_or_else(|| panic!("{url}"));
    format!("/admin/setup{path}")
}

fn set_up(browser: &mut Browser, page: &Response, email: &str) -> Response {
    let csrf = hidden(page, "csrf");
    let fields = [("csrf", csrf.as_str()), ("email", email), ("full_name", "First"), ("password", PASSWORD)];
    browser.post("/admin/setup", &fields)
}

/// Hostile inputs, S31.
async fn first_admin_is_created_once(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |mut server| {
        let voided = path(&server.running().create_setup_url().expect("there is no admin"));
        server.restart();
        let url = server.running().create_setup_url().expect("there is no admin");
        assert!(url.starts_with(&format!("http://{}/admin/setup?token=", server.address)), "{url}");
        let path = path(&url);
        let mut browser = Browser::new(server.address);
        for wrong in [voided.as_str(), "/admin/setup", "/admin/setup?token=", "/admin/setup?token=x"] {
            assert_eq!(browser.get(wrong).status, 404, "{wrong}");
        }
        let page = browser.open(&path);
        assert_eq!(page.status, 200, "{page:?}");
        let csrf = hidden(&page, "csrf");
        let short = [("csrf", csrf.as_str()), ("email", "a@b.example"), ("password", "short")];
        let refused = browser.post("/admin/setup", &short);
        assert_eq!(refused.status, 400);
        assert!(refused.body.contains("12 characters"), "{refused:?}");
        // Beside its field, where the cursor is.
        let field = refused.body.split_once("id=\"password\"").unwrap().1.split_once("</p>").unwrap().0;
        assert!(
            field.contains("autofocus>\n<p class=\"wrong\" role=\"alert\" id=\"problem\">"),
            "{refused:?}"
        );
        assert_eq!(refused.body.matches("autofocus").count(), 1, "{refused:?}");
        let nobody = "Nobody can sign in yet.";
        assert!(browser.get("/admin/login").body.contains(nobody));
        let page = browser.open(&path);
        let done = set_up(&mut browser, &page, "First@Example.com");
        assert_eq!((done.status, done.location()), (303, Some("/admin")), "{done:?}");
        assert!(browser.is_signed_in());
        assert!(browser.get("/admin").body.contains("first@example.com"));
        assert!(!Browser::new(server.address).get("/admin/login").body.contains(nobody));
        assert_eq!(browser.send("GET", "/api/v1/workspace", None).status, 200, "an admin of main");

        let mut late = Browser::new(server.address);
        assert_eq!(late.get(&path).status, 404);
        late.get("/admin/login");
        assert_eq!(set_up(&mut browser.clone(), &page, "second@example.com").status, 404);
        assert_eq!(server.running().create_setup_url(), None, "there is one now");
        server.restart();
        assert_eq!(server.running().create_setup_url(), None);
        let actions: Vec<_> =
            server.actions().into_iter().filter(|action| action.starts_with("auth.")).collect();
        assert_eq!(actions, ["auth.setup", "auth.sign_in"]);
        let verified = server.runtime.block_on(server.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

/// Hostile inputs, S31.
async fn concurrent_setups_create_one_admin(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let path = path(&server.running().create_setup_url().unwrap());
        let other = server.second(|_| ());
        let addresses = [server.address, other.address];
        let replies = at_once(6, |number| {
            let mut browser = Browser::new(addresses[number % 2]);
            let page = browser.open(&path);
            // Somebody may be done before others have looked.
            let answer = if page.status == 200 {
                set_up(&mut browser, &page, &format!("first-{number}@example.com"))
            } else {
                page
            };
            ApiResponse { what: format!("set-up {number}"), answer }
        });
        let mut statuses: Vec<_> = replies.iter().map(ApiResponse::status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [303, 404, 404, 404, 404, 404], "{replies:?}");
        let users = server.runtime.block_on(server.store().users(server.main.id, None, 10)).unwrap();
        assert_eq!(users.iter().map(|user| user.role).collect::<Vec<_>>(), [Role::Admin]);
        other.stop();
    })
    .await;
}

/// Hostile inputs, S31.
#[test]
fn any_new_admin_ends_the_setup() {
    let server = TestServer::new(Preset::Fabric);
    let path = path(&server.running().create_setup_url().unwrap());
    let mut browser = Browser::new(server.address);
    let page = browser.open(&path);
    ann(&server);
    assert_eq!(browser.open(&path).status, 404);
    assert_eq!(set_up(&mut browser, &page, "first@example.com").status, 404);
}

/// Hostile inputs, S31.
#[test]
fn missing_store_is_not_taken_for_an_empty_one() {
    let server = TestServer::new(Preset::Fabric);
    let path = path(&server.running().create_setup_url().unwrap());
    let mut browser = Browser::new(server.address);
    let page = browser.open(&path);
    let rlinks_store::Location::Sqlite(database) = &server.test_store.location else { panic!("SQLite") };
    let aside = database.with_extension("aside");
    std::fs::rename(database, &aside).unwrap();
    assert_eq!(browser.open(&path).status, 503);
    assert_eq!(set_up(&mut browser, &page, "first@example.com").status, 503);
    assert_eq!(Browser::new(server.address).get("/admin/login").status, 200, "the form itself asks nobody");
    std::fs::rename(&aside, database).unwrap();
    assert_eq!(set_up(&mut browser, &page, "first@example.com").status, 303);
}

#[test]
fn setup_is_not_offered_where_passwords_are_refused() {
    let server = TestServer::new(Preset::Platform);
    assert_eq!(server.running().create_setup_url(), None);
    let apart = server.second(|config| config.serve_admin = false);
    assert_eq!(apart.create_setup_url(), None);
}

/// Hostile inputs, S31.
#[test]
fn setup_address_becomes_a_cookie_and_looking_uses_nothing_up() {
    let server = TestServer::new(Preset::Fabric);
    let path = path(&server.running().create_setup_url().unwrap());
    let (_, token) = path.split_once('=').unwrap();
    let mut browser = Browser::new(server.address);
    for (method, from) in [("HEAD", "none"), ("GET", "cross-site"), ("GET", "none")] {
        // What looks at links, and a browser that comes from a mail.
        let opened = browser.clone().with("Sec-Fetch-Site", from).send(method, &path, None);
        assert_eq!((opened.status, opened.location()), (303, Some("/admin/setup")), "{opened:?}");
        let cookie = format!("rlinks-setup={token}; Path=/; Max-Age=900; HttpOnly; SameSite=Lax");
        assert_eq!(opened.header("set-cookie"), [cookie]);
        assert_eq!(opened.header("cache-control"), ["no-store"]);
        assert_eq!(opened.header("referrer-policy"), ["no-referrer"]);
    }
    let page = browser.open(&path);
    assert!(page.status == 200 && !page.body.contains(token), "{page:?}");
    assert_eq!(Browser::new(server.address).get("/admin/setup").status, 404, "only where it was opened");
    let mut other = Browser::new(server.address);
    let page = other.open(&path);
    assert_eq!(set_up(&mut other, &page, "first@example.com").status, 303);
    assert_eq!(other.cookie("rlinks-setup"), None);
    assert_eq!(browser.get("/admin/setup").status, 404);
}

#[test]
fn setup_cookie_over_https_is_bound_to_the_host() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| {
        config.reloadable.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let path = path(&server.running().create_setup_url().unwrap());
    let mut browser = Browser::new(server.address).with("X-Forwarded-Proto", "https");
    let opened = browser.get(&path);
    let cookie = opened.header("set-cookie")[0];
    assert!(cookie.starts_with("__Host-rlinks-setup=") && cookie.ends_with("; Secure"), "{opened:?}");
    assert_eq!(browser.get("/admin/setup").status, 200);
}
