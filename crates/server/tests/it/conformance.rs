//! The conformance table over real connections: what core decides is what a visitor gets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use rlinks_clicks::ClickStore;
use rlinks_core::link::target;
use rlinks_core::{
    Code, Id, Link, LinkDraft, LinkSource, LinkState, Policy, Preset, RedirectStatus, Slug, Target,
};
use rlinks_ops::Ops;
use rlinks_store::StoreWriter;
use rlinks_store::clock::Clock;
use rlinks_store::write::{Action, CodeChoice, LinkOp, LinkWrite, OnConflict};

use crate::support::database::TestStore;
use crate::support::members::{TestServer, settings};
use crate::support::raw_client::Response;
use crate::support::server::{
    NOW, RunningServer, UnstartedServer, create, operator, operator_in, set_up_workspace,
};
use crate::table::{self, Form, On, Row, State, When};

#[test]
fn every_conformance_row_holds_over_http() {
    // One server for all rows with the same given.
    let mut by_given = BTreeMap::<String, Vec<Row>>::new();
    for row in table::rows() {
        by_given.entry(row.text[0].clone()).or_default().push(row);
    }
    let groups: Vec<Vec<Row>> = by_given.into_values().collect();
    let middle = groups.len() / 2;
    let faults = std::thread::scope(|scope| {
        let halves = [&groups[..middle], &groups[middle..]]
            .map(|half| scope.spawn(move || half.iter().map(|rows| run(rows)).collect::<String>()));
        halves.map(|half| half.join().expect("the rows run")).concat()
    });
    assert!(faults.is_empty(), "these rows do not hold over HTTP:\n{faults}");
}

fn run(rows: &[Row]) -> String {
    let unstarted = UnstartedServer::new();
    let mut faults = unstarted.runtime.block_on(async {
        let given = &rows[0].given;
        let main = set_up_workspace(&unstarted.store, "main", policy(&given.main), &given.main.domains).await;
        put_links(&unstarted.store, main, &given.main).await;
        if let Some(other) = &given.other {
            let id = set_up_workspace(&unstarted.store, "other", policy(other), &other.domains).await;
            put_links(&unstarted.store, id, other).await;
        }
        // The daily job would purge what is expired between the start and the request.
        let clicks = ClickStore::open(unstarted.store.location()).await.expect("the clicks open");
        assert!(clicks.claim_job("sweep", 0, NOW).await.expect("the clicks answer"));
        clicks.close().await;
        explain_rows(rows, &unstarted.store).await
    });
    let server = unstarted.serve(|_| {});
    for row in rows.iter().filter(|row| row.on != On::Explain) {
        let answer = ask(&server, &row.when);
        let mut wrong = differences(row, &answer);
        if row.when.method == "GET" && row.then.form != Form::Bare {
            let head = ask(&server, &When { method: "HEAD".to_owned(), ..row.when.clone() });
            let same = |name: &str| head.header(name) == answer.header(name);
            if head.status != answer.status
                || !head.body.is_empty()
                || !["location", "cache-control", "content-type", "vary"].into_iter().all(same)
            {
                wrong.push(format!("HEAD gets something else: {head:?}"));
            }
        }
        report(&mut faults, row, &wrong);
    }
    faults
}

fn report(faults: &mut String, row: &Row, wrong: &[String]) {
    if wrong.is_empty() {
        return;
    }
    let [given, when, then] = &row.text;
    let _ = writeln!(
        faults,
        "\n{} (conformance/redirects.md:{})\n  given {given}\n  when  {when}\n  then  {then}",
        row.id, row.line
    );
    for line in wrong {
        let _ = writeln!(faults, "  ->    {line}");
    }
}

