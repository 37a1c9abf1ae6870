//! Hostile inputs, S40: nothing private is kept. Addresses, user agents and queries that stand out go in; then every byte of every file that a
//! server and its commands leave is searched for them.

use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::support::raw_client::{send_request, wait_until};
use crate::support::sandbox::{Sandbox, block_on};
use crate::support::server_process::{ServerProcess, serve};

/// In networks of their own.
const FOURS: [&str; 8] = [
    "198.51.100.177",
    "203.0.113.178",
    "192.0.2.179",
    "198.18.5.180",
    "198.19.77.181",
    "198.18.201.182",
    "198.19.33.183",
    "198.18.99.184",
];
const SIX: &str = "2001:db8:77::beef:cafe:f00d";
const AGENT: &str = "Mozilla/5.0 (canary-agent-4711; X11) Gecko/20100101";
/// What else no file may hold: the parts of a Referer that say more than the page, and the query of a request.
const WORDS: [&str; 5] =
    ["canary-user", "canary-password", "canary-question", "canary-fragment", "canary-own"];

/// Ask as anybody would, from each address by both ways in, and as nobody should.
fn click(server: &ServerProcess, host: &str) {
    let addresses = FOURS.into_iter().chain([SIX]);
    for (number, address) in addresses.enumerate() {
        let forwarded = match number % 3 {
            0 if address.contains(':') => format!("Forwarded: for=\"[{address}]:443\"\r\n"),
            0 => format!("Forwarded: for={address};proto=https\r\n"),
            1 => format!("X-Forwarded-For: 10.9.8.7, {address}\r\n"),
            _ => format!("X-Forwarded-For: {address}\r\n"),
        };
        for (path, odd, status) in [
            ("/go?canary-own=1&utm_source=letter", "", 301),
            ("/go?canary-own=2", "Content-Length: 0\r\n", 301),
            ("/go+", "", 200),
            ("/nobody-has-this?canary-own=3", "", 404),
        ] {
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nUser-Agent: {AGENT}\r\n\
                 Referer: https://canary-user:canary-password@page.example/seen?q=canary-question#canary-fragment\r\n\
                 {forwarded}{odd}\r\n"
            );
            assert_eq!(send_request(server.address, request.as_bytes()).status, status, "{request}");
        }
    }
}

/// So many clicks one round of asking is.
const CLICKS: usize = 2 * (FOURS.len() + 1);

#[track_caller]
fn wait_for(sandbox: &Sandbox, clicks: usize) {
    wait_until("clicks are stored", || {
        block_on(async {
            let file = sandbox.path("rlinks-data/clicks.db");
            // A server that has just been started may not have its tables yet.
            let Ok(mut connection) = SqliteConnectOptions::new().filename(file).connect().await else {
                return false;
            };
            let row: Result<(i64,), _> =
                sqlx::query_as("select count(*) from events").fetch_one(&mut connection).await;
            let _ = connection.close().await;
            row.is_ok_and(|(count,)| usize::try_from(count) == Ok(clicks))
        })
    });
}

fn files_under(folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_under(&path, files);
        } else if let Ok(bytes) = std::fs::read(&path) {
            // One that is gone by now was a journal's, and what it held is in the tables.
            files.push((path, bytes));
        }
    }
}

fn holds(bytes: &[u8], what: &[u8]) -> bool {
    let [first, second, ..] = what else { panic!("too short to be looked for") };
    let end = bytes.len().saturating_sub(what.len() - 1);
    // Two bytes first: the tests are not compiled for speed, and there is much to look through.
    (0..end).any(|at| bytes[at] == *first && bytes[at + 1] == *second && bytes[at..].starts_with(what))
}

/// The ways a text may be written down.
fn spellings(address: &str) -> Vec<String> {
    let mut spellings = vec![address.to_owned()];
    if let Ok(six) = address.parse::<Ipv6Addr>() {
        let all = |form: fn(u16) -> String| six.segments().map(form).join(":");
        spellings.extend([all(|word| format!("{word:04x}")), all(|word| format!("{word:x}"))]);
        spellings.push(format!("{:032x}", six.to_bits()));
        let upper: Vec<_> = spellings.iter().map(|text| text.to_ascii_uppercase()).collect();
        spellings.extend(upper);
    }
    spellings
}

/// Searches everything there is, and what was printed, for everything that should not be there.
#[track_caller]
fn search(sandbox: &Sandbox, printed: &[(&str, String)], agent: AgentRetention) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    files_under(&sandbox.path("."), &mut files);
    files.extend(printed.iter().map(|(name, text)| (PathBuf::from(name), text.clone().into_bytes())));
    let mut agents = 0;
    for (path, bytes) in &files {
        let name = path.display();
        let texts = FOURS.into_iter().chain([SIX]).flat_map(spellings).chain(WORDS.map(str::to_owned));
        for text in texts {
            assert!(!holds(bytes, text.as_bytes()), "{text} in {name}");
        }
        let Ok(IpAddr::V6(six)) = SIX.parse() else { panic!("an IPv6 address") };
        let octets = six.octets();
        let mut reversed = octets;
        reversed.reverse();
        // Its second half tells computers of one network apart.
        for secret in [&octets[..], &reversed[..], &octets[8..], &reversed[..8]] {
            assert!(!holds(bytes, secret), "{SIX} as bytes in {name}");
        }
        check_fours(path, bytes);
        agents += usize::from(holds(bytes, b"canary-agent-4711"));
    }
    match agent {
        AgentRetention::No => assert_eq!(agents, 0, "the user agent is in a file"),
        AgentRetention::Yes => assert!(agents > 0, "the user agent is kept where the policy says so"),
    }
    files
}

