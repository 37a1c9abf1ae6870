//! Lookup and decide, apart from sockets: `cargo bench -p rlinks-routes`.
#![expect(
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "a million links are far from where numbers lose digits"
)]

use std::collections::HashMap;

use divan::{Bencher, black_box};
use rlinks_core::{
    Code, Host, Id, LinkState, Policy, Preset, RedirectStatus, ServedHosts, Target, Timestamp, Visitor,
    decide,
};
use rlinks_routes::route_table::RouteTable;
use rlinks_store::RouteRecord;

const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);
const MAIN: Id = Id::from_i64(1);

fn main() {
    divan::main();
}

fn record(number: usize) -> RouteRecord {
    RouteRecord {
        id: Id::from_i64(number as i64 + 1),
        workspace: MAIN,
        code: Code::from_path(&format!("c{number:07}")).expect("a code"),
        target: Target::from_stored(format!("https://example.com/landing/{number:052}")).expect("a target"),
        redirect_status: RedirectStatus::MovedPermanently,
        state: LinkState::Active,
        https_only: true,
        no_loop: true,
        expires_at: None,
        version: 1,
    }
}

fn table(links: usize) -> RouteTable {
    let table = RouteTable::new(2 << 30);
    (0..links).for_each(|number| table.insert(&record(number)));
    let text: usize = 8 + 80;
    let beyond = table.bytes() as f64 / links as f64 - text as f64;
    eprintln!("{links} links: {} MB, {beyond:.1} bytes a link beyond code and target", table.bytes() >> 20);
    table
}

/// Lookups in one measured step: enough that caches are as warm as they get.
const STEP: usize = 10_000;

/// Codes in an order no cache can guess: a step that shares no factor with the count visits all of them.
fn codes(links: usize) -> Vec<String> {
    (1..=1_000_000.min(links)).map(|number| format!("c{:07}", number * 7_368_787 % links)).collect()
}

/// Looks `STEP` codes up, going on where the last step ended. Which code is next depends on a byte of the target just found, so
/// that no processor looks several up at once: a request is alone with its lookup.
fn measure(bencher: Bencher<'_, '_>, links: usize, mut look: impl FnMut(&str) -> u8) {
    let codes = codes(links);
    let mut at = 0;
    bencher.counter(divan::counter::ItemsCount::new(STEP)).bench_local(|| {
        for _ in 0..STEP {
            at = (at + 1 + usize::from(look(&codes[at]) & 7)) % codes.len();
        }
    });
}

#[divan::bench(args = [100_000, 1_000_000, 10_000_000])]
fn lookup_and_decide(bencher: Bencher<'_, '_>, links: usize) {
    let policy = Policy::preset(Preset::Fabric);
    let domains = ServedHosts::new([Host::parse("rmax.to").expect("a host")], None);
    let visitor = Visitor { host: "rmax.to", served_hosts: &domains };
    let table = table(links);
    measure(bencher, links, |code| {
        let found = table.with(MAIN, code, |_, route| match decide(Some(route), &policy, &visitor, NOW) {
            rlinks_core::Decision::Redirect { target, .. } => target.as_bytes()[target.len() - 1],
            _ => 0,
        });
        found.unwrap_or_default()
    });
}

/// The yardstick: the same lookups in a plain map of boxed texts, which takes 110 bytes a link more.
#[divan::bench(args = [100_000, 1_000_000, 10_000_000])]
fn lookup_in_a_plain_map(bencher: Bencher<'_, '_>, links: usize) {
    let map: HashMap<Box<str>, Box<str>> = (0..links)
        .map(|number| {
            let record = record(number);
            (record.code.as_str().into(), record.target.as_str().into())
        })
        .collect();
    // The answer needs the target's bytes, so they are touched here too.
    measure(bencher, links, |code| map.get(code).map_or(0, |target| target.as_bytes()[target.len() - 1]));
}

#[divan::bench(args = [1_000_000])]
fn lookup_of_unknown_codes(bencher: Bencher<'_, '_>, links: usize) {
    let table = table(links);
    measure(bencher, links, |code| u8::from(table.with(Id::from_i64(2), code, |_, _| ()).is_some()));
}

#[divan::bench]
fn decide_alone(bencher: Bencher<'_, '_>) {
    let record = record(1);
    let policy = Policy::preset(Preset::Fabric);
    let domains = ServedHosts::new([Host::parse("rmax.to").expect("a host")], None);
    let visitor = Visitor { host: "rmax.to", served_hosts: &domains };
    bencher.bench_local(|| {
        decide(black_box(Some(record.route())), &policy, &visitor, NOW) == rlinks_core::Decision::Loop
    });
}
