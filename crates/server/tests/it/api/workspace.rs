//! `/workspace`, its policy, and `/domains`.

use std::collections::BTreeSet;

use rlinks_core::{Preset, Role};
use serde_json::{Value, json};

use crate::support::api_client::at_once;
use crate::support::database::{TestStore, contract};
use crate::support::members::{TestServer, preset, with_server};
use crate::support::raw_client::send_request;

contract!(policy_patch_merges_fields_and_applies_at_once, domain_belongs_to_one_workspace);

async fn policy_patch_merges_fields_and_applies_at_once(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let admin = server.admin();
        let shown = admin.get("/workspace").expect(200).json();
        assert_eq!((&shown["slug"], &shown["links"]), (&json!("main"), &json!(0)));
        let policy = &shown["policy"];
        let fields: Vec<_> = policy.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = [
            "answers",
            "cache",
            "code",
            "delete",
            "generator",
            "https_only",
            "limits",
            "max_target_bytes",
            "preset",
            "redirect_status",
            "retention_days",
            "reuse",
            "sign_in",
            "sweep",
            "user_agent",
            "visibility",
        ];
        assert_eq!(fields, expected);
        admin.post("/links", &json!({"code": "here", "target": "https://example.com/"})).expect(201);
        let change = |body: Value| admin.patch("/workspace", &body);
        let changed = change(json!({"policy": {"cache": {"max_age": 7}, "answers": {"disabled": 410}}}))
            .expect(200)
            .json();
        let mut merged = policy.clone();
        merged["cache"]["max_age"] = 7.into();
        merged["answers"]["disabled"] = 410.into();
        assert_eq!(changed["policy"], merged, "what is not named stays");
        assert_eq!(server.visit("/here").header("cache-control"), ["private, max-age=7"], "at once");
        admin.patch("/links/here", &json!({"state": "disabled"})).expect(200);
        assert_eq!(server.visit("/here").status, 410);
        assert_eq!(change(json!({"name": "Renamed"})).expect(200).json()["policy"], merged);

        for (policy, field) in [
            (json!({"redirect_status": 303}), "redirect_status"),
            (json!({"cache": {"max_age": -1}}), "cache.max_age"),
            (json!({"cache": {"max_age": 99_999_999_999_u64}}), "cache.max_age"),
            (json!({"cache": {"speed": 1}}), "cache.speed"),
            (json!({"colour": "red"}), "colour"),
            (json!({"code": {"min": 9, "max": 3}}), "code.min"),
            (json!({"reuse": true}), "reuse"),
            (json!({"preset": "team", "visibility": "owner"}), "visibility"),
            (json!({"preset": "platform", "generator": "hash", "reuse": true}), "reuse"),
            (json!({"limits": {"requests_per_hour": 0}}), "limits.requests_per_hour"),
            (json!({"sign_in": []}), "sign_in"),
            (json!({"sign_in": ["magic"]}), "sign_in"),
            (json!({"preset": "galaxy"}), "preset"),
            (json!({"preset": 7}), "preset"),
            (json!({"limits": {"live_links": "many"}}), "limits.live_links"),
            (json!({"max_target_bytes": 1}), "max_target_bytes"),
            (json!({"user_agent": 513}), "user_agent"),
        ] {
            let fields = change(json!({"policy": policy})).fields();
            assert!(fields.iter().any(|known| known.starts_with(field)), "{policy}: {fields:?}");
        }
        assert_eq!(change(json!({"policy": "team"})).fields(), ["policy: bad_characters"]);
        assert_eq!(change(json!({"slug": "other"})).fields(), ["slug: unknown_field"]);
        assert_eq!(change(json!({"name": "x".repeat(256)})).fields(), ["name: too_long"]);
        assert_eq!(admin.get("/workspace").expect(200).json()["policy"], merged, "nothing of it happened");

        let team = change(json!({"policy": {"preset": "team", "limits": {"requests_per_hour": null}}}))
            .expect(200)
            .json();
        let mut expected = serde_json::to_value(preset(Preset::Team)).unwrap();
        expected["limits"]["requests_per_hour"] = Value::Null;
        assert_eq!(team["policy"], expected);
        let made = admin.post("/links", &json!({"target": "https://example.com/x"})).expect(201).json();
        assert_eq!(made["code"].as_str().unwrap().len(), 10, "a change binds the next write");
        assert!(server.actions().contains(&"workspace.policy".to_owned()));

        // Many changes at once: each is done or refused, and none is half there.
        let replies = at_once(10, |number| change(json!({"policy": {"cache": {"max_age": number}}})));
        assert!(replies.iter().all(|reply| [200, 409].contains(&reply.status())), "{replies:?}");
        assert!(replies.iter().any(|reply| reply.status() == 200));
    })
    .await;
}

