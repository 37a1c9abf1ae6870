//! Sign-in by an OpenID provider, and its access tokens.
//!
//! | to find | look in |
//! |---|---|
//! | is this token the issuer's, for us, now? | [`token`], with a key of [`jwks`] |
//! | which keys there are, and when the issuer is asked again | [`provider`], [`metadata`], the crate `rlinks-ops` (`outbound`) |
//! | signing in with a browser | [`login`] |
//! | who may come in, and as what | [`provision`] |
//!
//! People are known by issuer and subject. Their address is what they are shown by, never what they are known by.

pub mod jwks;
pub mod login;
pub mod metadata;
pub mod provider;
pub mod provision;
pub mod token;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rlinks_core::{Slug, Timestamp, User, UserStatus, Workspace};

use self::provision::{Identity, ProvisionError, ProvisionRule};
use self::token::{Token, TokenError, TokenUse};
use crate::auth::oidc::login::LoginStates;
use crate::auth::oidc::provider::{Issuer, KeyError};
use rlinks_ops::Ops;
use rlinks_ops::outbound::OutboundError;
use rlinks_ops::shared_keys::InstallationKey;

/// Where the provider sends people back to.
pub const CALLBACK_PATH: &str = "/admin/oidc/callback";

/// An algorithm of signatures. There is none with a shared secret, and none that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA with PKCS#1 padding and SHA-256.
    Rs256,
    /// The same with SHA-384.
    Rs384,
    /// The same with SHA-512.
    Rs512,
    /// RSA with PSS padding and SHA-256.
    Ps256,
    /// The same with SHA-384.
    Ps384,
    /// The same with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    // Ed25519.
    EdDsa,
}

impl Algorithm {
    /// Those allowed where nothing is said.
    pub const DEFAULTS: [Self; 2] = [Self::Rs256, Self::Es256];
    const NAMES: [(Self, &'static str); 9] = [
        (Self::Rs256, "RS256"),
        (Self::Rs384, "RS384"),
        (Self::Rs512, "RS512"),
        (Self::Ps256, "PS256"),
        (Self::Ps384, "PS384"),
        (Self::Ps512, "PS512"),
        (Self::Es256, "ES256"),
        (Self::Es384, "ES384"),
        (Self::EdDsa, "EdDSA"),
    ];

    /// By its name, to the letter.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(_, known)| *known == name).map(|(algorithm, _)| algorithm)
    }

    /// Whether a key of this kind can be for it.
    fn fits(self, kty: &str, curve: Option<&str>) -> bool {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => kty == "RSA",
            Self::Es256 => kty == "EC" && curve == Some("P-256"),
            Self::Es384 => kty == "EC" && curve == Some("P-384"),
            Self::EdDsa => kty == "OKP" && curve == Some("Ed25519"),
        }
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_name(text).ok_or_else(|| {
            "must be some of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA".to_owned()
        })
    }
}

/// Our secret at the provider. It is printed nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSecret(String);

impl ClientSecret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ClientSecret")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcSettings {
    /// The provider, by the name it calls itself.
    pub issuer: String,
    /// Who we are to it.
    pub client_id: String,
    /// Where it wants more than PKCE.
    pub client_secret: Option<ClientSecret>,
    /// For whom access tokens must be. Without it none is taken.
    pub audience: Option<String>,
    /// The algorithms of its signatures that are taken.
    pub algorithms: Vec<Algorithm>,
    /// What is asked for when people sign in.
    pub scopes: Vec<String>,
    /// Where it sends them back to, where that is not our address and [`CALLBACK_PATH`].
    pub redirect_uri: Option<String>,
    /// Who becomes a member.
    pub provision: Vec<ProvisionRule>,
}