/// Asks `explain` about every row it can be asked about: it must say what the request gets.
async fn explain_rows(rows: &[Row], store: &StoreWriter) -> String {
    let ops = Ops::new(store.clone().into(), settings(Clock::new(|| NOW)));
    let main = ops.workspace(&Slug::parse("main").unwrap()).await.expect("the workspace is there");
    let mut faults = String::new();
    for row in rows {
        let ([host], "GET", true) =
            (row.when.hosts.as_slice(), row.when.method.as_str(), row.when.target.starts_with('/'))
        else {
            continue;
        };
        // Of other headers `explain` knows nothing.
        if row.then.form == Form::Bare || row.when.headers.iter().any(|(name, _)| name != "Accept") {
            continue;
        }
        let question = format!("https://{host}{}", row.when.target);
        let explained = ops.explain(&operator_in(&main), &question, None).await.expect("an explanation");
        let mut wrong = Vec::new();
        if explained.status != row.then.status {
            wrong.push(format!("explain: want {}, got {explained:?}", row.then.status));
        }
        let location = row.then.headers.iter().find(|(name, _)| name == "location");
        if location.is_some_and(|(_, value)| *value != explained.location) {
            wrong.push(format!("explain: want {location:?}, got {explained:?}"));
        }
        if let Form::Error(code) = &row.then.form
            && explained.error != Some(code)
        {
            wrong.push(format!("explain: want {code}, got {explained:?}"));
        }
        report(&mut faults, row, &wrong);
    }
    faults
}

/// Every path of the API and the dashboard, as the routes in the source spell them.
fn server_paths() -> BTreeSet<String> {
    let openapi = rlinks_server::api::openapi();
    let mut paths: BTreeSet<String> = openapi["paths"].as_object().unwrap().keys().cloned().collect();
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/web"))];
    let mut files = vec![folders[0].with_extension("rs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { &mut folders } else { &mut files }.push(entry);
        }
    }
    for file in files {
        let source = std::fs::read_to_string(file).unwrap();
        let literals = source
            .split('"')
            .filter(|text| (*text == "/admin" || text.starts_with("/admin/")) && !text.contains(['?', ' ']));
        paths.extend(literals.map(str::to_owned));
    }
    paths.into_iter().filter(|path| !path.starts_with("/{code}")).collect()
}

