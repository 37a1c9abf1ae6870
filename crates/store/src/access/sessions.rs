//! Who is signed in where. The store has the hash of a session's token only, and a request finds it with everything that decides
//! what it may do, as it is now: so whoever is signed out, suspended or deleted anywhere is refused everywhere from the next request on.

use rlinks_core::access::user::AuditedUser;
use rlinks_core::workspace::policy::SignInMethod;
use rlinks_core::{Actor, Id, Timestamp, User, UserStatus, Workspace, hex};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::access::user_rows::{UserRow, member, user_subject};
use crate::audit::chain::NewEntry;
use crate::audit::change::Change;
use crate::database::json::json;
use crate::database::pool::{Tx, read, run_in};
use crate::database::row::from_row;
use crate::workspace::workspaces::WorkspaceRow;
use crate::{Store, StoreError, StoreWriter};

/// Sessions one member may have; the oldest go.
const MAX_SESSIONS_PER_USER: i64 = 50;

/// How somebody signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthMethod {
    /// With a password kept here.
    Password,
    /// Through an OpenID provider.
    Oidc,
}

impl AuthMethod {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Oidc => "oidc",
        }
    }

    /// The way as a policy names it.
    pub const fn sign_in_method(self) -> SignInMethod {
        match self {
            Self::Password => SignInMethod::Password,
            Self::Oidc => SignInMethod::Oidc,
        }
    }

    /// What a later version may have written opens nothing here.
    fn from_stored(name: &str) -> Option<Self> {
        [Self::Password, Self::Oidc].into_iter().find(|how| how.name() == name)
    }
}

/// A session about to begin.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The hash of its token.
    pub hash: String,
    /// How they signed in.
    pub how: AuthMethod,
    /// With what, cut short.
    pub agent: String,
    /// From which network; never an address.
    pub network: String,
    /// Good up to and including this moment, unless it is used.
    pub expires_at: Timestamp,
    /// The hash of the token their browser had: that session ends when this one begins.
    pub replaces: Option<String>,
}

/// A session, without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The hash of its token.
    pub hash: String,
    /// How they signed in.
    pub how: AuthMethod,
    pub created_at: Timestamp,
    /// When it was last used, to within a minute.
    pub seen_at: Timestamp,
    /// Good up to and including this moment.
    pub expires_at: Timestamp,
    pub agent: String,
    pub network: String,
}

/// An admin reset a member's sign-in, and the member has not seen it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInReset {
    pub at: Timestamp,
    /// The address of the admin, or what to say of one who has left; none if it was the operator.
    pub by: Option<String>,
}

/// A session and everything that decides what it may do.
#[derive(Clone, Debug)]
pub struct SessionWithUser {
    pub session: Session,
    /// Whose it is, whatever became of them.
    pub user: User,
    /// Where, deleted or not.
    pub workspace: Workspace,
    /// What they have yet to be told.
    pub sign_in_reset: Option<SignInReset>,
}

impl Session {
    /// How it is named where it is listed. It tells nothing of its token, and nothing of the hash of it.
    pub fn public_id(&self) -> String {
        session_public_id(&self.hash)
    }
}

/// The public id of the session whose token has this hash.
pub fn session_public_id(hash: &str) -> String {
    let digest = Sha256::new().chain_update("rlinks session id\0").chain_update(hash).finalize();
    hex::encode(&digest[..16])
}

struct SessionRow {
    hash: String,
    how: String,
    s_created_at: i64,
    seen_at: i64,
    expires_at: i64,
    agent: String,
    network: String,
}

from_row!(SessionRow { hash, how, s_created_at, seen_at, expires_at, agent, network });

impl SessionRow {
    fn session(self) -> Option<Session> {
        Some(Session {
            how: AuthMethod::from_stored(&self.how)?,
            hash: self.hash,
            created_at: Timestamp::from_ms(self.s_created_at),
            seen_at: Timestamp::from_ms(self.seen_at),
            expires_at: Timestamp::from_ms(self.expires_at),
            agent: self.agent,
            network: self.network,
        })
    }
}

struct SessionWithUserRow {
    session: SessionRow,
    user: UserRow,
    w_slug: String,
    w_name: String,
    w_policy: String,
    w_created_at: i64,
    w_updated_at: i64,
    w_deleted_at: Option<i64>,
    reset_at: Option<i64>,
    reset_by: Option<String>,
}

