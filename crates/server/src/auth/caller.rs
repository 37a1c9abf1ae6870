//! Who calls, in which workspace, and what they may do.

use rlinks_core::workspace::policy::Visibility;
use rlinks_core::{Actor, ApiKey, Id, Role, Scope, Scopes, Source, Timestamp, User, Workspace};
use rlinks_ops::{By, Sees};
use rlinks_store::{KeyHolder, Session};

use super::error::AuthError;
use super::oidc::Bearer;
use super::session::Signed;

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// In which workspace: the credential's, whatever the Host.
    pub workspace: Workspace,
    /// Who acts, and what they see.
    pub by: By,
    /// What they may do: their key's scopes, as far as their role goes.
    pub scopes: Scopes,
    /// The member, where it is one.
    pub user: Option<User>,
    /// The key, where it is one.
    pub key: Option<ApiKey>,
    /// The session, where it is somebody at the dashboard.
    pub session: Option<Session>,
    /// Until when the access token is good, where it is one.
    pub token_until: Option<Timestamp>,
}

impl Caller {
    /// Whether they may do this.
    pub fn need(&self, scope: Scope) -> Result<(), AuthError> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        Err(AuthError::MissingScope(scope))
    }

    /// The member whose role they have; nobody for a key the operator made.
    pub fn member(&self) -> Option<Id> {
        self.user.as_ref().map(|user| user.id)
    }

    /// As whom creations are counted: the member, or whoever answers for the key that is nobody's.
    pub fn counted_as(&self) -> Id {
        let counted = &self.by.counted_as;
        counted.user().or_else(|| counted.key()).unwrap_or(self.workspace.id)
    }

    pub(super) fn of_key(holder: &KeyHolder) -> Self {
        let KeyHolder { key, user, workspace, .. } = holder.clone();
        let role = user.as_ref().map(|user| user.role);
        let scopes = role.map_or(key.scopes, |role| key.scopes.and(role.scopes()));
        let actor = Actor::of_key(key.id);
        let owner = user.as_ref().map_or_else(|| actor.clone(), |user| Actor::of_user(user.id));
        let by = By {
            actor,
            owner,
            counted_as: key.counted_as(),
            source: Source::Api,
            sees: sees(&workspace, role),
        };
        Self { by, workspace, scopes, user, key: Some(key), session: None, token_until: None }
    }

    /// A member themselves may do what their role may.
    pub fn of_session(signed: Signed) -> Self {
        let Signed { user, workspace, session, .. } = signed;
        Self { session: Some(session), ..Self::of_member(user, workspace, Source::Web) }
    }

    /// The same with an access token.
    pub(super) fn of_bearer(bearer: Bearer) -> Self {
        let Bearer { user, workspace, until } = bearer;
        Self { token_until: Some(until), ..Self::of_member(user, workspace, Source::Api) }
    }

    pub(super) fn of_member(user: User, workspace: Workspace, source: Source) -> Self {
        let actor = Actor::of_user(user.id);
        let sees = sees(&workspace, Some(user.role));
        let by = By { owner: actor.clone(), counted_as: actor.clone(), actor, source, sees };
        let scopes = user.role.scopes();
        Self { by, workspace, scopes, user: Some(user), key: None, session: None, token_until: None }
    }
}

/// Where links are their owner's alone, only an admin sees those of others.
fn sees(workspace: &Workspace, role: Option<Role>) -> Sees {
    let own = workspace.policy.visibility == Visibility::Owner && role.is_some_and(|role| role < Role::Admin);
    if own { Sees::Own } else { Sees::All }
}
