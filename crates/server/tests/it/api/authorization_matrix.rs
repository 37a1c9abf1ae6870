//! Every operation the API describes, asked by everybody. The list of operations is `docs/openapi.json`; what each caller gets is
//! [`EXPECTED`], and an operation that is not there fails.

use std::collections::BTreeSet;

use rlinks_core::link::code::is_server_word;
use rlinks_core::{Host, Preset, Role, Scopes, User, Workspace};
use rlinks_store::{AuthMethod, NewSession, session_public_id};
use serde_json::{Value, json};

use crate::support::api_client::ApiClient;
use crate::support::members::{ApiUser, TestServer, preset};
use crate::support::raw_client::wait_until;
use crate::support::server::operator;

/// In everything workspace A has; no answer to workspace B may hold it.
const CANARY: &str = "canary-of-a";

/// What each caller gets, in the order of the columns. Without a credential and with an expired one everything is 401.
///
/// The first four are of workspace A: a viewer, a member, an admin, and a key that is nobody's and may look. The last two are of
/// workspace B and ask about an object of A where the path names one: an admin, and a key that is nobody's and may do everything.
#[rustfmt::skip]
const EXPECTED: &[(&str, [u16; 6])] = &[
    //                          viewer member admin reader  b's admin, key
    ("audit_list",              [403, 403, 200, 403, 200, 200]),
    ("domains_add_domain",      [403, 403, 201, 403, 201, 201]),
    ("domains_change_domain",   [403, 403, 200, 403, 404, 404]),
    ("domains_domains",         [403, 403, 200, 403, 200, 200]),
    ("domains_remove_domain",   [403, 403, 204, 403, 404, 404]),
    ("domains_verify_domain",   [403, 403, 200, 403, 404, 404]),
    // A member keeps their own keys; the one in the path is another's.
    ("keys_create",             [403, 201, 201, 403, 201, 201]),
    ("keys_created",            [403, 404, 200, 403, 404, 404]),
    ("keys_list",               [403, 200, 200, 403, 200, 200]),
    ("keys_revoke",             [403, 404, 204, 403, 404, 404]),
    ("keys_rotate",             [403, 404, 201, 403, 404, 404]),
    ("links_bulk",              [403, 200, 200, 403, 200, 200]),
    ("links_check",             [200, 200, 200, 200, 200, 200]),
    ("links_create",            [403, 201, 201, 403, 201, 201]),
    ("links_delete",            [403, 204, 204, 403, 404, 404]),
    ("links_explain",           [200, 200, 200, 200, 200, 200]),
    ("links_export",            [200, 200, 200, 200, 200, 200]),
    ("links_get",               [200, 200, 200, 200, 404, 404]),
    ("links_history",           [200, 200, 200, 200, 404, 404]),
    ("links_import",            [403, 200, 200, 403, 200, 200]),
    ("links_list",              [200, 200, 200, 200, 200, 200]),
    ("links_patch",             [403, 200, 200, 403, 404, 404]),
    ("links_qr_code",           [200, 200, 200, 200, 404, 404]),
    ("links_restore",           [403, 200, 200, 403, 404, 404]),
    // A key that is nobody's has no account to delete, and no sessions. No key but an admin's ends any.
    ("me_end_session",          [403, 403, 404, 403, 404, 403]),
    ("me_end_sessions",         [403, 403, 204, 403, 204, 403]),
    ("me_leave",                [403, 403, 403, 403, 403, 403]),
    ("me_me",                   [200, 200, 200, 200, 200, 200]),
    ("me_session",              [404, 404, 404, 403, 404, 403]),
    ("me_sessions",             [200, 200, 200, 403, 200, 403]),
    ("statistics_clicks",       [200, 200, 200, 200, 404, 404]),
    ("statistics_live",         [200, 200, 200, 200, 200, 200]),
    ("statistics_of_link",      [200, 200, 200, 200, 404, 404]),
    ("statistics_of_workspace", [200, 200, 200, 200, 200, 200]),
    ("users_change",            [403, 403, 200, 403, 404, 404]),
    ("users_create",            [403, 403, 201, 403, 201, 201]),
    ("users_end_session",       [403, 403, 204, 403, 404, 404]),
    ("users_end_sessions",      [403, 403, 204, 403, 404, 404]),
    ("users_list",              [403, 403, 200, 403, 200, 200]),
    ("users_remove",            [403, 403, 204, 403, 404, 404]),
    ("users_sessions",          [403, 403, 200, 403, 404, 404]),
    ("workspace_change",        [403, 403, 200, 403, 200, 200]),
    ("workspace_show",          [403, 403, 200, 403, 200, 200]),
];

