//! Files of links through the API.

use rlinks_core::Preset;
use serde_json::{Value, json};

use super::caller::{Caller, Reply};
use super::house::{House, in_house, preset};
use crate::client::wait_until;
use crate::database::{Place, contract};

contract!(
    a_file_is_imported_served_and_exported,
    a_dry_run_says_the_same_and_writes_nothing,
    platform_members_import_for_themselves_and_export_their_own,
);

fn import(caller: &Caller, query: &str, kind: &str, file: impl Into<Vec<u8>>) -> Reply {
    caller.ask("POST", &format!("/api/v1/import{query}")).body(kind, file.into()).send()
}

fn numbers(report: &Value) -> [u64; 5] {
    ["created", "updated", "skipped", "conflicting", "refused"].map(|name| report[name].as_u64().unwrap())
}

const FILE: &str = "Long URL,Short code,Domain,Title,Tags\nhttps://example.com/one,one,,One,a|b\nhttps://example.com/two,two,,,\nhttps://example.com/up,Up,,,\nhttps://example.com/other,there,,,\n";

async fn a_file_is_imported_served_and_exported(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let member = house.member();
        member.post("/links", &json!({"code": "there", "target": "https://example.com/there"})).expect(201);
        let report = import(&member, "", "text/csv", FILE).expect(200).json();
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
        assert_eq!(house.visit("/one").status, 301);
        let link = member.get("/links/one").expect(200).json();
        assert_eq!(
            (&link["source"], &link["tags"], &link["created_by"]),
            (&json!("import"), &json!(["a", "b"]), &json!(super::house::owner(&member)))
        );
        let again = import(&member, "?format=shlink", "application/octet-stream", FILE).expect(200).json();
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
        let report =
            import(&member, "", "text/csv", format!("code,target\n{}", rows.join("\n"))).expect(200).json();
        assert_eq!(numbers(&report), [1_200, 0, 0, 0, 0]);
        let export = member.get("/export").expect(200).answer.body;
        assert_eq!(export.lines().filter(|line| line.starts_with("{\"code\":\"many-")).count(), 1_200);
        let entries = member.get("/links/one/history").expect(200).json();
        assert_eq!(entries["data"][0]["action"], "link.create");
    })
    .await;
}

async fn a_dry_run_says_the_same_and_writes_nothing(place: Place) {
    in_house(place, preset(Preset::Fabric), |house| {
        let member = house.member();
        let lines = r#"{"code":"a","target":"https://example.com/","clicks":3,"hits":5}
{"code":"a","target":"https://example.com/else"}
{"code":"b","target":"http://example.com/"}
{"code":"c","target":"https://example.com/","id":"1","created_by":"somebody","version":9}
"#;
        let before = house.actions().len();
        let dry = import(&member, "?dry_run=true", "application/x-ndjson", lines).expect(200).json();
        assert_eq!(house.actions().len(), before);
        let mut real = import(&member, "?dry_run=false", "application/x-ndjson", lines).expect(200).json();
        real["dry_run"] = json!(true);
        assert_eq!(real, dry);
        assert_eq!(numbers(&real), [2, 0, 0, 1, 1]);
        // Only the operator says who made a link, and as which.
        let link = member.get("/links/c").expect(200).json();
        assert_eq!(
            (&link["version"], &link["created_by"]),
            (&json!(1), &json!(super::house::owner(&member)))
        );
        assert_ne!(link["id"], "1");
        let link = member.get("/links/a").expect(200).json();
        assert_eq!((&link["clicks"], &link["hits"]), (&json!(3), &json!(5)));
        wait_until("lists know it too", || {
            member.get("/links?sort=clicks").expect(200).json()["data"][0]["code"] == "a"
        });
        let report = import(&member, "?https_only=false", "application/x-ndjson", lines).expect(200).json();
        assert_eq!(numbers(&report), [1, 0, 2, 1, 0]);
    })
    .await;
}

async fn platform_members_import_for_themselves_and_export_their_own(place: Place) {
    in_house(place, preset(Preset::Platform), |house| {
        let (ann, bob, admin) = (house.member(), house.member(), house.admin());
        bob.post("/links", &json!({"code": "Bobs-own", "target": "https://secret.example/"})).expect(201);
        let report = import(
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
        let dry = import(&ann, "?dry_run=true", "text/csv", file.as_str()).expect(200).json();
        assert_eq!(numbers(&dry), [99, 0, 0, 0, 51]);
        let report = import(&ann, "", "text/csv", file).expect(200).json();
        assert_eq!(numbers(&report), [99, 0, 0, 0, 51]);
        ann.post("/links", &json!({"target": "https://example.com/"})).refused(429, "RATE_LIMITED");
    })
    .await;
}

#[test]
fn what_is_no_file_of_links_is_refused() {
    let house = House::new(Preset::Fabric);
    let member = house.member();
    import(&member, "", "application/x-www-form-urlencoded", "code,target")
        .refused(415, "UNSUPPORTED_MEDIA_TYPE");
    import(&member, "", "text/csv", vec![b'a'; 16 * 1024 * 1024 + 1]).refused(413, "PAYLOAD_TOO_LARGE");
    for file in [&b"\x1f\x8b\x08\0"[..], b"", b"some words\n", b"\xff\xfea\0", b"code,target,colour\n"] {
        assert_eq!(import(&member, "", "text/csv", file).fields(), ["format: bad_characters"]);
    }
    assert_eq!(
        import(&member, "?format=xml", "text/csv", "code,target\n").fields(),
        ["format: bad_characters"]
    );
    assert_eq!(
        import(&member, "?dryrun=true", "text/csv", "code,target\n").fields(),
        ["dryrun: unknown_field"]
    );
    assert_eq!(member.get("/export?format=xml").fields(), ["format: bad_characters"]);
    // A row that is too long ends the reading, and what was before it counts.
    let file = format!("code,target\na,https://example.com/\nb,\"{}\"\n", "x".repeat(300_000));
    let report = import(&member, "", "text/csv", file).expect(200).json();
    assert_eq!(numbers(&report), [1, 0, 0, 0, 0]);
    assert!(report["stopped"].as_str().unwrap().contains("row 3"), "{report}");
}
