//! Times the pages of a list in a store that has many links: for benches.
//!
//! `cargo run --release -p rlinks-server --example list -- path/to/data`

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rlinks_clicks::ClickStore;
use rlinks_core::{Actor, LinkState, Slug, Timestamp, Workspace};
use rlinks_ops::links::list::{ListQuery, Sort, list};
use rlinks_store::{Location, MissingStore, Order, Store, StoreOptions, StoreWriter};

const ROUNDS: usize = 9;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data = std::env::args().nth(1).ok_or("list DATA")?;
    let location = Location::Sqlite(PathBuf::from(data).join("rlinks.db"));
    let now = Timestamp::parse("2026-11-16")?;
    let options = StoreOptions {
        location: location.clone(),
        worker: None,
        holder: "list".to_owned(),
        now,
        if_missing: MissingStore::Refuse,
    };
    let (_, store) = Store::open(options).await?;
    let clicks = ClickStore::open(&location).await?;
    let workspace = store
        .workspace(&Slug::parse("main").map_err(|error| error.to_string())?)
        .await?
        .ok_or("no workspace `main`")?;
    println!("{:46} {:>9} {:>9} {:>6} {:>8}", "", "first ms", "median ms", "links", "total");
    for sort in [Sort::CreatedAt, Sort::UpdatedAt, Sort::Code, Sort::Clicks] {
        for order in [Order::Desc, Order::Asc] {
            for (name, query) in queries(sort) {
                let query = ListQuery { sort, order, ..query };
                let name = format!("{} {order:?} {name}", sort.as_str());
                time(&store, &clicks, &workspace, &name, query, now).await?;
            }
        }
    }
    Ok(())
}

fn queries(sort: Sort) -> Vec<(&'static str, ListQuery)> {
    let text = |text: &str| Some(text.to_owned());
    let all = ListQuery::default();
    let mut queries = vec![("", all.clone())];
    if matches!(sort, Sort::CreatedAt | Sort::Clicks) {
        let day = Timestamp::parse("2026-01-01").ok();
        queries.extend([
            ("search: rare word", ListQuery { search: text("item4711"), ..all.clone() }),
            ("search: two words", ListQuery { search: text("docs guide"), ..all.clone() }),
            ("search: every link's word", ListQuery { search: text("https"), ..all.clone() }),
            ("search: no link's word", ListQuery { search: text("nowhere"), ..all.clone() }),
            ("prefix: one letter", ListQuery { prefix: text("a"), ..all.clone() }),
            ("prefix: two letters", ListQuery { prefix: text("ab"), ..all.clone() }),
            ("tag: rare", ListQuery { tag: text("rare"), ..all.clone() }),
            ("tag: common", ListQuery { tag: text("common"), ..all.clone() }),
            ("state: disabled", ListQuery { state: Some(LinkState::Disabled), ..all.clone() }),
            ("expired", ListQuery { expired: Some(true), ..all.clone() }),
            ("not expired", ListQuery { expired: Some(false), ..all.clone() }),
            ("created after", ListQuery { created_after: day, ..all.clone() }),
            ("one maker", ListQuery { created_by: Some(Actor::operator("user:7")), ..all }),
        ]);
    }
    queries
}

/// The first page, and the ones after it.
#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
async fn time(
    store: &StoreWriter,
    clicks: &ClickStore,
    workspace: &Workspace,
    name: &str,
    query: ListQuery,
    now: Timestamp,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut query, mut took, mut links, mut total) = (query, Vec::new(), 0, 0);
    for round in 0..ROUNDS {
        let start = Instant::now();
        let page = list(store, clicks, workspace, &query, now).await?;
        took.push(start.elapsed());
        if round == 0 {
            (links, total) = (page.links.len(), page.total);
        }
        query.after = page.next;
    }
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let first = ms(took[0]);
    took.sort();
    println!("{name:46} {first:9.1} {:9.1} {links:6} {total:8}", ms(took[ROUNDS / 2]));
    Ok(())
}
