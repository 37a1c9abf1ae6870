//! Custody of hosts: proof by DNS, names that lead away, registrations that end.

use std::sync::Arc;

use rlinks_core::{Host, Preset, Role, Workspace};
use rlinks_ops::WriteMode;
use rlinks_ops::domain_checks::run::{CheckRun, CheckedDomain, DomainCheckReport, RegistryChecks};
use rlinks_ops::domain_checks::{DomainCheckConfig, DomainChecker, ExpectedAddress};
use rlinks_server::Config;
use rlinks_store::clock::Random;
use serde_json::{Value, json};

use crate::support::database::{TestStore, contract};
use crate::support::domain_services::{StubBehavior, StubDns, StubRdap};
use crate::support::members::{ApiUser, TestServer, preset, with_configured_server};
use crate::support::raw_client::{Response, send_request, wait_until};
use crate::support::server::operator_in;

contract!(
    chain_of_own_links_has_three_hops_at_most,
    domain_is_served_once_verified,
    verified_host_is_a_loop_for_every_workspace_and_a_claimed_one_for_its_own,
    record_missing_for_72_hours_suspends_a_domain_until_it_returns,
    readded_domain_must_be_verified_again,
    unverified_claim_expires_and_yields_to_a_verified_one,
    dns_outage_suspends_no_domain,
    registration_expiry_is_reported_three_times,
    domain_pointing_elsewhere_is_reported,
);

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The outside world, and what a server is told of it.
struct DomainServices {
    dns: StubDns,
    rdap: StubRdap,
    options: DomainCheckConfig,
}

impl DomainServices {
    fn new() -> Arc<Self> {
        Self::leading_to(Vec::new())
    }

    fn leading_to(points_to: Vec<ExpectedAddress>) -> Arc<Self> {
        let (dns, rdap) = (StubDns::new(), StubRdap::new());
        let options = DomainCheckConfig {
            enabled: true,
            require_proof: true,
            resolver: Some(dns.address),
            rdap: Some(rdap.url().parse().unwrap()),
            points_to,
        };
        Arc::new(Self { dns, rdap, options })
    }

    /// Puts the record of a domain, as the API shows it, into DNS.
    fn prove(&self, domain: &Value) {
        let (name, value) = (&domain["proof"]["name"], &domain["proof"]["value"]);
        self.dns.set_records(name.as_str().unwrap(), "TXT", &["v=spf1 -all", value.as_str().unwrap()]);
    }

    fn custodian(&self) -> Arc<DomainChecker> {
        Arc::new(DomainChecker::new(&self.options, Random::system()).unwrap())
    }

    /// What another process does: `rmax domains check`, or the daily job of another node.
    fn round(&self, server: &TestServer) -> DomainCheckReport {
        server.runtime.block_on(async {
            let workspaces = &server.store().workspaces().await.unwrap()[..];
            let ops = &server.other_ops(|settings| settings.domain_checker = self.custodian());
            let (only, registries, mode) = (None, RegistryChecks::WhenDue, WriteMode::Apply);
            CheckRun { ops, workspaces, only, registry_checks: registries, mode }
                .run(server.now())
                .await
                .unwrap()
        })
    }
}

async fn with_domain_services(
    test_store: TestStore,
    services: &Arc<DomainServices>,
    test: impl FnOnce(TestServer, &DomainServices) + Send + 'static,
) {
    let (options, services) = (services.options.clone(), Arc::clone(services));
    let change = move |config: &mut Config| config.domain_checks = options;
    // Where the host of every server leads, whatever is configured.
    services.dns.set_records("rmax.to", "A", &["198.51.100.4"]);
    let run = move |server: TestServer| {
        let host = Host::parse("rmax.to").unwrap();
        let looked = || server.runtime.block_on(server.store().domain_record(&host)).unwrap().unwrap();
        wait_until("the daily job has looked", || looked().verification.registry_checked_at.is_some());
        test(server, &services);
    };
    with_configured_server(test_store, preset(Preset::Fabric), change, run).await;
}

fn visit(server: &TestServer, host: &str) -> Response {
    let head = format!("Host: {host}\r\nAccept: application/json\r\nConnection: close\r\n\r\n");
    send_request(server.address, format!("GET /x HTTP/1.1\r\n{head}").as_bytes())
}

