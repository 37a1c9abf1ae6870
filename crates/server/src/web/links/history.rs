//! What became of a link: who changed what, when, from what to what.

use std::collections::{BTreeSet, HashMap};

use rlinks_core::audit::AuditEntry;
use rlinks_core::{Actor, Id, Link, LinkState, Timestamp};
use serde_json::{Map, Value};

use crate::web::links::list::truncate;
use crate::web::{PageError, Web};
use rlinks_ops::Caller;

const MAX_ENTRIES: i64 = 50;
/// Longer values are cut.
const MAX_VALUE_CHARS: usize = 300;
/// What says nothing to people, or is said elsewhere.
const HIDDEN_FIELDS: [&str; 8] =
    ["id", "workspace", "version", "updated_at", "created_at", "created_by", "source", "generated"];

pub struct HistoryEntry {
    pub seq: i64,
    pub at: Timestamp,
    pub actor: String,
    pub action: String,
    pub fields: Vec<FieldDiff>,
    /// Whether the link can become again what this change made of it.
    pub can_roll_back: bool,
}

/// A field of it: how it was, and how it became.
pub struct FieldDiff {
    pub name: String,
    pub before: String,
    pub after: String,
}

/// What members are called.
pub struct MemberNames(HashMap<Id, String>);

impl MemberNames {
    /// An actor as people know them.
    pub fn display_name(&self, actor: &str) -> String {
        let actor = Actor::from_stored(actor.to_owned());
        let named = actor.user().and_then(|id| self.0.get(&id).cloned());
        named.unwrap_or_else(|| match actor.key() {
            Some(id) => format!("key {id}"),
            None => actor.as_str().to_owned(),
        })
    }
}

/// The names of those who acted.
pub async fn load_names(
    web: &Web,
    caller: &Caller,
    actors: impl Iterator<Item = &str>,
) -> Result<MemberNames, PageError> {
    let ids: BTreeSet<Id> = actors.filter_map(|actor| Actor::from_stored(actor.to_owned()).user()).collect();
    let ids: Vec<Id> = ids.into_iter().collect();
    if ids.is_empty() {
        return Ok(MemberNames(HashMap::new()));
    }
    let users = web.store.users_by_id(caller.workspace.id, &ids).await?;
    let name = |user: rlinks_core::User| {
        let email = user.email.to_string();
        (user.id, if user.full_name.is_empty() { email } else { user.full_name })
    };
    Ok(MemberNames(users.into_iter().map(name).collect()))
}

/// The latest changes of a link, newest first.
pub async fn load_history(web: &Web, caller: &Caller, link: &Link) -> Result<Vec<HistoryEntry>, PageError> {
    let entries = web.store.history_before(caller.workspace.id, &link.code, i64::MAX, MAX_ENTRIES).await?;
    let names = load_names(web, caller, entries.iter().map(|entry| entry.actor.as_str())).await?;
    let newest = entries.first().map(|entry| entry.seq);
    let history_entry = |entry: &AuditEntry| HistoryEntry {
        seq: entry.seq,
        at: entry.ts,
        actor: names.display_name(&entry.actor),
        action: action_label(&entry.action),
        fields: diff(entry),
        can_roll_back: Some(entry.seq) != newest
            && link_after(entry).is_some_and(|then| then.state != LinkState::Deleted),
    };
    Ok(entries.iter().map(history_entry).collect())
}

fn link_after(entry: &AuditEntry) -> Option<Link> {
    serde_json::from_str(entry.after.as_ref()?.get()).ok()
}

/// An action in a word: `link.update` is "update".
fn action_label(action: &str) -> String {
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

fn diff(entry: &AuditEntry) -> Vec<FieldDiff> {
    let object = |raw: Option<&str>| -> Map<String, Value> {
        raw.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let before = object(entry.before.as_ref().map(|raw| raw.get()));
    let after = object(entry.after.as_ref().map(|raw| raw.get()));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let visible = names.into_iter().filter(|name| !HIDDEN_FIELDS.contains(&name.as_str()));
    let is_new = before.is_empty();
    visible
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| FieldDiff {
            name: name.replace('_', " "),
            before: display_value(before.get(name)),
            after: display_value(after.get(name)),
        })
        .filter(|field| !(is_new && field.after.is_empty()))
        .collect()
}

/// A value as people read it.
fn display_value(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(on)) => if *on { "yes" } else { "no" }.to_owned(),
        Some(Value::Array(list)) => {
            list.iter().map(|item| display_value(Some(item))).collect::<Vec<_>>().join(", ")
        }
        Some(Value::Object(object)) if object.is_empty() => String::new(),
        Some(other) => other.to_string(),
    };
    truncate(&text, MAX_VALUE_CHARS)
}
