//! `rmax keys`: what programs sign in with.

mod installation;

use rlinks_core::access::api_key::KeyStatus;
use rlinks_core::draft::{TimeInput, parse_expiry};
use rlinks_core::{ApiKey, FieldErrors, Scope, Scopes, Timestamp};
use rlinks_ops::api_keys::{KeyRequest, OnCreated};
use rlinks_wire::key::{CreatedKey, CreatedKind, CreatedWithKey, Key};
use serde_json::json;

use crate::args::Keys;
use crate::backend::Backend;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;
use crate::output::{Confirmation, Output, confirm, is_interactive};

/// Keys read at once.
const PAGE_SIZE: i64 = 500;

pub(crate) async fn run(backend: &Backend, command: Keys) -> Result<(), CliError> {
    match command {
        Keys::Create { name, scopes, user, expires } => create(backend, &name, &scopes, user, expires).await,
        Keys::List => list(backend).await,
        Keys::Revoke { id, keep_created, yes } => {
            let created = if keep_created { OnCreated::Keep } else { OnCreated::Revoke };
            revoke(backend, &id, created, yes).await
        }
        Keys::Rotate { id } => rotate(backend, &id).await,
        Keys::RotateInstallation { key, now } => installation::rotate(backend, key, now).await,
    }
}

/// Prints the key, alone on stdout.
fn show_created(created: &CreatedKey, output: Output) -> Result<(), CliError> {
    if output.json {
        let mut body = json!(created.details);
        body["key"] = created.key.as_str().into();
        return output.object(&body);
    }
    output.line(&created.key)?;
    let Key { id, name, .. } = &created.details;
    output.note(&format!("key {id} ({name}); it is shown this once and kept nowhere"));
    Ok(())
}

async fn create(
    backend: &Backend,
    name: &str,
    scopes: &[String],
    user: Option<String>,
    expires: Option<String>,
) -> Result<(), CliError> {
    let mut errors = FieldErrors::default();
    let name = errors.ok_or_push(ApiKey::parse_name(name));
    let scopes = if scopes.is_empty() { None } else { errors.ok_or_push(Scopes::parse(scopes)) };
    let expires_at =
        expires.and_then(|text| errors.ok_or_push(parse_expiry(&TimeInput::Text(text), backend.now())));
    let (Some(name), true) = (name, errors.0.is_empty()) else {
        return Err(errors.into());
    };
    let asked = KeyRequest { name, scopes, user, expires_at };
    let made = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => create_stored(local, asked).await?,
        Backend::Server(client) => client.create_key(&asked).await?,
    };
    show_created(&made, backend.output())
}

async fn create_stored(local: &LocalStore, request: KeyRequest) -> Result<CreatedKey, CliError> {
    let workspace = local.workspace().await?;
    let user = match &request.user {
        Some(who) => Some(local.ops.member(&workspace, who).await?),
        None => None,
    };
    let scopes = request.scopes.unwrap_or(Scopes::DEFAULT);
    if let Some(user) = user.filter(|user| !scopes.is_subset(user.role.scopes())) {
        local.output.warning(&format!(
            "{} is {}, so this key can do no more than a {} can",
            user.email, user.role, user.role
        ));
    }
    let caller = local.caller_in(&workspace);
    let change = async { Ok(local.ops.create_key(&caller, request).await?) };
    let (key, secret) = local.change(change).await?;
    Ok(CreatedKey::from_key(&key, &secret, local.now()))
}

