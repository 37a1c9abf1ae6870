//! Reading the audit log and verifying its chains.

use rlinks_core::audit::{AuditEntry, ChainError, Head, Verifier};
use rlinks_core::{Code, Host, Id, Slug, Timestamp};
use serde_json::value::RawValue;

use crate::database::paging::is_full_page;
use crate::database::pool::{read, read_in};
use crate::database::row::from_row;
use crate::{Store, StoreError};

/// The subject of entries about a link.
pub fn link_subject(code: &Code) -> String {
    format!("link:{code}")
}

/// The subject of entries about a domain.
pub fn domain_subject(host: &Host) -> String {
    format!("domain:{host}")
}

/// The subject of entries about a workspace.
pub fn workspace_subject(slug: &Slug) -> String {
    format!("workspace:{slug}")
}

/// The action of entries about a reached limit.
pub(crate) const STOP_ACTION: &str = "auth.brake";

/// Which entries of the log somebody looks for. What is empty lets all through.
#[derive(Clone, Debug)]
pub struct AuditFilter {
    // Who: `user:1`.
    pub actor: String,
    /// What was done: `link.create`, or `link` for everything done to links.
    pub action: String,
    // To what: `link:parity`.
    pub subject: String,
    pub during: std::ops::Range<Timestamp>,
}

impl Default for AuditFilter {
    fn default() -> Self {
        let during = Timestamp::from_ms(i64::MIN)..Timestamp::from_ms(i64::MAX);
        Self { actor: String::new(), action: String::new(), subject: String::new(), during }
    }
}

/// How many entries are held in memory at a time while verifying.
const PAGE_SIZE: i64 = 2000;

macro_rules! audit_columns {
    () => {
        "a.seq, a.ts, w.slug as workspace, a.actor, a.action, a.subject, a.before, a.after, a.prev_hash, a.hash
         from audit a join workspaces w on w.id = a.workspace_id"
    };
}

pub(crate) struct AuditRow {
    seq: i64,
    ts: i64,
    workspace: String,
    actor: String,
    action: String,
    subject: String,
    before: Option<String>,
    after: Option<String>,
    prev_hash: String,
    hash: String,
}

from_row!(AuditRow { seq, ts, workspace, actor, action, subject, before, after, prev_hash, hash });

impl AuditRow {
    pub(crate) fn entry(self) -> Result<AuditEntry, StoreError> {
        let seq = self.seq;
        // A side that is no longer JSON, or has space around it that reading would drop, was edited in the file: as a JSON text
        // it keeps its bytes' difference, so the seal breaks and verification names the entry.
        let raw = |text: String| match RawValue::from_string(text.clone()) {
            Ok(json) if json.get() == text => Ok(json),
            _ => serde_json::value::to_raw_value(&text),
        };
        let side = |side: Option<String>| side.map(raw).transpose();
        let broken = |_| StoreError::Unreadable(format!("audit entry {seq}"));
        Ok(AuditEntry {
            seq: self.seq,
            ts: Timestamp::from_ms(self.ts),
            workspace: self.workspace,
            actor: self.actor,
            action: self.action,
            subject: self.subject,
            before: side(self.before).map_err(broken)?,
            after: side(self.after).map_err(broken)?,
            prev_hash: self.prev_hash,
            hash: self.hash,
        })
    }
}

