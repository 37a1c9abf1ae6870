//! API keys. The store has their hashes only. A request finds a key by its prefix, with everything that decides what it may do,
//! as it is now.

use rlinks_core::id::WorkerId;
use rlinks_core::{Actor, ApiKey, Id, Scopes, Timestamp, User, Workspace};
use serde::{Deserialize, Serialize};

use crate::access::lineage::{self, id_list};
use crate::access::user_rows::UserRow;
use crate::audit::chain::NewEntry;
use crate::database::ids::next_id;
use crate::database::json::json;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::database::row::from_row;
use crate::error::QuotaKind;
use crate::quota::{Held, Quota};
use crate::workspace::workspaces::WorkspaceRow;
use crate::{Store, StoreError, StoreWriter};

/// A key about to be made.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub workspace: Id,
    pub user: Option<Id>,
    /// What it is for.
    pub name: String,
    pub prefix: String,
    /// The hash of all of it.
    pub hash: String,
    /// What it may do.
    pub scopes: Scopes,
    pub expires_at: Option<Timestamp>,
}

/// A key and everything that decides what it may do.
#[derive(Clone, Debug)]
pub struct KeyWithOwner {
    pub key: ApiKey,
    /// The hash a request's key must have.
    pub hash: String,
    /// Whose it is, where it is somebody's.
    pub user: Option<User>,
    /// The workspace, deleted or not.
    pub workspace: Workspace,
}

/// A key as the audit log has it: without its name, which is its owner's words, and with its hash, so that a key put into the
/// table past the log is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuditedKey {
    pub(crate) id: Id,
    pub(crate) user: Option<Id>,
    pub(crate) prefix: String,
    pub(crate) hash: String,
    pub(crate) scopes: Scopes,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) revoked_at: Option<Timestamp>,
}

impl AuditedKey {
    pub(crate) fn from_key(key: &ApiKey, hash: &str) -> Self {
        Self {
            id: key.id,
            user: key.user,
            prefix: key.prefix.clone(),
            hash: hash.to_owned(),
            scopes: key.scopes,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
        }
    }
}

/// The subject of entries about a key.
pub fn key_subject(id: Id) -> String {
    format!("key:{id}")
}

macro_rules! key_columns {
    () => {
        "id, workspace_id, user_id, name, prefix, hash, scopes, created_by, created_with, rotated_from, created_at, expires_at, revoked_at, last_used_at, usage_count"
    };
}
pub(super) use key_columns;

pub(crate) struct KeyRow {
    id: i64,
    workspace_id: i64,
    user_id: Option<i64>,
    name: String,
    prefix: String,
    pub(crate) hash: String,
    scopes: String,
    created_by: String,
    created_with: Option<i64>,
    rotated_from: Option<i64>,
    created_at: i64,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
    last_used_at: Option<i64>,
    usage_count: i64,
}

from_row!(KeyRow {
    id,
    workspace_id,
    user_id,
    name,
    prefix,
    hash,
    scopes,
    created_by,
    created_with,
    rotated_from,
    created_at,
    expires_at,
    revoked_at,
    last_used_at,
    usage_count
});

impl KeyRow {
    pub(crate) fn key(self) -> ApiKey {
        ApiKey {
            id: Id::from_i64(self.id),
            workspace: Id::from_i64(self.workspace_id),
            user: self.user_id.map(Id::from_i64),
            name: self.name,
            prefix: self.prefix,
            scopes: Scopes::from_stored(&self.scopes),
            created_by: Actor::from_stored(self.created_by),
            created_with: self.created_with.map(Id::from_i64),
            rotated_from: self.rotated_from.map(Id::from_i64),
            created_at: Timestamp::from_ms(self.created_at),
            expires_at: self.expires_at.map(Timestamp::from_ms),
            revoked_at: self.revoked_at.map(Timestamp::from_ms),
            last_used_at: self.last_used_at.map(Timestamp::from_ms),
            usage_count: self.usage_count,
        }
    }
}

