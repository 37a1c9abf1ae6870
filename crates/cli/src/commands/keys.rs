//! `rmax keys`: what programs sign in with.

use rlinks_core::draft::{TimeInput, expiry};
use rlinks_core::key::Secret;
use rlinks_core::{ApiKey, FieldErrors, Scope, Scopes, Timestamp};
use rlinks_server::ops::people::KeyDraft;
use serde_json::{Value, json};

use crate::args::Keys;
use crate::error::Failure;
use crate::session::Session;

/// Keys read at once.
const PAGE: i64 = 500;

pub(super) async fn run(session: &Session, command: Keys) -> Result<(), Failure> {
    match command {
        Keys::Create { name, scopes, user, expires } => {
            create(session, &name, &scopes, user.as_deref(), expires).await
        }
        Keys::List => list(session).await,
        Keys::Revoke { id } => revoke(session, &id).await,
        Keys::Rotate { id } => rotate(session, &id).await,
    }
}

/// A key as programs see it.
fn object(key: &ApiKey, now: Timestamp) -> Value {
    json!({
        "id": key.id, "name": key.name, "prefix": key.prefix, "scopes": key.scopes, "user": key.user,
        "status": key.status(now), "created_at": key.created_at, "expires_at": key.expires_at,
        "last_used_at": key.last_used_at, "usage_count": key.usage_count,
    })
}

async fn create(
    session: &Session,
    name: &str,
    scopes: &[String],
    user: Option<&str>,
    expires: Option<String>,
) -> Result<(), Failure> {
    let mut errors = FieldErrors::default();
    let name = errors.take(ApiKey::parse_name(name));
    let scopes = if scopes.is_empty() { Some(Scopes::DEFAULT) } else { errors.take(Scopes::parse(scopes)) };
    let expires_at = expires.and_then(|text| errors.take(expiry(&TimeInput::Text(text), session.now())));
    let (Some(name), Some(scopes), true) = (name, scopes, errors.0.is_empty()) else {
        return Err(errors.into());
    };
    let workspace = session.workspace().await?;
    let user = match user {
        Some(who) => Some(session.ops.member(&workspace, who).await?),
        None => None,
    };
    if let Some(user) = user.as_ref().filter(|user| !scopes.are_within(user.role.scopes())) {
        session.output.warning(&format!(
            "{} is a {}, so this key can do no more than a {} can",
            user.email, user.role, user.role
        ));
    }
    let draft = KeyDraft { name, scopes, user: user.map(|user| user.id), expires_at };
    let by = session.by();
    let change = async { Ok(session.ops.create_key(&by, &workspace, &draft).await?) };
    let (key, secret) = session.change(change).await?;
    show(session, &key, &secret)
}

/// The key, alone on stdout.
fn show(session: &Session, key: &ApiKey, secret: &Secret) -> Result<(), Failure> {
    if session.output.json {
        let mut body = object(key, session.now());
        body["key"] = secret.reveal().into();
        return session.output.object(&body);
    }
    session.output.line(secret.reveal())?;
    session.output.note(&format!("key {} ({}); it is shown this once and kept nowhere", key.id, key.name));
    Ok(())
}

async fn list(session: &Session) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let (mut keys, mut before) = (Vec::new(), None);
    loop {
        let page = session.store().keys(workspace.id, None, before, PAGE).await?;
        before = page.last().map(|key| key.id);
        keys.extend(page);
        if before.is_none() || keys.len() % usize::try_from(PAGE).unwrap_or(1) != 0 {
            break;
        }
    }
    let now = session.now();
    if session.output.json {
        return session.output.object(&keys.iter().map(|key| object(key, now)).collect::<Vec<_>>());
    }
    if keys.is_empty() {
        session.output.note("no keys; `rmax keys create --name <name>` makes one");
        return Ok(());
    }
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    let row = |key: &ApiKey| {
        let status = serde_json::to_value(key.status(now)).unwrap_or_default();
        vec![
            key.id.to_string(),
            key.name.clone(),
            key.prefix.clone(),
            key.scopes.iter().map(Scope::name).collect::<Vec<_>>().join(","),
            status.as_str().unwrap_or_default().to_owned(),
            time(key.expires_at),
            time(key.last_used_at),
            key.usage_count.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    session
        .output
        .table(&["ID", "NAME", "PREFIX", "SCOPES", "STATUS", "EXPIRES", "LAST USED", "REQUESTS"], &rows)
}

async fn revoke(session: &Session, id: &str) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let key = session.ops.key(&workspace, id).await?;
    let by = session.by();
    let change = async { Ok(session.ops.revoke_key(&by, &workspace, key.id).await?) };
    let revoked = session.change(change).await?;
    if session.output.json {
        return session.output.object(&object(&revoked, session.now()));
    }
    let done = if key.revoked_at.is_some() { "unchanged" } else { "revoked" };
    session.output.line(&format!("{done} key {} ({}, {}...)", key.id, key.name, key.prefix))
}

async fn rotate(session: &Session, id: &str) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let key = session.ops.key(&workspace, id).await?;
    let by = session.by();
    let change = async { Ok(session.ops.rotate_key(&by, &key).await?) };
    let (successor, secret) = session.change(change).await?;
    show(session, &successor, &secret)?;
    session.output.note(&format!("the old key {} ({}...) works for 24 hours more", key.id, key.prefix));
    Ok(())
}
