//! Files of links through the API.

use rlinks_core::Preset;
use serde_json::{Value, json};

use crate::support::api_client::{at_once, import_links};
use crate::support::database::{TestStore, contract};
use crate::support::members::{TestServer, preset, with_server};
use crate::support::raw_client::wait_until;

contract!(
    a_file_is_imported_served_and_exported,
    dry_run_report_matches_the_import_and_writes_nothing,
    platform_members_import_for_themselves_and_export_their_own,
    concurrent_imports_of_one_file_import_it_once,
);

fn numbers(report: &Value) -> [u64; 5] {
    ["created", "updated", "skipped", "conflicting", "refused"].map(|name| report[name].as_u64().unwrap())
}

const FILE: &str = "Long URL,Short code,Domain,Title,Tags\nhttps://example.com/one,one,,One,a|b\nhttps://example.com/two,two,,,\nhttps://example.com/up,Up,,,\nhttps://example.com/other,there,,,\n";

async fn a_file_is_imported_served_and_exported(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        member.post("/links", &json!({"code": "there", "target": "https://example.com/there"})).expect(201);
        let report = import_links(&member, "", "text/csv", FILE).expect(200).json();
        assert_eq!(numbers(&report), [2, 0, 0, 1, 1], "{report:#}");
        assert_eq!(
            (&report["format"], &report["dry_run"], &report["rows"]),
            (&json!("shlink"), &json!(false), &json!(4))
        );
        assert_eq!(
            report["problems"][1],
            json!({"row": 5, "code": "there", "outcome": "conflicting",
            "reason": "another link is there: it differs in target"})
        );
        // The serving threads know it before the answer.
        assert_eq!(server.visit("/one").status, 301);
        let link = member.get("/links/one").expect(200).json();
        assert_eq!(
            (&link["source"], &link["tags"], &link["created_by"]),
            (&json!("import"), &json!(["a", "b"]), &json!(crate::support::members::owner(&member)))
        );
        let again =
            import_links(&member, "?format=shlink", "application/octet-stream", FILE).expect(200).json();
        assert_eq!(numbers(&again), [0, 0, 2, 1, 1]);

        let export = member.get("/export").expect(200);
        assert_eq!(export.header("content-disposition"), Some("attachment; filename=\"links.jsonl\""));
        assert_eq!(export.header("content-type"), Some("application/x-ndjson"));
        assert!(export.answer.body.contains("\"code\":\"one\""), "{export:?}");
        let nginx = member.get("/export?format=nginx").expect(200);
        assert!(
            nginx.answer.body.contains("\"/there\" \"/there 301 https://example.com/there\";"),
            "{nginx:?}"
        );
        assert_eq!(
            member.get("/export?format=csv").expect(200).header("content-type"),
            Some("text/csv; charset=utf-8")
        );
        // Many pages are one answer.
        let rows: Vec<String> = (0..1_200).map(|n| format!("many-{n},https://example.com/{n}")).collect();
        let report = import_links(&member, "", "text/csv", format!("code,target\n{}", rows.join("\n")))
            .expect(200)
            .json();
        assert_eq!(numbers(&report), [1_200, 0, 0, 0, 0]);
        let export = member.get("/export").expect(200).answer.body;
        assert_eq!(export.lines().filter(|line| line.starts_with("{\"code\":\"many-")).count(), 1_200);
        let entries = member.get("/links/one/history").expect(200).json();
        assert_eq!(entries["data"][0]["action"], "link.create");
    })
    .await;
}

