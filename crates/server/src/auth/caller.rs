//! Who calls, in which workspace, and what they may do.

use rlinks_core::workspace::policy::Visibility;
use rlinks_core::{Actor, ApiKey, Id, LinkSource, Role, Scope, Scopes, Timestamp, User, Workspace};
use rlinks_ops::{LinkVisibility, Requester};
use rlinks_store::{KeyWithOwner, Session};

use super::error::AuthError;
use super::oidc::Bearer;
use super::session::CurrentSession;

#[derive(Clone, Debug)]
pub struct Caller {
    /// In which workspace: the credential's, whatever the Host.
    pub workspace: Workspace,
    /// Who acts, and what they see.
    pub by: Requester,
    /// What they may do: their key's scopes, as far as their role goes.
    pub scopes: Scopes,
    /// The member, where it is one.
    pub user: Option<User>,
    /// The key, where it is one.
    pub key: Option<ApiKey>,
    /// The dashboard session, if that is the credential.
    pub session: Option<Session>,
    /// Until when the access token is good, where it is one.
    pub token_until: Option<Timestamp>,
}

impl Caller {
    /// Whether they may do this.
    pub fn require_scope(&self, scope: Scope) -> Result<(), AuthError> {
        if self.scopes.contains(scope) {
            return Ok(());
        }
        Err(AuthError::MissingScope(scope))
    }

    /// The member whose role applies; `None` for a key the operator created.
    pub fn member(&self) -> Option<Id> {
        self.user.as_ref().map(|user| user.id)
    }

    /// The principal that creations are counted for: the member, or the sponsor of a key without one.
    pub fn principal_id(&self) -> Id {
        let counted = &self.by.principal;
        counted.user().or_else(|| counted.key()).unwrap_or(self.workspace.id)
    }

    pub(super) fn from_key(holder: &KeyWithOwner) -> Self {
        let KeyWithOwner { key, user, workspace, .. } = holder.clone();
        let role = user.as_ref().map(|user| user.role);
        let scopes = role.map_or(key.scopes, |role| key.scopes.intersection(role.scopes()));
        let actor = Actor::from_key(key.id);
        let owner = user.as_ref().map_or_else(|| actor.clone(), |user| Actor::from_user(user.id));
        let by = Requester {
            actor,
            owner,
            principal: key.principal(),
            source: LinkSource::Api,
            visibility: visibility_for(&workspace, role),
        };
        Self { by, workspace, scopes, user, key: Some(key), session: None, token_until: None }
    }

    /// A member themselves may do what their role may.
    pub fn from_session(current: CurrentSession) -> Self {
        let CurrentSession { user, workspace, session, .. } = current;
        Self { session: Some(session), ..Self::from_member(user, workspace, LinkSource::Web) }
    }

    /// The same with an access token.
    pub(super) fn from_bearer(bearer: Bearer) -> Self {
        let Bearer { user, workspace, until } = bearer;
        Self { token_until: Some(until), ..Self::from_member(user, workspace, LinkSource::Api) }
    }

    pub(super) fn from_member(user: User, workspace: Workspace, source: LinkSource) -> Self {
        let actor = Actor::from_user(user.id);
        let sees = visibility_for(&workspace, Some(user.role));
        let by =
            Requester { owner: actor.clone(), principal: actor.clone(), actor, source, visibility: sees };
        let scopes = user.role.scopes();
        Self { by, workspace, scopes, user: Some(user), key: None, session: None, token_until: None }
    }
}

/// Where links are their owner's alone, only an admin sees those of others.
fn visibility_for(workspace: &Workspace, role: Option<Role>) -> LinkVisibility {
    let own = workspace.policy.visibility == Visibility::Owner && role.is_some_and(|role| role < Role::Admin);
    if own { LinkVisibility::Own } else { LinkVisibility::All }
}
