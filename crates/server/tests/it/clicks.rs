//! What becomes a click, and what is kept of it, through the front door: a request goes in, and a row is there.
//!
//! A server with one serving thread records in the order it is asked. So whatever is not to be recorded is asked first, and when
//! the last click is there, everything is that ever comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rlinks_clicks::click::Click;
use rlinks_clicks::events::{Codes, EventFilter};
use rlinks_clicks::misses::MissedCode;
use rlinks_clicks::time::day_of;
use rlinks_clicks::{ClickStore, Device};
use rlinks_core::{Policy, Preset, Timestamp};
use rlinks_server::Config;
use rlinks_store::clock::{Clock, monotonic_ms};
use rlinks_store::{Location, StoreWriter};
use tokio::runtime::Runtime;

use crate::support::raw_client::{RawConnection, Response, get, send_request, wait_until};
use crate::support::server::{MAIN, NOW, RunningServer, UnstartedServer, create, open, set_up_workspace};

/// Makes a request leave the short way: hyper reads it.
const ODD: &str = "Content-Length: 0\r\n";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

/// A server with a link `go`, and a second look at its tables.
struct ServerWithClicks {
    running: RunningServer,
    store: StoreWriter,
    clicks: ClickStore,
    runtime: Runtime,
}

impl ServerWithClicks {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        Self::at(Clock::new(|| NOW), change)
    }

    fn at(clock: Clock, change: impl FnOnce(&mut Config)) -> Self {
        let unstarted = UnstartedServer::new();
        unstarted.runtime.block_on(async {
            create(&unstarted.store, "go", "https://example.com/").await;
            // It keeps 512 characters of user agents.
            set_up_workspace(&unstarted.store, "main", Policy::preset(Preset::Team), &["rmax.to".to_owned()])
                .await;
        });
        let running = unstarted.try_serve_at(clock, change).unwrap();
        wait_until("the follower has looked", || running.get("/ready").body.contains("\"ready\""));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let location = Location::Sqlite(running.folder.path().join("rlinks.db"));
        let (store, clicks) = runtime
            .block_on(async { (open(&running.folder).await, ClickStore::open(&location).await.unwrap()) });
        Self { running, store, clicks, runtime }
    }

    /// Asks with header lines of the test's own, each ended.
    #[track_caller]
    fn get(&self, path: &str, lines: &str) -> Response {
        self.running
            .send(&format!("GET {path} HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\n{lines}\r\n"))
    }

    #[track_caller]
    fn click(&self, lines: &str) {
        assert_eq!(self.get("/go", lines).status, 301, "{lines}");
    }

    fn stored(&self) -> Vec<Click> {
        let during = Timestamp::from_ms(0)..Timestamp::from_ms(i64::MAX);
        let filter = EventFilter { workspace: MAIN, link: None, during };
        self.runtime.block_on(async {
            let mut codes = Codes::new(self.store.reader());
            self.clicks.events_after(&filter, 0, i64::MAX, &mut codes).await.unwrap().0
        })
    }

    /// Waits until so many clicks are stored, and gives them.
    #[track_caller]
    fn wait_for(&self, count: usize) -> Vec<Click> {
        wait_until(&format!("{count} clicks are stored"), || self.stored().len() >= count);
        let stored = self.stored();
        assert_eq!(stored.len(), count, "{stored:#?}");
        stored
    }
}

fn trusting(config: &mut Config) {
    config.reloadable.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    config.reloadable.country_header = Some("cf-ipcountry".parse().unwrap());
}

#[test]
fn only_redirected_get_requests_are_clicks() {
    let server = ServerWithClicks::new(|_| ());
    let address = server.running.address;
    for odd in ["", ODD] {
        for (line, status) in [
            ("HEAD /go", 301),
            ("GET /go+", 200),
            ("HEAD /go+", 200),
            ("POST /go", 405),
            ("PUT /go", 405),
            ("GET /unknown", 404),
            ("GET /", 200),
            ("GET /health", 200),
        ] {
            let request = format!(
                "{line} HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\nReferer: https://x.example/{line}\r\n{odd}\r\n"
            );
            assert_eq!(send_request(address, request.as_bytes()).status, status, "{line} {odd}");
        }
    }
    server.click(&format!("User-Agent: {FIREFOX}\r\nReferer: https://x.example/plain?secret#part\r\n"));
    server.click(&format!("User-Agent: {FIREFOX}\r\nReferer: https://u:p@x.example/odd?secret\r\n{ODD}"));
    let clicks = server.wait_for(2);
    let referrers: Vec<_> = clicks.iter().map(|click| click.referrer.as_deref().unwrap()).collect();
    assert_eq!(referrers, ["https://x.example/plain", "https://x.example/odd"]);
    // Both ways record the same.
    let [plain, odd] = &clicks[..] else { panic!("two clicks") };
    assert_ne!(plain.id, odd.id);
    assert_eq!(
        Click { n: 0, id: plain.id, referrer: None, ..odd.clone() },
        Click { n: 0, referrer: None, ..plain.clone() }
    );
    assert_eq!((plain.code.as_str(), plain.ts, plain.workspace), ("go", NOW, MAIN));
    assert_eq!((plain.user_agent.as_deref(), plain.browser.as_deref()), (Some(FIREFOX), Some("Firefox")));
    assert_eq!((plain.device, plain.bot), (Device::Desktop, false));
    assert_eq!(plain.ip_prefix.unwrap().to_string(), "127.0.0.0/24");
}

