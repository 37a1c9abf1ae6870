//! S20: whatever a visitor or a member writes is text on every page.

use rlinks_core::Preset;

use super::{home, make, send};
use crate::client::wait_until;

const EVIL: [&str; 6] = [
    "\"><img src=x onerror=1>",
    "</script><script>1</script>",
    "'-alert(1)-'",
    "{{7*7}}",
    "<svg/onload=1>",
    "</textarea></title><b id=got>",
];

/// What a page has of elements and attributes that only a marker could have made.
#[track_caller]
fn harmless(page: &str, what: &str) {
    for sign in ["<img", "<svg/", "<b id=got", "onerror=1>", "<script>", "href=\"javascript:", "49"] {
        let found = page.contains(sign) && !(sign == "49" && !page.contains(">49<"));
        assert!(!found, "{sign} on {what}: {page}");
    }
}

#[test]
fn s20_whatever_is_written_is_text() {
    let (house, mut ann) = home(Preset::Team);
    for (number, evil) in EVIL.into_iter().enumerate() {
        let code = format!("link-{number}");
        let tags = evil.replace(',', "");
        let target = format!("https://example.com/?q={evil}#{evil}");
        let fields =
            [("target", target.as_str()), ("code", &code), ("title", evil), ("tags", &tags), ("notes", evil)];
        let made = make(&mut ann, &fields);
        harmless(&made.body, "the first page");
        let utm = evil.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let lines = format!("User-Agent: {evil}\r\nReferer: https://{number}.example/{evil}\r\n");
        let path = format!("/{code}?utm_source={utm}&utm_medium={utm}&utm_campaign={utm}");
        assert_eq!(house.visit_with(&path, &lines).status, 302);
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
