//! `rmax` on a running server: the same commands, the same output, and a key that is never shown.

mod refused;

use std::net::SocketAddr;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::raw_client::{Response, send_request, wait_until};
use crate::support::sandbox::{CommandOutput, Sandbox};
use crate::support::server_process::{ServerProcess, serve};

const ALL_SCOPES: &str = "links:read,links:write,links:delete,analytics:read,workspace:admin";

/// A store with its server, and somebody elsewhere who has a key to it.
struct StoreAndServer {
    local: Sandbox,
    remote: Sandbox,
    server: ServerProcess,
}

impl StoreAndServer {
    fn new() -> Self {
        Self::with("links set first https://example.com/first")
    }

    /// With something done before the server starts.
    fn with(line: &str) -> Self {
        let local = Sandbox::new();
        local.ok("domains add rmax.to");
        local.ok(line);
        let server = serve(&local, "");
        let remote = elsewhere(server.address, &key(&local, ALL_SCOPES));
        Self { local, remote, server }
    }

    /// Somebody else elsewhere, with another key.
    fn holding(&self, key: &str) -> Sandbox {
        elsewhere(self.server.address, key)
    }

    /// Both see the same: of data every byte, and on stderr all but the moment of an error.
    #[track_caller]
    fn same(&self, line: &str) {
        let (local, remote) = (self.local.rmax(line), self.remote.rmax(line));
        assert_eq!(remote.stdout, local.stdout, "rmax {line}");
        assert_eq!(remote.to_string(), local.to_string(), "rmax {line}");
    }

    /// One does it elsewhere; exit code and output are what the other gets who does the same to the twin of that link.
    #[track_caller]
    fn alike(&self, line: &str) {
        let (local, remote) =
            (self.local.rmax(&line.replace('@', "twin1")), self.remote.rmax(&line.replace('@', "twin2")));
        let settled = |ran: &CommandOutput, twin: &str| ran.to_string().replace(&format!("{twin}-"), "@-");
        assert_eq!(settled(&remote, "twin2"), settled(&local, "twin1"), "rmax {line}");
    }
}

fn elsewhere(address: SocketAddr, key: &str) -> Sandbox {
    Sandbox::new().with("RMAX_SERVER", &format!("http://{address}")).with("RMAX_API_KEY", key)
}

fn key(sandbox: &Sandbox, scopes: &str) -> String {
    let made = sandbox.json(&format!("keys create --name test --scope {scopes} --json"));
    made["key"].as_str().unwrap().to_owned()
}

// ---- looking ----

#[test]
fn read_commands_print_the_same_bytes_locally_and_remotely() {
    let both = StoreAndServer::with("dev seed --links 130 --clicks 400 --days 2");
    let links = both.local.json("links list --limit 200 --json");
    let code = links.as_array().unwrap().iter().max_by_key(|link| link["stats"]["hits"].as_u64()).unwrap();
    let code = code["code"].as_str().unwrap().to_owned();
    let gone = links[5]["code"].as_str().unwrap().to_owned();
    both.local.ok(&format!("links disable {}", links[3]["code"].as_str().unwrap()));
    both.local.ok(&format!("links delete {gone} --yes"));
    both.local.ok(&format!(
        "links set {code} https://example.com/ --status 302 --expires 2099-01-01 --note n --tag 'a b'"
    ));
    for line in [
        "links list",
        "links list --json",
        "links list --limit 130 --json",
        "links list --limit 10000 --show-disabled --json",
        "links list --limit 10000 --show-deleted --json",
        "links list --limit 10000 --show-disabled --show-deleted --json",
        "links list --limit 7 --show-disabled --show-deleted",
        "links list --prefix S --json",
        "links list --tag 'a b' --json",
        "links list --prefix ' '",
        "links list --prefix '' --limit 3",
        "links list --tag none",
        "links list --search notes --json",
        "links list --search ...",
        "links get CODE",
        "links get nobody",
        "links get nobody --json",
        "links get 'no code'",
        "links get ..",
        "links get GONE",
        "links get CODE --at 2020-01-01",
        "links get CODE --at soon",
        "links stats CODE",
        "links stats CODE --json",
        "links stats CODE --json --bots --interval hour --tz Europe/Berlin",
        "links stats CODE --bots --from 2020-01-01 --interval month",
        "links stats CODE --interval year --tz Nowhere",
        "links stats GONE --json",
        "links stats nobody",
        "links history CODE",
        "links history CODE --json",
        "links history GONE --json",
        "links history nobody",
        "explain CODE",
        "explain CODE --json",
        "explain https://rmax.to/nobody --json",
        "explain https://rmax.to/CODE --at 2020-01-01",
        "explain ftp://rmax.to/x",
        "domains list",
        "domains list --json",
        "users list",
        "users list --json",
        "audit list",
        "audit list --limit 120 --json",
        "audit list --before 100 --limit 3",
    ] {
        both.same(&line.replace("CODE", &code).replace("GONE", &gone));
    }
    let now = both.local.link(&code)["updated_at"].as_str().unwrap().to_owned();
    both.same(&format!("links get {code} --at {now}"));
}

