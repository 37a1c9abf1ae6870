//! Members of workspaces. Each change is a transaction of its own under the workspace's head, with an audit entry that says
//! what changed and never who it is.

use rlinks_core::id::WorkerId;
use rlinks_core::{Actor, Email, Id, Role, Timestamp, User, UserStatus};

use crate::access::lineage::ensure_not_revoked;
use crate::access::user_rows::{UserRow, insert, set_principal, user_columns, user_subject};
use crate::access::{api_keys, credentials, sessions};
use crate::audit::chain::NewEntry;
use crate::change_limits::{ChangeCounts, ChangeLimits, principal_of_new_member};
use crate::database::ids::next_id;
use crate::database::json::json;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::error::QuotaKind;
use crate::quota::{Held, Quota};
use crate::{Store, StoreError, StoreWriter};

/// Somebody about to become a member.
#[derive(Clone, Debug)]
pub struct NewUser {
    pub workspace: Id,
    pub email: Email,
    /// Their name; may be empty.
    pub full_name: String,
    /// What they may do.
    pub role: Role,
}

impl NewUser {
    pub(crate) fn into_user(self, id: Id, now: Timestamp) -> User {
        User {
            id,
            workspace: self.workspace,
            email: self.email,
            full_name: self.full_name,
            role: self.role,
            status: UserStatus::Active,
            created_at: now,
            updated_at: now,
            last_login_at: None,
            last_sync_at: None,
        }
    }
}

impl Store {
    /// A member of a workspace, deleted or not.
    pub async fn user(&self, workspace: Id, id: Id) -> Result<Option<User>, StoreError> {
        const SQL: &str =
            concat!("select ", user_columns!(), " from users where workspace_id = $1 and id = $2");
        let row: Option<UserRow> = read!(&self.pool, fetch_optional, SQL, workspace.as_i64(), id.as_i64())?;
        row.map(UserRow::user).transpose()
    }

    /// A living member by their address.
    pub async fn user_by_email(&self, workspace: Id, email: &Email) -> Result<Option<User>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            user_columns!(),
            " from users where workspace_id = $1 and email = $2 and status <> 'deleted'"
        );
        let row: Option<UserRow> =
            read!(&self.pool, fetch_optional, SQL, workspace.as_i64(), email.as_str())?;
        row.map(UserRow::user).transpose()
    }

    /// The next living members of a workspace, oldest first: at most `limit`, after `after`.
    pub async fn users(&self, workspace: Id, after: Option<Id>, limit: i64) -> Result<Vec<User>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            user_columns!(),
            " from users where workspace_id = $1 and id > $2 and status <> 'deleted' order by id limit $3"
        );
        let after = after.map_or(i64::MIN, Id::as_i64);
        let rows: Vec<UserRow> = read!(&self.pool, fetch_all, SQL, workspace.as_i64(), after, limit)?;
        rows.into_iter().map(UserRow::user).collect()
    }

    /// Members by id, in no order; deleted ones too, unknown ones are left out. For showing who made what.
    pub async fn users_by_id(&self, workspace: Id, ids: &[Id]) -> Result<Vec<User>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            user_columns!(),
            " from users where workspace_id = $1 and id in (select cast(value ->> 0 as bigint) from json_each($2))"
        );
        let ids: Vec<[i64; 1]> = ids.iter().map(|id| [id.as_i64()]).collect();
        let rows: Vec<UserRow> = read!(&self.pool, fetch_all, SQL, workspace.as_i64(), json(&ids))?;
        rows.into_iter().map(UserRow::user).collect()
    }

    /// The next deleted members of a workspace, by id, and when they went: for whoever finishes what a deletion began.
    pub async fn deleted_users(
        &self,
        workspace: Id,
        after: Option<Id>,
        limit: i64,
    ) -> Result<Vec<(Id, Timestamp)>, StoreError> {
        let rows: Vec<(i64, i64)> = read!(
            &self.pool,
            fetch_all,
            "select id, updated_at from users where workspace_id = $1 and id > $2 and status = 'deleted' order by id limit $3",
            workspace.as_i64(),
            after.map_or(i64::MIN, Id::as_i64),
            limit
        )?;
        Ok(rows.into_iter().map(|(id, gone)| (Id::from_i64(id), Timestamp::from_ms(gone))).collect())
    }
}

/// A one-time invitation about to be kept.
#[derive(Clone, Copy, Debug)]
pub struct NewInvite<'a> {
    pub hash: &'a str,
    pub expires_at: Timestamp,
    /// Whom it counts for, where it counts for a member.
    pub counted_for: Option<&'a Actor>,
    pub quota: Option<Quota>,
}

impl StoreWriter {
    /// Creates a member who is invited to choose how they sign in, if the quota has room for the invitation.
    pub async fn create_invited_user(
        &self,
        new: NewUser,
        invite: &NewInvite<'_>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<User, StoreError> {
        let mut change = self.begin_change(new.workspace).await?;
        change.living_head()?;
        ensure_not_revoked(&mut change.tx, actor).await?;
        let user = insert_user(&mut change.tx, self.worker, new, actor, now).await?;
        write_invite(&mut change.tx, &user, invite, actor, now).await?;
        change.commit([created_entry(&user, actor)], now).await?;
        Ok(user)
    }