/// Whether a policy keeps user agents.
#[derive(Clone, Copy)]
enum AgentRetention {
    Yes,
    No,
}

/// An IPv4 address is four bytes, and its first three are kept: one time in 256 a random byte beside them, of a hash, is the
/// fourth. Whoever kept addresses would keep all of them, so half of them in one file is the mark.
#[track_caller]
fn check_fours(path: &Path, bytes: &[u8]) {
    let octets: Vec<[u8; 4]> =
        FOURS.iter().map(|four| four.parse::<std::net::Ipv4Addr>().unwrap().octets()).collect();
    let forth = octets.iter().filter(|octets| holds(bytes, &octets[..])).count();
    let back = octets.iter().filter(|[a, b, c, d]| holds(bytes, &[*d, *c, *b, *a])).count();
    let half = FOURS.len() / 2;
    assert!(forth < half && back < half, "addresses as bytes in {}: {forth} and {back}", path.display());
}

fn found(files: &[(PathBuf, Vec<u8>)], file: &str, what: &[u8]) -> bool {
    files.iter().any(|(path, bytes)| path.to_string_lossy().contains(file) && holds(bytes, what))
}

/// Hostile inputs, S40.
#[test]
fn no_file_contains_visitor_addresses_queries_or_unwanted_user_agents() {
    let sandbox = Sandbox::new();
    sandbox.write("rmax.toml", "trusted_proxies = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\n");
    for (workspace, host) in [("quiet", "quiet.example"), ("loud", "loud.example")] {
        sandbox.ok(&format!("workspaces create {workspace} --preset fabric"));
        sandbox.ok(&format!("--workspace {workspace} domains add {host}"));
        sandbox.ok(&format!("--workspace {workspace} links set go https://example.com/"));
    }
    sandbox.ok("workspaces policy loud --set user_agent=256");
    let mut printed: Vec<(&str, String)> = Vec::new();

    // While it runs, with clicks in its journal; then killed, with whatever it had open.
    let mut server = serve(&sandbox, "-vv");
    click(&server, "quiet.example");
    let files = search(&sandbox, &[("the log", server.log())], AgentRetention::No);
    assert!(found(&files, "journal/j-", b"https://page.example/seen"), "clicks are in the journal");
    wait_for(&sandbox, CLICKS);
    search(&sandbox, &[], AgentRetention::No);
    click(&server, "quiet.example");
    server.signal(Signal::KILL);
    server.ends_within(10_000);
    printed.push(("the log of the killed", server.log()));
    search(&sandbox, &printed, AgentRetention::No);

    // Again, and everything that reads clicks.
    let server = serve(&sandbox, "-vv");
    wait_for(&sandbox, 2 * CLICKS);
    click(&server, "quiet.example");
    wait_for(&sandbox, 3 * CLICKS);
    for line in [
        "-vv --workspace quiet links stats go --bots --json",
        "-vv --workspace quiet links list --json",
        "-vv --workspace quiet clicks export quiet.jsonl --full",
        "-vv --workspace quiet clicks export quiet.parquet",
        "-vv --workspace quiet clicks export quiet-short.jsonl",
        "-vv --workspace quiet clicks misses",
        "-vv doctor",
        "-vv backup all.jsonl",
        "-vv audit list --json",
    ] {
        let ran = sandbox.ok(line);
        printed.push(("a command's output", ran.stdout));
        printed.push(("a command's log", ran.stderr));
    }
    printed.push(("the log", server.log()));
    let files = search(&sandbox, &printed, AgentRetention::No);
    // The search looked where clicks are.
    assert!(found(&files, "clicks.db", b"https://page.example/seen"));
    assert!(
        found(&files, "quiet.jsonl", b"203.0.113.0/24") && found(&files, "quiet.jsonl", b"2001:db8:77::/48")
    );
    assert!(
        files.iter().any(|(path, _)| path.to_string_lossy().contains("salt-")),
        "the day's salt is a file"
    );

    // Where the policy keeps user agents they are kept, and addresses still are not.
    click(&server, "loud.example");
    wait_for(&sandbox, 4 * CLICKS);
    printed.push((
        "a command's output",
        sandbox.ok("-vv --workspace loud clicks export loud.jsonl --full").stdout,
    ));
    server.signal(Signal::TERM);
    wait_until("it has said all", || server.says("stopped"));
    printed.push(("the log", server.log()));
    let files = search(&sandbox, &printed, AgentRetention::Yes);
    assert!(found(&files, "loud.jsonl", AGENT.as_bytes()) && found(&files, "clicks.db", AGENT.as_bytes()));
    let unwanted = ["the log", "a command", "quiet", "all.jsonl", "rlinks.db"];
    for name in unwanted {
        assert!(!found(&files, name, b"canary-agent-4711"), "the user agent is in {name}");
    }
}