#[test]
fn remote_audit_export_matches_the_local_one_and_verifies() {
    let both = StoreAndServer::with("dev seed --links 250 --clicks 0 --days 1");
    both.local.ok("links set x https://example.com/ --note 'a \"note\"'");
    both.local.ok("audit export here.jsonl");
    assert_snapshot!(both.remote.rmax("audit export there.jsonl").code.unwrap(), @"0");
    assert_eq!(both.remote.read("there.jsonl"), both.local.read("here.jsonl"));
    both.remote.ok("audit verify --file there.jsonl");
    both.remote.fails(2, "audit export again.jsonl --all").says("of one workspace");
    both.remote
        .fails(2, "audit export again.jsonl --checkpoint heads.json")
        .says("the store's own key signs");
}

// ---- changing ----

#[test]
fn write_commands_behave_the_same_locally_and_remotely() {
    let both = StoreAndServer::new();
    for line in [
        "links set @-x https://example.com/one --tag b --tag a --note n --title t",
        "links set @-x https://example.com/one",
        "links set @-x https://example.com/two --untag a --tag c --no-expiry --status 307",
        "links set @-x https://example.com/two --tag c --title '' --json",
        "links disable @-x",
        "links disable @-x",
        "links set @-x https://example.com/two",
        "links set @-x http://example.com/ --no-https --expires 2099-12-31",
        "links set @-x http://rmax.to/y --https --status 299 --expires 2020-01-01 --tag 'a,b'",
        "links set @-X https://example.com/",
        "links set 'no code' https://example.com/",
        "links set api https://example.com/",
        "links disable @-x --json",
        "links enable @-x",
        "links enable @-x",
        "links restore @-x",
        "links delete @-x",
        "links delete @-x --yes",
        "links delete @-x --yes",
        "links enable @-x",
        "links restore @-x",
        "links delete @-x --yes --json",
        "links set @-x https://example.com/three",
        "links set @-x https://example.com/three --json",
        "links set @-x https://example.com/three --recreate --tag z --tag y --untag z",
        "links restore nobody",
        "links disable nobody",
        "shorten https://example.com/long --code @-short --title t --tag s",
        "shorten https://example.com/long --code @-short",
        "shorten not-a-url",
    ] {
        if line.contains("--json") && !line.contains("three --json") {
            // Who did it differs, and nothing else.
            let shown = |ran: CommandOutput, twin: &str| {
                let mut link: Value =
                    serde_json::from_str(&ran.stdout.replace(&format!("{twin}-"), "@-")).unwrap();
                for moment in ["created_by", "created_at", "updated_at"] {
                    link[moment] = Value::Null;
                }
                link
            };
            let local = both.local.ok(&line.replace('@', "twin1"));
            let remote = both.remote.ok(&line.replace('@', "twin2"));
            assert_eq!(shown(remote, "twin2"), shown(local, "twin1"), "rmax {line}");
        } else {
            both.alike(line);
        }
    }
    // What was done there is served there, and is in the log.
    assert_eq!(both.server.get("/twin2-x").location(), Some("https://example.com/three"));
    let history = both.local.json("links history twin2-x --json");
    let actions: Vec<&str> =
        history.as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    let twin = both.local.json("links history twin1-x --json");
    let twins: Vec<&str> =
        twin.as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, twins);
    assert!(history[0]["actor"].as_str().unwrap().starts_with("key:"));
    both.local.ok("audit verify");
}

