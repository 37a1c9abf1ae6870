//! Hostile inputs, S30: how often one may fail, by account and by network, on all nodes together and through restarts.

use rlinks_core::{Preset, Role};

use crate::support::api_client::{ApiResponse, at_once};
use crate::support::browser::Browser;
use crate::support::database::{TestStore, contract};
use crate::support::members::{PASSWORD, TestServer, ann, member, preset, with_server};

const WINDOW_MS: i64 = 15 * 60_000;
const WRONG: &str = "not my password!";

contract!(account_is_locked_on_every_node, network_is_locked_after_too_many_attempts);

/// Hostile inputs, S30.
async fn account_is_locked_on_every_node(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |mut server| {
        ann(&server);
        member(&server, &server.main, Role::Member, "bob@example.com");
        let other = server.second(|_| ());
        let other_at = other.address;
        let sign_in = |address, email: &str, password: &str| Browser::new(address).sign_in(email, password);
        for number in 0..10 {
            let address = if number % 2 == 0 { server.address } else { other.address };
            assert_eq!(sign_in(address, "ann@example.com", WRONG).status, 401, "{number}");
        }
        for address in [server.address, other.address] {
            let locked = sign_in(address, "ann@example.com", PASSWORD);
            assert_eq!((locked.status, locked.header("retry-after")), (429, vec!["900"]), "{locked:?}");
            assert!(locked.body.contains("Wait 15 minutes"), "{locked:?}");
        }
        // Nobody can tell that there is no such account.
        for number in 0..11 {
            let status = sign_in(server.address, "nobody@example.com", WRONG).status;
            assert_eq!(status, if number < 10 { 401 } else { 429 });
        }
        assert_eq!(sign_in(server.address, "bob@example.com", PASSWORD).status, 303, "others go on");
        let locked: Vec<_> = server.actions().into_iter().filter(|action| action == "auth.locked").collect();
        assert_eq!(locked.len(), 1, "of what happened to nobody there is no entry");

        other.stop();
        server.restart();
        assert_ne!(server.address, other_at);
        assert_eq!(sign_in(server.address, "ann@example.com", PASSWORD).status, 429, "through a restart");
        server.advance_ms(WINDOW_MS + 1);
        assert_eq!(sign_in(server.address, "ann@example.com", WRONG).status, 401);
        assert_eq!(sign_in(server.address, "ann@example.com", PASSWORD).status, 303);
        // Whoever gets in begins anew.
        for _ in 0..9 {
            assert_eq!(sign_in(server.address, "ann@example.com", WRONG).status, 401);
        }
        assert_eq!(sign_in(server.address, "ann@example.com", PASSWORD).status, 303);
        let patience = rlinks_server::auth::sign_in::SIGN_IN_LIMITS;
        server.advance_ms(2 * WINDOW_MS + 1);
        let forget = server.store().purge_attempts(&patience, server.now());
        assert!(server.runtime.block_on(forget).unwrap() >= 2);
        let verified = server.runtime.block_on(server.store().verify(&[])).unwrap();
        assert!(verified.is_ok(), "{verified:?}");
    })
    .await;
}

/// Hostile inputs, S30.
async fn network_is_locked_after_too_many_attempts(test_store: TestStore) {
    with_server(test_store, preset(Preset::Fabric), |server| {
        ann(&server);
        let patience = rlinks_server::auth::sign_in::SIGN_IN_LIMITS;
        let attempt = |number: usize| rlinks_store::SignInAttempt {
            account: format!("account {number}"),
            network: "network".to_owned(),
            workspace: Some(server.main.id),
            user: None,
        };
        // One attempt on each of very many accounts.
        for number in 0..100 {
            let attempt = attempt(number);
            let begin = server.store().begin_attempt(&attempt, &patience, server.now());
            assert_eq!(server.runtime.block_on(begin).unwrap(), None, "{number}");
        }
        let until = Some(server.now().plus_ms(WINDOW_MS));
        for number in 100..103 {
            let attempt = attempt(number);
            let begin = server.store().begin_attempt(&attempt, &patience, server.now());
            assert_eq!(server.runtime.block_on(begin).unwrap(), until, "{number}");
        }
        let locked: Vec<_> = server.actions().into_iter().filter(|action| action == "auth.locked").collect();
        assert_eq!(locked.len(), 1, "one entry, however often they try");
        assert_eq!(Browser::new(server.address).sign_in("ann@example.com", PASSWORD).status, 303);
    })
    .await;
}

/// Hostile inputs, S30.
///
/// Attempts count before they are tried: as many at once as one likes are ten.
#[test]
fn concurrent_guesses_count_like_sequential_ones() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let replies = at_once(30, |number| {
        let answer = Browser::new(server.address).sign_in("ann@example.com", WRONG);
        ApiResponse { what: format!("guess {number}"), answer }
    });
    let tried = replies.iter().filter(|reply| reply.status() == 401).count();
    assert_eq!(tried, 10, "{replies:?}");
    assert!(replies.iter().all(|reply| matches!(reply.status(), 401 | 429)), "{replies:?}");
}

#[test]
fn networks_are_distinguished_only_behind_a_trusted_proxy() {
    let trusting =
        TestServer::at(crate::support::database::TestStore::sqlite(), preset(Preset::Fabric), |config| {
            config.reloadable.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
            config.insecure_cookies = true;
        });
    ann(&trusting);
    let from = |address: &str| Browser::new(trusting.address).with("X-Forwarded-For", address);
    for number in 0..100 {
        let answer = from("203.0.113.7").sign_in(&format!("nobody-{number}@example.com"), WRONG);
        assert_eq!(answer.status, 401, "{number}");
    }
    assert_eq!(from("203.0.113.200").sign_in("ann@example.com", PASSWORD).status, 429, "the same network");
    assert_eq!(from("198.51.100.7").sign_in("ann@example.com", PASSWORD).status, 303, "another one");
}
