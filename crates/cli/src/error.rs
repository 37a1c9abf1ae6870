//! How a command ends: what went wrong, what to do about it, and the exit code. All exit codes are mapped here.

use std::process::ExitCode;

use rlinks_clicks::export::ExportError;
use rlinks_clicks::stats::StatsError;
use rlinks_core::error_code::{self, ErrorCode};
use rlinks_core::{FieldError, FieldErrors};
use rlinks_ops::{OpsError, Resource, safety};
use rlinks_server::ServeError;
use rlinks_store::StoreError;
use rlinks_store::clock::Clock;
use serde_json::{Value, json};

/// Why a command did not do what was asked, and the ways out.
#[derive(Debug)]
pub(crate) struct CliError {
    kind: ErrorKind,
    hints: Vec<String>,
}

#[derive(Debug)]
enum ErrorKind {
    /// Typed or configured wrongly.
    Usage(String),
    /// Not done, or something found that should not be.
    Failed(String),
    /// Something is in the way that somebody else made or does.
    Conflict(String),
    /// The operation's own word.
    Ops(OpsError),
    /// The word of a server, or about one.
    Server(ServerError),
    /// Nobody reads our output any more, as in `rmax links list | head`.
    OutputClosed,
}

/// What a server said, as its envelope has it.
#[derive(Debug)]
struct ServerError {
    code: ErrorCode,
    message: String,
    details: Value,
}

impl CliError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Usage(message.into()), hints: Vec::new() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Failed(message.into()), hints: Vec::new() }
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Conflict(message.into()), hints: Vec::new() }
    }

    /// Values that break a rule, of which more was said already.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        let refusal =
            ServerError { code: ErrorCode::ValidationFailed, message: message.into(), details: Value::Null };
        Self { kind: ErrorKind::Server(refusal), hints: Vec::new() }
    }

    /// For what has no meaning at Cloudflare.
    pub(crate) fn needs_store() -> Self {
        Self::usage("this needs a store or a server; at Cloudflare `rmax links` and `rmax audit` work")
            .hint("choose with --env an environment of rmax.toml that has a `store` or a `server`")
    }

    pub(crate) fn not_found(what: Resource) -> Self {
        OpsError::NotFound(what).into()
    }

    /// What a server said. Fields that break a rule read as if they had been found here.
    pub(crate) fn from_server(code: ErrorCode, message: impl Into<String>, details: Value) -> Self {
        if code == ErrorCode::ValidationFailed
            && let Some(fields) = details.get("fields")
            && let Ok(fields) = serde_json::from_value::<FieldErrors>(fields.clone())
        {
            return fields.into();
        }
        Self {
            kind: ErrorKind::Server(ServerError { code, message: message.into(), details }),
            hints: Vec::new(),
        }
    }

    /// The same as an error of our own, which knows its ways out, where that is what the server said.
    #[must_use]
    pub(crate) fn into_local_error(self, candidates: impl IntoIterator<Item = OpsError>) -> Self {
        let ErrorKind::Server(refusal) = &self.kind else { return self };
        let known = candidates
            .into_iter()
            .find(|error| error.code() == refusal.code && error.to_string() == refusal.message);
        known.map_or(self, Self::from)
    }

    /// A detail the server gave.
    pub(crate) fn detail(&self, name: &str) -> Option<&Value> {
        match &self.kind {
            ErrorKind::Server(refusal) => refusal.details.get(name),
            _ => None,
        }
    }

    /// Adds a way out.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The error as programs know it.
    pub(crate) fn code(&self) -> ErrorCode {
        match &self.kind {
            ErrorKind::Usage(_) => ErrorCode::BadRequest,
            ErrorKind::Failed(_) | ErrorKind::OutputClosed => ErrorCode::Internal,
            ErrorKind::Conflict(_) => ErrorCode::Conflict,
            ErrorKind::Ops(error) => error.code(),
            ErrorKind::Server(refusal) => refusal.code,
        }
    }

    /// Whether it may be over by itself.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self.code(), ErrorCode::KvUnavailable | ErrorCode::RateLimited)
    }

    /// What happened, a line for each.
    pub(crate) fn messages(&self) -> Vec<String> {
        match &self.kind {
            ErrorKind::Usage(message) | ErrorKind::Failed(message) | ErrorKind::Conflict(message) => {
                vec![message.clone()]
            }
            ErrorKind::Ops(OpsError::Invalid(fields)) => fields.0.iter().map(FieldError::to_string).collect(),
            // SQLite tells of damage in several lines.
            ErrorKind::Ops(error) => vec![one_line(&error.to_string())],
            ErrorKind::Server(refusal) => vec![one_line(&refusal.message)],
            ErrorKind::OutputClosed => Vec::new(),
        }
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Whether there is nothing to say: nobody reads what we write any more.
    pub(crate) fn is_output_closed(&self) -> bool {
        matches!(self.kind, ErrorKind::OutputClosed)
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.is_output_closed() {
            return ExitCode::SUCCESS;
        }
        ExitCode::from(exit_code(self.code()))
    }

    /// The error as the API would give it.
    pub(crate) fn envelope(&self) -> String {
        let (message, details) = match &self.kind {
            ErrorKind::Ops(OpsError::Invalid(fields)) => {
                (ErrorCode::ValidationFailed.message().to_owned(), json!({ "fields": fields }))
            }
            ErrorKind::Ops(OpsError::Store(StoreError::CodeTaken { deleted: true, .. })) => {
                (self.messages().join("; "), json!({ "deleted": true }))
            }
            ErrorKind::Ops(OpsError::Unsafe(reason)) => (self.messages().join("; "), json!(reason)),
            ErrorKind::Server(refusal) => (self.messages().join("; "), refusal.details.clone()),
            _ => (self.messages().join("; "), Value::Null),
        };
        error_code::to_json(self.code(), &message, &details, Clock::system().now())
    }
}

