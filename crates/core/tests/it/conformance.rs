//! The conformance table through the core alone: the walk every server makes, without a server.

use std::collections::HashMap;
use std::fmt::Write as _;

use rlinks_core::error_code::ErrorCode;
use rlinks_core::host;
use rlinks_core::link::target::{self, Target};
use rlinks_core::link::{LinkState, RedirectStatus};
use rlinks_core::redirect::negotiate::wants_json;
use rlinks_core::redirect::response::HttpResponse;
use rlinks_core::redirect::{RequestHead, RequestMethod, Resolution, public_pages, resolve};
use rlinks_core::{Decision, Host, Policy, Route, ServedHosts, Timestamp, Visitor, decide};
use serde_json::Value;

use crate::table::{self, Form, Given, On, Row, State, When};

const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_123);

#[test]
fn every_conformance_row_holds() {
    let mut faults = String::new();
    let mut run = 0;
    // What 404 answers say, by their content type: the first one, and the row it came from.
    let mut absences = HashMap::<String, (String, String)>::new();
    for row in table::rows().iter().filter(|row| matches!(row.on, On::Everywhere | On::Native)) {
        run += 1;
        let answer = walk(&row.given, &row.when);
        let mut wrong = differences(row, &answer);
        if row.when.method == "GET" {
            let head = walk(&row.given, &When { method: "HEAD".to_owned(), ..row.when.clone() });
            if head != (HttpResponse { body: String::new(), ..answer.clone() }) {
                wrong.push(format!("HEAD gets something else: {} {:?}", head.status, head.headers));
            }
        }
        if answer.status == 404 && row.when.method == "GET" {
            let kind = header(&answer, "content-type").join(", ");
            let (first, body) = absences.entry(kind).or_insert_with(|| (row.id.clone(), answer.body.clone()));
            if *body != answer.body {
                wrong.push(format!("this 404 can be told from the one of {first}"));
            }
        }
        report(&mut faults, row, &wrong);
    }
    assert!(faults.is_empty(), "of {run} rows these do not hold:\n{faults}");
}

#[test]
fn malformed_conformance_row_is_an_error() {
    #[track_caller]
    fn refused(row: &str, reason: &str) {
        let error = table::parse(&format!("## a: b\n{row}")).expect_err(row);
        assert!(error.contains(reason), "{error}");
    }
    let fine = "| a-01 | `fabric · /ok -> https://a.example/ expires=+5s` | `GET /ok` | `404 page` | |";
    assert_eq!(table::parse(&format!("## a: b\n{fine}")).map(|rows| rows.len()), Ok(1));
    refused(&format!("{fine}\n{fine}"), "3: the id a-01 is taken");
    refused("| a-01 | `fabric` | `GET /ok` | `404 page` |", "4 cells");
    refused("| a-01 | `fabric` | `GET /ok` | `404 page` | | ", "no | at the end");
    refused("| a | `fabric` | `GET /ok` | `404 page` | |", "no id");
    refused("| a-01 | | `GET /ok` | `404 page` | |", "given");
    refused("| a-01 | fabric | `GET /ok` | `404 page` | |", "backticks");
    refused("| a-01 | `fabric · fabric` | `GET /ok` | `404 page` | |", "a preset comes first");
    refused("| a-01 | `/ok -> https://a.example/` | `GET /ok` | `404 page` | |", "a preset comes first");
    refused("| a-01 | `fabric · enabled` | `GET /ok` | `404 page` | |", "no preset, policy field");
    refused("| a-01 | `fabric · /ok => https://a.example/` | `GET /ok` | `404 page` | |", "no ->");
    refused("| a-01 | `fabric · /ok -> https://a.example/ gone` | `GET /ok` | `404 page` | |", "no field");
    refused(
        "| a-01 | `fabric · /ok -> https://a.example/ expires=5s` | `GET /ok` | `404 page` | |",
        "no field",
    );
    refused("| a-01 | `fabric · /ok -> https://{a*x}/` | `GET /ok` | `404 page` | |", "text*count");
    refused("| a-01 | `fabric · no domain` | `GET /ok` | `404 page` | |", "only a native row");
    refused("| a-01 | `fabric` | `GET` | `404 page` | |", "no method");
    refused("| a-01 | `fabric` | `GET /ok · Accept` | `404 page` | |", "no header");
    refused("| a-01 | `fabric` | `GET /ok` | `404` | |", "no status and form");
    refused("| a-01 | `fabric` | `GET /ok` | `404 pages` | |", "no form");
    refused("| a-01 | `fabric` | `GET /ok` | `200 -> https://a.example/ · no-store` | |", "does not go");
    refused("| a-01 | `fabric` | `GET /ok` | `302 -> https://a.example/` | |", "Cache-Control");
    refused("| a-01 | `fabric` | `HEAD /ok` | `404 NOT_FOUND` | |", "no body");
    refused("| a-01 | `fabric` | `GET /ok` | `404 page` | edge |", "neither empty");
}

