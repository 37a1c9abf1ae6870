//! Custody of hosts: proof by DNS, names that lead away, registrations that end.

pub(crate) mod stand_in;

use std::sync::Arc;

use rlinks_core::{Host, Preset, Role, Workspace};
use rlinks_ops::domain_checks::run::{CheckRun, CheckedDomain, DomainCheckReport, RegistryChecks};
use rlinks_ops::domain_checks::{DomainCheckConfig, DomainChecker, ExpectedAddress};
use rlinks_ops::{Requester, WriteMode};
use rlinks_server::Config;
use serde_json::{Value, json};

use self::stand_in::{Dns, Manner, Rdap};
use super::house::{House, Person, in_house_with, preset};
use crate::client::{Answer, ask, wait_until};
use crate::database::{Place, contract};
use crate::support::operator;

contract!(
    s36_a_host_answers_once_it_is_proven,
    s36_a_proof_that_is_gone_for_72_hours_ends_the_answers_until_it_is_back,
    s36_who_adds_a_host_anew_proves_it_anew,
    s36_a_claim_nobody_proves_ends_and_who_can_prove_it_has_it_at_once,
    s36_an_outage_suspends_nobody,
    s36_the_end_of_a_registration_is_told_three_times,
    s36_a_name_that_leads_away_is_told,
);

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The outside world, and what a server is told of it.
struct World {
    dns: Dns,
    rdap: Rdap,
    options: DomainCheckConfig,
}

impl World {
    fn new() -> Arc<Self> {
        Self::leading_to(Vec::new())
    }

    fn leading_to(points_to: Vec<ExpectedAddress>) -> Arc<Self> {
        let (dns, rdap) = (Dns::new(), Rdap::new());
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
        self.dns.say(name.as_str().unwrap(), "TXT", &["v=spf1 -all", value.as_str().unwrap()]);
    }

    fn custodian(&self) -> Arc<DomainChecker> {
        Arc::new(DomainChecker::new(&self.options).unwrap())
    }

    /// What another process does: `rmax domains check`, or the daily job of another node.
    fn round(&self, house: &House) -> DomainCheckReport {
        house.runtime.block_on(async {
            let (store, workspaces) = (house.store(), house.store().workspaces().await.unwrap());
            let (custodian, workspaces) = (&self.custodian(), &workspaces[..]);
            let (only, registries, mode) = (None, RegistryChecks::WhenDue, WriteMode::Apply);
            CheckRun { store, checker: custodian, workspaces, only, registry_checks: registries, mode }
                .run(house.now())
                .await
                .unwrap()
        })
    }
}

async fn in_world(place: Place, world: &Arc<World>, test: impl FnOnce(House, &World) + Send + 'static) {
    let (options, world) = (world.options.clone(), Arc::clone(world));
    let change = move |config: &mut Config| config.domain_checks = options;
    // Where the host of every house leads, whatever is configured.
    world.dns.say("rmax.to", "A", &["198.51.100.4"]);
    let run = move |house: House| {
        let host = Host::parse("rmax.to").unwrap();
        let looked = || house.runtime.block_on(house.store().domain_record(&host)).unwrap().unwrap();
        wait_until("the daily job has looked", || looked().verification.registry_checked_at.is_some());
        test(house, &world);
    };
    in_house_with(place, preset(Preset::Fabric), change, run).await;
}

fn visit(house: &House, host: &str) -> Answer {
    let head = format!("Host: {host}\r\nAccept: application/json\r\nConnection: close\r\n\r\n");
    ask(house.address, format!("GET /x HTTP/1.1\r\n{head}").as_bytes())
}

/// A workspace with an admin and a link `x`.
fn tenant(house: &House, slug: &str) -> (Workspace, Person) {
    let workspace = house.workspace(slug, preset(Preset::Team), &[]);
    let admin = house.person(&workspace, Role::Admin);
    let target = format!("https://{slug}.example/");
    admin.post("/links", &json!({"code": "x", "target": target})).expect(201);
    (workspace, admin)
}

fn add(admin: &Person, host: &str) -> Value {
    admin.post("/domains", &json!({ "host": host })).expect(201).json()
}

fn verify(admin: &Person, host: &str) -> Value {
    admin.post(&format!("/domains/{host}/verify"), &json!({})).expect(200).json()
}

fn shown(admin: &Person, host: &str) -> Value {
    let all = admin.get("/domains").expect(200).json();
    let found = all["data"].as_array().unwrap().iter().find(|domain| domain["host"] == host);
    found.unwrap_or_else(|| panic!("no {host} in {all:#}")).clone()
}

