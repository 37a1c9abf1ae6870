//! A server on golden data whose clock stands still, and requests to it.

use std::net::SocketAddr;
use std::path::Path;

use rlinks_clicks::journal::SyncPolicy;
use rlinks_core::Timestamp;
use rlinks_ops::OpenedStore;
use rlinks_ops::ShortUrls;
use rlinks_server::{Clock, Config, ConnectionSettings, ReloadableSettings, Server};
use rlinks_store::{Location, MissingStore, StoreOptions};
use serde_json::Value;

use super::{expected, first_difference, settled, store, strings};
use crate::support::raw_client::{Response, send_request, wait_until};

/// Starts a server at the moment the golden data was made.
pub(super) fn serve_at(now: &str, store_url: &str, data: &Path) -> Server {
    let now = Timestamp::parse(now).unwrap();
    let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let naming = ShortUrls {
        domain: None,
        base_domain: None,
        public_scheme: "https".to_owned(),
        public_url: None,
        listen,
        tls: false,
    };
    let config = Config {
        listen,
        control_listen: None,
        serve_admin: true,
        insecure_cookies: false,
        threads: 1,
        cache_bytes: 16 << 20,
        short_urls: naming,
        own_host: None,
        tls: None,
        hsts_seconds: 0,
        data: data.to_owned(),
        journal_bytes: 64 << 20,
        journal_sync: SyncPolicy::EverySecond,
        geoip: None,
        archive: None,
        audit_key: rlinks_store::audit::signing_key::SigningKeySource::DataFolder,
        audit_push: rlinks_server::AuditPushSettings::default(),
        oidc: None,
        safety: rlinks_ops::safety::SafetyConfig::default(),
        domain_checks: rlinks_ops::domain_checks::DomainCheckConfig::default(),
        target_changes_per_minute: 100,
        removals_per_minute: 1000,
        resource_limits: rlinks_ops::ResourceLimits::default(),
        connections: ConnectionSettings::default(),
        reloadable: ReloadableSettings::default(),
    };
    let location = Location::parse(store_url).unwrap();
    let options = StoreOptions {
        location,
        worker: None,
        holder: "golden".to_owned(),
        now,
        if_missing: MissingStore::Refuse,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let opened = runtime.block_on(OpenedStore::open(options)).unwrap();
    let server = Server::start(config, opened, Clock::new(move || now), runtime).unwrap();
    wait_until("the links are there", || {
        send(server.address, "GET", "/ready", "rmax.to", "", "").status == 200
    });
    server
}

fn send(address: SocketAddr, method: &str, path: &str, host: &str, headers: &str, body: &str) -> Response {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}{length}\r\n{body}"
    );
    send_request(address, request.as_bytes())
}

/// Sends every request of one kind and compares status, all headers in their order, and the body.
#[track_caller]
pub(super) fn compare(address: SocketAddr, requests: &Value, kind: &str) {
    let mut different = Vec::new();
    let list = requests[kind].as_array().unwrap();
    assert!(list.len() > 10, "{kind}");
    for row in list {
        let (request, before) = (&row["request"], &row["answer"]);
        let field = |name: &str| request[name].as_str().unwrap_or_default();
        let headers: String = strings(&request["headers"]).iter().flat_map(|line| [line, "\r\n"]).collect();
        let answer = send(address, field("method"), field("path"), field("host"), &headers, field("body"));
        let at = |list: &str, name: &str| {
            requests[list][usize::try_from(before[name].as_u64().unwrap()).unwrap()].as_str().unwrap()
        };
        let was = shown(before["status"].as_u64().unwrap(), at("heads", "head"), at("bodies", "body"), kind);
        let head = without_added_headers(&head(&answer, kind), at("heads", "head"));
        let is = shown(u64::from(answer.status), &head, &body(&answer, kind), kind);
        if was != is {
            let (method, host, path) = (field("method"), field("host"), field("path"));
            different.push(format!("{method} {host}{path}\n{}", first_difference(&was, &is)));
        }
    }
    assert!(different.is_empty(), "{} of {}:\n{}", different.len(), list.len(), different.join("\n\n"));
}

/// Security headers that responses have got since, unless they had them before.
fn without_added_headers(head: &str, before: &str) -> String {
    let added = ["content-security-policy", "permissions-policy", "cross-origin-resource-policy"];
    let is_added = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default();
        added.contains(&name) && !before.lines().any(|line| line.split(':').next() == Some(name))
    };
    head.lines().filter(|line| !is_added(line)).collect::<Vec<_>>().join("\n")
}