/// Look up, decide, respond.
fn walk(given: &Given, when: &When) -> HttpResponse {
    let path = when.target.split(['?', '#']).next().unwrap_or_default();
    // Several lines of one header are one list.
    let accept: Vec<&str> = when
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("accept"))
        .map(|(_, value)| value.as_str())
        .collect();
    let as_json = wants_json(path, (!accept.is_empty()).then(|| accept.join(", ")).as_deref());
    let error = |code: ErrorCode| HttpResponse::error(code, code.message(), &Value::Null, as_json, NOW);
    let mut answer = find(given, when, path).unwrap_or_else(error);
    if when.method == "HEAD" {
        answer.body.clear();
    }
    answer
}

fn find(given: &Given, when: &When, path: &str) -> Result<HttpResponse, ErrorCode> {
    let host = match when.hosts.as_slice() {
        [host] => Some(host.as_bytes()),
        _ => None,
    };
    let mut buffer = [0; host::MAX_HOST_BYTES];
    let workspace_of = |host: &str| serving(given, host).ok_or(ErrorCode::NotFound);
    let head = RequestHead { method: RequestMethod::parse(&when.method), host, path };
    let asked = match resolve(&head, &mut buffer, workspace_of) {
        Resolution::Refused(code) => return Err(code),
        // What is there is the server's to say: only paths where nothing is are in rows that run here.
        Resolution::ServerPath | Resolution::NotALink => return Err(ErrorCode::NotFound),
        Resolution::Landing => return Ok(HttpResponse::page(public_pages::landing())),
        Resolution::Link(asked) => asked,
    };
    let policy = policy(asked.workspace);
    let link = asked.find(&policy.code, |code| asked.workspace.links.iter().find(|link| link.code == code));
    let target = link.map(|link| {
        Target::parse(&link.target, target::MAX_TARGET_BYTES)
            .unwrap_or_else(|error| panic!("{}: {error}", link.target))
    });
    let route = link.zip(target.as_ref()).map(|(link, target)| route(link, target, &policy));
    let domains = ServedHosts::new(all_domains(given), None);
    match decide(route, &policy, &Visitor { host: asked.host, served_hosts: &domains }, NOW) {
        Decision::Redirect { target, .. } if asked.preview => {
            let host = route.expect("it redirects").target_host;
            Ok(HttpResponse::page(public_pages::preview(&asked.code, target, host)))
        }
        Decision::Redirect { status, target, cache } => Ok(HttpResponse::redirect(status, target, cache)),
        other => Err(other.error_code().expect("no redirect is an error")),
    }
}

/// The workspace a host belongs to; while no domain is configured anywhere, `main`.
fn serving<'a>(given: &'a Given, host: &str) -> Option<&'a table::Workspace> {
    if all_domains(given).is_empty() {
        return Some(&given.main);
    }
    [Some(&given.main), given.other.as_ref()]
        .into_iter()
        .flatten()
        .find(|workspace| workspace.domains.iter().any(|domain| parse_host(domain).as_str() == host))
}

