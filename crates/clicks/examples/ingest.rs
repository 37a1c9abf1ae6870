//! Ingest alone, measured: how many clicks a second reach the database, and what they take there.
//!
//! ```text
//! cargo run --release -p rlinks-clicks --example ingest -- sqlite:/tmp/x/rlinks.db 1000000 1000
//! ```
//!
//! The last number is how many links the clicks are spread over, the first few getting most; 0 spreads them evenly over 100,000.

use std::sync::Arc;
use std::time::Instant;

use rlinks_clicks::ingest::max_batch_entries;
use rlinks_clicks::journal::entry::{JournalEntry, UserAgentBytes};
use rlinks_clicks::journal::{Batch, EntryRef, Producer, Reader};
use rlinks_clicks::misses::MissCounter;
use rlinks_clicks::{ClickStore, Ingest};
use rlinks_core::{Id, Timestamp};
use rlinks_store::database::pool::Dialect;
use rlinks_store::{Location, MissingStore, Store, StoreOptions};

const START_MS: i64 = 1_794_000_000_000;
const AGENTS: [&str; 5] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
];
const REFERRERS: [&str; 6] = [
    "",
    "",
    "https://www.google.com/",
    "https://news.example.com/section/article-12345",
    "https://t.co/abcdef",
    "https://www.linkedin.com/feed/",
];

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[expect(clippy::disallowed_methods, reason = "a measurement needs a clock and its arguments")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let location = Location::parse(&arguments.next().ok_or("a store")?)?;
    let clicks_wanted: u64 = arguments.next().ok_or("a number of clicks")?.parse()?;
    let links: u64 = arguments.next().ok_or("a number of links")?.parse()?;
    let dialect = match &location {
        Location::Sqlite(_) => Dialect::Sqlite,
        Location::Postgres(_) => Dialect::Postgres,
    };
    let most = max_batch_entries(dialect) as u64;
    let now = Timestamp::from_ms(START_MS + 40 * 86_400_000);
    let options = StoreOptions {
        location: location.clone(),
        worker: None,
        holder: "bench".into(),
        now,
        if_missing: MissingStore::Refuse,
    };
    let (_, store) = Store::open(options).await?;
    let clicks = ClickStore::open(&location).await?;
    let control = tokio::runtime::Handle::current();
    let folder = std::env::temp_dir().join("no journal here");
    let mut ingest = Ingest::new(
        store.reader(),
        control,
        Reader::abandoned(&folder),
        None,
        Arc::new(MissCounter::default()),
    );
    let (mut state, mut sequence) = (7, 0);
    let producer = Producer { boot: random(&mut state) ^ u64::from(std::process::id()) << 32, thread: 0 };
    let began = Instant::now();
    let mut storing = std::time::Duration::ZERO;
    while sequence < clicks_wanted {
        let mut batch = Batch::default();
        for _ in 0..most.min(clicks_wanted - sequence) {
            let drawn = random(&mut state);
            let link = match links {
                0 => drawn % 100_000,
                // Half of what is left goes to the first half of what is left.
                _ => (drawn % links).min(random(&mut state) % links).min(random(&mut state) % links),
            };
            let agent = random(&mut state) % 5;
            let record = JournalEntry {
                ts: Timestamp::from_ms(START_MS + i64::try_from(sequence * 2_592)?),
                link: Id::from_i64(380_000_000_000_000_000 + i64::try_from(link)?),
                workspace: Id::from_i64(1),
                visitor: if links == 0 { 1 } else { random(&mut state) % (clicks_wanted / 3) },
                prefix: Some(i64::try_from(random(&mut state) % 2000)?),
                country: Some([b'A' + (drawn % 7) as u8, b'A' + (drawn % 5) as u8]),
                bot: false,
                ua_hash: agent,
                agent: UserAgentBytes::Raw(AGENTS[usize::try_from(agent)?].as_bytes()),
                referrer: REFERRERS[usize::try_from(random(&mut state) % 6)?].as_bytes(),
                utm_source: "",
                utm_medium: "",
                utm_campaign: if drawn.is_multiple_of(10) { "fall" } else { "" },
            };
            sequence += 1;
            let start = batch.bytes.len();
            record.encode(&mut batch.bytes);
            let bytes = start..batch.bytes.len();
            batch.entries.push(EntryRef { producer, sequence, bytes });
        }
        let from = Instant::now();
        ingest.ingest_batch(&clicks, &batch, now).await?;
        storing += from.elapsed();
    }
    let per_second =
        |elapsed: std::time::Duration| u128::from(sequence) * 1_000_000 / elapsed.as_micros().max(1);
    println!(
        "{} clicks/s stored, {} clicks/s with making them",
        per_second(storing),
        per_second(began.elapsed())
    );
    clicks.close().await;
    Ok(())
}
