//! The log of changes at Cloudflare: one key `hit:__admin__:{day}:{id}` for each, never changed.
//!
//! Key-value storage knows no transaction, so nothing there can be a chain without gaps. Entries are numbered and sealed in the order
//! of their keys when the log is read: an export can be verified from then on, the log at Cloudflare cannot.

use std::collections::HashMap;

use rlinks_clicks::click::event_id;
use rlinks_core::audit::{AuditEntry, GENESIS_HASH};
use rlinks_core::{Code, Link, Slug, Timestamp};
use rlinks_store::audit::log::link_subject;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Cloudflare;
use crate::backend::cloudflare::client::KeyValue;
use crate::error::CliError;

/// How keys of the log begin. No code can be `__admin__`: it is reserved.
const AUDIT_KEY_PREFIX: &str = "hit:__admin__:";

/// A change, as it is kept.
#[derive(Serialize, Deserialize)]
struct StoredEvent {
    ts: Timestamp,
    code: Code,
    /// Always `main`, and always the code's: an entry reads like those of a store.
    #[serde(default)]
    workspace: String,
    #[serde(default)]
    subject: String,
    actor: String,
    action: String,
    #[serde(default)]
    before: Option<Box<RawValue>>,
    #[serde(default)]
    after: Option<Box<RawValue>>,
}

/// What was done to a link.
pub(crate) struct LinkEvent<'a> {
    pub(crate) action: &'static str,
    pub(crate) before: Option<&'a Link>,
    pub(crate) after: &'a Link,
}

impl Cloudflare {
    /// The pair that tells of a change.
    pub(crate) fn event_pair(&self, event: &LinkEvent<'_>, now: Timestamp) -> KeyValue {
        let side = |link: &Link| serde_json::value::to_raw_value(link).expect("a link is JSON");
        let stored = StoredEvent {
            ts: now,
            code: event.after.code.clone(),
            workspace: Slug::MAIN.to_owned(),
            subject: link_subject(&event.after.code),
            actor: self.actor.to_string(),
            action: event.action.to_owned(),
            before: event.before.map(side),
            after: Some(side(event.after)),
        };
        let [boot, low] = [self.random.bytes(), self.random.bytes()].map(u64::from_le_bytes);
        let id = event_id(now, boot, u16::from_le_bytes(self.random.bytes()), low);
        KeyValue {
            key: format!("{AUDIT_KEY_PREFIX}{}:{id}", now.day()),
            value: serde_json::to_string(&stored).expect("an entry is JSON"),
        }
    }

    /// Tells of a change that is made.
    pub(crate) async fn record_event(&self, event: &LinkEvent<'_>, now: Timestamp) -> Result<(), CliError> {
        let KeyValue { key, value } = self.event_pair(event, now);
        self.api.put(&self.hits, &key, value).await.map_err(|failure| {
            failure.hint(format!(
                "link `{}` is changed, and the log of changes does not tell of it: the change itself need not be repeated",
                event.after.code
            ))
        })
    }

    /// The whole log, oldest first.
    pub(crate) async fn audit(&self) -> Result<Vec<AuditEntry>, CliError> {
        let keys = self.api.keys(&self.hits, AUDIT_KEY_PREFIX).await?;
        let mut values = self.api.get_all(&self.hits, &keys).await?;
        let (entries, unread) = chain_events(&keys, &mut values);
        if unread > 0 {
            self.output.warning(&format!("{unread} entries of the log cannot be read and are left out"));
        }
        Ok(entries)
    }

    /// What happened to one link, oldest first.
    pub(crate) async fn history(&self, code: &str) -> Result<Vec<AuditEntry>, CliError> {
        let subjects: Vec<String> = super::links::code_spellings(code).iter().map(link_subject).collect();
        let mut entries = self.audit().await?;
        entries.retain(|entry| subjects.contains(&entry.subject));
        Ok(entries)
    }
}

/// Entries in the order of their keys, numbered and sealed, and how many could not be read.
fn chain_events(keys: &[String], values: &mut HashMap<String, String>) -> (Vec<AuditEntry>, usize) {
    let (mut entries, mut unread) = (Vec::with_capacity(keys.len()), 0);
    let mut prev_hash = GENESIS_HASH.to_owned();
    for key in keys {
        let stored = values.remove(key).and_then(|value| serde_json::from_str::<StoredEvent>(&value).ok());
        let Some(stored) = stored else {
            unread += 1;
            continue;
        };
        let mut entry = AuditEntry {
            seq: i64::try_from(entries.len()).unwrap_or(i64::MAX).saturating_add(1),
            ts: stored.ts,
            workspace: Slug::MAIN.to_owned(),
            actor: stored.actor,
            action: stored.action,
            subject: link_subject(&stored.code),
            before: stored.before,
            after: stored.after,
            prev_hash: prev_hash.clone(),
            hash: String::new(),
        };
        entry.hash = entry.compute_hash();
        prev_hash.clone_from(&entry.hash);
        entries.push(entry);
    }
    (entries, unread)
}

#[cfg(test)]
mod tests {
    use rlinks_core::audit::Verifier;

    use super::*;

    #[test]
    fn entries_chain_in_key_order_and_unreadable_ones_are_counted() {
        let value = |code: &str| {
            format!(
                r#"{{"ts":"2026-01-12T12:41:00Z","code":"{code}","actor":"max","action":"link.create","after":{{"a":1}}}}"#
            )
        };
        let keys = ["a", "b", "c", "d"].map(str::to_owned);
        let mut values = HashMap::from([
            ("c".to_owned(), value("last")),
            ("a".to_owned(), value("first")),
            ("b".to_owned(), "not ours".to_owned()),
        ]);
        let (entries, unread) = chain_events(&keys, &mut values);
        assert_eq!(unread, 2);
        assert_eq!(
            entries.iter().map(|entry| entry.subject.as_str()).collect::<Vec<_>>(),
            ["link:first", "link:last"]
        );
        let mut verifier = Verifier::new("main", Vec::new());
        for entry in &entries {
            verifier.push(entry).unwrap();
        }
        assert_eq!(verifier.finish(None).unwrap().seq, 2);
    }
}
