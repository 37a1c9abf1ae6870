//! Hostile inputs, S20: whatever a visitor or a member writes is text on every page.

use rlinks_core::Preset;

use super::{make, send, server_with_admin};
use crate::support::browser::form;
use crate::support::raw_client::wait_until;

const EVIL: [&str; 8] = [
    "\"><img src=x onerror=1>",
    "</script><script>1</script>",
    "'-alert(1)-'",
    "{{7*7}}",
    "<svg/onload=1>",
    "</textarea></title><b id=got>",
    "javascript:1",
    "\u{2028}\u{202e}<a href=javascript:1>",
];

/// Elements our templates have. Whatever else is on a page came out of a marker.
const OURS: &str = "html head meta title link script body a header div details summary p form fieldset legend input button nav span h1 h2 h3 main \
    section label select option textarea table thead tbody tr th td time svg path dialog dl dt dd kbd strong ul ol li code rect g desc polyline \
    figure caption del ins wbr bdi datalist";

/// An element as a browser would make it: its name, and its attributes.
type Element = (String, Vec<(String, String)>);

/// The elements of a page. Inside of quotes nothing ends a tag.
fn elements(page: &str) -> Vec<Element> {
    let begins =
        |(at, _): &(usize, &str)| page[at + 1..].starts_with(|next: char| next.is_ascii_alphabetic());
    page.match_indices('<').filter(begins).map(|(at, _)| element(&page[at + 1..])).collect()
}

fn element(text: &str) -> Element {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '/');
        if rest.is_empty() || rest.starts_with('>') {
            return (name.to_ascii_lowercase(), attributes);
        }
        let end = rest.find(|letter: char| letter.is_whitespace() || "=>/".contains(letter));
        let (attribute, after) = rest.split_at(end.unwrap_or(rest.len()).max(1));
        let (value, after) = if let Some(quoted) = after.strip_prefix("=\"") {
            quoted.split_once('"').unwrap_or((quoted, ""))
        } else if let Some(bare) = after.strip_prefix('=') {
            let end = bare.find(|letter: char| letter.is_whitespace() || letter == '>');
            bare.split_at(end.unwrap_or(bare.len()))
        } else {
            ("", after)
        };
        attributes.push((attribute.to_ascii_lowercase(), value.to_owned()));
        rest = after;
    }
}

/// Whether every element and attribute of a page is one of ours.
#[track_caller]
fn harmless(page: &str, what: &str) {
    let found = elements(page);
    assert!(!found.is_empty() || page.is_empty(), "{what}: {page}");
    for (name, attributes) in found {
        assert!(OURS.split_whitespace().any(|ours| ours == name), "{name} on {what}: {page}");
        for (attribute, value) in attributes {
            assert!(
                attribute.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter)),
                "{attribute} on {what}"
            );
            assert!(!attribute.starts_with("on") && attribute != "style", "{attribute} on {what}: {page}");
            let is_address = ["href", "src", "action"].contains(&attribute.as_str());
            let leads = value.starts_with(['/', '#', '?'])
                || value.starts_with("https://")
                || value.starts_with("http://");
            assert!(!is_address || leads, "{attribute}={value} on {what}: {page}");
            assert!(attribute != "src" || value.starts_with("/admin/app.js?v="), "{value} on {what}");
        }
    }
    assert!(!page.contains(">49<"), "{what}: {page}");
}

#[test]
fn injected_elements_are_detected_by_these_tests() {
    let page = "<p class=\"a>b\">x<b id=got><img src=x onerror=1>";
    let names: Vec<_> =
        elements(page).into_iter().map(|(name, attributes)| (name, attributes.len())).collect();
    assert_eq!(names, [("p".to_owned(), 1), ("b".to_owned(), 1), ("img".to_owned(), 2)]);
    for evil in ["<img src=x>", "<p onclick=\"x\">", "<svg/onload=1>", "<a href=\"javascript:1\">"] {
        assert!(std::panic::catch_unwind(|| harmless(evil, "a test")).is_err(), "{evil}");
    }
}

/// Hostile inputs, S20.
#[test]
fn no_template_switches_escaping_off() {
    let mut waiting = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/templates"))];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(std::fs::read_dir(path).unwrap().map(|file| file.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap().replace(' ', "");
        for way in ["|safe", "|escape(", "{%autoescape", "|e("] {
            assert!(!text.contains(way), "{way} in {}", path.display());
        }
    }
}

/// Hostile inputs, S20.
#[test]
fn user_text_is_escaped_on_every_page() {
    let (server, mut ann) = server_with_admin(Preset::Team);
    for (number, evil) in EVIL.into_iter().enumerate() {
        let code = format!("link-{number}");
        let tags = evil.replace(',', "");
        let target = format!("https://example.com/?q={evil}#{evil}");
        let fields =
            [("target", target.as_str()), ("code", &code), ("title", evil), ("tags", &tags), ("notes", evil)];
        let made = make(&mut ann, &fields);
        harmless(&made.body, "the first page");
        let utm: String = form(&[("", evil)])[1..].to_owned();
        let lines = format!("User-Agent: {evil}\r\nReferer: https://{number}.example/{evil}\r\n");
        let path = format!("/{code}?utm_source={utm}&utm_medium={utm}&utm_campaign={utm}");
        assert_eq!(server.visit_with(&path, &lines).status, 302);
        let address = format!("/admin/links/{code}");
        wait_until("the click is there", || {
            ann.get(&format!("{address}?bots=include")).body.contains("data-precise>20")
        });
        harmless(&ann.get(&format!("{address}?bots=include")).body, "the page of a link");
        // In forms that come back, and in addresses.
        let refused = send(
            &mut ann,
            &address,
            &[("target", evil), ("title", evil), ("metadata", evil), ("version", "1")],
        );
        assert_eq!(refused.status, 400, "{refused:?}");
        harmless(&refused.body, "a refused form");
        let conflict =
            send(&mut ann, &address, &[("target", evil), ("title", evil), ("notes", evil), ("version", "7")]);
        assert_eq!(conflict.status, 412);
        harmless(&conflict.body, "a conflict");
        let refused = send(&mut ann, "/admin/links", &[("target", evil), ("code", evil), ("notes", evil)]);
        assert_eq!(refused.status, 400);
        harmless(&refused.body, "a refused new link");
        let sent = send(
            &mut ann,
            "/admin/links/bulk",
            &[("act", "delete"), ("back", &utm), (&format!("code.{evil}"), "on")],
        );
        harmless(&sent.body, "a question");
        for name in ["q", "tag", "state", "sort", "cursor", "made", "undo", "act", "done"] {
            harmless(&ann.get(&format!("/admin?{name}={utm}&done=1")).body, name);
        }
        for name in ["range", "from", "to", "bots", "done"] {
            harmless(&ann.get(&format!("{address}?{name}={utm}")).body, name);
        }
    }
    // Shown whole, and as text.
    let list = ann.get("/admin");
    assert!(list.body.contains("&#60;svg/onload=1&#62;"), "{list:?}");
    assert!(list.body.contains("{{7*7}}"), "{list:?}");
}
