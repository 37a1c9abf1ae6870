//! Who is calling: every operation takes a [`Caller`], whichever front end the call came through.

use rlinks_core::workspace::policy::Visibility;
use rlinks_core::{Actor, ApiKey, Id, Link, LinkSource, Role, Scope, Scopes, Timestamp, User, Workspace};
use rlinks_store::{KeyWithOwner, Session};

use crate::OpsError;

/// Why a key the operator made has nothing that is a member's.
const NO_ACCOUNT: OpsError = OpsError::Forbidden("This key belongs to no account");

/// Who is calling, in which workspace, and what they may do.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The workspace of the credential, whatever the Host.
    pub workspace: Workspace,
    pub actor: Actor,
    /// Owner of links this caller creates: the actor, or the member an acting key belongs to.
    pub owner: Actor,
    /// Counted for rate limits: the owner, or, for a key without one, its sponsor.
    pub principal: Actor,
    /// What they may do: their key's scopes, as far as their role goes.
    pub scopes: Scopes,
    pub source: LinkSource,
    /// Which links are there for them.
    pub visibility: LinkVisibility,
    /// The member whose role applies; `None` for a key the operator created.
    pub user: Option<User>,
    pub credential: Credential,
}

/// How the caller showed who they are.
#[derive(Clone, Debug)]
pub enum Credential {
    /// The command line on the store itself.
    Operator,
    /// The server itself: before sign-in, and for its jobs.
    System,
    Key(Box<ApiKey>),
    /// A session of the dashboard.
    Session(Session),
    /// An access token of the OpenID provider.
    Token {
        until: Timestamp,
    },
}

/// Which links a caller can see. Others are reported as not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkVisibility {
    /// All of the workspace.
    All,
    Own,
}

impl Caller {
    /// The operator at the command line: unlimited, though quotas and the safety check hold.
    pub fn operator(actor: Actor, workspace: Workspace) -> Self {
        Self::trusted(actor, workspace, LinkSource::Cli, Credential::Operator)
    }

    /// The server itself.
    pub fn system(workspace: Workspace) -> Self {
        Self::trusted(Actor::system(), workspace, LinkSource::Cli, Credential::System)
    }

    fn trusted(actor: Actor, workspace: Workspace, source: LinkSource, credential: Credential) -> Self {
        Self {
            owner: actor.clone(),
            principal: actor.clone(),
            actor,
            workspace,
            scopes: Scopes::ALL,
            source,
            visibility: LinkVisibility::All,
            user: None,
            credential,
        }
    }

    pub fn from_key(holder: &KeyWithOwner) -> Self {
        let KeyWithOwner { key, user, workspace, .. } = holder.clone();
        let role = user.as_ref().map(|user| user.role);
        let actor = Actor::from_key(key.id);
        Self {
            owner: user.as_ref().map_or_else(|| actor.clone(), |user| Actor::from_user(user.id)),
            principal: key.principal(),
            actor,
            scopes: role.map_or(key.scopes, |role| key.scopes.intersection(role.scopes())),
            source: LinkSource::Api,
            visibility: LinkVisibility::for_role(&workspace, role),
            workspace,
            user,
            credential: Credential::Key(Box::new(key)),
        }
    }

    /// Members themselves may do what their role may.
    pub fn from_session(user: User, workspace: Workspace, session: Session) -> Self {
        Self::from_member(user, workspace, LinkSource::Web, Credential::Session(session))
    }

    pub fn from_token(user: User, workspace: Workspace, until: Timestamp) -> Self {
        Self::from_member(user, workspace, LinkSource::Api, Credential::Token { until })
    }

    fn from_member(user: User, workspace: Workspace, source: LinkSource, credential: Credential) -> Self {
        let actor = Actor::from_user(user.id);
        Self {
            owner: actor.clone(),
            principal: actor.clone(),
            actor,
            scopes: user.role.scopes(),
            source,
            visibility: LinkVisibility::for_role(&workspace, Some(user.role)),
            workspace,
            user: Some(user),
            credential,
        }
    }

    /// Fails unless they may do this.
    pub fn require(&self, scope: Scope) -> Result<(), OpsError> {
        if self.scopes.contains(scope) { Ok(()) } else { Err(OpsError::MissingScope(scope)) }
    }

    /// Fails unless they may grant this role. A key grants nothing beyond its own scopes and lifetime.
    pub(crate) fn require_grantable(&self, role: Role) -> Result<(), OpsError> {
        let Some(key) = self.key() else { return Ok(()) };
        if key.expires_at.is_some() {
            return Err(OpsError::Forbidden(
                "A key that expires can't invite anyone or change roles: what it grants would outlive it",
            ));
        }
        if !role.scopes().is_subset(self.scopes) {
            return Err(OpsError::Forbidden("A key can't grant a role that may do more than the key itself"));
        }
        Ok(())
    }

    /// Fails unless the operator or the server itself is calling.
    pub(crate) fn require_operator(&self, why: &'static str) -> Result<(), OpsError> {
        if self.is_trusted() { Ok(()) } else { Err(OpsError::Forbidden(why)) }
    }

    /// Whether this is the operator or the server itself: neither is limited.
    pub const fn is_trusted(&self) -> bool {
        matches!(self.credential, Credential::Operator | Credential::System)
    }

    /// The member whose role applies.
    pub fn member(&self) -> Option<Id> {
        self.user.as_ref().map(|user| user.id)
    }

    /// The member who is calling; a key the operator made has none.
    pub fn account(&self) -> Result<&User, OpsError> {
        self.user.as_ref().ok_or(NO_ACCOUNT)
    }

    /// The key they call with.
    pub fn key(&self) -> Option<&ApiKey> {
        match &self.credential {
            Credential::Key(key) => Some(key),
            _ => None,
        }
    }

    /// The session they call with.
    pub fn session(&self) -> Option<&Session> {
        match &self.credential {
            Credential::Session(session) => Some(session),
            _ => None,
        }
    }

    /// Whether a link is there for them.
    pub fn can_see(&self, link: &Link) -> bool {
        self.visibility == LinkVisibility::All || link.created_by == self.owner
    }

    /// The principal that limits count for.
    pub fn principal_id(&self) -> Id {
        self.principal.user().or_else(|| self.principal.key()).unwrap_or(self.workspace.id)
    }

    /// Everyone who answers for this credential: the principal and the key's creator.
    pub(crate) fn identities(&self) -> Vec<Actor> {
        let sponsor = self.key().and_then(|key| ApiKey::sponsor(&key.created_by));
        let sponsor = sponsor.filter(|sponsor| *sponsor != self.principal);
        std::iter::once(self.principal.clone()).chain(sponsor).collect()
    }
}

impl LinkVisibility {
    /// Where links are their owner's alone, only an admin sees those of others.
    fn for_role(workspace: &Workspace, role: Option<Role>) -> Self {
        let is_own =
            workspace.policy.visibility == Visibility::Owner && role.is_some_and(|role| role < Role::Admin);
        if is_own { Self::Own } else { Self::All }
    }
}