/// Why a token opens nothing.
#[derive(Debug, thiserror::Error)]
pub enum BearerError {
    /// It is not to be believed.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// We cannot know: the issuer's keys are not to be had.
    #[error("The sign-in provider cannot be reached, so tokens cannot be checked")]
    ProviderUnavailable,
    /// Whose it is has no account, or several.
    #[error("{0}")]
    AccountAmbiguous(&'static str),
    /// Whose it is does not come in.
    #[error(transparent)]
    Provision(#[from] ProvisionError),
}

/// Somebody with a token.
#[derive(Clone, Debug)]
pub struct Bearer {
    pub user: User,
    pub workspace: Workspace,
    /// How long the token is good.
    pub until: Timestamp,
}

/// The provider, as this server uses it.
pub struct Oidc {
    ops: Ops,
    settings: OidcSettings,
    redirect_uri: String,
    issuer: Arc<Issuer>,
    login_states: LoginStates,
}

impl Oidc {
    /// Nothing is asked of the provider yet.
    pub async fn new(settings: OidcSettings, ops: Ops) -> Result<Self, OutboundError> {
        let issuer = Arc::new(Issuer::new(&settings.issuer, &settings.algorithms, ops.clock.clone())?);
        let redirect_uri = settings.redirect_uri.clone();
        let redirect_uri =
            redirect_uri.unwrap_or_else(|| format!("{}{CALLBACK_PATH}", ops.short_urls.base_url()));
        let login_states = LoginStates::new(ops.shared_key(InstallationKey::Oidc).await, &settings.issuer);
        Ok(Self { ops, settings, redirect_uri, issuer, login_states })
    }

    /// Where the provider sends people back to.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// How often the issuer's keys were asked for.
    pub fn key_fetches(&self) -> u64 {
        self.issuer.key_fetches()
    }

    /// Keeps what is known of the issuer young. Until the task is dropped.
    pub async fn run(&self) {
        self.issuer.run().await;
    }

    /// Who has this access token, in the workspace they name or the only one they have.
    pub async fn authenticate(&self, text: &str, named: Option<&str>) -> Result<Bearer, BearerError> {
        // Where nobody said for whom tokens must be, none is for us.
        let audience = self.settings.audience.as_deref().ok_or(TokenError::Claim("aud"))?;
        let token = Token::parse(text)?;
        let key = match self.issuer.key(token.kid()?).await {
            Ok(key) => key,
            Err(KeyError::Unknown) => return Err(TokenError::UnknownKey.into()),
            Err(KeyError::Unavailable) => return Err(BearerError::ProviderUnavailable),
        };
        let access = TokenUse::Access { audience, client_id: &self.settings.client_id };
        let claims = token.verify(&key, &self.settings.issuer, access, self.ops.clock.now())?;
        let until = token::expires_at(&claims).ok_or(TokenError::Claim("exp"))?;
        let identity =
            Identity::from_claims(&self.settings.issuer, claims).ok_or(TokenError::Claim("sub"))?;
        let (user, workspace) = self.account_for(&identity, named).await?;
        Ok(Bearer { user, workspace, until })
    }

    /// The account a token is about.
    async fn account_for(
        &self,
        identity: &Identity,
        named: Option<&str>,
    ) -> Result<(User, Workspace), BearerError> {
        const SEVERAL: &str = "This token's owner has several workspaces; name one in the header X-Workspace";
        let accounts = self.ops.store.accounts_of(&identity.subject).await.map_err(ProvisionError::Store)?;
        let is_named = |workspace: &Workspace| named.is_none_or(|slug| workspace.slug.as_str() == slug);
        let mut open: Vec<_> = accounts
            .into_iter()
            .filter(|(_, workspace)| provision::allows_oidc(workspace) && is_named(workspace))
            .collect();
        if open.len() > 1 {
            return Err(BearerError::AccountAmbiguous(SEVERAL));
        }
        if let Some((user, workspace)) = open.pop() {
            return match user.status {
                UserStatus::Active => Ok((user, workspace)),
                _ => Err(ProvisionError::AccountSuspended.into()),
            };
        }
        let rules = &self.settings.provision;
        let mut slugs: Vec<&str> = rules
            .iter()
            .filter(|rule| named.is_none_or(|slug| rule.workspace == slug) && rule.fits(identity))
            .map(|rule| rule.workspace.as_str())
            .collect();
        slugs.sort_unstable();
        slugs.dedup();
        match slugs.as_slice() {
            [] => Err(ProvisionError::NoMatchingRule.into()),
            [slug] => {
                let slug = Slug::parse(slug).map_err(|_| ProvisionError::WorkspaceUnavailable)?;
                let workspace = self.ops.store.workspace(&slug).await.map_err(ProvisionError::Store)?;
                let workspace = workspace.ok_or(ProvisionError::WorkspaceUnavailable)?;
                let user = self.find_or_create_account(&workspace, identity).await?;
                Ok((user, workspace))
            }
            _ => Err(BearerError::AccountAmbiguous(SEVERAL)),
        }
    }
}
