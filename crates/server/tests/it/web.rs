//! The dashboard as somebody with a browser and no script sees it: forms and pages over real HTTP. [`Browser`] looks at what every
//! page owes.

mod escaping;
mod link;
mod links;
mod statistics;
mod usability;
mod workspace;

use rlinks_core::{Preset, Role, Workspace};

use crate::support::browser::{Browser, signed_in};
use crate::support::members::{PASSWORD, TestServer, member};
use crate::support::raw_client::Response;

/// A server with an admin in it, and their browser.
fn server_with_admin(preset: Preset) -> (TestServer, Browser) {
    let server = TestServer::new(preset);
    member(&server, &server.main, Role::Admin, "ann@example.com");
    let browser = signed_in(server.address, "ann@example.com");
    (server, browser)
}

/// The browser of another member.
fn browser_of(server: &TestServer, workspace: &Workspace, role: Role, email: &str) -> Browser {
    member(server, workspace, role, email);
    let mut browser = Browser::new(server.address);
    let answer = browser.sign_in_to(workspace.slug.as_str(), email, PASSWORD);
    assert_eq!(answer.status, 303, "{answer:?}");
    browser
}

/// Sends a form with the session's token.
#[track_caller]
fn send(browser: &mut Browser, path: &str, fields: &[(&str, &str)]) -> Response {
    let csrf = browser.token("/admin");
    let mut all = vec![("csrf", csrf.as_str())];
    all.extend_from_slice(fields);
    browser.post(path, &all)
}

/// Makes a link by the form, and follows where it leads.
#[track_caller]
fn make(browser: &mut Browser, fields: &[(&str, &str)]) -> Response {
    let answer = send(browser, "/admin/links", fields);
    assert_eq!(answer.status, 303, "{answer:?}");
    let page = browser.get(answer.location().unwrap());
    assert_eq!(page.status, 200, "{page:?}");
    page
}

/// The codes of a list, in their order.
fn codes(page: &Response) -> Vec<&str> {
    let rows = page.body.split("<tr data-row>").skip(1);
    rows.map(|row| row.split_once("href=\"/admin/links/").unwrap().1.split('"').next().unwrap()).collect()
}

#[track_caller]
fn listed(browser: &mut Browser, query: &str, expected: &[&str]) {
    let page = browser.get(&format!("/admin{query}"));
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(codes(&page), expected, "{query}");
}
