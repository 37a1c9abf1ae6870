//! Sessions: a token of 256 random bits in a cookie, its hash in the store, and everything else looked up on each request.
//!
//! Whoever signs in gets a new token, whatever their browser brought along; the old one ends. `Sessions` knows nothing of how they
//! showed who they are.

use std::fmt;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue};
use ring::hmac;
use rlinks_core::access::api_key;
use rlinks_core::hex;
use rlinks_core::time::DAY_MS;
use rlinks_core::{Timestamp, User, UserStatus, Workspace};
use rlinks_store::{AuthMethod, LimitStop, NewSession, Session, SessionWithUser, SignInReset, StoreError};
use subtle::ConstantTimeEq as _;

use crate::auth::connection_info::ConnectionInfo;
use crate::auth::cookies::{Cookie, Lifetime};
use crate::auth::known_browsers;
use rlinks_ops::{Caller, Ops};

/// A session nobody uses ends after this.
const IDLE_TIMEOUT_MS: i64 = 14 * DAY_MS;
/// And every session after this.
const MAX_SESSION_AGE_MS: i64 = 90 * DAY_MS;
/// So often it is noted that a session is used.
const TOUCH_INTERVAL_MS: i64 = 60_000;
/// How long a request waits for that.
const TOUCH_TIMEOUT: Duration = Duration::from_secs(1);
/// What is kept of a user agent.
const MAX_USER_AGENT_CHARS: usize = 256;

/// Who is signed in.
#[derive(Clone)]
pub struct Sessions {
    ops: Ops,
}

/// A session that has just begun. Its token is in here and in the cookie, and nowhere else.
pub struct StartedSession {
    token: String,
    /// What lets the browser be known when it comes again.
    known_browser: Option<String>,
}

/// Somebody who is signed in.
#[derive(Clone, Debug)]
pub struct CurrentSession {
    pub user: User,
    pub workspace: Workspace,
    pub session: Session,
    /// What a page has to tell them of limits on changes; read for pages alone.
    pub limit_stops: Vec<LimitStop>,
    /// What they have yet to be told.
    pub sign_in_reset: Option<SignInReset>,
    csrf: String,
}

impl Sessions {
    /// Those in this store.
    pub fn new(ops: Ops) -> Self {
        Self { ops }
    }

    /// Begins a session of a member who has shown who they are, ends the one their browser had, and notes the sign-in in the log. A
    /// member who cannot sign in any more, or not in this way, is not found.
    pub async fn start(
        &self,
        user: &User,
        how: AuthMethod,
        connection: &ConnectionInfo,
        headers: &HeaderMap,
    ) -> Result<StartedSession, StoreError> {
        let (started, new) = self.draft(how, connection, headers);
        self.ops.start_session(user, &new).await?;
        Ok(started)
    }

    /// A session that the store has yet to write, together with what it is begun for. It takes the place of the one the browser had.
    pub(super) fn draft(
        &self,
        how: AuthMethod,
        connection: &ConnectionInfo,
        headers: &HeaderMap,
    ) -> (StartedSession, NewSession) {
        let token = self.ops.random.draw(api_key::random_token);
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let new = NewSession {
            hash: api_key::hash_secret(&token),
            how,
            agent: agent.chars().take(MAX_USER_AGENT_CHARS).collect(),
            network: connection.network.clone(),
            expires_at: self.ops.clock.now().plus_ms(IDLE_TIMEOUT_MS),
            replaces: session_token(headers, connection).map(api_key::hash_secret),
        };
        (StartedSession { token, known_browser: None }, new)
    }

    /// Who a request says it is from, if that is somebody who is signed in and may be.
    pub async fn current(
        &self,
        headers: &HeaderMap,
        connection: &ConnectionInfo,
    ) -> Result<Option<CurrentSession>, StoreError> {
        let Some(token) = session_token(headers, connection).filter(|_| connection.allows_sign_in()) else {
            return Ok(None);
        };
        let Some(holder) = self.ops.store.session(&api_key::hash_secret(token)).await? else {
            return Ok(None);
        };
        let now = self.ops.clock.now();
        if !is_usable(&holder, now) {
            return Ok(None);
        }
        self.touch(&holder.session, now).await;
        let SessionWithUser { session, user, workspace, sign_in_reset } = holder;
        let limit_stops = Vec::new();
        Ok(Some(CurrentSession { user, workspace, session, sign_in_reset, limit_stops, csrf: csrf(token) }))
    }

