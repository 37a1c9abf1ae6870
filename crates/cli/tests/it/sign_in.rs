//! Passwords and the first admin, as an operator meets them.

use std::io::Write as _;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::raw_client::{Response, send_request};
use crate::support::sandbox::{CommandOutput, Sandbox};
use crate::support::server_process::{ServerProcess, serve};

const PASSWORD: &str = "correct horse battery staple";

/// Runs a command with something on its stdin.
fn piped(sandbox: &Sandbox, line: &str, text: &str) -> CommandOutput {
    let mut child = sandbox.command(line).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    sandbox.command_output(&child.wait_with_output().unwrap())
}

/// What a browser does, without being one.
fn request(server: &ServerProcess, method: &str, path: &str, cookies: &str, body: &str) -> Response {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: {cookies}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    send_request(server.address, request.as_bytes())
}

/// The cookie an answer sets.
fn cookie(answer: &Response) -> String {
    answer.header("set-cookie").first().map_or("", |line| line.split(';').next().unwrap()).to_owned()
}

fn hidden(page: &Response, name: &str) -> String {
    let (_, after) = page.body.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
    after.split('"').next().unwrap().to_owned()
}

fn sign_in(server: &ServerProcess, password: &str) -> Response {
    let page = request(server, "GET", "/admin/login", "", "");
    let csrf = hidden(&page, "csrf");
    let password = password.replace(' ', "+");
    let body = format!("csrf={csrf}&workspace=main&email=ann%40example.com&password={password}");
    request(server, "POST", "/admin/login", &cookie(&page), &body)
}

