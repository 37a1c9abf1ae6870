//! Hostile inputs, S30: how often one may fail, by account and by network, on all nodes together and through restarts.

use rlinks_core::{Password, Preset, Role};
use rlinks_store::{AttemptSource, RefusedAttempt, SignInAttempt, UnknownSource};

use crate::support::api_client::{ApiResponse, at_once};
use crate::support::browser::{Browser, signed_in};
use crate::support::database::{TestStore, contract};
use crate::support::members::{
    PASSWORD, TestServer, ann, member, preset, with_configured_server, with_server,
};
use crate::support::server::operator_in;

const WINDOW_MS: i64 = 15 * 60_000;
const WRONG: &str = "not my password!";

contract!(
    account_is_locked_for_a_network_on_every_node,
    network_is_locked_after_too_many_attempts,
    failures_elsewhere_delay_an_account_on_every_node,
    waiting_network_gets_a_try_however_often_others_try,
);

/// A server whose clients come from the networks that they say.
fn behind_a_proxy(config: &mut rlinks_server::Config) {
    config.reloadable.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    config.insecure_cookies = true;
}

/// Somebody in a network of their own.
fn stranger(server: &TestServer, network: usize) -> Browser {
    Browser::new(server.address).with("X-Forwarded-For", &format!("198.51.{network}.7"))
}

fn locks(server: &TestServer) -> usize {
    server.actions().iter().filter(|action| *action == "auth.locked").count()
}

/// Hostile inputs, S30.
async fn account_is_locked_for_a_network_on_every_node(test_store: TestStore) {
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
        let attempt = |number: usize| SignInAttempt {
            source: AttemptSource::Unknown(UnknownSource {
                pair: format!("account {number} and network"),
                account: format!("account {number}"),
                network: "network".to_owned(),
            }),
            workspace: Some(server.main.id),
            user: None,
        };
        // One attempt on each of very many accounts.
        for number in 0..100 {
            let attempt = attempt(number);
            let begin = server.store().begin_attempt(&attempt, &patience, server.now());
            assert_eq!(server.runtime.block_on(begin).unwrap(), None, "{number}");
        }
        let until = Some(RefusedAttempt::Locked(server.now().plus_ms(WINDOW_MS)));
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
    let trusting = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), behind_a_proxy);
    ann(&trusting);
    let from = |address: &str| Browser::new(trusting.address).with("X-Forwarded-For", address);
    for number in 0..100 {
        let answer = from("203.0.113.7").sign_in(&format!("nobody-{number}@example.com"), WRONG);
        assert_eq!(answer.status, 401, "{number}");
    }
    assert_eq!(from("203.0.113.200").sign_in("ann@example.com", PASSWORD).status, 429, "the same network");
    assert_eq!(from("198.51.100.7").sign_in("ann@example.com", PASSWORD).status, 303, "another one");
}

/// Hostile inputs, S30.
///
/// Whoever fails elsewhere makes others wait, half a minute at most, and locks nobody out.
async fn failures_elsewhere_delay_an_account_on_every_node(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), behind_a_proxy, |server| {
        ann(&server);
        let other = server.second(behind_a_proxy);
        let addresses = [server.address, other.address];
        let delays = ["1", "2", "4", "8", "16", "30", "30"];
        // An account that doesn't exist looks the same.
        for (account, email) in ["ann@example.com", "nobody@example.com"].into_iter().enumerate() {
            let from = |number: usize| stranger(&server, 100 * account + number).at(addresses[number % 2]);
            assert_eq!(from(0).sign_in(email, WRONG).status, 401);
            for (number, delay) in delays.iter().enumerate() {
                let refused = from(number + 1).sign_in(email, PASSWORD);
                assert_eq!(
                    (refused.status, refused.header("retry-after")),
                    (429, vec![*delay]),
                    "{refused:?}"
                );
                assert!(refused.body.contains("have failed elsewhere"), "{refused:?}");
                server.advance_ms(delay.parse::<i64>().unwrap() * 1000);
                assert_eq!(from(number + 1).sign_in(email, WRONG).status, 401, "{number}");
            }
        }
        assert_eq!(locks(&server), 0, "nobody was locked out");
        server.advance_ms(30_000);
        assert_eq!(stranger(&server, 250).sign_in("ann@example.com", PASSWORD).status, 303);

        // What failed elsewhere stays counted until it has been quiet for a while.
        let refused = stranger(&server, 251).sign_in("ann@example.com", WRONG);
        assert_eq!((refused.status, refused.header("retry-after")), (429, vec!["30"]), "{refused:?}");
        server.advance_ms(WINDOW_MS + 1);
        assert_eq!(stranger(&server, 251).sign_in("ann@example.com", WRONG).status, 401);
        assert_eq!(stranger(&server, 251).sign_in("ann@example.com", WRONG).status, 401, "not for one's own");
        other.stop();
    })
    .await;
}