impl Store {
    /// Entries of a workspace after `after`, oldest first.
    pub async fn audit_after(
        &self,
        workspace: Id,
        after: i64,
        limit: i64,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            audit_columns!(),
            " where a.workspace_id = $1 and a.seq > $2 order by a.seq limit $3"
        );
        let rows: Vec<AuditRow> = read!(&self.pool, fetch_all, SQL, workspace.as_i64(), after, limit)?;
        rows.into_iter().map(AuditRow::entry).collect()
    }

    /// Entries of a workspace before `before`, newest first.
    pub async fn audit_before(
        &self,
        workspace: Id,
        before: i64,
        limit: i64,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            audit_columns!(),
            " where a.workspace_id = $1 and a.seq < $2 order by a.seq desc limit $3"
        );
        let rows: Vec<AuditRow> = read!(&self.pool, fetch_all, SQL, workspace.as_i64(), before, limit)?;
        rows.into_iter().map(AuditRow::entry).collect()
    }

    /// Entries that a filter lets through, newest first, of those after `after` and before `before`: whoever asks says how far back
    /// is looked, however few there are.
    pub async fn audit_filtered(
        &self,
        workspace: Id,
        filter: &AuditFilter,
        (after, before): (i64, i64),
        limit: i64,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            audit_columns!(),
            " where a.workspace_id = $1 and a.seq > $2 and a.seq < $3
              and ($4 = '' or a.actor = $4)
              and ($5 = '' or a.action = $5 or substr(a.action, 1, length($5) + 1) = $5 || '.')
              and ($6 = '' or a.subject = $6)
              and a.ts >= $7 and a.ts < $8
              order by a.seq desc limit $9"
        );
        let AuditFilter { actor, action, subject, during } = filter;
        let rows: Vec<AuditRow> = read!(
            &self.pool,
            fetch_all,
            SQL,
            workspace.as_i64(),
            after,
            before,
            actor.as_str(),
            action.as_str(),
            subject.as_str(),
            during.start.ms(),
            during.end.ms(),
            limit
        )?;
        rows.into_iter().map(AuditRow::entry).collect()
    }

    /// What happened to one link before the entry `before`, newest first.
    pub async fn history_before(
        &self,
        workspace: Id,
        code: &Code,
        before: i64,
        limit: i64,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            audit_columns!(),
            " where a.workspace_id = $1 and a.subject = $2 and a.seq < $3 order by a.seq desc limit $4"
        );
        let rows: Vec<AuditRow> =
            read!(&self.pool, fetch_all, SQL, workspace.as_i64(), link_subject(code), before, limit)?;
        rows.into_iter().map(AuditRow::entry).collect()
    }

    /// Everything that happened to one link, oldest first.
    pub async fn history(&self, workspace: Id, code: &Code) -> Result<Vec<AuditEntry>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            audit_columns!(),
            " where a.workspace_id = $1 and a.subject = $2 order by a.seq"
        );
        let rows: Vec<AuditRow> = read!(&self.pool, fetch_all, SQL, workspace.as_i64(), link_subject(code))?;
        rows.into_iter().map(AuditRow::entry).collect()
    }

    /// The last time this was done to a link.
    pub async fn last_entry(
        &self,
        workspace: Id,
        code: &Code,
        action: &str,
    ) -> Result<Option<AuditEntry>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            audit_columns!(),
            " where a.workspace_id = $1 and a.subject = $2 and a.action = $3 order by a.seq desc limit 1"
        );
        let subject = link_subject(code);
        let row: Option<AuditRow> =
            read!(&self.pool, fetch_optional, SQL, workspace.as_i64(), subject, action)?;
        row.map(AuditRow::entry).transpose()
    }

    /// The ends of all chains.
    pub async fn heads(&self) -> Result<Vec<(Id, Head)>, StoreError> {
        let rows: Vec<(i64, String, i64, String)> = read!(
            &self.pool,
            fetch_all,
            "select h.workspace_id, w.slug, h.seq, h.hash from heads h join workspaces w on w.id = h.workspace_id order by h.workspace_id"
        )?;
        Ok(rows
            .into_iter()
            .map(|(id, workspace, seq, hash)| (Id::from_i64(id), Head { workspace, seq, hash }))
            .collect())
    }

    /// Walks every chain of the store as of one moment. `checkpoints` are heads recorded earlier: each chain must pass through its own.
    /// The outer error is the store's; the inner one names the first bad entry.
    pub async fn verify(&self, checkpoints: &[Head]) -> Result<Result<Vec<Head>, ChainError>, StoreError> {
        const SQL: &str = concat!(
            "select ",
            audit_columns!(),
            " where a.workspace_id = $1 and a.seq > $2 order by a.seq limit $3"
        );
        let mut view = self.pool.snapshot().await?;
        // A workspace without a head had one: it is walked all the same, and does not end where nothing says.
        let heads: Vec<(i64, String, i64, String)> = read_in!(
            &mut view,
            fetch_all,
            "select w.id, w.slug, coalesce(h.seq, 0), coalesce(h.hash, '') from workspaces w left join heads h on h.workspace_id = w.id order by w.id"
        )?;
        let mut verified_heads = Vec::new();
        for (id, workspace, seq, hash) in heads {
            let claimed = Head { workspace, seq, hash };
            let mut verifier = Verifier::new(&claimed.workspace, checkpoints.to_vec());
            let mut after = i64::MIN;
            loop {
                let rows: Vec<AuditRow> = read_in!(&mut view, fetch_all, SQL, id, after, PAGE_SIZE)?;
                let full = is_full_page(PAGE_SIZE, rows.len());
                for row in rows {
                    let entry = row.entry()?;
                    after = entry.seq;
                    if let Err(fault) = verifier.push(&entry) {
                        return Ok(Err(fault));
                    }
                }
                if !full {
                    break;
                }
            }
            match verifier.finish(Some(&claimed)) {
                Ok(head) => verified_heads.push(head),
                Err(fault) => return Ok(Err(fault)),
            }
        }
        // A workspace a checkpoint knows and the store does not is a chain cut off whole.
        if let Some(checkpoint) = checkpoints.iter().find(|checkpoint| {
            checkpoint.seq > 0 && !verified_heads.iter().any(|head| head.workspace == checkpoint.workspace)
        }) {
            let what = "is missing with its whole workspace, though an earlier checkpoint recorded it";
            return Ok(Err(ChainError { workspace: checkpoint.workspace.clone(), seq: 1, what }));
        }
        Ok(Ok(verified_heads))
    }

    /// When the last change of a workspace was.
    pub async fn last_change(&self, workspace: Id) -> Result<Option<Timestamp>, StoreError> {
        let row: Option<(i64,)> = read!(
            &self.pool,
            fetch_optional,
            "select ts from heads where workspace_id = $1",
            workspace.as_i64()
        )?;
        Ok(row.map(|(ts,)| Timestamp::from_ms(ts)))
    }
}
