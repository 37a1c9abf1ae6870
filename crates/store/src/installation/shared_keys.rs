//! Secrets that all nodes of an installation share, each with its predecessor for as long as what that one signed is accepted.

use rlinks_core::{Actor, Id, Timestamp, hex};

use crate::audit::chain::NewEntry;
use crate::database::json::json;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::workspace::workspaces::MAIN_WORKSPACE_ID;
use crate::{Store, StoreError, StoreWriter};

/// A secret key.
pub type SecretKey = [u8; 32];

/// A shared key and its predecessor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedKeyPair {
    pub current: SecretKey,
    /// What it signed is accepted up to and including this moment.
    pub previous: Option<(SecretKey, Timestamp)>,
}

impl Store {
    /// The key of this name, where one was made.
    pub async fn shared_key_pair(&self, name: &str) -> Result<Option<SharedKeyPair>, StoreError> {
        let rows: Vec<(String, String)> = read!(
            &self.pool,
            fetch_all,
            "select name, value from installation where name in ($1, $2)",
            name,
            previous_setting(name)
        )?;
        let value =
            |wanted: &str| rows.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let Some(current) = value(name) else { return Ok(None) };
        let unreadable = || StoreError::Unreadable(format!("the installation's {name}"));
        let current = parse_key(current).ok_or_else(unreadable)?;
        let previous = value(&previous_setting(name)).and_then(|text| {
            let (key, until) = text.split_once(' ')?;
            Some((parse_key(key)?, Timestamp::from_ms(until.parse().ok()?)))
        });
        Ok(Some(SharedKeyPair { current, previous }))
    }
}

impl StoreWriter {
    /// The key of this name; `fresh` becomes it where there is none. Nothing here opens anything: whoever reads the database has what
    /// these keys guard.
    pub async fn get_or_create_shared_key(
        &self,
        name: &str,
        fresh: SecretKey,
    ) -> Result<SharedKeyPair, StoreError> {
        if let Some(there) = self.shared_key_pair(name).await? {
            return Ok(there);
        }
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "insert into installation (name, value) values ($1, $2) on conflict do nothing",
            name,
            hex::encode(&fresh)
        )?;
        tx.commit().await?;
        let there = self.shared_key_pair(name).await?;
        there.ok_or_else(|| StoreError::Unreadable(format!("the installation's {name}")))
    }

    /// Puts `fresh` in the place of a key. What the old one signed is accepted until `accept_until`, or not at all. `shown` is what the
    /// log calls the key.
    pub async fn rotate_shared_key(
        &self,
        (name, shown): (&str, &str),
        fresh: SecretKey,
        accept_until: Option<Timestamp>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut change = self.begin_change(Id::from_i64(MAIN_WORKSPACE_ID)).await?;
        let old: Option<(String,)> =
            read_in!(&mut change.tx, fetch_optional, "select value from installation where name = $1", name)?;
        run_in!(&mut change.tx, "delete from installation where name = $1", previous_setting(name))?;
        if let (Some((old,)), Some(until)) = (old, accept_until) {
            set(&mut change.tx, &previous_setting(name), &format!("{old} {}", until.ms())).await?;
        }
        set(&mut change.tx, name, &hex::encode(&fresh)).await?;
        let entry = NewEntry {
            actor,
            action: "installation.rotate_key",
            subject: format!("installation:{shown}"),
            before: None,
            after: Some(json(&serde_json::json!({ "previous_accepted_until": accept_until }))),
        };
        change.commit([entry], now).await
    }
}

async fn set(tx: &mut Tx, name: &str, value: &str) -> Result<(), StoreError> {
    run_in!(
        tx,
        "insert into installation (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value",
        name,
        value
    )?;
    Ok(())
}

fn previous_setting(name: &str) -> String {
    format!("{name}_previous")
}

fn parse_key(text: &str) -> Option<SecretKey> {
    hex::decode(text)?.try_into().ok()
}
