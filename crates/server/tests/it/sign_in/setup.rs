//! S31: the first admin, once.

use rlinks_core::{Preset, Role};

use super::browser::{Browser, hidden};
use super::{PASSWORD, ann};
use crate::api::caller::{Reply, at_once};
use crate::api::house::{House, in_house, preset};
use crate::client::Answer;
use crate::database::{Place, contract};

contract!(s31_the_first_admin_is_made_once, s31_of_two_at_once_one_is_the_first_admin);

/// The path of an address.
#[track_caller]
fn path(url: &str) -> String {
    let (_, path) = url.split_once("/admin/setup").unwrap_or_else(|| panic!("{url}"));
    format!("/admin/setup{path}")
}

fn set_up(browser: &mut Browser, page: &Answer, email: &str) -> Answer {
    let (csrf, token) = (hidden(page, "csrf"), hidden(page, "token"));
    let fields = [
        ("csrf", csrf.as_str()),
        ("token", &token),
        ("email", email),
        ("full_name", "First"),
        ("password", PASSWORD),
    ];
    browser.post("/admin/setup", &fields)
}

async fn s31_the_first_admin_is_made_once(place: Place) {
    in_house(place, preset(Preset::Fabric), |mut house| {
        let voided = path(&house.server().create_setup_url().expect("there is no admin"));
        house.restart();
        let url = house.server().create_setup_url().expect("there is no admin");
        assert!(url.starts_with(&format!("http://{}/admin/setup?token=", house.address)), "{url}");
        let path = path(&url);
        let mut browser = Browser::new(house.address);
        for wrong in [voided.as_str(), "/admin/setup", "/admin/setup?token=", "/admin/setup?token=x"] {
            assert_eq!(browser.get(wrong).status, 404, "{wrong}");
        }
        let page = browser.get(&path);
        assert_eq!(page.status, 200, "{page:?}");
        let csrf = hidden(&page, "csrf");
        let short = [
            ("csrf", csrf.as_str()),
            ("token", &hidden(&page, "token")),
            ("email", "a@b.example"),
            ("password", "short"),
        ];
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
        let page = browser.get(&path);
        let done = set_up(&mut browser, &page, "First@Example.com");
        assert_eq!((done.status, done.location()), (303, Some("/admin")), "{done:?}");
        assert!(browser.is_signed_in());
        assert!(browser.get("/admin").body.contains("first@example.com"));
        assert!(!Browser::new(house.address).get("/admin/login").body.contains(nobody));
        assert_eq!(browser.send("GET", "/api/v1/workspace", None).status, 200, "an admin of main");

        let mut late = Browser::new(house.address);
        assert_eq!(late.get(&path).status, 404);
        late.get("/admin/login");
        assert_eq!(set_up(&mut browser.clone(), &page, "second@example.com").status, 404);
        assert_eq!(house.server().create_setup_url(), None, "there is one now");
        house.restart();
        assert_eq!(house.server().create_setup_url(), None);
        let actions: Vec<_> =
            house.actions().into_iter().filter(|action| action.starts_with("auth.")).collect();
        assert_eq!(actions, ["auth.setup", "auth.sign_in"]);
        let verified = house.runtime.block_on(house.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

async fn s31_of_two_at_once_one_is_the_first_admin(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let path = path(&house.server().create_setup_url().unwrap());
        let other = house.second(|_| ());
        let addresses = [house.address, other.address];
        let replies = at_once(6, |number| {
            let mut browser = Browser::new(addresses[number % 2]);
            let page = browser.get(&path);
            // Somebody may be done before others have looked.
            let answer = if page.status == 200 {
                set_up(&mut browser, &page, &format!("first-{number}@example.com"))
            } else {
                page
            };
            Reply { what: format!("set-up {number}"), answer }
        });
        let mut statuses: Vec<_> = replies.iter().map(Reply::status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [303, 404, 404, 404, 404, 404], "{replies:?}");
        let users = house.runtime.block_on(house.store().users(house.main.id, None, 10)).unwrap();
        assert_eq!(users.iter().map(|user| user.role).collect::<Vec<_>>(), [Role::Admin]);
        other.stop();
    })
    .await;
}

#[test]
fn s31_an_admin_however_made_ends_the_set_up() {
    let house = House::new(Preset::Fabric);
    let path = path(&house.server().create_setup_url().unwrap());
    let mut browser = Browser::new(house.address);
    let page = browser.get(&path);
    ann(&house);
    assert_eq!(browser.get(&path).status, 404);
    assert_eq!(set_up(&mut browser, &page, "first@example.com").status, 404);
}

#[test]
fn s31_a_store_that_is_gone_is_not_an_empty_one() {
    let house = House::new(Preset::Fabric);
    let path = path(&house.server().create_setup_url().unwrap());
    let mut browser = Browser::new(house.address);
    let page = browser.get(&path);
    let rlinks_store::Location::Sqlite(database) = &house.place.location else { panic!("SQLite") };
    let aside = database.with_extension("aside");
    std::fs::rename(database, &aside).unwrap();
    assert_eq!(browser.get(&path).status, 503);
    assert_eq!(set_up(&mut browser, &page, "first@example.com").status, 503);
    assert_eq!(Browser::new(house.address).get("/admin/login").status, 200, "the form itself asks nobody");
    std::fs::rename(&aside, database).unwrap();
    assert_eq!(set_up(&mut browser, &page, "first@example.com").status, 303);
}

#[test]
fn where_passwords_are_refused_there_is_no_set_up() {
    let house = House::new(Preset::Platform);
    assert_eq!(house.server().create_setup_url(), None);
    let apart = house.second(|config| config.serve_admin = false);
    assert_eq!(apart.create_setup_url(), None);
}