/// A message of several lines as one.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// The exit code of an error.
const fn exit_code(code: ErrorCode) -> u8 {
    match code {
        ErrorCode::BadRequest => 2,
        ErrorCode::NotFound => 3,
        ErrorCode::CodeTaken
        | ErrorCode::Conflict
        | ErrorCode::QuotaExceeded
        | ErrorCode::PreconditionFailed => 4,
        ErrorCode::ValidationFailed | ErrorCode::UnsafeTarget => 5,
        ErrorCode::KvUnavailable | ErrorCode::RateLimited => 6,
        ErrorCode::Unauthenticated | ErrorCode::Forbidden => 7,
        _ => 1,
    }
}

impl From<OpsError> for CliError {
    fn from(error: OpsError) -> Self {
        let hints = match &error {
            OpsError::Store(error) => hints_for(error),
            OpsError::Deleted(Resource::Workspace(slug)) => {
                vec![format!("`rmax workspaces restore {slug}` brings it back")]
            }
            OpsError::Deleted(Resource::Link(code) | Resource::LinkAt(code, _)) => {
                vec![format!("`rmax links restore {code}` brings it back")]
            }
            OpsError::NotFound(Resource::Workspace(_)) => {
                vec!["`rmax workspaces list` shows the ones there are".to_owned()]
            }
            OpsError::NotFound(Resource::Link(_)) => {
                vec!["`rmax links list` shows the ones there are; `rmax links set` makes one".to_owned()]
            }
            OpsError::NotFound(Resource::LinkAt(code, _) | Resource::LinkVersion(code, _)) => {
                vec![format!("`rmax links history {code}` shows when it was made")]
            }
            OpsError::NotFound(Resource::User(_)) => {
                vec!["`rmax users list` shows the ones there are".to_owned()]
            }
            OpsError::NotFound(Resource::Key(_)) => {
                vec!["`rmax keys list` shows the ones there are".to_owned()]
            }
            OpsError::NotFound(Resource::Session(_)) => {
                vec!["`rmax users sessions <user>` shows the ones there are".to_owned()]
            }
            OpsError::NotFound(Resource::Domain(_)) => {
                vec!["`rmax domains list` shows the ones there are".to_owned()]
            }
            OpsError::Unsafe(reason) if reason.source == safety::ThreatSource::Blocklist => {
                vec!["the list is the file that `safety.blocklist_path` names".to_owned()]
            }
            OpsError::Invalid(_)
            | OpsError::VersionMismatch(_)
            | OpsError::Forbidden(_)
            | OpsError::MissingScope(_)
            | OpsError::CreationLimit(_)
            | OpsError::RequestLimit { .. }
            | OpsError::DnsCheckLimit { .. }
            | OpsError::RemovalNeedsSession { .. }
            | OpsError::HostReserved { .. }
            | OpsError::HostClaimed { .. }
            | OpsError::Unrestorable(_)
            | OpsError::DnsUnavailable(_)
            | OpsError::Deleted(_)
            | OpsError::Unsafe(_)
            | OpsError::SafetyUnavailable(_) => Vec::new(),
        };
        Self { kind: ErrorKind::Ops(error), hints }
    }
}