#[test]
fn password_sign_in_works_until_the_password_is_changed() {
    let sandbox = Sandbox::new();
    let made = piped(
        &sandbox,
        "users create --email ann@example.com --role admin --password-stdin",
        &format!("{PASSWORD}\n"),
    );
    assert_snapshot!(made, @"
    exit 0
    --- stdout
    ann@example.com joined main as admin and can sign in
    ");
    let server = serve(&sandbox, "");
    assert!(!server.log().contains("/admin/setup"), "there is an admin: {}", server.log());
    let signed = sign_in(&server, PASSWORD);
    assert_eq!(signed.status, 303, "{signed:?}");
    let session = cookie(&signed);
    let status = |cookie: &str| request(&server, "GET", "/admin", cookie, "").status;
    assert_eq!(status(&session), 200);
    // One session of two.
    let other = cookie(&sign_in(&server, PASSWORD));
    let sessions = sandbox.json("users sessions ann@example.com --json");
    let ids: Vec<_> = sessions.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(
        (ids.len(), &sessions[0]["method"], &sessions[0]["current"]),
        (2, &"password".into(), &false.into())
    );
    assert!(sandbox.ok("users sessions ann@example.com").stdout.contains("METHOD"));
    sandbox.ok(&format!("users sign-out ann@example.com --session {}", ids[0]));
    sandbox.fails(3, &format!("users sign-out ann@example.com --session {}", ids[0])).says("users sessions");
    let open = [&session, &other].into_iter().filter(|cookie| status(cookie) == 200).count();
    assert_eq!(open, 1);
    assert_snapshot!(sandbox.rmax("users sign-out ann@example.com"), @"
    exit 0
    --- stdout
    signed ann@example.com out everywhere; sessions ended: 1
    ");
    assert_eq!(status(&session), 303);
    assert_eq!(status(&other), 303);
    let session = cookie(&sign_in(&server, PASSWORD));
    assert_eq!(status(&session), 200);
    let new = "another horse, another staple";
    assert_snapshot!(piped(&sandbox, "users password ann@example.com --password-stdin", new), @"
    exit 0
    --- stdout
    changed the password of ann@example.com; they are signed out everywhere
    ");
    assert_eq!(status(&session), 303, "signed out everywhere");
    assert_eq!(sign_in(&server, PASSWORD).status, 401);
    assert_eq!(sign_in(&server, new).status, 303);
    let actions: Vec<Value> = sandbox.json("audit list --json").as_array().unwrap().clone();
    let of = |name: &str| actions.iter().filter(|entry| entry["action"] == name).count();
    assert_eq!((of("auth.sign_in"), of("auth.sign_out_everywhere"), of("user.password")), (4, 1, 2));
    sandbox.ok("audit verify");
    sandbox.ok("doctor");
    server.stop();
    for entry in actions {
        assert!(!entry.to_string().contains("argon2"), "{entry}");
    }
}

#[test]
fn member_can_be_invited_again() {
    let sandbox = Sandbox::new();
    let first = sandbox.ok("users create --email ann@example.com").stdout;
    let second = sandbox.ok("users invite ann@example.com");
    second.says("works once");
    assert!(second.stdout.contains("/admin/invite/") && second.stdout != first, "{second}");
    let invited = sandbox.json("users invite ann@example.com --json");
    assert!(invited["invite_url"].as_str().unwrap().contains("/admin/invite/"), "{invited}");
    assert_eq!(invited["email"], "ann@example.com");
    let log = sandbox.json("audit list --json");
    let actions = log.as_array().unwrap().iter().filter(|entry| entry["action"] == "user.invite").count();
    assert_eq!(actions, 2, "{log}");
    sandbox.ok("users suspend ann@example.com");
    sandbox.fails(7, "users invite ann@example.com").says("let them in again first");
    sandbox.fails(3, "users invite nobody@example.com");
}

#[test]
fn reset_sign_in_ends_everything_but_a_new_invitation() {
    let sandbox = Sandbox::new();
    piped(&sandbox, "users create --email ann@example.com --role admin --password-stdin", PASSWORD);
    let server = serve(&sandbox, "");
    let session = cookie(&sign_in(&server, PASSWORD));
    sandbox.ok("keys create --name ci --user ann@example.com");
    sandbox.fails(7, "users invite ann@example.com").says("reset their sign-in");
    sandbox.fails(2, "users reset-sign-in ann@example.com").says("--yes");
    let reset = sandbox.json("users reset-sign-in ann@example.com --yes --json");
    assert!(reset["invite_url"].as_str().unwrap().contains("/admin/invite/"), "{reset}");
    let ended =
        serde_json::json!({"sessions": 1, "password": true, "oidc": false, "keys": 1, "invitations": 0});
    assert_eq!(reset["ended"], ended);
    assert_eq!(request(&server, "GET", "/admin", &session, "").status, 303);
    assert_eq!(sign_in(&server, PASSWORD).status, 401);
    assert_eq!(sandbox.json("keys list --json")[0]["status"], "revoked");
    sandbox.ok("keys create --name kept --user ann@example.com");
    sandbox.ok("users reset-sign-in ann@example.com --keep-keys --yes");
    assert_eq!(sandbox.json("keys list --json")[0]["status"], "active");
    sandbox.ok("audit verify");
}

#[test]
fn invalid_password_is_rejected_with_a_reason() {
    let sandbox = Sandbox::new();
    sandbox.ok("users create --email ann@example.com");
    for (text, why) in [
        ("", "is empty"),
        ("short\n", "has fewer than 12 characters"),
        ("            \n", "has fewer than 12 characters"),
        ("   eleven char   \n", "has fewer than 12 characters"),
        (&"x".repeat(129), "has more than 128 characters"),
        (&"x".repeat(1 << 20), "has more than 128 characters"),
        ("with a \0 nul byte", "has control characters"),
        ("password1234", "is too easy to guess"),
        ("ann@example.com", "is too easy to guess"),
    ] {
        let refused = piped_unheard(&sandbox, "users password ann@example.com --password-stdin", text);
        assert_eq!(refused.code, Some(5), "{refused}");
        refused.says(why);
    }
    sandbox.fails(2, "users password ann@example.com").says("--password-stdin");
    sandbox.fails(3, "users password nobody@example.com --password-stdin");
    sandbox.fails(3, "users sign-out nobody@example.com");
    sandbox.ok("workspaces create own --preset platform");
    let refused =
        piped(&sandbox, "--workspace own users create --email eve@example.com --password-stdin", PASSWORD);
    assert_eq!(refused.code, Some(7), "{refused}");
    refused.says("does not accept passwords");
    assert_eq!(sandbox.json("--workspace own users list --json").as_array().unwrap().len(), 0);
}

/// The same for a command that may not read all of it.
fn piped_unheard(sandbox: &Sandbox, line: &str, text: &str) -> CommandOutput {
    let mut child = sandbox.command(line).stdin(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    sandbox.command_output(&child.wait_with_output().unwrap())
}

fn setup_path(log: &str) -> Option<String> {
    let (_, after) = log.split_once("/admin/setup?token=")?;
    let end = after.find(|letter: char| !letter.is_ascii_alphanumeric())?;
    Some(format!("/admin/setup?token={}", &after[..end]))
}

/// Hostile inputs, S31.
#[test]
fn server_without_an_admin_prints_a_setup_url() {
    let sandbox = Sandbox::new();
    let said = |server: &ServerProcess| {
        crate::support::raw_client::wait_until("it says where", || setup_path(&server.log()).is_some());
        setup_path(&server.log()).unwrap()
    };
    let server = serve(&sandbox, "");
    let voided = said(&server);
    server.stop();
    sandbox.write("rmax.toml", "[log]\nformat = \"json\"\n");
    let server = serve(&sandbox, "");
    let path = said(&server);
    for line in server.log().lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
    assert_ne!(path, voided, "each start prints another");
    assert_eq!(request(&server, "GET", &voided, "", "").status, 404);
    let opened = request(&server, "GET", &path, "", "");
    assert_eq!((opened.status, opened.location()), (303, Some("/admin/setup")), "{opened:?}");
    let page = request(&server, "GET", "/admin/setup", &cookie(&opened), "");
    let csrf = hidden(&page, "csrf");
    let password = PASSWORD.replace(' ', "+");
    let body = format!("csrf={csrf}&email=ann%40example.com&full_name=Ann&password={password}");
    let cookies = format!("{}; {}", cookie(&opened), cookie(&page));
    let done = request(&server, "POST", "/admin/setup", &cookies, &body);
    assert_eq!((done.status, done.location()), (303, Some("/admin")), "{done:?}");
    assert_eq!(request(&server, "GET", &path, "", "").status, 404);
    let (session, log) = (cookie(&done), server.log());
    for secret in [PASSWORD, session.split_once('=').unwrap().1, &csrf] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    server.stop();
    let server = serve(&sandbox, "");
    assert!(!server.log().contains("/admin/setup"), "{}", server.log());
    assert_eq!(sandbox.json("users list --json")[0]["role"], "admin");
    sandbox.ok("audit verify");
}

#[test]
fn refusals_are_logged_within_bounds_and_without_secrets() {
    let sandbox = Sandbox::new().with("RMAX_METRICS_LOOPBACK", "yes");
    piped(
        &sandbox,
        "users create --email ann@example.com --role admin --password-stdin",
        &format!("{PASSWORD}\n"),
    );
    let server = serve(&sandbox, "--threads 1");
    let wrong = "not my password at all";
    let statuses: Vec<u16> = (0..11).map(|_| sign_in(&server, wrong).status).collect();
    assert_eq!((statuses[0], statuses[10]), (401, 429), "{statuses:?}");
    let key = "rmx_aaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    for _ in 0..30 {
        let request = format!(
            "GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\r\n"
        );
        assert_eq!(send_request(server.address, request.as_bytes()).status, 401);
    }
    // A one-time address that is not good is a failed sign-in too.
    for path in ["/admin/setup?token=stolen", "/admin/invite/stolen"] {
        assert_eq!(request(&server, "GET", path, "", "").status, 404, "{path}");
    }
    let page = server.get("/metrics").body;
    for (reason, count) in [("sign_in", 12), ("lock_out", 1), ("credential", 30), ("rate_limit", 0)] {
        let line = format!("rlinks_refused_requests_total{{reason=\"{reason}\"}} {count}\n");
        assert!(page.contains(&line), "{line}\n{page}");
    }
    let log = server.log();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).collect::<Vec<_>>();
    assert_eq!(lines("a sign-in failed").len(), 10);
    assert_eq!(lines("a sign-in was refused after too many failures").len(), 1);
    let rejected = lines("an API key or token was rejected");
    assert_eq!(rejected.len(), 10, "of thirty, ten in a minute");
    assert!(rejected[0].contains("127.0.0.0/24") && !rejected[0].contains("127.0.0.1"), "{}", rejected[0]);
    for secret in [key, wrong, "bbbbbbbb", "ann@example.com", "stolen"] {
        assert!(!log.contains(secret), "{secret}\n{log}");
    }
    server.stop();
}
