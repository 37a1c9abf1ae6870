//! Signing in with a browser: the authorization code flow with PKCE, state and nonce.
//!
//! What must be remembered while somebody is at the provider stands in a cookie of their browser, signed by us: a random state, which
//! workspace, which page. The nonce and PKCE's verifier are made from the state by a key nobody else has. So a callback is good only
//! in the browser that began, once, and for ten minutes.

use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::StatusCode;
use parking_lot::Mutex;
use ring::{digest, hmac};
use rlinks_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::form_urlencoded;

use super::provision::Identity;
use super::token::{Claims, Token, TokenError, TokenUse, text_claim};
use super::{Oidc, OidcSettings};
use crate::auth::oidc::metadata::ProviderMetadata;
use crate::auth::oidc::provider::KeyError;
use rlinks_ops::outbound::OutboundError;
use rlinks_ops::shared_keys::SharedKey;
use rlinks_store::SecretKey;

/// How long somebody may be away at the provider.
pub const LOGIN_TIMEOUT_SECONDS: i64 = 600;
/// Longer answers of the provider are not looked at.
const MAX_PARAMETER_BYTES: usize = 4096;
/// States that were used and whose time is not over. Beyond that the provider's word is left: it takes a code once.
const MAX_USED_STATES: usize = 4096;

/// Why nobody was signed in. The words are for whoever tried.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The browser did not begin here, or too long ago, or was here already.
    #[error(
        "This sign-in was not begun in this browser, has been used, or took longer than ten minutes; please begin again"
    )]
    InvalidState,
    /// Another provider than ours sent them.
    #[error("The answer came from another sign-in provider than the one that was asked; please begin again")]
    WrongIssuer,
    #[error("The sign-in provider refused: {0}")]
    Denied(String),
    /// The provider did not take our code.
    #[error("The sign-in provider did not confirm the sign-in; please begin again")]
    CodeRejected,
    /// What the provider gave is not to be believed.
    #[error("The sign-in provider gave a token that cannot be believed; the server's log says why")]
    Token(#[from] TokenError),
    /// The provider is away.
    #[error("The sign-in provider cannot be reached; please try again in a minute")]
    ProviderUnavailable(#[from] OutboundError),
}

/// What somebody wants who signs in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoginRequest {
    /// The workspace they want to go to, by its slug.
    pub workspace: String,
    /// The page of ours they want to see.
    pub next: String,
    /// The hash of the invitation they bring.
    pub invitation: Option<String>,
}

/// Somebody who leaves for the provider.
#[derive(Debug)]
pub struct AuthorizationRedirect {
    pub location: String,
    /// What their browser keeps meanwhile, for [`LOGIN_TIMEOUT_SECONDS`].
    pub cookie: String,
}

/// What the provider sends along when they come back.
#[derive(Clone, Default)]
pub struct Callback {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

impl Callback {
    /// From a query. What is said twice is not said at all: one of them is somebody else's.
    pub fn parse(query: &str) -> Self {
        let one = |name: &str| {
            let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(given, _)| given == name);
            let (Some((_, value)), None) = (values.next(), values.next()) else { return None };
            Some(value.into_owned())
        };
        Self { code: one("code"), state: one("state"), iss: one("iss"), error: one("error") }
    }
}

/// Somebody who came back.
#[derive(Debug)]
pub struct CompletedLogin {
    /// Who the provider says it is.
    pub identity: Identity,
    pub request: LoginRequest,
}

/// What the cookie says.
#[derive(Serialize, Deserialize)]
struct LoginState {
    state: String,
    until: i64,
    #[serde(flatten)]
    request: LoginRequest,
}

/// Signs trips, and knows which are over.
pub struct LoginStates {
    key: Arc<SharedKey>,
    issuer: String,
    used: Mutex<VecDeque<(String, i64)>>,
}

impl LoginStates {
    /// For one issuer. Servers that share the key know each other's logins.
    pub fn new(key: Arc<SharedKey>, issuer: &str) -> Self {
        Self { key, issuer: issuer.to_owned(), used: Mutex::default() }
    }

    /// The key of a login that begins now.
    fn current(&self) -> LoginKey {
        LoginKey::new(&self.key.current(), &self.issuer)
    }