async fn dry_run_report_matches_the_import_and_writes_nothing(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let lines = r#"{"code":"a","target":"https://example.com/","clicks":3,"hits":5}
{"code":"a","target":"https://example.com/else"}
{"code":"b","target":"http://example.com/"}
{"code":"c","target":"https://example.com/","id":"1","created_by":"somebody","version":9}
"#;
        let before = server.actions().len();
        let dry = import_links(&member, "?dry_run=true", "application/x-ndjson", lines).expect(200).json();
        assert_eq!(server.actions().len(), before);
        let mut real =
            import_links(&member, "?dry_run=false", "application/x-ndjson", lines).expect(200).json();
        real["dry_run"] = json!(true);
        assert_eq!(real, dry);
        assert_eq!(numbers(&real), [2, 0, 0, 1, 1]);
        // Only the operator says who made a link, and as which.
        let link = member.get("/links/c").expect(200).json();
        assert_eq!(
            (&link["version"], &link["created_by"]),
            (&json!(1), &json!(crate::support::members::owner(&member)))
        );
        assert_ne!(link["id"], "1");
        let link = member.get("/links/a").expect(200).json();
        assert_eq!((&link["clicks"], &link["hits"]), (&json!(3), &json!(5)));
        wait_until("lists know it too", || {
            member.get("/links?sort=clicks").expect(200).json()["data"][0]["code"] == "a"
        });
        let report =
            import_links(&member, "?https_only=false", "application/x-ndjson", lines).expect(200).json();
        assert_eq!(numbers(&report), [1, 0, 2, 1, 0]);
    })
    .await;
}

async fn platform_members_import_for_themselves_and_export_their_own(test_store: TestStore) {
    with_server(test_store, preset(Preset::Platform), |server| {
        let (ann, bob, admin) = (server.member(), server.member(), server.admin());
        bob.post("/links", &json!({"code": "Bobs-own", "target": "https://secret.example/"})).expect(201);
        let report = import_links(
            &ann,
            "",
            "text/csv",
            "code,target\nBobs-own,https://secret.example/\nAnns-own,https://example.com/\n",
        );
        let report = report.expect(200).json();
        assert_eq!(numbers(&report), [1, 0, 0, 1, 0]);
        // It is taken, and that is all she learns.
        assert_eq!(report["problems"][0]["reason"], "the code is taken");
        let hers = ann.get("/export").expect(200).answer.body;
        assert!(
            hers.contains("Anns-own") && !hers.contains("Bobs-own") && !hers.contains("secret"),
            "{hers}"
        );
        let maps = ann.get("/export?format=nginx").expect(200).answer.body;
        assert!(maps.contains("Anns-own") && !maps.contains("Bobs-own"), "{maps}");
        let all = admin.get("/export").expect(200).answer.body;
        assert!(all.contains("Anns-own") && all.contains("Bobs-own"), "{all}");
        // A hundred links an hour, however they come.
        let rows: Vec<String> = (0..150).map(|n| format!("ann-{n:04},https://example.com/{n}")).collect();
        let file = format!("code,target\n{}", rows.join("\n"));
        let dry = import_links(&ann, "?dry_run=true", "text/csv", file.as_str()).expect(200).json();
        assert_eq!(numbers(&dry), [99, 0, 0, 0, 51]);
        let report = import_links(&ann, "", "text/csv", file).expect(200).json();
        assert_eq!(numbers(&report), [99, 0, 0, 0, 51]);
        ann.post("/links", &json!({"target": "https://example.com/"})).refused(429, "RATE_LIMITED");
    })
    .await;
}

#[test]
fn unusable_import_files_are_rejected() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    import_links(&member, "", "application/x-www-form-urlencoded", "code,target")
        .refused(415, "UNSUPPORTED_MEDIA_TYPE");
    import_links(&member, "", "text/csv", vec![b'a'; 16 * 1024 * 1024 + 1]).refused(413, "PAYLOAD_TOO_LARGE");
    for file in [&b"\x1f\x8b\x08\0"[..], b"", b"some words\n", b"\xff\xfea\0", b"code,target,colour\n"] {
        assert_eq!(import_links(&member, "", "text/csv", file).fields(), ["format: bad_characters"]);
    }
    assert_eq!(
        import_links(&member, "?format=xml", "text/csv", "code,target\n").fields(),
        ["format: bad_characters"]
    );
    assert_eq!(
        import_links(&member, "?dryrun=true", "text/csv", "code,target\n").fields(),
        ["dryrun: unknown_field"]
    );
    assert_eq!(member.get("/export?format=xml").fields(), ["format: bad_characters"]);
    // A row that is too long ends the reading, and what was before it counts.
    let file = format!("code,target\na,https://example.com/\nb,\"{}\"\n", "x".repeat(300_000));
    let report = import_links(&member, "", "text/csv", file).expect(200).json();
    assert_eq!(numbers(&report), [1, 0, 0, 0, 0]);
    assert!(report["stopped"].as_str().unwrap().contains("row 3"), "{report}");
}