from_row!(SessionWithUserRow { w_slug, w_name, w_policy, w_created_at, w_updated_at, w_deleted_at, reset_at, reset_by; session, user });

impl SessionWithUserRow {
    fn session_with_user(self) -> Result<Option<SessionWithUser>, StoreError> {
        let Some(session) = self.session.session() else { return Ok(None) };
        let workspace = WorkspaceRow {
            id: self.user.workspace_id,
            slug: self.w_slug,
            name: self.w_name,
            policy: self.w_policy,
            created_at: self.w_created_at,
            updated_at: self.w_updated_at,
            deleted_at: self.w_deleted_at,
        };
        let sign_in_reset =
            self.reset_at.map(|at| SignInReset { at: Timestamp::from_ms(at), by: self.reset_by });
        let (user, workspace) = (self.user.user()?, workspace.workspace()?);
        Ok(Some(SessionWithUser { session, user, workspace, sign_in_reset }))
    }
}

/// What the log says of somebody who signed in: what it says of a member, and how.
#[derive(Serialize)]
struct AuditedSignIn {
    #[serde(flatten)]
    user: AuditedUser,
    how: AuthMethod,
}

impl Store {
    /// A session by the hash of its token, with whoever it belongs to.
    pub async fn session(&self, hash: &str) -> Result<Option<SessionWithUser>, StoreError> {
        const SQL: &str = "select s.hash, s.how, s.created_at as s_created_at, s.seen_at, s.expires_at, s.agent, s.network,
                u.id, u.workspace_id, u.email, u.full_name, u.role, u.status, u.created_at, u.updated_at, u.last_login_at, u.last_sync_at,
                w.slug as w_slug, w.name as w_name, w.policy as w_policy, w.created_at as w_created_at, w.updated_at as w_updated_at,
                w.deleted_at as w_deleted_at, u.sign_in_reset_at as reset_at,
                case when r.status = 'deleted' then 'an admin who has left' else r.email end as reset_by
             from sessions s join users u on u.id = s.user_id join workspaces w on w.id = u.workspace_id
             left join users r on r.id = u.sign_in_reset_by
             where s.hash = $1";
        let row: Option<SessionWithUserRow> = read!(&self.pool, fetch_optional, SQL, hash)?;
        row.map_or(Ok(None), SessionWithUserRow::session_with_user)
    }

    /// The sessions of a member that are not over, newest first.
    pub async fn sessions_of(&self, user: Id, now: Timestamp) -> Result<Vec<Session>, StoreError> {
        let rows: Vec<SessionRow> = read!(
            &self.pool,
            fetch_all,
            "select hash, how, created_at as s_created_at, seen_at, expires_at, agent, network from sessions
             where user_id = $1 and expires_at >= $2 order by created_at desc, hash limit $3",
            user.as_i64(),
            now.ms(),
            MAX_SESSIONS_PER_USER
        )?;
        Ok(rows.into_iter().filter_map(SessionRow::session).collect())
    }
}

impl StoreWriter {
    /// Begins a session of a member who has shown who they are, and ends the one their browser had. A member who cannot sign in any
    /// more, or not in this way, is not found.
    pub async fn start_session(
        &self,
        user: &User,
        new: &NewSession,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut change = self.begin_change(user.workspace).await?;
        let there = ensure_may_sign_in(&mut change, user, new.how).await?;
        let actor = Actor::from_user(there.id);
        let entry = begin_session(&mut change.tx, &there, new, &actor, now).await?;
        change.commit([entry], now).await
    }

