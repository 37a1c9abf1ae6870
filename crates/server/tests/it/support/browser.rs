//! What a person has: a browser that keeps cookies, fills in forms, says where a form came from, and looks at what every page owes.

use std::fmt::Write as _;
use std::net::SocketAddr;

use crate::support::raw_client::{Response, send_request};

/// A browser at one server.
#[derive(Clone, Debug)]
pub(crate) struct Browser {
    pub(crate) address: SocketAddr,
    pub(crate) host: String,
    pub(crate) cookies: Vec<(String, String)>,
    /// Header lines it sends with everything.
    pub(crate) lines: Vec<(String, String)>,
}

impl Browser {
    /// On the machine itself.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let host = format!("localhost:{}", address.port());
        Self { address, host, cookies: Vec::new(), lines: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.lines.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same browser at another node.
    pub(crate) fn at(&self, address: SocketAddr) -> Self {
        Self { address, host: format!("localhost:{}", address.port()), ..self.clone() }
    }

    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The token of the session it has.
    #[track_caller]
    pub(crate) fn session(&self) -> String {
        self.cookie("rlinks").expect("it is signed in").to_owned()
    }

    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.send("GET", path, None)
    }

    /// Opens an address and goes on to where it leads.
    #[track_caller]
    pub(crate) fn open(&mut self, path: &str) -> Response {
        let answer = self.get(path);
        match answer.location().map(str::to_owned) {
            Some(location) if answer.status == 303 => self.get(&location),
            _ => answer,
        }
    }

    /// A form as the browser sends it from a page of ours.
    #[track_caller]
    pub(crate) fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Response {
        let origin = format!("http://{}", self.host);
        self.clone_with(&[("Origin", &origin)]).send_into(self, "POST", path, Some(&form(fields)))
    }

    /// A form with other words about where it comes from.
    #[track_caller]
    pub(crate) fn post_with(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        lines: &[(&str, &str)],
    ) -> Response {
        self.clone_with(lines).send_into(self, "POST", path, Some(&form(fields)))
    }

    fn clone_with(&self, lines: &[(&str, &str)]) -> Self {
        lines.iter().fold(self.clone(), |browser, (name, value)| browser.with(name, value))
    }

    /// Sends with these lines, and keeps the cookies in `keeper`.
    #[track_caller]
    fn send_into(mut self, keeper: &mut Self, method: &str, path: &str, body: Option<&str>) -> Response {
        let answer = self.send(method, path, body);
        keeper.cookies = self.cookies;
        answer
    }

    #[track_caller]
    pub(crate) fn send(&mut self, method: &str, path: &str, body: Option<&str>) -> Response {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.host);
        for (name, value) in &self.lines {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if !self.cookies.is_empty() {
            let cookies: Vec<_> =
                self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let _ = write!(head, "Cookie: {}\r\n", cookies.join("; "));
        }
        if let Some(body) = body {
            let named = self.lines.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            if !named {
                head.push_str("Content-Type: application/x-www-form-urlencoded\r\n");
            }
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        let answer = send_request(self.address, format!("{head}\r\n{}", body.unwrap_or_default()).as_bytes());
        self.keep(&answer);
        if path.starts_with("/admin") {
            check_headers(&answer);
        }
        answer
    }

    fn keep(&mut self, answer: &Response) {
        for line in answer.header("set-cookie") {
            let (pair, attributes) = line.split_once(';').unwrap_or((line, ""));
            let (name, value) = pair.split_once('=').unwrap();
            self.cookies.retain(|(known, _)| known != name);
            if !attributes.contains("Max-Age=0") {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    /// The token in the form of a page.
    #[track_caller]
    pub(crate) fn token(&mut self, path: &str) -> String {
        let page = self.get(path);
        assert_eq!(page.status, 200, "{page:?}");
        hidden(&page, "csrf")
    }

    /// A call of the API with the session it has.
    #[track_caller]
    pub(crate) fn api(&mut self, method: &str, path: &str, body: Option<&str>) -> Response {
        let csrf = self.token("/admin/account");
        let with = self.clone().with("X-CSRF-Token", &csrf).with("Content-Type", "application/json");
        with.clone().send(method, &format!("/api/v1{path}"), body)
    }

    /// Signs in to `main` by the form.
    #[track_caller]
    pub(crate) fn sign_in(&mut self, email: &str, password: &str) -> Response {
        self.sign_in_to("main", email, password)
    }

    #[track_caller]
    pub(crate) fn sign_in_to(&mut self, workspace: &str, email: &str, password: &str) -> Response {
        let csrf = self.token("/admin/login");
        self.post(
            "/admin/login",
            &[("csrf", &csrf), ("workspace", workspace), ("email", email), ("password", password)],
        )
    }

    /// Whether the dashboard knows who this is.
    #[track_caller]
    pub(crate) fn is_signed_in(&mut self) -> bool {
        let home = self.get("/admin");
        match home.status {
            200 => true,
            303 => {
                assert_eq!(home.location(), Some("/admin/login"), "{home:?}");
                false
            }
            _ => panic!("{home:?}"),
        }
    }
}

/// A browser in which somebody has signed in.
#[track_caller]
pub(crate) fn signed_in(address: SocketAddr, email: &str) -> Browser {
    let mut browser = Browser::new(address);
    let answer = browser.sign_in(email, crate::support::members::PASSWORD);
    assert_eq!((answer.status, answer.location()), (303, Some("/admin")), "{answer:?}");
    browser
}

/// Fields as a form sends them.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| {
        text.bytes().fold(String::new(), |mut out, byte| {
            if byte.is_ascii_alphanumeric() {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
            out
        })
    };
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// A hidden field of a page.
#[track_caller]
pub(crate) fn hidden(page: &Response, name: &str) -> String {
    let marker = format!("name=\"{name}\" value=\"");
    let (_, after) = page.body.split_once(&marker).unwrap_or_else(|| panic!("no {name} in {page:?}"));
    after.split('"').next().unwrap().to_owned()
}

/// What every answer below `/admin` says.
#[track_caller]
fn check_headers(answer: &Response) {
    let policy = answer.header("content-security-policy");
    assert_eq!(policy.len(), 1, "{answer:?}");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy[0].contains(part), "{part}: {answer:?}");
    }
    assert!(!policy[0].contains("unsafe"), "{answer:?}");
    for (name, value) in [
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-robots-tag", "noindex"),
    ] {
        assert_eq!(answer.header(name), [value], "{name}: {answer:?}");
    }
    assert_eq!(answer.header("x-request-id").len(), 1, "{answer:?}");
    let is = |name: &str| answer.header("content-type").iter().any(|kind| kind.starts_with(name));
    if !is("text/css") && !is("text/javascript") {
        assert_eq!(answer.header("cache-control"), ["no-store"], "{answer:?}");
        // One script, and it is ours.
        let ours = answer.body.matches("<script src=\"/admin/app.js?v=").count();
        assert_eq!(answer.body.matches("<script").count(), ours, "{answer:?}");
        assert!(!answer.body.contains(" style="), "{answer:?}");
    }
    for cookie in answer.header("set-cookie") {
        assert!(
            cookie.contains("HttpOnly") && cookie.contains("Path=/") && cookie.contains("SameSite="),
            "{cookie}"
        );
    }
}
