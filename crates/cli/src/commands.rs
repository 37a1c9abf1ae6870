//! What each command means. One file a family; this one only opens what they need.

mod audit;
mod backup;
mod doctor;
mod domains;
mod explain;
mod links;
mod migrate;
mod serve;
mod shorten;
mod workspaces;

use clap::CommandFactory as _;
use rlinks_core::{FieldCode, FieldError, Timestamp};

use crate::args::{Args, Audit, Command};
use crate::config::Config;
use crate::environment::Environment;
use crate::error::Failure;
use crate::logging::{self, Usual};
use crate::output::Output;
use crate::session::Session;

/// Does what was typed.
pub(crate) fn run(args: Args, environment: Environment, output: Output) -> Result<(), Failure> {
    let Args { global, command } = args;
    match command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "rmax", &mut script);
            output.raw(&script)
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
        command => {
            let config = Config::load(&global, None, &environment)?;
            logging::start(&config.log, &global, Usual::Command);
            block_on(in_session(config, environment, output, command))
        }
    }
}

async fn in_session(
    config: Config,
    environment: Environment,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    let session = Session::open(config, environment, output).await?;
    let done = match command {
        Command::Links(command) => links::run(&session, command).await,
        Command::Shorten(args) => shorten::run(&session, &args).await,
        Command::Explain(args) => explain::run(&session, &args).await,
        Command::Workspaces(command) => workspaces::run(&session, command).await,
        Command::Domains(command) => domains::run(&session, command).await,
        Command::Audit(command) => audit::run(&session, command).await,
        Command::Backup(args) => backup::run(&session, &args).await,
        Command::Migrate(command) => migrate::run(&session, &command).await,
        Command::Serve(_) | Command::Restore(_) | Command::Doctor | Command::Completions { .. } => {
            unreachable!("these open what they need themselves")
        }
    };
    session.store().close().await;
    done.map_err(|failure| session.explain_fresh(failure))
}

/// Runs a command to its end. One thread is enough: a command does one thing after the other.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("the command cannot be run: {error}")))?;
    runtime.block_on(work)
}

/// A moment somebody asks about.
fn moment(at: Option<&str>) -> Result<Option<Timestamp>, FieldError> {
    let parse = |text| {
        Timestamp::parse(text).map_err(|error| FieldError::new("at", FieldCode::NotATime, error.to_string()))
    };
    at.map(parse).transpose()
}
