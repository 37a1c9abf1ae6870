//! A stand-in for an issuer: its document, its keys, and whatever else it is told to answer; and tokens signed with its keys.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use rlinks_core::{Policy, Preset, Role};
use rlinks_server::auth::oidc::provision::{ClaimRule, ProvisionRule};
use rlinks_server::auth::oidc::{Algorithm, OidcSettings};
use serde_json::{Value, json};

use crate::support::database::TestStore;
use crate::support::members::TestServer;
use crate::support::server::NOW;

pub(crate) const CLIENT: &str = "rlinks-web";
pub(crate) const AUDIENCE: &str = "rlinks-api";

/// How the issuer answers when asked for its keys.
#[derive(Clone, Debug)]
pub(crate) enum IssuerBehavior {
    Json(String),
    /// With a status, headers and this body.
    Raw(&'static str, &'static str, Vec<u8>),
    /// Not at all: it hangs up.
    Disconnects,
}

/// An issuer on a port of its own.
pub(crate) struct StubIssuer {
    pub(crate) issuer: String,
    behavior: Arc<Mutex<IssuerBehavior>>,
    asked: Arc<AtomicU64>,
    grant: Arc<Mutex<Grant>>,
}

/// What whoever brings a code gets.
#[derive(Default)]
pub(crate) struct Grant {
    pub(crate) id_token: String,
    pub(crate) userinfo: Value,
    /// How often it was asked who somebody is.
    pub(crate) userinfo_asked: u64,
}

impl StubIssuer {
    /// One with these keys.
    pub(crate) fn with(keys: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let behavior = Arc::new(Mutex::new(IssuerBehavior::Json(document(keys))));
        let asked = Arc::new(AtomicU64::new(0));
        let stub = Self { issuer, behavior, asked, grant: Arc::default() };
        let (issuer, behavior, asked) =
            (stub.issuer.clone(), Arc::clone(&stub.behavior), Arc::clone(&stub.asked));
        let grant = Arc::clone(&stub.grant);
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let behavior = Arc::clone(&behavior);
                let _ = answer(socket, &issuer, &behavior, &asked, &grant);
            }
        });
        stub
    }

    pub(crate) fn has_keys(&self, keys: &[Value]) {
        self.set_behavior(IssuerBehavior::Json(document(keys)));
    }

    pub(crate) fn set_behavior(&self, behavior: IssuerBehavior) {
        *self.behavior.lock() = behavior;
    }

    /// Gives these to whoever brings a code.
    pub(crate) fn grants(&self, id_token: String, userinfo: Value) {
        *self.grant.lock() = Grant { id_token, userinfo, userinfo_asked: 0 };
    }

    /// How often it was asked who somebody is, since it last granted anything.
    pub(crate) fn userinfo_asked(&self) -> u64 {
        self.grant.lock().userinfo_asked
    }

    /// How often its keys were asked for.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Claims of a good access token.
    pub(crate) fn claims(&self, subject: &str) -> Value {
        let now = NOW.ms() / 1000;
        json!({
            "iss": self.issuer, "sub": subject, "aud": AUDIENCE, "exp": now + 3600, "iat": now, "nbf": now,
            "email": format!("{subject}@example.com"), "email_verified": true, "name": "Ann Example",
        })
    }
}

