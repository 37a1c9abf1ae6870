//! `rmax keys`: what programs sign in with.

use rlinks_core::access::api_key::KeyStatus;
use rlinks_core::draft::{TimeInput, parse_expiry};
use rlinks_core::{ApiKey, FieldErrors, Scope, Scopes, Timestamp};
use rlinks_ops::members::KeyDraft;
use serde_json::json;

use crate::args::Keys;
use crate::backend::Place;
use crate::backend::keys::{Key, KeyAsked, NewKey};
use crate::backend::local_store::Session;
use crate::error::Failure;
use crate::output::Output;

/// Keys read at once.
const PAGE: i64 = 500;

pub(crate) async fn run(place: &Place, command: Keys) -> Result<(), Failure> {
    match command {
        Keys::Create { name, scopes, user, expires } => create(place, &name, &scopes, user, expires).await,
        Keys::List => list(place).await,
        Keys::Revoke { id } => revoke(place, &id).await,
        Keys::Rotate { id } => rotate(place, &id).await,
    }
}

impl NewKey {
    /// The key, alone on stdout.
    fn show(&self, output: Output) -> Result<(), Failure> {
        if output.json {
            let mut body = json!(self.view);
            body["key"] = self.key.as_str().into();
            return output.object(&body);
        }
        output.line(&self.key)?;
        let Key { id, name, .. } = &self.view;
        output.note(&format!("key {id} ({name}); it is shown this once and kept nowhere"));
        Ok(())
    }
}

async fn create(
    place: &Place,
    name: &str,
    scopes: &[String],
    user: Option<String>,
    expires: Option<String>,
) -> Result<(), Failure> {
    let mut errors = FieldErrors::default();
    let name = errors.ok_or_push(ApiKey::parse_name(name));
    let scopes = if scopes.is_empty() { None } else { errors.ok_or_push(Scopes::parse(scopes)) };
    let expires_at =
        expires.and_then(|text| errors.ok_or_push(parse_expiry(&TimeInput::Text(text), place.now())));
    let (Some(name), true) = (name, errors.0.is_empty()) else {
        return Err(errors.into());
    };
    let asked = KeyAsked { name, scopes, user, expires_at };
    let made = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => create_stored(session, asked).await?,
        Place::Server(remote) => remote.create_key(&asked).await?,
    };
    made.show(place.output())
}

async fn create_stored(session: &Session, asked: KeyAsked) -> Result<NewKey, Failure> {
    let KeyAsked { name, scopes, user, expires_at } = asked;
    let scopes = scopes.unwrap_or(Scopes::DEFAULT);
    let workspace = session.workspace().await?;
    let user = match user {
        Some(who) => Some(session.ops.member(&workspace, &who).await?),
        None => None,
    };
    if let Some(user) = user.as_ref().filter(|user| !scopes.is_subset(user.role.scopes())) {
        session.output.warning(&format!(
            "{} is {}, so this key can do no more than a {} can",
            user.email, user.role, user.role
        ));
    }
    let draft = KeyDraft { name, scopes, user: user.map(|user| user.id), expires_at };
    let by = session.by();
    let change = async { Ok(session.ops.create_key(&by, &workspace, &draft).await?) };
    let (key, secret) = session.change(change).await?;
    Ok(NewKey::of(&key, &secret, session.now()))
}

async fn list(place: &Place) -> Result<(), Failure> {
    let output = place.output();
    let keys = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => list_stored(session).await?,
        Place::Server(remote) => remote.keys().await?,
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

async fn list_stored(session: &Session) -> Result<Vec<Key>, Failure> {
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
    Ok(keys.iter().map(|key| Key::of(key, now)).collect())
}

async fn revoke(place: &Place, id: &str) -> Result<(), Failure> {
    let (seen, revoked) = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => {
            let workspace = session.workspace().await?;
            let key = session.ops.key(&workspace, id).await?;
            let by = session.by();
            let change = async { Ok(session.ops.revoke_key(&by, &workspace, key.id).await?) };
            let revoked = session.change(change).await?;
            let now = session.now();
            (Key::of(&key, now), Key::of(&revoked, now))
        }
        Place::Server(remote) => {
            let key = remote.key(id).await?;
            remote.revoke_key(key.id).await?;
            (key.clone(), Key { status: KeyStatus::Revoked, ..key })
        }
    };
    if place.output().json {
        return place.output().object(&json!(revoked));
    }
    let done = if seen.status == KeyStatus::Revoked { "unchanged" } else { "revoked" };
    place.output().line(&format!("{done} key {} ({}, {}...)", seen.id, seen.name, seen.prefix))
}

async fn rotate(place: &Place, id: &str) -> Result<(), Failure> {
    let (old, successor) = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => {
            let workspace = session.workspace().await?;
            let key = session.ops.key(&workspace, id).await?;
            let by = session.by();
            let change = async { Ok(session.ops.rotate_key(&by, &key).await?) };
            let (successor, secret) = session.change(change).await?;
            let now = session.now();
            (Key::of(&key, now), NewKey::of(&successor, &secret, now))
        }
        Place::Server(remote) => {
            let key = remote.key(id).await?;
            let successor = remote.rotate_key(key.id).await?;
            (key, successor)
        }
    };
    let expires_at = successor.view.expires_at;
    successor.show(place.output())?;
    let Key { id, prefix, .. } = &old;
    place.output().note(&format!("the old key {id} ({prefix}...) works for 24 hours more"));
    if let Some(at) = expires_at {
        place.output().note(&format!("as the old one would have, the new key ends at {at}"));
    }
    Ok(())
}
