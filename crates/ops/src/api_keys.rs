//! API keys: who may hold which, and create, rotate, revoke.
//!
//! A key can do no more, and lives no longer, than what created it.

use rlinks_core::access::api_key::{self, ApiKeySecret};
use rlinks_core::time::DAY_MS;
use rlinks_core::{ApiKey, Email, FieldCode, FieldError, Id, Role, Scope, Scopes, Timestamp};
use rlinks_store::{CreatedWithKeys, NewKey, RevocationReach, RevokedKey, StoreError};

use crate::{Caller, Ops, OpsError, Resource};

/// How long a key lives on after it was rotated.
const ROTATED_KEY_LIFETIME_MS: i64 = DAY_MS;
/// A key that has been good for so long without being replaced should be.
const STALE_KEY_AGE_MS: i64 = 365 * DAY_MS;
/// Random prefixes that are tried: with 62^8 of them, one is enough.
const MAX_KEY_ATTEMPTS: usize = 4;

/// What a new key is to be.
#[derive(Clone, Debug)]
pub struct KeyRequest {
    /// What it is for.
    pub name: String,
    /// Else the usual ones, as far as the caller has them.
    pub scopes: Option<Scopes>,
    /// The member it is to belong to, by id or e-mail address; else the caller.
    pub user: Option<String>,
    pub expires_at: Option<Timestamp>,
}

/// What a revocation does with the keys and invitations that were made with the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCreated {
    /// They end too, as far as the caller may end them.
    Revoke,
    Keep,
}

/// Whose keys a caller may manage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAccess {
    All,
    Own(Id),
}

impl KeyAccess {
    /// An admin manages all keys of the workspace, a member with a credential that may write their own.
    pub fn for_caller(caller: &Caller) -> Result<Self, OpsError> {
        if caller.scopes.contains(Scope::WorkspaceAdmin) {
            return Ok(Self::All);
        }
        match &caller.user {
            Some(user) if user.role >= Role::Member && caller.scopes.contains(Scope::LinksWrite) => {
                Ok(Self::Own(user.id))
            }
            _ => Err(OpsError::Forbidden(
                "Keys are kept by admins, and by members their own, with a credential that may write",
            )),
        }
    }

    /// The member whose keys these are, where not everybody's.
    pub const fn owner(self) -> Option<Id> {
        match self {
            Self::All => None,
            Self::Own(user) => Some(user),
        }
    }
}

/// Active keys made up to this moment should be replaced.
pub fn stale_before(now: Timestamp) -> Timestamp {
    now.plus_ms(-STALE_KEY_AGE_MS)
}

impl Ops {
    /// A key the caller may manage; another's is reported as not found.
    pub async fn key(&self, caller: &Caller, id: &str) -> Result<ApiKey, OpsError> {
        let access = KeyAccess::for_caller(caller)?;
        let unknown = || OpsError::NotFound(Resource::Key(id.to_owned()));
        let number = id.parse().map_err(|_| unknown())?;
        let key = self.store.key(caller.workspace.id, Id::from_i64(number)).await?;
        key.filter(|key| access.owner().is_none_or(|owner| key.user == Some(owner))).ok_or_else(unknown)
    }

    /// The oldest keys the caller may manage that haven't been rotated for a year.
    pub async fn stale_keys(&self, caller: &Caller, limit: i64) -> Result<Vec<ApiKey>, OpsError> {
        let (owner, now) = (KeyAccess::for_caller(caller)?.owner(), self.clock.now());
        let workspace = Some(caller.workspace.id);
        let keys = self.store.keys_older_than(workspace, owner, stale_before(now), now, limit).await?;
        Ok(keys.into_iter().map(|(_, key)| key).collect())
    }