/// The operations of the API: path, method, name.
fn operations() -> Vec<(String, String, String)> {
    let description = rlinks_server::api::openapi();
    let mut found = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if path.starts_with("/api/v1") {
                let name = operation["operationId"].as_str().unwrap().to_owned();
                found.push((path.clone(), method.to_uppercase(), name));
            }
        }
    }
    // Whoever leaves asks nothing afterwards.
    found.sort_by_key(|(_, _, name)| name == "me_leave");
    found
}

/// Objects of workspace A, fresh for each request: some of them do not survive it.
struct Objects<'a> {
    server: &'a TestServer,
    count: std::cell::Cell<u32>,
    keeper: &'a ApiUser,
}

impl Objects<'_> {
    fn fresh(&self) -> String {
        self.count.set(self.count.get() + 1);
        format!("{CANARY}-{}", self.count.get())
    }

    fn link(&self) -> String {
        let code = self.fresh();
        let target = format!("https://example.com/{code}");
        self.keeper.post("/links", &json!({"code": code, "target": target})).expect(201);
        code
    }

    /// A session of a member.
    fn session(&self, user: &User) -> String {
        let hash = format!("blake2b256:{}", self.fresh());
        let new = NewSession {
            hash: hash.clone(),
            how: AuthMethod::Password,
            agent: CANARY.to_owned(),
            network: String::new(),
            expires_at: self.server.now().plus_ms(60_000),
            replaces: None,
        };
        let start = self.server.store().start_session(user, &new, self.server.now());
        self.server.runtime.block_on(start).unwrap();
        session_public_id(&hash)
    }

    /// The path with an object of A in it.
    fn path(&self, operation: &str, path: &str) -> String {
        let path = match operation {
            "links_restore" => {
                let code = self.link();
                self.keeper.delete(&format!("/links/{code}")).expect(204);
                path.replace("{code}", &code)
            }
            "links_check" => path.replace("{code}", "free"),
            "links_explain" => format!("{path}?url=free"),
            _ if path.contains("{code}") => path.replace("{code}", &self.link()),
            _ => path.to_owned(),
        };
        if path.contains("{host}") {
            let host = format!("{}.example", self.fresh());
            let (store, parsed, operator) = (self.server.store(), Host::parse(&host).unwrap(), operator());
            let add = store.add_domain(self.server.main.id, parsed, &operator, self.server.now());
            self.server.runtime.block_on(add).unwrap();
            return path.replace("{host}", &host);
        }
        if path.starts_with("/api/v1/keys/") {
            let owner = self.server.user(&self.server.main, Role::Member);
            let key = self.server.key(&self.server.main, Some(&owner), Scopes::DEFAULT);
            return path.replace("{id}", &key.key_id());
        }
        if path.starts_with("/api/v1/users/") {
            let email = format!("{}@example.com", self.fresh());
            let user = self.server.user_with_email(&self.server.main, Role::Member, &email);
            let path = path.replace("{id}", &user.id.to_string());
            return path.replace("{session}", &self.session(&user));
        }
        path
    }
}

