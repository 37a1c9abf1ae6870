//! Who gave which value: defaults, the file, its section for the environment, variables, flags. The later of two wins.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use toml::{Table, Value};

use super::{EffectiveSetting, PRODUCTION_ENV, mask_password};
use crate::args::{Global, Serve};
use crate::environment::Environment;
use crate::error::CliError;
use crate::files::cannot_read;

/// Every key there is, in the order they are shown.
pub(super) const CONFIG_KEYS: [&str; 61] = [
    "domain",
    "base_domain",
    "public_scheme",
    "public_url",
    "identity",
    "data",
    "store",
    "server",
    "cloudflare.account_id",
    "cloudflare.routes",
    "cloudflare.hits",
    "listen",
    "control_listen",
    "serve_admin",
    "insecure_cookies",
    "threads",
    "cache_mb",
    "connections.max",
    "connections.per_address",
    "connections.reserved_for_redirects",
    "trusted_proxies",
    "forwarded_header",
    "country_header",
    "metrics_loopback",
    "geoip_path",
    "journal_mb",
    "journal_sync",
    "retention.archive",
    "audit.key",
    "audit.push",
    "safety.blocklist_path",
    "safety.safe_browsing_key",
    "safety.safe_browsing_url",
    "safety.when_unavailable",
    "safety.contact",
    "domain_checks.enabled",
    "domain_checks.proof",
    "domain_checks.resolver",
    "domain_checks.rdap",
    "domain_checks.points_to",
    "limits.target_changes_per_minute",
    "limits.removals_per_minute",
    "limits.keys",
    "limits.invitations",
    "limits.domains",
    "limits.live_streams",
    "limits.dns_checks_per_hour",
    "worker_id",
    "tls.cert",
    "tls.key",
    "tls.hsts",
    "oidc.issuer",
    "oidc.client_id",
    "oidc.client_secret",
    "oidc.audience",
    "oidc.algorithms",
    "oidc.scopes",
    "oidc.redirect_uri",
    "oidc.provision",
    "log.format",
    "log.level",
];

/// Keys that have another name now. The old name is an error: ignoring it would silently undo what it was set for.
const RENAMED_KEYS: [(&str, &str); 1] =
    [("brake.target_changes_per_minute", "limits.target_changes_per_minute")];

/// What is said where nothing was given and the default is the same everywhere.
const DEFAULTS: [(&str, &str); 11] = [
    ("public_scheme", "https"),
    ("listen", "127.0.0.1:8080"),
    ("serve_admin", "true"),
    ("insecure_cookies", "false"),
    ("forwarded_header", "x-forwarded-for"),
    ("metrics_loopback", "false"),
    ("journal_sync", "interval"),
    ("safety.when_unavailable", "allow"),
    ("domain_checks.enabled", "false"),
    ("domain_checks.proof", "false"),
    ("log.format", "text"),
];

/// Variables that stand for flags rather than keys, and the one secret: it is read where it is used, and from nowhere else.
const OTHER_VARIABLES: [&str; 4] = ["RMAX_ENV", "RMAX_WORKSPACE", "RMAX_CONFIG", "RMAX_API_KEY"];

/// Where a value came from; the later wins.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    Default,
    File(PathBuf),
    Section(PathBuf, String),
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::File(path) => write!(out, "{}", path.display()),
            Self::Section(path, env) => write!(out, "{} [env.{env}]", path.display()),
            Self::Variable(name) => out.write_str(name),
            Self::Flag(name) => out.write_str(name),
        }
    }
}

/// A value somebody gave.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    value: Value,
    pub(super) origin: Origin,
}

impl Setting {
    /// As text, where it is one.
    pub(super) fn text(&self) -> Option<String> {
        self.value.as_str().map(str::to_owned)
    }

    /// Why it cannot be. The value is not repeated: it may be a secret.
    pub(super) fn invalid(&self, key: &str, why: &str) -> CliError {
        CliError::usage(match &self.origin {
            Origin::File(_) | Origin::Section(..) => format!("{}: `{key}` {why}", self.origin),
            Origin::Default | Origin::Variable(_) | Origin::Flag(_) => format!("{} {why}", self.origin),
        })
    }
}