#[test]
fn every_server_path_has_security_headers_and_is_explained() {
    let server = TestServer::at(TestStore::sqlite(), Policy::preset(Preset::Fabric), |config| {
        config.reloadable.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let caller = operator_in(&server.main);
    let (mut asked, mut wrong) = (0, Vec::new());
    // What these answer depends on whether there is an admin, an OpenID provider, an invitation.
    let changes =
        |path: &str| ["/admin/setup", "/admin/invite", "/admin/oidc"].iter().any(|own| path.starts_with(own));
    let more = [
        "/api",
        "/api/v1/nonsense",
        "/admin/nonsense",
        "/admin/account/nonsense",
        "/admin/keys/1/nonsense",
        "/admin/links/a%20b",
        "/health/",
        "/robots.txt",
        "/favicon.ico",
    ];
    for path in server_paths().into_iter().chain(more.map(str::to_owned)).filter(|path| !changes(path)) {
        let path: Vec<&str> =
            path.split('/').map(|segment| if segment.starts_with('{') { "x1" } else { segment }).collect();
        let path = path.join("/");
        let got = server.visit_with(&path, "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n");
        let explained =
            server.runtime.block_on(server.ops.explain(&caller, &path, None)).expect("an explanation");
        asked += 1;
        for name in ["content-security-policy", "permissions-policy", "cross-origin-resource-policy"] {
            if got.header(name).len() != 1 {
                wrong.push(format!("{path}: {name} {:?}", got.header(name)));
            }
        }
        if (got.status, got.location()) != (explained.status, explained.location.as_deref()) {
            wrong.push(format!(
                "{path}: {} {:?}, explained as {}",
                got.status,
                got.location(),
                explained.status
            ));
        }
    }
    server.runtime.block_on(create(server.store(), "there", "https://example.com/"));
    for path in ["/", "/there+", "/absent"] {
        let got = server.visit_with(path, "Accept: text/html\r\n");
        for name in ["content-security-policy", "permissions-policy", "cross-origin-resource-policy"] {
            if got.header(name).len() != 1 {
                wrong.push(format!("{path}: {name} {:?}", got.header(name)));
            }
        }
    }
    assert!(asked > 60, "{asked} paths were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn policy(workspace: &table::Workspace) -> Policy {
    let preset = Policy::preset(workspace.preset.parse().expect("a preset"));
    workspace
        .overrides
        .iter()
        .fold(preset, |policy, (key, value)| policy.set_field(key, value).expect("a policy field"))
}

/// Writes links as they stand in the table, also what no interface lets anyone write, such as an expiry in the past.
async fn put_links(store: &StoreWriter, workspace: Id, given: &table::Workspace) {
    let policy = policy(given);
    for link in &given.links {
        let draft = LinkDraft {
            code: Code::from_path(&link.code),
            target: Target::parse(&link.target, target::MAX_TARGET_BYTES).expect("a target"),
            redirect_status: link.status.map_or(policy.redirect_status, |code| {
                RedirectStatus::from_code(code.into()).expect("a status")
            }),
            expires_at: link.expires_ms.map(|ms| NOW.plus_ms(ms)),
            title: None,
            notes: None,
            tags: Vec::new(),
            https_only: link.https_only.unwrap_or(policy.https_only),
            no_loop: link.no_loop,
            metadata: serde_json::Map::new(),
        };
        let code = CodeChoice::Chosen(Code::from_path(&link.code).expect("a code"));
        let op = LinkOp::Create { draft, code, source: LinkSource::Cli, on_conflict: OnConflict::Refuse };
        let made = store.write(LinkWrite::new(workspace, operator(), NOW, op)).await.expect("a link");
        let state = match link.state {
            State::Active => continue,
            State::Disabled => LinkState::Disabled,
            State::Deleted => LinkState::Deleted,
        };
        let op =
            LinkOp::Replace { next: Box::new(Link { state, ..made.link().clone() }), action: Action::Update };
        store.write(LinkWrite::new(workspace, operator(), NOW, op)).await.expect("a state");
    }
}

fn ask(server: &RunningServer, when: &When) -> Response {
    let mut request = format!("{} {} HTTP/1.1\r\n", when.method, when.target);
    for host in &when.hosts {
        let _ = write!(request, "Host: {host}\r\n");
    }
    for (name, value) in &when.headers {
        let _ = write!(request, "{name}: {value}\r\n");
    }
    let framed = when.headers.iter().any(|(name, _)| {
        ["content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str())
    });
    if !when.body.is_empty() && !framed {
        let _ = write!(request, "Content-Length: {}\r\n", when.body.len());
    }
    let _ = write!(request, "Connection: close\r\n\r\n{}", when.body);
    server.send(&request)
}

fn differences(row: &Row, answer: &Response) -> Vec<String> {
    let (then, mut wrong) = (&row.then, Vec::new());
    if answer.status != then.status {
        wrong.push(format!("status: want {}, got {}", then.status, answer.status));
    }
    for (name, want) in &then.headers {
        let got = answer.header(name);
        if got != want.as_deref().into_iter().collect::<Vec<_>>() {
            wrong.push(format!("{name}: want {want:?}, got {got:?}"));
        }
    }
    if then.form != Form::Bare && answer.header("x-request-id").len() != 1 {
        wrong.push("no X-Request-Id".to_owned());
    }
    if let Form::Error(code) = &then.form {
        let error =
            serde_json::from_str::<serde_json::Value>(&answer.body).unwrap_or_default()["error"].take();
        if error["code"] != **code
            || error["status"] != then.status
            || !error["details"].is_null()
            || error["ts"] != NOW.whole_seconds().to_string()
        {
            wrong.push(format!("envelope: want {code}, got {}", answer.body));
        }
    }
    for text in then.shows.iter().filter(|text| !answer.body.contains(*text)) {
        wrong.push(format!("the body does not show {text}"));
    }
    wrong
}