/// Hostile inputs, S30.
async fn waiting_network_gets_a_try_however_often_others_try(test_store: TestStore) {
    with_configured_server(test_store, preset(Preset::Fabric), behind_a_proxy, |server| {
        ann(&server);
        let sign_in = |network: usize, password: &str| {
            stranger(&server, network).sign_in("ann@example.com", password).status
        };
        for network in 0..6 {
            assert_eq!(sign_in(network, WRONG), 401);
            server.advance_ms(30_000);
        }
        assert_eq!(sign_in(6, WRONG), 401, "an attacker takes the turn");
        assert_eq!(sign_in(200, PASSWORD), 429);
        server.advance_ms(29_999);
        assert_eq!(sign_in(200, PASSWORD), 429);
        server.advance_ms(1);
        assert_eq!(sign_in(0, WRONG), 401, "and the next one");
        assert_eq!(sign_in(0, WRONG), 429, "and asks all the time");
        assert_eq!(sign_in(200, PASSWORD), 303, "the owner has waited for half a minute");

        // Waiting in many networks at once helps no attacker: ten of them get a try.
        for network in 10..30 {
            assert_eq!(sign_in(network, WRONG), 429, "{network}");
        }
        server.advance_ms(30_000);
        assert_eq!(sign_in(0, WRONG), 401);
        let tried = (10..30).filter(|network| sign_in(*network, WRONG) == 401).count();
        assert_eq!(tried, 10);
    })
    .await;
}

#[test]
fn known_browser_signs_in_while_an_attacker_fails_elsewhere() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), behind_a_proxy);
    ann(&server);
    let mut known = stranger(&server, 1);
    assert_eq!(known.sign_in("ann@example.com", PASSWORD).status, 303);
    known.cookies.retain(|(name, _)| name != "rlinks");
    for network in [2, 1] {
        for number in 0..10 {
            assert_eq!(stranger(&server, network).sign_in("ann@example.com", WRONG).status, 401, "{number}");
            server.advance_ms(30_000);
        }
        assert_eq!(stranger(&server, network).sign_in("ann@example.com", PASSWORD).status, 429, "{network}");
    }
    // Not from another network either, nor from one that is locked.
    for network in [1, 2, 3] {
        let mut browser = known.clone();
        browser.lines = stranger(&server, network).lines;
        assert_eq!(browser.sign_in("ann@example.com", PASSWORD).status, 303, "{network}");
    }
    // It is known for its own account only.
    member(&server, &server.main, Role::Member, "bob@example.com");
    assert_eq!(stranger(&server, 4).sign_in("bob@example.com", WRONG).status, 401);
    assert_eq!(known.sign_in("bob@example.com", PASSWORD).status, 429);
    server.advance_ms(1000);
    assert_eq!(known.sign_in("bob@example.com", PASSWORD).status, 303);
    assert_eq!(stranger(&server, 4).sign_in("ann@example.com", WRONG).status, 401);
    assert_eq!(stranger(&server, 5).sign_in("ann@example.com", PASSWORD).status, 429);
    known.cookies.retain(|(name, _)| name != "rlinks");
    for email in ["ann@example.com", "bob@example.com"] {
        assert_eq!(known.clone().sign_in(email, PASSWORD).status, 303, "for both now: {email}");
    }
}

/// Hostile inputs, S30.
#[test]
fn known_browser_is_locked_alone_after_ten_failures() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let browsers = [(); 2].map(|()| {
        let mut browser = Browser::new(server.address);
        assert_eq!(browser.sign_in("ann@example.com", PASSWORD).status, 303);
        browser.cookies.retain(|(name, _)| name != "rlinks");
        browser
    });
    for number in 0..10 {
        assert_eq!(browsers[0].clone().sign_in("ann@example.com", WRONG).status, 401, "{number}");
    }
    let locked = browsers[0].clone().sign_in("ann@example.com", PASSWORD);
    assert_eq!((locked.status, locked.header("retry-after")), (429, vec!["900"]), "{locked:?}");
    assert_eq!(locks(&server), 1);
    assert_eq!(browsers[1].clone().sign_in("ann@example.com", PASSWORD).status, 303);
    assert_eq!(Browser::new(server.address).sign_in("ann@example.com", PASSWORD).status, 303);
    server.advance_ms(WINDOW_MS + 1);
    assert_eq!(browsers[0].clone().sign_in("ann@example.com", PASSWORD).status, 303);
}

