//! Backup and restore: one logical format for both databases, so that a backup of one restores into the other.
//!
//! JSON lines: a header that names the key of the installation, then every workspace, domain, member, key, link, head, worker and audit entry as of one moment, then a last line
//! with the count and the SHA-256 of all lines before it, signed by that key. Everything is written as the log says it. Restoring reads the file
//! twice: once to verify it whole (counts, hash, every audit chain, and `check`: the rest against the chains), once to load it in
//! one transaction. So a bad file changes nothing, and a crash leaves what was there.

mod check;
mod envelope;
mod load;
mod reader;
mod replay;
mod replay_links;
mod replay_members;

use std::io::{BufWriter, Write};
use std::path::Path;

use rlinks_core::audit::{AuditEntry, Head};
use rlinks_core::hex;
use rlinks_core::{ApiKey, Domain, Id, Link, Timestamp, User, Workspace};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use self::check::{BackupCheck, LinkTotals};
use self::envelope::{BackupEnd, BackupHeader};
pub use self::envelope::{BackupOrigin, RestoreTrust};
use self::reader::BackupReader;
use crate::access::api_keys::{AuditedKey, key_subject};
use crate::access::credentials::StoredCredential;
use crate::access::user_rows::user_subject;
use crate::audit::log::AuditRow;
use crate::audit::signing_key::Signer;
use crate::database::json::json;
use crate::database::paging::is_full_page;
use crate::database::pool::{Dialect, Tx, read_in, run_in};
use crate::database::row::from_row;
use crate::links::recover;
use crate::links::rows::{LinkRow, link_columns};
use crate::workspace::domains;
use crate::workspace::domains::DomainRow;
use crate::{Store, StoreError, StoreWriter};

const PAGE_SIZE: i64 = 1000;
/// No line of ours is longer: a target of 64 KiB, notes, metadata, twice in an audit entry, escaped.
const MAX_LINE_BYTES: usize = 1024 * 1024;

/// What a backup holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupCounts {
    pub workspaces: u64,
    pub domains: u64,
    /// Members, the deleted ones too.
    pub users: u64,
    /// API keys, by their hashes.
    pub keys: u64,
    /// Links, the deleted ones too.
    pub links: u64,
    pub audit: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    RlinksBackup(BackupHeader),
    Workspace(Workspace),
    Domain(Domain),
    User {
        password_hash: Option<String>,
        oidc_issuer: Option<String>,
        oidc_subject: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        credential_salt: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        principal: Option<String>,
        #[serde(flatten)]
        user: User,
    },
    Key {
        hash: String,
        #[serde(flatten)]
        key: ApiKey,
    },
    Head {
        workspace_id: Id,
        ts: Timestamp,
        links: i64,
        #[serde(flatten)]
        head: Head,
    },
    Worker {
        worker: i64,
        last_id: Id,
    },
    Link {
        target_normalized: Option<String>,
        #[serde(flatten)]
        link: Link,
    },
    Audit {
        workspace_id: Id,
        entry: AuditEntry,
    },
    End(BackupEnd),
}

/// A sink that counts and hashes what goes through.
struct BackupWriter<W: Write> {
    to: W,
    hash: Sha256,
    lines: u64,
}

impl<W: Write> BackupWriter<W> {
    fn write_line(&mut self, line: &Line) -> Result<(), StoreError> {
        let mut text = json(line);
        text.push('\n');
        self.hash.update(text.as_bytes());
        self.lines += 1;
        self.to.write_all(text.as_bytes()).map_err(|error| cannot_write(&error))
    }
}

fn cannot_write(error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("the backup cannot be written: {error}"))
}

impl Store {
    /// Writes everything, as of one moment, while others go on working.
    pub async fn backup(
        &self,
        to: impl Write + Send,
        signer: &Signer,
        now: Timestamp,
    ) -> Result<BackupCounts, StoreError> {
        let mut view = self.pool.snapshot().await?;
        let mut out = BackupWriter { to: BufWriter::new(to), hash: Sha256::new(), lines: 0 };
        out.write_line(&Line::RlinksBackup(BackupHeader::new(signer, now)))?;
        let mut counts = BackupCounts::default();
        write_workspaces_and_domains(&mut view, &mut out, &mut counts).await?;
        let mut totals = LinkTotals::default();
        write_members_and_keys(&mut view, &mut out, &mut counts, &mut totals, now).await?;
        counts.links = write_links(&mut view, &mut out, &mut totals).await?;
        write_heads(&mut view, &mut out, totals).await?;
        counts.audit = write_audit(&mut view, &mut out).await?;
        let sha256 = hex::encode(&out.hash.clone().finalize());
        let end =
            BackupEnd { lines: out.lines, signature: Some(signer.seal_backup(out.lines, &sha256)), sha256 };
        out.write_line(&Line::End(end))?;
        out.to.flush().map_err(|error| cannot_write(&error))?;
        Ok(counts)
    }