/// What the log says was done to domains, oldest first, and that it says the same as the rows.
fn told(house: &House, workspace: &Workspace) -> Vec<String> {
    house.runtime.block_on(async {
        let store = house.store();
        let mut entries = store.audit_before(workspace.id, i64::MAX, 1000).await.unwrap();
        entries.reverse();
        let strangers = store.records_differing_from_log().await.unwrap();
        assert_eq!(strangers, [""; 0]);
        store.verify(&[]).await.unwrap().unwrap();
        entries.into_iter().map(|entry| entry.action).filter(|action| action.starts_with("domain.")).collect()
    })
}

async fn s36_a_host_answers_once_it_is_proven(place: Place) {
    in_world(place, &World::new(), |house, world| {
        let (acme, admin) = tenant(&house, "acme");
        let domain = add(&admin, "go.acme.example");
        assert_eq!(domain["state"], "unproven", "{domain:#}");
        assert_eq!(domain["proof"]["name"], "_rlinks.go.acme.example");
        assert_eq!(visit(&house, "go.acme.example").status, 404);
        assert_eq!(admin.get("/links/x").expect(200).json()["short_url"], Value::Null);
        // Something else is not the proof, nor is the proof somewhere else.
        world.dns.say("_rlinks.go.acme.example", "TXT", &["rlinks=0000"]);
        world.dns.say("go.acme.example", "TXT", &[domain["proof"]["value"].as_str().unwrap()]);
        assert_eq!(verify(&admin, "go.acme.example")["state"], "unproven");
        assert_eq!(visit(&house, "go.acme.example").status, 404);
        world.prove(&domain);
        let proven = verify(&admin, "go.acme.example");
        assert_eq!(proven["state"], "active", "{proven:#}");
        assert_eq!(visit(&house, "go.acme.example").header("location"), ["https://acme.example/"]);
        assert_eq!(admin.get("/links/x").expect(200).json()["short_url"], "https://go.acme.example/x");
        verify(&admin, "go.acme.example");
        assert_eq!(
            told(&house, &acme),
            ["domain.add", "domain.unproven", "domain.verify", "domain.points_away"]
        );
        // The operator's word needs none, and neither does that of `main`.
        let main = house.admin();
        assert_eq!(add(&main, "second.example")["state"], "active");
        assert_eq!(shown(&main, "second.example")["proof"], Value::Null);
        house.workspace("given", preset(Preset::Team), &["given.example"]);
        wait_until("the server knows it", || visit(&house, "given.example").body.contains("NOT_FOUND"));
        // Nobody learns of it: it is another's.
        let (_, other) = tenant(&house, "other");
        other.post("/domains/go.acme.example/verify", &json!({})).refused(404, "NOT_FOUND");
        other.post("/domains", &json!({"host": "go.acme.example"})).refused(409, "CONFLICT");
    })
    .await;
}

async fn s36_a_proof_that_is_gone_for_72_hours_ends_the_answers_until_it_is_back(place: Place) {
    in_world(place, &World::new(), |house, world| {
        let (acme, admin) = tenant(&house, "acme");
        let domain = add(&admin, "go.acme.example");
        world.prove(&domain);
        world.dns.say("go.acme.example", "A", &["203.0.113.7"]);
        verify(&admin, "go.acme.example");
        let second = house.second(|_| ());
        let at_second = || {
            let head = "Host: go.acme.example\r\nAccept: application/json\r\nConnection: close\r\n\r\n";
            ask(second.address, format!("GET /x HTTP/1.1\r\n{head}").as_bytes()).status
        };
        wait_until("the other node knows it", || at_second() == 302);
        world.dns.say("_rlinks.go.acme.example", "TXT", &[]);
        world.round(&house);
        house.advance_ms(71 * HOUR_MS);
        world.round(&house);
        assert_eq!(visit(&house, "go.acme.example").status, 302);
        let warned = shown(&admin, "go.acme.example");
        assert!(warned["warning"].as_str().unwrap().contains("1 more hour"), "{warned:#}");
        house.advance_ms(2 * HOUR_MS);
        let found = world.round(&house);
        assert_eq!(found.changed().count(), 1, "{found:#?}");
        wait_until("it answers no more", || visit(&house, "go.acme.example").status == 404);
        wait_until("nor at the other node", || at_second() == 404);
        assert_eq!(shown(&admin, "go.acme.example")["state"], "suspended");
        world.round(&house);
        world.prove(&domain);
        world.round(&house);
        wait_until("it answers again", || visit(&house, "go.acme.example").status == 302);
        assert_eq!(
            told(&house, &acme),
            ["domain.add", "domain.unproven", "domain.verify", "domain.suspend", "domain.resume"]
        );
    })
    .await;
}

