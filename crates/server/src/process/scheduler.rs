//! The jobs of a server that nobody starts: what a deletion left half-done is finished when the server starts, and what is over is swept
//! once a day, by one node.

use std::sync::Arc;
use std::time::Duration;

use rlinks_clicks::ClickStore;
use rlinks_core::time::DAY_MS;
use rlinks_store::StoreError;
use tokio::sync::OnceCell;

use crate::process::config::Archive;
use rlinks_ops::sweep::{Sweep, open_archive};
use rlinks_ops::{Ops, OpsError, WriteMode};

/// Between two looks at whether a job is due.
const TICK_INTERVAL: Duration = Duration::from_mins(10);
/// After an error: the database is away, or the archive is.
const RETRY_INTERVAL: Duration = Duration::from_mins(1);
/// A day, less the time between looks, so that it does not move through the day.
const DAILY_MS: i64 = DAY_MS - 10 * 60_000;

/// Does what is due until the task is dropped. Trouble is logged and tried again; it stops nothing. `opened` is where whoever drops
/// the task finds what is to be closed.
pub async fn run(ops: Ops, archive: Option<Archive>, opened: Arc<OnceCell<ClickStore>>) {
    while let Err(error) = finish_interrupted_deletions(&ops).await {
        tracing::debug!(%error, "deletions that were cut off wait for the store");
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    let clicks = loop {
        match opened.get_or_try_init(|| ClickStore::open(ops.store.location())).await {
            Ok(clicks) => break clicks,
            Err(error) => {
                tracing::debug!(%error, "the daily jobs wait for the clicks");
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    };
    loop {
        let pause = match tick(&ops, clicks, archive.as_ref()).await {
            Ok(()) => TICK_INTERVAL,
            Err(error) => {
                tracing::warn!(%error, "a daily job could not be done and is tried again");
                RETRY_INTERVAL
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Whoever deleted their account meant their links too, and a process that ended meanwhile is no reason to wait until tomorrow.
async fn finish_interrupted_deletions(ops: &Ops) -> Result<(), OpsError> {
    let workspaces = ops.store.workspaces().await?;
    for (workspace, links) in ops.finish_deletions(&workspaces, WriteMode::Apply, ops.clock.now()).await? {
        tracing::info!(%workspace, links, "links of deleted accounts were deleted");
    }
    Ok(())
}

async fn tick(ops: &Ops, clicks: &ClickStore, to: Option<&Archive>) -> Result<(), OpsError> {
    let now = ops.clock.now();
    clicks.make_partitions(now).await.map_err(StoreError::for_clicks)?;
    clicks.forget_seen(now).await.map_err(StoreError::for_clicks)?;
    if !clicks.claim_job("sweep", DAILY_MS, now).await.map_err(StoreError::for_clicks)? {
        return Ok(());
    }
    let target = match to.map(|to| open_archive(&to.destination, &to.options)).transpose() {
        Ok(target) => target,
        Err(error) => {
            tracing::error!(%error, "retention.archive cannot be used, so nothing is swept");
            return Ok(());
        }
    };
    let workspaces = ops.store.workspaces().await?;
    let (workspaces, archive, mode) = (&workspaces[..], target.as_ref(), WriteMode::Apply);
    let sweep = Sweep { ops, clicks, workspaces, archive, mode };
    let swept = sweep.run(now).await?;
    for workspace in &swept.workspaces {
        tracing::info!(
            workspace = %workspace.workspace,
            purged_links = workspace.purged_links,
            left_links = workspace.left_links,
            purged_keys = workspace.purged_keys,
            disabled_links = workspace.disabled_links,
            pruned_clicks = workspace.pruned_clicks,
            kept_because = workspace.kept_because,
            "swept"
        );
    }
    if let Some(why) = &swept.safety_error {
        tracing::error!(why, "links could not be checked");
    }
    for why in &swept.domain_check_errors {
        tracing::warn!("{why}");
    }
    for looked in &swept.domains {
        let (host, workspace, changes) = (&looked.host, &looked.workspace, looked.changes.join("; "));
        if looked.alarm {
            tracing::warn!(%host, %workspace, "a domain needs somebody: {changes}");
        } else {
            tracing::info!(%host, %workspace, "a domain: {changes}");
        }
    }
    Ok(())
}
