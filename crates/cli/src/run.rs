//! What each command needs: nothing, a configuration, a store of its own, or whichever backend is configured.

use clap::CommandFactory as _;

use crate::args::{Args, Audit, Clicks, Command, Dev};
use crate::backend::Place;
use crate::backend::local_store::Session;
use crate::commands::{
    Scope, audit, backup, block_on, clicks, dev, doctor, domains, edge_hits, explain, keys, links, members,
    migrate, publish, serve, shorten, sweep, workspaces,
};
use crate::config::{Backend, Config};
use crate::environment::Environment;
use crate::error::Failure;
use crate::logging::{self, Usual};
use crate::output::Output;

/// Does what was typed.
pub(crate) fn run(args: Args, environment: Environment, output: Output) -> Result<(), Failure> {
    let Args { global, command } = args;
    match command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "rmax", &mut script);
            output.raw(&script)
        }
        Command::Dev(Dev::Openapi) => {
            let text = serde_json::to_string_pretty(rlinks_server::api::openapi()).expect("it is JSON");
            output.raw(format!("{text}\n").as_bytes())
        }
        Command::Audit(Audit::Verify(args)) if args.file.is_some() => audit::verify_export(output, &args),
        Command::Serve(args) => serve::run(&global, &args, &environment, output),
        Command::Doctor => {
            let config = Config::load(&global, None, &environment);
            logging::start(
                &config.as_ref().map(|config| config.log.clone()).unwrap_or_default(),
                &global,
                Usual::Command,
            );
            block_on(doctor::run(config, output))
        }
        Command::Restore(args) => {
            let config = Config::load(&global, None, &environment)?;
            logging::start(&config.log, &global, Usual::Command);
            block_on(backup::restore(config, environment, output, &args))
        }
        Command::Publish(args) => {
            let config = Config::load(&global, None, &environment)?;
            logging::start(&config.log, &global, Usual::Command);
            let kept = Config::cloudflare(&global, &environment, &args.to)?;
            block_on(publish::run(config, environment, output, &kept, &args))
        }
        Command::Clicks(Clicks::ImportHits(args)) => {
            let config = Config::load(&global, None, &environment)?;
            logging::start(&config.log, &global, Usual::Command);
            if args.place.is_none() {
                config.location()?;
            }
            let kept = edge_hits::storage(args.from.as_deref(), &config, &global, &environment)?;
            block_on(edge_hits::import(config, environment, output, &kept, &args))
        }
        Command::Clicks(Clicks::PublishStats(args)) => {
            let config = Config::load(&global, None, &environment)?;
            logging::start(&config.log, &global, Usual::Command);
            let kept = edge_hits::storage(args.to.as_deref(), &config, &global, &environment)?;
            block_on(edge_hits::publish_stats(config, environment, output, &kept, &args))
        }
        command => {
            let config = Config::load(&global, None, &environment)?;
            logging::start(&config.log, &global, Usual::Command);
            if matches!(config.backend, Backend::Cloudflare(_)) && !at_cloudflare(&command) {
                config.location()?;
            }
            let scope = if global.workspace.is_some() { Scope::Named } else { Scope::All };
            if on_either(&command) {
                return block_on(at_place(config, environment, output, command));
            }
            config.location()?;
            block_on(in_session(config, environment, output, scope, command))
        }
    }
}

/// Whether a command works on a server as well as on a store.
const fn on_either(command: &Command) -> bool {
    matches!(
        command,
        Command::Links(_)
            | Command::Shorten(_)
            | Command::Explain(_)
            | Command::Domains(_)
            | Command::Users(_)
            | Command::Keys(_)
            | Command::Audit(Audit::List { .. } | Audit::Export(_))
    )
}

/// Whether a command works at Cloudflare.
const fn at_cloudflare(command: &Command) -> bool {
    matches!(command, Command::Links(_) | Command::Audit(Audit::List { .. } | Audit::Export(_)))
}

async fn at_place(
    config: Config,
    environment: Environment,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    let place = Place::open(config, environment, output).await?;
    let done = match command {
        Command::Links(command) => links::run(&place, command).await,
        Command::Shorten(args) => shorten::run(&place, &args).await,
        Command::Explain(args) => explain::run(&place, &args).await,
        Command::Domains(command) => domains::run(&place, command).await,
        Command::Users(command) => members::run(&place, command).await,
        Command::Keys(command) => keys::run(&place, command).await,
        Command::Audit(Audit::List { limit, before }) => audit::list(&place, limit, before).await,
        Command::Audit(Audit::Export(args)) => audit::export(&place, &args).await,
        _ => unreachable!("`on_either` lets only those above through"),
    };
    place.close().await;
    done.map_err(|failure| place.explain_fresh(failure))
}

async fn in_session(
    config: Config,
    environment: Environment,
    output: Output,
    scope: Scope,
    command: Command,
) -> Result<(), Failure> {
    let session = Session::open(config, environment, output).await?;
    let done = match command {
        Command::Workspaces(command) => workspaces::run(&session, command).await,
        Command::Audit(Audit::Verify(args)) => audit::verify(&session, args.checkpoint.as_deref()).await,
        Command::Clicks(command) => clicks::run(&session, command, scope).await,
        Command::Sweep(args) => sweep::run(&session, &args, scope).await,
        Command::Dev(Dev::Seed(args)) => dev::seed(&session, &args).await,
        Command::Backup(args) => backup::run(&session, &args).await,
        Command::Migrate(command) => migrate::run(&session, &command).await,
        Command::Serve(_)
        | Command::Publish(_)
        | Command::Restore(_)
        | Command::Doctor
        | Command::Dev(Dev::Openapi)
        | Command::Completions { .. } => unreachable!("these open what they need themselves"),
        Command::Links(_)
        | Command::Shorten(_)
        | Command::Explain(_)
        | Command::Domains(_)
        | Command::Users(_)
        | Command::Keys(_)
        | Command::Audit(Audit::List { .. } | Audit::Export(_)) => unreachable!("these work on either"),
    };
    session.close().await;
    done.map_err(|failure| session.explain_fresh(failure))
}
