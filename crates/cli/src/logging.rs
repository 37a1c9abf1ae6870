//! Logs, on stderr: text or JSON, one event a line whatever an event holds.

use std::io::Write;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::Global;
use crate::config::{Log, LogFormat};
use crate::output::clean;

/// What is logged when nobody says otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DefaultLevel {
    /// A server tells what it does.
    Server,
    /// A command only what may be wrong.
    Command,
}

/// Starts logging for the life of the process.
pub(crate) fn start(log: &Log, global: &Global, usual: DefaultLevel) {
    let usual = match usual {
        DefaultLevel::Server => LevelFilter::INFO,
        DefaultLevel::Command => LevelFilter::WARN,
    };
    let level = match (global.quiet, global.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => log.level.unwrap_or(usual),
        (false, 1) => LevelFilter::DEBUG,
        (false, _) => LevelFilter::TRACE,
    };
    // What our dependencies say in detail is theirs: statements, headers. Only their warnings concern an operator.
    let ours = [
        "rmax",
        "rlinks_core",
        "rlinks_store",
        "rlinks_clicks",
        "rlinks_routes",
        "rlinks_ops",
        "rlinks_server",
    ]
    .map(|name| (name, level));
    // sqlx warns about parameters it does not know with their values, and one may be a password.
    let targets = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("sqlx_postgres::options", LevelFilter::OFF)
        // A statement that took long, with all of its text, helps nobody who did not write it.
        .with_target("sqlx::query", LevelFilter::ERROR)
        .with_targets(ours);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| EscapingWriter);
    let registry = tracing_subscriber::registry().with(targets);
    // A second start, as in a reload, finds the first in force.
    let _ = match log.format {
        LogFormat::Text => registry.with(lines).try_init(),
        LogFormat::Json => registry.with(lines.json()).try_init(),
    };
}

/// Stderr, with every control character of an event escaped but the line break at its end.
struct EscapingWriter;

impl Write for EscapingWriter {
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let mut line = clean(text.trim_end_matches('\n')).into_owned();
        line.push('\n');
        // A log nobody can write must not end what is logged; to report the failure there would be only the same stderr.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
