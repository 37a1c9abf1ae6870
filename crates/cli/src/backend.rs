//! Where a command does its work: on a store this process opens, on a running server, or at Cloudflare.
//!
//! A command asks a place for a value and prints the value. Only the asking differs.

pub(crate) mod api_client;
pub(crate) mod cloudflare;
pub(crate) mod local_store;

use rlinks_core::link::route_object::{RouteObject, Stats};
use rlinks_core::{Link, Timestamp};
use rlinks_ops::Outcome;
use rlinks_store::clock::Clock;

use crate::backend::api_client::Remote;
use crate::backend::cloudflare::Cloudflare;
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

/// A link, and what is known beside it.
pub(crate) struct Seen {
    pub(crate) link: Link,
    /// What it has counted; a store is asked for that only where it is shown ([`Place::object`]).
    pub(crate) stats: Option<Stats>,
    /// How people share it; none where no host leads to its workspace.
    pub(crate) short_url: Option<String>,
    /// The slug of its workspace.
    pub(crate) workspace: String,
}

/// What became of a link.
pub(crate) struct Made {
    pub(crate) seen: Seen,
    pub(crate) outcome: Outcome,
    /// What was asked for and a link that was handed back does not have.
    pub(crate) not_applied: Vec<String>,
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
            (_, stats) => RouteObject::of(&seen.link, stats.unwrap_or_default()),
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

impl Seen {
    /// Its address, or the path where that is all there is.
    pub(crate) fn address(&self) -> String {
        self.short_url.clone().unwrap_or_else(|| format!("/{}", self.link.code))
    }

    /// The same with where it leads.
    pub(crate) fn arrow(&self) -> String {
        format!("{} -> {}", self.address(), self.link.target)
    }

    /// Says what somebody who has just written a link would want to know of it: no visitor can reach it, or its host has letters
    /// that may look like others.
    pub(crate) fn warn(&self, output: Output) {
        let host = self.link.target.host();
        if host.split('.').any(|label| label.starts_with("xn--")) {
            output.warning(&format!(
                "{host} is {}: see that these letters are the ones you mean",
                url::quirks::domain_to_unicode(host)
            ));
        }
        if self.short_url.is_none() {
            let slug = &self.workspace;
            output.warning(&format!(
                "no domain reaches workspace {slug}, so no visitor reaches this link; `rmax domains add <host> --workspace {slug}` adds one"
            ));
        }
    }
}
