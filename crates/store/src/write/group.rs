//! One group of changes as one transaction: load, work out, write. The number of statements does not grow with the group.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use rlinks_core::id::WorkerId;
use rlinks_core::{Id, Link, Timestamp};

use super::apply::GroupState;
use crate::StoreError;
use crate::audit::chain::{self, LockedHead, head_updates, lock_heads, lock_heads_and_id, update_heads};
use crate::change_limits::{ChangeCounts, limited_changes};
use crate::database::ids::{LEASE_MS, last_id, update_worker};
use crate::database::json::json;
use crate::database::pool::{Dialect, Pool, Tx, read_in, run_in};
use crate::links::read::COUNT_LIVE_LINKS;
use crate::links::recover::{self, LinkKey, RecoveredRow};
use crate::links::rows::{LinkBatchRow, LinkRow, link_columns, links_among};
use crate::write::idempotency::StoredResults;
use crate::write::insert;
use crate::write::link_write::{CodeChoice, LinkOp, LinkWrite, OnConflict, Written};

/// How long a group may take, and then its commit. Longer than what the database itself allows a statement.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(15);

/// Why a group could not be written, by whom it concerns.
pub(crate) enum CommitError {
    /// Everybody: there is no database to write to, or it did not say whether it wrote. Repeating would only wait again, or
    /// do twice what was done.
    Database(StoreError),
    /// Whoever writes to the same workspace: its head stayed locked.
    Workspace(StoreError),
    /// Perhaps a single member.
    Write(StoreError),
}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> Self {
        Self::Write(error)
    }
}

impl From<sqlx::Error> for CommitError {
    fn from(error: sqlx::Error) -> Self {
        Self::Write(error.into())
    }
}

/// A transaction that holds nothing anybody else may want, in which the words and tags of imported links stand already.
pub(crate) struct PreparedTx {
    pub(super) tx: Tx,
    pub(super) indexed_links: HashSet<i64>,
}

pub(super) async fn commit(
    pool: &Pool,
    worker: WorkerId,
    writes: &[LinkWrite],
    prepared_tx: Option<PreparedTx>,
) -> Result<Results, CommitError> {
    let (tx, results) = with_timeout(prepare(pool, worker, writes, prepared_tx)).await?;
    if let Some(tx) = tx {
        with_timeout(async { tx.commit().await.map_err(CommitError::Database) }).await?;
    }
    Ok(results)
}

/// A server that went away without a word never answers, and its own time limits went with it.
async fn with_timeout<T>(work: impl Future<Output = Result<T, CommitError>>) -> Result<T, CommitError> {
    tokio::time::timeout(COMMIT_TIMEOUT, work).await.unwrap_or_else(|_| {
        let what = format!("the database did not answer within {} s", COMMIT_TIMEOUT.as_secs());
        Err(CommitError::Database(StoreError::Unavailable(what)))
    })
}

type Results = Vec<Result<Written, StoreError>>;

/// Everything up to the commit. No transaction where there is nothing to commit.
async fn prepare(
    pool: &Pool,
    worker: WorkerId,
    writes: &[LinkWrite],
    prepared_tx: Option<PreparedTx>,
) -> Result<(Option<Tx>, Results), CommitError> {
    let PreparedTx { mut tx, indexed_links } = match prepared_tx {
        Some(prepared_tx) => prepared_tx,
        None => PreparedTx {
            tx: pool.begin().await.map_err(CommitError::Database)?,
            indexed_links: HashSet::new(),
        },
    };
    let workspaces: BTreeSet<_> = writes.iter().map(|write| write.workspace.as_i64()).collect();
    let locked = lock_heads_and_id(&mut tx, workspaces.iter().copied(), worker).await;
    let (heads, ids) = if let (heads, Some(ids)) = locked.map_err(CommitError::Workspace)? {
        (heads, ids)
    } else {
        // Nobody knows this worker, or the workspaces: one by one.
        let heads = lock_heads(&mut tx, workspaces).await.map_err(CommitError::Workspace)?;
        (heads, last_id(&mut tx, worker).await?)
    };
    let mut state = load(&mut tx, heads, ids, worker, writes).await?;
    let before: HashMap<LinkKey, PreviousRow> = state
        .links
        .iter()
        .map(|(place, link)| (place.clone(), PreviousRow::new(place, link, &state)))
        .collect();
    let results = writes.iter().map(|write| state.apply(write)).collect();
    if state.changed.is_empty() && state.stored_results.is_empty() && state.entries.is_empty() {
        return Ok((None, results));
    }
    let now = writes.iter().map(|write| write.now).max().unwrap_or(Timestamp::from_ms(0));
    state.stored_results.write(&mut tx).await?;
    state.change_counts.write(&mut tx).await?;
    write_links(&mut tx, &state, &before).await?;
    write_words_entries_and_heads(&mut tx, &state, &indexed_links, now).await?;
    Ok((Some(tx), results))
}

