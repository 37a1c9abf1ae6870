//! The store's memory of the keys that signed its heads: a key that vanishes is noticed, and statements about former keys survive the
//! loss of the log in the data folder. What counts is decided by signatures, never by being in this table.

use rlinks_core::{Actor, Id, Timestamp};

use crate::audit::chain::NewEntry;
use crate::audit::key_statements::KeyStatement;
use crate::database::json::json;
use crate::database::pool::{Tx, read, run_in};
use crate::workspace::workspaces::MAIN_WORKSPACE_ID;
use crate::{Store, StoreError, StoreWriter};

/// A key that signed heads of this store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditKeyRecord {
    pub public_key: String,
    pub first_used_at: Timestamp,
    pub retired_at: Option<Timestamp>,
    /// By which another key vouches for it.
    pub statement: Option<KeyStatement>,
}

impl Store {
    /// The keys that signed heads of this store, oldest first.
    pub async fn audit_keys(&self) -> Result<Vec<AuditKeyRecord>, StoreError> {
        let rows: Vec<(String, i64, Option<i64>, Option<String>)> = read!(
            &self.pool,
            fetch_all,
            "select public_key, first_used_at, retired_at, statement from audit_keys order by first_used_at, public_key"
        )?;
        let record = |(public_key, first, retired, statement): (String, i64, Option<i64>, Option<String>)| {
            AuditKeyRecord {
                public_key,
                first_used_at: Timestamp::from_ms(first),
                retired_at: retired.map(Timestamp::from_ms),
                // One that can't be read vouches for nothing.
                statement: statement.and_then(|text| serde_json::from_str(&text).ok()),
            }
        };
        Ok(rows.into_iter().map(record).collect())
    }
}

impl StoreWriter {
    /// Remembers that a key signs heads of this store.
    pub async fn record_audit_key(&self, public_key: &str, now: Timestamp) -> Result<(), StoreError> {
        let known: Option<(i64,)> = read!(
            &self.pool,
            fetch_optional,
            "select first_used_at from audit_keys where public_key = $1",
            public_key
        )?;
        if known.is_some() {
            return Ok(());
        }
        let mut tx = self.pool.begin().await?;
        insert_key(&mut tx, public_key, now).await?;
        tx.commit().await
    }

    /// Remembers why a former key counts.
    pub async fn record_key_statement(&self, statement: &KeyStatement) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        write_statement(&mut tx, statement).await?;
        tx.commit().await
    }

    /// Puts a key in the place of former ones, of which it says so itself.
    pub async fn rotate_audit_key(
        &self,
        public_key: &str,
        statements: &[KeyStatement],
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut change = self.begin_change(Id::from_i64(MAIN_WORKSPACE_ID)).await?;
        insert_key(&mut change.tx, public_key, now).await?;
        for statement in statements {
            write_statement(&mut change.tx, statement).await?;
        }
        let former: Vec<&str> = statements.iter().map(|statement| statement.former.as_str()).collect();
        let entry = NewEntry {
            actor,
            action: "installation.rotate_key",
            subject: "installation:audit".to_owned(),
            before: Some(json(&serde_json::json!({ "public_keys": former }))),
            after: Some(json(&serde_json::json!({ "public_keys": [public_key] }))),
        };
        change.commit([entry], now).await
    }
}

async fn insert_key(tx: &mut Tx, public_key: &str, now: Timestamp) -> Result<(), StoreError> {
    run_in!(
        tx,
        "insert into audit_keys (public_key, first_used_at) values ($1, $2) on conflict do nothing",
        public_key,
        now.ms()
    )?;
    Ok(())
}

async fn write_statement(tx: &mut Tx, statement: &KeyStatement) -> Result<(), StoreError> {
    run_in!(
        tx,
        "insert into audit_keys (public_key, first_used_at, retired_at, statement) values ($1, $2, $2, $3)
         on conflict (public_key) do update set retired_at = excluded.retired_at, statement = excluded.statement",
        &statement.former,
        statement.ts.ms(),
        json(statement)
    )?;
    Ok(())
}