fn all_domains(given: &Given) -> Vec<Host> {
    let others = given.other.iter().flat_map(|other| &other.domains);
    given.main.domains.iter().chain(others).map(|domain| parse_host(domain)).collect()
}

fn parse_host(domain: &str) -> Host {
    Host::parse(domain).unwrap_or_else(|error| panic!("{domain}: {error}"))
}

fn policy(workspace: &table::Workspace) -> Policy {
    let preset = workspace.preset.parse().unwrap_or_else(|error| panic!("{error}"));
    workspace.overrides.iter().fold(Policy::preset(preset), |policy, (key, value)| {
        policy.set_field(key, value).unwrap_or_else(|error| panic!("{error}"))
    })
}

fn route<'a>(link: &table::Link, target: &'a Target, policy: &Policy) -> Route<'a> {
    Route {
        state: match link.state {
            State::Active => LinkState::Active,
            State::Disabled => LinkState::Disabled,
            State::Deleted => LinkState::Deleted,
        },
        redirect_status: link.status.map_or(policy.redirect_status, |code| {
            RedirectStatus::from_code(code.into()).unwrap_or_else(|| panic!("{code} is no redirect status"))
        }),
        https_only: link.https_only.unwrap_or(policy.https_only),
        no_loop: link.no_loop,
        expires_at: link.expires_ms.map(|ms| NOW.plus_ms(ms)),
        target: target.as_str(),
        target_host: target.host(),
    }
}

/// Everything in which an answer is not what the row says.
fn differences(row: &Row, answer: &HttpResponse) -> Vec<String> {
    let (then, mut wrong) = (&row.then, Vec::new());
    if answer.status != then.status {
        wrong.push(format!("status: want {}, got {}", then.status, answer.status));
    }
    for (name, want) in &then.headers {
        let got = header(answer, name);
        if got != want.as_deref().into_iter().collect::<Vec<_>>() {
            let want = want.as_deref().map_or("none".to_owned(), |value| format!("{value:?}"));
            wrong.push(format!("{name}: want {want}, got {got:?}"));
        }
    }
    if let Form::Error(code) = &then.form {
        let error = serde_json::from_str::<Value>(&answer.body).unwrap_or_default()["error"].take();
        let sound = error["code"] == **code
            && error["status"] == then.status
            && error["message"].as_str().is_some_and(|message| !message.is_empty())
            && error["details"].is_null()
            && error["ts"] == NOW.whole_seconds().to_string();
        if !sound {
            wrong.push(format!("envelope: want {code}, got {}", answer.body));
        }
    }
    if then.form == Form::Redirect && answer.body.trim_end().contains('\n') {
        wrong.push(format!("a redirect's body has several lines: {:?}", answer.body));
    }
    if row.when.method == "HEAD" && !answer.body.is_empty() {
        wrong.push("HEAD has a body".to_owned());
    }
    for text in then.shows.iter().filter(|text| !answer.body.contains(*text)) {
        wrong.push(format!("the body does not show {text}"));
    }
    wrong
}

fn header<'a>(answer: &'a HttpResponse, name: &str) -> Vec<&'a str> {
    answer.headers.iter().filter(|(key, _)| *key == name).map(|(_, value)| value.as_str()).collect()
}

fn report(faults: &mut String, row: &Row, wrong: &[String]) {
    if wrong.is_empty() {
        return;
    }
    let [given, when, then] = &row.text;
    let _ = writeln!(faults, "\n{} (conformance/redirects.md:{})", row.id, row.line);
    let _ = writeln!(faults, "  given {given}\n  when  {when}\n  then  {then}");
    for line in wrong {
        let _ = writeln!(faults, "  ->    {line}");
    }
}
