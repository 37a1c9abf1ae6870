//! What each command needs: nothing, a configuration, a store of its own, or whichever backend is configured.

use clap::CommandFactory as _;

use crate::args::{Args, Audit, Clicks, Command, Dev};
use crate::backend::Backend;
use crate::backend::local_store::LocalStore;
use crate::commands::{
    WorkspaceSelection, audit, backup, block_on, clicks, dev, doctor, domains, edge_hits, explain, keys,
    links, members, migrate, publish, serve, shorten, sweep, workspaces,
};
use crate::config::{BackendConfig, Config};
use crate::environment::Environment;
use crate::error::CliError;
use crate::logging::{self, DefaultLevel};
use crate::output::Output;

/// Does what was typed.
pub(crate) fn run(args: Args, environment: Environment, output: Output) -> Result<(), CliError> {
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
                DefaultLevel::Command,
            );
            block_on(doctor::run(config, output))
        }
        Command::Restore(args) => {
            let config = Config::load(&global, None, &environment)?;
            logging::start(&config.log, &global, DefaultLevel::Command);
            block_on(backup::restore(config, environment, output, &args))
        }
        Command::Publish(args) => {
            let config = Config::load(&global, None, &environment)?;
            logging::start(&config.log, &global, DefaultLevel::Command);
            let namespaces = Config::cloudflare(&global, &environment, &args.to)?;
            block_on(publish::run(config, environment, output, &namespaces, &args))
        }
        Command::Clicks(Clicks::ImportHits(args)) => {
            let config = Config::load(&global, None, &environment)?;
            logging::start(&config.log, &global, DefaultLevel::Command);
            if args.place.is_none() {
                config.location()?;
            }
            let namespaces = edge_hits::kv_namespaces(args.from.as_deref(), &config, &global, &environment)?;
            block_on(edge_hits::import(config, environment, output, &namespaces, &args))
        }
        Command::Clicks(Clicks::PublishStats(args)) => {
            let config = Config::load(&global, None, &environment)?;
            logging::start(&config.log, &global, DefaultLevel::Command);
            let namespaces = edge_hits::kv_namespaces(args.to.as_deref(), &config, &global, &environment)?;
            block_on(edge_hits::publish_stats(config, environment, output, &namespaces, &args))
        }
        command => {
            let config = Config::load(&global, None, &environment)?;
            logging::start(&config.log, &global, DefaultLevel::Command);
            if matches!(config.backend, BackendConfig::Cloudflare(_)) && !works_on_cloudflare(&command) {
                config.location()?;
            }
            let scope =
                if global.workspace.is_some() { WorkspaceSelection::Named } else { WorkspaceSelection::All };
            if works_on_server(&command) {
                return block_on(run_on_backend(config, environment, output, command));
            }
            config.location()?;
            block_on(run_on_store(config, environment, output, scope, command))
        }
    }
}

/// Whether a command works on a server as well as on a store.
const fn works_on_server(command: &Command) -> bool {
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
const fn works_on_cloudflare(command: &Command) -> bool {
    matches!(command, Command::Links(_) | Command::Audit(Audit::List { .. } | Audit::Export(_)))
}

async fn run_on_backend(
    config: Config,
    environment: Environment,
    output: Output,
    command: Command,
) -> Result<(), CliError> {
    let backend = Backend::open(config, environment, output).await?;
    let done = match command {
        Command::Links(command) => links::run(&backend, command).await,
        Command::Shorten(args) => shorten::run(&backend, &args).await,
        Command::Explain(args) => explain::run(&backend, &args).await,
        Command::Domains(command) => domains::run(&backend, command).await,
        Command::Users(command) => members::run(&backend, command).await,
        Command::Keys(command) => keys::run(&backend, command).await,
        Command::Audit(Audit::List { limit, before }) => audit::list(&backend, limit, before).await,
        Command::Audit(Audit::Export(args)) => audit::export(&backend, &args).await,
        _ => unreachable!("`on_either` lets only those above through"),
    };
    backend.close().await;
    done.map_err(|failure| backend.hint_new_store(failure))
}

async fn run_on_store(
    config: Config,
    environment: Environment,
    output: Output,
    scope: WorkspaceSelection,
    command: Command,
) -> Result<(), CliError> {
    let local = LocalStore::open(config, environment, output).await?;
    let done = match command {
        Command::Workspaces(command) => workspaces::run(&local, command).await,
        Command::Audit(Audit::Verify(args)) => audit::verify(&local, args.checkpoint.as_deref()).await,
        Command::Clicks(command) => clicks::run(&local, command, scope).await,
        Command::Sweep(args) => sweep::run(&local, &args, scope).await,
        Command::Dev(Dev::Seed(args)) => dev::seed(&local, &args).await,
        Command::Backup(args) => backup::run(&local, &args).await,
        Command::Migrate(command) => migrate::run(&local, &command).await,
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
    local.close().await;
    done.map_err(|failure| local.hint_new_store(failure))
}