async fn s36_who_adds_a_host_anew_proves_it_anew(place: Place) {
    in_world(place, &World::new(), |house, world| {
        let ((_, first), (_, second)) = (tenant(&house, "first"), tenant(&house, "second"));
        let host = "shared.example";
        let domain = add(&first, host);
        world.prove(&domain);
        verify(&first, host);
        assert_eq!(visit(&house, host).header("location"), ["https://first.example/"]);
        // The same workspace: its record is still there, and is looked for.
        first.delete(&format!("/domains/{host}")).expect(204);
        assert_eq!(add(&first, host)["state"], "unproven");
        assert_eq!(visit(&house, host).status, 404);
        assert_eq!(verify(&first, host)["state"], "active");
        // Another one: the record that is there is not its own.
        first.delete(&format!("/domains/{host}")).expect(204);
        let other = add(&second, host);
        assert_ne!(other["proof"], domain["proof"]);
        assert_eq!(verify(&second, host)["state"], "unproven");
        assert_eq!(visit(&house, host).status, 404);
        world.prove(&other);
        assert_eq!(verify(&second, host)["state"], "active");
        assert_eq!(visit(&house, host).header("location"), ["https://second.example/"]);
    })
    .await;
}

async fn s36_a_claim_nobody_proves_ends_and_who_can_prove_it_has_it_at_once(place: Place) {
    in_world(place, &World::new(), |house, world| {
        let ((squat, squatter), (owns, owner)) = (tenant(&house, "squatter"), tenant(&house, "owner"));
        add(&squatter, "forgotten.example");
        add(&squatter, "wanted.example");
        let refused = owner.post("/domains", &json!({"host": "wanted.example"}));
        let record = refused.refused(409, "CONFLICT");
        world.prove(&record);
        let mine = add(&owner, "wanted.example");
        assert_eq!(mine["state"], "active", "{mine:#}");
        assert_eq!(visit(&house, "wanted.example").header("location"), ["https://owner.example/"]);
        // What is proven is not for the taking, whoever else is named too.
        squatter.post("/domains", &json!({"host": "wanted.example"})).refused(409, "CONFLICT");
        house.advance_ms(71 * HOUR_MS);
        world.round(&house);
        shown(&squatter, "forgotten.example");
        house.advance_ms(2 * HOUR_MS);
        world.round(&house);
        let left = squatter.get("/domains").expect(200).json();
        assert_eq!(left["data"], json!([]), "{left:#}");
        add(&owner, "forgotten.example");
        assert_eq!(
            told(&house, &squat),
            [
                "domain.add",
                "domain.unproven",
                "domain.add",
                "domain.unproven",
                "domain.remove",
                "domain.remove"
            ]
        );
        let first: Vec<_> = told(&house, &owns).into_iter().take(3).collect();
        assert_eq!(first, ["domain.add", "domain.unproven", "domain.verify"]);
    })
    .await;
}

async fn s36_an_outage_suspends_nobody(place: Place) {
    in_world(place, &World::new(), |house, world| {
        let (acme, admin) = tenant(&house, "acme");
        let domain = add(&admin, "go.acme.example");
        world.prove(&domain);
        world.dns.say("go.acme.example", "A", &["203.0.113.7"]);
        verify(&admin, "go.acme.example");
        add(&admin, "waits.example");
        // It is seen to be missing once, and then nobody can say.
        world.dns.say("_rlinks.go.acme.example", "TXT", &[]);
        world.round(&house);
        for manner in [Manner::ServFail, Manner::Refused, Manner::Referral, Manner::Garbage] {
            world.dns.behave(manner);
            house.advance_ms(100 * HOUR_MS);
            let found = world.round(&house);
            assert!(found.dns_error.is_some(), "{manner:?}: {found:#?}");
            assert_eq!(found.changed().count(), 0, "{manner:?}: {found:#?}");
            admin.post("/domains/waits.example/verify", &json!({})).refused(503, "KV_UNAVAILABLE");
        }
        world.rdap.behave(Some(503));
        house.advance_ms(8 * DAY_MS);
        assert!(world.round(&house).registry_error.is_some());
        assert_eq!(shown(&admin, "go.acme.example")["state"], "active");
        assert_eq!(shown(&admin, "waits.example")["state"], "unproven");
        assert_eq!(visit(&house, "go.acme.example").status, 302);
        world.dns.behave(Manner::Well);
        world.prove(&domain);
        world.round(&house);
        assert_eq!(visit(&house, "go.acme.example").status, 302);
        let mut told = told(&house, &acme);
        told.retain(|action| action != "domain.points_away");
        assert_eq!(told.len(), 6, "{told:?}");
        assert_eq!(told.last().unwrap(), "domain.remove", "nobody proved the one that waited");
    })
    .await;
}

