//! Several processes at once on one embedded store.

use crate::support::sandbox::Sandbox;

#[test]
fn concurrent_writers_never_mix_fields() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/0");
    let lines: Vec<String> = (1..=6)
        .map(|n| {
            format!(
                "links set x https://example.com/{n} --title t{n} --note n{n} --status {}",
                if n < 4 { 302 } else { 307 }
            )
        })
        .collect();
    let ran = sandbox.together(&lines);
    let done = ran.iter().filter(|ran| ran.code == Some(0)).count();
    assert!(done >= 1 && ran.iter().all(|ran| matches!(ran.code, Some(0 | 4))), "{ran:#?}");
    let link = sandbox.link("x");
    let n: u32 = link["target"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
    assert_eq!(link["title"], format!("t{n}"));
    assert_eq!(link["meta"]["notes"], format!("n{n}"));
    assert_eq!(link["redirect_status"], if n < 4 { 302 } else { 307 });
    assert_eq!(sandbox.json("links history x --json").as_array().unwrap().len(), 1 + done);
    sandbox.ok("audit verify");
}

#[test]
fn concurrent_creations_of_one_code_make_one_link() {
    let sandbox = Sandbox::new();
    let lines: Vec<String> = (1..=6).map(|n| format!("shorten https://example.com/{n} --code x")).collect();
    let ran = sandbox.together(&lines);
    assert_eq!(ran.iter().filter(|ran| ran.code == Some(0)).count(), 1, "{ran:#?}");
    assert_eq!(ran.iter().filter(|ran| ran.code == Some(4)).count(), 5, "{ran:#?}");
    sandbox.ok("audit verify");
}

#[test]
fn concurrent_first_commands_create_one_store() {
    let sandbox = Sandbox::new();
    let lines: Vec<String> = (0..8).map(|n| format!("links set x{n} https://example.com/{n}")).collect();
    for ran in sandbox.together(&lines) {
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    assert_eq!(sandbox.json("links list --json").as_array().unwrap().len(), 8);
    sandbox.ok("audit verify");
    sandbox.ok("doctor");
}