/// What goes with the links: their words and tags where they are not there yet, the audit entries, where the chains end, and the last id.
async fn write_words_entries_and_heads(
    tx: &mut Tx,
    state: &GroupState,
    indexed_links: &HashSet<i64>,
    now: Timestamp,
) -> Result<(), StoreError> {
    const SQLITE: &str = concat!(update_heads!("$1"), "; ", update_worker!("$2", "$3", "$4"));
    let (there, links): (Vec<&Link>, Vec<&Link>) = state
        .changed
        .iter()
        .map(|place| &state.links[place])
        .partition(|link| indexed_links.contains(&link.id.as_i64()));
    if there.len() < indexed_links.len() {
        let written: HashSet<i64> = there.iter().map(|link| link.id.as_i64()).collect();
        delete_tags_and_words(tx, &indexed_links.difference(&written).copied().collect::<Vec<_>>()).await?;
    }
    let entries: Vec<_> = state.entries.iter().map(|(workspace, entry)| (*workspace, entry)).collect();
    let (worker, last_id) = (i64::from(state.worker.number()), state.last_id.as_i64());
    let leased_until = now.plus_ms(LEASE_MS).ms();
    match tx {
        Tx::Sqlite(..) => {
            insert::tags_and_words(tx, &links).await?;
            chain::insert(tx, &entries).await?;
            run_in!(tx, SQLITE, head_updates(&state.heads), worker, last_id, leased_until)?;
            Ok(())
        }
        Tx::Postgres(tx) => {
            let last = [worker, last_id, leased_until];
            insert::in_one_statement(tx, &links, &entries, head_updates(&state.heads), last).await
        }
    }
}

/// A row before a change.
struct PreviousRow {
    /// Its version; nothing where the row is broken, so that whatever it holds is written over.
    version: Option<i64>,
    id: i64,
}

impl PreviousRow {
    fn new(key: &LinkKey, link: &Link, state: &GroupState) -> Self {
        match state.broken_rows.get(key) {
            Some(id) => Self { version: None, id: *id },
            None => Self { version: Some(link.version), id: link.id.as_i64() },
        }
    }
}

async fn load(
    tx: &mut Tx,
    heads: BTreeMap<i64, LockedHead>,
    last_id: Id,
    worker: WorkerId,
    writes: &[LinkWrite],
) -> Result<GroupState, StoreError> {
    let mut state = GroupState {
        heads,
        links: HashMap::new(),
        broken_rows: HashMap::new(),
        by_target: HashMap::new(),
        by_folded: HashMap::new(),
        live: HashMap::new(),
        last_id,
        worker,
        changed: BTreeSet::new(),
        entries: Vec::new(),
        stored_results: StoredResults::load(tx, writes).await?,
        change_counts: ChangeCounts::default(),
    };
    load_links(tx, &mut state, writes).await?;
    load_targets(tx, &mut state, writes).await?;
    load_folded(tx, &mut state, writes).await?;
    load_live(tx, &mut state, writes).await?;
    let limited = writes.iter().filter(|write| may_be_limited(write, &state));
    let limited = limited.filter_map(|write| Some((write.workspace, write.change_limits.as_ref()?)));
    state.change_counts = ChangeCounts::load(tx, limited).await?;
    Ok(state)
}

