//! Where a command does its work: on a store this process opens, on a running server, or at Cloudflare.
//!
//! A command asks a place for a value and prints the value. Only the asking differs.
//!
//! | to find | look in |
//! |---|---|
//! | a store this process opens | [`local_store`] |
//! | a server, by its API | [`api_client`] |
//! | keys and values at Cloudflare | [`cloudflare`] |
//! | the values that all of them give | [`links`], [`explanation`], [`domains`], [`members`], [`keys`] |

pub(crate) mod api_client;
pub(crate) mod cloudflare;
pub(crate) mod domains;
pub(crate) mod explanation;
pub(crate) mod keys;
pub(crate) mod links;
pub(crate) mod local_store;
pub(crate) mod members;

use rlinks_core::Timestamp;
use rlinks_core::link::route_object::RouteObject;
use rlinks_store::clock::Clock;

use crate::backend::api_client::Remote;
use crate::backend::cloudflare::Cloudflare;
use crate::backend::links::Seen;
use crate::backend::local_store::Session;
use crate::config::{Backend, Config};
use crate::environment::Environment;
use crate::error::Failure;
use crate::output::Output;

/// What is asked.
pub(crate) enum Place {
    /// A store of our own.
    Store(Box<Session>),
    /// Somebody else's, through their server.
    Server(Remote),
    /// Keys and values at Cloudflare, which the Worker there serves.
    Cloudflare(Box<Cloudflare>),
}

impl Place {
    pub(crate) async fn open(
        config: Config,
        environment: Environment,
        output: Output,
    ) -> Result<Self, Failure> {
        Ok(match &config.backend {
            Backend::Server(server) => {
                Self::Server(Remote::open(server, &config, &environment, output).await?)
            }
            Backend::Cloudflare(kept) => {
                Self::Cloudflare(Box::new(Cloudflare::open_alone(kept, &config, &environment, output)?))
            }
            Backend::Store(_) => Self::Store(Box::new(Session::open(config, environment, output).await?)),
        })
    }

    /// Waits until everything that was opened is closed.
    pub(crate) async fn close(&self) {
        match self {
            Self::Store(session) => session.close().await,
            Self::Server(_) | Self::Cloudflare(_) => {}
        }
    }

    pub(crate) fn output(&self) -> Output {
        match self {
            Self::Store(session) => session.output,
            Self::Server(remote) => remote.output,
            Self::Cloudflare(cloudflare) => cloudflare.output,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Store(session) => session.now(),
            Self::Server(_) | Self::Cloudflare(_) => Clock::system().now(),
        }
    }

    /// A link as programs see it.
    pub(crate) async fn object(&self, seen: &Seen) -> RouteObject {
        match (self, seen.stats) {
            (Self::Store(session), None) => session.object(&seen.link).await,
            (_, stats) => RouteObject::from_link(&seen.link, stats.unwrap_or_default()),
        }
    }

    /// Adds what helps somebody who looks in the wrong place.
    pub(crate) fn explain_fresh(&self, failure: Failure) -> Failure {
        match self {
            Self::Store(session) => session.explain_fresh(failure),
            Self::Server(_) | Self::Cloudflare(_) => failure,
        }
    }
}