/// A list that was configured.
struct GivenList<T> {
    /// What it means.
    parsed: Vec<T>,
    texts: Vec<String>,
    origin: Origin,
}

/// All that was given.
pub(super) struct Layers {
    pub(super) env: String,
    /// The workspace somebody named.
    pub(super) workspace: Option<String>,
    pub(super) file: Option<PathBuf>,
    /// The environments of the file that point at Cloudflare.
    cloudflare_environments: Vec<String>,
    settings: BTreeMap<&'static str, Vec<Setting>>,
    effective: Vec<EffectiveSetting>,
}

impl Layers {
    pub(super) fn collect(
        global: &Global,
        serve: Option<&Serve>,
        environment: &Environment,
    ) -> Result<Self, CliError> {
        let or_variable = |flag: &Option<String>, name: &str| {
            flag.clone().or_else(|| environment.text(name).map(str::to_owned))
        };
        let mut layers = Self {
            env: or_variable(&global.env, "RMAX_ENV").unwrap_or_else(|| PRODUCTION_ENV.to_owned()),
            workspace: or_variable(&global.workspace, "RMAX_WORKSPACE"),
            file: find_file(global, environment),
            cloudflare_environments: Vec::new(),
            settings: BTreeMap::new(),
            effective: Vec::new(),
        };
        let known = layers.read_file()?;
        if layers.env != PRODUCTION_ENV && !known.contains(&layers.env) {
            return Err(unknown_environment(&layers.env, &known, layers.file.as_deref()));
        }
        layers.read_variables(environment)?;
        layers.read_flags(global, serve);
        Ok(layers)
    }