async fn domain_belongs_to_one_workspace(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let other = server.workspace("other", preset(Preset::Team), &[]);
        let (admin, stranger) = (server.admin(), server.person(&other, Role::Admin));
        let visit = |host: &str| {
            let request = format!("GET /here HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            send_request(server.address, request.as_bytes()).status
        };
        admin.post("/links", &json!({"code": "here", "target": "https://example.com/"})).expect(201);
        assert_eq!(visit("go.example"), 404);
        let added = admin.post("/domains", &json!({"host": "GO.Example."})).expect(201).json();
        assert_eq!((&added["host"], &added["primary"]), (&json!("go.example"), &json!(false)));
        assert_eq!(visit("go.example"), 301, "at once");
        stranger.post("/domains", &json!({"host": "go.example"})).refused(409, "CONFLICT");
        assert_eq!(admin.post("/domains", &json!({"host": "go.example"})).expect(200).json(), added, "there already");
        // A workspace without a domain has no short URLs, until it has one.
        let made = stranger.post("/links", &json!({"code": "here", "target": "https://other.example/"})).expect(201).json();
        assert_eq!((&made["domain"], &made["short_url"]), (&Value::Null, &Value::Null));
        stranger.get("/links/here/qr").refused(409, "CONFLICT");
        stranger.post("/domains", &json!({"host": "b\u{fc}cher.example", "primary": true})).expect(201);
        let link = stranger.get("/links/here").expect(200).json();
        assert_eq!(link["short_url"], "https://xn--bcher-kva.example/here");
        assert_eq!(visit("xn--bcher-kva.example"), 302);

        assert_eq!(admin.post("/domains", &json!({"host": "new.example", "primary": true})).expect(201).json()["primary"], true);
        assert_eq!(admin.get("/links/here").expect(200).json()["short_url"], "https://new.example/here");
        let hosts = admin.get("/domains").expect(200).json();
        let hosts: Vec<_> = hosts["data"].as_array().unwrap().iter().map(|domain| (domain["host"].as_str().unwrap(), domain["primary"].as_bool().unwrap())).collect();
        assert_eq!(hosts.iter().filter(|(_, primary)| *primary).count(), 1, "{hosts:?}");
        assert_eq!(hosts.len(), 3, "{hosts:?}");
        admin.patch("/domains/GO.example", &json!({"primary": true})).expect(200);
        assert_eq!(admin.get("/links/here").expect(200).json()["short_url"], "https://go.example/here");
        assert_eq!(admin.patch("/domains/go.example", &json!({"primary": false})).fields(), ["primary: bad_characters"]);
        assert_eq!(admin.patch("/domains/go.example", &json!({})).fields(), ["primary: required"]);
        stranger.patch("/domains/go.example", &json!({"primary": true})).refused(404, "NOT_FOUND");
        admin.delete("/domains/GO.example").expect(204);
        assert_eq!(visit("go.example"), 404);
        admin.delete("/domains/go.example").refused(404, "NOT_FOUND");
        stranger.delete("/domains/new.example").refused(404, "NOT_FOUND");
        for (host, code) in [("", "required"), ("no host", "bad_host"), ("https://x.example/", "bad_host"), ("-", "bad_host"), ("a..b", "bad_host"), ("x.example:80", "bad_host")] {
            let fields = admin.post("/domains", &json!({"host": host})).fields();
            assert!(fields[0].starts_with("host: "), "{host}: {fields:?} {code}");
        }
        assert_eq!(admin.post("/domains", &json!({})).fields(), ["host: required"]);
        assert_eq!(admin.post("/domains", &json!({"host": "x.example", "primary": "yes"})).fields(), ["primary: bad_characters"]);

        // Of many who want one host, one gets it.
        let replies = at_once(10, |number| [&admin, &stranger][number % 2].post("/domains", &json!({"host": "wanted.example"})));
        let winners = replies.iter().enumerate().filter(|(_, reply)| reply.status() < 300);
        let winners: BTreeSet<_> = winners.map(|(number, _)| number % 2).collect();
        assert_eq!(winners.len(), 1, "{replies:?}");
        assert!(replies.iter().all(|reply| [200, 201, 409].contains(&reply.status())), "{replies:?}");
    })
    .await;
}

#[test]
fn workspace_settings_are_403_for_members() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    member.get("/workspace").refused(403, "FORBIDDEN");
    member.patch("/workspace", &json!({"policy": {"limits": {"live_links": 1}}})).refused(403, "FORBIDDEN");
    member.post("/domains", &json!({"host": "x.example"})).refused(403, "FORBIDDEN");
}
