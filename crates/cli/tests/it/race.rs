//! Several processes at once on one embedded store.

use crate::place::Place;

#[test]
fn two_writers_never_mix() {
    let place = Place::new();
    place.ok("links set x https://example.com/0");
    let lines: Vec<String> = (1..=6)
        .map(|n| {
            format!(
                "links set x https://example.com/{n} --title t{n} --note n{n} --status {}",
                if n < 4 { 302 } else { 307 }
            )
        })
        .collect();
    let ran = place.together(&lines);
    let done = ran.iter().filter(|ran| ran.code == Some(0)).count();
    assert!(done >= 1 && ran.iter().all(|ran| matches!(ran.code, Some(0 | 4))), "{ran:#?}");
    let link = place.link("x");
    let n: u32 = link["target"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
    assert_eq!(link["title"], format!("t{n}"));
    assert_eq!(link["meta"]["notes"], format!("n{n}"));
    assert_eq!(link["redirect_status"], if n < 4 { 302 } else { 307 });
    assert_eq!(place.json("links history x --json").as_array().unwrap().len(), 1 + done);
    place.ok("audit verify");
}

#[test]
fn one_of_many_creates_a_code() {
    let place = Place::new();
    let lines: Vec<String> = (1..=6).map(|n| format!("shorten https://example.com/{n} --code x")).collect();
    let ran = place.together(&lines);
    assert_eq!(ran.iter().filter(|ran| ran.code == Some(0)).count(), 1, "{ran:#?}");
    assert_eq!(ran.iter().filter(|ran| ran.code == Some(4)).count(), 5, "{ran:#?}");
    place.ok("audit verify");
}

#[test]
fn a_crowd_on_a_new_folder_makes_one_store() {
    let place = Place::new();
    let lines: Vec<String> = (0..8).map(|n| format!("links set x{n} https://example.com/{n}")).collect();
    for ran in place.together(&lines) {
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    assert_eq!(place.json("links list --json").as_array().unwrap().len(), 8);
    place.ok("audit verify");
    place.ok("doctor");
}
