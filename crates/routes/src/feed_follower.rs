//! The follower: keeps what the redirect path knows up to date with the store.

use std::sync::Arc;
use std::time::Duration;

use rlinks_core::{Host, Id};
use rlinks_store::feed::{Changes, Feed};
use rlinks_store::{Dialect, Store, StoreError};

use crate::RouteCache;

/// How often a look is taken when nobody gives a hint.
const SQLITE_POLL_INTERVAL: Duration = Duration::from_millis(100);
const POSTGRES_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Between two looks, however much happens: who changes a link tells the serving threads without a look, and each look reads.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// A look that takes longer has failed.
const POLL_TIMEOUT: Duration = Duration::from_secs(2);
const PAGE_SIZE: i64 = 5_000;

/// Follows the store until the task is dropped. Trouble is logged when it begins and when it ends, and never stops it.
pub async fn run(store: Store, routes: Arc<RouteCache>, base_domain: Option<Host>) {
    let poll_interval =
        if store.dialect() == Dialect::Sqlite { SQLITE_POLL_INTERVAL } else { POSTGRES_POLL_INTERVAL };
    let mut feed = Feed::new(&store);
    let mut failing = false;
    loop {
        let began = routes.clock().monotonic_ms();
        match tick(&mut feed, &store, &routes, base_domain.as_ref()).await {
            Ok(()) => {
                routes.mark_fresh(began);
                if std::mem::take(&mut failing) {
                    tracing::info!("the link store answers again");
                }
            }
            Err(error) => {
                routes.mark_stale();
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(%error, "the link store cannot be read; known links go on redirecting");
                }
                // What was seen but not applied must be seen again.
                feed = Feed::new(&store);
                tokio::time::sleep(poll_interval).await;
            }
        }
        let next = tokio::time::Instant::now() + MIN_POLL_INTERVAL;
        feed.wait(poll_interval).await;
        tokio::time::sleep_until(next).await;
    }
}

async fn tick(
    feed: &mut Feed,
    store: &Store,
    routes: &Arc<RouteCache>,
    base_domain: Option<&Host>,
) -> Result<(), StoreError> {
    let late = |_| StoreError::Unavailable("no answer in time".to_owned());
    let changes = tokio::time::timeout(POLL_TIMEOUT, feed.poll()).await.map_err(late)??;
    if changes.is_empty() {
        return Ok(());
    }
    if changes.rights || changes.everything {
        routes.bump_rights_version();
    }
    if changes.directory || changes.everything {
        routes.reload_directory(base_domain).await?;
    }
    if changes.everything {
        return load_all_links(store, routes).await;
    }
    apply(changes, store, routes).await
}

async fn apply(changes: Changes, store: &Store, routes: &RouteCache) -> Result<(), StoreError> {
    for (workspace, codes) in changes.links {
        for some in codes.chunks(1000) {
            let records = store.routes(workspace, some).await?;
            for code in some {
                match records.iter().find(|record| record.code.as_str() == code) {
                    Some(record) => routes.insert(record),
                    None => routes.remove(workspace, code),
                }
            }
        }
    }
    Ok(())
}

/// Loads every link into a fresh table. Until it is whole, the old one serves and unknown codes are asked of the store.
async fn load_all_links(store: &Store, routes: &RouteCache) -> Result<(), StoreError> {
    let table = routes.new_table();
    let page = |from| {
        let store = store.clone();
        tokio::spawn(async move { store.routes_after(from, PAGE_SIZE).await })
    };
    let ended = |error: tokio::task::JoinError| StoreError::Unavailable(error.to_string());
    let mut next_page = Some(page(Id::from_i64(i64::MIN)));
    while let Some(task) = next_page {
        let (records, next) = task.await.map_err(ended)??;
        // The next page is read while this one is put away.
        next_page = next.map(&page);
        for record in &records {
            table.insert(record);
        }
    }
    let (links, bytes, all) = (table.links(), table.bytes(), table.is_complete());
    routes.replace_table(table);
    tracing::info!(links, bytes, all, "the route table is filled");
    Ok(())
}