#[test]
fn remote_shorten_generates_the_code_on_the_server() {
    let both = StoreAndServer::new();
    let drawn = both.remote.ok("shorten https://example.com/drawn --code drawn --qr");
    assert!(
        drawn.stdout.starts_with("https://rmax.to/drawn\n") && drawn.stdout.lines().count() > 10,
        "{drawn}"
    );
    let made = both.remote.json("shorten https://example.com/generated --json");
    let url = made["short_url"].as_str().unwrap();
    assert!(url.starts_with("https://rmax.to/") && made["reused"] == json!(false), "{made}");
    assert_eq!(both.local.link(made["code"].as_str().unwrap())["target"], "https://example.com/generated");
}

#[test]
fn remote_dry_run_is_refused() {
    let both = StoreAndServer::new();
    assert_snapshot!(both.remote.rmax("links set first https://example.com/ --dry-run"), @"
    exit 2
    --- stderr
    error: --dry-run does not work on a server: it checks a change by its own rules, and has no way to only try it
    hint: `rmax links get first` shows the link as it is
    ");
    assert_eq!(both.local.link("first")["target"], "https://example.com/first");
}

#[test]
fn tags_added_concurrently_are_all_kept() {
    let both = StoreAndServer::new();
    let lines: Vec<String> =
        (0..4).map(|n| format!("links set first https://example.com/first --tag t{n}")).collect();
    for ran in both.remote.together(&lines) {
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    assert_eq!(both.local.link("first")["meta"]["tags"], json!(["t0", "t1", "t2", "t3"]));
}

// ---- people and domains ----

#[test]
fn keys_are_created_rotated_and_revoked_remotely() {
    let both = StoreAndServer::new();
    both.local.ok("users create --email ann@example.com --role member");
    let made = both.remote.json("keys create --name ci --user ann@example.com --expires 2099-01-01 --json");
    assert_eq!((&made["name"], &made["scopes"]), (&json!("ci"), &json!(["links:read", "links:write"])));
    assert_eq!(made["user"], both.local.json("users list --json")[0]["id"]);
    let ann = both.holding(made["key"].as_str().unwrap());
    ann.ok("links set ann https://example.com/ann");
    // A member keeps own keys, and names themselves by their address too.
    let own = ann.ok("keys create --name own --user ANN@example.com --scope links:read");
    assert!(own.stdout.starts_with("rmx_"), "{own}");
    ann.fails(7, "keys create --name other --user bob@example.com");
    both.remote
        .fails(3, "keys create --name other --user bob@example.com")
        .says("there is no user `bob@example.com`");
    both.remote.fails(5, "keys create --name '' --scope links:eat --expires 2020-01-01").says("scopes:");

    let id = made["id"].as_str().unwrap();
    let rotated = both.remote.ok(&format!("keys rotate {id}"));
    rotated.says("works for 24 hours more");
    both.holding(rotated.stdout.trim()).ok("links get ann");
    let revoked = both.remote.json(&format!("keys revoke {id} --json"));
    assert_eq!((&revoked["id"], &revoked["status"]), (&made["id"], &json!("revoked")));
    ann.fails(7, "links get ann");
    assert!(both.remote.ok(&format!("keys revoke {id}")).stdout.starts_with("unchanged key"));
    both.same("keys revoke 1");
    both.same("keys rotate nothing");
    let listed = |sandbox: &Sandbox| {
        let mut keys = sandbox.json("keys list --json");
        for key in keys.as_array_mut().unwrap() {
            // Written some seconds later.
            key["usage_count"] = Value::Null;
            key["last_used_at"] = Value::Null;
        }
        keys
    };
    assert_eq!(listed(&both.remote), listed(&both.local));
    assert!(both.remote.ok("keys list").stdout.starts_with("ID "));
}

/// Hostile inputs, S43.
#[test]
fn revoking_a_key_names_and_ends_what_was_made_with_it_locally_and_remotely() {
    let both = StoreAndServer::new();
    for sandbox in [&both.local, &both.remote] {
        let stolen = sandbox.json(&format!("keys create --name stolen --scope {ALL_SCOPES} --json"));
        let thief = both.holding(stolen["key"].as_str().unwrap());
        let child = thief.json("keys create --name child --json");
        let email = format!("eve-{}@example.com", stolen["id"].as_str().unwrap());
        thief.ok(&format!("users create --email {email} --role admin"));
        let child_holder = both.holding(child["key"].as_str().unwrap());
        child_holder.ok("links get first");
        let id = stolen["id"].as_str().unwrap();
        let revoked = sandbox.ok(&format!("keys revoke {id} --keep-created"));
        assert!(!revoked.stdout.contains("child"), "{revoked}");
        child_holder.ok("links get first");
        let revoked = sandbox.ok(&format!("keys revoke {id} --yes"));
        let key = format!("revoked with it: key child ({})", child["id"].as_str().unwrap());
        let invitation = format!("revoked with it: the invitation of {email} ");
        assert!(revoked.stdout.contains(&key) && revoked.stdout.contains(&invitation), "{revoked}");
        // The server hears within a second of what another process revoked.
        wait_until("the key is refused", || child_holder.rmax("links get first").code == Some(7));
    }
}

#[test]
fn sessions_are_listed_and_ended_locally_and_remotely() {
    let both = StoreAndServer::with("users create --email ann@example.com --role admin");
    both.same("users sessions ann@example.com");
    both.same("users sessions nobody@example.com");
    both.same("users sign-out ann@example.com --session 0123");
    both.same("users sign-out ann@example.com");
}

#[test]
fn members_are_invited_changed_and_deleted_remotely() {
    let both = StoreAndServer::new();
    let invited = both.remote.ok("users create --email Ann@example.com --name Ann --role admin");
    assert!(invited.stdout.contains("/admin/invite/"), "{invited}");
    invited.says("ann@example.com is admin of main now");
    both.remote.ok("users create --email bob@example.com --json");
    assert_snapshot!(both.remote.rmax("users role bob@example.com viewer"), @"
    exit 0
    --- stdout
    changed bob@example.com: viewer, active
    ");
    assert_eq!(
        both.remote.ok("users role BOB@example.com viewer").stdout,
        "unchanged bob@example.com: viewer, active\n"
    );
    assert_eq!(
        both.remote.ok("users suspend bob@example.com").stdout,
        "suspended bob@example.com: viewer, suspended\n"
    );
    let id = both.remote.json("users activate bob@example.com --json")["id"].as_str().unwrap().to_owned();
    both.same("users list --json");
    both.same("users suspend nobody@example.com");
    both.same("users create --email nonsense --role king");
    both.same("users create --email bob@example.com");
    both.same("users role ann@example.com member");
    both.same(&format!("users delete {id}"));
    assert_eq!(
        both.remote.ok(&format!("users delete {id} --yes")).stdout,
        "deleted the account of bob@example.com\n"
    );
    both.same("users list");
}

#[test]
fn domains_are_added_and_removed_remotely() {
    let both = StoreAndServer::new();
    both.local.ok("workspaces create other --preset edge");
    both.local.ok("--workspace other domains add other.example");
    assert_snapshot!(both.remote.rmax("domains add go.example"), @"
    exit 0
    --- stdout
    added go.example: answered by workspace main
    ");
    both.same("domains add go.example");
    assert_snapshot!(both.remote.rmax("domains primary go.example"), @"
    exit 0
    --- stdout
    primary go.example: answered by workspace main, its primary domain
    ");
    both.same("domains list --json");
    both.same("domains primary go.example --json");
    both.same("domains primary nobody.example");
    both.same("domains remove nobody.example");
    both.same("domains add 'no host'");
    both.remote.fails(4, "domains add other.example");
    both.remote.fails(2, "domains list --all").says("of one workspace");
    assert!(both.remote.ok("links set g https://example.com/").stdout.contains("https://go.example/g"));
    assert_snapshot!(both.remote.rmax("domains remove go.example"), @"
    exit 0
    --- stdout
    removed go.example from workspace main
    ");
    both.same("domains list");
}

/// What the API itself says.
fn api(both: &StoreAndServer, request: &str, key: &str, body: &str) -> Response {
    let request = format!(
        "{request} HTTP/1.1\r\nHost: rmax.to\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    send_request(both.server.address, request.as_bytes())
}

#[test]
fn primary_domain_can_be_replaced_but_not_unset() {
    let both = StoreAndServer::new();
    both.local.ok("domains add go.example");
    let (admin, reader) = (key(&both.local, ALL_SCOPES), key(&both.local, "links:read"));
    let patch = |key: &str, host: &str, body: &str| {
        let answer = api(&both, &format!("PATCH /api/v1/domains/{host}"), key, body);
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        (answer.status, body["error"]["code"].as_str().unwrap_or_default().to_owned(), body)
    };
    for body in [
        r#"{"primary":false}"#,
        r#"{"primary":null}"#,
        r#"{"primary":"true"}"#,
        "{}",
        r#"{"primary":true,"host":"x"}"#,
    ] {
        let (status, code, _) = patch(&admin, "go.example", body);
        assert_eq!((status, code.as_str()), (400, "VALIDATION_FAILED"), "{body}");
    }
    let (status, code, _) = patch(&reader, "go.example", r#"{"primary":true}"#);
    assert_eq!((status, code.as_str()), (403, "FORBIDDEN"));
    for host in ["nobody.example", "no%20host"] {
        assert_eq!(patch(&admin, host, r#"{"primary":true}"#).0, 404, "{host}");
    }
    let (status, _, domain) = patch(&admin, "GO.example", r#"{"primary":true}"#);
    assert_eq!((status, &domain["host"], &domain["primary"]), (200, &json!("go.example"), &json!(true)));
}

#[test]
fn audit_log_is_paged_in_both_directions() {
    let both = StoreAndServer::with("dev seed --links 20 --clicks 0 --days 1");
    let admin = key(&both.local, ALL_SCOPES);
    let page = |query: &str| -> Value {
        serde_json::from_str(&api(&both, &format!("GET /api/v1/audit?{query}"), &admin, "").body).unwrap()
    };
    let seqs = |page: &Value| -> Vec<i64> {
        page["data"].as_array().unwrap().iter().map(|entry| entry["seq"].as_i64().unwrap()).collect()
    };
    assert_eq!(seqs(&page("before=5&limit=3")), [4, 3, 2]);
    let first = page("after=2&limit=3");
    assert_eq!(seqs(&first), [3, 4, 5]);
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(seqs(&page(&format!("after=2&limit=3&cursor={cursor}"))), [6, 7, 8]);
    // A cursor goes one way.
    for query in [format!("cursor={cursor}"), "before=1&after=1".to_owned(), "after=-1".to_owned()] {
        assert_eq!(page(&query)["error"]["code"], "VALIDATION_FAILED", "{query}");
    }
}

#[test]
fn export_into_a_closed_pipe_ends_without_an_error() {
    let both = StoreAndServer::new();
    for sandbox in [&both.local, &both.remote] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = sandbox.command("links export -").stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success() && said.is_empty(), "{}: {said}", ended.status);
    }
}
