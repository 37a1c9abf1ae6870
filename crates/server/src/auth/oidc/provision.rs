//! Who may come in: somebody we know by issuer and subject, or somebody a rule of the configuration makes a member. An address alone
//! opens nothing: anybody can tell some provider that an address is theirs.

use rlinks_core::workspace::policy::SignInMethod;
use rlinks_core::{Email, Role, User, UserStatus, Workspace};
use rlinks_ops::Caller;
use rlinks_ops::sessions::OidcAccount;
use rlinks_store::{OidcIdentity, OidcProfile, StoreError};
use serde_json::Value;

use super::Oidc;
use super::token::{Claims, text_claim};

/// Makes those it fits members of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisionRule {
    /// Of which, by its slug.
    pub workspace: String,
    pub role: Role,
    /// Only with an address at this host, which the provider has verified.
    pub email_domain: Option<String>,
    /// Only with this claim.
    pub claim: Option<ClaimRule>,
}

/// A claim and what it must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRule {
    pub name: String,
    /// What it must be, or have in its list, or among its keys.
    pub value: String,
}

/// Somebody a provider vouches for.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Who they are to it.
    pub subject: OidcIdentity,
    /// What it says of them.
    pub profile: OidcProfile,
    claims: Claims,
}

/// Why somebody does not come in. The words are for them.
#[derive(Debug, thiserror::Error)]
pub enum ProvisionError {
    /// The workspace is gone or was never there, or its policy has no OpenID sign-in.
    #[error("This workspace does not let people sign in this way")]
    WorkspaceUnavailable,
    /// An admin has locked them out.
    #[error("This account is suspended; an admin of the workspace can activate it again")]
    AccountSuspended,
    /// No rule makes them a member.
    #[error("There is no account for you in this workspace; ask one of its admins to let you in")]
    NoMatchingRule,
    /// A rule would, but an account needs an address.
    #[error(
        "Your sign-in provider does not say that your e-mail address is verified, and an account needs one that is"
    )]
    NoVerifiedEmail,
    /// Somebody else's account has the address, or their own of another way to sign in.
    #[error(
        "A member of this workspace already has your e-mail address, and is not linked to this way to sign in; an admin can send that \
         member a new invitation"
    )]
    EmailTaken,
    /// The invitation was used, or is too old.
    #[error("This invitation is no longer good; ask for another")]
    InvitationExpired,
    /// They are a member already, as somebody else than the invitation is for.
    #[error("You are a member of this workspace already; the invitation is for another account")]
    AlreadyMember,
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Identity {
    /// From the claims of a token we believe.
    pub fn from_claims(issuer: &str, claims: Claims) -> Option<Self> {
        let subject =
            OidcIdentity { issuer: issuer.to_owned(), subject: text_claim(&claims, "sub")?.to_owned() };
        let is_verified = match claims.get("email_verified") {
            Some(Value::Bool(is_verified)) => *is_verified,
            Some(Value::String(word)) => word == "true",
            _ => false,
        };
        let email =
            text_claim(&claims, "email").filter(|_| is_verified).and_then(|email| Email::parse(email).ok());
        let name = text_claim(&claims, "name").or_else(|| text_claim(&claims, "preferred_username"));
        let full_name = name.and_then(|name| User::parse_name(name).ok()).filter(|name| !name.is_empty());
        Some(Self { subject, profile: OidcProfile { email, full_name }, claims })
    }
}

impl ProvisionRule {
    /// Whether it is about somebody.
    pub fn fits(&self, identity: &Identity) -> bool {
        let has_domain = self.email_domain.as_deref().is_none_or(|wanted| {
            let host = identity.profile.email.as_ref().and_then(|email| email.as_str().rsplit_once('@'));
            host.is_some_and(|(_, host)| host.eq_ignore_ascii_case(wanted))
        });
        has_domain && self.claim.as_ref().is_none_or(|claim| claim.fits(&identity.claims))
    }
}

impl ClaimRule {
    fn fits(&self, claims: &Claims) -> bool {
        let is_it = |value: &Value| match value {
            Value::String(text) => *text == self.value,
            Value::Bool(_) | Value::Number(_) => {
                let text = value.to_string();
                text == self.value
            }
            _ => false,
        };
        match claims.get(&self.name) {
            Some(Value::Array(several)) => several.iter().any(is_it),
            // Zitadel says roles so.
            Some(Value::Object(named)) => named.contains_key(&self.value),
            Some(value) => is_it(value),
            None => false,
        }
    }
}

/// Whether people may sign in to a workspace this way.
pub fn allows_oidc(workspace: &Workspace) -> bool {
    workspace.deleted_at.is_none() && workspace.policy.sign_in.contains(&SignInMethod::Oidc)
}

impl Oidc {
    /// Lets somebody into a workspace who came back from the provider, and learns what it says of them.
    pub async fn sign_in(&self, workspace: &Workspace, identity: &Identity) -> Result<User, ProvisionError> {
        self.find_or_create_account(workspace, identity).await?;
        let system = Caller::system(workspace.clone());
        Ok(self.ops.sync_oidc_profile(&system, &identity.subject, &identity.profile).await?)
    }

    /// Makes somebody the member an invitation is for. Whoever has it was trusted with it, so their address does not matter.
    pub async fn accept_invitation(
        &self,
        workspace: &Workspace,
        identity: &Identity,
        invitation: &str,
    ) -> Result<User, ProvisionError> {
        if !allows_oidc(workspace) {
            return Err(ProvisionError::WorkspaceUnavailable);
        }
        let system = Caller::system(workspace.clone());
        let joined = self.ops.link_oidc_identity(&system, invitation, &identity.subject).await;
        match joined {
            Ok(_) => self.sign_in(workspace, identity).await,
            Err(StoreError::NotFound(_)) => Err(ProvisionError::InvitationExpired),
            Err(StoreError::Conflict) => Err(ProvisionError::AlreadyMember),
            Err(error) => Err(error.into()),
        }
    }

    /// Somebody's account in a workspace, made by the first rule that fits where there is none.
    pub(super) async fn find_or_create_account(
        &self,
        workspace: &Workspace,
        identity: &Identity,
    ) -> Result<User, ProvisionError> {
        if !allows_oidc(workspace) {
            return Err(ProvisionError::WorkspaceUnavailable);
        }
        let accounts = self.ops.store.accounts_of(&identity.subject).await?;
        let user = match accounts.into_iter().find(|(_, home)| home.id == workspace.id) {
            Some((user, _)) => user,
            None => self.create_account(workspace, identity).await?,
        };
        match user.status {
            UserStatus::Active => Ok(user),
            UserStatus::Suspended => Err(ProvisionError::AccountSuspended),
            UserStatus::Deleted => Err(ProvisionError::NoMatchingRule),
        }
    }

    async fn create_account(
        &self,
        workspace: &Workspace,
        identity: &Identity,
    ) -> Result<User, ProvisionError> {
        let rules = self.settings.provision.iter();
        let mut rules = rules.filter(|rule| rule.workspace == workspace.slug.as_str());
        let rule = rules.find(|rule| rule.fits(identity)).ok_or(ProvisionError::NoMatchingRule)?;
        let account = OidcAccount {
            email: identity.profile.email.clone().ok_or(ProvisionError::NoVerifiedEmail)?,
            full_name: identity.profile.full_name.clone().unwrap_or_default(),
            role: rule.role,
        };
        let system = Caller::system(workspace.clone());
        match self.ops.create_oidc_account(&system, account, &identity.subject).await {
            Err(StoreError::NameTaken(_)) => Err(ProvisionError::EmailTaken),
            made => Ok(made?),
        }
    }
}
