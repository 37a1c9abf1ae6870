//! The follower: keeps what the redirect path knows up to date with the store.

use std::sync::Arc;
use std::time::Duration;

use rlinks_core::{Host, Id};
use rlinks_store::feed::{Changes, Feed};
use rlinks_store::{Dialect, Store, StoreError};

use crate::Routes;
use rlinks_store::clock::monotonic_ms;

/// How often a look is taken when nobody gives a hint.
const SQLITE_LOOK: Duration = Duration::from_millis(100);
const POSTGRES_LOOK: Duration = Duration::from_millis(500);
/// Between two looks, however much happens: who changes a link tells the serving threads without a look, and each look reads.
const APART: Duration = Duration::from_millis(50);
/// A look that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(2);
const PAGE: i64 = 5_000;

/// Follows the store until the task is dropped. Trouble is logged when it begins and when it ends, and never stops it.
pub async fn follow(store: Store, routes: Arc<Routes>, base_domain: Option<Host>) {
    let pause = if store.dialect() == Dialect::Sqlite { SQLITE_LOOK } else { POSTGRES_LOOK };
    let mut feed = Feed::new(&store);
    let mut trouble = false;
    loop {
        let began = monotonic_ms();
        match step(&mut feed, &store, &routes, base_domain.as_ref()).await {
            Ok(()) => {
                routes.confirm(began);
                if std::mem::take(&mut trouble) {
                    tracing::info!("the link store answers again");
                }
            }
            Err(error) => {
                routes.distrust();
                if !std::mem::replace(&mut trouble, true) {
                    tracing::error!(%error, "the link store cannot be read; known links go on redirecting");
                }
                // What was seen but not applied must be seen again.
                feed = Feed::new(&store);
                tokio::time::sleep(pause).await;
            }
        }
        let next = tokio::time::Instant::now() + APART;
        feed.wait(pause).await;
        tokio::time::sleep_until(next).await;
    }
}

async fn step(
    feed: &mut Feed,
    store: &Store,
    routes: &Arc<Routes>,
    base_domain: Option<&Host>,
) -> Result<(), StoreError> {
    let late = |_| StoreError::Unavailable("no answer in time".to_owned());
    let changes = tokio::time::timeout(DEADLINE, feed.look()).await.map_err(late)??;
    if changes.is_empty() {
        return Ok(());
    }
    if changes.people || changes.everything {
        routes.people_changed();
    }
    if changes.directory || changes.everything {
        routes.learn_directory(base_domain).await?;
    }
    if changes.everything {
        return fill(store, routes).await;
    }
    apply(changes, store, routes).await
}

async fn apply(changes: Changes, store: &Store, routes: &Routes) -> Result<(), StoreError> {
    for (workspace, codes) in changes.links {
        for some in codes.chunks(1000) {
            let records = store.routes(workspace, some).await?;
            for code in some {
                match records.iter().find(|record| record.code.as_str() == code) {
                    Some(record) => routes.learn(record),
                    None => routes.forget(workspace, code),
                }
            }
        }
    }
    Ok(())
}

/// Loads every link into a fresh table. Until it is whole, the old one serves and unknown codes are asked of the store.
async fn fill(store: &Store, routes: &Routes) -> Result<(), StoreError> {
    let table = routes.fresh_table();
    let page = |from| {
        let store = store.clone();
        tokio::spawn(async move { store.routes_after(from, PAGE).await })
    };
    let ended = |error: tokio::task::JoinError| StoreError::Unavailable(error.to_string());
    let mut coming = Some(page(Id::from_i64(i64::MIN)));
    while let Some(task) = coming {
        let (records, next) = task.await.map_err(ended)??;
        // The next page is read while this one is put away.
        coming = next.map(&page);
        for record in &records {
            table.put(record);
        }
    }
    let (links, bytes, all) = (table.links(), table.bytes(), table.holds_all());
    routes.replace_table(table);
    tracing::info!(links, bytes, all, "the route table is filled");
    Ok(())
}