/// A key, its workspace, and its member where it has one.
struct KeyWithOwnerRow {
    key: KeyRow,
    w_slug: String,
    w_name: String,
    w_policy: String,
    w_created_at: i64,
    w_updated_at: i64,
    w_deleted_at: Option<i64>,
    u_email: Option<String>,
    u_full_name: Option<String>,
    u_role: Option<String>,
    u_status: Option<String>,
    u_created_at: Option<i64>,
    u_updated_at: Option<i64>,
    u_last_login_at: Option<i64>,
    u_last_sync_at: Option<i64>,
}

from_row!(KeyWithOwnerRow { w_slug, w_name, w_policy, w_created_at, w_updated_at, w_deleted_at, u_email, u_full_name, u_role, u_status, u_created_at, u_updated_at, u_last_login_at, u_last_sync_at; key });

impl KeyWithOwnerRow {
    fn key_with_owner(self) -> Result<KeyWithOwner, StoreError> {
        let user = self.user();
        // Without its member it would be nobody's, and could do more.
        if self.key.user_id.is_some() && user.is_none() {
            return Err(StoreError::Unreadable(format!("the member of key {}", self.key.id)));
        }
        let (hash, workspace_id) = (self.key.hash.clone(), self.key.workspace_id);
        let workspace = WorkspaceRow {
            id: workspace_id,
            slug: self.w_slug,
            name: self.w_name,
            policy: self.w_policy,
            created_at: self.w_created_at,
            updated_at: self.w_updated_at,
            deleted_at: self.w_deleted_at,
        };
        Ok(KeyWithOwner {
            key: self.key.key(),
            hash,
            user: user.map(UserRow::user).transpose()?,
            workspace: workspace.workspace()?,
        })
    }

    fn user(&self) -> Option<UserRow> {
        Some(UserRow {
            id: self.key.user_id?,
            workspace_id: self.key.workspace_id,
            email: self.u_email.clone()?,
            full_name: self.u_full_name.clone()?,
            role: self.u_role.clone()?,
            status: self.u_status.clone()?,
            created_at: self.u_created_at?,
            updated_at: self.u_updated_at?,
            last_login_at: self.u_last_login_at,
            last_sync_at: self.u_last_sync_at,
        })
    }
}

/// A key and the slug of its workspace.
struct OldKeyRow {
    slug: String,
    key: KeyRow,
}

from_row!(OldKeyRow { slug; key });

impl Store {
    /// A key by its prefix, with whoever it belongs to.
    pub async fn key_with_owner(&self, prefix: &str) -> Result<Option<KeyWithOwner>, StoreError> {
        // One question: a way to the database and back costs more than the rows.
        const SQL: &str = "select k.id, k.workspace_id, k.user_id, k.name, k.prefix, k.hash, k.scopes, k.created_by, k.created_with, k.rotated_from,
                k.created_at, k.expires_at, k.revoked_at, k.last_used_at, k.usage_count,
                w.slug as w_slug, w.name as w_name, w.policy as w_policy, w.created_at as w_created_at, w.updated_at as w_updated_at,
                w.deleted_at as w_deleted_at,
                u.email as u_email, u.full_name as u_full_name, u.role as u_role, u.status as u_status,
                u.created_at as u_created_at, u.updated_at as u_updated_at, u.last_login_at as u_last_login_at,
                u.last_sync_at as u_last_sync_at
             from api_keys k join workspaces w on w.id = k.workspace_id left join users u on u.id = k.user_id
             where k.prefix = $1";
        let row: Option<KeyWithOwnerRow> = read!(&self.pool, fetch_optional, SQL, prefix)?;
        row.map(KeyWithOwnerRow::key_with_owner).transpose()
    }