/// A workspace with an admin and a link `x`.
fn tenant(server: &TestServer, slug: &str) -> (Workspace, ApiUser) {
    let workspace = server.workspace(slug, preset(Preset::Team), &[]);
    let admin = server.person(&workspace, Role::Admin);
    let target = format!("https://{slug}.example/");
    admin.post("/links", &json!({"code": "x", "target": target})).expect(201);
    (workspace, admin)
}

fn add(admin: &ApiUser, host: &str) -> Value {
    admin.post("/domains", &json!({ "host": host })).expect(201).json()
}

fn verify(admin: &ApiUser, host: &str) -> Value {
    admin.post(&format!("/domains/{host}/verify"), &json!({})).expect(200).json()
}

fn shown(admin: &ApiUser, host: &str) -> Value {
    let all = admin.get("/domains").expect(200).json();
    let found = all["data"].as_array().unwrap().iter().find(|domain| domain["host"] == host);
    found.unwrap_or_else(|| panic!("no {host} in {all:#}")).clone()
}

/// What the log says was done to domains, oldest first, and that it says the same as the rows.
fn told(server: &TestServer, workspace: &Workspace) -> Vec<String> {
    server.runtime.block_on(async {
        let store = server.store();
        let mut entries = store.audit_before(workspace.id, i64::MAX, 1000).await.unwrap();
        entries.reverse();
        let strangers = store.records_differing_from_log().await.unwrap();
        assert_eq!(strangers, [""; 0]);
        store.verify(&[]).await.unwrap().unwrap();
        entries.into_iter().map(|entry| entry.action).filter(|action| action.starts_with("domain.")).collect()
    })
}

/// Hostile inputs, S36.
async fn domain_is_served_once_verified(test_store: TestStore) {
    with_domain_services(test_store, &DomainServices::new(), |server, services| {
        let (acme, admin) = tenant(&server, "acme");
        let domain = add(&admin, "go.acme.example");
        assert_eq!(domain["state"], "unproven", "{domain:#}");
        assert_eq!(domain["proof"]["name"], "_rlinks.go.acme.example");
        assert_eq!(visit(&server, "go.acme.example").status, 404);
        assert_eq!(admin.get("/links/x").expect(200).json()["short_url"], Value::Null);
        // Something else is not the proof, nor is the proof somewhere else.
        services.dns.set_records("_rlinks.go.acme.example", "TXT", &["rlinks=0000"]);
        services.dns.set_records("go.acme.example", "TXT", &[domain["proof"]["value"].as_str().unwrap()]);
        assert_eq!(verify(&admin, "go.acme.example")["state"], "unproven");
        assert_eq!(visit(&server, "go.acme.example").status, 404);
        services.prove(&domain);
        let proven = verify(&admin, "go.acme.example");
        assert_eq!(proven["state"], "active", "{proven:#}");
        assert_eq!(visit(&server, "go.acme.example").header("location"), ["https://acme.example/"]);
        assert_eq!(admin.get("/links/x").expect(200).json()["short_url"], "https://go.acme.example/x");
        verify(&admin, "go.acme.example");
        assert_eq!(
            told(&server, &acme),
            ["domain.add", "domain.unproven", "domain.verify", "domain.points_away"]
        );
        // The operator's word needs none, and neither does that of `main`.
        let main = server.admin();
        assert_eq!(add(&main, "second.example")["state"], "active");
        assert_eq!(shown(&main, "second.example")["proof"], Value::Null);
        server.workspace("given", preset(Preset::Team), &["given.example"]);
        wait_until("the server knows it", || visit(&server, "given.example").body.contains("NOT_FOUND"));
        // Nobody learns of it: it is another's.
        let (_, other) = tenant(&server, "other");
        other.post("/domains/go.acme.example/verify", &json!({})).refused(404, "NOT_FOUND");
        other.post("/domains", &json!({"host": "go.acme.example"})).refused(409, "CONFLICT");
    })
    .await;
}

