//! Signing in with a browser: the authorization code flow with PKCE, state and nonce.
//!
//! What must be remembered while somebody is at the provider stands in a cookie of their browser, signed by us: a random state, which
//! workspace, which page. The nonce and PKCE's verifier are made from the state by a key nobody else has. So a callback is good only
//! in the browser that began, once, and for ten minutes.

use std::collections::VecDeque;

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
use super::token::{Claims, Refusal, Token, Use, text};
use super::{Oidc, Settings};
use crate::auth::oidc::metadata::Discovery;
use crate::auth::oidc::provider::NoKey;
use rlinks_ops::outbound::FetchError;

/// How long somebody may be away at the provider.
pub const GOOD_SECONDS: i64 = 600;
/// Longer answers of the provider are not looked at.
const LONGEST_PARAMETER: usize = 4096;
/// States that were used and whose time is not over. Beyond that the provider's word is left: it takes a code once.
const MOST_USED: usize = 4096;

/// Why nobody was signed in. The words are for whoever tried.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The browser did not begin here, or too long ago, or was here already.
    #[error(
        "This sign-in was not begun in this browser, has been used, or took longer than ten minutes; please begin again"
    )]
    State,
    /// Another provider than ours sent them.
    #[error("The answer came from another sign-in provider than the one that was asked; please begin again")]
    Issuer,
    /// The provider refused.
    #[error("The sign-in provider refused: {0}")]
    Denied(String),
    /// The provider did not take our code.
    #[error("The sign-in provider did not confirm the sign-in; please begin again")]
    Code,
    /// What the provider gave is not to be believed.
    #[error("The sign-in provider gave a token that cannot be believed; the server's log says why")]
    Token(#[from] Refusal),
    /// The provider is away.
    #[error("The sign-in provider cannot be reached; please try again in a minute")]
    Away(#[from] FetchError),
}

/// What somebody wants who signs in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wish {
    /// The workspace they want to go to, by its slug.
    pub workspace: String,
    /// The page of ours they want to see.
    pub next: String,
    /// The hash of the invitation they bring.
    pub invitation: Option<String>,
}

/// Somebody who leaves for the provider.
#[derive(Debug)]
pub struct Departure {
    /// Where to.
    pub location: String,
    /// What their browser keeps meanwhile, for [`GOOD_SECONDS`].
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
pub struct Arrival {
    /// Who the provider says it is.
    pub identity: Identity,
    /// What they want.
    pub wish: Wish,
}

/// What the cookie says.
#[derive(Serialize, Deserialize)]
struct Trip {
    state: String,
    until: i64,
    #[serde(flatten)]
    wish: Wish,
}

/// Signs trips, and knows which are over.
pub struct Desk {
    key: hmac::Key,
    used: Mutex<VecDeque<(String, i64)>>,
}

impl Desk {
    /// A desk of this key, for one issuer. Servers that share the key know each other's trips.
    pub fn new(key: &[u8; 32], issuer: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        let own = hmac::sign(&key, issuer.as_bytes());
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()), used: Mutex::default() }
    }

    fn derive(&self, what: &str, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, format!("{what}:{text}").as_bytes()))
    }

    fn seal(&self, trip: &Trip) -> String {
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(trip).expect("a trip is JSON"));
        format!("{text}.{}", self.derive("trip", &text))
    }

    fn open(&self, cookie: &str, now: Timestamp) -> Option<Trip> {
        let (text, tag) = cookie.split_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        hmac::verify(&self.key, format!("trip:{text}").as_bytes(), &tag).ok()?;
        let trip: Trip = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        (now.ms() <= trip.until).then_some(trip)
    }

    /// Whether this is the first time a state comes back.
    fn take(&self, trip: &Trip, now: Timestamp) -> bool {
        let mut used = self.used.lock();
        while used.front().is_some_and(|(_, until)| *until < now.ms()) || used.len() >= MOST_USED {
            used.pop_front();
        }
        if used.iter().any(|(state, _)| *state == trip.state) {
            return false;
        }
        used.push_back((trip.state.clone(), trip.until));
        true
    }
}

impl Oidc {
    /// Sends somebody to the provider. `random` is 32 random bytes.
    pub async fn begin(&self, wish: Wish, random: [u8; 32]) -> Result<Departure, FlowError> {
        let doors = self.issuer.doors().await?;
        let state = URL_SAFE_NO_PAD.encode(random);
        let verifier = self.desk.derive("verifier", &state);
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
        let mut location = doors.authorization_endpoint.clone();
        location
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", &state)
            .append_pair("nonce", &self.desk.derive("nonce", &state))
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        let until = self.clock.now().ms().saturating_add(GOOD_SECONDS * 1000);
        let cookie = self.desk.seal(&Trip { state, until, wish });
        Ok(Departure { location: location.into(), cookie })
    }

