//! What became of a link: who changed what, when, from what to what.

use std::collections::{BTreeSet, HashMap};

use rlinks_core::audit::AuditEntry;
use rlinks_core::{Actor, Id, Link, LinkState, Timestamp};
use serde_json::{Map, Value};

use crate::auth::caller::Caller;
use crate::web::links::list::cut;
use crate::web::{Problem, Web};

/// Changes shown.
const SHOWN: i64 = 50;
/// Longer values are cut.
const LONGEST: usize = 300;
/// What says nothing to people, or is said elsewhere.
const UNTOLD: [&str; 8] =
    ["id", "workspace", "version", "updated_at", "created_at", "created_by", "source", "generated"];

/// One change.
pub struct Change {
    pub seq: i64,
    pub at: Timestamp,
    pub who: String,
    pub what: String,
    pub fields: Vec<Field>,
    /// Whether the link can become again what this change made of it.
    pub can_return: bool,
}

/// A field of it: how it was, and how it became.
pub struct Field {
    pub name: String,
    pub before: String,
    pub after: String,
}

/// What members are called.
pub struct Names(HashMap<Id, String>);

impl Names {
    /// An actor as people know them.
    pub fn of(&self, actor: &str) -> String {
        let actor = Actor::stored(actor.to_owned());
        let named = actor.user().and_then(|id| self.0.get(&id).cloned());
        named.unwrap_or_else(|| match actor.key() {
            Some(id) => format!("key {id}"),
            None => actor.as_str().to_owned(),
        })
    }
}

/// The names of those who acted.
pub async fn names(web: &Web, caller: &Caller, actors: impl Iterator<Item = &str>) -> Result<Names, Problem> {
    let ids: BTreeSet<Id> = actors.filter_map(|actor| Actor::stored(actor.to_owned()).user()).collect();
    let ids: Vec<Id> = ids.into_iter().collect();
    if ids.is_empty() {
        return Ok(Names(HashMap::new()));
    }
    let users = web.store.users_by_id(caller.workspace.id, &ids).await?;
    let name = |user: rlinks_core::User| {
        let email = user.email.to_string();
        (user.id, if user.full_name.is_empty() { email } else { user.full_name })
    };
    Ok(Names(users.into_iter().map(name).collect()))
}

/// The latest changes of a link, newest first.
pub async fn changes(web: &Web, caller: &Caller, link: &Link) -> Result<Vec<Change>, Problem> {
    let entries = web.store.history_before(caller.workspace.id, &link.code, i64::MAX, SHOWN).await?;
    let names = names(web, caller, entries.iter().map(|entry| entry.actor.as_str())).await?;
    let newest = entries.first().map(|entry| entry.seq);
    let change = |entry: &AuditEntry| Change {
        seq: entry.seq,
        at: entry.ts,
        who: names.of(&entry.actor),
        what: words(&entry.action),
        fields: fields(entry),
        can_return: Some(entry.seq) != newest
            && after(entry).is_some_and(|then| then.state != LinkState::Deleted),
    };
    Ok(entries.iter().map(change).collect())
}

/// A link as an entry of its history left it.
pub async fn version(web: &Web, caller: &Caller, link: &Link, seq: i64) -> Result<Option<Link>, Problem> {
    let before = seq.saturating_add(1);
    let entries = web.store.history_before(caller.workspace.id, &link.code, before, 1).await?;
    Ok(entries.iter().find(|entry| entry.seq == seq).and_then(after))
}

fn after(entry: &AuditEntry) -> Option<Link> {
    serde_json::from_str(entry.after.as_ref()?.get()).ok()
}

/// An action in a word: `link.update` is "update".
fn words(action: &str) -> String {
    match action {
        "link.create" => "created".to_owned(),
        "link.update" => "changed".to_owned(),
        "link.disable" => "disabled".to_owned(),
        "link.enable" => "enabled".to_owned(),
        "link.delete" => "deleted".to_owned(),
        "link.restore" => "restored".to_owned(),
        other => other.strip_prefix("link.").unwrap_or(other).replace(['_', '.'], " "),
    }
}

fn fields(entry: &AuditEntry) -> Vec<Field> {
    let object = |raw: Option<&str>| -> Map<String, Value> {
        raw.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let before = object(entry.before.as_ref().map(|raw| raw.get()));
    let after = object(entry.after.as_ref().map(|raw| raw.get()));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let told = names.into_iter().filter(|name| !UNTOLD.contains(&name.as_str()));
    let is_new = before.is_empty();
    told.filter(|name| before.get(*name) != after.get(*name))
        .map(|name| Field {
            name: name.replace('_', " "),
            before: text(before.get(name)),
            after: text(after.get(name)),
        })
        .filter(|field| !(is_new && field.after.is_empty()))
        .collect()
}

/// A value as people read it.
fn text(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(on)) => if *on { "yes" } else { "no" }.to_owned(),
        Some(Value::Array(list)) => list.iter().map(|item| text(Some(item))).collect::<Vec<_>>().join(", "),
        Some(Value::Object(object)) if object.is_empty() => String::new(),
        Some(other) => other.to_string(),
    };
    cut(&text, LONGEST)
}