    /// Notes that a session is used. One that has ended stays so.
    pub async fn touch_session(
        &self,
        hash: &str,
        seen_at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "update sessions set seen_at = $2, expires_at = $3 where hash = $1 and seen_at < $2",
            hash,
            seen_at.ms(),
            expires_at.ms()
        )?;
        tx.commit().await
    }

    /// Ends one session, and says whether there was one: if it has ended already, nothing is written.
    pub async fn end_session(
        &self,
        user: &User,
        hash: &str,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut change = self.begin_change(user.workspace).await?;
        let ended = run_in!(
            &mut change.tx,
            "delete from sessions where hash = $1 and user_id = $2",
            hash,
            user.id.as_i64()
        )?;
        if ended == 0 {
            return Ok(false);
        }
        let there = member(&mut change.tx, user.workspace, user.id).await?;
        let entry = user_entry(&there, actor, "auth.sign_out");
        change.commit([entry], now).await?;
        Ok(true)
    }

    /// Ends every session of a member but `kept`, on every node from the next request on. Gives how many there were.
    pub async fn end_sessions_of(
        &self,
        user: &User,
        kept: Option<&str>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut change = self.begin_change(user.workspace).await?;
        // No token has the empty hash.
        let ended = run_in!(
            &mut change.tx,
            "delete from sessions where user_id = $1 and hash <> $2",
            user.id.as_i64(),
            kept.unwrap_or_default()
        )?;
        let there = member(&mut change.tx, user.workspace, user.id).await?;
        let action = if kept.is_some() { "auth.sign_out_others" } else { "auth.sign_out_everywhere" };
        let entry = user_entry(&there, actor, action);
        change.commit([entry], now).await?;
        Ok(ended)
    }

    /// Forgets sessions that are over.
    pub async fn purge_sessions(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mut tx = self.pool.begin().await?;
        let purged = run_in!(&mut tx, "delete from sessions where expires_at < $1", now.ms())?;
        tx.commit().await?;
        Ok(purged)
    }
}

/// An entry about a member that changes nothing of what the log knows of them.
pub(crate) fn user_entry<'a>(user: &User, actor: &'a Actor, action: &'a str) -> NewEntry<'a> {
    NewEntry {
        actor,
        action,
        subject: user_subject(user.id),
        before: None,
        after: Some(json(&user.audited())),
    }
}

/// Ends every session of a member, inside a change of theirs.
pub(crate) async fn delete_user_sessions(tx: &mut Tx, user: Id) -> Result<u64, StoreError> {
    Ok(run_in!(tx, "delete from sessions where user_id = $1", user.as_i64())?)
}

/// Writes a session, drops the oldest where there are too many, and gives the entry for the log.
pub(crate) async fn begin_session<'a>(
    tx: &mut Tx,
    user: &User,
    new: &NewSession,
    actor: &'a Actor,
    now: Timestamp,
) -> Result<NewEntry<'a>, StoreError> {
    if let Some(old) = &new.replaces {
        run_in!(tx, "delete from sessions where hash = $1", old)?;
    }
    insert_session(tx, user, new, now).await?;
    run_in!(tx, "update users set last_login_at = $2 where id = $1", user.id.as_i64(), now.ms())?;
    let after = json(&AuditedSignIn { user: user.audited(), how: new.how });
    Ok(NewEntry {
        actor,
        action: "auth.sign_in",
        subject: user_subject(user.id),
        before: None,
        after: Some(after),
    })
}

/// The row alone: for a session that goes on under another token.
pub(crate) async fn insert_session(
    tx: &mut Tx,
    user: &User,
    new: &NewSession,
    now: Timestamp,
) -> Result<(), StoreError> {
    run_in!(
        tx,
        "delete from sessions where hash in
            (select hash from sessions where user_id = $1 order by created_at desc, hash limit 1000 offset $2)",
        user.id.as_i64(),
        MAX_SESSIONS_PER_USER - 1
    )?;
    run_in!(
        tx,
        "insert into sessions (hash, user_id, workspace_id, how, created_at, seen_at, expires_at, agent, network)
         values ($1, $2, $3, $4, $5, $5, $6, $7, $8)",
        &new.hash,
        user.id.as_i64(),
        user.workspace.as_i64(),
        new.how.name(),
        now.ms(),
        new.expires_at.ms(),
        &new.agent,
        &new.network
    )?;
    Ok(())
}

/// A member as they are now, under the lock of their workspace's head, if they may sign in in this way.
pub(crate) async fn ensure_may_sign_in(
    change: &mut Change<'_>,
    user: &User,
    how: AuthMethod,
) -> Result<User, StoreError> {
    change.living_head()?;
    let there = member(&mut change.tx, user.workspace, user.id).await?;
    let head = change.living_head()?;
    if there.status != UserStatus::Active || !head.policy.sign_in.contains(&how.sign_in_method()) {
        return Err(StoreError::NotFound(format!("user {}", user.id)));
    }
    Ok(there)
}
