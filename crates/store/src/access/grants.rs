//! What was made with a key and outlives it: other keys, and pending invitations. A revocation ends them with the key.

use rlinks_core::{Actor, ApiKey, Id, Scopes, Timestamp, User};

use crate::access::api_keys::{AuditedKey, KeyRow, key_columns, key_subject, load_key, update};
use crate::access::lineage::{Lineage, id_list};
use crate::access::sessions::user_entry;
use crate::access::user_rows::UserRow;
use crate::audit::chain::NewEntry;
use crate::database::json::json;
use crate::database::pool::{Tx, read_in, run_in};
use crate::database::row::from_row;
use crate::{Store, StoreError, StoreWriter};

/// Which of the keys and invitations made with a key are ended with it.
#[derive(Clone, Copy, Debug)]
pub struct RevocationReach {
    /// Only keys of this member; else everybody's.
    pub owner: Option<Id>,
    /// Only what may do no more than this.
    pub scopes: Scopes,
    /// Whether invitations are withdrawn too.
    pub invitations: bool,
    /// This key goes on, and so does what was made with it alone.
    pub spared: Option<Id>,
}

/// Keys that are still good, and invitations that can still be accepted, oldest first.
#[derive(Clone, Debug, Default)]
pub struct CreatedWithKeys {
    pub keys: Vec<ApiKey>,
    pub invitations: Vec<OpenInvitation>,
}

/// A pending invitation.
#[derive(Clone, Debug)]
pub struct OpenInvitation {
    pub user: User,
    pub created_at: Timestamp,
    /// Good up to and including this moment.
    pub expires_at: Timestamp,
}

/// A key that was revoked, and what ended with it, as it was.
#[derive(Clone, Debug)]
pub struct RevokedKey {
    pub key: ApiKey,
    pub created: CreatedWithKeys,
}

struct InvitationRow {
    user: UserRow,
    i_created_at: i64,
    i_expires_at: i64,
}

from_row!(InvitationRow { i_created_at, i_expires_at; user });

impl CreatedWithKeys {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.invitations.is_empty()
    }
}

impl Store {
    /// What would end with a key.
    pub async fn created_with_key(
        &self,
        workspace: Id,
        key: Id,
        reach: &RevocationReach,
        now: Timestamp,
    ) -> Result<CreatedWithKeys, StoreError> {
        let mut view = self.pool.snapshot().await?;
        let lineage = Lineage::load(&mut view, &[key], reach.spared).await?;
        Ok(load(&mut view, workspace, &lineage, reach, now).await?.0)
    }

    /// The keys of a member that are still good, and what would end with them.
    pub async fn keys_and_created(
        &self,
        user: &User,
        reach: &RevocationReach,
        now: Timestamp,
    ) -> Result<(Vec<ApiKey>, CreatedWithKeys), StoreError> {
        let mut view = self.pool.snapshot().await?;
        let (keys, created, _) = keys_of(&mut view, user, reach, now).await?;
        Ok((keys, created))
    }
}

impl StoreWriter {
    /// Takes a key back, and whatever was made with it as far as `reach` goes. A key that is revoked already stays as it is; what it
    /// made ends all the same.
    pub async fn revoke_key_and_created(
        &self,
        workspace: Id,
        id: Id,
        reach: &RevocationReach,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<RevokedKey, StoreError> {
        let mut change = self.begin_change(workspace).await?;
        let (seen, hash) = load_key(&mut change.tx, workspace, id).await?;
        let mut entries = Vec::new();
        let mut key = seen.clone();
        if seen.revoked_at.is_none() {
            key.revoked_at = Some(now);
            entries.push(update(&mut change.tx, &seen, &key, &hash, "key.revoke", actor).await?);
        }
        let lineage = Lineage::load(&mut change.tx, &[id], reach.spared).await?;
        let (created, hashes) = load(&mut change.tx, workspace, &lineage, reach, now).await?;
        entries.extend(end(&mut change.tx, &created, &hashes, actor, now).await?);
        if !entries.is_empty() {
            change.commit(entries, now).await?;
        }
        Ok(RevokedKey { key, created })
    }
}

/// Revokes every living key of a member and what was made with them. Gives how many keys and invitations these are.
pub(super) async fn end_keys_of<'a>(
    tx: &mut Tx,
    user: &User,
    reach: &RevocationReach,
    actor: &'a Actor,
    now: Timestamp,
) -> Result<(Vec<NewEntry<'a>>, usize, usize), StoreError> {
    let (keys, created, hashes) = keys_of(tx, user, reach, now).await?;
    let all = CreatedWithKeys { keys: [keys, created.keys].concat(), invitations: created.invitations };
    let entries = end(tx, &all, &hashes, actor, now).await?;
    Ok((entries, all.keys.len(), all.invitations.len()))
}

