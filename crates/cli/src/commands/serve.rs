//! `rmax serve`: what was configured, handed to the server.

use std::io::Write as _;

use rlinks_server::{Archive, AuditPushSettings, Reload};
use rlinks_store::MissingStore;
use rlinks_store::clock::Clock;
use serde_json::{Map, Value, json};

use crate::args::{Global, Serve};
use crate::backend::local_store::{self, LocalStore};
use crate::config::{Config, LogFormat};
use crate::environment::Environment;
use crate::error::CliError;
use crate::logging::{self, DefaultLevel};
use crate::output::Output;

pub(crate) fn run(
    global: &Global,
    args: &Serve,
    environment: &Environment,
    output: Output,
) -> Result<(), CliError> {
    let config = Config::load(global, Some(args), environment)?;
    if args.print_config {
        return print_config(&config, output);
    }
    config.location()?;
    logging::start(&config.log, global, DefaultLevel::Server);
    local_store::ensure_data_is_folder(&config.data)?;
    if config.domain.is_some() {
        super::block_on(register_domain(config.clone(), environment.clone(), output))?;
    }
    let reload: Reload = {
        let (global, args, environment) = (global.clone(), args.clone(), environment.clone());
        let in_force = config.clone();
        Box::new(move || match Config::load(&global, Some(&args), &environment) {
            Ok(fresh) => {
                let waiting = in_force.changes_needing_restart(&fresh);
                if !waiting.is_empty() {
                    tracing::warn!("changed, and in force only after a restart: {}", waiting.join(", "));
                }
                Ok(fresh.reloadable)
            }
            Err(failure) => Err(failure.messages().join("; ")),
        })
    };
    let options = local_store::store_options(&config, MissingStore::Refuse)?;
    let format = config.log.format;
    let announce = |url: &str| print_setup_url(url, format);
    rlinks_server::run(server_config(config, environment), options, Clock::system(), reload, announce)?;
    Ok(())
}

/// Says where the first admin is made: on the console, and never through the log, which may be sent elsewhere.
fn print_setup_url(url: &str, format: LogFormat) {
    let words = "nobody can sign in yet; open this address to make the first admin (it works once, until the next start)";
    let now = Clock::system().now();
    // Shaped like the lines around it, so that whoever reads them as lines of a log can.
    let line = match format {
        LogFormat::Text => format!("{now}  INFO rmax: {words}: {url}"),
        LogFormat::Json => {
            let fields = json!({ "message": words, "setup_url": url });
            json!({ "timestamp": now, "level": "INFO", "fields": fields, "target": "rmax" }).to_string()
        }
    };
    // A console that is gone is no reason not to serve.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

async fn register_domain(config: Config, environment: Environment, output: Output) -> Result<(), CliError> {
    let local = LocalStore::open(config, environment, output).await?;
    let done = local.change(async { Ok(()) }).await;
    local.store().close().await;
    done
}

fn server_config(config: Config, environment: &Environment) -> rlinks_server::Config {
    rlinks_server::Config {
        listen: config.listen,
        control_listen: config.control_listen,
        serve_admin: config.serve_admin,
        insecure_cookies: config.insecure_cookies,
        threads: config.threads,
        connections: config.connections,
        cache_bytes: config.cache_bytes,
        short_urls: config.short_urls(),
        own_host: config.own_host(),
        reloadable: config.reloadable,
        tls: config.tls,
        hsts_seconds: config.hsts_seconds,
        data: config.data,
        journal_bytes: config.journal_bytes,
        journal_sync: config.journal_sync,
        geoip: config.geoip,
        oidc: config.oidc,
        safety: config.safety,
        domain_checks: config.domain_checks,
        target_changes_per_minute: config.target_changes_per_minute,
        removals_per_minute: config.removals_per_minute,
        resource_limits: config.resource_limits,
        audit_key: config.audit_key,
        audit_push: AuditPushSettings {
            destinations: config.audit_push,
            options: local_store::aws_variables(environment),
        },
        archive: config
            .archive
            .map(|destination| Archive { destination, options: local_store::aws_variables(environment) }),
    }
}

/// The configuration in force: as a file that could be used, or for programs.
fn print_config(config: &Config, output: Output) -> Result<(), CliError> {
    if output.json {
        let settings: Map<String, Value> = config
            .effective
            .iter()
            .map(|shown| (shown.key.to_owned(), json!({ "value": shown.value, "from": shown.from })))
            .collect();
        return output.object(&json!({ "env": config.env, "file": config.file, "settings": settings }));
    }
    let file = config.file.as_ref().map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
    output.line(&format!("# environment {}, {file}", config.env))?;
    let settings: Vec<(String, &str)> = config
        .effective
        .iter()
        .map(|shown| (format!("{} = {}", shown.key, as_toml(&shown.value)), shown.from.as_str()))
        .collect();
    let width = settings.iter().map(|(setting, _)| setting.chars().count()).max().unwrap_or_default();
    settings.iter().try_for_each(|(setting, from)| output.line(&format!("{setting:width$}  # {from}")))
}

/// A value as the file has it. JSON looks the same, but for tables.
fn as_toml(value: &Value) -> String {
    let has_tables = value.as_array().is_some_and(|list| list.iter().any(Value::is_object));
    let table = has_tables.then(|| toml::Value::try_from(value).ok()).flatten();
    table.map_or_else(|| value.to_string(), |table| table.to_string())
}