    /// Whether anything was ever made in this store beyond what its first start makes.
    pub async fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.heads().await?.iter().map(|(_, head)| head.seq).sum::<i64>() <= 1)
    }
}

impl StoreWriter {
    /// Replaces everything in this store by a verified backup, in one transaction.
    pub async fn restore(&self, path: &Path, trust: &RestoreTrust) -> Result<BackupCounts, StoreError> {
        verify(path)?.origin.ensure_trusted(trust)?;
        let mut tx = self.pool.begin().await?;
        if tx.dialect() == Dialect::Postgres {
            // On SQLite the transaction has the one write lock. Here the heads keep every writer out, readers go on, and the time
            // limit meant for single changes does not stop a large restore half-way.
            run_in!(&mut tx, "set local statement_timeout = 0")?;
            run_in!(&mut tx, "lock table heads in exclusive mode")?;
        }
        run_in!(&mut tx, "delete from link_tags")?;
        run_in!(&mut tx, "delete from link_search")?;
        for table in [
            "delete from brakes",
            "delete from idempotency",
            "delete from invites",
            "delete from sessions",
            "delete from api_keys",
            "delete from users",
            "delete from audit",
            "delete from links",
            "delete from domains",
            "delete from heads",
            "delete from workers",
            "delete from workspaces",
        ] {
            run_in!(&mut tx, table)?;
        }
        let counts = load::load(&mut tx, path, trust).await?;
        domains::replay(&mut tx).await?;
        run_in!(
            &mut tx,
            "insert into workers (worker, last_id, holder, leased_until) values (0, 0, '', 0) on conflict do nothing"
        )?;
        if tx.dialect() == Dialect::Postgres {
            run_in!(&mut tx, "select pg_notify('rlinks', '')")?;
        }
        tx.commit().await?;
        self.analyze().await;
        self.notify_changed();
        Ok(counts)
    }
}

/// Workspaces and domains as the log says them; a row that says otherwise was changed past it, and a backup that did so would be
/// refused by whoever restores it.
async fn write_workspaces_and_domains<W: Write>(
    view: &mut Tx,
    out: &mut BackupWriter<W>,
    counts: &mut BackupCounts,
) -> Result<(), StoreError> {
    let mut logged = replay::from_log(view).await?;
    for row in replay::workspace_rows(view).await? {
        let (id, slug) = (row.id, row.slug.clone());
        let workspace = match (logged.workspaces.remove(&id), row.workspace()) {
            (Some(said), Ok(there)) if said == there => said,
            (Some(said), _) => {
                tracing::warn!(
                    slug,
                    "a workspace was changed past the log; the backup has what the log says"
                );
                said
            }
            (None, there) => there?,
        };
        counts.workspaces += 1;
        out.write_line(&Line::Workspace(workspace))?;
    }
    let there: Vec<_> = replay::domain_rows(view).await?.into_iter().map(DomainRow::domain).collect();
    let mut said: Vec<_> = logged.domains.into_values().collect();
    said.sort_by(|a, b| a.host.as_str().cmp(b.host.as_str()));
    if there != said {
        tracing::warn!("domains were changed past the log; the backup has what the log says");
    }
    for domain in said {
        counts.domains += 1;
        out.write_line(&Line::Domain(domain))?;
    }
    Ok(())
}