async fn list(backend: &Backend) -> Result<(), CliError> {
    let output = backend.output();
    let keys = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => list_stored(local).await?,
        Backend::Server(client) => client.keys().await?,
    };
    if output.json {
        return output.object(&json!(keys));
    }
    if keys.is_empty() {
        output.note("no keys; `rmax keys create --name <name>` makes one");
        return Ok(());
    }
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    let row = |key: &Key| {
        vec![
            key.id.to_string(),
            key.name.clone(),
            key.prefix.clone(),
            key.scopes.iter().map(Scope::name).collect::<Vec<_>>().join(","),
            json!(key.status).as_str().unwrap_or_default().to_owned(),
            time(key.expires_at),
            time(key.last_used_at),
            key.usage_count.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    output.table(&["ID", "NAME", "PREFIX", "SCOPES", "STATUS", "EXPIRES", "LAST USED", "REQUESTS"], &rows)
}

async fn list_stored(local: &LocalStore) -> Result<Vec<Key>, CliError> {
    let workspace = local.workspace().await?;
    let (mut keys, mut before) = (Vec::new(), None);
    loop {
        let page = local.store().keys(workspace.id, None, before, PAGE_SIZE).await?;
        before = page.last().map(|key| key.id);
        keys.extend(page);
        if before.is_none() || keys.len() % usize::try_from(PAGE_SIZE).unwrap_or(1) != 0 {
            break;
        }
    }
    let now = local.now();
    Ok(keys.iter().map(|key| Key::from_key(key, now)).collect())
}

/// What was made with a key and would end with it.
async fn created_with(backend: &Backend, id: &str) -> Result<Vec<CreatedWithKey>, CliError> {
    let local = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => local,
        Backend::Server(client) => return client.created_with_key(client.key(id).await?.id).await,
    };
    let workspace = local.workspace().await?;
    let (_, created) = local.ops.created_with_key(&local.caller_in(&workspace), id).await?;
    let keys = created.keys.iter().map(CreatedWithKey::from_key);
    let invitations = created
        .invitations
        .iter()
        .map(|one| CreatedWithKey::from_invitation(&one.user, one.created_at, one.expires_at));
    Ok(keys.chain(invitations).collect())
}

/// On a terminal, names what ends together with a key and asks. Without a terminal there is no one to ask, and a stolen key must not wait for it.
fn confirm_created(
    backend: &Backend,
    id: &str,
    created: &[CreatedWithKey],
    yes: bool,
) -> Result<(), CliError> {
    if created.is_empty() || yes || !is_interactive() {
        return Ok(());
    }
    for one in created {
        backend.output().note(&format!("made with key {id}: {}", describe(one)));
    }
    let what = if created.len() == 1 { "what was made with it" } else { "all that was made with it" };
    match confirm(&format!("Revoke key {id}, and {what}?"))? {
        Confirmation::Confirmed => Ok(()),
        Confirmation::Declined => {
            Err(CliError::failed("nothing was revoked").hint("`--keep-created` revokes the key alone"))
        }
    }
}

fn describe(created: &CreatedWithKey) -> String {
    let what = match created.kind {
        CreatedKind::Key => "key",
        CreatedKind::Invitation => "the invitation of",
    };
    format!("{what} {} ({})", created.name, created.id)
}

async fn revoke(backend: &Backend, id: &str, on_created: OnCreated, yes: bool) -> Result<(), CliError> {
    let created = match on_created {
        OnCreated::Revoke => created_with(backend, id).await?,
        OnCreated::Keep => Vec::new(),
    };
    confirm_created(backend, id, &created, yes)?;
    let (seen, revoked) = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let caller = local.caller_in(&workspace);
            let change = async { Ok(local.ops.revoke_key(&caller, id, on_created).await?) };
            let (key, revoked) = local.change(change).await?;
            let now = local.now();
            (Key::from_key(&key, now), Key::from_key(&revoked.key, now))
        }
        Backend::Server(client) => {
            let key = client.key(id).await?;
            client.revoke_key(key.id, on_created).await?;
            (key.clone(), Key { status: KeyStatus::Revoked, ..key })
        }
    };
    if backend.output().json {
        let mut body = json!(revoked);
        body["created"] = json!(created);
        return backend.output().object(&body);
    }
    let done = if seen.status == KeyStatus::Revoked { "unchanged" } else { "revoked" };
    backend.output().line(&format!("{done} key {} ({}, {}...)", seen.id, seen.name, seen.prefix))?;
    for one in &created {
        backend.output().line(&format!("revoked with it: {}", describe(one)))?;
    }
    Ok(())
}

async fn rotate(backend: &Backend, id: &str) -> Result<(), CliError> {
    let (old, successor) = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let caller = local.caller_in(&workspace);
            let change = async { Ok(local.ops.rotate_key(&caller, id).await?) };
            let (key, successor, secret) = local.change(change).await?;
            let now = local.now();
            (Key::from_key(&key, now), CreatedKey::from_key(&successor, &secret, now))
        }
        Backend::Server(client) => {
            let key = client.key(id).await?;
            let successor = client.rotate_key(key.id).await?;
            (key, successor)
        }
    };
    let expires_at = successor.details.expires_at;
    show_created(&successor, backend.output())?;
    let Key { id, prefix, .. } = &old;
    backend.output().note(&format!("the old key {id} ({prefix}...) works for 24 hours more"));
    if let Some(at) = expires_at {
        backend.output().note(&format!("as the old one would have, the new key ends at {at}"));
    }
    Ok(())
}
