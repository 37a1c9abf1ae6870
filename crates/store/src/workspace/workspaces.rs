//! Workspaces: few, and changed rarely, so each change is a transaction of its own.

use rlinks_core::id::EPOCH_MS;
use rlinks_core::{Actor, Id, Policy, Preset, Slug, Timestamp, Workspace};

use crate::audit::chain::{NewEntry, lock_heads, record_locked};
use crate::audit::log::workspace_subject;
use crate::database::json::json;
use crate::database::pool::{Pool, Tx, read, read_in, run_in};
use crate::database::row::from_row;
use crate::{Store, StoreError, StoreWriter};

/// The workspace every installation begins with.
pub(crate) const MAIN_WORKSPACE_ID: i64 = 1;

macro_rules! workspace_columns {
    () => {
        "id, slug, name, policy, created_at, updated_at, deleted_at"
    };
}

/// Makes the workspace `main` where there is none.
pub(crate) async fn ensure_main(pool: &Pool, now: Timestamp) -> Result<(), StoreError> {
    let there: Option<(i64,)> =
        read!(pool, fetch_optional, "select id from workspaces where id = $1", MAIN_WORKSPACE_ID)?;
    if there.is_some() {
        return Ok(());
    }
    let main = Workspace {
        id: Id::from_i64(MAIN_WORKSPACE_ID),
        slug: Slug::main(),
        name: "Main".to_owned(),
        policy: Policy::preset(Preset::Fabric),
        created_at: now,
        updated_at: now,
        deleted_at: None,
    };
    let mut tx = pool.begin().await?;
    // Another process may have been first: then there is nothing to do.
    if insert(&mut tx, &main, &Actor::system(), now).await? {
        tx.commit().await?;
    }
    Ok(())
}

async fn insert(
    tx: &mut Tx,
    workspace: &Workspace,
    actor: &Actor,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let written = run_in!(
        tx,
        "insert into workspaces (id, slug, name, policy, created_at, updated_at, deleted_at) values ($1, $2, $3, $4, $5, $6, null)
         on conflict do nothing",
        workspace.id.as_i64(),
        workspace.slug.as_str(),
        &workspace.name,
        json(&workspace.policy),
        workspace.created_at.ms(),
        workspace.updated_at.ms()
    )?;
    if written == 0 {
        return Ok(false);
    }
    run_in!(
        tx,
        "insert into heads (workspace_id, seq, hash, ts, links) values ($1, 0, $2, 0, 0)",
        workspace.id.as_i64(),
        rlinks_core::audit::GENESIS_HASH
    )?;
    let entry = NewEntry {
        actor,
        action: "workspace.create",
        subject: workspace_subject(&workspace.slug),
        before: None,
        after: Some(json(workspace)),
    };
    record(tx, workspace.id, entry, now).await?;
    Ok(true)
}

/// Appends one entry to a workspace's chain.
async fn record(tx: &mut Tx, workspace: Id, entry: NewEntry<'_>, now: Timestamp) -> Result<(), StoreError> {
    let heads = lock_heads(tx, [workspace.as_i64()]).await?;
    record_locked(tx, heads, workspace, [entry], now).await
}

pub(crate) struct WorkspaceRow {
    pub(crate) id: i64,
    pub(crate) slug: String,
    pub(crate) name: String,
    pub(crate) policy: String,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) deleted_at: Option<i64>,
}

from_row!(WorkspaceRow { id, slug, name, policy, created_at, updated_at, deleted_at });

impl WorkspaceRow {
    pub(crate) fn workspace(self) -> Result<Workspace, StoreError> {
        let policy = serde_json::from_str(&self.policy).map_err(|error| {
            StoreError::Unreadable(format!("the policy of workspace {}: {error}", self.slug))
        })?;
        Ok(Workspace {
            id: Id::from_i64(self.id),
            slug: Slug::from_stored(self.slug),
            name: self.name,
            policy,
            created_at: Timestamp::from_ms(self.created_at),
            updated_at: Timestamp::from_ms(self.updated_at),
            deleted_at: self.deleted_at.map(Timestamp::from_ms),
        })
    }
}

impl Store {
    /// All workspaces, the deleted ones too, oldest first.
    pub async fn workspaces(&self) -> Result<Vec<Workspace>, StoreError> {
        const SQL: &str = concat!("select ", workspace_columns!(), " from workspaces order by id");
        let rows: Vec<WorkspaceRow> = read!(&self.pool, fetch_all, SQL)?;
        rows.into_iter().map(WorkspaceRow::workspace).collect()
    }

    /// A workspace by its slug, deleted or not.
    pub async fn workspace(&self, slug: &Slug) -> Result<Option<Workspace>, StoreError> {
        const SQL: &str = concat!("select ", workspace_columns!(), " from workspaces where slug = $1");
        let row: Option<WorkspaceRow> = read!(&self.pool, fetch_optional, SQL, slug.as_str())?;
        row.map(WorkspaceRow::workspace).transpose()
    }
}

impl StoreWriter {
    /// Makes a workspace. A slug is unique for ever, so a deleted workspace's is taken too.
    pub async fn create_workspace(
        &self,
        slug: Slug,
        name: String,
        policy: Policy,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Workspace, StoreError> {
        let mut tx = self.pool.begin().await?;
        // Workspaces are few, and made one after the other under the first one's lock: so their ids need no maker.
        lock_heads(&mut tx, [MAIN_WORKSPACE_ID]).await?;
        let (newest,): (i64,) = read_in!(&mut tx, fetch_one, "select max(id) from workspaces")?;
        let id = Id::from_i64((newest + 1).max((now.ms() - EPOCH_MS) << 22));
        let workspace =
            Workspace { id, slug, name, policy, created_at: now, updated_at: now, deleted_at: None };
        if !insert(&mut tx, &workspace, actor, now).await? {
            return Err(StoreError::NameTaken(workspace.slug.to_string()));
        }
        tx.commit().await?;
        self.notify_changed();
        Ok(workspace)
    }

    /// Changes name, policy or deletion of a workspace. `seen` is the workspace as the caller read it; another state is a conflict.
    pub async fn update_workspace(
        &self,
        seen: &Workspace,
        next: Workspace,
        action: &str,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Workspace, StoreError> {
        const SQL: &str = concat!("select ", workspace_columns!(), " from workspaces where id = $1");
        let mut change = self.begin_change(seen.id).await?;
        let there: Option<WorkspaceRow> = read_in!(&mut change.tx, fetch_optional, SQL, seen.id.as_i64())?;
        let there = there.map(WorkspaceRow::workspace).transpose()?;
        if there.as_ref() != Some(seen) {
            return Err(StoreError::Conflict);
        }
        if next == *seen {
            return Ok(next);
        }
        let next = Workspace {
            id: seen.id,
            slug: seen.slug.clone(),
            created_at: seen.created_at,
            updated_at: now,
            ..next
        };
        run_in!(
            &mut change.tx,
            "update workspaces set name = $2, policy = $3, updated_at = $4, deleted_at = $5 where id = $1",
            next.id.as_i64(),
            &next.name,
            json(&next.policy),
            next.updated_at.ms(),
            next.deleted_at.map(Timestamp::ms)
        )?;
        let entry = NewEntry {
            actor,
            action,
            subject: workspace_subject(&next.slug),
            before: Some(json(seen)),
            after: Some(json(&next)),
        };
        change.commit([entry], now).await?;
        Ok(next)
    }
}