    /// The hash of the key with a prefix, or what is given where nobody has it. One row either way: how long it takes must not tell.
    pub async fn key_hash(&self, prefix: &str, fallback: &str) -> Result<String, StoreError> {
        let (hash,): (String,) = read!(
            &self.pool,
            fetch_one,
            "select coalesce((select hash from api_keys where prefix = $1), cast($2 as text))",
            prefix,
            fallback
        )?;
        Ok(hash)
    }

    /// A key of a workspace.
    pub async fn key(&self, workspace: Id, id: Id) -> Result<Option<ApiKey>, StoreError> {
        const SQL: &str =
            concat!("select ", key_columns!(), " from api_keys where workspace_id = $1 and id = $2");
        let row: Option<KeyRow> = read!(&self.pool, fetch_optional, SQL, workspace.as_i64(), id.as_i64())?;
        Ok(row.map(KeyRow::key))
    }

    /// The next keys of a workspace, or of one of its members, newest first: at most `limit`, before `before`.
    pub async fn keys(
        &self,
        workspace: Id,
        user: Option<Id>,
        before: Option<Id>,
        limit: i64,
    ) -> Result<Vec<ApiKey>, StoreError> {
        const ALL: &str = concat!(
            "select ",
            key_columns!(),
            " from api_keys where workspace_id = $1 and id < $2 order by id desc limit $3"
        );
        const OF_USER: &str = concat!(
            "select ",
            key_columns!(),
            " from api_keys where workspace_id = $1 and id < $2 and user_id = $4 order by id desc limit $3"
        );
        let before = before.map_or(i64::MAX, Id::as_i64);
        let rows: Vec<KeyRow> = match user {
            None => read!(&self.pool, fetch_all, ALL, workspace.as_i64(), before, limit)?,
            Some(user) => {
                read!(&self.pool, fetch_all, OF_USER, workspace.as_i64(), before, limit, user.as_i64())?
            }
        };
        Ok(rows.into_iter().map(KeyRow::key).collect())
    }

    /// Active keys of living workspaces that were made before a moment and never replaced, oldest first, each with the slug of its
    /// workspace: of all, of one workspace, or of one of its members.
    pub async fn keys_older_than(
        &self,
        workspace: Option<Id>,
        user: Option<Id>,
        before: Timestamp,
        now: Timestamp,
        limit: i64,
    ) -> Result<Vec<(String, ApiKey)>, StoreError> {
        let rows: Vec<OldKeyRow> = read!(
            &self.pool,
            fetch_all,
            "select w.slug as slug, k.id, k.workspace_id, k.user_id, k.name, k.prefix, k.hash, k.scopes, k.created_by, k.created_at,
                    k.expires_at, k.revoked_at, k.last_used_at, k.usage_count, k.created_with, k.rotated_from
             from api_keys k join workspaces w on w.id = k.workspace_id
             where k.created_at <= $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at >= $2)
                   and w.deleted_at is null and k.workspace_id = coalesce(cast($3 as bigint), k.workspace_id)
                   and (cast($4 as bigint) is null or k.user_id = $4)
             order by k.created_at, k.id limit $5",
            before.ms(),
            now.ms(),
            workspace.map(Id::as_i64),
            user.map(Id::as_i64),
            limit
        )?;
        Ok(rows.into_iter().map(|row| (row.slug, row.key.key())).collect())
    }

    /// How many keys [`StoreWriter::purge_keys`] would drop.
    pub async fn count_purgeable_keys(
        &self,
        workspace: Id,
        over_before: Timestamp,
    ) -> Result<u64, StoreError> {
        let (keys,): (i64,) = read!(
            &self.pool,
            fetch_one,
            "select count(*) from api_keys where workspace_id = $1 and (expires_at < $2 or revoked_at < $2)",
            workspace.as_i64(),
            over_before.ms()
        )?;
        Ok(keys.cast_unsigned())
    }
}

