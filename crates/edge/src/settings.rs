//! What the operator set: the Worker's variables and secrets.

use rlinks_core::{Host, Policy, Preset, ServedHosts};
use sha2::{Digest as _, Sha256};

/// Names of the variables and secrets, in the order in which `platform.js` hands them over.
pub const VARIABLE_NAMES: [&str; 9] = [
    "RMAX_PROFILE",
    "RMAX_PRESET",
    "RMAX_DOMAIN",
    "RMAX_POLICY",
    "ADMIN_TOKEN",
    "HASH_KEY",
    "ANALYTICS_ACCOUNT",
    "ANALYTICS_TOKEN",
    "ANALYTICS_API",
];

/// Where Cloudflare's API is, unless `ANALYTICS_API` says otherwise.
const CLOUDFLARE_API_URL: &str = "https://api.cloudflare.com/client/v4";

/// Where the truth is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// In KV, written by `rmax`. No address of the Worker changes anything.
    Fabric,
    /// In D1, behind KV and the Cache API, changed through the Worker's own API.
    Edge,
}

/// The analytics SQL API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Analytics {
    pub url: String,
    /// May read analytics and nothing else.
    pub token: String,
}

/// What the operator set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the truth is.
    pub profile: Profile,
    /// What links may be and how they answer.
    pub policy: Policy,
    /// The hosts we serve; the first is the one short URLs are built with. None: every host.
    pub hosts: Vec<Host>,
    /// The same, to ask.
    pub served_hosts: ServedHosts,
    /// The hash of the token that opens the API. None: it stays closed.
    admin_token_hash: Option<[u8; 32]>,
    /// The key under which user agents are hashed. None: their hashes are not kept.
    pub hash_key: Option<[u8; 16]>,
    /// The analytics SQL API, where it is configured.
    pub analytics: Option<Analytics>,
    /// What is not used although it is set, and why.
    pub warning: Option<&'static str>,
}

/// A shorter token could be guessed.
const MIN_ADMIN_TOKEN_CHARS: usize = 32;

/// What cannot be understood. It is logged, and nothing is served until it is mended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct SettingError {
    name: &'static str,
    problem: String,
}

impl Settings {
    /// Reads the values of [`VARIABLE_NAMES`]; one that is not set is empty.
    pub fn parse(values: &[&str]) -> Result<Self, SettingError> {
        let bad = |name| move |problem: String| SettingError { name, problem };
        let value = |name: &str| {
            let place = VARIABLE_NAMES.iter().position(|known| *known == name);
            place.and_then(|place| values.get(place)).copied().unwrap_or_default().trim()
        };
        let profile = match value("RMAX_PROFILE") {
            "" | "fabric" => Profile::Fabric,
            "edge" => Profile::Edge,
            other => return Err(bad("RMAX_PROFILE")(format!("`{other}` is neither fabric nor edge"))),
        };
        let preset = match (value("RMAX_PRESET"), profile) {
            ("", Profile::Fabric) => Preset::Fabric,
            ("", Profile::Edge) => Preset::Edge,
            (name, _) => name.parse().map_err(|error| bad("RMAX_PRESET")(format!("{error}")))?,
        };
        let mut policy = Policy::preset(preset);
        if !value("RMAX_POLICY").is_empty() {
            let changes = rlinks_core::strict_json::parse_object(value("RMAX_POLICY").as_bytes())
                .map_err(|error| bad("RMAX_POLICY")(error.to_string()))?;
            policy = policy.merge_json(&changes).map_err(|error| bad("RMAX_POLICY")(error.to_string()))?;
        }
        let hosts = value("RMAX_DOMAIN").split(',').map(str::trim).filter(|text| !text.is_empty());
        let hosts: Vec<Host> = hosts
            .map(Host::parse)
            .collect::<Result<_, _>>()
            .map_err(|error| bad("RMAX_DOMAIN")(error.to_string()))?;
        let secret = |name| Some(value(name)).filter(|secret| !secret.is_empty());
        let analytics = secret("ANALYTICS_ACCOUNT").zip(secret("ANALYTICS_TOKEN"));
        let base = secret("ANALYTICS_API").unwrap_or(CLOUDFLARE_API_URL).trim_end_matches('/');
        let admin_token = secret("ADMIN_TOKEN");
        let is_long_enough = |token: &&str| token.len() >= MIN_ADMIN_TOKEN_CHARS;
        Ok(Self {
            warning: admin_token.is_some_and(|token| !is_long_enough(&token)).then_some(
                "ADMIN_TOKEN has fewer than 32 characters and could be guessed: the API stays closed",
            ),
            profile,
            policy,
            served_hosts: ServedHosts::new(hosts.iter().cloned(), None),
            hosts,
            admin_token_hash: admin_token
                .filter(is_long_enough)
                .map(|token| Sha256::digest(token.as_bytes()).into()),
            hash_key: secret("HASH_KEY").map(|key| first_half(&Sha256::digest(key.as_bytes()).into())),
            analytics: analytics.map(|(account, token)| Analytics {
                url: format!("{base}/accounts/{account}/analytics_engine/sql"),
                token: token.to_owned(),
            }),
        })
    }