/// Hostile inputs, S4.
async fn verified_host_is_a_loop_for_every_workspace_and_a_claimed_one_for_its_own(test_store: TestStore) {
    with_domain_services(test_store, &DomainServices::new(), |server, services| {
        let (_, admin) = tenant(&server, "acme");
        let main = server.admin();
        let link = |code: &str, host: &str, no_loop: bool| json!({"code": code, "target": format!("https://{host}/back"), "no_loop": no_loop});
        let domain = add(&admin, "go.acme.example");
        main.post("/links", &link("claimed", "go.acme.example", true)).expect(201);
        services.prove(&domain);
        verify(&admin, "go.acme.example");
        assert_eq!(main.post("/links", &link("verified", "go.acme.example", true)).fields(), ["target: loop"]);
        // Where leading to each other is allowed, visitors still don't go round between two workspaces.
        admin.post("/links", &json!({"code": "back", "target": "https://rmax.to/there", "no_loop": false})).expect(201);
        let refused = main.post("/links", &link("there", "go.acme.example", false));
        assert_eq!(refused.fields(), ["target: loop"]);
        assert!(refused.answer.body.contains("in circles"), "{refused:?}");
        main.post("/links", &link("elsewhere", "go.acme.example", false)).expect(201);
    })
    .await;
}

/// Hostile inputs, S4.
async fn chain_of_own_links_has_three_hops_at_most(test_store: TestStore) {
    with_domain_services(test_store, &DomainServices::new(), |server, _| {
        let main = server.admin();
        let make = |code: &str, target: &str| {
            main.post("/links", &json!({"code": code, "target": target, "no_loop": false}))
        };
        make("end", "https://example.com/").expect(201);
        make("third", "https://rmax.to/end").expect(201);
        make("second", "https://rmax.to/third").expect(201);
        make("first", "https://rmax.to/second").expect(201);
        let refused = make("zeroth", "https://rmax.to/first");
        assert_eq!(refused.fields(), ["target: loop"]);
        assert!(refused.answer.body.contains("more than three"), "{refused:?}");
    })
    .await;
}

/// Hostile inputs, S36.
async fn record_missing_for_72_hours_suspends_a_domain_until_it_returns(test_store: TestStore) {
    with_domain_services(test_store, &DomainServices::new(), |server, services| {
        let (acme, admin) = tenant(&server, "acme");
        let domain = add(&admin, "go.acme.example");
        services.prove(&domain);
        services.dns.set_records("go.acme.example", "A", &["203.0.113.7"]);
        verify(&admin, "go.acme.example");
        let second = server.second(|_| ());
        let at_second = || {
            let head = "Host: go.acme.example\r\nAccept: application/json\r\nConnection: close\r\n\r\n";
            send_request(second.address, format!("GET /x HTTP/1.1\r\n{head}").as_bytes()).status
        };
        wait_until("the other node knows it", || at_second() == 302);
        services.dns.set_records("_rlinks.go.acme.example", "TXT", &[]);
        services.round(&server);
        server.advance_ms(71 * HOUR_MS);
        services.round(&server);
        assert_eq!(visit(&server, "go.acme.example").status, 302);
        let warned = shown(&admin, "go.acme.example");
        assert!(warned["warning"].as_str().unwrap().contains("1 more hour"), "{warned:#}");
        server.advance_ms(2 * HOUR_MS);
        let found = services.round(&server);
        assert_eq!(found.changed().count(), 1, "{found:#?}");
        wait_until("it answers no more", || visit(&server, "go.acme.example").status == 404);
        wait_until("nor at the other node", || at_second() == 404);
        assert_eq!(shown(&admin, "go.acme.example")["state"], "suspended");
        services.round(&server);
        services.prove(&domain);
        services.round(&server);
        wait_until("it answers again", || visit(&server, "go.acme.example").status == 302);
        assert_eq!(
            told(&server, &acme),
            ["domain.add", "domain.unproven", "domain.verify", "domain.suspend", "domain.resume"]
        );
    })
    .await;
}