#[test]
fn each_pipelined_request_is_a_click() {
    let server = ServerWithClicks::new(|_| ());
    let mut connection = RawConnection::new(server.running.address);
    connection.send(get("/go").repeat(100));
    (0..100).for_each(|_| assert_eq!(connection.next_response().unwrap().status, 301));
    assert_eq!(server.wait_for(100).len(), 100);
}

#[test]
fn prefetches_and_robots_count_as_bots() {
    let server = ServerWithClicks::new(|_| ());
    let firefox = format!("User-Agent: {FIREFOX}\r\n");
    let table = [
        (firefox.clone(), false),
        (format!("{firefox}Purpose: prefetch\r\n"), true),
        (format!("{firefox}Sec-Purpose: prefetch;prerender\r\n"), true),
        (format!("{firefox}X-Moz: prefetch\r\n"), true),
        (format!("{firefox}X-Purpose: preview\r\n"), true),
        (format!("{firefox}Purpose: fun\r\n"), false),
        (
            "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)\r\n"
                .to_owned(),
            true,
        ),
        ("User-Agent: facebookexternalhit/1.1\r\n".to_owned(), true),
        ("User-Agent: curl/8.5.0\r\n".to_owned(), true),
    ];
    for (lines, _) in &table {
        server.click(lines);
        server.click(&format!("{lines}{ODD}"));
    }
    let clicks = server.wait_for(2 * table.len());
    for ((lines, bot), clicks) in table.iter().zip(clicks.chunks(2)) {
        assert_eq!((clicks[0].bot, clicks[1].bot), (*bot, *bot), "{lines}");
    }
}

#[test]
fn a_request_without_a_user_agent_is_a_click() {
    let server = ServerWithClicks::new(|_| ());
    server.click("");
    server.click("User-Agent:\r\n");
    server.click(ODD);
    for click in server.wait_for(3) {
        assert_eq!((click.user_agent, click.referrer, click.utm_source), (None, None, None));
    }
}

#[test]
fn forwarding_headers_count_only_from_a_trusted_proxy() {
    let lines = |address: &str, country: &str| {
        format!("User-Agent: {FIREFOX}\r\nX-Forwarded-For: {address}\r\nCF-IPCountry: {country}\r\n")
    };
    let send_request = |server: &ServerWithClicks| {
        for odd in ["", ODD] {
            server.click(&(lines("203.0.113.7", "de") + odd));
            server.click(&(lines("198.51.100.8", "FR") + odd));
            server.click(&(lines("2001:db8:1:2::3", "XX") + odd));
        }
        server.wait_for(6)
    };
    let seen = |clicks: &[Click]| -> Vec<_> {
        let prefix = |click: &Click| click.ip_prefix.unwrap().to_string();
        clicks.iter().map(|click| (prefix(click), click.country.clone().unwrap_or_default())).collect()
    };
    let visitors = |clicks: &[Click]| {
        let mut visitors: Vec<_> = clicks.iter().map(|click| click.visitor.unwrap()).collect();
        visitors.sort_unstable();
        visitors.dedup();
        visitors.len()
    };
    let trusted = send_request(&ServerWithClicks::new(trusting));
    let expected = [("203.0.113.0/24", "DE"), ("198.51.100.0/24", "FR"), ("2001:db8:1::/48", "")]
        .map(|(prefix, country)| (prefix.to_owned(), country.to_owned()));
    assert_eq!(seen(&trusted), [expected.clone(), expected].concat());
    assert_eq!(visitors(&trusted), 3, "each address is somebody else, whichever way it came");

    let untrusted = send_request(&ServerWithClicks::new(|config| {
        trusting(config);
        config.reloadable.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
    }));
    assert_eq!(seen(&untrusted), vec![("127.0.0.0/24".to_owned(), String::new()); 6]);
    assert_eq!(visitors(&untrusted), 1);
}

#[test]
fn utm_values_are_kept_and_the_rest_of_the_query_dropped() {
    let server = ServerWithClicks::new(|_| ());
    for odd in ["", ODD] {
        let answer =
            server.get("/go?utm_source=news+letter&q=private&utm_medium=e%2Dmail&utm_campaign=may", odd);
        assert_eq!((answer.status, answer.location()), (301, Some("https://example.com/")));
    }
    for click in server.wait_for(2) {
        let utm = [click.utm_source, click.utm_medium, click.utm_campaign].map(Option::unwrap);
        assert_eq!(utm, ["news letter", "e-mail", "may"]);
    }
}