    /// Takes the file's values and gives the names of its environments.
    fn read_file(&mut self) -> Result<Vec<String>, CliError> {
        let Some(path) = self.file.clone() else { return Ok(Vec::new()) };
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let reason = cannot_read(&path, &error).messages().join(" ");
            CliError::usage(format!("the configuration {reason}"))
        })?;
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
            CliError::usage(format!("{}: {}", path.display(), syntax(&error, &text)))
        })?;
        let environments = match table.remove("env") {
            None => Table::new(),
            Some(Value::Table(environments)) => environments,
            Some(_) => {
                return Err(CliError::usage(format!(
                    "{}: `env` must be sections like [env.production]",
                    path.display()
                )));
            }
        };
        let top = Origin::File(path.clone());
        each_key("", table, &top, &mut |key, value| self.set(key, value, top.clone()))?;
        let known = environments.keys().cloned().collect();
        for (name, section) in environments {
            let origin = Origin::Section(path.clone(), name.clone());
            let Value::Table(section) = section else {
                return Err(CliError::usage(format!("{}: `env.{name}` must be a section", path.display())));
            };
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
                return Err(CliError::usage(format!(
                    "{origin}: the name of an environment has letters, digits, hyphens and underscores only"
                )));
            }
            if section.contains_key("cloudflare") {
                self.cloudflare_environments.push(name.clone());
            }
            // Every section is checked, and only the chosen one is kept.
            let chosen = name == self.env;
            each_key("", section, &origin, &mut |key, value| {
                if chosen {
                    self.set(key, value, origin.clone());
                }
            })?;
        }
        Ok(known)
    }

    fn read_variables(&mut self, environment: &Environment) -> Result<(), CliError> {
        for (old, new) in RENAMED_KEYS.map(|(old, new)| (variable(old), variable(new))) {
            if environment.get(&old).is_some() {
                return Err(CliError::usage(format!("the variable {old} is called {new} now; rename it")));
            }
        }
        for key in CONFIG_KEYS {
            let name = variable(key);
            if let Some(value) = environment.get(&name) {
                let text = value
                    .to_str()
                    .ok_or_else(|| CliError::usage(format!("{name} is not readable as text (UTF-8)")))?;
                self.set(key, Value::String(text.to_owned()), Origin::Variable(name));
            }
        }
        // Others may use the prefix too (a Kubernetes service called rmax does), so only what looks like a slip is worth a word.
        let known: Vec<String> =
            CONFIG_KEYS.iter().map(|key| variable(key)).chain(OTHER_VARIABLES.map(str::to_owned)).collect();
        for name in environment.names("RMAX_").filter(|name| !known.iter().any(|known| known == name)) {
            if let Some(meant) = closest(name, known.iter().map(String::as_str), 0.9) {
                // Nobody may be listening on stderr; that must not end the command.
                let _ = writeln!(
                    std::io::stderr(),
                    "warning: the variable {name} is not known; did you mean {meant}?"
                );
            }
        }
        Ok(())
    }

    fn read_flags(&mut self, global: &Global, serve: Option<&Serve>) {
        let mut flag = |key, name, value: Option<String>| {
            if let Some(value) = value {
                self.set(key, Value::String(value), Origin::Flag(name));
            }
        };
        flag("data", "--data", global.data.as_ref().map(|path| path.to_string_lossy().into_owned()));
        if let Some(serve) = serve {
            flag("listen", "--listen", serve.listen.clone());
            flag("control_listen", "--control-listen", serve.control_listen.clone());
            flag("store", "--store", serve.store.clone());
            flag("threads", "--threads", serve.threads.map(|threads| threads.to_string()));
        }
    }

    fn set(&mut self, key: &'static str, value: Value, origin: Origin) {
        self.settings.entry(key).or_default().push(Setting { value, origin });
    }

    /// The environments of the file that point at Cloudflare.
    pub(super) fn cloudflare_environments(&self) -> &[String] {
        &self.cloudflare_environments
    }

    // ---- what was given for a key ----

    /// The value that wins.
    pub(super) fn get(&self, key: &str) -> Option<&Setting> {
        self.settings.get(key).and_then(|values| values.last())
    }

    /// Of several keys that exclude each other the one whose value came last. Two from one place are an error.
    pub(super) fn winning(&self, keys: &[&'static str]) -> Result<Option<(&'static str, Setting)>, CliError> {
        let mut best: Option<(&'static str, &Setting)> = None;
        for &key in keys {
            let Some(setting) = self.get(key) else { continue };
            match best {
                Some((other, known)) if known.origin.precedence() == setting.origin.precedence() => {
                    if key.split('.').next() != other.split('.').next() {
                        return Err(CliError::usage(format!(
                            "{}: `{other}` and `{key}` exclude each other; an environment points at one place",
                            setting.origin
                        )));
                    }
                }
                Some((_, known)) if known.origin.precedence() > setting.origin.precedence() => {}
                _ => best = Some((key, setting)),
            }
        }
        Ok(best.map(|(key, setting)| (key, setting.clone())))
    }

    /// A text with a meaning.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, CliError> {
        let Some(setting) = self.get(key).cloned() else { return Ok(None) };
        let text = setting.text().ok_or_else(|| setting.invalid(key, "must be a text in quotes"))?;
        let value = parse(&text).map_err(|why| setting.invalid(key, &why))?;
        self.show(key, mask_password(&text).into(), &setting.origin);
        Ok(Some(value))
    }

    /// A text that is shown to nobody.
    pub(super) fn secret(&mut self, key: &'static str) -> Result<Option<String>, CliError> {
        let Some(setting) = self.get(key).cloned() else { return Ok(None) };
        let text = setting.text().ok_or_else(|| setting.invalid(key, "must be a text in quotes"))?;
        if text.trim().is_empty() {
            return Err(setting.invalid(key, "is empty"));
        }
        self.show(key, "***".into(), &setting.origin);
        Ok(Some(text.trim().to_owned()))
    }

    pub(super) fn number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, CliError> {
        let Some(setting) = self.get(key).cloned() else { return Ok(None) };
        let number = match &setting.value {
            Value::Integer(number) => Some(*number),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| range.contains(number)).ok_or_else(|| {
            let why = format!("must be a whole number from {} to {}", range.start(), range.end());
            setting.invalid(key, &why)
        })?;
        self.show(key, number.into(), &setting.origin);
        Ok(Some(number))
    }

    pub(super) fn boolean(&mut self, key: &'static str) -> Result<Option<bool>, CliError> {
        let Some(setting) = self.get(key).cloned() else { return Ok(None) };
        let switch = match &setting.value {
            Value::Boolean(switch) => Some(*switch),
            Value::String(text) => match text.as_str() {
                "true" | "1" | "yes" | "on" => Some(true),
                "false" | "0" | "no" | "off" => Some(false),
                _ => None,
            },
            _ => None,
        };
        let switch = switch.ok_or_else(|| setting.invalid(key, "must be true or false"))?;
        self.show(key, switch.into(), &setting.origin);
        Ok(Some(switch))
    }

    /// A list; a variable separates by commas.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, CliError> {
        let Some(given) = self.read_list(key, parse)? else { return Ok(Vec::new()) };
        self.show(key, given.texts.into(), &given.origin);
        Ok(given.parsed)
    }

    /// The same where a value may hold a secret, and is shown without it.
    pub(super) fn list_shown_as<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
        shown: impl Fn(&T) -> String,
    ) -> Result<Vec<T>, CliError> {
        let Some(given) = self.read_list(key, parse)? else { return Ok(Vec::new()) };
        let texts: Vec<String> = given.parsed.iter().map(shown).collect();
        self.show(key, texts.into(), &given.origin);
        Ok(given.parsed)
    }

    /// A list, if one was given.
    fn read_list<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<GivenList<T>>, CliError> {
        let Some(setting) = self.get(key).cloned() else { return Ok(None) };
        let texts: Option<Vec<String>> = match &setting.value {
            Value::String(text) => Some(
                text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect(),
            ),
            Value::Array(list) => list.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        let texts = texts.ok_or_else(|| setting.invalid(key, "must be a list of texts"))?;
        let parsed: Result<Vec<T>, String> = texts.iter().map(|text| parse(text)).collect();
        let parsed = parsed.map_err(|why| setting.invalid(key, &why))?;
        Ok(Some(GivenList { parsed, texts, origin: setting.origin }))
    }

    /// A list of tables; a variable has it as JSON.
    pub(super) fn tables<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&serde_json::Map<String, Json>) -> Result<T, String>,
    ) -> Result<Vec<T>, CliError> {
        let Some(setting) = self.get(key).cloned() else { return Ok(Vec::new()) };
        let value = match &setting.value {
            Value::String(text) => serde_json::from_str(text).ok(),
            value => serde_json::to_value(value).ok(),
        };
        let tables = value
            .as_ref()
            .and_then(Json::as_array)
            .and_then(|list| list.iter().map(Json::as_object).collect::<Option<Vec<_>>>());
        let tables =
            tables.ok_or_else(|| setting.invalid(key, "must be a list of tables; in a variable, as JSON"))?;
        let parsed: Result<Vec<T>, String> = tables.into_iter().map(parse).collect();
        let parsed = parsed.map_err(|why| setting.invalid(key, &why))?;
        self.show(key, value.unwrap_or_default(), &setting.origin);
        Ok(parsed)
    }

    // ---- what is shown of it ----

    pub(super) fn show(&mut self, key: &'static str, value: Json, origin: &Origin) {
        self.effective.push(EffectiveSetting { key, value, from: origin.to_string() });
    }

    pub(super) fn show_default(&mut self, key: &'static str, value: impl Into<Json>) {
        if self.effective.iter().all(|shown| shown.key != key) {
            self.show(key, value.into(), &Origin::Default);
        }
    }

    /// Everything in force, in the order of the keys.
    pub(super) fn into_effective(mut self, threads: usize) -> Vec<EffectiveSetting> {
        for (key, text) in DEFAULTS {
            let json = match text {
                "true" => Json::Bool(true),
                "false" => Json::Bool(false),
                _ => text.into(),
            };
            self.show_default(key, json);
        }
        self.show_default("threads", threads);
        self.effective.sort_by_key(|shown| CONFIG_KEYS.iter().position(|key| *key == shown.key));
        self.effective
    }
}