/// Hostile inputs, S36.
async fn readded_domain_must_be_verified_again(test_store: TestStore) {
    with_domain_services(test_store, &DomainServices::new(), |server, services| {
        let ((_, first), (_, second)) = (tenant(&server, "first"), tenant(&server, "second"));
        let host = "shared.example";
        let domain = add(&first, host);
        services.prove(&domain);
        verify(&first, host);
        assert_eq!(visit(&server, host).header("location"), ["https://first.example/"]);
        // The same workspace: its record is still there, and is looked for.
        first.delete(&format!("/domains/{host}")).expect(204);
        assert_eq!(add(&first, host)["state"], "unproven");
        assert_eq!(visit(&server, host).status, 404);
        assert_eq!(verify(&first, host)["state"], "active");
        // Another one: the record that is there is not its own.
        first.delete(&format!("/domains/{host}")).expect(204);
        let other = add(&second, host);
        assert_ne!(other["proof"], domain["proof"]);
        assert_eq!(verify(&second, host)["state"], "unproven");
        assert_eq!(visit(&server, host).status, 404);
        services.prove(&other);
        assert_eq!(verify(&second, host)["state"], "active");
        assert_eq!(visit(&server, host).header("location"), ["https://second.example/"]);
    })
    .await;
}

/// Hostile inputs, S36.
async fn unverified_claim_expires_and_yields_to_a_verified_one(test_store: TestStore) {
    with_domain_services(test_store, &DomainServices::new(), |server, services| {
        let ((squat, squatter), (owns, owner)) = (tenant(&server, "squatter"), tenant(&server, "owner"));
        add(&squatter, "forgotten.example");
        add(&squatter, "wanted.example");
        let refused = owner.post("/domains", &json!({"host": "wanted.example"}));
        let record = refused.refused(409, "CONFLICT");
        services.prove(&record);
        let mine = add(&owner, "wanted.example");
        assert_eq!(mine["state"], "active", "{mine:#}");
        assert_eq!(visit(&server, "wanted.example").header("location"), ["https://owner.example/"]);
        // What is proven is not for the taking, whoever else is named too.
        squatter.post("/domains", &json!({"host": "wanted.example"})).refused(409, "CONFLICT");
        server.advance_ms(71 * HOUR_MS);
        services.round(&server);
        shown(&squatter, "forgotten.example");
        server.advance_ms(2 * HOUR_MS);
        services.round(&server);
        let left = squatter.get("/domains").expect(200).json();
        assert_eq!(left["data"], json!([]), "{left:#}");
        add(&owner, "forgotten.example");
        assert_eq!(
            told(&server, &squat),
            [
                "domain.add",
                "domain.unproven",
                "domain.add",
                "domain.unproven",
                "domain.remove",
                "domain.remove"
            ]
        );
        let first: Vec<_> = told(&server, &owns).into_iter().take(3).collect();
        assert_eq!(first, ["domain.add", "domain.unproven", "domain.verify"]);
    })
    .await;
}

/// Hostile inputs, S36.
async fn dns_outage_suspends_no_domain(test_store: TestStore) {
    with_domain_services(test_store, &DomainServices::new(), |server, services| {
        let (acme, admin) = tenant(&server, "acme");
        let domain = add(&admin, "go.acme.example");
        services.prove(&domain);
        services.dns.set_records("go.acme.example", "A", &["203.0.113.7"]);
        verify(&admin, "go.acme.example");
        add(&admin, "waits.example");
        // It is seen to be missing once, and then nobody can say.
        services.dns.set_records("_rlinks.go.acme.example", "TXT", &[]);
        services.round(&server);
        for manner in
            [StubBehavior::ServFail, StubBehavior::Refused, StubBehavior::Referral, StubBehavior::Garbage]
        {
            services.dns.set_behavior(manner);
            server.advance_ms(100 * HOUR_MS);
            let found = services.round(&server);
            assert!(found.dns_error.is_some(), "{manner:?}: {found:#?}");
            assert_eq!(found.changed().count(), 0, "{manner:?}: {found:#?}");
            admin.post("/domains/waits.example/verify", &json!({})).refused(503, "KV_UNAVAILABLE");
        }
        services.rdap.set_behavior(Some(503));
        server.advance_ms(8 * DAY_MS);
        assert!(services.round(&server).registry_error.is_some());
        assert_eq!(shown(&admin, "go.acme.example")["state"], "active");
        assert_eq!(shown(&admin, "waits.example")["state"], "unproven");
        assert_eq!(visit(&server, "go.acme.example").status, 302);
        services.dns.set_behavior(StubBehavior::Well);
        services.prove(&domain);
        services.round(&server);
        assert_eq!(visit(&server, "go.acme.example").status, 302);
        let mut told = told(&server, &acme);
        told.retain(|action| action != "domain.points_away");
        assert_eq!(told.len(), 6, "{told:?}");
        assert_eq!(told.last().unwrap(), "domain.remove", "nobody proved the one that waited");
    })
    .await;
}

