//! Members: invitations, roles, passwords set by the operator, deletion.

use std::time::Duration;

use rlinks_core::access::api_key;
use rlinks_core::time::DAY_MS;
use rlinks_core::workspace::policy::Visibility;
use rlinks_core::{
    Actor, ApiKey, Email, Id, LinkState, Password, Role, Scope, Timestamp, User, UserStatus, Workspace,
};
use rlinks_store::{
    AuthMethod, ChangeLimits, CreatedWithKeys, EndedSignIn, Enforcement, LimitedChange, LinkFilter,
    NewInvite, NewUser, StoreError,
};

use crate::api_keys::revocation_reach;
use crate::passwords::{self, PasswordOwner, Salt};
use crate::{Caller, Credential, Ops, OpsError, Resource};

/// How long an invitation is good.
const INVITATION_LIFETIME_MS: i64 = 7 * DAY_MS;
/// How long a sign-in at the provider stands for giving the password again.
const RECENT_SIGN_IN_MS: i64 = 5 * 60_000;
/// How long the rest of an account's links wait after the store failed; tried until the daily job does it.
const DELETION_RETRY_INTERVAL: Duration = Duration::from_secs(10);
const MAX_DELETION_RETRIES: usize = 24 * 360;
/// Links of somebody who left that are deleted at once.
const PAGE_SIZE: i64 = 256;

#[derive(Clone, Debug)]
pub struct Invitation {
    /// The address to open.
    pub url: String,
    /// Good up to and including this moment.
    pub expires_at: Timestamp,
}

/// What a reset of a member's sign-in does with their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysOnReset {
    Revoke,
    Keep,
}

/// How a member has just confirmed who they are, before something that can't be undone.
#[derive(Clone, Copy, Debug)]
pub enum FreshProof<'a> {
    /// The hash that their password was verified against.
    Password(&'a str),
    /// Nothing but their session: it has to have begun at the OpenID provider within the last five minutes.
    RecentSignIn,
}

/// What to change about a member; `None` leaves it.
#[derive(Clone, Debug, Default)]
pub struct MemberPatch {
    pub email: Option<Email>,
    pub full_name: Option<String>,
    /// What they may do.
    pub role: Option<Role>,
    pub status: Option<UserStatus>,
}

impl Ops {
    /// A living member by id or e-mail address.
    pub async fn member(&self, workspace: &Workspace, who: &str) -> Result<User, OpsError> {
        let unknown = || OpsError::NotFound(Resource::User(who.to_owned()));
        let found = if let Ok(id) = who.parse() {
            self.store.user(workspace.id, Id::from_i64(id)).await?
        } else {
            let email = Email::parse(who).map_err(|_| unknown())?;
            self.store.user_by_email(workspace.id, &email).await?
        };
        found.filter(|user| user.status != UserStatus::Deleted).ok_or_else(unknown)
    }

    /// Makes somebody a member, and an invitation by which they choose how to sign in.
    pub async fn invite(
        &self,
        caller: &Caller,
        email: Email,
        full_name: String,
        role: Role,
    ) -> Result<(User, Invitation), OpsError> {
        caller.require(Scope::WorkspaceAdmin)?;
        caller.require_grantable(role)?;
        email.check_for_new_account()?;
        let now = self.clock.now();
        let new = NewUser { workspace: caller.workspace.id, email, full_name, role };
        let (hash, invitation) = self.new_invitation(now);
        let invite = self.counted_invite(caller, &hash, &invitation);
        let user = self.writer.create_invited_user(new, &invite, &caller.actor, now).await?;
        Ok((user, invitation))
    }

    /// Invites a member once more whose invitation is lost or over. Who has signed in needs a reset.
    pub async fn reinvite(&self, caller: &Caller, user: &User) -> Result<Invitation, OpsError> {
        check_may_reinvite(caller, user)?;
        if self.store.has_signed_in(user).await? {
            return Err(OpsError::Forbidden(
                "This member has accepted their invitation; reset their sign-in instead, which ends what they sign in with now",
            ));
        }
        let now = self.clock.now();
        let (hash, invitation) = self.new_invitation(now);
        let invite = self.counted_invite(caller, &hash, &invitation);
        self.writer.renew_invite(user, &invite, &caller.actor, now).await?;
        Ok(invitation)
    }

