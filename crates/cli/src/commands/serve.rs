//! `rmax serve`: what was configured, handed to the server.

use rlinks_server::{Archive, Clock, Reload};
use rlinks_store::Lost;
use serde_json::{Map, Value, json};

use crate::args::{Global, Serve};
use crate::config::Config;
use crate::environment::Environment;
use crate::error::Failure;
use crate::logging::{self, Usual};
use crate::output::Output;
use crate::session::{self, Session};

pub(super) fn run(
    global: &Global,
    args: &Serve,
    environment: &Environment,
    output: Output,
) -> Result<(), Failure> {
    let config = Config::load(global, Some(args), environment)?;
    if args.print_config {
        return print(&config, output);
    }
    config.location()?;
    logging::start(&config.log, global, Usual::Server);
    session::refuse_no_folder(&config.data)?;
    if config.domain.is_some() {
        super::block_on(enter_domain(config.clone(), environment.clone(), output))?;
    }
    let reload: Reload = {
        let (global, args, environment) = (global.clone(), args.clone(), environment.clone());
        let in_force = config.clone();
        Box::new(move || match Config::load(&global, Some(&args), &environment) {
            Ok(fresh) => {
                let waiting = in_force.needs_restart(&fresh);
                if !waiting.is_empty() {
                    tracing::warn!("changed, and in force only after a restart: {}", waiting.join(", "));
                }
                Ok(fresh.reloadable())
            }
            Err(failure) => Err(failure.messages().join("; ")),
        })
    };
    let options = session::options(&config, Lost::Refuse)?;
    rlinks_server::run(server_config(config, environment), options, Clock::system(), reload)?;
    Ok(())
}

async fn enter_domain(config: Config, environment: Environment, output: Output) -> Result<(), Failure> {
    let session = Session::open(config, environment, output).await?;
    let done = session.change(async { Ok(()) }).await;
    session.store().close().await;
    done
}

fn server_config(config: Config, environment: &Environment) -> rlinks_server::Config {
    rlinks_server::Config {
        reloadable: config.reloadable(),
        listen: config.listen,
        control_listen: config.control_listen,
        serve_admin: config.serve_admin,
        threads: config.threads,
        cache_bytes: config.cache_bytes,
        naming: config.naming(),
        own_host: config.own_host(),
        tls: config.tls,
        data: config.data,
        journal_bytes: config.journal_bytes,
        journal_sync: config.journal_sync,
        geoip: config.geoip,
        safety: config.safety,
        target_changes_per_minute: config.target_changes_per_minute,
        archive: config.archive.map(|place| Archive { place, options: session::aws_variables(environment) }),
    }
}

/// The configuration in force: as a file that could be used, or for programs.
fn print(config: &Config, output: Output) -> Result<(), Failure> {
    if output.json {
        let settings: Map<String, Value> = config
            .shown
            .iter()
            .map(|shown| (shown.key.to_owned(), json!({ "value": shown.value, "from": shown.from })))
            .collect();
        return output.object(&json!({ "env": config.env, "file": config.file, "settings": settings }));
    }
    let file = config.file.as_ref().map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
    output.line(&format!("# environment {}, {file}", config.env))?;
    let settings: Vec<(String, &str)> = config
        .shown
        .iter()
        .map(|shown| (format!("{} = {}", shown.key, shown.value), shown.from.as_str()))
        .collect();
    let width = settings.iter().map(|(setting, _)| setting.chars().count()).max().unwrap_or_default();
    settings.iter().try_for_each(|(setting, from)| output.line(&format!("{setting:width$}  # {from}")))
}