/// What is sent, where something is.
fn body(operation: &str, fresh: &str) -> Option<Value> {
    Some(match operation {
        "links_create" | "links_import" => json!({"target": "https://example.com/new", "code": fresh}),
        "links_bulk" => json!({"links": [{"target": "https://example.com/new", "code": fresh}]}),
        "links_patch" => json!({"title": "Changed"}),
        "domains_add_domain" => json!({"host": format!("{fresh}.example")}),
        "domains_change_domain" => json!({"primary": true}),
        "keys_create" => json!({"name": "made here", "scopes": ["links:read"]}),
        "users_create" => json!({"email": format!("{fresh}@example.com")}),
        "users_change" => json!({"role": "viewer"}),
        "workspace_change" => json!({"name": "Renamed"}),
        _ => return None,
    })
}

#[test]
fn every_operation_matches_the_authorization_matrix() {
    let server = TestServer::new(Preset::Fabric);
    let other = server.workspace("other", preset(Preset::Fabric), &["other.example"]);
    // So that any admin may leave.
    server.admin();
    server.person(&other, Role::Admin);
    let keeper = server.root();
    let objects = Objects { server: &server, count: std::cell::Cell::new(0), keeper: &keeper };
    let over = server.key_expiring_at(&server.main, None, Scopes::ALL, Some(server.now()));
    server.advance_ms(1);
    let anonymous = server.anonymous();
    let (viewer, member, admin, reader) = (server.viewer(), server.member(), server.admin(), server.reader());
    let (foreign_admin, foreign_root) =
        (server.person(&other, Role::Admin), server.key(&other, None, Scopes::ALL));

    let mut wrong = Vec::new();
    for (path, method, name) in operations() {
        let row = EXPECTED.iter().find(|(known, _)| *known == name);
        let (_, row) = row.unwrap_or_else(|| panic!("{name} has no row: say what each caller gets"));
        let cases: [(&str, &ApiClient, u16, bool); 8] = [
            ("no credential", &anonymous, 401, false),
            ("an expired key", &over, 401, false),
            ("a viewer", &viewer, row[0], false),
            ("a member", &member, row[1], false),
            ("an admin", &admin, row[2], false),
            ("a reading key", &reader, row[3], false),
            ("an admin of another workspace", &foreign_admin, row[4], true),
            ("a key of another workspace", &foreign_root, row[5], true),
        ];
        for (number, (who, caller, status, foreign)) in cases.into_iter().enumerate() {
            let at = objects.path(&name, &path);
            let mut asked = caller.request(&method, &at);
            if let Some(body) = body(&name, &format!("new-{}-{number}", name.replace('_', "-"))) {
                asked = asked.json(&body);
            }
            let reply = asked.send();
            if reply.status() != status {
                wrong.push(format!("{method} {at} by {who}: {} and not {status}", reply.status()));
            }
            // What was asked for is repeated in an error; nothing else of A is known to B.
            let told = reply.answer.body.replace(at.rsplit('/').next().unwrap(), "");
            let named = at.split('/').any(|part| part.contains(CANARY));
            if foreign && told.contains(CANARY) && !named {
                wrong.push(format!("{method} {at} tells {who} of A: {}", reply.answer.body));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_matrix_row_names_an_operation() {
    let known: BTreeSet<_> = operations().into_iter().map(|(_, _, name)| name).collect();
    let rows: BTreeSet<_> = EXPECTED.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(known, rows);
}

/// A foreign cursor, and a foreign object in a body.
#[test]
fn cursors_and_ids_of_another_workspace_are_rejected() {
    let server = TestServer::new(Preset::Fabric);
    let other = server.workspace("other", preset(Preset::Fabric), &["other.example"]);
    let (a, b) = (server.admin(), server.person(&other, Role::Admin));
    server.admin();
    for number in 0..3 {
        for caller in [&a, &b] {
            let body = json!({"code": format!("link-{number}"), "target": "https://example.com/"});
            caller.post("/links", &body).expect(201);
        }
    }
    for list in ["/links", "/keys", "/users", "/audit"] {
        a.post("/keys", &json!({"name": "another"})).expect(201);
        let page = a.get(&format!("{list}?limit=1")).expect(200).json();
        let cursor = page["next_cursor"].as_str().unwrap_or_else(|| panic!("{list} has one page: {page}"));
        a.get(&format!("{list}?limit=1&cursor={cursor}")).expect(200);
        let refused = b.get(&format!("{list}?limit=1&cursor={cursor}"));
        assert_eq!(refused.fields(), ["cursor: bad_characters"], "{list}");
    }
    let page = a.get("/links/link-1/history?limit=1").expect(200).json();
    assert!(page["next_cursor"].is_null(), "{page}");
    a.patch("/links/link-1", &json!({"title": "x"})).expect(200);
    let page = a.get("/links/link-1/history?limit=1").expect(200).json();
    let cursor = page["next_cursor"].as_str().unwrap();
    b.get(&format!("/links/link-1/history?cursor={cursor}")).refused(400, "VALIDATION_FAILED");
    a.get(&format!("/links/link-2/history?cursor={cursor}")).refused(400, "VALIDATION_FAILED");

    b.post("/keys", &json!({"name": "x", "user": a.user_id()})).refused(404, "NOT_FOUND");
    b.get("/explain?url=https://rmax.to/link-1").refused(404, "NOT_FOUND");
    // A host of another's: taken, and not to be removed.
    b.post("/domains", &json!({"host": "rmax.to"})).refused(409, "CONFLICT");
    b.delete("/domains/rmax.to").refused(404, "NOT_FOUND");
}

#[test]
fn committed_openapi_document_matches_the_server() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let committed: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(
        committed == *rlinks_server::api::openapi(),
        "docs/openapi.json is old; write it anew with `rmax dev openapi > docs/openapi.json`"
    );
}

#[test]
fn every_described_path_begins_with_a_server_word() {
    for path in rlinks_server::api::openapi()["paths"].as_object().unwrap().keys() {
        let segment = path.trim_start_matches('/').split('/').next().unwrap();
        let is_code = segment.starts_with("{code}");
        assert!(
            is_code || is_server_word(segment),
            "{path}: make `{segment}` a server word, or a link hides it"
        );
    }
}

/// What a path answers to is what the description says, and nothing else.
#[test]
fn every_served_method_is_described() {
    let server = TestServer::new(Preset::Fabric);
    let root = server.root();
    let known: BTreeSet<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        .iter()
        .map(|&method| method.to_owned())
        .collect();
    for (path, methods) in rlinks_server::api::openapi()["paths"].as_object().unwrap() {
        if !path.starts_with("/api/") {
            continue;
        }
        let mut described: BTreeSet<String> =
            methods.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        if described.contains("GET") {
            described.insert("HEAD".to_owned());
        }
        for method in known.difference(&described) {
            let reply = root.request(method, path).send();
            let reply = reply.expect(405);
            let allowed: BTreeSet<String> =
                reply.header("allow").unwrap().split(',').map(|name| name.trim().to_owned()).collect();
            assert_eq!(allowed, described, "{method} {path}");
        }
    }
    // And what is served besides is described.
    for path in ["/api/openapi.json", "/api/docs"] {
        server.anonymous().get(path).expect(200);
        assert!(rlinks_server::api::openapi()["paths"][path].is_object(), "{path} is not described");
    }
}

/// Keys of a deleted workspace are nobody's.
#[test]
fn keys_of_a_deleted_workspace_are_401() {
    let server = TestServer::new(Preset::Fabric);
    let other: Workspace = server.workspace("other", preset(Preset::Fabric), &[]);
    let admin = server.person(&other, Role::Admin);
    admin.get("/me").expect(200);
    let gone = Workspace { deleted_at: Some(server.now()), ..other.clone() };
    let by = operator();
    let delete = server.store().update_workspace(&other, gone, "workspace.delete", &by, server.now());
    server.runtime.block_on(delete).unwrap();
    wait_until("the feed tells of it", || admin.get("/me").status() == 401);
    admin.get("/me").refused(401, "UNAUTHENTICATED");
    admin.post("/links", &json!({"target": "https://example.com/"})).refused(401, "UNAUTHENTICATED");
}
