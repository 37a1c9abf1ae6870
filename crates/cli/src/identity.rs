//! Who is at the terminal: `created_by` and the actor of every audit entry.

use std::process::{Command, Stdio};

use rlinks_core::Actor;

use crate::config::Config;
use crate::environment::Environment;

/// The configured identity, else git's, else user@host.
pub(crate) fn operator(config: &Config, environment: &Environment) -> Actor {
    let identity = config.identity.clone();
    let identity = identity.or_else(|| first_line("git", &["config", "user.email"]));
    Actor::operator(&identity.unwrap_or_else(|| user_at_host(environment)))
}

fn user_at_host(environment: &Environment) -> String {
    let named = environment.text("USER").or_else(|| environment.text("LOGNAME")).map(str::to_owned);
    let user = named.or_else(|| first_line("id", &["-un"])).unwrap_or_else(|| "operator".to_owned());
    format!("{user}@{}", hostname())
}

pub(crate) fn hostname() -> String {
    gethostname::gethostname().to_string_lossy().into_owned()
}

/// What a program prints, where it is installed and succeeds.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}
