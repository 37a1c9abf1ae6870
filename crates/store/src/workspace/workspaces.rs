//! Workspaces and domains: few, and changed rarely, so each change is a transaction of its own.

use std::collections::{BTreeMap, HashSet};

use rlinks_core::id::EPOCH_MS;
use rlinks_core::{Actor, Domain, Domains, Host, Id, Policy, Preset, Slug, Standing, Timestamp, Workspace};

use crate::audit::log::{domain_subject, workspace_subject};
use crate::database::pool::{Pool, Tx, read, read_in, run_in};
use crate::links::rows::{DomainRow, WorkspaceRow, json};
use crate::write::queue::{LockedHead, NewEntry, append, lock_heads};
use crate::{Store, StoreError};

/// The workspace every installation begins with.
pub(crate) const MAIN: i64 = 1;

macro_rules! workspace_columns {
    () => {
        "id, slug, name, policy, created_at, updated_at, deleted_at"
    };
}

/// Makes the workspace `main` where there is none.
pub(crate) async fn ensure_main(pool: &Pool, now: Timestamp) -> Result<(), StoreError> {
    let there: Option<(i64,)> = read!(pool, fetch_optional, "select id from workspaces where id = $1", MAIN)?;
    if there.is_some() {
        return Ok(());
    }
    let main = Workspace {
        id: Id::from_i64(MAIN),
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
        rlinks_core::audit::GENESIS
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

pub(crate) async fn record_locked<'a>(
    tx: &mut Tx,
    mut heads: BTreeMap<i64, LockedHead>,
    workspace: Id,
    entries: impl IntoIterator<Item = NewEntry<'a>>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let head = heads.get_mut(&workspace.as_i64()).ok_or_else(no_workspace)?;
    let entries: Vec<_> =
        entries.into_iter().map(|entry| (workspace.as_i64(), head.push(entry, now))).collect();
    append(tx, &heads, &entries).await
}

pub(crate) fn no_workspace() -> StoreError {
    StoreError::NotFound("such workspace".to_owned())
}

/// Who added each host. A cross join is what SQLite does in the order it is written: it would rather read the whole log.
const VOUCHED: &str = "select d.host, d.workspace_id, a.actor from domains d cross join audit a
     where a.workspace_id = d.workspace_id and a.subject = 'domain:' || d.host and a.action = 'domain.add'
     order by a.seq";

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
        lock_heads(&mut tx, [MAIN]).await?;
        let (newest,): (i64,) = read_in!(&mut tx, fetch_one, "select max(id) from workspaces")?;
        let id = Id::from_i64((newest + 1).max((now.ms() - EPOCH_MS) << 22));
        let workspace =
            Workspace { id, slug, name, policy, created_at: now, updated_at: now, deleted_at: None };
        if !insert(&mut tx, &workspace, actor, now).await? {
            return Err(StoreError::NameTaken(workspace.slug.to_string()));
        }
        tx.commit().await?;
        self.announce();
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
        let mut tx = self.pool.begin().await?;
        let heads = lock_heads(&mut tx, [seen.id.as_i64()]).await?;
        let there: Option<WorkspaceRow> = read_in!(&mut tx, fetch_optional, SQL, seen.id.as_i64())?;
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
            &mut tx,
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
        record_locked(&mut tx, heads, next.id, [entry], now).await?;
        tx.commit().await?;
        self.announce();
        Ok(next)
    }

    /// All domains, by host.
    pub async fn domains(&self) -> Result<Vec<Domain>, StoreError> {
        let rows: Vec<DomainRow> = read!(
            &self.pool,
            fetch_all,
            "select host, workspace_id, is_primary, created_at from domains order by host"
        )?;
        Ok(rows.into_iter().map(DomainRow::domain).collect())
    }

    /// The hosts that count as ours for everybody: those of `main`, and those the operator gave to others. A host that a workspace gave
    /// itself is only its own word. The log says whose act it was.
    pub async fn vouched_hosts(&self) -> Result<HashSet<Host>, StoreError> {
        let rows: Vec<(String, i64, String)> = read!(&self.pool, fetch_all, VOUCHED)?;
        // The last time it was added counts.
        let mut vouched = HashSet::new();
        for (host, workspace, actor) in rows {
            let (host, actor) = (Host::stored(host), Actor::stored(actor));
            if workspace == MAIN || (actor.user().is_none() && actor.key().is_none()) {
                vouched.insert(host);
            } else {
                vouched.remove(&host);
            }
        }
        Ok(vouched)
    }

    /// The hosts no link leads back to, whosever it is.
    pub async fn served(&self, base: Option<&Host>) -> Result<Domains, StoreError> {
        Ok(Domains::new(self.vouched_hosts().await?, base))
    }

    /// Adds a domain; the first of a workspace is its primary one. Adding one's own domain again changes nothing.
    pub async fn add_domain(
        &self,
        workspace: Id,
        host: Host,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Domain, StoreError> {
        self.add_with(workspace, host, actor, now, Standing::Active).await
    }

    /// Removes a domain. Where it was the primary one, the oldest of the rest takes its place.
    pub async fn remove_domain(
        &self,
        workspace: Id,
        host: &Host,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        let heads = lock_heads(&mut tx, [workspace.as_i64()]).await?;
        let entries = remove_in(&mut tx, workspace, host, actor).await?;
        record_locked(&mut tx, heads, workspace, entries, now).await?;
        tx.commit().await?;
        self.announce();
        Ok(())
    }

    /// Makes a domain the one short URLs are written with.
    pub async fn set_primary_domain(
        &self,
        workspace: Id,
        host: &Host,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Domain, StoreError> {
        let mut tx = self.pool.begin().await?;
        let heads = lock_heads(&mut tx, [workspace.as_i64()]).await?;
        let mine = domains_of(&mut tx, workspace).await?;
        let Some(seen) = mine.into_iter().find(|domain| domain.host == *host) else {
            return Err(StoreError::NotFound(format!("domain `{host}` in this workspace")));
        };
        if seen.primary {
            return Ok(seen);
        }
        let next = Domain { primary: true, ..seen.clone() };
        run_in!(
            &mut tx,
            "update domains set is_primary = (host = $2) where workspace_id = $1",
            workspace.as_i64(),
            host.as_str()
        )?;
        let entry = NewEntry {
            actor,
            action: "domain.primary",
            subject: domain_subject(host),
            before: Some(json(&seen)),
            after: Some(json(&next)),
        };
        record_locked(&mut tx, heads, workspace, [entry], now).await?;
        tx.commit().await?;
        self.announce();
        Ok(next)
    }
}

/// Adds a domain under the lock of its workspace's head, with the entry that says so; nothing to say where it was there.
pub(crate) async fn add_in<'a>(
    tx: &mut Tx,
    workspace: Id,
    host: Host,
    actor: &'a Actor,
    now: Timestamp,
) -> Result<(Domain, Option<NewEntry<'a>>), StoreError> {
    let mine = domains_of(tx, workspace).await?;
    let primary = !mine.iter().any(|domain| domain.primary);
    let domain = Domain { host, workspace, primary, created_at: now };
    let written = run_in!(
        tx,
        "insert into domains (host, workspace_id, is_primary, created_at) values ($1, $2, $3, $4) on conflict do nothing",
        domain.host.as_str(),
        workspace.as_i64(),
        primary,
        now.ms()
    )?;
    if written == 0 {
        let known = mine.into_iter().find(|known| known.host == domain.host);
        let known = known.ok_or_else(|| StoreError::NameTaken(domain.host.to_string()))?;
        return Ok((known, None));
    }
    let entry = NewEntry {
        actor,
        action: "domain.add",
        subject: domain_subject(&domain.host),
        before: None,
        after: Some(json(&domain)),
    };
    Ok((domain, Some(entry)))
}