async fn concurrent_imports_of_one_file_import_it_once(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        let member = server.member();
        let rows: Vec<String> = (0..900).map(|n| format!("c{n},https://example.com/{n}")).collect();
        let file = format!("code,target\n{}\n", rows.join("\n"));
        let replies = at_once(4, |_| import_links(&member, "", "text/csv", file.as_str()));
        let (mut created, mut skipped) = (0, 0);
        for reply in replies {
            let report = reply.expect(200).json();
            let [made, updated, same, conflicting, refused] = numbers(&report);
            assert_eq!([updated, conflicting, refused], [0, 0, 0], "{report:#}");
            (created, skipped) = (created + made, skipped + same);
        }
        assert_eq!((created, skipped), (900, 3 * 900));
    })
    .await;
}

fn row(code: &str, more: &str) -> String {
    format!(r#"{{"code":"{code}","target":"https://example.com/"{more}}}"#)
}

#[test]
fn every_skipped_row_is_reported() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    let deep = |code: &str, levels: usize| {
        let more = format!(r#","metadata":{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        row(code, &more)
    };
    let long = row("long", &format!(r#","notes":"{}""#, "a".repeat(200_000)));
    let bad = [
        deep("deep", 5000),
        deep("deep", 200),
        long,
        row("half", "").trim_end_matches('}').to_owned(),
        format!("{}{}", row("one", ""), row("two", "")),
        row("twice", r#","code":"x""#),
        r#"{"code":"nowhere"}"#.to_owned(),
    ];
    for (at, bad) in bad.iter().enumerate() {
        // First, last, and in the middle: it is refused alone.
        let [a, b] = ["a", "b"].map(|name| row(&format!("{name}{at}"), ""));
        for (file, number) in [
            (format!("{bad}\n{a}\n{b}\n"), 1),
            (format!("{a}\n{bad}\n{b}\n"), 2),
            (format!("{a}\n{b}\n{bad}\n"), 3),
        ] {
            let report = import_links(&member, "?format=jsonl&dry_run=true", "application/x-ndjson", file)
                .expect(200)
                .json();
            assert_eq!(numbers(&report), [2, 0, 0, 0, 1], "{report:#}");
            let problem = &report["problems"][0];
            assert_eq!((&problem["row"], &report["stopped"]), (&json!(number), &Value::Null), "{report:#}");
            assert!(problem["reason"].as_str().unwrap().len() < 2000, "{report:#}");
        }
        // Alone it is named too.
        let report = import_links(&member, "?format=jsonl", "application/x-ndjson", format!("{bad}\n"));
        let report = report.expect(200).json();
        let named = report["refused"] == 1 || report["stopped"].is_string();
        assert!(named && report["created"] == 0, "{report:#}");
    }
    // An object over several lines is a row.
    let pretty = "{\n \"code\": \"pretty\",\n \"target\": \"https://example.com/\"\n}\n";
    let report = import_links(&member, "", "application/json", pretty).expect(200).json();
    assert_eq!(numbers(&report), [1, 0, 0, 0, 0], "{report:#}");
    let without = "{\n \"code\": \"without\"\n}\n";
    let report = import_links(&member, "?format=jsonl", "application/json", without).expect(200).json();
    assert_eq!(numbers(&report), [0, 0, 0, 0, 1], "{report:#}");
    let listed = format!("{{\n\"data\": [\n{},\n{}\n]}}\n", row("l1", ""), row("l2", ""));
    let report = import_links(&member, "", "application/json", listed).expect(200).json();
    assert_eq!(numbers(&report), [2, 0, 0, 0, 0], "{report:#}");
    let none =
        import_links(&member, "?format=jsonl", "application/json", "{\"data\": []}").expect(200).json();
    assert_eq!((numbers(&none), &none["stopped"]), ([0; 5], &Value::Null));
}

/// Hostile inputs, S39.
#[test]
fn row_with_too_many_keys_is_refused_with_a_short_reason() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    let keys: Vec<String> = (0..12_500).map(|key| format!(r#""{key:04x}":0"#)).collect();
    let many = row("many", &format!(",{}", keys.join(",")));
    let long = row("long", &format!(r#","{}":0"#, "k".repeat(100_000)));
    let file = format!("{}\n{}{long}\n", row("ok", ""), format!("{many}\n").repeat(100));
    let report = import_links(&member, "", "application/x-ndjson", file).expect(200);
    assert!(report.answer.body.len() < 100_000, "{}", report.answer.body.len());
    let report = report.json();
    assert_eq!(numbers(&report), [1, 0, 0, 0, 101]);
    let reason = report["problems"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("more than 256 keys"), "{reason}");
    // What a few hundred keys have to say is cut short as well.
    let row = row("some", &format!(",{}", keys[..200].join(",")));
    let report = import_links(&member, "?format=jsonl", "application/x-ndjson", row).expect(200).json();
    let reason = report["problems"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("is no field of a link") && reason.chars().count() <= 1001, "{reason}");
    let columns: Vec<String> = (0..5000).map(|n| format!("c{n}")).collect();
    let wide = format!("Long URL,Short code,{}\nhttps://example.com/,wide\n", columns.join(","));
    assert_eq!(import_links(&member, "", "text/csv", wide).fields(), ["format: bad_characters"]);
}

#[test]
fn depth_limit_of_metadata_matches_that_of_requests() {
    let server = TestServer::new(Preset::Fabric);
    let member = server.member();
    for (levels, is_fine) in [(62, true), (63, false), (120, false)] {
        let deep = format!(r#","metadata":{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        let report = import_links(&member, "", "application/x-ndjson", row(&format!("i{levels}"), &deep));
        let report = report.expect(200).json();
        assert_eq!(numbers(&report)[0], u64::from(is_fine), "{levels}: {report:#}");
        let cell = deep.split_once(':').unwrap().1.replace('"', "\"\"");
        let table = format!("code,target,metadata\nt{levels},https://example.com/,\"{cell}\"\n");
        let report = import_links(&member, "", "text/csv", table).expect(200).json();
        assert_eq!(numbers(&report)[0], u64::from(is_fine), "{levels}: {report:#}");
        let body = row(&format!("p{levels}"), &deep).into_bytes();
        let posted = member.request("POST", "/links").body("application/json", body).send();
        assert_eq!(posted.status(), if is_fine { 201 } else { 400 }, "{levels}");
    }
}

#[test]
fn dry_run_notes_that_loops_are_found_later() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |_| ());
    let admin = server.admin();
    admin.post("/domains", &json!({"host": "go.example"})).expect(201);
    let to = |code: &str, target: &str| {
        format!(r#"{{"code":"{code}","target":"https://go.example/{target}","no_loop":false}}"#)
    };
    let file = format!("{}\n{}\n", to("a", "b"), to("b", "a"));
    let dry = import_links(&admin, "?dry_run=true", "application/x-ndjson", file.as_str()).expect(200).json();
    assert!(dry["notes"][0].as_str().unwrap().contains("circles"), "{dry:#}");
    let report = import_links(&admin, "", "application/x-ndjson", file).expect(200).json();
    assert_eq!((numbers(&report), &report["notes"]), ([1, 0, 0, 0, 1], &json!([])), "{report:#}");
    let plain =
        import_links(&admin, "?dry_run=true", "application/x-ndjson", to("c", "a")).expect(200).json();
    assert_eq!(plain["notes"], json!([]));
}