/// Hostile inputs, S30.
#[test]
fn new_password_or_another_key_makes_a_browser_unknown() {
    let server = TestServer::at(TestStore::sqlite(), preset(Preset::Fabric), behind_a_proxy);
    let user = ann(&server);
    let mut known = stranger(&server, 1);
    assert_eq!(known.sign_in("ann@example.com", PASSWORD).status, 303);
    let entry = known.cookie("rlinks-known").unwrap().to_owned();
    known.cookies.retain(|(name, _)| name != "rlinks");
    let forged = |position: usize| {
        let letter = if entry.as_bytes()[position] == b'a' { "b" } else { "a" };
        format!("{}{letter}{}", &entry[..position], &entry[position + 1..])
    };
    let mut forgeries: Vec<_> = [0, 40, entry.len() - 1].map(forged).to_vec();
    forgeries.extend(["", ".", "x"].map(str::to_owned));
    forgeries.push("a".repeat(entry.len()));
    let elsewhere = || stranger(&server, 2).sign_in("ann@example.com", WRONG).status;
    assert_eq!(elsewhere(), 401);
    for forgery in forgeries {
        let mut browser = known.clone();
        browser.cookies = vec![("rlinks-known".to_owned(), forgery.clone())];
        assert_eq!(browser.sign_in("ann@example.com", PASSWORD).status, 429, "{forgery}");
    }
    assert_eq!(known.clone().sign_in("ann@example.com", PASSWORD).status, 303);

    let by = operator_in(&server.main);
    let set = server.ops.set_password(&by, &user, Password::parse("another password, longer").unwrap());
    server.runtime.block_on(set).unwrap();
    assert_eq!(known.sign_in("ann@example.com", "another password, longer").status, 429);
}

/// Hostile inputs, S30.
///
/// Ten thousand attempts from one network, on one account and one on each of as many accounts: what is tried is as much as the limits say.
#[test]
fn ten_thousand_attempts_are_no_more_than_the_limits_allow() {
    let limits = rlinks_server::auth::sign_in::SIGN_IN_LIMITS;
    for (accounts, allowed) in [(1, 10), (10_000, 100)] {
        let server = TestServer::new(Preset::Fabric);
        let user = ann(&server);
        let tried = (0..10_000).filter(|number| {
            let account = format!("account {}", number % accounts);
            let attempt = SignInAttempt {
                source: AttemptSource::Unknown(UnknownSource {
                    pair: format!("{account} and network"),
                    account,
                    network: "network".to_owned(),
                }),
                workspace: Some(server.main.id),
                user: (accounts == 1).then_some(user.id),
            };
            server.runtime.block_on(server.ops.begin_sign_in(&attempt, &limits)).unwrap().is_none()
        });
        assert_eq!(tried.count(), allowed, "{accounts}");
        assert_eq!(locks(&server), 1, "{accounts}");
        let rows = super::sessions::rows(&server, "select count(*) from attempts");
        assert!(rows <= 2 * 101 + 1, "{accounts}: {rows}");
    }
}

#[test]
fn wrong_password_while_signed_in_counts_for_the_session_alone() {
    let server = TestServer::new(Preset::Fabric);
    ann(&server);
    let mut thief = signed_in(server.address, "ann@example.com");
    let change = |browser: &mut Browser, old: &str| {
        let csrf = browser.token("/admin/account");
        let fields =
            [("csrf", csrf.as_str()), ("old_password", old), ("password", "another password, longer")];
        browser.post("/admin/account/password", &fields).status
    };
    for number in 0..10 {
        assert_eq!(change(&mut thief, WRONG), 401, "{number}");
    }
    assert_eq!(change(&mut thief, PASSWORD), 429);
    let mut owner = signed_in(server.address, "ann@example.com");
    assert_eq!(change(&mut owner, PASSWORD), 303);
}