    /// Whether we answer on this host, given normalised.
    pub fn serves(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.served_hosts.contains(host)
    }

    /// Whether an `Authorization` header opens the API. How long it takes says nothing about the token: hashes are compared.
    pub fn admits(&self, authorization: &str) -> bool {
        let Some((scheme, token)) = authorization.split_once(' ') else { return false };
        let given: [u8; 32] = Sha256::digest(token.trim().as_bytes()).into();
        let same = |known: &[u8; 32]| bool::from(subtle::ConstantTimeEq::ct_eq(&known[..], &given[..]));
        scheme.eq_ignore_ascii_case("bearer") && self.admin_token_hash.as_ref().is_some_and(same)
    }
}

fn first_half(digest: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|place| digest[place])
}

#[cfg(test)]
mod tests {
    use rlinks_core::Preset;

    use super::{Profile, Settings, VARIABLE_NAMES};

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let values = VARIABLE_NAMES
            .map(|name| pairs.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| *value));
        Settings::parse(&values).map_err(|error| error.to_string())
    }

    #[test]
    fn profile_sets_the_default_preset() {
        let settings = read(&[]).unwrap();
        assert_eq!((settings.profile, settings.policy.preset), (Profile::Fabric, Preset::Fabric));
        let settings = read(&[("RMAX_PROFILE", "edge")]).unwrap();
        assert_eq!((settings.profile, settings.policy.preset), (Profile::Edge, Preset::Edge));
        let settings = read(&[("RMAX_PROFILE", "fabric"), ("RMAX_PRESET", "team")]).unwrap();
        assert_eq!(settings.policy.preset, Preset::Team);
        let settings = read(&[("RMAX_POLICY", r#"{"cache":{"max_age":5}}"#)]).unwrap();
        assert_eq!(settings.policy.cache.max_age, 5);
    }

    #[test]
    fn invalid_settings_are_rejected_by_name() {
        let check = |pairs: &[(&str, &str)], start: &str| {
            let error = read(pairs).unwrap_err();
            assert!(error.starts_with(start), "{error}");
        };
        check(&[("RMAX_PROFILE", "d1")], "RMAX_PROFILE: `d1`");
        check(&[("RMAX_PRESET", "mine")], "RMAX_PRESET:");
        check(&[("RMAX_DOMAIN", "a b")], "RMAX_DOMAIN:");
        check(&[("RMAX_POLICY", "{")], "RMAX_POLICY:");
        check(&[("RMAX_POLICY", r#"{"cache":{"max_age":-1}}"#)], "RMAX_POLICY:");
    }

    #[test]
    fn every_host_is_served_without_a_domain() {
        assert!(read(&[]).unwrap().serves("any.example"));
        let settings = read(&[("RMAX_DOMAIN", "rmax.to, GO.example")]).unwrap();
        assert!(
            settings.serves("rmax.to") && settings.serves("go.example") && !settings.serves("any.example")
        );
    }

    #[test]
    fn api_requires_the_admin_token() {
        let token = "0123456789abcdef0123456789abcdef";
        let settings = read(&[("ADMIN_TOKEN", token)]).unwrap();
        assert!(settings.admits(&format!("Bearer {token}")) && settings.admits(&format!("bearer  {token}")));
        assert_eq!(settings.warning, None);
        let (shorter, longer) = (format!("Bearer {}", &token[1..]), format!("Bearer {token}0"));
        for wrong in ["", token, "Bearer", "Bearer ", &shorter, &longer, &format!("Basic {token}")] {
            assert!(!settings.admits(wrong), "{wrong}");
        }
        assert!(!read(&[]).unwrap().admits("Bearer "), "without a token nobody comes in");
    }

    #[test]
    fn short_admin_token_opens_nothing() {
        let settings = read(&[("ADMIN_TOKEN", "0123456789abcdef0123456789abcde")]).unwrap();
        assert!(!settings.admits("Bearer 0123456789abcdef0123456789abcde"));
        assert!(settings.warning.is_some_and(|warning| warning.contains("32 characters")));
    }

    #[test]
    fn analytics_need_account_and_token() {
        let both = [("ANALYTICS_ACCOUNT", "abc"), ("ANALYTICS_TOKEN", "t")];
        assert_eq!(
            read(&both).unwrap().analytics.unwrap().url,
            "https://api.cloudflare.com/client/v4/accounts/abc/analytics_engine/sql"
        );
        assert!(read(&both[..1]).unwrap().analytics.is_none());
    }
}