fn document(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

fn answer(
    mut socket: TcpStream,
    issuer: &str,
    behavior: &Mutex<IssuerBehavior>,
    asked: &AtomicU64,
    grant: &Mutex<Grant>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(socket.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let (mut line, mut length) = (first.clone(), 0);
    while !line.trim().is_empty() {
        line.clear();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    let behavior = if first.contains(" /keys ") {
        asked.fetch_add(1, Ordering::SeqCst);
        behavior.lock().clone()
    } else if first.contains(" /token ") {
        let id_token = &grant.lock().id_token;
        IssuerBehavior::Json(
            json!({"access_token": "at", "token_type": "Bearer", "id_token": id_token}).to_string(),
        )
    } else if first.contains(" /userinfo ") {
        let mut grant = grant.lock();
        grant.userinfo_asked += 1;
        IssuerBehavior::Json(grant.userinfo.to_string())
    } else {
        IssuerBehavior::Json(
            json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "userinfo_endpoint": format!("{issuer}/userinfo"),
                "jwks_uri": format!("{issuer}/keys"),
                "code_challenge_methods_supported": ["S256"],
            })
            .to_string(),
        )
    };
    let (status, headers, body) = match behavior {
        IssuerBehavior::Disconnects => return Ok(()),
        IssuerBehavior::Json(text) => ("200 OK", "Content-Type: application/json\r\n", text.into_bytes()),
        IssuerBehavior::Raw(status, headers, body) => (status, headers, body),
    };
    let head =
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    socket.write_all(head.as_bytes())?;
    socket.write_all(&body)
}

/// A key pair that signs tokens.
pub(crate) enum SigningKeyPair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

/// A key of an issuer, with its name.
pub(crate) struct SigningKey {
    pub(crate) kid: String,
    pub(crate) pair: SigningKeyPair,
}

impl SigningKey {
    /// The one RSA key there is for tests: ring makes none.
    pub(crate) fn rsa(kid: &str) -> Self {
        let text: String = include_str!("rsa-for-tests.txt").split_whitespace().collect();
        let pair = RsaKeyPair::from_der(&STANDARD.decode(text).unwrap()).unwrap();
        Self { kid: kid.to_owned(), pair: SigningKeyPair::Rsa(pair) }
    }

    /// A fresh key on P-256.
    pub(crate) fn ec(kid: &str) -> Self {
        let random = SystemRandom::new();
        let bytes = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes.as_ref(), &random).unwrap();
        Self { kid: kid.to_owned(), pair: SigningKeyPair::Ec(pair) }
    }

    pub(crate) fn alg(&self) -> &'static str {
        match self.pair {
            SigningKeyPair::Rsa(_) => "RS256",
            SigningKeyPair::Ec(_) => "ES256",
        }
    }

    /// As the issuer publishes it.
    pub(crate) fn public(&self) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match &self.pair {
            SigningKeyPair::Rsa(pair) => {
                let public: RsaPublicKeyComponents<Vec<u8>> = pair.public().into();
                let (n, e) = (encode(&public.n), encode(&public.e));
                json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.kid, "n": n, "e": e})
            }
            SigningKeyPair::Ec(pair) => {
                let point = pair.public_key().as_ref();
                json!({
                    "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.kid,
                    "x": encode(&point[1..33]), "y": encode(&point[33..]),
                })
            }
        }
    }

    /// An access token with these claims.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.alg(), "kid": self.kid, "typ": "at+jwt"}), claims)
    }

    /// The same with a header of its own.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let signed = unsigned(header, &claims.to_string());
        let random = SystemRandom::new();
        let signature = match &self.pair {
            SigningKeyPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
                signature
            }
            SigningKeyPair::Ec(pair) => pair.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// The first two parts of a token.
pub(crate) fn unsigned(header: &Value, claims: &str) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims))
}

pub(crate) fn settings(issuer: &str, provision: Vec<ProvisionRule>) -> OidcSettings {
    OidcSettings {
        issuer: issuer.to_owned(),
        client_id: CLIENT.to_owned(),
        client_secret: None,
        audience: Some(AUDIENCE.to_owned()),
        algorithms: Algorithm::DEFAULTS.to_vec(),
        scopes: ["openid", "email", "profile"].map(str::to_owned).to_vec(),
        redirect_uri: None,
        provision,
    }
}

/// Everybody becomes a member of `main`.
pub(crate) fn everybody(role: Role) -> Vec<ProvisionRule> {
    vec![rule("main", role, None, None)]
}

pub(crate) fn rule(
    workspace: &str,
    role: Role,
    domain: Option<&str>,
    claim: Option<(&str, &str)>,
) -> ProvisionRule {
    ProvisionRule {
        workspace: workspace.to_owned(),
        role,
        email_domain: domain.map(str::to_owned),
        claim: claim.map(|(name, value)| ClaimRule { name: name.to_owned(), value: value.to_owned() }),
    }
}

/// A server that trusts a stub.
pub(crate) fn oidc_server(stub: &StubIssuer, rules: Vec<ProvisionRule>) -> TestServer {
    oidc_server_at(TestStore::sqlite(), Policy::preset(Preset::Platform), stub, rules)
}

pub(crate) fn oidc_server_at(
    test_store: TestStore,
    policy: Policy,
    stub: &StubIssuer,
    rules: Vec<ProvisionRule>,
) -> TestServer {
    let settings = settings(&stub.issuer, rules);
    TestServer::at(test_store, policy, |config| config.oidc = Some(settings))
}