    /// Makes a key. The secret is shown once and kept nowhere.
    pub async fn create_key(
        &self,
        caller: &Caller,
        request: KeyRequest,
    ) -> Result<(ApiKey, ApiKeySecret), OpsError> {
        let access = KeyAccess::for_caller(caller)?;
        let user = match (access, request.user) {
            (KeyAccess::All, Some(who)) => Some(self.member(&caller.workspace, &who).await?.id),
            (KeyAccess::Own(own), Some(who)) if is_self(caller, &who) => Some(own),
            (KeyAccess::Own(_), Some(_)) => {
                return Err(OpsError::Forbidden("Only an admin makes keys for others"));
            }
            (_, None) => caller.member(),
        };
        let expires_at = cap_expiry(caller, request.expires_at)?;
        let scopes = request.scopes.unwrap_or_else(|| Scopes::DEFAULT.intersection(caller.scopes));
        if scopes == Scopes::NONE {
            let message =
                "is missing; name what the key may do, for you have nothing of what keys may do by default";
            return Err(FieldError::new("scopes", FieldCode::Required, message).into());
        }
        if !scopes.is_subset(caller.scopes) {
            return Err(OpsError::Forbidden("A key can be given no scope its maker does not have"));
        }
        self.check_change_limits(caller).await?;
        let quota = self.key_quota(caller);
        for _ in 0..MAX_KEY_ATTEMPTS {
            let secret = self.random.draw(ApiKeySecret::new);
            let new = NewKey {
                workspace: caller.workspace.id,
                user,
                name: request.name.clone(),
                prefix: secret.prefix().to_owned(),
                hash: secret.hash(),
                scopes,
                expires_at,
            };
            match self.writer.create_key(new, quota, &caller.actor, self.clock.now()).await {
                Err(StoreError::Conflict) => {}
                made => return Ok((made?, secret)),
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// A caller who is stopped by a limit on changes makes no keys.
    async fn check_change_limits(&self, caller: &Caller) -> Result<(), OpsError> {
        match self.change_limits(caller) {
            Some(limits) => {
                let (workspace, now) = (caller.workspace.id, self.clock.now());
                Ok(self.writer.check_change_limits(workspace, &limits, now).await?)
            }
            None => Ok(()),
        }
    }

    /// Makes a successor of a key; the old one lives a day more.
    pub async fn rotate_key(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<(ApiKey, ApiKey, ApiKeySecret), OpsError> {
        let seen = self.key(caller, id).await?;
        // What the key was given counts, not what its owner's role leaves of it today: the role may grow again.
        if !seen.scopes.is_subset(caller.scopes) {
            return Err(OpsError::Forbidden("This key may do more than you"));
        }
        let until = caller.key().and_then(|key| key.expires_at);
        if until.is_some_and(|until| seen.expires_at.is_none_or(|end| end > until)) {
            return Err(OpsError::Forbidden("This key lives longer than the one you call with"));
        }
        self.check_change_limits(caller).await?;
        let now = self.clock.now();
        if seen.status(now) != api_key::KeyStatus::Active {
            let message = "is not good any more; make a new one";
            return Err(FieldError::new("key", FieldCode::Past, message).into());
        }
        let secret = self.random.draw(ApiKeySecret::new);
        let successor = (secret.prefix().to_owned(), secret.hash());
        let old_until = now.plus_ms(ROTATED_KEY_LIFETIME_MS);
        let made = self
            .writer
            .rotate_key(&seen, successor, old_until, self.key_quota(caller), &caller.actor, now)
            .await?;
        Ok((seen, made, secret))
    }

    /// What would end with a key: the keys and open invitations made with it, and with those.
    pub async fn created_with_key(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<(ApiKey, CreatedWithKeys), OpsError> {
        let key = self.key(caller, id).await?;
        let (reach, now) = (revocation_reach(caller)?, self.clock.now());
        let created = self.store.created_with_key(key.workspace, key.id, &reach, now).await?;
        Ok((key, created))
    }

    /// Takes a key back, from the next request on, and what was made with it. Gives the key as it was, and what became of it.
    pub async fn revoke_key(
        &self,
        caller: &Caller,
        id: &str,
        created: OnCreated,
    ) -> Result<(ApiKey, RevokedKey), OpsError> {
        let seen = self.key(caller, id).await?;
        if caller.key().is_some_and(|own| !seen.scopes.is_subset(own.scopes)) {
            return Err(OpsError::Forbidden("A key can't revoke one that may do more than itself"));
        }
        let (workspace, now) = (seen.workspace, self.clock.now());
        let revoked = match created {
            OnCreated::Revoke => {
                let reach = revocation_reach(caller)?;
                self.writer.revoke_key_and_created(workspace, seen.id, &reach, &caller.actor, now).await?
            }
            OnCreated::Keep => {
                let key = self.writer.revoke_key(workspace, seen.id, &caller.actor, now).await?;
                RevokedKey { key, created: CreatedWithKeys::default() }
            }
        };
        Ok((seen, revoked))
    }

    /// Adds what keys were used since the last time.
    pub async fn count_key_use(&self, uses: &[(Id, i64, Timestamp)]) -> Result<(), OpsError> {
        Ok(self.writer.count_key_use(uses).await?)
    }
}

/// What a caller ends together with a key: only what they could end alone, and never the key they call with.
pub(crate) fn revocation_reach(caller: &Caller) -> Result<RevocationReach, OpsError> {
    Ok(RevocationReach {
        owner: KeyAccess::for_caller(caller)?.owner(),
        scopes: caller.key().map_or(Scopes::ALL, |key| key.scopes),
        invitations: caller.scopes.contains(Scope::WorkspaceAdmin),
        spared: caller.key().map(|key| key.id),
    })
}

/// Whether a caller names themselves.
fn is_self(caller: &Caller, who: &str) -> bool {
    caller.user.as_ref().is_some_and(|user| {
        who == user.id.to_string() || Email::parse(who).is_ok_and(|address| address == user.email)
    })
}

/// The end of a key made by this caller: no later than that of the key they call with.
fn cap_expiry(caller: &Caller, wanted: Option<Timestamp>) -> Result<Option<Timestamp>, OpsError> {
    let own = caller.key().and_then(|key| key.expires_at);
    match (own, wanted) {
        (Some(own), Some(wanted)) if wanted > own => {
            let message = format!("is after the end of the key you call with ({own})");
            Err(FieldError::new("expires_at", FieldCode::TooLong, message).into())
        }
        (own, wanted) => Ok(wanted.or(own)),
    }
}
