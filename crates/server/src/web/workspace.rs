//! The workspace's pages. Each calls the same operations as the API, with the same rules about who may do what.
//!
//! | to find | look in |
//! |---|---|
//! | asking once before something is done | [`ConfirmPage`], used by all |
//! | the audit log | `audit`; what an entry changed is in `audit_details` |
//! | keys, members, domains | `api_keys`, `members`, `domains`; where a member is signed in, `member_sessions` |
//! | the policy and the workspace's name | `policy`; what its fields mean is in `policy_fields` |
//! | files of links | `import`; how they arrive is in `upload` |

pub(crate) mod api_keys;
mod audit;
pub(crate) mod audit_details;
mod domains;
mod import;
mod member_sessions;
mod members;
mod policy;
pub(crate) mod policy_fields;
mod upload;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use axum::routing::{get, post};
use rlinks_core::{ApiKey, FieldErrors};
use rlinks_store::{CreatedWithKeys, OpenInvitation};

pub(super) use self::members::links_after_removal;
use super::{PageError, Web, render_page};
use crate::auth::session::CurrentSession;
use crate::web::extract::WebRequest;

/// The routes of the workspace.
pub fn routes() -> Router<Arc<Web>> {
    Router::new()
        .route("/admin/stats", get(crate::web::statistics::workspace::show))
        .route("/admin/audit", get(audit::show))
        .route("/admin/audit/export", get(audit::export))
        .route(
            "/admin/keys",
            get(crate::web::workspace::api_keys::show).post(crate::web::workspace::api_keys::create),
        )
        .route("/admin/keys/{id}/revoke", post(crate::web::workspace::api_keys::revoke))
        .route("/admin/keys/{id}/rotate", post(crate::web::workspace::api_keys::rotate))
        .route("/admin/members", get(members::show).post(members::invite))
        .route("/admin/members/{id}/invite", post(members::invite_again))
        .route("/admin/members/{id}/sessions", get(member_sessions::show))
        .route("/admin/members/{id}/sessions/end", post(member_sessions::end_all))
        .route("/admin/members/{id}/sessions/{session}/end", post(member_sessions::end_one))
        .route("/admin/members/{id}/role", post(members::change_role))
        .route("/admin/members/{id}/suspend", post(members::suspend))
        .route("/admin/members/{id}/activate", post(members::activate))
        .route("/admin/members/{id}/delete", post(members::remove))
        .route("/admin/domains", get(domains::show).post(domains::add))
        .route("/admin/domains/{host}/primary", post(domains::make_primary))
        .route("/admin/domains/{host}/remove", post(domains::remove))
        .route("/admin/domains/{host}/verify", post(domains::verify))
        .route("/admin/policy", get(policy::show).post(policy::change))
        .route("/admin/workspace/name", post(policy::rename))
        .route(
            "/admin/import",
            get(import::show)
                .post(import::preview_or_import)
                .layer(DefaultBodyLimit::max(upload::MAX_BODY_BYTES)),
        )
        .route("/admin/export", get(import::export))
}

/// Asks once, before something is done that is not easily undone. The same form comes back with `confirmed`.
#[derive(Template)]
#[template(path = "workspace/confirm.html")]
pub struct ConfirmPage<'a> {
    pub current: &'a CurrentSession,
    pub title: String,
    /// What it means, a paragraph each.
    pub words: Vec<String>,
    /// Where the form goes.
    pub action: String,
    /// What it says besides.
    pub fields: Vec<(&'static str, String)>,
    /// What the button says.
    pub button: &'static str,
    /// Where one goes who thinks better of it.
    pub back: &'static str,
}

impl ConfirmPage<'_> {
    fn respond(&self) -> Result<Response, PageError> {
        render_page(self)
    }
}

/// Asks once before keys are revoked, and names what ends with them. The form comes back with `confirmed`, and with the box that keeps it
/// all where that was ticked.
#[derive(Template)]
#[template(path = "workspace/confirm_revocation.html")]
struct ConfirmRevocationPage<'a> {
    current: &'a CurrentSession,
    title: String,
    /// What it means, a paragraph each.
    words: Vec<String>,
    action: String,
    ends_too_title: &'static str,
    /// Keys and invitations that end with it.
    ends_too: Vec<String>,
    /// How many there are besides.
    more: usize,
    /// Name and label of the box that keeps them.
    keep: (&'static str, &'static str),
    button: &'static str,
    back: &'static str,
}

/// Keys and invitations named on one page.
const MAX_LISTED: usize = 100;

impl ConfirmRevocationPage<'_> {
    fn respond(mut self) -> Result<Response, PageError> {
        self.more = self.ends_too.len().saturating_sub(MAX_LISTED);
        self.ends_too.truncate(MAX_LISTED);
        render_page(&self)
    }
}

/// Keys and invitations in words.
fn describe_created(created: &CreatedWithKeys) -> Vec<String> {
    let key = |key: &ApiKey| {
        format!("the key “{}” ({}…), which may {}", key.name, key.prefix, key.scopes.to_text())
    };
    let invitation =
        |one: &OpenInvitation| format!("the invitation of {} as {}", one.user.email, one.user.role);
    created.keys.iter().map(key).chain(created.invitations.iter().map(invitation)).collect()
}

/// What was asked for comes back with this once somebody has confirmed it.
fn is_confirmed(form: &crate::web::extract::Form) -> bool {
    form.get("confirmed") == "yes"
}

/// What was done, in words: the page one is led to after a form says it.
fn flash_text<'a>(request: &WebRequest, words: &[(&str, &'a str)]) -> Option<&'a str> {
    let done = request.query_param("done")?;
    words.iter().find(|(name, _)| *name == done).map(|(_, said)| *said)
}

/// What is wrong with a field, for the line beside it.
pub fn field_error<'a>(errors: &'a FieldErrors, field: &str) -> Option<&'a str> {
    errors.0.iter().find(|error| error.field == field).map(|error| error.message.as_str())
}