impl StoreWriter {
    /// Makes a key, if the quota has room. A prefix that is taken is a conflict: draw another.
    pub async fn create_key(
        &self,
        new: NewKey,
        quota: Option<Quota>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<ApiKey, StoreError> {
        let mut change = self.begin_change(new.workspace).await?;
        let now = change.living_head()?.next_timestamp(now);
        if let Some(quota) = quota {
            let sponsor = sponsor_of(&mut change.tx, actor).await?;
            let held = count_active_keys(&mut change.tx, new.workspace, new.user, &sponsor, now).await?;
            quota.check(QuotaKind::Keys, &held)?;
        }
        let (key, entry) = create(&mut change.tx, self.worker, new, None, actor, now).await?;
        change.commit([entry], now).await?;
        Ok(key)
    }

    /// Takes a key back, and nothing of what was made with it. One that is revoked already stays as it is.
    pub async fn revoke_key(
        &self,
        workspace: Id,
        id: Id,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<ApiKey, StoreError> {
        let mut change = self.begin_change(workspace).await?;
        let (seen, hash) = load_key(&mut change.tx, workspace, id).await?;
        if seen.revoked_at.is_some() {
            return Ok(seen);
        }
        let next = ApiKey { revoked_at: Some(now), ..seen.clone() };
        let entry = update(&mut change.tx, &seen, &next, &hash, "key.revoke", actor).await?;
        change.commit([entry], now).await?;
        Ok(next)
    }

    /// Makes a successor of a key with the same name, owner and scopes; the old one lives until `old_until` at most. Both work for
    /// a while, so there may be twice as many as the quota says, and a member at the quota can still rotate each of them.
    pub async fn rotate_key(
        &self,
        seen: &ApiKey,
        (prefix, hash): (String, String),
        old_until: Timestamp,
        quota: Option<Quota>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<ApiKey, StoreError> {
        let mut change = self.begin_change(seen.workspace).await?;
        let (there, old_hash) = load_key(&mut change.tx, seen.workspace, seen.id).await?;
        if there.revoked_at.is_some() || there.expires_at != seen.expires_at {
            return Err(StoreError::Conflict);
        }
        if let Some(quota) = quota {
            let (owner, sponsor) = (there.user, &there.created_by);
            let held = count_active_keys(&mut change.tx, there.workspace, owner, sponsor, now).await?;
            quota.doubled().check(QuotaKind::Keys, &held)?;
        }
        let new = NewKey {
            workspace: there.workspace,
            user: there.user,
            name: there.name.clone(),
            prefix,
            hash,
            scopes: there.scopes,
            expires_at: there.expires_at,
        };
        let (key, created) = create(&mut change.tx, self.worker, new, Some(&there), actor, now).await?;
        let until = there.expires_at.map_or(old_until, |at| at.min(old_until));
        let next = ApiKey { expires_at: Some(until), ..there.clone() };
        let retired = update(&mut change.tx, &there, &next, &old_hash, "key.rotate", actor).await?;
        change.commit([created, retired], now).await?;
        Ok(key)
    }

    /// Adds what keys were used since the last time: how often, and when last. No change of a key, so nothing is audited.
    pub async fn count_key_use(&self, uses: &[(Id, i64, Timestamp)]) -> Result<(), StoreError> {
        let rows: Vec<(i64, i64, i64)> =
            uses.iter().map(|(id, count, last)| (id.as_i64(), *count, last.ms())).collect();
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "update api_keys set usage_count = usage_count + n.uses,
                 last_used_at = case when last_used_at is null or n.last > last_used_at then n.last else last_used_at end
             from (select cast(value ->> 0 as bigint) as id, cast(value ->> 1 as bigint) as uses, cast(value ->> 2 as bigint) as last
                   from json_each($1)) as n
             where api_keys.id = n.id",
            json(&rows)
        )?;
        tx.commit().await
    }

    /// Drops keys of a workspace that expired or were revoked before a moment: at most `limit`. Gives how many.
    pub async fn purge_keys(
        &self,
        workspace: Id,
        over_before: Timestamp,
        limit: i64,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        const SQL: &str = concat!(
            "select ",
            key_columns!(),
            " from api_keys where workspace_id = $1 and (expires_at < $2 or revoked_at < $2) order by id limit $3"
        );
        let mut change = self.begin_change(workspace).await?;
        let rows: Vec<KeyRow> =
            read_in!(&mut change.tx, fetch_all, SQL, workspace.as_i64(), over_before.ms(), limit)?;
        let entries = delete(&mut change.tx, rows, "key.purge", actor).await?;
        let purged = entries.len() as u64;
        if purged > 0 {
            change.commit(entries, now).await?;
        }
        Ok(purged)
    }
}

/// The active keys of a workspace, and of them those of a member, or of the sponsor of keys without an owner.
async fn count_active_keys(
    tx: &mut Tx,
    workspace: Id,
    owner: Option<Id>,
    sponsor: &Actor,
    now: Timestamp,
) -> Result<Held, StoreError> {
    let is_counted = owner.is_some() || ApiKey::sponsor(sponsor).is_some();
    let (by_workspace, by_member): (i64, i64) = read_in!(
        tx,
        fetch_one,
        "select count(*),
                count(case when user_id = $3 or (user_id is null and $3 is null and created_by = $4) then 1 end)
         from api_keys where workspace_id = $1 and revoked_at is null and (expires_at is null or expires_at >= $2)",
        workspace.as_i64(),
        now.ms(),
        owner.map(Id::as_i64),
        sponsor.as_str()
    )?;
    Ok(Held { by_member: is_counted.then_some(by_member), by_workspace })
}

async fn create<'a>(
    tx: &mut Tx,
    worker: WorkerId,
    new: NewKey,
    predecessor: Option<&ApiKey>,
    actor: &'a Actor,
    now: Timestamp,
) -> Result<(ApiKey, NewEntry<'a>), StoreError> {
    lineage::ensure_not_revoked(tx, actor).await?;
    let key = ApiKey {
        id: next_id(tx, worker, now).await?,
        workspace: new.workspace,
        user: new.user,
        name: new.name,
        prefix: new.prefix,
        scopes: new.scopes,
        created_by: sponsor_of(tx, actor).await?,
        created_with: actor.key().or_else(|| predecessor?.created_with),
        rotated_from: predecessor.map(|key| key.id),
        created_at: now,
        expires_at: new.expires_at,
        revoked_at: None,
        last_used_at: None,
        usage_count: 0,
    };
    if let Some(user) = key.user {
        let living: Option<(i64,)> = read_in!(
            tx,
            fetch_optional,
            "select id from users where workspace_id = $1 and id = $2 and status <> 'deleted'",
            key.workspace.as_i64(),
            user.as_i64()
        )?;
        living.ok_or_else(|| StoreError::NotFound(format!("user {user}")))?;
    }
    if insert(tx, &key, &new.hash).await? == 0 {
        return Err(StoreError::Conflict);
    }
    let entry = NewEntry {
        actor,
        action: "key.create",
        subject: key_subject(key.id),
        before: None,
        after: Some(json(&AuditedKey::from_key(&key, &new.hash))),
    };
    Ok((key, entry))
}

/// Who answers for what an actor makes: of a key its member, or whoever answers for the key; of anybody else themselves. So however
/// many keys make each other, all of them go back to one; who it was that time is in the log.
async fn sponsor_of(tx: &mut Tx, actor: &Actor) -> Result<Actor, StoreError> {
    let Some(key) = actor.key() else { return Ok(actor.clone()) };
    let row: Option<(Option<i64>, String)> =
        read_in!(tx, fetch_optional, "select user_id, created_by from api_keys where id = $1", key.as_i64())?;
    Ok(match row {
        Some((Some(user), _)) => Actor::from_user(Id::from_i64(user)),
        Some((None, maker)) => ApiKey::sponsor(&Actor::from_stored(maker)).unwrap_or_else(|| actor.clone()),
        None => actor.clone(),
    })
}

pub(crate) async fn insert(tx: &mut Tx, key: &ApiKey, hash: &str) -> Result<u64, StoreError> {
    Ok(run_in!(
        tx,
        "insert into api_keys (id, workspace_id, user_id, name, prefix, hash, scopes, created_by, created_with, rotated_from, created_at,
                               expires_at, revoked_at, last_used_at, usage_count)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
         on conflict do nothing",
        key.id.as_i64(),
        key.workspace.as_i64(),
        key.user.map(Id::as_i64),
        &key.name,
        &key.prefix,
        hash,
        key.scopes.to_text(),
        key.created_by.as_str(),
        key.created_with.map(Id::as_i64),
        key.rotated_from.map(Id::as_i64),
        key.created_at.ms(),
        key.expires_at.map(Timestamp::ms),
        key.revoked_at.map(Timestamp::ms),
        key.last_used_at.map(Timestamp::ms),
        key.usage_count
    )?)
}

