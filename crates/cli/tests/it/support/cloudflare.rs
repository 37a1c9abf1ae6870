//! Cloudflare's API, of which `cloudflare.mjs` plays the part over the real key-value storage, and a sandbox that has the token to it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};

use crate::support::raw_client::send_request;
use crate::support::sandbox::Sandbox;

/// Must never be seen anywhere.
pub(crate) const TOKEN: &str = "canary-token-8d1f6c";
pub(crate) const ROUTES: &str = "11111111111111111111111111111111";
pub(crate) const HITS: &str = "22222222222222222222222222222222";

/// A stand-in of its own, and somebody who has the token to it.
pub(crate) struct CloudflareSandbox {
    pub(crate) sandbox: Sandbox,
    address: SocketAddr,
    child: Child,
    /// The stand-in ends with it.
    stdin: Option<ChildStdin>,
}

impl CloudflareSandbox {
    #[expect(
        clippy::disallowed_methods,
        reason = "what a test needs of the machine is told by the environment"
    )]
    pub(crate) fn new() -> Self {
        let folder =
            std::env::var("RLINKS_TEST_MINIFLARE").expect("run this through scripts/stage/35-outside");
        let mut child = Command::new("node")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/cloudflare.mjs"))
            .env("RLINKS_TEST_MINIFLARE", folder)
            .envs([("TOKEN", TOKEN), ("ACCOUNT", "acc"), ("ROUTES", ROUTES), ("HITS", HITS)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node can be started");
        let stdin = child.stdin.take();
        let mut base = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut base).unwrap();
        let base = base.trim();
        let address = base.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap();
        let sandbox =
            Sandbox::new().with("CLOUDFLARE_API_TOKEN", TOKEN).with("CLOUDFLARE_API_BASE_URL", base);
        let section = format!(
            "domain = \"rmax.to\"\n[env.edge]\ncloudflare = {{ account_id = \"acc\", routes = \"{ROUTES}\", hits = \"{HITS}\" }}\n"
        );
        sandbox.write("rmax.toml", &section);
        Self { address: address.parse().unwrap(), sandbox, child, stdin }
    }

    /// Runs a command at Cloudflare; it must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> crate::support::sandbox::CommandOutput {
        self.sandbox.ok(&format!("--env edge {line}"))
    }

    #[track_caller]
    pub(crate) fn fails(&self, code: i32, line: &str) -> crate::support::sandbox::CommandOutput {
        self.sandbox.fails(code, &format!("--env edge {line}"))
    }

    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        self.sandbox.json(&format!("--env edge {line}"))
    }

    // ---- past rmax ----

    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let path = format!("/client/v4/accounts/acc/storage/kv/namespaces/{path}");
        self.request(method, &path, body)
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: stand-in\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = send_request(self.address, request.as_bytes());
        (answer.status, answer.body)
    }

    pub(crate) fn put(&self, namespace: &str, key: &str, value: &str) {
        assert_eq!(self.call("PUT", &format!("{namespace}/values/{key}"), value).0, 200);
    }

    pub(crate) fn get(&self, namespace: &str, key: &str) -> Option<Value> {
        let (status, body) = self.call("GET", &format!("{namespace}/values/{key}"), "");
        (status == 200).then(|| serde_json::from_str(&body).unwrap())
    }

    pub(crate) fn keys(&self, namespace: &str, prefix: &str) -> Vec<String> {
        let (_, body) = self.call("GET", &format!("{namespace}/keys?prefix={prefix}&limit=1000"), "");
        let page: Value = serde_json::from_str(&body).unwrap();
        page["result"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Tells the stand-in how to behave, or asks what it was asked.
    pub(crate) fn control(&self, body: &Value) -> Vec<String> {
        let method = if body.is_null() { "GET" } else { "POST" };
        let text = if body.is_null() { String::new() } else { body.to_string() };
        serde_json::from_str(&self.request(method, "/control", &text).1).unwrap()
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.control(&Value::Null)
    }

    /// The next so many requests that match get this status.
    pub(crate) fn fault(&self, matching: &str, status: u16, times: u32, more: &Value) {
        let mut fault = json!({ "match": matching, "status": status, "times": times });
        fault.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.control(&json!({ "faults": [fault] }));
    }

    /// A hit as the Worker writes it.
    pub(crate) fn hit(&self, code: &str, ts: &str, id: &str) {
        let day: String = ts[..10].replace('-', "");
        let value = json!({
            "ts": ts, "code": code, "country": "NL", "ua_hash": "00000000000000ff",
            "referrer": "https://news.example/a", "ip_prefix": "203.0.113.0/24",
        });
        self.put(HITS, &format!("hit:{code}:{day}:{id}"), &value.to_string());
    }
}

impl Drop for CloudflareSandbox {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
