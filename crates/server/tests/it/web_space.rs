//! The workspace's pages, as people use them: through forms, without JavaScript. Each file is a page; `roles` and `hostile` are about all.

mod account;
mod audit;
mod domains;
mod hostile;
mod import;
mod keys;
mod members;
mod policy;
mod roles;
mod stats;

use rlinks_core::{Preset, Role};

use crate::api::house::House;
use crate::client::Answer;
use crate::sign_in::browser::{Browser, signed_in};
use crate::sign_in::{ann, member};

/// A house with an admin who is signed in.
fn house(preset: Preset) -> (House, Browser) {
    let house = House::new(preset);
    ann(&house);
    let browser = signed_in(house.address, "ann@example.com");
    (house, browser)
}

/// Somebody of `main` who is signed in.
fn person(house: &House, role: Role, email: &str) -> Browser {
    member(house, &house.main, role, email);
    signed_in(house.address, email)
}

/// Sends a form of a page as its reader would.
#[track_caller]
fn send(browser: &mut Browser, from: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    let csrf = browser.token(from);
    let mut all = vec![("csrf", csrf.as_str())];
    all.extend_from_slice(fields);
    browser.post(path, &all)
}

/// Sends a form that asks once, sees that it does, and confirms.
#[track_caller]
fn send_twice(browser: &mut Browser, from: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    let asked = send(browser, from, path, fields);
    assert_eq!(asked.status, 200, "{asked:?}");
    assert!(asked.body.contains("name=\"confirmed\" value=\"yes\""), "{asked:?}");
    let mut all = fields.to_vec();
    all.push(("confirmed", "yes"));
    send(browser, from, path, &all)
}

/// A page that is there.
#[track_caller]
fn open(browser: &mut Browser, path: &str) -> String {
    let page = browser.get(path);
    assert_eq!(page.status, 200, "{path}: {page:?}");
    page.body
}

/// The value of the input with this id.
#[track_caller]
fn value(page: &str, id: &str) -> String {
    let (_, after) = page.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {page}"));
    let (_, after) = after.split_once("value=\"").unwrap();
    after.split('"').next().unwrap().to_owned()
}
