//! `rmax keys rotate-installation`.

use serde_json::Value;

use crate::support::raw_client::wait_until;
use crate::support::sandbox::Sandbox;
use crate::support::server_process::serve;

/// Row 21c.
#[test]
fn rotated_audit_key_keeps_earlier_checkpoints_verifiable() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set a https://example.com/a");
    sandbox.ok("audit export log.jsonl --checkpoint first");
    sandbox.ok("backup first.jsonl");
    let old = sandbox.read("rlinks-data/audit-key");
    let said = sandbox.json("--json keys rotate-installation audit");
    assert_eq!(said["former"][0], sandbox.fingerprint("first.jsonl").as_str());
    assert_ne!(sandbox.read("rlinks-data/audit-key"), old);
    sandbox.ok("links set b https://example.com/b");
    sandbox.ok("audit export log.jsonl --force --checkpoint second");
    let rotated = sandbox.ok("keys rotate-installation audit");
    assert!(rotated.stdout.starts_with("rotated the audit key"), "{rotated}");
    for checkpoint in ["", " --checkpoint first", " --checkpoint second"] {
        let ran = sandbox.ok(&format!("audit verify{checkpoint}"));
        assert_eq!(ran.stderr, "", "{checkpoint}: every key counts");
    }
    sandbox.ok("restore first.jsonl --force");
    sandbox.ok("audit verify");
    let entries = sandbox.json("audit list --json");
    assert!(entries.as_array().unwrap().iter().all(|entry| entry["action"] != "installation.rotate_key"));

    // It is in the log of `main`, by public keys.
    sandbox.ok("keys rotate-installation audit");
    let entry = &sandbox.json("audit list --json")[0];
    assert_eq!(
        (&entry["action"], &entry["subject"]),
        (&"installation.rotate_key".into(), &"installation:audit".into())
    );
    // The log in the data folder can be lost: a new key begins another one, and the store knows the statements too.
    std::fs::remove_file(sandbox.path("rlinks-data/audit-heads.log")).unwrap();
    sandbox.ok("keys rotate-installation audit");
    sandbox.ok("links set c https://example.com/c");
    let ran = sandbox.ok("audit verify --checkpoint first");
    assert!(!ran.stderr.contains("another installation"), "{ran}");
}

/// Row 21c.
#[test]
fn rotated_shared_keys_are_audited_and_noticed_by_a_running_server() {
    let sandbox = Sandbox::new();
    sandbox.ok("users create --email ann@example.com --role admin");
    let server = serve(&sandbox, "");
    let key = sandbox
        .ok("keys create --name test --scope workspace:admin --scope links:read")
        .stdout
        .trim()
        .to_owned();
    for code in ["a", "b", "c"] {
        sandbox.ok(&format!("links set {code} https://example.com/"));
    }
    let list = |cursor: &str| {
        let path = format!("/api/v1/links?limit=1{cursor}");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
        );
        crate::support::raw_client::send_request(server.address, request.as_bytes())
    };
    let cursor = || {
        let page: Value = serde_json::from_str(&list("").body).unwrap();
        page["next_cursor"].as_str().unwrap().to_owned()
    };
    let first = cursor();
    assert_eq!(list(&format!("&cursor={first}")).status, 200);
    // For an hour what the old key signed is accepted.
    let said = sandbox.json("--json keys rotate-installation cursor");
    assert!(said["previous_accepted_until"].is_string(), "{said}");
    wait_until("the server signs with the new key", || cursor() != first);
    assert_eq!(list(&format!("&cursor={first}")).status, 200);
    // Unless somebody else has it.
    let second = cursor();
    sandbox.ok("keys rotate-installation cursor --now");
    wait_until("nothing older is accepted", || list(&format!("&cursor={second}")).status == 400);
    assert_eq!(list(&format!("&cursor={first}")).status, 400);

    sandbox.ok("keys rotate-installation form");
    sandbox.ok("keys rotate-installation oidc");
    let entries = sandbox.json("audit list --json");
    let subjects: Vec<&str> = entries
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["action"] == "installation.rotate_key")
        .map(|entry| entry["subject"].as_str().unwrap())
        .collect();
    let expected = ["oidc", "form", "cursor", "cursor"].map(|key| format!("installation:{key}"));
    assert_eq!(subjects, expected);
    sandbox
        .fails(2, "keys rotate-installation audit --now")
        .says("--now is for the keys form, cursor and oidc");
    sandbox.fails(2, "keys rotate-installation other");
    sandbox.ok("audit verify");
    server.stop();
}