    /// Takes somebody back. `cookie` is what [`Self::begin`] gave their browser.
    pub async fn finish(&self, callback: Callback, cookie: Option<&str>) -> Result<Arrival, FlowError> {
        let now = self.clock.now();
        let trip = cookie.and_then(|cookie| self.desk.open(cookie, now)).ok_or(FlowError::State)?;
        // First of all: whatever else is wrong, this state has come back.
        if callback.state.as_ref() != Some(&trip.state) || !self.desk.take(&trip, now) {
            return Err(FlowError::State);
        }
        let doors = self.issuer.doors().await?;
        match &callback.iss {
            Some(issuer) if *issuer != self.settings.issuer => return Err(FlowError::Issuer),
            None if doors.names_itself => return Err(FlowError::Issuer),
            _ => {}
        }
        if let Some(error) = callback.error {
            return Err(FlowError::Denied(plain(&error)));
        }
        let code = callback.code.filter(|code| code.len() <= LONGEST_PARAMETER).ok_or(FlowError::Code)?;
        let granted = self.exchange(&doors, &code, &self.desk.derive("verifier", &trip.state)).await?;
        let nonce = self.desk.derive("nonce", &trip.state);
        let mut claims = self.believe_id(&granted.id_token, &nonce, now).await?;
        if text(&claims, "email").is_none() || self.wants_more(&trip.wish.workspace, &claims) {
            self.ask_more(&doors, &granted, &mut claims).await?;
        }
        let identity = Identity::of(&self.settings.issuer, claims).ok_or(Refusal::Claim("sub"))?;
        Ok(Arrival { identity, wish: trip.wish })
    }

    /// Turns a code into tokens.
    async fn exchange(&self, doors: &Discovery, code: &str, verifier: &str) -> Result<Granted, FlowError> {
        let (form, authorization) = self.request(doors, code, verifier);
        let sent = self.issuer.fetch.post(&doors.token_endpoint, form, authorization.as_deref());
        let (status, body) = sent.await?;
        if status == StatusCode::OK
            && let Ok(granted) = serde_json::from_slice(&body)
        {
            return Ok(granted);
        }
        let said: Option<Value> = serde_json::from_slice(&body).ok();
        let said = said.as_ref().and_then(|said| said["error"].as_str()).map(plain).unwrap_or_default();
        tracing::warn!(%status, error = said, "the OpenID provider did not take a code");
        Err(if status.is_server_error() { FetchError::Status(status).into() } else { FlowError::Code })
    }

    /// The form that asks for tokens, and how we say who we are: by the secret, where we have one, and by PKCE always.
    fn request(&self, doors: &Discovery, code: &str, verifier: &str) -> (String, Option<String>) {
        let Settings { client_id, client_secret, .. } = &self.settings;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("code_verifier", verifier);
        let Some(secret) = client_secret else {
            return (form.append_pair("client_id", client_id).finish(), None);
        };
        if doors.secret_in_form {
            form.append_pair("client_id", client_id).append_pair("client_secret", secret.reveal());
            return (form.finish(), None);
        }
        let escaped = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", escaped(client_id), escaped(secret.reveal()));
        (form.finish(), Some(format!("Basic {}", STANDARD.encode(pair))))
    }

    async fn believe_id(&self, token: &str, nonce: &str, now: Timestamp) -> Result<Claims, FlowError> {
        let believed = async {
            let token = Token::parse(token)?;
            let key = self.issuer.key(token.kid()?).await;
            let key = match key {
                Ok(key) => key,
                Err(NoKey::Unknown) => return Err(Refusal::UnknownKey.into()),
                Err(NoKey::Away) => {
                    return Err(FetchError::Unreachable("its keys are not known".to_owned()).into());
                }
            };
            let used = Use::Id { client_id: &self.settings.client_id, nonce };
            Ok::<_, FlowError>(token.verify(&key, &self.settings.issuer, used, now)?)
        };
        believed.await.inspect_err(|error| {
            if let FlowError::Token(refusal) = error {
                tracing::warn!(%refusal, "an ID token was not believed");
            }
        })
    }

    /// Whether a rule asks for a claim the ID token does not have.
    fn wants_more(&self, workspace: &str, claims: &Claims) -> bool {
        let rules = self.settings.provision.iter().filter(|rule| rule.workspace == workspace);
        rules.filter_map(|rule| rule.claim.as_ref()).any(|claim| !claims.contains_key(&claim.name))
    }

    /// What the ID token does not say, the provider says to whoever has the access token. About the same person, or not at all.
    async fn ask_more(
        &self,
        doors: &Discovery,
        granted: &Granted,
        claims: &mut Claims,
    ) -> Result<(), FlowError> {
        let Some(url) = &doors.userinfo_endpoint else { return Ok(()) };
        let body = self.issuer.fetch.get(url, Some(&granted.access_token)).await?;
        // Some sign it; those say enough in the ID token. What does not say whom it is about says nothing.
        let Ok(said) = serde_json::from_slice::<Claims>(&body) else { return Ok(()) };
        match text(&said, "sub") {
            None => return Ok(()),
            Some(subject) if Some(subject) != text(claims, "sub") => return Err(Refusal::Claim("sub").into()),
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
struct Granted {
    id_token: String,
    access_token: String,
}

/// A provider's error word, and nothing that is more than a word.
fn plain(error: &str) -> String {
    error.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').take(64).collect()
}