/// The living keys of a member, what was made with them, and the hashes of both.
async fn keys_of(
    tx: &mut Tx,
    user: &User,
    reach: &RevocationReach,
    now: Timestamp,
) -> Result<(Vec<ApiKey>, CreatedWithKeys, Vec<String>), StoreError> {
    const SQL: &str = concat!(
        "select ",
        key_columns!(),
        " from api_keys where workspace_id = $1 and user_id = $2 order by id"
    );
    let rows: Vec<KeyRow> = read_in!(tx, fetch_all, SQL, user.workspace.as_i64(), user.id.as_i64())?;
    let own: Vec<(String, ApiKey)> = rows.into_iter().map(|row| (row.hash.clone(), row.key())).collect();
    let ids: Vec<Id> = own.iter().map(|(_, key)| key.id).collect();
    let lineage = Lineage::load(tx, &ids, reach.spared).await?;
    let (mut created, created_hashes) = load(tx, user.workspace, &lineage, reach, now).await?;
    // Their own invitation is replaced by another anyway.
    created.invitations.retain(|invitation| invitation.user.id != user.id);
    let living = own.into_iter().filter(|(_, key)| is_living(key, now) && Some(key.id) != reach.spared);
    let (mut hashes, keys): (Vec<String>, Vec<ApiKey>) = living.unzip();
    hashes.extend(created_hashes);
    Ok((keys, created, hashes))
}

fn is_living(key: &ApiKey, now: Timestamp) -> bool {
    key.revoked_at.is_none() && key.expires_at.is_none_or(|at| at >= now)
}

/// What is still good of it, as far as `reach` goes, and the hashes of the keys.
async fn load(
    tx: &mut Tx,
    workspace: Id,
    lineage: &Lineage,
    reach: &RevocationReach,
    now: Timestamp,
) -> Result<(CreatedWithKeys, Vec<String>), StoreError> {
    const KEYS: &str = concat!(
        "select ",
        key_columns!(),
        " from api_keys where workspace_id = $1 and id in (select cast(value ->> 0 as bigint) from json_each($2)) order by id"
    );
    const INVITATIONS: &str = "select u.id, u.workspace_id, u.email, u.full_name, u.role, u.status, u.created_at, u.updated_at,
            u.last_login_at, u.last_sync_at, i.created_at as i_created_at, i.expires_at as i_expires_at
         from invites i join users u on u.id = i.user_id
         where u.workspace_id = $1 and i.created_with in (select cast(value ->> 0 as bigint) from json_each($2)) and i.expires_at >= $3
         order by u.id";
    let rows: Vec<KeyRow> = read_in!(tx, fetch_all, KEYS, workspace.as_i64(), id_list(&lineage.made))?;
    let keys = rows.into_iter().map(|row| (row.hash.clone(), row.key())).filter(|(_, key)| {
        is_living(key, now)
            && key.scopes.is_subset(reach.scopes)
            && reach.owner.is_none_or(|owner| key.user == Some(owner))
    });
    let (hashes, keys) = keys.unzip();
    let rows: Vec<InvitationRow> = if reach.invitations {
        read_in!(tx, fetch_all, INVITATIONS, workspace.as_i64(), id_list(&lineage.all()), now.ms())?
    } else {
        Vec::new()
    };
    let mut invitations = Vec::new();
    for row in rows {
        let user = row.user.user()?;
        if user.role.scopes().is_subset(reach.scopes) {
            let (created_at, expires_at) = (row.i_created_at, row.i_expires_at);
            let [created_at, expires_at] = [created_at, expires_at].map(Timestamp::from_ms);
            invitations.push(OpenInvitation { user, created_at, expires_at });
        }
    }
    Ok((CreatedWithKeys { keys, invitations }, hashes))
}

/// Revokes keys and withdraws invitations: an entry in the log for each.
async fn end<'a>(
    tx: &mut Tx,
    created: &CreatedWithKeys,
    hashes: &[String],
    actor: &'a Actor,
    now: Timestamp,
) -> Result<Vec<NewEntry<'a>>, StoreError> {
    let ids: Vec<Id> = created.keys.iter().map(|key| key.id).collect();
    run_in!(
        tx,
        "update api_keys set revoked_at = $2 where id in (select cast(value ->> 0 as bigint) from json_each($1))",
        id_list(&ids),
        now.ms()
    )?;
    let invited: Vec<Id> = created.invitations.iter().map(|invitation| invitation.user.id).collect();
    run_in!(
        tx,
        "delete from invites where user_id in (select cast(value ->> 0 as bigint) from json_each($1))",
        id_list(&invited)
    )?;
    let revoked = created.keys.iter().zip(hashes).map(|(seen, hash)| NewEntry {
        actor,
        action: "key.revoke",
        subject: key_subject(seen.id),
        before: Some(json(&AuditedKey::from_key(seen, hash))),
        after: Some(json(&AuditedKey::from_key(&ApiKey { revoked_at: Some(now), ..seen.clone() }, hash))),
    });
    let withdrawn = created.invitations.iter().map(|invitation| {
        let said = json(&invitation.user.audited());
        NewEntry { before: Some(said), ..user_entry(&invitation.user, actor, "user.withdraw_invitation") }
    });
    Ok(revoked.chain(withdrawn).collect())
}
