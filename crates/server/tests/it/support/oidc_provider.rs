//! A real OpenID provider, one for each test, and a browser that goes there and back.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use serde_json::Value;
use url::{Url, form_urlencoded};

use crate::support::raw_client::{Response, send_request};

/// Where the provider sends people back to. Nobody listens on that port: the browser knows what is meant.
pub(crate) const REDIRECT: &str = "http://localhost/admin/oidc/callback";
/// PKCE of the program that gets access tokens.
const VERIFIER: &str = "a-verifier-that-is-at-least-forty-three-characters-long";

/// A provider. Dropping it ends it.
pub(crate) struct Provider {
    pub(crate) issuer: String,
    address: SocketAddr,
    child: Child,
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Provider {
    #[expect(clippy::disallowed_methods, reason = "where it is installed, the script says that installed it")]
    pub(crate) fn start() -> Self {
        let home = std::env::var_os("RLINKS_TEST_OIDC").expect("run this through scripts/with-oidc");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/oidc_provider.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .env("RLINKS_TEST_OIDC", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let issuer =
            line.trim().strip_prefix("listening at ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        let address = issuer.strip_prefix("http://").unwrap().parse().unwrap();
        Self { issuer, address, child }
    }

    /// Says who somebody is: `sub`, and claims that differ from the usual.
    pub(crate) fn account(&self, claims: &Value) {
        assert_eq!(self.post("/test/account", "application/json", &claims.to_string()).status, 200);
    }

    /// New keys; the old ones are still published.
    pub(crate) fn rotate(&self) {
        assert_eq!(self.post("/test/rotate", "application/json", "").status, 200);
    }

    fn post(&self, path: &str, kind: &str, body: &str) -> Response {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        send_request(self.address, format!("{head}{body}").as_bytes())
    }

    /// The tokens a program gets for somebody: their access token for a resource, and their ID token.
    pub(crate) fn tokens(&self, login: &str, resource: &str) -> Value {
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, VERIFIER.as_bytes()));
        let mut location = Url::parse(&format!("{}/auth", self.issuer)).unwrap();
        location.query_pairs_mut().extend_pairs([
            ("client_id", "rlinks-cli"),
            ("response_type", "code"),
            ("redirect_uri", REDIRECT),
            ("scope", "openid email links"),
            ("resource", resource),
            ("nonce", "n"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let back = ProviderBrowser::default().visit(self, location.as_str(), login);
        let code = parameter(&back, "code").unwrap_or_else(|| panic!("{back}"));
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([
                ("grant_type", "authorization_code"),
                ("client_id", "rlinks-cli"),
                ("redirect_uri", REDIRECT),
                ("code", &code),
                ("code_verifier", VERIFIER),
                ("resource", resource),
            ])
            .finish();
        let answer = self.post("/token", "application/x-www-form-urlencoded", &form);
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    }
}

/// A browser as far as the provider is concerned: cookies, redirects, and the two forms.
#[derive(Default)]
pub(crate) struct ProviderBrowser {
    cookies: BTreeMap<String, String>,
}

impl ProviderBrowser {
    /// Goes to the provider, signs in as somebody, agrees, and gives the address they are sent back to.
    pub(crate) fn visit(&mut self, provider: &Provider, location: &str, login: &str) -> String {
        let mut location = location.to_owned();
        let mut form = None;
        // There and back takes two forms and the redirects between them.
        for _ in 0..12 {
            if location.starts_with(REDIRECT) {
                return location;
            }
            let path = location.strip_prefix(&provider.issuer).unwrap_or(&location).to_owned();
            let answer = self.send(provider, &path, form.take());
            if let Some(next) = answer.location() {
                next.clone_into(&mut location);
                continue;
            }
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            let is_login = answer.body.contains("name=\"login\"");
            form = Some(if is_login {
                format!("prompt=login&login={login}&password=x")
            } else {
                "prompt=consent".to_owned()
            });
            let action = answer.body.split("action=\"").nth(1).and_then(|rest| rest.split('"').next());
            action.unwrap_or_else(|| panic!("no form at {path}: {answer:?}")).clone_into(&mut location);
        }
        panic!("the provider never sent the browser back: {location}");
    }

    fn send(&mut self, provider: &Provider, path: &str, form: Option<String>) -> Response {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (method, body) = form.map_or(("GET", String::new()), |form| ("POST", form));
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/html\r\nCookie: {}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            provider.address,
            cookies.join("; "),
            body.len()
        );
        let answer = send_request(provider.address, request.as_bytes());
        for cookie in answer.header("set-cookie") {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            if value.is_empty() {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }
}

/// A parameter of an address.
pub(crate) fn parameter(location: &str, name: &str) -> Option<String> {
    let url = Url::parse(location).unwrap();
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
