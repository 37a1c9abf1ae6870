//! Hosts as the operator looks after them: `rmax domains check` and `verify`, and what the others say of it.

use insta::assert_snapshot;
use rlinks_core::Timestamp;
use rlinks_store::clock::Clock;

use crate::support::domain_services::{StubBehavior, StubDns, StubRdap};
use crate::support::raw_client::{send_request, wait_until};
use crate::support::sandbox::Sandbox;
use crate::support::server_process::serve;

const DAY_MS: i64 = 24 * 3_600_000;

fn in_days(days: i64) -> Timestamp {
    Clock::system().now().plus_ms(days * DAY_MS + DAY_MS / 2)
}

fn asking(dns: &StubDns, rdap: &StubRdap) -> Sandbox {
    Sandbox::new()
        .with("RMAX_DOMAIN_CHECKS_ENABLED", "true")
        .with("RMAX_DOMAIN_CHECKS_PROOF", "true")
        .with("RMAX_DOMAIN_CHECKS_RESOLVER", &dns.address.to_string())
        .with("RMAX_DOMAIN_CHECKS_RDAP", &rdap.url())
}

#[test]
fn domains_check_reports_dns_and_registration_problems() {
    let (dns, rdap) = (StubDns::new(), StubRdap::new());
    let sandbox = asking(&dns, &rdap);
    sandbox.ok("domains add go.rmax.example");
    sandbox.ok("domains add dangling.example");
    dns.set_records("go.rmax.example", "A", &["203.0.113.7"]);
    dns.set_records("dangling.example", "CNAME", &["nobody.example"]);
    let end = in_days(20).to_string();
    rdap.register("rmax.example", &end);
    let day = end[..10].to_owned();
    let dated = |text: String| text.replace(&day, "<day>");
    assert_snapshot!(dated(sandbox.rmax("domains check").to_string()), @"
    exit 0
    --- stdout
    dangling.example (workspace main): active, its CNAME leads to nobody.example, which has no address
    go.rmax.example (workspace main): active, its registration ends in 20 days, on <day>
    ");
    assert_snapshot!(dated(sandbox.rmax("domains list").to_string()), @"
    exit 0
    --- stdout
    HOST              WORKSPACE  PRIMARY  STATE   EXPIRES     CONCERN
    dangling.example  main                active              its CNAME leads to nobody.example, which has no address
    go.rmax.example   main       primary  active  <day>  its registration ends in 20 days, on <day>
    ");
    let doctor = sandbox.rmax("doctor");
    assert_eq!(doctor.code, Some(1), "{doctor}");
    assert!(doctor.stdout.contains("go.rmax.example: its registration ends in 20 days"), "{doctor}");
    assert!(doctor.stdout.contains("dangling.example: its CNAME leads to nobody.example"), "{doctor}");
    sandbox.ok("audit verify");
    // The daily job by hand has nothing new to say of them, and one that is asked for by name is looked at alone.
    assert_eq!(sandbox.ok("sweep").stdout, "nothing to do\n");
    let one = sandbox.json("domains check dangling.example --json");
    assert_eq!(one["domains"].as_array().unwrap().len(), 1, "{one:#}");
    sandbox.fails(3, "domains check nobody.example").says("there is no domain `nobody.example`");
    // What cannot be asked is said, and changes nothing.
    dns.set_behavior(StubBehavior::ServFail);
    rdap.set_behavior(Some(429));
    let ran = sandbox.ok("domains check");
    assert!(ran.stderr.contains("SERVFAIL") && ran.stderr.contains("the registry answered 429"), "{ran}");
    sandbox.fails(6, "domains verify go.rmax.example").says("SERVFAIL");
    rdap.set_behavior(None);
    dns.set_behavior(StubBehavior::Well);
    rdap.register("rmax.example", &in_days(700).to_string());
    dns.set_records("nobody.example", "A", &["203.0.113.7"]);
    assert!(sandbox.ok("domains check").stdout.contains("its name leads here again"));
    sandbox.ok("doctor");
}

#[test]
fn tenant_domain_is_served_after_dns_proof_or_operator_approval() {
    let (dns, rdap) = (StubDns::new(), StubRdap::new());
    let sandbox = asking(&dns, &rdap);
    sandbox.ok("domains add rmax.to");
    sandbox.ok("workspaces create crew --preset team");
    sandbox.ok("--workspace crew links set x https://example.com/crew");
    let made = sandbox.json(
        "--workspace crew keys create --name admin --scope links:read,links:write,workspace:admin --json",
    );
    let server = serve(&sandbox, "");
    let remote = Sandbox::new()
        .with("RMAX_SERVER", &format!("http://{}", server.address))
        .with("RMAX_API_KEY", made["key"].as_str().unwrap());
    let visit = |host: &str| {
        let head = format!("Host: {host}\r\nAccept: application/json\r\nConnection: close\r\n\r\n");
        send_request(server.address, format!("GET /x HTTP/1.1\r\n{head}").as_bytes()).status
    };
    let added = remote.ok("domains add go.crew.example");
    assert_eq!(
        added.stdout,
        "added go.crew.example: of workspace crew, its primary domain, unproven: it does not answer\n"
    );
    let domain = remote.json("domains list --json")[0].clone();
    let (name, value) =
        (domain["proof"]["name"].as_str().unwrap(), domain["proof"]["value"].as_str().unwrap());
    added.says(&format!("set the TXT record {name} to {value}, then `rmax domains verify go.crew.example`"));
    assert_eq!(visit("go.crew.example"), 404);
    let explained = sandbox.json("explain https://go.crew.example/x --json");
    assert!(explained.to_string().contains("waits for its proof"), "{explained:#}");
    dns.set_records(name, "TXT", &[value]);
    assert_snapshot!(remote.rmax("domains verify go.crew.example"), @"
    exit 0
    --- stdout
    looked at go.crew.example: answered by workspace crew, its primary domain
    ");
    assert_eq!(visit("go.crew.example"), 302);
    // Where there is no record to come, the operator can say so.
    remote.ok("domains add second.example");
    assert_snapshot!(sandbox.rmax("--workspace crew domains add second.example"), @"
    exit 0
    --- stdout
    trusted second.example: answered by workspace crew
    ");
    wait_until("the server knows", || visit("second.example") == 302);
    sandbox.ok("audit verify");
    sandbox.ok("--workspace crew domains verify go.crew.example");
    remote.fails(2, "domains check");
}

#[test]
fn domain_checks_are_off_by_default() {
    let sandbox = Sandbox::new();
    sandbox.ok("domains add rmax.to");
    assert_snapshot!(sandbox.rmax("domains check"), @"
    exit 2
    --- stderr
    error: nobody is asked about hosts: `domain_checks.enabled` is not set
    hint: set `domain_checks.enabled = true` in rmax.toml, or RMAX_DOMAIN_CHECKS_ENABLED=true
    ");
    sandbox.ok("domains verify rmax.to");
    sandbox.ok("sweep");
    sandbox.write("rmax.toml", "[domain_checks]\nproof = true\n");
    assert_snapshot!(sandbox.rmax("domains list"), @"
    exit 2
    --- stderr
    error: `domain_checks.proof` is on and `domain_checks.enabled` is not: nobody would look for a proof
    hint: set `domain_checks.enabled = true` as well
    ");
    for (text, says) in [
        ("resolvr = \"192.0.2.1\"", "did you mean `domain_checks.resolver`?"),
        ("resolver = \"nobody\"", "must be an address"),
        ("rdap = \"ftp://rdap.example/\"", "must be an address like https://rdap.org/"),
        ("points_to = [\"a b\"]", "has spaces"),
        ("enabled = \"perhaps\"", "must be true or false"),
    ] {
        sandbox.write("rmax.toml", &format!("[domain_checks]\n{text}\n"));
        sandbox.fails(2, "domains list").says(says);
    }
    let whole = "enabled = true\nproof = true\nresolver = \"192.0.2.1\"\nrdap = \"https://rdap.example\"\npoints_to = [\"go.example.com\", \"192.0.2.7\"]\n";
    sandbox.write("rmax.toml", &format!("[domain_checks]\n{whole}"));
    let shown = sandbox.ok("serve --print-config").stdout;
    let shown: Vec<&str> = shown.lines().filter(|line| line.starts_with("domain_checks")).collect();
    assert_eq!(shown.len(), 5, "{shown:#?}");
}