    /// Makes somebody a member. An address that a living member has is taken; a deleted member's is not.
    pub async fn create_user(&self, new: NewUser, actor: &Actor, now: Timestamp) -> Result<User, StoreError> {
        let mut change = self.begin_change(new.workspace).await?;
        change.living_head()?;
        let user = insert_user(&mut change.tx, self.worker, new, actor, now).await?;
        change.commit([created_entry(&user, actor)], now).await?;
        Ok(user)
    }

    /// Changes address, name, role or status of a member. `seen` is the member as the caller read them; another state is a conflict.
    /// The last active admin stays one.
    pub async fn update_user(
        &self,
        seen: &User,
        next: User,
        action: &str,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<User, StoreError> {
        let mut change = self.begin_change(seen.workspace).await?;
        let there = load_unchanged(&mut change.tx, seen).await?;
        let next = User {
            id: seen.id,
            workspace: seen.workspace,
            created_at: seen.created_at,
            updated_at: seen.updated_at,
            last_login_at: there.last_login_at,
            last_sync_at: there.last_sync_at,
            ..next
        };
        if next == there {
            return Ok(next);
        }
        ensure_admin_remains(&mut change.tx, seen, &next).await?;
        let next = User { updated_at: now, ..next };
        if next.email != seen.email {
            let taken: Option<(i64,)> = read_in!(
                &mut change.tx,
                fetch_optional,
                "select id from users where workspace_id = $1 and email = $2 and status <> 'deleted' and id <> $3",
                next.workspace.as_i64(),
                next.email.as_str(),
                next.id.as_i64()
            )?;
            if taken.is_some() {
                return Err(StoreError::NameTaken(next.email.to_string()));
            }
        }
        write(&mut change.tx, &next).await?;
        // Who is let in again signs in again.
        if next.status != UserStatus::Active {
            sessions::delete_user_sessions(&mut change.tx, next.id).await?;
        }
        let entry = NewEntry {
            actor,
            action,
            subject: user_subject(next.id),
            before: Some(json(&seen.audited())),
            after: Some(json(&next.audited())),
        };
        change.commit([entry], now).await?;
        Ok(next)
    }

    /// Deletes an account: keys, sessions and invitations go, address and name become `placeholder`. What they made stays, and clicks stay.
    pub async fn delete_user(
        &self,
        seen: &User,
        placeholder: &str,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.delete_user_within(seen, placeholder, None, actor, now).await
    }

    /// The same where their links are deleted next: these are counted as removals here, all of them or, if the limits leave no room for all,
    /// none, and then nothing is done.
    pub async fn delete_user_within(
        &self,
        seen: &User,
        placeholder: &str,
        limits: Option<&ChangeLimits>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut change = self.begin_change(seen.workspace).await?;
        let there = load_unchanged(&mut change.tx, seen).await?;
        if let Some(limits) = limits {
            reserve_links_of(&mut change.tx, seen, limits, now).await?;
        }
        let gone = User {
            email: Email::from_stored(placeholder.to_owned()),
            full_name: String::new(),
            status: UserStatus::Deleted,
            // Never before a change of a link that was made before it, whatever the clocks say.
            updated_at: change.head()?.next_timestamp(now),
            last_login_at: None,
            last_sync_at: None,
            ..there
        };
        ensure_admin_remains(&mut change.tx, seen, &gone).await?;
        write(&mut change.tx, &gone).await?;
        let credential = credentials::clear(&mut change.tx, gone.id).await?;
        run_in!(&mut change.tx, "delete from invites where user_id = $1", gone.id.as_i64())?;
        sessions::delete_user_sessions(&mut change.tx, gone.id).await?;
        let mut entries = api_keys::delete_user_keys(&mut change.tx, gone.id, actor).await?;
        entries.push(NewEntry {
            actor,
            action: "user.delete",
            subject: user_subject(gone.id),
            before: Some(json(&seen.audited())),
            after: Some(credentials::audited(&gone, credential)),
        });
        change.commit(entries, now).await
    }

    /// Invites a member once more who has not signed in yet. An earlier invitation of theirs no longer works.
    pub async fn renew_invite(
        &self,
        user: &User,
        invite: &NewInvite<'_>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut change = self.begin_change(user.workspace).await?;
        ensure_not_revoked(&mut change.tx, actor).await?;
        let there = load_unchanged(&mut change.tx, user).await?;
        write_invite(&mut change.tx, &there, invite, actor, now).await?;
        let said = json(&there.audited());
        let entry = NewEntry {
            actor,
            action: "user.invite",
            subject: user_subject(there.id),
            before: Some(said.clone()),
            after: Some(said),
        };
        change.commit([entry], now).await
    }

    /// Forgets invitations whose time is over.
    pub async fn purge_invites(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        run_in!(&mut tx, "delete from invites where expires_at < $1", now.ms())?;
        tx.commit().await
    }
}

async fn insert_user(
    tx: &mut Tx,
    worker: WorkerId,
    new: NewUser,
    actor: &Actor,
    now: Timestamp,
) -> Result<User, StoreError> {
    let id = next_id(tx, worker, now).await?;
    let user = new.into_user(id, now);
    if insert(tx, &user).await? == 0 {
        return Err(StoreError::NameTaken(user.email.to_string()));
    }
    let principal = principal_of_new_member(tx, actor).await?;
    set_principal(tx, user.id, principal.as_deref()).await?;
    Ok(user)
}

fn created_entry<'a>(user: &User, actor: &'a Actor) -> NewEntry<'a> {
    NewEntry {
        actor,
        action: "user.create",
        subject: user_subject(user.id),
        before: None,
        after: Some(credentials::audited(user, credentials::none())),
    }
}

