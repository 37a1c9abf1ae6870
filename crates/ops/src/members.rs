//! Members and their keys: what the command line, the API and the dashboard can do about them.

use rlinks_core::access::api_key::{self, ApiKeySecret};
use rlinks_core::workspace::policy::Visibility;
use rlinks_core::{
    Actor, ApiKey, Email, FieldCode, FieldError, Id, LinkState, Password, Role, Scopes, Timestamp, User,
    UserStatus, Workspace,
};
use rlinks_store::{LinkFilter, NewKey, NewUser, RouteRecord, StoreError};

use super::{Ops, OpsError, Requester, Resource};
use crate::passwords;
use rlinks_store::clock::random_bytes;

/// How long an invitation is good.
const INVITATION_LIFETIME_MS: i64 = 7 * 24 * 3_600_000;
/// How long a key lives on after it was rotated.
const ROTATED_KEY_LIFETIME_MS: i64 = 24 * 3_600_000;
/// Random prefixes that are tried: with 62^8 of them, one is enough.
const MAX_KEY_ATTEMPTS: usize = 4;
/// Links of somebody who left that are deleted at once.
const PAGE_SIZE: i64 = 256;

#[derive(Clone, Debug)]
pub struct Invitation {
    /// The address to open.
    pub url: String,
    /// Good up to and including this moment.
    pub expires_at: Timestamp,
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

/// A key about to be made.
#[derive(Clone, Debug)]
pub struct KeyDraft {
    /// What it is for.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    pub user: Option<Id>,
    pub expires_at: Option<Timestamp>,
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
        by: &Requester,
        workspace: &Workspace,
        email: Email,
        full_name: String,
        role: Role,
    ) -> Result<(User, Invitation), OpsError> {
        let now = self.clock.now();
        let new = NewUser { workspace: workspace.id, email, full_name, role };
        let user = self.store.create_user(new, &by.actor, now).await?;
        let (hash, invitation) = self.new_invitation(now);
        self.store.create_invite(&user, &hash, invitation.expires_at, now).await?;
        Ok((user, invitation))
    }

    /// Invites a member once more: their invitation is lost or over, or they want to sign in in another way. Until it is taken they
    /// sign in as before.
    pub async fn reinvite(&self, by: &Requester, user: &User) -> Result<Invitation, OpsError> {
        if user.status != UserStatus::Active {
            return Err(OpsError::Forbidden("a suspended member cannot be invited; let them in again first"));
        }
        let now = self.clock.now();
        let (hash, invitation) = self.new_invitation(now);
        self.store.renew_invite(user, &hash, invitation.expires_at, &by.actor, now).await?;
        Ok(invitation)
    }

    /// A new invitation, and the hash to keep of it.
    fn new_invitation(&self, now: Timestamp) -> (String, Invitation) {
        let token = generate(api_key::random_token);
        let url = format!("{}/admin/invite/{token}", self.short_urls.base_url());
        (api_key::hash_secret(&token), Invitation { url, expires_at: now.plus_ms(INVITATION_LIFETIME_MS) })
    }

    /// Makes somebody a member who signs in with this password, without an invitation.
    pub async fn add_member(
        &self,
        by: &Requester,
        workspace: &Workspace,
        new: NewUser,
        password: Password,
    ) -> Result<User, OpsError> {
        check_passwords_allowed(workspace)?;
        let hash = hash_password(password).await?;
        let now = self.clock.now();
        let user = self.store.create_user(new, &by.actor, now).await?;
        self.store.set_password(&user, &hash, None, None, &by.actor, now).await?;
        Ok(user)
    }

    /// Gives a member a password. They are signed out everywhere.
    pub async fn set_password(
        &self,
        by: &Requester,
        workspace: &Workspace,
        user: &User,
        password: Password,
    ) -> Result<(), OpsError> {
        check_passwords_allowed(workspace)?;
        let hash = hash_password(password).await?;
        Ok(self.store.set_password(user, &hash, None, None, &by.actor, self.clock.now()).await?)
    }

    /// Ends every session of a member, and gives how many there were.
    pub async fn sign_out(&self, by: &Requester, user: &User) -> Result<u64, OpsError> {
        Ok(self.store.end_sessions_of(user, &by.actor, self.clock.now()).await?)
    }

    /// Changes a member. The last active admin stays one.
    pub async fn change_member(
        &self,
        by: &Requester,
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
        Ok(self.store.update_user(seen, next, action, &by.actor, self.clock.now()).await?)
    }

    /// Deletes an account. Where links are their owner's alone, they are deleted with it; elsewhere they stay the workspace's.
    pub async fn remove_member(
        &self,
        by: &Requester,
        workspace: &Workspace,
        user: &User,
    ) -> Result<(), OpsError> {
        let placeholder = format!("deleted-{}", generate(api_key::random_token).split_at(16).0);
        self.store.delete_user(user, &placeholder, &by.actor, self.clock.now()).await?;
        if workspace.policy.visibility == Visibility::Owner {
            self.delete_links_of(&by.actor, workspace, user.id).await?;
        }
        Ok(())
    }

