//! Loads `code<TAB>target` lines into a store, through the same writer everything else uses: for benches.
//!
//! `cargo run --release -p rlinks-store --example load -- links.tsv path/to/data`, or `postgres://...` instead of a folder.

use std::io::BufRead as _;
use std::path::PathBuf;

use rlinks_core::{Actor, Code, Id, LinkDraft, LinkSource, RedirectStatus, Target, Timestamp};
use rlinks_store::write::{CodeChoice, LinkOp, LinkWrite, OnConflict};
use rlinks_store::{Location, MissingStore, Store, StoreOptions};

const AT_ONCE: usize = 2048;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(links), Some(data)) = (arguments.next(), arguments.next()) else {
        return Err("load LINKS.tsv DATA".into());
    };
    let now = Timestamp::parse("2026-01-01")?;
    let location = if data.starts_with("postgres://") {
        Location::parse(&data)?
    } else {
        Location::Sqlite(PathBuf::from(data).join("rlinks.db"))
    };
    let (_, store) = Store::open(StoreOptions {
        location,
        worker: None,
        holder: "load".to_owned(),
        now,
        if_missing: MissingStore::Refuse,
    })
    .await?;
    let mut writing = tokio::task::JoinSet::new();
    for (number, line) in std::io::BufReader::new(std::fs::File::open(links)?).lines().enumerate() {
        let line = line?;
        let (code, target) = line.split_once('\t').ok_or("no tab in a line")?;
        let code = Code::from_path(code).ok_or("no code in a line")?;
        let draft = LinkDraft {
            code: Some(code.clone()),
            target: Target::parse(target, 2048).map_err(|error| error.to_string())?,
            redirect_status: RedirectStatus::MovedPermanently,
            expires_at: None,
            title: None,
            notes: None,
            tags: Vec::new(),
            https_only: true,
            no_loop: true,
            metadata: serde_json::Map::new(),
        };
        let op = LinkOp::Create {
            draft,
            code: CodeChoice::Chosen(code),
            source: LinkSource::Import,
            on_conflict: OnConflict::Refuse,
        };
        let now = now.plus_ms(i64::try_from(number)?);
        let write = LinkWrite::new(Id::from_i64(1), Actor::operator("bench"), now, op);
        let store = store.clone();
        writing.spawn(async move { store.write(write).await });
        if writing.len() >= AT_ONCE
            && let Some(written) = writing.join_next().await
        {
            written??;
        }
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }
    store.close().await;
    Ok(())
}