pub(super) async fn load_key(tx: &mut Tx, workspace: Id, id: Id) -> Result<(ApiKey, String), StoreError> {
    const SQL: &str =
        concat!("select ", key_columns!(), " from api_keys where workspace_id = $1 and id = $2");
    let row: Option<KeyRow> = read_in!(tx, fetch_optional, SQL, workspace.as_i64(), id.as_i64())?;
    let row = row.ok_or_else(|| StoreError::NotFound(format!("key {id}")))?;
    let hash = row.hash.clone();
    Ok((row.key(), hash))
}

pub(super) async fn update<'a>(
    tx: &mut Tx,
    seen: &ApiKey,
    next: &ApiKey,
    hash: &str,
    action: &'a str,
    actor: &'a Actor,
) -> Result<NewEntry<'a>, StoreError> {
    run_in!(
        tx,
        "update api_keys set expires_at = $2, revoked_at = $3 where id = $1",
        next.id.as_i64(),
        next.expires_at.map(Timestamp::ms),
        next.revoked_at.map(Timestamp::ms)
    )?;
    Ok(NewEntry {
        actor,
        action,
        subject: key_subject(next.id),
        before: Some(json(&AuditedKey::from_key(seen, hash))),
        after: Some(json(&AuditedKey::from_key(next, hash))),
    })
}