impl Origin {
    /// Its rank. The file's top and a section differ; two variables do not.
    pub(super) fn precedence(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File(_) => 1,
            Self::Section(..) => 2,
            Self::Variable(_) => 3,
            Self::Flag(_) => 4,
        }
    }
}

/// The file that was named, or the first there is.
fn find_file(global: &Global, environment: &Environment) -> Option<PathBuf> {
    let named = global.config.clone().or_else(|| environment.get("RMAX_CONFIG").map(PathBuf::from));
    if named.is_some() {
        return named;
    }
    let home = environment.get("HOME").map(|home| Path::new(home).join(".config"));
    let folder = environment.get("XDG_CONFIG_HOME").map(PathBuf::from).or(home);
    let places = [Some(PathBuf::from("rmax.toml")), folder.map(|folder| folder.join("rmax/rmax.toml"))];
    places.into_iter().flatten().find(|place| place.exists())
}

/// Every key of a table, with the names of inner tables before a dot.
fn each_key(
    prefix: &str,
    table: Table,
    origin: &Origin,
    each: &mut impl FnMut(&'static str, Value),
) -> Result<(), CliError> {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        let group = format!("{key}.");
        match value {
            Value::Table(inner) if CONFIG_KEYS.iter().any(|known| known.starts_with(&group)) => {
                each_key(&group, inner, origin, each)?;
            }
            value => {
                let known = CONFIG_KEYS.iter().find(|known| **known == key);
                each(known.ok_or_else(|| unknown_key(&key, origin))?, value);
            }
        }
    }
    Ok(())
}

