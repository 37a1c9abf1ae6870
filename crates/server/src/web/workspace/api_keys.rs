//! Keys: everybody's own, and all of them to an admin.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use rlinks_clicks::time::DAY_MS;
use rlinks_core::access::api_key::KeyStatus;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::{ApiKey, FieldCode, FieldError, FieldErrors, Id, Scope, Scopes, Timestamp};

use super::super::{PageError, Web, render_page, see_other};
use super::{ConfirmPage, ConfirmRevocationPage, describe_created, flash_text, is_confirmed};
use crate::auth::authorize::AnyScope;
use crate::auth::session::CurrentSession;
use crate::web::extract::{AuthorizedForm, AuthorizedPage, Form};
use rlinks_ops::Caller;
use rlinks_ops::OpsError;
use rlinks_ops::api_keys::{KeyAccess, KeyRequest, OnCreated};

/// Keys on a page.
const PAGE_SIZE: usize = 50;
/// Keys named in the notice about those that should be replaced.
const MAX_STALE_KEYS: i64 = 10;

/// A key as the page shows it.
struct Row {
    key: ApiKey,
    owner: String,
    status: &'static str,
    /// It can still be taken back or replaced.
    is_usable: bool,
}

/// A key that has just been made: this page is the only place it is ever in.
struct NewKey {
    name: String,
    secret: String,
}

/// A scope somebody may give.
struct ScopeOption {
    name: &'static str,
    meaning: &'static str,
    chosen: bool,
}

#[derive(Template)]
#[template(path = "workspace/api_keys.html")]
struct KeysPage<'a> {
    current: &'a CurrentSession,
    done: Option<&'static str>,
    made: Option<NewKey>,
    /// The oldest keys that haven't been rotated for a year.
    stale: Vec<ApiKey>,
    rows: Vec<Row>,
    /// Where the next page begins.
    next: Option<Id>,
    /// One's newest key: a form that knows an older one has been sent already.
    newest: String,
    problem: Option<String>,
    choices: Vec<ScopeOption>,
    name: &'a str,
    days: &'a str,
    errors: FieldErrors,
}

const FLASH_TEXTS: [(&str, &str); 2] = [
    ("revoked", "The key was revoked: no request is answered with it any more."),
    (
        "revoked_with_created",
        "The key was revoked, and so were the keys and invitations made with it. Invited members stay in the list until they are deleted or \
         invited again.",
    ),
];

/// How long a key may be made to live, in the form.
const EXPIRY_OPTIONS: [(&str, &str); 5] =
    [("", "for ever"), ("7", "7 days"), ("30", "30 days"), ("90", "90 days"), ("365", "a year")];

const fn meaning(scope: Scope) -> &'static str {
    match scope {
        Scope::LinksRead => "see links, their history and QR codes",
        Scope::LinksWrite => "make, change and restore links",
        Scope::LinksDelete => "delete links",
        Scope::AnalyticsRead => "see statistics and clicks",
        Scope::WorkspaceAdmin => "members, keys, domains, policy and the audit log",
    }
}