    /// What a cookie says, and the key that signed it.
    fn open(&self, cookie: &str, now: Timestamp) -> Option<(LoginState, LoginKey)> {
        let (text, tag) = cookie.split_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        let mut keys = self.key.accepted().map(|key| LoginKey::new(&key, &self.issuer));
        let key = keys.find(|key| hmac::verify(&key.0, format!("trip:{text}").as_bytes(), &tag).is_ok())?;
        let login: LoginState = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        (now.ms() <= login.until).then_some((login, key))
    }

    /// Whether this is the first time a state comes back.
    fn consume(&self, login: &LoginState, now: Timestamp) -> bool {
        let mut used = self.used.lock();
        while used.front().is_some_and(|(_, until)| *until < now.ms()) || used.len() >= MAX_USED_STATES {
            used.pop_front();
        }
        if used.iter().any(|(state, _)| *state == login.state) {
            return false;
        }
        used.push_back((login.state.clone(), login.until));
        true
    }
}

/// What signs one login from beginning to end, whatever is rotated meanwhile.
struct LoginKey(hmac::Key);

impl LoginKey {
    fn new(key: &SecretKey, issuer: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        Self(hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, issuer.as_bytes()).as_ref()))
    }

    fn derive(&self, what: &str, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, format!("{what}:{text}").as_bytes()))
    }

    fn seal(&self, login: &LoginState) -> String {
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(login).expect("a login is JSON"));
        format!("{text}.{}", self.derive("trip", &text))
    }
}

impl Oidc {
    /// Sends somebody to the provider. `random` is 32 random bytes.
    pub async fn begin_login(
        &self,
        request: LoginRequest,
        random: [u8; 32],
    ) -> Result<AuthorizationRedirect, LoginError> {
        let metadata = self.issuer.metadata().await?;
        let state = URL_SAFE_NO_PAD.encode(random);
        let key = self.login_states.current();
        let verifier = key.derive("verifier", &state);
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
        let mut location = metadata.authorization_endpoint.clone();
        location
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", &state)
            .append_pair("nonce", &key.derive("nonce", &state))
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        let until = self.ops.clock.now().ms().saturating_add(LOGIN_TIMEOUT_SECONDS * 1000);
        let cookie = key.seal(&LoginState { state, until, request });
        Ok(AuthorizationRedirect { location: location.into(), cookie })
    }

    /// Completes a login. `cookie` is what [`Self::begin_login`] gave their browser.
    pub async fn finish_login(
        &self,
        callback: Callback,
        cookie: Option<&str>,
    ) -> Result<CompletedLogin, LoginError> {
        let now = self.ops.clock.now();
        let (login, key) =
            cookie.and_then(|cookie| self.login_states.open(cookie, now)).ok_or(LoginError::InvalidState)?;
        // First of all: whatever else is wrong, this state has come back.
        if callback.state.as_ref() != Some(&login.state) || !self.login_states.consume(&login, now) {
            return Err(LoginError::InvalidState);
        }
        let metadata = self.issuer.metadata().await?;
        match &callback.iss {
            Some(issuer) if *issuer != self.settings.issuer => return Err(LoginError::WrongIssuer),
            None if metadata.sends_issuer => return Err(LoginError::WrongIssuer),
            _ => {}
        }
        if let Some(error) = callback.error {
            return Err(LoginError::Denied(sanitize_error_code(&error)));
        }
        let code =
            callback.code.filter(|code| code.len() <= MAX_PARAMETER_BYTES).ok_or(LoginError::CodeRejected)?;
        let granted = self.exchange_code(&metadata, &code, &key.derive("verifier", &login.state)).await?;
        let nonce = key.derive("nonce", &login.state);
        let mut claims = self.verify_id_token(&granted.id_token, &nonce, now).await?;
        if text_claim(&claims, "email").is_none() || self.needs_userinfo(&login.request.workspace, &claims) {
            self.fetch_userinfo(&metadata, &granted, &mut claims).await?;
        }
        let identity =
            Identity::from_claims(&self.settings.issuer, claims).ok_or(TokenError::Claim("sub"))?;
        Ok(CompletedLogin { identity, request: login.request })
    }

