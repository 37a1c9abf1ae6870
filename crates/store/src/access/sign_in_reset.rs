//! The reset of a member's sign-in by an admin: everything they signed in with ends at once, an invitation takes its place, and they are
//! told at their next sign-in.

use rlinks_core::access::user::AuditedUser;
use rlinks_core::{Actor, Id, Timestamp, User};
use serde::Serialize;

use crate::access::credentials::{self, Credential};
use crate::access::grants::{RevocationReach, end_keys_of};
use crate::access::lineage::ensure_not_revoked;
use crate::access::members::{NewInvite, load_unchanged, write_invite};
use crate::access::sessions::delete_user_sessions;
use crate::access::user_rows::user_subject;
use crate::audit::chain::NewEntry;
use crate::database::json::json;
use crate::database::pool::{read, read_in, run_in};
use crate::{Store, StoreError, StoreWriter};

/// What a reset ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndedSignIn {
    pub sessions: u64,
    /// They had a password.
    pub password: bool,
    /// They were known to an OpenID provider.
    pub oidc: bool,
    /// Their keys, and those made with them.
    pub keys: usize,
    /// Invitations made with their keys.
    pub invitations: usize,
}

/// What the log says of a reset: what it says of a member anyway, and what ended.
#[derive(Serialize)]
struct AuditedReset {
    #[serde(flatten)]
    user: AuditedUser,
    ended: EndedSignIn,
    credential: Credential,
}

impl Store {
    /// Whether a member has a way to sign in, or had one: an invitation was accepted, or a password set.
    pub async fn has_signed_in(&self, user: &User) -> Result<bool, StoreError> {
        let (ways,): (i64,) = read!(
            &self.pool,
            fetch_one,
            "select count(*) from users where id = $1
             and (last_login_at is not null or password_hash is not null or oidc_subject is not null)",
            user.id.as_i64()
        )?;
        Ok(ways > 0)
    }
}

impl StoreWriter {
    /// Ends a member's sessions, password and link to an OpenID provider, and their keys as far as `keys` says so, and keeps the hash of
    /// the invitation by which they choose anew how to sign in. `by` is the member who did it, if it was one.
    pub async fn reset_sign_in(
        &self,
        user: &User,
        invite: &NewInvite<'_>,
        keys: Option<&RevocationReach>,
        (actor, by): (&Actor, Option<Id>),
        now: Timestamp,
    ) -> Result<EndedSignIn, StoreError> {
        let mut change = self.begin_change(user.workspace).await?;
        ensure_not_revoked(&mut change.tx, actor).await?;
        let there = load_unchanged(&mut change.tx, user).await?;
        let (password, oidc): (i64, i64) = read_in!(
            &mut change.tx,
            fetch_one,
            "select cast(count(password_hash) as bigint), cast(count(oidc_subject) as bigint) from users where id = $1",
            there.id.as_i64()
        )?;
        let mut ended = EndedSignIn { password: password > 0, oidc: oidc > 0, ..EndedSignIn::default() };
        ended.sessions = delete_user_sessions(&mut change.tx, there.id).await?;
        let mut entries = Vec::new();
        if let Some(reach) = keys {
            (entries, ended.keys, ended.invitations) =
                end_keys_of(&mut change.tx, &there, reach, actor, now).await?;
        }
        run_in!(
            &mut change.tx,
            "update users set sign_in_reset_at = $2, sign_in_reset_by = $3 where id = $1",
            there.id.as_i64(),
            now.ms(),
            by.map(Id::as_i64)
        )?;
        let credential = credentials::clear(&mut change.tx, there.id).await?;
        write_invite(&mut change.tx, &there, invite, actor, now).await?;
        let before = json(&there.audited());
        let after = json(&AuditedReset { user: there.audited(), ended, credential });
        let subject = user_subject(there.id);
        let reset = NewEntry {
            actor,
            action: "user.reset_sign_in",
            subject,
            before: Some(before),
            after: Some(after),
        };
        entries.insert(0, reset);
        change.commit(entries, now).await?;
        Ok(ended)
    }

    /// A member has seen that their sign-in was reset at this moment.
    pub async fn dismiss_sign_in_reset(&self, user: Id, reset_at: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "update users set sign_in_reset_at = null, sign_in_reset_by = null where id = $1 and sign_in_reset_at = $2",
            user.as_i64(),
            reset_at.ms()
        )?;
        tx.commit().await
    }
}