#[test]
fn every_miss_is_counted_and_the_names_are_bounded() {
    const OTHERS: u64 = 3000;
    let server = ServerWithClicks::new(|_| ());
    let mut connection = RawConnection::new(server.running.address);
    let mut asked = 0;
    for batch in 0..30 {
        let mut requests = get("/popular").repeat(10);
        for number in 0..OTHERS / 30 {
            requests += &get(&format!("/m{batch}-{number}"));
        }
        connection.send(requests);
        for _ in 0..10 + OTHERS / 30 {
            let status = connection.next_response().unwrap().status;
            assert!(matches!(status, 404 | 429), "{status}");
            asked += 1;
        }
    }
    let day = day_of(NOW);
    let missed = || -> Vec<MissedCode> {
        server.runtime.block_on(server.clicks.misses(MAIN, day, day + 1, 100_000)).unwrap()
    };
    let total = || missed().iter().map(|missed| missed.misses).sum::<u64>();
    wait_until("all misses are counted", || total() >= asked);
    let missed = missed();
    assert_eq!(total(), asked);
    assert!(missed.len() <= 1001, "{} names", missed.len());
    assert!(missed.contains(&MissedCode { code: "popular".to_owned(), misses: 300 }));
    assert_eq!(server.stored().len(), 0, "a miss is no click");
}

#[test]
fn click_is_stored_within_seconds_and_does_not_change_the_link() {
    let server = ServerWithClicks::new(|_| ());
    let code = rlinks_core::Code::from_path("go").unwrap();
    let link = || server.runtime.block_on(server.store.link(MAIN, &code)).unwrap().unwrap();
    let before = link();
    let began = monotonic_ms();
    server.click("");
    server.wait_for(1);
    let took = monotonic_ms() - began;
    assert!(took < 5_000, "only after {took} ms");
    assert_eq!(link(), before);
}

/// Hostile inputs, S38.
#[test]
fn hostile_user_agents_are_answered_recorded_and_truncated() {
    let server = ServerWithClicks::new(|_| ());
    let parentheses = "(".repeat(8000);
    let nested = "Mozilla/5.0 (".repeat(500);
    let wide = "é".repeat(1000);
    let hostile: [&[u8]; 7] = [
        parentheses.as_bytes(),
        nested.as_bytes(),
        wide.as_bytes(),
        &[0xff; 600],
        b"\xff\xfe Mozilla \x80\xc3",
        b"';drop table events;--\t\"\\",
        &[b'a'; 12_000],
    ];
    for agent in hostile {
        let head = b"GET /go HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\nUser-Agent: ";
        let answer = send_request(server.running.address, &[head, agent, b"\r\n\r\n"].concat());
        assert_eq!(answer.status, 301, "{}", String::from_utf8_lossy(&agent[..20]));
    }
    // More than anybody's headers may be is refused before it is anything.
    let endless = server.get("/go", &format!("User-Agent: {}\r\n", "a".repeat(100_000)));
    assert_eq!(endless.status, 431);
    server.click("User-Agent: last\r\n");
    let clicks = server.wait_for(hostile.len() + 1);
    for (click, agent) in clicks.iter().zip(hostile) {
        let kept = click.user_agent.as_deref().unwrap();
        assert!(kept.chars().count() <= 512, "{} characters", kept.chars().count());
        let text = String::from_utf8_lossy(&agent[..agent.len().min(512)]);
        assert!(text.starts_with(kept) || text.trim_end() == kept, "{kept:?}");
    }
}

/// Faults, row 41.
#[test]
fn clock_jumps_lose_no_click_and_repeat_no_id() {
    const HOUR: i64 = 3_600_000;
    let now = Arc::new(AtomicI64::new(NOW.ms()));
    let shown = Arc::clone(&now);
    let clock = Clock::new(move || Timestamp::from_ms(shown.load(Ordering::Relaxed)));
    let server = ServerWithClicks::at(clock, |config| config.threads = 2);
    let mut sent = 0;
    // Forth and back, by seconds, hours and days, with and without time to store what came before.
    for (round, jump) in
        [0, HOUR, 0, -HOUR, 0, -1000, 0, 25 * HOUR, -25 * HOUR, 0, 1, 0].into_iter().enumerate()
    {
        now.store(NOW.ms() + jump, Ordering::Relaxed);
        for _ in 0..5 {
            server.click("");
            sent += 1;
        }
        if round % 2 == 0 {
            server.wait_for(sent);
        }
    }
    let clicks = server.wait_for(sent);
    let mut ids: Vec<_> = clicks.iter().map(|click| click.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), sent, "every click has an id of its own");
}