async fn s36_the_end_of_a_registration_is_told_three_times(place: Place) {
    in_world(place, &World::new(), |house, world| {
        let main = house.admin();
        add(&main, "go.acme.example");
        add(&main, "links.acme.example");
        for host in ["go.acme.example", "links.acme.example"] {
            world.dns.say(host, "A", &["203.0.113.7"]);
        }
        let end = house.now().plus_ms(100 * DAY_MS);
        world.rdap.register("acme.example", &end.to_string());
        let mut days = Vec::new();
        let mut at = 100;
        for left in [100, 61, 59, 58, 29, 28, 6, 5] {
            house.advance_ms((at - left) * DAY_MS);
            at = left;
            let found = world.round(&house);
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
        assert_eq!(told(&house, &house.main).iter().filter(|action| *action == "domain.expiring").count(), 6);
        let entries = main.get("/audit").expect(200).json();
        let last = &entries["data"][0];
        assert_eq!((&last["action"], &last["actor"]), (&json!("domain.expiring"), &json!("system")));
        assert_eq!(last["after"]["days"], 6, "{last:#}");
        // Renewed, there is nothing to tell, and a registry that is asked has had enough of us after a while.
        world.rdap.register("acme.example", &house.now().plus_ms(700 * DAY_MS).to_string());
        assert_eq!(world.round(&house).changed().count(), 0);
        assert_eq!(shown(&main, "go.acme.example")["warning"], Value::Null);
        let asked = world.rdap.asked();
        house.advance_ms(DAY_MS);
        world.round(&house);
        assert_eq!(world.rdap.asked(), asked, "once a week is enough while the end is far");
    })
    .await;
}

async fn s36_a_name_that_leads_away_is_told(place: Place) {
    let here = ExpectedAddress::Name(Host::parse("edge.rmax.example").unwrap());
    let world = World::leading_to(vec![here, ExpectedAddress::Address("198.51.100.4".parse().unwrap())]);
    in_world(place, &world, |house, world| {
        let main = house.admin();
        world.dns.say("edge.rmax.example", "A", &["198.51.100.1"]);
        for host in ["cname.example", "fixed.example", "gone.example", "dangling.example", "moved.example"] {
            add(&main, host);
        }
        world.dns.say("cname.example", "CNAME", &["edge.rmax.example"]);
        world.dns.say("fixed.example", "A", &["198.51.100.4"]);
        world.dns.say("dangling.example", "CNAME", &["old-bucket.cloud.example"]);
        world.dns.say("moved.example", "A", &["192.0.2.66"]);
        // Too much for UDP is asked for again.
        world.dns.behave(Manner::Truncated);
        let found = world.round(&house);
        assert!(world.dns.asked_by_tcp() > 0);
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
        assert_eq!(told_of(&world.round(&house)), [], "once is enough");
        // It is a warning: whoever comes by another way still gets the link.
        main.post("/links", &json!({"code": "x", "target": "https://acme.example/"})).expect(201);
        assert_eq!(visit(&house, "moved.example").status, 301);
        world.dns.say("moved.example", "A", &["198.51.100.4"]);
        let back = ("moved.example".to_owned(), "its name leads here again".to_owned());
        assert_eq!(told_of(&world.round(&house)), [back]);
        let told = told(&house, &house.main);
        let count = |wanted: &str| told.iter().filter(|action| *action == wanted).count();
        assert_eq!((count("domain.points_away"), count("domain.points_here")), (3, 1));
    })
    .await;
}

#[test]
fn the_daily_job_looks_and_a_silent_host_is_not_answered_by_main_either() {
    let world = World::new();
    let place = Place::sqlite();
    let options = world.options.clone();
    let house = House::at(place, preset(Preset::Fabric), move |config| config.domain_checks = options);
    let main = house.admin();
    // It looked when it started, at what was there then.
    wait_until("the daily job has looked", || shown(&main, "rmax.to")["checked_at"] != Value::Null);
    main.post("/links", &json!({"code": "x", "target": "https://main.example/"})).expect(201);
    main.delete("/domains/rmax.to").expect(204);
    assert_eq!(visit(&house, "anywhere.example").status, 301, "`main` answers where nobody else does");
    let (acme, admin) = tenant(&house, "acme");
    add(&admin, "go.acme.example");
    assert_eq!(visit(&house, "go.acme.example").status, 404, "but not for somebody who waits");
    // The operator's word is enough.
    let seen = house
        .runtime
        .block_on(house.ops.domain_record(&acme, &Host::parse("go.acme.example").unwrap()))
        .unwrap();
    let by = Requester::operator(operator());
    house.runtime.block_on(house.store().trust_domain(&seen, &by.actor, house.now())).unwrap();
    wait_until("it answers", || visit(&house, "go.acme.example").status == 302);
    assert_eq!(told(&house, &acme), ["domain.add", "domain.unproven", "domain.trust"]);
}