impl<'a> KeysPage<'a> {
    async fn new(
        web: &Web,
        current: &'a CurrentSession,
        caller: &Caller,
        before: Option<Id>,
    ) -> Result<Self, PageError> {
        let access = KeyAccess::for_caller(caller).map_err(key_page_error)?;
        let limit = i64::try_from(PAGE_SIZE).unwrap_or(i64::MAX) + 1;
        let mut keys = web.store.keys(caller.workspace.id, access.owner(), before, limit).await?;
        let more = keys.len() > PAGE_SIZE;
        keys.truncate(PAGE_SIZE);
        let next = keys.last().filter(|_| more).map(|key| key.id);
        let stale = web.ops.stale_keys(caller, MAX_STALE_KEYS).await?;
        let newest = newest_key(web, caller).await?.map(|key| key.id.to_string());
        let owners: Vec<Id> = keys.iter().filter_map(|key| key.user).collect();
        let people = web.store.users_by_id(caller.workspace.id, &owners).await?;
        let now = web.clock.now();
        let row = |key: ApiKey| {
            let owner = people.iter().find(|user| Some(user.id) == key.user);
            let status = key.status(now);
            Row {
                owner: owner.map_or_else(
                    || "nobody (made by the operator)".to_owned(),
                    |user| user.email.to_string(),
                ),
                status: match status {
                    KeyStatus::Active => "active",
                    KeyStatus::Expired => "expired",
                    KeyStatus::Revoked => "revoked",
                },
                is_usable: status == KeyStatus::Active,
                key,
            }
        };
        let choice = |scope: Scope| ScopeOption {
            name: scope.name(),
            meaning: meaning(scope),
            chosen: Scopes::DEFAULT.contains(scope),
        };
        Ok(Self {
            current,
            done: None,
            made: None,
            stale,
            rows: keys.into_iter().map(row).collect(),
            next,
            newest: newest.unwrap_or_default(),
            problem: None,
            choices: caller.scopes.iter().map(choice).collect(),
            name: "",
            days: "90",
            errors: FieldErrors::default(),
        })
    }
}

/// Why somebody has no keys, as a page says it.
fn key_page_error(error: OpsError) -> PageError {
    match error {
        OpsError::Forbidden(_) => PageError::with_message(
            ErrorCode::Forbidden,
            "Viewers have no keys. An admin can give you another role",
        ),
        error => error.into(),
    }
}

/// The newest key of whoever asks.
async fn newest_key(web: &Web, caller: &Caller) -> Result<Option<ApiKey>, PageError> {
    Ok(web.store.keys(caller.workspace.id, caller.member(), None, 1).await?.pop())
}

/// The keys, and the form for another.
pub async fn show(
    State(web): State<Arc<Web>>,
    AuthorizedPage { request, current, caller, .. }: AuthorizedPage<AnyScope>,
) -> Result<Response, PageError> {
    let before = request.query_param("before").and_then(|text| text.parse().ok()).map(Id::from_i64);
    let shown = KeysPage::new(&web, &current, &caller, before).await?;
    render_page(&KeysPage { done: flash_text(&request, &FLASH_TEXTS), ..shown })
}

/// What the form says a key is to be.
fn request_from_form(form: &Form, now: Timestamp) -> Result<KeyRequest, FieldErrors> {
    let mut errors = FieldErrors::default();
    let name = errors.ok_or_push(ApiKey::parse_name(form.get("name")));
    let chosen: Vec<Scope> =
        Scope::ALL.into_iter().filter(|scope| !form.get(scope.name()).is_empty()).collect();
    if chosen.is_empty() {
        errors.push(FieldError::new(
            "scopes",
            FieldCode::Required,
            "are missing: a key must be good for something",
        ));
    }
    let days = match form.get("days") {
        "" => None,
        text => {
            let read = text.parse::<i64>().ok().filter(|days| (1..=3650).contains(days));
            let wrong = || FieldError::new("days", FieldCode::NotATime, "must be between 1 and 3650");
            errors.ok_or_push(read.ok_or_else(wrong))
        }
    };
    let expires_at = days.map(|days| now.plus_ms(days * DAY_MS));
    errors.into_result()?;
    let scopes = Some(Scopes::new(&chosen));
    Ok(KeyRequest { name: name.unwrap_or_default(), scopes, user: None, expires_at })
}