/// Counts the links of a member as removals.
async fn reserve_links_of(
    tx: &mut Tx,
    user: &User,
    limits: &ChangeLimits,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (links,): (i64,) = read_in!(
        tx,
        fetch_one,
        "select count(*) from links where workspace_id = $1 and created_by = $2 and state <> 'deleted'",
        user.workspace.as_i64(),
        user_subject(user.id)
    )?;
    let links = u32::try_from(links).unwrap_or(u32::MAX);
    let mut counts = ChangeCounts::load(tx, std::iter::once((user.workspace, limits))).await?;
    counts.reserve_removals(user.workspace, limits, links, now)?;
    counts.write(tx).await
}

/// Keeps an invitation, if the quota has room. An earlier one of the same member no longer works, and doesn't count.
pub(super) async fn write_invite(
    tx: &mut Tx,
    user: &User,
    invite: &NewInvite<'_>,
    actor: &Actor,
    now: Timestamp,
) -> Result<(), StoreError> {
    run_in!(tx, "delete from invites where user_id = $1", user.id.as_i64())?;
    let counted_for = invite.counted_for.map(Actor::as_str);
    if let Some(quota) = invite.quota {
        let (by_workspace, by_member): (i64, i64) = read_in!(
            tx,
            fetch_one,
            "select count(*), count(case when i.counted_for = $3 then 1 end)
             from invites i join users u on u.id = i.user_id where u.workspace_id = $1 and i.expires_at >= $2",
            user.workspace.as_i64(),
            now.ms(),
            counted_for
        )?;
        let held = Held { by_member: counted_for.map(|_| by_member), by_workspace };
        quota.check(QuotaKind::Invitations, &held)?;
    }
    run_in!(
        tx,
        "insert into invites (hash, user_id, created_at, expires_at, counted_for, created_with)
         values ($1, $2, $3, $4, $5, $6)",
        invite.hash,
        user.id.as_i64(),
        now.ms(),
        invite.expires_at.ms(),
        counted_for,
        actor.key().map(Id::as_i64)
    )?;
    Ok(())
}

/// A member as they are now, under the lock of their workspace's head; a conflict if that is not what the caller saw.
pub(super) async fn load_unchanged(tx: &mut Tx, seen: &User) -> Result<User, StoreError> {
    const SQL: &str = concat!("select ", user_columns!(), " from users where workspace_id = $1 and id = $2");
    let row: Option<UserRow> = read_in!(tx, fetch_optional, SQL, seen.workspace.as_i64(), seen.id.as_i64())?;
    let there = row.map(UserRow::user).transpose()?;
    let there = there.filter(|there| there.status != UserStatus::Deleted);
    let there = there.ok_or_else(|| StoreError::NotFound(format!("user {}", seen.id)))?;
    if there.updated_at == seen.updated_at && there.audited() == seen.audited() {
        Ok(there)
    } else {
        Err(StoreError::Conflict)
    }
}

/// Somebody must be able to let others in.
async fn ensure_admin_remains(tx: &mut Tx, seen: &User, next: &User) -> Result<(), StoreError> {
    let is_admin = |user: &User| user.role == Role::Admin && user.status == UserStatus::Active;
    if !is_admin(seen) || is_admin(next) {
        return Ok(());
    }
    let other: Option<(i64,)> = read_in!(
        tx,
        fetch_optional,
        "select id from users where workspace_id = $1 and role = 'admin' and status = 'active' and id <> $2 limit 1",
        seen.workspace.as_i64(),
        seen.id.as_i64()
    )?;
    other.map(|_| ()).ok_or(StoreError::LastAdmin)
}

async fn write(tx: &mut Tx, user: &User) -> Result<(), StoreError> {
    run_in!(
        tx,
        "update users set email = $2, full_name = $3, role = $4, status = $5, updated_at = $6, last_login_at = $7, last_sync_at = $8
         where id = $1",
        user.id.as_i64(),
        user.email.as_str(),
        &user.full_name,
        user.role.name(),
        user.status.name(),
        user.updated_at.ms(),
        user.last_login_at.map(Timestamp::ms),
        user.last_sync_at.map(Timestamp::ms)
    )?;
    Ok(())
}
