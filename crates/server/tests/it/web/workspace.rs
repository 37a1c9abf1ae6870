//! The workspace's pages, as people use them: through forms, without JavaScript. Each file is a page; `roles` and `hostile` are about all.

mod account;
mod audit;
mod domains;
mod hostile;
mod import;
mod keys;
mod limit_notices;
mod members;
mod policy;
mod roles;
mod stats;

use rlinks_core::{Preset, Role};

use crate::support::browser::{Browser, signed_in};
use crate::support::members::{TestServer, ann, member};
use crate::support::raw_client::Response;

/// A server with an admin who is signed in.
fn server_with_admin(preset: Preset) -> (TestServer, Browser) {
    let server = TestServer::new(preset);
    ann(&server);
    let browser = signed_in(server.address, "ann@example.com");
    (server, browser)
}

/// Somebody of `main` who is signed in.
fn person(server: &TestServer, role: Role, email: &str) -> Browser {
    member(server, &server.main, role, email);
    signed_in(server.address, email)
}

/// Sends a form of a page as its reader would.
#[track_caller]
fn send(browser: &mut Browser, from: &str, path: &str, fields: &[(&str, &str)]) -> Response {
    let csrf = browser.token(from);
    let mut all = vec![("csrf", csrf.as_str())];
    all.extend_from_slice(fields);
    browser.post(path, &all)
}

/// Sends a form that asks once, sees that it does, and confirms.
#[track_caller]
fn send_twice(browser: &mut Browser, from: &str, path: &str, fields: &[(&str, &str)]) -> Response {
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