    /// Deletes every link somebody has. What is cut off half-way is finished when a server starts, and by the daily job.
    pub async fn delete_links_of(
        &self,
        actor: &Actor,
        workspace: &Workspace,
        user: Id,
    ) -> Result<u64, OpsError> {
        let filter = LinkFilter {
            states: vec![LinkState::Active, LinkState::Disabled],
            created_by: Some(Actor::from_user(user)),
            ..LinkFilter::default()
        };
        let mut deleted = 0;
        loop {
            let links = self.store.list(workspace.id, &filter, PAGE_SIZE).await?;
            if links.is_empty() {
                return Ok(deleted);
            }
            let gone = super::sweep::delete_links(&self.store, links, actor, self.clock.now()).await?;
            if gone.is_empty() {
                return Err(StoreError::Conflict.into());
            }
            if let Some(routes) = &self.routes {
                for link in &gone {
                    routes.insert(&RouteRecord::from_link(link));
                }
            }
            deleted += gone.len() as u64;
        }
    }

    /// A key of a workspace.
    pub async fn key(&self, workspace: &Workspace, id: &str) -> Result<ApiKey, OpsError> {
        let unknown = || OpsError::NotFound(Resource::Key(id.to_owned()));
        let number = id.parse().map_err(|_| unknown())?;
        self.store.key(workspace.id, Id::from_i64(number)).await?.ok_or_else(unknown)
    }

    /// Makes a key. The secret is shown once and kept nowhere.
    pub async fn create_key(
        &self,
        by: &Requester,
        workspace: &Workspace,
        draft: &KeyDraft,
    ) -> Result<(ApiKey, ApiKeySecret), OpsError> {
        self.check_target_change_limit(by, workspace.id).await?;
        for _ in 0..MAX_KEY_ATTEMPTS {
            let secret = generate(ApiKeySecret::new);
            let new = NewKey {
                workspace: workspace.id,
                user: draft.user,
                name: draft.name.clone(),
                prefix: secret.prefix().to_owned(),
                hash: secret.hash(),
                scopes: draft.scopes,
                expires_at: draft.expires_at,
            };
            match self.store.create_key(new, &by.actor, self.clock.now()).await {
                Err(StoreError::Conflict) => {}
                made => return Ok((made?, secret)),
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Whom the brake has stopped makes no keys: those of others are not counted with theirs.
    async fn check_target_change_limit(&self, by: &Requester, workspace: Id) -> Result<(), OpsError> {
        match by.target_change_limit(self.target_changes_per_minute) {
            Some(limit) => {
                Ok(self.store.check_target_change_limit(workspace, &limit, self.clock.now()).await?)
            }
            None => Ok(()),
        }
    }

    /// Makes a successor of a key; the old one lives a day more.
    pub async fn rotate_key(
        &self,
        by: &Requester,
        seen: &ApiKey,
    ) -> Result<(ApiKey, ApiKeySecret), OpsError> {
        self.check_target_change_limit(by, seen.workspace).await?;
        let now = self.clock.now();
        if seen.status(now) != api_key::KeyStatus::Active {
            let message = "is not good any more; make a new one";
            return Err(FieldError::new("key", FieldCode::Past, message).into());
        }
        let secret = generate(ApiKeySecret::new);
        let successor = (secret.prefix().to_owned(), secret.hash());
        let made = self
            .store
            .rotate_key(seen, successor, now.plus_ms(ROTATED_KEY_LIFETIME_MS), &by.actor, now)
            .await?;
        Ok((made, secret))
    }

    /// Takes a key back, from the next request on.
    pub async fn revoke_key(
        &self,
        by: &Requester,
        workspace: &Workspace,
        id: Id,
    ) -> Result<ApiKey, OpsError> {
        Ok(self.store.revoke_key(workspace.id, id, &by.actor, self.clock.now()).await?)
    }
}

/// A password where none is taken would be one that never works.
fn check_passwords_allowed(workspace: &Workspace) -> Result<(), OpsError> {
    if workspace.policy.allows_passwords() {
        return Ok(());
    }
    Err(OpsError::Forbidden(
        "the policy of this workspace does not accept passwords (`sign_in`); its members sign in through their identity provider",
    ))
}

async fn hash_password(password: Password) -> Result<String, OpsError> {
    let hashing = tokio::task::spawn_blocking(move || passwords::hash(&password));
    hashing.await.map_err(|error| StoreError::Unavailable(error.to_string()).into())
}

impl From<FieldError> for OpsError {
    fn from(error: FieldError) -> Self {
        Self::Invalid(error.into())
    }
}

/// Something made of random bytes that may run out, once in the life of the universe.
fn generate<T>(make: impl Fn(&[u8; api_key::RANDOM_BYTES]) -> Option<T>) -> T {
    loop {
        if let Some(made) = make(&random_bytes()) {
            return made;
        }
    }
}