/// Hostile inputs, S36.
async fn registration_expiry_is_reported_three_times(test_store: TestStore) {
    with_domain_services(test_store, &DomainServices::new(), |server, services| {
        let main = server.admin();
        add(&main, "go.acme.example");
        add(&main, "links.acme.example");
        for host in ["go.acme.example", "links.acme.example"] {
            services.dns.set_records(host, "A", &["203.0.113.7"]);
        }
        let end = server.now().plus_ms(100 * DAY_MS);
        services.rdap.register("acme.example", &end.to_string());
        let mut days = Vec::new();
        let mut at = 100;
        for left in [100, 61, 59, 58, 29, 28, 6, 5] {
            server.advance_ms((at - left) * DAY_MS);
            at = left;
            let found = services.round(&server);
            days.extend(
                found.changed().map(|looked| (left, looked.host.to_string(), looked.changes.clone())),
            );
        }
        let expected = |left: i64, host: &str| {
            let change = format!("its registration ends in {left} days, on {}", &end.to_string()[..10]);
            (left, host.to_owned(), vec![change])
        };
        let both = |left| ["go.acme.example", "links.acme.example"].map(|host| expected(left, host));
        assert_eq!(days, [both(59), both(29), both(6)].concat());
        let domain = shown(&main, "go.acme.example");
        assert_eq!(domain["expires_on"], end.to_string()[..10], "{domain:#}");
        assert!(domain["warning"].as_str().unwrap().contains("in 5 days"), "{domain:#}");
        assert_eq!(
            told(&server, &server.main).iter().filter(|action| *action == "domain.expiring").count(),
            6
        );
        let entries = main.get("/audit").expect(200).json();
        let last = &entries["data"][0];
        assert_eq!((&last["action"], &last["actor"]), (&json!("domain.expiring"), &json!("system")));
        assert_eq!(last["after"]["days"], 6, "{last:#}");
        // Renewed, there is nothing to tell, and a registry that is asked has had enough of us after a while.
        services.rdap.register("acme.example", &server.now().plus_ms(700 * DAY_MS).to_string());
        assert_eq!(services.round(&server).changed().count(), 0);
        assert_eq!(shown(&main, "go.acme.example")["warning"], Value::Null);
        let asked = services.rdap.asked();
        server.advance_ms(DAY_MS);
        services.round(&server);
        assert_eq!(services.rdap.asked(), asked, "once a week is enough while the end is far");
    })
    .await;
}