/// An answer as text. The messages of the API's errors are prose and may be rewritten; their codes may not.
fn shown(status: u64, head: &str, body: &str, kind: &str) -> String {
    if kind != "api" {
        return format!("{status}\n{head}\n{body}");
    }
    if !body.starts_with("{\"error\":{") {
        return format!("{status}\n{head}\n{}", settled(body));
    }
    let mut whole: Value = serde_json::from_str(body).unwrap();
    let error = whole["error"].as_object_mut().unwrap();
    assert!(error.remove("message").is_some());
    for field in error["details"]["fields"].as_array_mut().into_iter().flatten() {
        assert!(field.as_object_mut().unwrap().remove("message").is_some());
    }
    let head: Vec<&str> = head.lines().filter(|line| !line.starts_with("content-length:")).collect();
    format!("{status}\n{}\n{whole}", head.join("\n"))
}

/// The headers, without what is another for each request or moment.
fn head(answer: &Response, kind: &str) -> String {
    let lines = answer.headers.iter().filter_map(|(name, value)| match name.as_str() {
        "location" | "content-type" if kind == "pages" => Some(format!("{name}: {value}")),
        "set-cookie" if kind == "pages" => Some(format!("{name}: {}", value.split('=').next().unwrap())),
        _ if kind == "pages" => None,
        "date" | "x-request-id" | "x-ratelimit-remaining" | "x-ratelimit-reset" => Some(format!("{name}: ")),
        _ => Some(format!("{name}: {value}")),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The body; the moment in an error is left out, and so is a whole page.
fn body(answer: &Response, kind: &str) -> String {
    if kind == "pages" {
        return String::new();
    }
    let body = &answer.body;
    match body.split_once("\"ts\":\"") {
        Some((before, after)) if body.contains("\"error\":{") => {
            format!("{before}\"ts\":\"{}", &after[after.find('"').unwrap()..])
        }
        _ => body.clone(),
    }
}

fn compare_at_the_moment(kind: &str) {
    let sandbox = store();
    let secrets = expected("secrets.json");
    let url = format!("sqlite:{}", sandbox.database().display());
    let server = serve_at(secrets["now"].as_str().unwrap(), &url, &sandbox.path("rlinks-data"));
    compare(server.address, &expected("requests.json"), kind);
}

#[test]
fn redirects_of_every_preset_are_the_same() {
    compare_at_the_moment("redirects");
}

/// Keys, the session's cookie, statistics, pages of lists by cursor, and replayed first answers.
#[test]
fn answers_of_the_api_are_the_same() {
    compare_at_the_moment("api");
}

#[test]
fn the_golden_session_opens_the_same_pages_and_cookies_have_the_same_names() {
    compare_at_the_moment("pages");
}

#[test]
fn a_golden_form_and_password_sign_in() {
    let sandbox = store();
    let secrets = expected("secrets.json");
    let url = format!("sqlite:{}", sandbox.database().display());
    let server = serve_at(secrets["now"].as_str().unwrap(), &url, &sandbox.path("rlinks-data"));
    let text = |name: &str| secrets[name].as_str().unwrap().to_owned();
    let sign_in = |token: &str, password: &str| {
        let headers =
            format!("Cookie: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n", text("form_cookie"));
        let password = password.replace(' ', "+");
        let body = format!("csrf={token}&workspace=main&email=ann%40example.com&password={password}");
        send(server.address, "POST", "/admin/login", "localhost", &headers, &body)
    };
    let cookies = |answer: &Response| -> Vec<String> {
        let name_and_flags = |cookie: &str| {
            let (name, rest) = cookie.split_once('=').unwrap();
            format!("{name}; {}", rest.split_once("; ").unwrap().1)
        };
        // Browsers have been remembered since.
        let is_known = |cookie: &&str| !cookie.starts_with("rlinks-known=");
        answer.header("set-cookie").into_iter().filter(is_known).map(name_and_flags).collect()
    };
    let signed = sign_in(&text("form_token"), &text("password"));
    assert_eq!((signed.status, signed.location()), (303, Some("/admin")), "{signed:?}");
    let first = Response {
        headers: strings(&secrets["session_cookies"])
            .into_iter()
            .map(|cookie| ("set-cookie".to_owned(), cookie.to_owned()))
            .collect(),
        ..signed.clone()
    };
    assert_eq!(cookies(&signed), cookies(&first));
    assert_ne!(sign_in("wrong", &text("password")).status, 303, "a form that is not ours");
    assert_ne!(sign_in(&text("form_token"), "wrong horse battery staple").status, 303, "another password");
}