    /// Whether somebody who stays for longer is still signed in; who they are now.
    pub async fn reload(&self, session: &Session) -> Result<Option<User>, StoreError> {
        let holder = self.ops.store.session(&session.hash).await?;
        Ok(holder.filter(|holder| is_usable(holder, self.ops.clock.now())).map(|holder| holder.user))
    }

    /// Notes that it is used, now and then. What cannot be noted is no reason to turn anybody away.
    async fn touch(&self, session: &Session, now: Timestamp) {
        if now.ms() - session.seen_at.ms() < TOUCH_INTERVAL_MS {
            return;
        }
        let ends = session.created_at.plus_ms(MAX_SESSION_AGE_MS);
        let write = self.ops.touch_session(&session.hash, now, now.plus_ms(IDLE_TIMEOUT_MS).min(ends));
        match tokio::time::timeout(TOUCH_TIMEOUT, write).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "that a session is used could not be noted"),
            Err(_) => tracing::debug!("that a session is used could not be noted in time"),
        }
    }

    pub async fn end(&self, current: &CurrentSession) -> Result<(), StoreError> {
        self.ops.sign_out(&current.caller()).await
    }

    /// Whether a browser brings a session, be it over or not.
    pub fn has_cookie(headers: &HeaderMap, connection: &ConnectionInfo) -> bool {
        session_token(headers, connection).is_some()
    }

    /// The cookie that takes a session's token away from a browser.
    pub fn clear_cookie(connection: &ConnectionInfo) -> HeaderValue {
        Cookie::Session.clear(connection)
    }
}

/// Whether a session still opens anything.
fn is_usable(holder: &SessionWithUser, now: Timestamp) -> bool {
    let SessionWithUser { session, user, workspace, .. } = holder;
    session.expires_at >= now
        && session.created_at.plus_ms(MAX_SESSION_AGE_MS) >= now
        && user.status == UserStatus::Active
        && workspace.deleted_at.is_none()
        && workspace.policy.sign_in.contains(&session.how.sign_in_method())
}

impl StartedSession {
    /// The same in a browser that is to be known from now on.
    pub(super) fn remembered_as(self, known_browser: String) -> Self {
        Self { known_browser: Some(known_browser), ..self }
    }

    /// The cookies that give a browser the token, and let it be known.
    pub fn cookies(&self, connection: &ConnectionInfo) -> Vec<HeaderValue> {
        let lifetime = Lifetime::Seconds(MAX_SESSION_AGE_MS / 1000);
        let session = Cookie::Session.set(connection, &self.token, lifetime).expect("a token is plain text");
        let known = self.known_browser.as_ref().and_then(|value| known_browsers::cookie(value, connection));
        std::iter::once(session).chain(known).collect()
    }

    /// What forms and programs of this session have to show.
    pub fn csrf(&self) -> String {
        csrf(&self.token)
    }
}

impl fmt::Debug for StartedSession {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Started(...)")
    }
}

impl CurrentSession {
    /// Whoever is signed in, as a caller of operations.
    pub fn caller(&self) -> Caller {
        Caller::from_session(self.user.clone(), self.workspace.clone(), self.session.clone())
    }

    /// What forms and programs of this session have to show.
    pub fn csrf(&self) -> &str {
        &self.csrf
    }

    /// Whether they have shown it, in the same time whatever the answer.
    pub fn csrf_matches(&self, token: &str) -> bool {
        self.csrf.as_bytes().ct_eq(token.as_bytes()).into()
    }
}

/// Made of the token, so that it is another for each session and needs no place; it says nothing of the token.
fn csrf(token: &str) -> String {
    hex::encode(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes()), b"csrf").as_ref())
}

fn session_token<'a>(headers: &'a HeaderMap, connection: &ConnectionInfo) -> Option<&'a str> {
    token_cookie(headers, connection, Cookie::Session)
}

/// The value of a cookie, if it can be a token of ours.
pub(crate) fn token_cookie<'a>(
    headers: &'a HeaderMap,
    connection: &ConnectionInfo,
    cookie: Cookie,
) -> Option<&'a str> {
    let value = cookie.single(headers, connection)?;
    (value.len() == api_key::TOKEN_CHARS && value.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        .then_some(value)
}