/// Makes a key, and shows it this once.
pub async fn create(
    State(web): State<Arc<Web>>,
    AuthorizedForm { current, caller, form, .. }: AuthorizedForm<AnyScope>,
) -> Result<Response, PageError> {
    KeyAccess::for_caller(&caller).map_err(key_page_error)?;
    let again = async |errors: FieldErrors, problem: Option<String>| -> Result<KeysPage, PageError> {
        let mut again = KeysPage::new(&web, &current, &caller, None).await?;
        for choice in &mut again.choices {
            choice.chosen = !form.get(choice.name).is_empty();
        }
        Ok(KeysPage { name: form.get("name"), days: form.get("days"), errors, problem, ..again })
    };
    // A browser that is asked to reload the page of a new key sends its form again. It gets no second one.
    if let Some(latest) = newest_key(&web, &caller).await?
        && form.has("newest")
        && form.get("newest") != latest.id.to_string()
    {
        let message = format!(
            "You have made the key “{}” since this page was opened, so nothing was made now. It was shown once: \
             if you did not copy it, revoke it below. To make another key, send the form again",
            latest.name
        );
        let again = again(FieldErrors::default(), Some(message.clone())).await?;
        return Err(PageError::with_message(ErrorCode::Conflict, message).rendered_in(&again, None));
    }
    let asked = match request_from_form(&form, web.clock.now()) {
        Ok(asked) => asked,
        Err(errors) => {
            let again = again(errors, None).await?;
            return Err(PageError::new(ErrorCode::ValidationFailed).rendered_in(&again, None));
        }
    };
    web.ops.count_request(&caller)?;
    let (key, secret) = match web.ops.create_key(&caller, asked).await {
        Ok(made) => made,
        Err(error) if error.code() == ErrorCode::QuotaExceeded => {
            let refused = PageError::from(error);
            let again = again(FieldErrors::default(), Some(refused.message().to_owned())).await?;
            return Err(refused.rendered_in(&again, None));
        }
        Err(error) => return Err(error.into()),
    };
    let made = NewKey { name: key.name, secret: secret.reveal().to_owned() };
    let shown = KeysPage::new(&web, &current, &caller, None).await?;
    render_page(&KeysPage { made: Some(made), ..shown })
}

/// Takes a key back, once that was confirmed.
pub async fn revoke(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    AuthorizedForm { current, caller, form, .. }: AuthorizedForm<AnyScope>,
) -> Result<Response, PageError> {
    let (key, created) = web.ops.created_with_key(&caller, &id).await.map_err(key_page_error)?;
    if !is_confirmed(&form) {
        return ConfirmRevocationPage {
            current: &current,
            title: format!("Revoke the key “{}”?", key.name),
            words: vec![
                format!("It begins with {}. From the next request on it opens nothing.", key.prefix),
                "This cannot be undone; a program that still uses it needs another key.".to_owned(),
            ],
            action: format!("/admin/keys/{}/revoke", key.id),
            ends_too_title: "These were made with it, and end with it:",
            ends_too: describe_created(&created),
            more: 0,
            keep: ("keep_created", "Keep them: revoke only this key"),
            button: "Revoke the key",
            back: "/admin/keys",
        }
        .respond();
    }
    let on_created = if form.get("keep_created") == "yes" { OnCreated::Keep } else { OnCreated::Revoke };
    let (_, revoked) = web.ops.revoke_key(&caller, &id, on_created).await?;
    let done = if revoked.created.is_empty() { "revoked" } else { "revoked_with_created" };
    Ok(see_other(&format!("/admin/keys?done={done}"), None))
}

/// Makes a successor of a key, once that was confirmed, and shows it this once.
pub async fn rotate(
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    AuthorizedForm { current, caller, form, .. }: AuthorizedForm<AnyScope>,
) -> Result<Response, PageError> {
    let key = web.ops.key(&caller, &id).await.map_err(key_page_error)?;
    if !is_confirmed(&form) {
        return ConfirmPage {
            current: &current,
            title: format!("Replace the key “{}”?", key.name),
            words: vec![
                format!("A new key with the same rights takes the place of {}.", key.prefix),
                "The old one lives 24 hours more, so that programs can be given the new one.".to_owned(),
            ],
            action: format!("/admin/keys/{}/rotate", key.id),
            fields: Vec::new(),
            button: "Replace the key",
            back: "/admin/keys",
        }
        .respond();
    }
    web.ops.count_request(&caller)?;
    let (_, key, secret) = web.ops.rotate_key(&caller, &id).await?;
    let made = NewKey { name: key.name, secret: secret.reveal().to_owned() };
    let shown = KeysPage::new(&web, &current, &caller, None).await?;
    render_page(&KeysPage { made: Some(made), ..shown })
}