/// Hostile inputs, S36.
async fn domain_pointing_elsewhere_is_reported(test_store: TestStore) {
    let here = ExpectedAddress::Name(Host::parse("edge.rmax.example").unwrap());
    let services =
        DomainServices::leading_to(vec![here, ExpectedAddress::Address("198.51.100.4".parse().unwrap())]);
    with_domain_services(test_store, &services, |server, services| {
        let main = server.admin();
        services.dns.set_records("edge.rmax.example", "A", &["198.51.100.1"]);
        for host in ["cname.example", "fixed.example", "gone.example", "dangling.example", "moved.example"] {
            add(&main, host);
        }
        services.dns.set_records("cname.example", "CNAME", &["edge.rmax.example"]);
        services.dns.set_records("fixed.example", "A", &["198.51.100.4"]);
        services.dns.set_records("dangling.example", "CNAME", &["old-bucket.cloud.example"]);
        services.dns.set_records("moved.example", "A", &["192.0.2.66"]);
        // Too much for UDP is asked for again.
        services.dns.set_behavior(StubBehavior::Truncated);
        let found = services.round(&server);
        assert!(services.dns.asked_by_tcp() > 0);
        let told_of = |found: &DomainCheckReport| -> Vec<(String, String)> {
            let pair = |looked: &CheckedDomain| (looked.host.to_string(), looked.changes.join("; "));
            found.changed().map(pair).collect()
        };
        let away = [
            ("dangling.example", "its CNAME leads to old-bucket.cloud.example, which has no address"),
            ("gone.example", "its name has no address"),
            ("moved.example", "its name leads to 192.0.2.66, which is not here"),
        ];
        assert_eq!(told_of(&found), away.map(|(host, why)| (host.to_owned(), why.to_owned())));
        assert_eq!(told_of(&services.round(&server)), [], "once is enough");
        // It is a warning: whoever comes by another way still gets the link.
        main.post("/links", &json!({"code": "x", "target": "https://acme.example/"})).expect(201);
        assert_eq!(visit(&server, "moved.example").status, 301);
        services.dns.set_records("moved.example", "A", &["198.51.100.4"]);
        let back = ("moved.example".to_owned(), "its name leads here again".to_owned());
        assert_eq!(told_of(&services.round(&server)), [back]);
        let told = told(&server, &server.main);
        let count = |wanted: &str| told.iter().filter(|action| *action == wanted).count();
        assert_eq!((count("domain.points_away"), count("domain.points_here")), (3, 1));
    })
    .await;
}

#[test]
fn daily_job_checks_domains_and_main_does_not_serve_unverified_ones() {
    let services = DomainServices::new();
    let test_store = TestStore::sqlite();
    let options = services.options.clone();
    let server =
        TestServer::at(test_store, preset(Preset::Fabric), move |config| config.domain_checks = options);
    let main = server.admin();
    // It looked when it started, at what was there then.
    wait_until("the daily job has looked", || shown(&main, "rmax.to")["checked_at"] != Value::Null);
    main.post("/links", &json!({"code": "x", "target": "https://main.example/"})).expect(201);
    let (acme, admin) = tenant(&server, "acme");
    add(&admin, "go.acme.example");
    main.delete("/domains/rmax.to").expect(204);
    assert_eq!(visit(&server, "anywhere.example").status, 301, "`main` answers where nobody else does");
    assert_eq!(visit(&server, "go.acme.example").status, 404, "but not for somebody who waits");
    // The operator's word is enough.
    let seen = server
        .runtime
        .block_on(server.ops.domain_record(&acme, &Host::parse("go.acme.example").unwrap()))
        .unwrap();
    let by = operator_in(&server.main);
    server.runtime.block_on(server.store().trust_domain(&seen, &by.actor, server.now())).unwrap();
    wait_until("it answers", || visit(&server, "go.acme.example").status == 302);
    assert_eq!(told(&server, &acme), ["domain.add", "domain.unproven", "domain.trust"]);
}

/// Hostile inputs, S43.
#[test]
fn dns_checks_of_member_and_workspace_are_limited_per_hour() {
    let services = DomainServices::new();
    let options = services.options.clone();
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), move |config| {
        config.domain_checks = options;
        config.resource_limits.dns_checks_per_hour = Some(1);
    });
    let (workspace, admin) = tenant(&server, "tenant");
    add(&admin, "go.example");
    let check = |by: &ApiUser| by.post("/domains/go.example/verify", &json!({}));
    let second = server.key(&workspace, admin.user.as_ref(), Role::Admin.scopes());
    check(&admin).expect(200);
    for by in [&admin, &second] {
        let refused = check(by);
        refused.refused(429, "RATE_LIMITED");
        let error = refused.json();
        assert!(error.to_string().contains("`limits.dns_checks_per_hour`"), "{error}");
        assert_eq!(refused.header("retry-after"), Some("3600"));
    }
    let others: Vec<_> = (0..10).map(|_| server.person(&workspace, Role::Admin)).collect();
    for other in &others[..9] {
        check(other).expect(200);
    }
    check(&others[9]).refused(429, "RATE_LIMITED");
    let (_, stranger) = tenant(&server, "other");
    add(&stranger, "their.example");
    verify(&stranger, "their.example");
    server.advance_ms(HOUR_MS);
    check(&others[9]).expect(200);
}
