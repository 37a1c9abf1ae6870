//! The dashboard as somebody with a browser and no script sees it: forms and pages over real HTTP. [`Browser`] looks at what every
//! page owes.

mod link;
mod links;
mod manners;
mod numbers;
mod text;

use rlinks_core::{Preset, Role, Workspace};

use crate::api::house::House;
use crate::client::Answer;
use crate::sign_in::browser::{Browser, signed_in};
use crate::sign_in::{PASSWORD, member};

/// A house with an admin in it, and their browser.
fn home(preset: Preset) -> (House, Browser) {
    let house = House::new(preset);
    member(&house, &house.main, Role::Admin, "ann@example.com");
    let browser = signed_in(house.address, "ann@example.com");
    (house, browser)
}

/// The browser of another member.
fn browser_of(house: &House, workspace: &Workspace, role: Role, email: &str) -> Browser {
    member(house, workspace, role, email);
    let mut browser = Browser::new(house.address);
    let answer = browser.sign_in_to(workspace.slug.as_str(), email, PASSWORD);
    assert_eq!(answer.status, 303, "{answer:?}");
    browser
}

/// Sends a form with the session's token.
#[track_caller]
fn send(browser: &mut Browser, path: &str, fields: &[(&str, &str)]) -> Answer {
    let csrf = browser.token("/admin");
    let mut all = vec![("csrf", csrf.as_str())];
    all.extend_from_slice(fields);
    browser.post(path, &all)
}

/// Makes a link by the form, and follows where it leads.
#[track_caller]
fn make(browser: &mut Browser, fields: &[(&str, &str)]) -> Answer {
    let answer = send(browser, "/admin/links", fields);
    assert_eq!(answer.status, 303, "{answer:?}");
    let page = browser.get(answer.location().unwrap());
    assert_eq!(page.status, 200, "{page:?}");
    page
}

/// The codes of a list, in their order.
fn codes(page: &Answer) -> Vec<&str> {
    let rows = page.body.split("<tr data-row>").skip(1);
    rows.map(|row| row.split_once("href=\"/admin/links/").unwrap().1.split('"').next().unwrap()).collect()
}

#[track_caller]
fn listed(browser: &mut Browser, query: &str, expected: &[&str]) {
    let page = browser.get(&format!("/admin{query}"));
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(codes(&page), expected, "{query}");
}
