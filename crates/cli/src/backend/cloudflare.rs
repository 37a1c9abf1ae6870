//! Links and hits at Cloudflare, asked through Cloudflare's API.
//!
//! | to find | look in |
//! |---|---|
//! | how it is asked, and what its errors mean | [`client`], [`access`], [`request`], [`retry`], [`errors`] |
//! | what keys hold | [`objects`] |
//! | links: looked at and changed | [`links`], [`change`] |
//! | links that come from files and leave as files | [`import`], [`export`] |
//! | the log of changes | [`audit`] |
//! | hits: counted, and read | [`hits`] |
//! | objects of older versions | [`migrate`] |
//! | links of a store that are served from there | [`publish`] |
//!
//! Key-value storage has no compare-and-set. A change reads, computes, reads again and writes; whoever writes between the second
//! reading and the writing is overwritten. That window is one request long, and there is no way to close it.

mod access;
pub(crate) mod audit;
mod change;
pub(crate) mod client;
pub(crate) mod errors;
pub(crate) mod export;
pub(crate) mod hits;
pub(crate) mod import;
pub(crate) mod links;
pub(crate) mod migrate;
pub(crate) mod objects;
pub(crate) mod publish;
mod request;
mod retry;

use rlinks_core::{Actor, Code, Host, Policy, Preset, ServedHosts, Slug, Timestamp};
use rlinks_store::clock::Clock;

use crate::backend::cloudflare::client::{KvClient, Namespace};
use crate::config::{Config, KvNamespaces};
use crate::environment::Environment;
use crate::error::CliError;
use crate::identity;
use crate::output::Output;
use rlinks_store::clock::Random;

/// An account, its two namespaces and who acts there.
pub(crate) struct Cloudflare {
    api: KvClient,
    // `route:` and `tombstone:`.
    routes: Namespace,
    // `hit:`.
    hits: Namespace,
    /// What the Worker's profile `fabric` lets a link be.
    policy: Policy,
    /// Every host that leads there.
    served_hosts: ServedHosts,
    /// The first of them, as short URLs have it.
    domain: Option<Host>,
    public_scheme: String,
    actor: Actor,
    random: Random,
    pub(crate) output: Output,
}

impl Cloudflare {
    /// Nothing is asked yet.
    pub(crate) fn open(
        namespaces: &KvNamespaces,
        config: &Config,
        environment: &Environment,
        output: Output,
    ) -> Result<Self, CliError> {
        let namespace = |id: &String, name| Namespace { id: id.clone(), name };
        Ok(Self {
            api: KvClient::open(&namespaces.account_id, environment, &config.env, output)?,
            routes: namespace(&namespaces.routes, "links"),
            hits: namespace(&namespaces.hits, "hits"),
            policy: Policy::preset(Preset::Fabric),
            served_hosts: ServedHosts::new(config.domain.clone(), config.base_domain.as_ref()),
            domain: config.domain.clone(),
            public_scheme: config.public_scheme.clone(),
            actor: identity::operator(config, environment),
            random: Random::system(),
            output,
        })
    }

    /// The same, for commands that are about what is there: it is one workspace, whatever its name elsewhere.
    pub(crate) fn open_without_workspace(
        namespaces: &KvNamespaces,
        config: &Config,
        environment: &Environment,
        output: Output,
    ) -> Result<Self, CliError> {
        if config.workspace_named && config.workspace != Slug::MAIN {
            return Err(CliError::usage(format!(
                "environment `{}` points at Cloudflare, where there are no workspaces; leave --workspace out",
                config.env
            )));
        }
        Self::open(namespaces, config, environment, output)
    }

    /// Says that a link that was just written may lead back to a domain nobody told us of.
    pub(crate) fn warn_no_loop_check(&self) {
        if self.domain.is_none() {
            self.output.warning(
                "no `domain` is configured, so a link that leads back to the Worker is not refused; set `domain` in rmax.toml, or RMAX_DOMAIN",
            );
        }
    }

    /// The namespace of hits, as watermarks know it.
    pub(crate) fn hits_namespace_id(&self) -> &str {
        &self.hits.id
    }

    /// The namespace of links, as watermarks know it.
    pub(crate) fn routes_namespace_id(&self) -> &str {
        &self.routes.id
    }

    /// The address of a link. None where no domain is configured.
    fn short_url(&self, code: &Code) -> Option<String> {
        self.domain.as_ref().map(|host| format!("{}://{host}/{code}", self.public_scheme))
    }
}

fn now() -> Timestamp {
    Clock::system().now()
}