/// Removes a domain under the lock of its workspace's head, with the entries that say so.
pub(crate) async fn remove_in<'a>(
    tx: &mut Tx,
    workspace: Id,
    host: &Host,
    actor: &'a Actor,
) -> Result<Vec<NewEntry<'a>>, StoreError> {
    let mut mine = domains_of(tx, workspace).await?;
    let Some(at) = mine.iter().position(|domain| domain.host == *host) else {
        return Err(StoreError::NotFound(format!("domain `{host}` in this workspace")));
    };
    let gone = mine.remove(at);
    run_in!(
        tx,
        "delete from domains where host = $1 and workspace_id = $2",
        host.as_str(),
        workspace.as_i64()
    )?;
    let mut entries = vec![NewEntry {
        actor,
        action: "domain.remove",
        subject: domain_subject(host),
        before: Some(json(&gone)),
        after: None,
    }];
    if let Some(heir) =
        mine.iter().min_by_key(|domain| (domain.created_at, domain.host.clone())).filter(|_| gone.primary)
    {
        run_in!(tx, "update domains set is_primary = $2 where host = $1", heir.host.as_str(), true)?;
        entries.push(NewEntry {
            actor,
            action: "domain.primary",
            subject: domain_subject(&heir.host),
            before: Some(json(heir)),
            after: Some(json(&Domain { primary: true, ..heir.clone() })),
        });
    }
    Ok(entries)
}

async fn domains_of(tx: &mut Tx, workspace: Id) -> Result<Vec<Domain>, StoreError> {
    let rows: Vec<DomainRow> = read_in!(
        tx,
        fetch_all,
        "select host, workspace_id, is_primary, created_at from domains where workspace_id = $1 order by host",
        workspace.as_i64()
    )?;
    Ok(rows.into_iter().map(DomainRow::domain).collect())
}

#[cfg(test)]
mod tests {
    use super::VOUCHED;
    use crate::database::query_plan::{plan, store};

    #[tokio::test]
    async fn who_added_a_host_is_looked_up_and_not_looked_for_in_the_whole_log() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(&store(&folder).await, VOUCHED).await;
        assert!(
            plan.contains("SEARCH a USING INDEX audit_by_subject (workspace_id=? AND subject=?)"),
            "{plan}"
        );
    }
}