/// Deletes the keys of somebody who leaves, and says so.
pub(crate) async fn delete_user_keys<'a>(
    tx: &mut Tx,
    user: Id,
    actor: &'a Actor,
) -> Result<Vec<NewEntry<'a>>, StoreError> {
    const SQL: &str = concat!("select ", key_columns!(), " from api_keys where user_id = $1 order by id");
    let rows: Vec<KeyRow> = read_in!(tx, fetch_all, SQL, user.as_i64())?;
    delete(tx, rows, "key.delete", actor).await
}

async fn delete<'a>(
    tx: &mut Tx,
    rows: Vec<KeyRow>,
    action: &'a str,
    actor: &'a Actor,
) -> Result<Vec<NewEntry<'a>>, StoreError> {
    let ids: Vec<Id> = rows.iter().map(|row| Id::from_i64(row.id)).collect();
    lineage::hand_on(tx, &ids).await?;
    run_in!(
        tx,
        "delete from api_keys where id in (select cast(value ->> 0 as bigint) from json_each($1))",
        id_list(&ids)
    )?;
    let entry = |row: KeyRow| {
        let hash = row.hash.clone();
        let key = row.key();
        NewEntry {
            actor,
            action,
            subject: key_subject(key.id),
            before: Some(json(&AuditedKey::from_key(&key, &hash))),
            after: None,
        }
    };
    Ok(rows.into_iter().map(entry).collect())
}