/// Members and keys as the log says them, with what it does not say from their rows: addresses, names, how they sign in. Invitations
/// are not in it: they work once, and a copy would work again.
async fn write_members_and_keys<W: Write>(
    view: &mut Tx,
    out: &mut BackupWriter<W>,
    counts: &mut BackupCounts,
    totals: &mut LinkTotals,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut logged = replay_members::from_log(view).await?;
    for row in replay_members::user_rows(view).await? {
        let mut credential = StoredCredential::from_row(&row);
        let principal = row.principal;
        let user = row.user.user()?;
        if logged.contradicts((user.workspace.as_i64(), user.id.as_i64()), &credential) {
            tracing::warn!(id = %user.id, "a member's credentials were changed past the log; the backup leaves them out");
            credential = StoredCredential::default();
        }
        let Some(said) = logged.users.remove(&(user.workspace.as_i64(), user.id.as_i64())) else {
            logged.ensure_readable(user.workspace, &user_subject(user.id))?;
            tracing::warn!(id = %user.id, "the log knows nothing of a member; the backup passes them over");
            continue;
        };
        if said != user.audited() {
            tracing::warn!(id = %user.id, "a member was changed past the log; the backup has what the log says");
        }
        let user = User { role: said.role, status: said.status, ..user };
        counts.users += 1;
        totals.add_id(user.id);
        write_user(out, credential, principal, user)?;
    }
    for ((workspace, _), said) in std::mem::take(&mut logged.users) {
        tracing::warn!(id = %said.id, "the row of a member is gone; the backup has what the log says");
        counts.users += 1;
        totals.add_id(said.id);
        let user = replay_members::user_without_row(workspace, said, now);
        write_user(out, StoredCredential::default(), None, user)?;
    }
    for row in replay_members::key_rows(view).await? {
        let hash = row.hash.clone();
        let key = row.key();
        let Some(said) = logged.keys.remove(&(key.workspace.as_i64(), key.id.as_i64())) else {
            logged.ensure_readable(key.workspace, &key_subject(key.id))?;
            tracing::warn!(id = %key.id, "the log knows nothing of a key; the backup passes it over");
            continue;
        };
        if said != AuditedKey::from_key(&key, &hash) {
            tracing::warn!(id = %key.id, "a key was changed past the log; the backup has what the log says");
        }
        counts.keys += 1;
        totals.add_id(key.id);
        out.write_line(&Line::Key { key: said.correct(key), hash: said.hash })?;
    }
    for ((workspace, _), said) in logged.keys {
        tracing::warn!(id = %said.id, "the row of a key is gone; the backup has what the log says");
        counts.keys += 1;
        totals.add_id(said.id);
        let key = replay_members::key_without_row(workspace, &said, now);
        out.write_line(&Line::Key { key, hash: said.hash })?;
    }
    Ok(())
}

fn write_user<W: Write>(
    out: &mut BackupWriter<W>,
    credential: StoredCredential,
    principal: Option<String>,
    user: User,
) -> Result<(), StoreError> {
    let StoredCredential { password_hash, oidc_issuer, oidc_subject, salt } = credential;
    let credential_salt = salt;
    out.write_line(&Line::User { password_hash, oidc_issuer, oidc_subject, credential_salt, principal, user })
}

/// The ends of the chains and the last ids. What they say of links is said anew from the links that were written.
async fn write_heads<W: Write>(
    view: &mut Tx,
    out: &mut BackupWriter<W>,
    totals: LinkTotals,
) -> Result<(), StoreError> {
    let rows: Vec<(i64, String, i64, String, i64)> = read_in!(
        view,
        fetch_all,
        "select h.workspace_id, w.slug, h.seq, h.hash, h.ts from heads h join workspaces w on w.id = h.workspace_id order by h.workspace_id"
    )?;
    for (id, workspace, seq, hash, ts) in rows {
        out.write_line(&Line::Head {
            workspace_id: Id::from_i64(id),
            ts: Timestamp::from_ms(ts),
            links: totals.live.get(&id).copied().unwrap_or_default(),
            head: Head { workspace, seq, hash },
        })?;
    }
    let rows: Vec<(i64, i64)> =
        read_in!(view, fetch_all, "select worker, last_id from workers order by worker")?;
    let mut last_ids = totals.greatest;
    for (worker, last_id) in rows {
        let last = last_ids.entry(worker).or_insert(Id::from_i64(last_id));
        *last = (*last).max(Id::from_i64(last_id));
    }
    for (worker, last_id) in last_ids {
        out.write_line(&Line::Worker { worker, last_id })?;
    }
    Ok(())
}

