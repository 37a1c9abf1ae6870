//! What the server knows, how soon, and what it does when it cannot know.

use rlinks_core::{Code, Link, LinkState, Policy, Preset, Target};
use rlinks_store::StoreWriter;
use rlinks_store::write::{Action, LinkOp, LinkWrite};

use crate::support::raw_client::wait_until;
use crate::support::server::{
    BIG, MAIN, NOW, RunningServer, UnstartedServer, big_target, create, open, operator, serve_more_than_fits,
    set_up_workspace,
};

async fn change(store: &StoreWriter, code: &str, change: impl FnOnce(Link) -> Link) {
    let link = store.link(MAIN, &Code::from_path(code).unwrap()).await.unwrap().unwrap();
    let op = LinkOp::Replace { next: Box::new(change(link)), action: Action::Update };
    store.write(LinkWrite::new(MAIN, operator(), NOW, op)).await.unwrap();
}

fn location(server: &RunningServer, path: &str) -> Option<String> {
    server.get(path).header("location").first().map(|&target| target.to_owned())
}

/// A server with links `known-0` to `known-9`, and a runtime for the test's own store.
fn server(cache_bytes: usize) -> (RunningServer, tokio::runtime::Runtime) {
    let unstarted = UnstartedServer::new();
    unstarted.runtime.block_on(async {
        for number in 0..10 {
            create(&unstarted.store, &format!("known-{number}"), &format!("https://example.com/{number}"))
                .await;
        }
    });
    let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    (unstarted.serve(|config| config.cache_bytes = cache_bytes), own)
}

#[test]
fn change_by_another_process_is_served_soon() {
    let (server, runtime) = server(16 << 20);
    let other = runtime.block_on(open(&server.folder));
    assert_eq!(server.get("/new").status, 404);
    runtime.block_on(create(&other, "new", "https://new.example/"));
    wait_until("the new link is served", || {
        location(&server, "/new").as_deref() == Some("https://new.example/")
    });
    runtime.block_on(change(&other, "new", |link| Link {
        target: Target::parse("https://newer.example/", 2048).unwrap(),
        ..link
    }));
    wait_until("the changed link is served", || {
        location(&server, "/new").as_deref() == Some("https://newer.example/")
    });
    runtime.block_on(change(&other, "new", |link| Link { state: LinkState::Disabled, ..link }));
    wait_until("the disabled link is gone", || server.get("/new").status == 404);
    runtime.block_on(async {
        let id = set_up_workspace(&other, "shop", Policy::preset(Preset::Team), &["shop.example".to_owned()])
            .await;
        assert_ne!(id, MAIN);
    });
    wait_until("a host nobody configured is 404", || server.get("/known-1").status == 404);
}

#[test]
fn policy_changed_by_another_process_applies_soon() {
    let (server, runtime) = server(16 << 20);
    let other = runtime.block_on(open(&server.folder));
    runtime.block_on(change(&other, "known-1", |link| Link { state: LinkState::Disabled, ..link }));
    wait_until("disabled is 404 in fabric", || server.get("/known-1").status == 404);
    runtime.block_on(set_up_workspace(&other, "main", Policy::preset(Preset::Platform), &[]));
    wait_until("disabled is 410 in platform", || server.get("/known-1").status == 410);
}

#[test]
fn missing_store_keeps_known_links_and_makes_unknown_ones_503() {
    let (server, _runtime) = server(16 << 20);
    let path = server.folder.path().join("rlinks.db");
    let aside = server.folder.path().join("aside.db");
    assert_eq!(server.get("/unknown").status, 404);
    std::fs::rename(&path, &aside).unwrap();
    wait_until("an unknown code is 503", || server.get("/unknown").status == 503);
    let answer = server.get("/unknown");
    assert!(answer.body.contains("KV_UNAVAILABLE") && !answer.header("retry-after").is_empty(), "{answer:?}");
    for number in 0..10 {
        assert_eq!(
            location(&server, &format!("/known-{number}")),
            Some(format!("https://example.com/{number}"))
        );
    }
    let ready = server.get("/ready");
    assert_eq!((ready.status, ready.body.contains("degraded")), (200, true), "{ready:?}");
    std::fs::rename(&aside, &path).unwrap();
    wait_until("an unknown code is 404 again", || server.get("/unknown").status == 404);
}

#[test]
fn overwritten_store_keeps_known_links_and_makes_unknown_ones_503() {
    let (server, _runtime) = server(16 << 20);
    let path = server.folder.path().join("rlinks.db");
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, &[0x55; 4096]))
        .unwrap();
    wait_until("an unknown code is 503", || server.get("/unknown").status == 503);
    assert_eq!(location(&server, "/known-3").as_deref(), Some("https://example.com/3"));
}

#[test]
fn small_cache_loads_links_from_the_store_and_sees_new_codes() {
    let server = serve_more_than_fits();
    for number in (0..BIG).step_by(97) {
        assert_eq!(location(&server, &format!("/big-{number}")), Some(big_target(number)));
    }
    assert_eq!(server.get("/later").status, 404);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let other = runtime.block_on(open(&server.folder));
    runtime.block_on(create(&other, "later", "https://later.example/"));
    wait_until("the created link is served though it was unknown a moment ago", || {
        location(&server, "/later").is_some()
    });
}