/// The variable of a key.
fn variable(key: &str) -> String {
    format!("RMAX_{}", key.replace('.', "_").to_ascii_uppercase())
}

/// A syntax error in one line, without the excerpt: a line of the file may hold a password.
fn syntax(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    match line {
        Some(line) => format!("line {line}: {}", error.message()),
        None => error.message().to_owned(),
    }
}

fn unknown_key(key: &str, origin: &Origin) -> CliError {
    let section = format!("{key}.");
    if let Some((old, new)) = RENAMED_KEYS.iter().find(|(old, _)| *old == key || old.starts_with(&section)) {
        return CliError::usage(format!("{origin}: `{old}` is called `{new}` now; rename it"));
    }
    // Files are copied, committed and shown to others.
    if ["api_key", "rmax_api_key"].iter().any(|known| key.eq_ignore_ascii_case(known)) {
        return CliError::usage(format!(
            "{origin}: an API key is never read from a file; take it out of there"
        ))
        .hint("set the variable RMAX_API_KEY instead");
    }
    if ["cloudflare_api_token", "api_token", "cloudflare.token", "cloudflare.api_token"]
        .iter()
        .any(|known| key.eq_ignore_ascii_case(known))
    {
        return CliError::usage(format!(
            "{origin}: a token of Cloudflare's is never read from a file; take it out of there"
        ))
        .hint("set the variable CLOUDFLARE_API_TOKEN instead");
    }
    let failure = CliError::usage(format!("{origin}: `{key}` is no key of the configuration"));
    match closest(key, CONFIG_KEYS.into_iter().chain(["env"]), 0.7) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint(format!("the keys are {}", CONFIG_KEYS.join(", "))),
    }
}

fn unknown_environment(name: &str, known: &[String], file: Option<&Path>) -> CliError {
    let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
    if !names.contains(&PRODUCTION_ENV) {
        names.insert(0, PRODUCTION_ENV);
    }
    let failure = CliError::usage(format!("there is no environment `{name}`; there is {}", names.join(", ")));
    match (closest(name, names.iter().copied(), 0.7), file) {
        (Some(meant), _) => failure.hint(format!("did you mean `--env {meant}`?")),
        (None, Some(file)) => failure.hint(format!("add a section [env.{name}] to {}", file.display())),
        (None, None) => failure.hint(format!("add a section [env.{name}] to a file rmax.toml here")),
    }
}

fn closest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>, least: f64) -> Option<&'a str> {
    let scored = candidates.map(|candidate| (strsim::jaro_winkler(text, candidate), candidate));
    scored
        .filter(|(score, _)| *score >= least)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