/// Every link as the log says it: the rows that are so, those that are not, and those that are gone.
async fn write_links<W: Write>(
    view: &mut Tx,
    out: &mut BackupWriter<W>,
    totals: &mut LinkTotals,
) -> Result<u64, StoreError> {
    struct Row {
        link: LinkRow,
        target_normalized: Option<String>,
    }

    from_row!(Row { target_normalized; link });
    const SQL: &str = concat!(
        "select ",
        link_columns!(),
        ", target_normalized from links where id > $1 order by id limit $2"
    );
    let (mut count, mut after) = (0, i64::MIN);
    loop {
        let rows: Vec<Row> = read_in!(view, fetch_all, SQL, after, PAGE_SIZE)?;
        let full = is_full_page(PAGE_SIZE, rows.len());
        let places: Vec<_> = rows.iter().map(|row| (row.link.workspace_id, row.link.code.clone())).collect();
        let mut logged = recover::from_log(view, &places).await?;
        for (row, place) in rows.into_iter().zip(places) {
            after = row.link.id;
            let Some(link) = logged.remove(&place) else {
                tracing::warn!(code = place.1, "the log knows nothing of a link; the backup passes it over");
                continue;
            };
            if row.link.link().ok().as_ref() != Some(&link) {
                tracing::warn!(
                    code = place.1,
                    "a link was changed past the log; the backup has what the log says"
                );
            }
            count += 1;
            totals.add(&link);
            out.write_line(&Line::Link { target_normalized: row.target_normalized, link })?;
        }
        if !full {
            break;
        }
    }
    let gone: Vec<(i64, String)> = read_in!(view, fetch_all, replay_links::MISSING_LINKS, i64::MAX)?;
    for places in gone.chunks(usize::try_from(PAGE_SIZE).unwrap_or(1)) {
        let mut logged: Vec<_> = recover::from_log(view, places).await?.into_values().collect();
        logged.sort_by_key(|link| link.id);
        for link in logged {
            tracing::warn!(
                code = link.code.as_str(),
                "the row of a link is gone; the backup has what the log says"
            );
            count += 1;
            totals.add(&link);
            out.write_line(&Line::Link { target_normalized: None, link })?;
        }
    }
    Ok(count)
}

async fn write_audit<W: Write>(view: &mut Tx, out: &mut BackupWriter<W>) -> Result<u64, StoreError> {
    struct Row {
        workspace_id: i64,
        entry: AuditRow,
    }

    from_row!(Row { workspace_id; entry });
    const SQL: &str = "select a.workspace_id, a.seq, a.ts, w.slug as workspace, a.actor, a.action, a.subject, a.before, a.after, a.prev_hash, a.hash
        from audit a join workspaces w on w.id = a.workspace_id
        where (a.workspace_id, a.seq) > ($1, $2) order by a.workspace_id, a.seq limit $3";
    let (mut count, mut after) = (0, (i64::MIN, 0));
    loop {
        let rows: Vec<Row> = read_in!(view, fetch_all, SQL, after.0, after.1, PAGE_SIZE)?;
        let full = is_full_page(PAGE_SIZE, rows.len());
        for row in rows {
            let entry = row.entry.entry()?;
            after = (row.workspace_id, entry.seq);
            count += 1;
            out.write_line(&Line::Audit { workspace_id: Id::from_i64(row.workspace_id), entry })?;
        }
        if !full {
            return Ok(count);
        }
    }
}

/// A backup that holds together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedBackup {
    pub counts: BackupCounts,
    pub origin: BackupOrigin,
}

/// Reads a backup whole and checks everything that can be checked without a store: that it is all there, that its signature is that of
/// the key it names, that its audit chains hold, and that everything else in it is what they say. Whose key it is, is not ours to know.
pub fn verify(path: &Path) -> Result<VerifiedBackup, StoreError> {
    let refuse = |what: String| StoreError::Refused(format!("{what}; nothing was changed"));
    let mut check = BackupCheck::default();
    let mut lines = BackupReader::open(path)?;
    while let Some(line) = lines.next_line()? {
        check.push(line).map_err(refuse)?;
    }
    let origin = lines.origin().cloned().ok_or_else(|| refuse("the backup has no header".to_owned()))?;
    Ok(VerifiedBackup { counts: check.finish().map_err(refuse)?, origin })
}