    /// Turns a code into tokens.
    async fn exchange_code(
        &self,
        metadata: &ProviderMetadata,
        code: &str,
        verifier: &str,
    ) -> Result<TokenResponse, LoginError> {
        let (form, authorization) = self.token_request(metadata, code, verifier);
        let sent = self.issuer.client.post_form(&metadata.token_endpoint, form, authorization.as_deref());
        let response = sent.await?;
        let (status, body) = (response.status(), response.body().await?);
        if status == StatusCode::OK
            && let Ok(granted) = serde_json::from_slice(&body)
        {
            return Ok(granted);
        }
        let said: Option<Value> = serde_json::from_slice(&body).ok();
        let said = said
            .as_ref()
            .and_then(|said| said["error"].as_str())
            .map(sanitize_error_code)
            .unwrap_or_default();
        tracing::warn!(%status, error = said, "the OpenID provider did not take a code");
        Err(if status.is_server_error() {
            OutboundError::Status(status).into()
        } else {
            LoginError::CodeRejected
        })
    }

    /// The form that asks for tokens, and how we say who we are: by the secret, where we have one, and by PKCE always.
    fn token_request(
        &self,
        metadata: &ProviderMetadata,
        code: &str,
        verifier: &str,
    ) -> (String, Option<String>) {
        let OidcSettings { client_id, client_secret, .. } = &self.settings;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("code_verifier", verifier);
        let Some(secret) = client_secret else {
            return (form.append_pair("client_id", client_id).finish(), None);
        };
        if metadata.secret_in_form {
            form.append_pair("client_id", client_id).append_pair("client_secret", secret.reveal());
            return (form.finish(), None);
        }
        let escaped = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", escaped(client_id), escaped(secret.reveal()));
        (form.finish(), Some(format!("Basic {}", STANDARD.encode(pair))))
    }

    async fn verify_id_token(&self, token: &str, nonce: &str, now: Timestamp) -> Result<Claims, LoginError> {
        let verified = async {
            let token = Token::parse(token)?;
            let key = self.issuer.key(token.kid()?).await;
            let key = match key {
                Ok(key) => key,
                Err(KeyError::Unknown) => return Err(TokenError::UnknownKey.into()),
                Err(KeyError::Unavailable) => {
                    return Err(OutboundError::Unreachable("its keys are not known".to_owned()).into());
                }
            };
            let used = TokenUse::Id { client_id: &self.settings.client_id, nonce };
            Ok::<_, LoginError>(token.verify(&key, &self.settings.issuer, used, now)?)
        };
        verified.await.inspect_err(|error| {
            if let LoginError::Token(refusal) = error {
                tracing::warn!(%refusal, "an ID token was not believed");
            }
        })
    }

    /// Whether a rule asks for a claim the ID token does not have.
    fn needs_userinfo(&self, workspace: &str, claims: &Claims) -> bool {
        let rules = self.settings.provision.iter().filter(|rule| rule.workspace == workspace);
        rules.filter_map(|rule| rule.claim.as_ref()).any(|claim| !claims.contains_key(&claim.name))
    }

    /// What the ID token does not say, the provider says to whoever has the access token. About the same person, or not at all.
    async fn fetch_userinfo(
        &self,
        metadata: &ProviderMetadata,
        granted: &TokenResponse,
        claims: &mut Claims,
    ) -> Result<(), LoginError> {
        let Some(url) = &metadata.userinfo_endpoint else { return Ok(()) };
        let body = self.issuer.client.get_json(url, Some(&granted.access_token)).await?;
        // Some sign it; those say enough in the ID token. What does not say whom it is about says nothing.
        let Ok(said) = serde_json::from_slice::<Claims>(&body) else { return Ok(()) };
        match text_claim(&said, "sub") {
            None => return Ok(()),
            Some(subject) if Some(subject) != text_claim(claims, "sub") => {
                return Err(TokenError::Claim("sub").into());
            }
            Some(_) => {}
        }
        // That some address is verified says nothing about another one.
        let another = claims.contains_key("email") && claims.get("email") != said.get("email");
        for (name, value) in said.into_iter().filter(|(name, _)| !another || name != "email_verified") {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }
}

/// What a code becomes.
#[derive(Deserialize)]
struct TokenResponse {
    id_token: String,
    access_token: String,
}

/// A provider's error word, and nothing that is more than a word.
fn sanitize_error_code(error: &str) -> String {
    error.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').take(64).collect()
}
