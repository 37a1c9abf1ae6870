//! The signed ends of the audit chains, and the key that signs them: making it, rotating it, and which former keys count.

use std::sync::Arc;

use rlinks_core::audit::Head;
use rlinks_store::audit::checkpoints::{self, PublishedHeads};
use rlinks_store::audit::key_statements::{KeyChange, KeyStatement, TrustedKeys};
use rlinks_store::audit::signing_key::{Signer, SigningKey, SigningKeySource, fingerprint};
use rlinks_store::{Dialect, StoreError};

use crate::{Caller, Ops, OpsError};

/// A rotation that was done, by fingerprints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditKeyRotation {
    pub former: Vec<String>,
    pub fingerprint: String,
}

impl Ops {
    /// The installation's signing key, made where it was never needed before. One that is gone is not replaced: heads it signed may be
    /// gone with it.
    pub async fn signer(&self, key: &SigningKey) -> Result<Arc<Signer>, StoreError> {
        if let Some(signer) = key.load()? {
            return Ok(signer);
        }
        // Nodes on one PostgreSQL may each have a key of their own, so there another key says nothing about this one.
        if self.store.dialect() == Dialect::Sqlite
            && let Some(lost) = self.store.audit_keys().await?.iter().find(|key| key.retired_at.is_none())
        {
            return Err(StoreError::Refused(format!(
                "the key {} that signed this store's audit heads is gone from {}; put it back, or make a new one with `rmax keys rotate-installation audit`",
                fingerprint(&lost.public_key),
                key.describe()
            )));
        }
        key.load_or_create(self.random.bytes())
    }

    /// Signs the heads that moved, appends them to the log in the data folder, and gives all heads, signed, for elsewhere.
    pub async fn sign_heads(&self, key: &SigningKey) -> Result<PublishedHeads, StoreError> {
        self.check_log_of_heads(key).await?;
        let heads: Vec<Head> = self.store.heads().await?.into_iter().map(|(_, head)| head).collect();
        let (signer, now) = (self.signer(key).await?, self.clock.now());
        checkpoints::append_checkpoints(key.data(), &signer, &heads, now, false)?;
        self.writer.record_audit_key(&signer.public_key(), now).await?;
        Ok(PublishedHeads {
            ts: now,
            fingerprint: signer.fingerprint(),
            checkpoints: heads.into_iter().map(|head| signer.sign(head, now, false)).collect(),
            statements: self.key_statements().await?,
        })
    }

    /// Fails where heads were signed before and their log is gone: signing on in a new one would hide that the log, and with it the end of
    /// a chain, was cut off. On PostgreSQL each node has a log of its own, so a missing one says nothing.
    async fn check_log_of_heads(&self, key: &SigningKey) -> Result<(), StoreError> {
        let path = key.data().join(checkpoints::CHECKPOINT_LOG_FILE);
        let has_lines = std::fs::metadata(&path).is_ok_and(|file| file.len() > 0);
        if has_lines || self.store.dialect() != Dialect::Sqlite || self.store.audit_keys().await?.is_empty() {
            return Ok(());
        }
        Err(StoreError::Refused(format!(
            "{} is gone, though heads of this store were signed; put it back, or begin a new one with a new key by `rmax keys rotate-installation audit`",
            path.display()
        )))
    }

    /// Signs where the chains of a restored backup end: from here on they bind the store. `gone` are workspaces that are not in it. What
    /// `former` signed counts until now, where another installation wrote the backup.
    pub async fn sign_restored_heads(
        &self,
        key: &SigningKey,
        gone: Vec<Head>,
        former: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut heads: Vec<Head> = self.store.heads().await?.into_iter().map(|(_, head)| head).collect();
        heads.extend(gone);
        let (signer, now) = (self.signer(key).await?, self.clock.now());
        if let Some(former) = former.filter(|former| **former != signer.public_key()) {
            let statement = KeyStatement::new(KeyChange::Restored, former, &signer, now);
            checkpoints::append_statement(key.data(), &statement)?;
            self.writer.record_key_statement(&statement).await?;
        }
        checkpoints::append_checkpoints(key.data(), &signer, &heads, now, true)?;
        self.writer.record_audit_key(&signer.public_key(), now).await
    }