    /// What the store keeps of an invitation of this caller's.
    fn counted_invite<'a>(
        &self,
        caller: &'a Caller,
        hash: &'a str,
        invitation: &Invitation,
    ) -> NewInvite<'a> {
        NewInvite {
            hash,
            expires_at: invitation.expires_at,
            counted_for: caller.counted_for(),
            quota: self.invitation_quota(caller),
        }
    }

    /// Ends what a member signs in with: sessions, password, their link to an OpenID provider and, unless `keys` says otherwise, their
    /// keys with all that was made with them. An invitation takes its place.
    pub async fn reset_sign_in(
        &self,
        caller: &Caller,
        user: &User,
        keys: KeysOnReset,
    ) -> Result<(Invitation, EndedSignIn), OpsError> {
        check_may_reinvite(caller, user)?;
        let reach = match keys {
            KeysOnReset::Revoke => Some(revocation_reach(caller)?),
            KeysOnReset::Keep => None,
        };
        let now = self.clock.now();
        let (hash, invitation) = self.new_invitation(now);
        let by = (&caller.actor, caller.member());
        // No quota stands in the way of ending what a thief may have.
        let invite = NewInvite { quota: None, ..self.counted_invite(caller, &hash, &invitation) };
        let ended = self.writer.reset_sign_in(user, &invite, reach.as_ref(), by, now).await?;
        Ok((invitation, ended))
    }

    /// The keys that would end with a reset, and what was made with them.
    pub async fn keys_ended_by_reset(
        &self,
        caller: &Caller,
        user: &User,
    ) -> Result<(Vec<ApiKey>, CreatedWithKeys), OpsError> {
        check_may_reinvite(caller, user)?;
        Ok(self.store.keys_and_created(user, &revocation_reach(caller)?, self.clock.now()).await?)
    }

    /// A member has seen that their sign-in was reset.
    pub async fn dismiss_sign_in_reset(&self, caller: &Caller, reset_at: Timestamp) -> Result<(), OpsError> {
        let user = caller.account()?;
        Ok(self.writer.dismiss_sign_in_reset(user.id, reset_at).await?)
    }

    /// A new invitation, and the hash to keep of it.
    fn new_invitation(&self, now: Timestamp) -> (String, Invitation) {
        let token = self.random.draw(api_key::random_token);
        let url = format!("{}/admin/invite/{token}", self.short_urls.base_url());
        (api_key::hash_secret(&token), Invitation { url, expires_at: now.plus_ms(INVITATION_LIFETIME_MS) })
    }

    /// Makes somebody a member who signs in with this password, without an invitation.
    pub async fn add_member(
        &self,
        caller: &Caller,
        new: NewUser,
        password: Password,
    ) -> Result<User, OpsError> {
        caller.require_operator(PASSWORDS_OF_OTHERS)?;
        new.email.check_for_new_account()?;
        check_passwords_allowed(&caller.workspace)?;
        let owner = PasswordOwner::new(&new.full_name, &new.email);
        let hash = hash_password(password, owner, self.random.bytes()).await?;
        let now = self.clock.now();
        let user = self.writer.create_user(new, &caller.actor, now).await?;
        self.writer.set_password(&user, &hash, None, None, &caller.actor, now).await?;
        Ok(user)
    }

    /// Gives a member a password. They are signed out everywhere.
    pub async fn set_password(
        &self,
        caller: &Caller,
        user: &User,
        password: Password,
    ) -> Result<(), OpsError> {
        caller.require_operator(PASSWORDS_OF_OTHERS)?;
        check_passwords_allowed(&caller.workspace)?;
        let owner = PasswordOwner::new(&user.full_name, &user.email);
        let hash = hash_password(password, owner, self.random.bytes()).await?;
        Ok(self.writer.set_password(user, &hash, None, None, &caller.actor, self.clock.now()).await?)
    }

    /// Changes a member. The last active admin stays one.
    pub async fn change_member(
        &self,
        caller: &Caller,
        seen: &User,
        patch: &MemberPatch,
    ) -> Result<User, OpsError> {
        caller.require(Scope::WorkspaceAdmin)?;
        if let Some(role) = patch.role.filter(|role| *role != seen.role) {
            caller.require_grantable(role)?;
        }
        if patch.status == Some(UserStatus::Active) && seen.status != UserStatus::Active {
            // Reactivating a member grants their role.
            caller.require_grantable(seen.role)?;
        }
        if let Some(email) = patch.email.as_ref().filter(|email| **email != seen.email) {
            email.check_for_new_account()?;
        }
        self.update_member(caller, seen, patch).await
    }

    /// Changes the caller's own name.
    pub async fn rename_self(&self, caller: &Caller, full_name: String) -> Result<User, OpsError> {
        let user = caller.account()?;
        let patch = MemberPatch { full_name: Some(full_name), ..MemberPatch::default() };
        self.update_member(caller, user, &patch).await
    }

    async fn update_member(
        &self,
        caller: &Caller,
        seen: &User,
        patch: &MemberPatch,
    ) -> Result<User, OpsError> {
        let next = User {
            email: patch.email.clone().unwrap_or_else(|| seen.email.clone()),
            full_name: patch.full_name.clone().unwrap_or_else(|| seen.full_name.clone()),
            role: patch.role.unwrap_or(seen.role),
            status: patch.status.unwrap_or(seen.status),
            ..seen.clone()
        };
        let action = match (next.role != seen.role, next.status != seen.status, next.status) {
            (true, false, _) => "user.role",
            (false, true, UserStatus::Active) => "user.activate",
            (false, true, _) => "user.suspend",
            _ => "user.update",
        };
        Ok(self.writer.update_user(seen, next, action, &caller.actor, self.clock.now()).await?)
    }

    /// Deletes an account. Where links are their owner's alone, they are deleted with it, which takes the right to delete links; elsewhere
    /// they stay the workspace's.
    pub async fn remove_member(&self, caller: &Caller, user: &User) -> Result<(), OpsError> {
        caller.require(Scope::WorkspaceAdmin)?;
        if caller.workspace.policy.visibility == Visibility::Owner {
            caller.require(Scope::LinksDelete)?;
        }
        if caller.member() == Some(user.id) {
            return Err(OpsError::Forbidden(
                "Your own account is deleted from your session, with your password",
            ));
        }
        self.delete_account(caller, user).await
    }

    /// Deletes the caller's own account: from a session, and once they have shown again who they are. No key or token does it.
    pub async fn leave(&self, caller: &Caller, proof: FreshProof<'_>) -> Result<(), OpsError> {
        let (Some(user), Credential::Session(session)) = (&caller.user, &caller.credential) else {
            return Err(OpsError::Forbidden("Only a session can delete its account, not a key"));
        };
        let is_fresh = match proof {
            FreshProof::Password(verified_hash) => {
                let known = self.store.user_with_password_hash(user.workspace, &user.email).await?;
                known.and_then(|(_, hash)| hash).as_deref() == Some(verified_hash)
            }
            FreshProof::RecentSignIn => {
                let until = session.created_at.plus_ms(RECENT_SIGN_IN_MS);
                session.how == AuthMethod::Oidc && self.clock.now() <= until
            }
        };
        if !is_fresh {
            return Err(OpsError::Forbidden(
                "Give your password, or sign in at your identity provider again and come back within five minutes",
            ));
        }
        self.delete_account(caller, user).await
    }

    async fn delete_account(&self, caller: &Caller, user: &User) -> Result<(), OpsError> {
        let takes_links = caller.workspace.policy.visibility == Visibility::Owner;
        let limits = self.change_limits(caller).filter(|_| takes_links).map(|limits| ChangeLimits {
            // A session has confirmed it on a page. A key or token may be stolen.
            enforcement: match caller.credential {
                Credential::Session(_) => Enforcement::CountOnly,
                _ => Enforcement::Refuse,
            },
            ..limits
        });
        let placeholder = format!("deleted-{}", self.random.draw(api_key::random_token).split_at(16).0);
        let (actor, now) = (&caller.actor, self.clock.now());
        self.writer.delete_user_within(user, &placeholder, limits.as_ref(), actor, now).await.map_err(
            |error| match error {
                StoreError::RateLimited { change: LimitedChange::Removal, seconds, .. } => {
                    OpsError::RemovalNeedsSession { removals_per_minute: self.removals_per_minute, seconds }
                }
                other => other.into(),
            },
        )?;
        if takes_links {
            // A client that hangs up drops this future, and must not leave half of the links behind.
            let (ops, caller, user) = (self.clone(), caller.clone(), user.id);
            let deleting = tokio::spawn(async move {
                let first = ops.delete_links_of(&caller, user).await;
                if first.is_err() {
                    tokio::spawn(async move { ops.finish_deleting_links_of(&caller, user).await });
                }
                first
            });
            deleting.await.map_err(|error| StoreError::Unavailable(error.to_string()))??;
        }
        Ok(())
    }

    /// Goes on until every link is deleted, or this process ends.
    async fn finish_deleting_links_of(&self, caller: &Caller, user: Id) {
        for _ in 0..MAX_DELETION_RETRIES {
            tokio::time::sleep(DELETION_RETRY_INTERVAL).await;
            match self.delete_links_of(caller, user).await {
                Ok(_) => return,
                Err(error) => tracing::debug!(%error, "links of a deleted account wait for the store"),
            }
        }
    }

    /// Deletes every link of a member. What a process leaves undone is done when a server starts, and by the daily job.
    async fn delete_links_of(&self, caller: &Caller, user: Id) -> Result<u64, OpsError> {
        let filter = LinkFilter {
            states: vec![LinkState::Active, LinkState::Disabled],
            created_by: Some(Actor::from_user(user)),
            ..LinkFilter::default()
        };
        let mut deleted = 0;
        loop {
            let links = self.store.list(caller.workspace.id, &filter, PAGE_SIZE).await?;
            if links.is_empty() {
                return Ok(deleted);
            }
            let gone = self.delete_together(links, &caller.actor, self.clock.now()).await?;
            if gone.is_empty() {
                return Err(StoreError::Conflict.into());
            }
            deleted += gone.len() as u64;
        }
    }
}

fn check_may_reinvite(caller: &Caller, user: &User) -> Result<(), OpsError> {
    caller.require(Scope::WorkspaceAdmin)?;
    caller.require_grantable(user.role)?;
    if user.status != UserStatus::Active {
        return Err(OpsError::Forbidden("a suspended member cannot be invited; let them in again first"));
    }
    Ok(())
}

/// Why only the operator sets passwords of others: a stolen key could otherwise become any person.
const PASSWORDS_OF_OTHERS: &str = "passwords of others are set where the store is";

/// A password where none is taken would be one that never works.
fn check_passwords_allowed(workspace: &Workspace) -> Result<(), OpsError> {
    if workspace.policy.allows_passwords() {
        return Ok(());
    }
    Err(OpsError::Forbidden(
        "the policy of this workspace does not accept passwords (`sign_in`); its members sign in through their identity provider",
    ))
}

async fn hash_password(password: Password, owner: PasswordOwner, salt: Salt) -> Result<String, OpsError> {
    let hashing = tokio::task::spawn_blocking(move || passwords::hash_new(&password, &owner, &salt));
    Ok(hashing.await.map_err(|error| StoreError::Unavailable(error.to_string()))??)
}
