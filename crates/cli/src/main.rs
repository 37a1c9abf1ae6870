//! `rmax`: the one binary. What was typed becomes [`args::Args`], what it means is in [`commands`], and how it ended is an exit
//! code, mapped in [`error`].
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

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Args;
use crate::environment::Environment;
use crate::output::Output;

fn main() -> ExitCode {
    let environment = Environment::read();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(problem) => return error::exit_of_parser(&problem, &environment),
    };
    let output = Output::new(&args.global, &environment);
    match commands::run(args, environment, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(output),
    }
}