    /// What keys have said of former ones, as the store has it.
    async fn key_statements(&self) -> Result<Vec<KeyStatement>, StoreError> {
        Ok(self.store.audit_keys().await?.into_iter().filter_map(|key| key.statement).collect())
    }

    /// The keys that count, by the one in force and what was said of former ones: in the store, and wherever else the caller looked.
    pub async fn trusted_keys(
        &self,
        signer: &Signer,
        more: &[KeyStatement],
    ) -> Result<TrustedKeys, StoreError> {
        let mut statements = self.key_statements().await?;
        statements.extend_from_slice(more);
        Ok(TrustedKeys::from_statements(&signer.public_key(), &statements))
    }

    /// Makes a new signing key. The old one signs that the new one follows it, the new one that it follows the old one, so what the old
    /// one signed can still be verified. Where a command gives the key, what it gives now is the new one.
    pub async fn rotate_audit_key(
        &self,
        caller: &Caller,
        key: &SigningKey,
    ) -> Result<AuditKeyRotation, OpsError> {
        caller.require_operator("Only the operator can rotate keys of the installation")?;
        let now = self.clock.now();
        let in_folder = SigningKey::new(key.data(), SigningKeySource::DataFolder);
        let seed = self.random.bytes();
        let (old, new) = match key.source() {
            SigningKeySource::Command(_) => (in_folder.load()?, key.require()?),
            SigningKeySource::DataFolder | SigningKeySource::File(_) => {
                let old = key.load()?.map_or_else(|| in_folder.load(), |old| Ok(Some(old)))?;
                let new = Signer::from_seed(&seed).expect("32 bytes are a seed");
                (old, Arc::new(new))
            }
        };
        let old = old.filter(|old| old.public_key() != new.public_key());
        let mut statements: Vec<KeyStatement> =
            old.iter().map(|old| KeyStatement::rotated(old, &new, now)).collect();
        if self.store.dialect() == Dialect::Sqlite || old.is_none() {
            // Keys that are lost can't sign; the new one speaks for them.
            for known in self.store.audit_keys().await? {
                let is_said = statements.iter().any(|statement| statement.former == known.public_key);
                if known.retired_at.is_none() && !is_said && known.public_key != new.public_key() {
                    statements.push(KeyStatement::new(KeyChange::Rotated, &known.public_key, &new, now));
                }
            }
        }
        if matches!(key.source(), SigningKeySource::Command(_))
            && statements.is_empty()
            && self.store.audit_keys().await?.iter().any(|known| known.public_key == new.public_key())
        {
            return Err(OpsError::Forbidden(
                "The command of `audit.key` still gives the key in force; make it give another one first",
            ));
        }
        self.writer.rotate_audit_key(&new.public_key(), &statements, &caller.actor, now).await?;
        for statement in &statements {
            checkpoints::append_statement(key.data(), statement)?;
        }
        // The key itself comes last: until then the old one is in force, and the new one isn't trusted.
        if !matches!(key.source(), SigningKeySource::Command(_)) {
            key.replace(seed)?;
        }
        if *key.source() != SigningKeySource::DataFolder {
            in_folder.remove()?;
        }
        // From here on a log that is missing is one that was lost.
        let heads: Vec<Head> = self.store.heads().await?.into_iter().map(|(_, head)| head).collect();
        checkpoints::append_checkpoints(key.data(), &new, &heads, now, false)?;
        let former = statements.iter().map(|statement| fingerprint(&statement.former)).collect();
        Ok(AuditKeyRotation { former, fingerprint: new.fingerprint() })
    }
}