async fn load_links(tx: &mut Tx, state: &mut GroupState, writes: &[LinkWrite]) -> Result<(), StoreError> {
    let sql = links_among!(
        tx.dialect(),
        link_columns!(),
        "$1",
        "",
        "workspace_id" = "cast(value ->> 'workspace_id' as bigint)",
        "code" = "value ->> 'code'"
    );
    let mut wanted = Vec::new();
    for write in writes {
        let mut want = |code: &str| {
            wanted.push(serde_json::json!({ "workspace_id": write.workspace.as_i64(), "code": code }));
        };
        match &write.op {
            LinkOp::Create { code: CodeChoice::Chosen(code), .. } => want(code.as_str()),
            // A drawn code is hardly ever taken, a chosen one may spell an id to come as rarely, and who imports has looked a moment
            // ago. In a group the insert leaves such a row out, and each member is repeated by itself; by itself it looks first.
            LinkOp::Create { code: CodeChoice::Candidates(_), on_conflict: OnConflict::Refuse, .. }
            | LinkOp::Create { code: CodeChoice::FromId, .. }
            | LinkOp::Import { .. }
                if writes.len() > 1 => {}
            LinkOp::Create { code: CodeChoice::Candidates(codes), .. } => {
                for code in codes {
                    want(code.as_str());
                }
            }
            LinkOp::Create { code: CodeChoice::FromId, .. } => {
                let mut id = state.last_id;
                for _ in 0..16 {
                    id = Id::next(id, write.now, state.worker);
                    want(&rlinks_core::base62::encode(id.as_u64()));
                }
            }
            LinkOp::Replace { next, .. } | LinkOp::RollBack { next, .. } => want(next.code.as_str()),
            LinkOp::Import { link, .. } => want(link.code.as_str()),
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let rows: Vec<LinkRow> = read_in!(tx, fetch_all, sql, json(&wanted))?;
    for reading in recover::links_in(tx, rows).await? {
        add_recovered(state, reading)?;
    }
    Ok(())
}

/// Whether a change may point a link that is there elsewhere, or remove it. Most changes do neither, and cost no query.
fn may_be_limited(write: &LinkWrite, state: &GroupState) -> bool {
    match &write.op {
        LinkOp::Create { on_conflict, .. } => matches!(on_conflict, OnConflict::Recreate),
        LinkOp::Replace { next, .. } => state
            .links
            .get(&(write.workspace.as_i64(), next.code.as_str().to_owned()))
            .is_some_and(|link| !limited_changes(link, next, write.now).is_empty()),
        LinkOp::RollBack { .. } | LinkOp::Import { .. } => false,
    }
}

/// Takes a loaded link into the state.
fn add_recovered(state: &mut GroupState, reading: RecoveredRow) -> Result<(), StoreError> {
    let link = reading.link?;
    if reading.from_log {
        state.broken_rows.insert(reading.key.clone(), reading.row_id);
    }
    state.links.insert(reading.key, link);
    Ok(())
}

/// The links that are found by their targets. Others may lead to the same page: they were made when the policy did not reuse
/// targets.
async fn load_targets(tx: &mut Tx, state: &mut GroupState, writes: &[LinkWrite]) -> Result<(), StoreError> {
    let sql = match tx.dialect() {
        Dialect::Sqlite => links_among!(
            Dialect::Sqlite,
            link_columns!(),
            "$1",
            "",
            "workspace_id" = "cast(value ->> 'workspace_id' as bigint)",
            "target_normalized" = "value ->> 'normalized'"
        ),
        // Its index holds the hash of the target: see the migration.
        Dialect::Postgres => links_among!(
            Dialect::Postgres,
            link_columns!(),
            "$1",
            "target_normalized is not null and ",
            "workspace_id" = "cast(value ->> 'workspace_id' as bigint)",
            "target_hash(target_normalized)" = "target_hash(value ->> 'normalized')"
        ),
    };
    let mut wanted = Vec::new();
    for write in writes {
        let normalized = match &write.op {
            LinkOp::Create { on_conflict: OnConflict::Reuse { normalized, .. }, .. } => {
                Some(normalized.clone())
            }
            LinkOp::Replace { next, .. } | LinkOp::RollBack { next, .. } => state.normalized(next),
            LinkOp::Import { link, .. } => state.normalized(link),
            LinkOp::Create { .. } => None,
        };
        if let Some(normalized) = normalized {
            wanted.push(
                serde_json::json!({ "workspace_id": write.workspace.as_i64(), "normalized": normalized }),
            );
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let rows: Vec<LinkRow> = read_in!(tx, fetch_all, sql, json(&wanted))?;
    for reading in recover::links_in(tx, rows).await? {
        if let Some(normalized) = reading.link.as_ref().ok().and_then(|link| state.normalized(link)) {
            state.by_target.insert((reading.key.0, normalized), reading.key.1.clone());
        }
        add_recovered(state, reading)?;
    }
    Ok(())
}

async fn load_folded(tx: &mut Tx, state: &mut GroupState, writes: &[LinkWrite]) -> Result<(), StoreError> {
    let folds = |write: &LinkWrite| {
        state.heads.get(&write.workspace.as_i64()).is_some_and(|head| head.policy.code.unique_fold)
    };
    let chosen = |write: &LinkWrite| match &write.op {
        LinkOp::Create { code: CodeChoice::Chosen(code), .. } => Some(code.folded()),
        LinkOp::Import { link, .. } if !link.generated => Some(link.code.folded()),
        _ => None,
    };
    let wanted: Vec<_> = writes
        .iter()
        .filter(|write| folds(write))
        .filter_map(|write| Some((write.workspace.as_i64(), chosen(write)?)))
        .map(|(workspace, code)| serde_json::json!({ "workspace_id": workspace, "code": code }))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let sql = links_among!(
        tx.dialect(),
        "workspace_id, code_folded, code",
        "$1",
        "not generated and ",
        "workspace_id" = "cast(value ->> 'workspace_id' as bigint)",
        "code_folded" = "value ->> 'code'"
    );
    let rows: Vec<(i64, String, String)> = read_in!(tx, fetch_all, sql, json(&wanted))?;
    state.by_folded.extend(rows.into_iter().map(|(workspace, folded, code)| ((workspace, folded), code)));
    Ok(())
}

async fn load_live(tx: &mut Tx, state: &mut GroupState, writes: &[LinkWrite]) -> Result<(), StoreError> {
    let now = writes.iter().map(|write| write.now).max().unwrap_or(Timestamp::from_ms(0));
    let limited: Vec<i64> = state
        .heads
        .iter()
        .filter(|(_, head)| head.policy.limits.live_links.is_some())
        .map(|(id, _)| *id)
        .collect();
    for workspace in limited {
        let (live,): (i64,) = read_in!(tx, fetch_one, COUNT_LIVE_LINKS, workspace, now.ms())?;
        state.live.insert(workspace, live);
    }
    Ok(())
}

async fn write_links(
    tx: &mut Tx,
    state: &GroupState,
    before: &HashMap<LinkKey, PreviousRow>,
) -> Result<(), StoreError> {
    let (mut new, mut changed, mut old_ids) = (Vec::new(), Vec::new(), Vec::new());
    for place in &state.changed {
        let link = &state.links[place];
        match before.get(place) {
            None => new.push(LinkBatchRow::from_link(link, state.reuse_key(link), None)),
            Some(before) => {
                changed.push(LinkBatchRow::from_link(link, state.reuse_key(link), before.version));
                old_ids.push(before.id);
            }
        }
    }
    let count = new.len() + changed.len();
    let written = insert::links(tx, &new).await? + update_links(tx, &changed).await?;
    if written != count as u64 {
        // Somebody wrote past the head's lock. Whoever repeats this sees what they wrote.
        return Err(StoreError::Conflict);
    }
    delete_tags_and_words(tx, &old_ids).await
}

async fn update_links(tx: &mut Tx, rows: &[LinkBatchRow<'_>]) -> Result<u64, StoreError> {
    if rows.is_empty() {
        return Ok(0);
    }
    Ok(run_in!(
        tx,
        "update links set
            id = n.id, generated = n.generated, target = n.target, target_normalized = n.target_normalized,
            redirect_status = n.redirect_status, state = n.state, https_only = n.https_only, no_loop = n.no_loop,
            expires_at = n.expires_at, title = n.title, notes = n.notes, tags = n.tags, metadata = n.metadata, source = n.source,
            created_by = n.created_by, created_at = n.created_at, updated_at = n.updated_at, version = n.version
         from (select cast(value ->> 'id' as bigint) as id, cast(value ->> 'workspace_id' as bigint) as workspace_id,
                      value ->> 'code' as code, cast(value ->> 'generated' as boolean) as generated,
                      value ->> 'target' as target, value ->> 'target_normalized' as target_normalized,
                      cast(value ->> 'redirect_status' as bigint) as redirect_status, value ->> 'state' as state,
                      cast(value ->> 'https_only' as boolean) as https_only, cast(value ->> 'no_loop' as boolean) as no_loop,
                      cast(value ->> 'expires_at' as bigint) as expires_at, value ->> 'title' as title, value ->> 'notes' as notes,
                      value ->> 'tags' as tags, value ->> 'metadata' as metadata, value ->> 'source' as source,
                      value ->> 'created_by' as created_by, cast(value ->> 'created_at' as bigint) as created_at,
                      cast(value ->> 'updated_at' as bigint) as updated_at, cast(value ->> 'version' as bigint) as version,
                      cast(value ->> 'base' as bigint) as base
               from json_each($1)) as n
         where links.workspace_id = n.workspace_id and links.code = n.code
           and (links.version = n.base or n.base is null)",
        json(rows)
    )?)
}

async fn delete_tags_and_words(tx: &mut Tx, ids: &[i64]) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids = json(&ids.iter().map(|id| serde_json::json!({ "id": id })).collect::<Vec<_>>());
    run_in!(
        tx,
        "delete from link_tags where link_id in (select cast(value ->> 'id' as bigint) from json_each($1))",
        &ids
    )?;
    run_in!(
        tx,
        "delete from link_search where rowid in (select cast(value ->> 'id' as bigint) from json_each($1))",
        &ids
    )?;
    Ok(())
}
