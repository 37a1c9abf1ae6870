//! `rmax`: the one binary. What was typed becomes [`args::Args`], [`run`] opens the [`backend`] it needs, what it means is in
//! [`commands`], and how it ended is an exit code, mapped in [`error`].
//!
//! Data goes to stdout, everything else to stderr.

#![expect(clippy::large_futures, reason = "a command runs one future, once, on the main stack")]

mod args;
mod backend;
mod checkpoint_log;
mod commands;
mod config;
mod environment;
mod error;
mod files;
mod identity;
mod logging;
mod output;
mod run;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Args;
use crate::environment::Environment;
use crate::error::CliError;
use crate::output::Output;

fn main() -> ExitCode {
    let environment = Environment::read();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(problem) => return report_parse_error(&problem, &environment),
    };
    let output = Output::new(&args.global, &environment);
    match run::run(args, environment, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, output),
    }
}

/// Says on stderr why a command failed, and gives the exit code.
fn report(failure: &CliError, output: Output) -> ExitCode {
    output.error(failure);
    failure.exit_code()
}

/// What the parser of arguments could not read, or help and version, which it treats alike.
fn report_parse_error(problem: &clap::Error, environment: &Environment) -> ExitCode {
    let wants_json = std::env::args_os().any(|arg| arg == "--json");
    if !problem.use_stderr() || !wants_json {
        let _ = problem.print();
        return ExitCode::from(u8::try_from(problem.exit_code()).unwrap_or(2));
    }
    let text = problem.render().to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let message = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    report(&CliError::usage(message), Output::json(environment))
}
