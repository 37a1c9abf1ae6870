//! Where a command does its work: on a store this process opens, on a running server, or at Cloudflare.
//!
//! A command asks a place for a value and prints the value. Only the asking differs.
//!
//! | to find | look in |
//! |---|---|
//! | a store this process opens | [`local_store`] |
//! | a server, by its API | [`api_client`] |
//! | keys and values at Cloudflare | [`cloudflare`] |
//! | the values that all of them give | [`links`], [`explanation`], [`domains`] |

pub(crate) mod api_client;
pub(crate) mod cloudflare;
pub(crate) mod domains;
pub(crate) mod explanation;
pub(crate) mod links;
pub(crate) mod local_store;

use rlinks_core::Timestamp;
use rlinks_core::link::route_object::RouteObject;
use rlinks_store::clock::Clock;

use crate::backend::api_client::ApiClient;
use crate::backend::cloudflare::Cloudflare;
use crate::backend::links::LinkDetails;
use crate::backend::local_store::LocalStore;
use crate::config::{BackendConfig, Config};
use crate::environment::Environment;
use crate::error::CliError;
use crate::output::Output;

pub(crate) enum Backend {
    /// A store of our own.
    Store(Box<LocalStore>),
    /// Somebody else's, through their server.
    Server(ApiClient),
    /// Keys and values at Cloudflare, which the Worker there serves.
    Cloudflare(Box<Cloudflare>),
}

impl Backend {
    pub(crate) async fn open(
        config: Config,
        environment: Environment,
        output: Output,
    ) -> Result<Self, CliError> {
        Ok(match &config.backend {
            BackendConfig::Server(server) => {
                Self::Server(ApiClient::open(server, &config, &environment, output).await?)
            }
            BackendConfig::Cloudflare(namespaces) => Self::Cloudflare(Box::new(
                Cloudflare::open_without_workspace(namespaces, &config, &environment, output)?,
            )),
            BackendConfig::Store(_) => {
                Self::Store(Box::new(LocalStore::open(config, environment, output).await?))
            }
        })
    }

    /// Waits until everything that was opened is closed.
    pub(crate) async fn close(&self) {
        match self {
            Self::Store(local) => local.close().await,
            Self::Server(_) | Self::Cloudflare(_) => {}
        }
    }

    pub(crate) fn output(&self) -> Output {
        match self {
            Self::Store(local) => local.output,
            Self::Server(client) => client.output,
            Self::Cloudflare(cloudflare) => cloudflare.output,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Store(local) => local.now(),
            Self::Server(_) | Self::Cloudflare(_) => Clock::system().now(),
        }
    }

    /// A link as programs see it.
    pub(crate) async fn route_object(&self, seen: &LinkDetails) -> RouteObject {
        match (self, seen.stats) {
            (Self::Store(local), None) => local.object(&seen.link).await,
            (_, stats) => RouteObject::from_link(&seen.link, stats.unwrap_or_default()),
        }
    }

    /// Adds what helps somebody who looks in the wrong place.
    pub(crate) fn hint_new_store(&self, failure: CliError) -> CliError {
        match self {
            Self::Store(local) => local.hint_new_store(failure),
            Self::Server(_) | Self::Cloudflare(_) => failure,
        }
    }
}