fn hints_for(error: &StoreError) -> Vec<String> {
    let hint = match error {
        StoreError::CodeTaken { code, deleted: true } => {
            return vec![
                format!("`rmax links restore {code}` brings the deleted link back as it was"),
                format!("`rmax links set {code} <url> --recreate` makes a new link of it"),
            ];
        }
        StoreError::CodeTaken { code, deleted: false } => {
            format!("`rmax links get {code}` shows it; `rmax links set {code} <url>` changes it")
        }
        StoreError::TargetTaken(code) => format!("`rmax links get {code}` shows it"),
        StoreError::QuotaExceeded(_) => {
            "delete links that are no longer needed, or raise the limit with `rmax workspaces policy --set limits.live_links=<n>`".to_owned()
        }
        StoreError::Unavailable(_) | StoreError::ClicksUnavailable(_) | StoreError::Unreadable(_) => "`rmax doctor` looks closer".to_owned(),
        StoreError::NameTaken(_)
        | StoreError::Refused(_)
        | StoreError::Conflict
        | StoreError::IdempotencyKeyReused
        | StoreError::ResourceQuota { .. }
        | StoreError::RateLimited { .. }
        | StoreError::LastAdmin
        | StoreError::NotFound(_) => {
            return Vec::new();
        }
    };
    vec![hint]
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        OpsError::Store(error).into()
    }
}

/// What a question about clicks gets.
impl From<StatsError> for CliError {
    fn from(error: StatsError) -> Self {
        match error {
            StatsError::InvalidQuery(field) => field.into(),
            StatsError::Store(error) => error.into(),
        }
    }
}

/// What became of clicks on their way out.
impl From<ExportError> for CliError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::InvalidDestination(why) => Self::usage(why),
            ExportError::Exists(_) => {
                Self::conflict(error.to_string()).hint("choose another name, or replace it with --force")
            }
            ExportError::Busy => Self::conflict(error.to_string()).hint("wait until it is done, and repeat"),
            ExportError::Failed(why) => Self::failed(why),
            ExportError::Store(error) => error.into(),
        }
    }
}

impl From<FieldErrors> for CliError {
    fn from(errors: FieldErrors) -> Self {
        OpsError::Invalid(errors).into()
    }
}

impl From<FieldError> for CliError {
    fn from(error: FieldError) -> Self {
        FieldErrors::from(error).into()
    }
}

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Store(error) => error.into(),
            // These say their way out themselves.
            ServeError::AlreadyRunning(_)
            | ServeError::Listen(_)
            | ServeError::Tls(_)
            | ServeError::Oidc(_)
            | ServeError::Safety(_)
            | ServeError::DomainChecks(_)
            | ServeError::AuditPush(_)
            | ServeError::System(_) => Self::failed(error.to_string()),
        }
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self { kind: ErrorKind::OutputClosed, hints: Vec::new() };
        }
        Self::failed(format!("the output cannot be written: {error}"))
    }
}
