//! The notice that a limit on changes was reached.

use rlinks_core::{Preset, Role, Scopes};
use serde_json::json;

use super::{open, person, send};
use crate::support::browser::{hidden, signed_in};
use crate::support::database::TestStore;
use crate::support::members::{TestServer, ann, preset};

const TITLE: &str = "A limit on changes was reached";

/// Hostile inputs, S43.
#[test]
fn reached_limit_is_shown_to_admins_and_the_member_until_each_dismisses_it() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), |config| {
        config.target_changes_per_minute = 2;
    });
    ann(&server);
    let mut ann = signed_in(server.address, "ann@example.com");
    let mut bob = person(&server, Role::Member, "bob@example.com");
    let mut carol = person(&server, Role::Member, "carol@example.com");
    let user = server.runtime.block_on(server.ops.member(&server.main, "bob@example.com")).unwrap();
    let stolen = server.key(&server.main, Some(&user), Scopes::ALL);
    let point = |number: usize, status: u16| {
        let body = json!({ "target": format!("https://evil.example/{number}") });
        stolen.patch("/links/page", &body).expect(status);
    };
    stolen.post("/links", &json!({ "code": "page", "target": "https://example.com/" })).expect(201);
    point(1, 200);
    point(2, 200);
    assert!(!open(&mut ann, "/admin").contains(TITLE));
    server.advance_ms(1_000);
    point(3, 429);
    let stopped_at = server.now();

    // On every page: who, when, which limit, and what to do.
    for path in ["/admin", "/admin/keys", "/admin/account"] {
        let page = open(&mut ann, path);
        let wanted = [
            TITLE.to_owned(),
            format!("<time datetime=\"{stopped_at}\">"),
            "API key “a key” of bob@example.com".to_owned(),
            "changing the targets of 2 links within a minute".to_owned(),
            format!("rmax workspaces rollback main --to {}", stopped_at.plus_ms(-60_000)),
            "href=\"/admin/keys\"".to_owned(),
            "href=\"/admin/audit?action=link\"".to_owned(),
        ];
        for wanted in wanted {
            assert!(page.contains(&wanted), "{path}: {wanted}: {page}");
        }
    }
    let own = open(&mut bob, "/admin");
    assert!(own.contains(TITLE) && !own.contains("rmax workspaces rollback"), "{own}");
    assert!(!open(&mut carol, "/admin").contains(TITLE));

    // Each dismisses it for themselves, and nobody what is yet to come.
    let page = bob.get("/admin");
    let later = (hidden(&page, "newest").parse::<i64>().unwrap() + 1_000).to_string();
    send(&mut bob, "/admin", "/admin/notices/dismiss", &[("newest", &later)]);
    assert!(open(&mut bob, "/admin").contains(TITLE));
    let newest = hidden(&page, "newest");
    let gone = send(&mut bob, "/admin", "/admin/notices/dismiss", &[("newest", &newest)]);
    assert_eq!((gone.status, gone.location()), (303, Some("/admin")), "{gone:?}");
    assert!(!open(&mut bob, "/admin").contains(TITLE));
    assert!(open(&mut ann, "/admin").contains(TITLE));
    send(&mut ann, "/admin", "/admin/notices/dismiss", &[("newest", &newest)]);
    assert!(!open(&mut ann, "/admin").contains(TITLE));

    // A new stop is a new notice.
    server.advance_ms(61_000);
    for (number, status) in [(4, 200), (5, 200), (6, 429)] {
        point(number, status);
    }
    assert!(open(&mut bob, "/admin").contains(TITLE) && open(&mut ann, "/admin").contains(TITLE));
}
