//! How a command ends: what went wrong, what to do about it, and the exit code. All exit codes are mapped here.

use std::process::ExitCode;

use rlinks_clicks::export::ExportError;
use rlinks_clicks::stats::StatsError;
use rlinks_core::error_code::{self, ErrorCode};
use rlinks_core::{FieldError, FieldErrors};
use rlinks_ops::{OpsError, Thing, safety};
use rlinks_server::ServeError;
use rlinks_store::StoreError;
use rlinks_store::clock::Clock;
use serde_json::{Value, json};

/// Why a command did not do what was asked, and the ways out.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    hints: Vec<String>,
}

#[derive(Debug)]
enum Kind {
    /// Typed or configured wrongly.
    Usage(String),
    /// Not done, or something found that should not be.
    Failed(String),
    /// Something is in the way that somebody else made or does.
    Conflict(String),
    /// The operation's own word.
    Ops(OpsError),
    /// The word of a server, or about one.
    Server(Refusal),
    /// Nobody reads our output any more, as in `rmax links list | head`.
    OutputClosed,
}

/// What a server said, as its envelope has it.
#[derive(Debug)]
struct Refusal {
    code: ErrorCode,
    message: String,
    details: Value,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage(message.into()), hints: Vec::new() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { kind: Kind::Failed(message.into()), hints: Vec::new() }
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self { kind: Kind::Conflict(message.into()), hints: Vec::new() }
    }

    /// Values that break a rule, of which more was said already.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        let refusal =
            Refusal { code: ErrorCode::ValidationFailed, message: message.into(), details: Value::Null };
        Self { kind: Kind::Server(refusal), hints: Vec::new() }
    }

    /// For what has no meaning at Cloudflare.
    pub(crate) fn needs_store() -> Self {
        Self::usage("this needs a store or a server; at Cloudflare `rmax links` and `rmax audit` work")
            .hint("choose with --env an environment of rmax.toml that has a `store` or a `server`")
    }

    pub(crate) fn not_found(what: Thing) -> Self {
        OpsError::NotFound(what).into()
    }

    /// What a server said. Fields that break a rule read as if they had been found here.
    pub(crate) fn of_server(code: ErrorCode, message: impl Into<String>, details: Value) -> Self {
        if code == ErrorCode::ValidationFailed
            && let Some(fields) = details.get("fields")
            && let Ok(fields) = serde_json::from_value::<FieldErrors>(fields.clone())
        {
            return fields.into();
        }
        Self { kind: Kind::Server(Refusal { code, message: message.into(), details }), hints: Vec::new() }
    }

    /// The same as an error of our own, which knows its ways out, where that is what the server said.
    #[must_use]
    pub(crate) fn known_as(self, candidates: impl IntoIterator<Item = OpsError>) -> Self {
        let Kind::Server(refusal) = &self.kind else { return self };
        let known = candidates
            .into_iter()
            .find(|error| error.code() == refusal.code && error.to_string() == refusal.message);
        known.map_or(self, Self::from)
    }

    /// A detail the server gave.
    pub(crate) fn detail(&self, name: &str) -> Option<&Value> {
        match &self.kind {
            Kind::Server(refusal) => refusal.details.get(name),
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
            Kind::Usage(_) => ErrorCode::BadRequest,
            Kind::Failed(_) | Kind::OutputClosed => ErrorCode::Internal,
            Kind::Conflict(_) => ErrorCode::Conflict,
            Kind::Ops(error) => error.code(),
            Kind::Server(refusal) => refusal.code,
        }
    }

    /// Whether it may be over by itself.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.code(), ErrorCode::KvUnavailable | ErrorCode::RateLimited)
    }

    /// What happened, a line for each.
    pub(crate) fn messages(&self) -> Vec<String> {
        match &self.kind {
            Kind::Usage(message) | Kind::Failed(message) | Kind::Conflict(message) => vec![message.clone()],
            Kind::Ops(OpsError::Invalid(fields)) => fields.0.iter().map(FieldError::to_string).collect(),
            // SQLite tells of damage in several lines.
            Kind::Ops(error) => vec![one_line(&error.to_string())],
            Kind::Server(refusal) => vec![one_line(&refusal.message)],
            Kind::OutputClosed => Vec::new(),
        }
    }

    /// The ways out.
    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Whether there is nothing to say: nobody reads what we write any more.
    pub(crate) fn is_output_closed(&self) -> bool {
        matches!(self.kind, Kind::OutputClosed)
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
            Kind::Ops(OpsError::Invalid(fields)) => {
                (ErrorCode::ValidationFailed.message().to_owned(), json!({ "fields": fields }))
            }
            Kind::Ops(OpsError::Store(StoreError::CodeTaken { deleted: true, .. })) => {
                (self.messages().join("; "), json!({ "deleted": true }))
            }
            Kind::Ops(OpsError::Unsafe(reason)) => (self.messages().join("; "), json!(reason)),
            Kind::Server(refusal) => (self.messages().join("; "), refusal.details.clone()),
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

impl From<OpsError> for Failure {
    fn from(error: OpsError) -> Self {
        let hints = match &error {
            OpsError::Store(error) => ways_out(error),
            OpsError::Deleted(Thing::Workspace(slug)) => {
                vec![format!("`rmax workspaces restore {slug}` brings it back")]
            }
            OpsError::Deleted(Thing::Link(code) | Thing::LinkAt(code, _)) => {
                vec![format!("`rmax links restore {code}` brings it back")]
            }
            OpsError::NotFound(Thing::Workspace(_)) => {
                vec!["`rmax workspaces list` shows the ones there are".to_owned()]
            }
            OpsError::NotFound(Thing::Link(_)) => {
                vec!["`rmax links list` shows the ones there are; `rmax links set` makes one".to_owned()]
            }
            OpsError::NotFound(Thing::LinkAt(code, _)) => {
                vec![format!("`rmax links history {code}` shows when it was made")]
            }
            OpsError::NotFound(Thing::User(_)) => {
                vec!["`rmax users list` shows the ones there are".to_owned()]
            }
            OpsError::NotFound(Thing::Key(_)) => vec!["`rmax keys list` shows the ones there are".to_owned()],
            OpsError::NotFound(Thing::Domain(_)) => {
                vec!["`rmax domains list` shows the ones there are".to_owned()]
            }
            OpsError::Unsafe(reason) if reason.source == safety::Source::Blocklist => {
                vec!["the list is the file that `safety.blocklist_path` names".to_owned()]
            }
            OpsError::Invalid(_)
            | OpsError::Stale(_)
            | OpsError::Forbidden(_)
            | OpsError::HostKept { .. }
            | OpsError::HostHeld { .. }
            | OpsError::NotAsked(_)
            | OpsError::Deleted(_)
            | OpsError::Unsafe(_)
            | OpsError::Unchecked(_) => Vec::new(),
        };
        Self { kind: Kind::Ops(error), hints }
    }
}

fn ways_out(error: &StoreError) -> Vec<String> {
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
        | StoreError::RateLimited { .. }
        | StoreError::LastAdmin
        | StoreError::NotFound(_) => {
            return Vec::new();
        }
    };
    vec![hint]
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        OpsError::Store(error).into()
    }
}

/// What a question about clicks gets.
impl From<StatsError> for Failure {
    fn from(error: StatsError) -> Self {
        match error {
            StatsError::Question(field) => field.into(),
            StatsError::Store(error) => error.into(),
        }
    }
}

/// What became of clicks on their way out.
impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Place(why) => Self::usage(why),
            ExportError::Exists(_) => {
                Self::conflict(error.to_string()).hint("choose another name, or replace it with --force")
            }
            ExportError::Busy => Self::conflict(error.to_string()).hint("wait until it is done, and repeat"),
            ExportError::Failed(why) => Self::failed(why),
            ExportError::Store(error) => error.into(),
        }
    }
}

impl From<FieldErrors> for Failure {
    fn from(errors: FieldErrors) -> Self {
        OpsError::Invalid(errors).into()
    }
}

impl From<FieldError> for Failure {
    fn from(error: FieldError) -> Self {
        FieldErrors::from(error).into()
    }
}

impl From<ServeError> for Failure {
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
            | ServeError::System(_) => Self::failed(error.to_string()),
        }
    }
}

/// Writing to stdout.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self { kind: Kind::OutputClosed, hints: Vec::new() };
        }
        Self::failed(format!("the output cannot be written: {error}"))
    }
}
