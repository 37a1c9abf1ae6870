//! When the registration of a name ends, asked by RDAP: of a service that knows which registry to ask, and of that registry.

use std::collections::HashMap;
use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT, HeaderValue};
use parking_lot::Mutex;
use rlinks_core::{Host, Timestamp};
use serde::Deserialize;
use url::Url;

use crate::outbound::{AddressRule, OutboundClient, OutboundError, OutboundRules};

/// Leads every question to the registry that knows.
pub const RDAP_SERVICE_URL: &str = "https://rdap.org/";
/// One question, redirects included, takes no longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The service answers by leading to the registry.
const RULES: OutboundRules = OutboundRules {
    connect_timeout: REQUEST_TIMEOUT,
    timeout: REQUEST_TIMEOUT,
    max_response_bytes: 256 * 1024,
    max_redirects: 5,
    addresses: AddressRule::OperatorConfigured,
};
/// Names asked for until one is registered: the host, what it is below, and so on.
const MAX_NAMES_PER_HOST: usize = 5;

pub(crate) struct RdapClient {
    client: OutboundClient,
    service: Url,
}

/// What was learned in one round: hosts below one name ask once.
pub(crate) type RegistrationCache = Mutex<HashMap<String, Registration>>;

/// What a registry says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    /// It is nobody's: perhaps what it is below is somebody's.
    NotRegistered,
    /// It is somebody's, until then where that is said.
    Registered(Option<Timestamp>),
}

#[derive(Deserialize)]
struct RdapResponse {
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "eventAction", default)]
    action: String,
    #[serde(rename = "eventDate", default)]
    date: String,
}

impl RdapClient {
    pub(crate) fn new(service: &Url) -> Result<Self, String> {
        let client =
            OutboundClient::new(service, RULES).map_err(|error| format!("no client can be made: {error}"))?;
        Ok(Self { client, service: service.clone() })
    }

    /// When the registration that a host belongs to ends; nothing where no registry says so.
    pub(crate) async fn expiry(
        &self,
        host: &Host,
        known: &RegistrationCache,
    ) -> Result<Option<Timestamp>, String> {
        for name in names(host.as_str()) {
            let remembered = known.lock().get(name).copied();
            let registered = match remembered {
                Some(registered) => registered,
                None => self.query(name).await?,
            };
            known.lock().insert(name.to_owned(), registered);
            if let Registration::Registered(end) = registered {
                return Ok(end);
            }
        }
        Ok(None)
    }

    async fn query(&self, name: &str) -> Result<Registration, String> {
        let question = self.service.join(&format!("domain/{name}"));
        let question = question.map_err(|_| "domain_checks.rdap cannot be used".to_owned())?;
        let headers = vec![(ACCEPT, HeaderValue::from_static("application/rdap+json"))];
        let response = self.client.get(&question, headers).await.map_err(|error| trouble(&error))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
                return Ok(Registration::NotRegistered);
            }
            status => return Err(format!("the registry answered {}", status.as_u16())),
        }
        let bytes = response.body().await.map_err(|error| trouble(&error))?;
        let unreadable = |_| "the registry answered something nobody can read".to_owned();
        let answer: RdapResponse = serde_json::from_slice(&bytes).map_err(unreadable)?;
        let end = answer.events.iter().find(|event| event.action == "expiration");
        Ok(Registration::Registered(end.and_then(|event| Timestamp::parse(&event.date).ok())))
    }
}

fn trouble(error: &OutboundError) -> String {
    let why = match error {
        OutboundError::TimedOut => "did not answer in time",
        OutboundError::RefusedRedirect(_) => "leads where nobody should go",
        OutboundError::TooLong { .. } => "answered too much",
        _ => "cannot be reached",
    };
    tracing::debug!(%error, "the registry {why}");
    format!("the registry {why}")
}

/// The names a host may be registered by, the longest first. One label alone is a registry, and nobody's registration.
fn names(host: &str) -> Vec<&str> {
    let mut names: Vec<&str> =
        std::iter::successors(Some(host), |name| Some(name.split_once('.')?.1)).collect();
    names.pop();
    names.split_off(names.len().saturating_sub(MAX_NAMES_PER_HOST))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn lookup_tries_the_host_and_its_parent_domains() {
        assert_eq!(names("go.example.co.uk"), ["go.example.co.uk", "example.co.uk", "co.uk"]);
        assert_eq!(names("example.com"), ["example.com"]);
        assert_eq!(names("intranet"), [""; 0]);
        let far = names("a.b.c.d.e.f.g.example.com");
        assert_eq!(
            (far.len(), far.first(), far.last()),
            (5, Some(&"d.e.f.g.example.com"), Some(&"example.com"))
        );
    }
}
