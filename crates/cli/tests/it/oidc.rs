//! `oidc.*` in the configuration: what it may be, and that the secret is shown to nobody.

use insta::assert_snapshot;

use crate::support::sandbox::Sandbox;

const FILE: &str = r#"
[oidc]
issuer = "https://login.example.com/"
client_id = "rlinks"
client_secret = "hunter2"
audience = "rlinks-api"
algorithms = ["ES256", "EdDSA"]
scopes = ["email"]
redirect_uri = "https://links.example.com/admin/oidc/callback"
[[oidc.provision]]
workspace = "main"
role = "admin"
email_domain = "Example.com"
claim = "groups=links-admins"
[[oidc.provision]]
workspace = "main"
role = "viewer"
"#;

#[test]
fn printed_configuration_masks_the_client_secret() {
    let sandbox = Sandbox::new();
    sandbox.write("rmax.toml", FILE);
    let ran = sandbox.ok("serve --print-config");
    let lines: Vec<String> = ran
        .stdout
        .lines()
        .filter(|line| line.starts_with("oidc."))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_snapshot!(lines.join("\n"), @r#"
    oidc.issuer = "https://login.example.com/" # rmax.toml
    oidc.client_id = "rlinks" # rmax.toml
    oidc.client_secret = "***" # rmax.toml
    oidc.audience = "rlinks-api" # rmax.toml
    oidc.algorithms = ["ES256","EdDSA"] # rmax.toml
    oidc.scopes = ["email"] # rmax.toml
    oidc.redirect_uri = "https://links.example.com/admin/oidc/callback" # rmax.toml
    oidc.provision = [{ claim = "groups=links-admins", email_domain = "Example.com", role = "admin", workspace = "main" }, { role = "viewer", workspace = "main" }] # rmax.toml
    "#);
    // What is printed is a file that can be used, but for the secret.
    sandbox.write("printed.toml", &ran.stdout);
    assert_eq!(
        sandbox.ok("--config printed.toml serve --print-config --json").json()["settings"]["oidc.provision"]
            ["value"][1]["role"],
        "viewer"
    );
    for command in ["serve --print-config --json", "doctor", "links list"] {
        let ran = sandbox.rmax(command);
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{ran}");
    }
    let sandbox = Sandbox::new()
        .with("RMAX_OIDC_ISSUER", "http://127.0.0.1:9/realm")
        .with("RMAX_OIDC_CLIENT_ID", "rlinks")
        .with("RMAX_OIDC_CLIENT_SECRET", "hunter2")
        .with("RMAX_OIDC_ALGORITHMS", "RS256, PS256")
        .with("RMAX_OIDC_PROVISION", r#"[{"workspace":"main","role":"member"}]"#);
    let ran = sandbox.ok("serve --print-config --json");
    assert!(!ran.stdout.contains("hunter2"), "{ran}");
    assert_eq!(ran.json()["settings"]["oidc.client_secret"]["value"], "***");
    assert_eq!(ran.json()["settings"]["oidc.provision"]["value"][0]["role"], "member");
}

#[test]
fn invalid_oidc_settings_are_rejected_by_name() {
    let sandbox = Sandbox::new();
    let with = |lines: &str| format!("[oidc]\nissuer = \"https://a.example\"\nclient_id = \"x\"\n{lines}\n");
    for (file, message) in [
        ("oidc.client_id = \"x\"".to_owned(), "`oidc.client_id` is set and `oidc.issuer` is not"),
        (
            "oidc.issuer = \"https://a.example\"".to_owned(),
            "`oidc.issuer` is set and `oidc.client_id` is not",
        ),
        (
            "oidc.issuer = \"http://a.example\"".to_owned(),
            "`oidc.issuer` must be the address the provider calls itself by",
        ),
        ("oidc.issuer = \"https://u:hunter2@a.example\"".to_owned(), "`oidc.issuer` must be"),
        ("oidc.issuer = \"a.example\"".to_owned(), "`oidc.issuer` must be"),
        (with("algorithms = [\"HS256\"]"), "`oidc.algorithms` must be some of RS256"),
        (with("algorithms = [\"none\"]"), "`oidc.algorithms` must be some of RS256"),
        (with("algorithms = [\"rs256\"]"), "`oidc.algorithms` must be some of RS256"),
        (with("client_secret = 7"), "`oidc.client_secret` must be a text"),
        (with("audience = \"two words\""), "`oidc.audience` must be one word"),
        (
            with("redirect_uri = \"https://a.example/elsewhere\""),
            "`oidc.redirect_uri` must be a URL that ends in /admin/oidc/callback",
        ),
        (with("provision = \"main\""), "`oidc.provision` must be a list of tables"),
        (with("provision = [{role = \"admin\"}]"), "`oidc.provision` has a rule without `workspace`"),
        (with("provision = [{workspace = \"main\"}]"), "`oidc.provision` has a rule without `role`"),
        (
            with("provision = [{workspace = \"main\", role = \"owner\"}]"),
            "`oidc.provision` has a rule whose role is none of",
        ),
        (
            with("provision = [{workspace = \"Main!\", role = \"admin\"}]"),
            "`oidc.provision` has a rule whose workspace",
        ),
        (
            with("provision = [{workspace = \"main\", role = \"admin\", email = \"x\"}]"),
            "`oidc.provision` has a rule with `email`",
        ),
        (
            with("provision = [{workspace = \"main\", role = \"admin\", claim = \"groups\"}]"),
            "`oidc.provision` has a rule whose claim is not",
        ),
        (
            with("provision = [{workspace = \"main\", role = \"admin\", email_domain = \"a b\"}]"),
            "`oidc.provision` has a rule whose email_domain",
        ),
        (with("client_secrets = \"x\""), "did you mean `oidc.client_secret`?"),
    ] {
        sandbox.write("rmax.toml", &file);
        let ran = sandbox.fails(2, "links list");
        ran.says(message);
        assert!(!ran.stderr.contains("hunter2"), "{ran}");
    }
}

#[test]
fn doctor_reports_an_unreachable_provider() {
    // Nobody listens on the discard port.
    let sandbox =
        Sandbox::new().with("RMAX_OIDC_ISSUER", "http://127.0.0.1:9").with("RMAX_OIDC_CLIENT_ID", "rlinks");
    let ran = sandbox.rmax("doctor --json");
    let findings = ran.json();
    let finding = findings.as_array().unwrap().iter().find(|finding| finding["check"] == "oidc").unwrap();
    assert_eq!(finding["ok"], false, "{ran}");
    assert!(
        finding["message"].as_str().unwrap().starts_with("http://127.0.0.1:9: it cannot be reached"),
        "{ran}"
    );
}
