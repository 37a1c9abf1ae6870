//! Backup and restore: one logical format for both databases, so that a backup of one restores into the other.
//!
//! JSON lines: a header, then every workspace, domain, member, key, link, head, worker and audit entry as of one moment, then a last line
//! with the count and the SHA-256 of all lines before it. Everything is written as the log says it. Restoring reads the file
//! twice: once to verify it whole (counts, hash, every audit chain, and `check`: the rest against the chains), once to load it in
//! one transaction. So a bad file changes nothing, and a crash leaves what was there.

mod check;
mod replay;
mod replay_links;
mod replay_members;

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write};
use std::path::Path;

use rlinks_core::audit::{AuditEntry, Head};
use rlinks_core::hex;
use rlinks_core::{ApiKey, Domain, Id, Link, Timestamp, User, Workspace};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use self::check::{BackupCheck, LinkTotals};
use crate::access::api_keys::{self, AuditedKey, key_subject};
use crate::access::user_rows::{self, user_subject};
use crate::audit::chain;
use crate::audit::log::AuditRow;
use crate::database::json::json;
use crate::database::paging::is_full_page;
use crate::database::pool::{Dialect, Tx, read_in, run_in};
use crate::database::row::from_row;
use crate::links::recover;
use crate::links::rows::{LinkBatchRow, LinkRow, link_columns};
use crate::workspace::domains;
use crate::workspace::domains::DomainRow;
use crate::write::insert;
use crate::{Store, StoreError, StoreWriter};

/// 2: with members and keys.
const FORMAT_VERSION: u32 = 2;
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
    RlinksBackup {
        format: u32,
        created_at: Timestamp,
        version: String,
    },
    Workspace(Workspace),
    Domain(Domain),
    User {
        password_hash: Option<String>,
        oidc_issuer: Option<String>,
        oidc_subject: Option<String>,
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
    End {
        lines: u64,
        sha256: String,
    },
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
    pub async fn backup(&self, to: impl Write + Send, now: Timestamp) -> Result<BackupCounts, StoreError> {
        let mut view = self.pool.snapshot().await?;
        let mut out = BackupWriter { to: BufWriter::new(to), hash: Sha256::new(), lines: 0 };
        out.write_line(&Line::RlinksBackup {
            format: FORMAT_VERSION,
            created_at: now,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })?;
        let mut counts = BackupCounts::default();
        write_workspaces_and_domains(&mut view, &mut out, &mut counts).await?;
        let mut totals = LinkTotals::default();
        write_members_and_keys(&mut view, &mut out, &mut counts, &mut totals, now).await?;
        counts.links = write_links(&mut view, &mut out, &mut totals).await?;
        write_heads(&mut view, &mut out, totals).await?;
        counts.audit = write_audit(&mut view, &mut out).await?;
        let end = Line::End { lines: out.lines, sha256: hex::encode(&out.hash.clone().finalize()) };
        out.write_line(&end)?;
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
    pub async fn restore(&self, path: &Path) -> Result<BackupCounts, StoreError> {
        verify(path)?;
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
        let counts = load(&mut tx, path).await?;
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
        let (password_hash, oidc_issuer, oidc_subject, principal) =
            (row.password_hash, row.oidc_issuer, row.oidc_subject, row.principal);
        let user = row.user.user()?;
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
        out.write_line(&Line::User { password_hash, oidc_issuer, oidc_subject, principal, user })?;
    }
    for ((workspace, _), said) in std::mem::take(&mut logged.users) {
        tracing::warn!(id = %said.id, "the row of a member is gone; the backup has what the log says");
        counts.users += 1;
        totals.add_id(said.id);
        let user = replay_members::user_without_row(workspace, said, now);
        let (password_hash, oidc_issuer, oidc_subject, principal) = (None, None, None, None);
        out.write_line(&Line::User { password_hash, oidc_issuer, oidc_subject, principal, user })?;
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

/// Reads a backup whole and checks everything that can be checked without a store: that it is all there, that its audit chains
/// hold, and that everything else in it is what they say.
pub fn verify(path: &Path) -> Result<BackupCounts, StoreError> {
    let refuse = |what: String| StoreError::Refused(format!("{what}; nothing was changed"));
    let mut check = BackupCheck::default();
    let mut lines = BackupReader::open(path)?;
    while let Some(line) = lines.next_line()? {
        check.push(line).map_err(refuse)?;
    }
    check.finish().map_err(refuse)
}

async fn load(tx: &mut Tx, path: &Path) -> Result<BackupCounts, StoreError> {
    // Reading is synchronous and loading is not, so lines wait in a batch until their turn.
    let mut counts = BackupCounts::default();
    let mut reader = BackupReader::open(path)?;
    let mut batch = Vec::new();
    loop {
        let line = reader.next_line()?;
        let done = line.is_none();
        batch.extend(line);
        if done || is_full_page(PAGE_SIZE, batch.len()) {
            load_batch(tx, std::mem::take(&mut batch), &mut counts).await?;
        }
        if done {
            return Ok(counts);
        }
    }
}

async fn load_batch(tx: &mut Tx, batch: Vec<Line>, counts: &mut BackupCounts) -> Result<(), StoreError> {
    let (mut links, mut audit) = (Vec::new(), Vec::new());
    for line in batch {
        match line {
            Line::Workspace(workspace) => {
                counts.workspaces += 1;
                run_in!(
                    tx,
                    "insert into workspaces (id, slug, name, policy, created_at, updated_at, deleted_at) values ($1, $2, $3, $4, $5, $6, $7)",
                    workspace.id.as_i64(),
                    workspace.slug.as_str(),
                    &workspace.name,
                    json(&workspace.policy),
                    workspace.created_at.ms(),
                    workspace.updated_at.ms(),
                    workspace.deleted_at.map(Timestamp::ms)
                )?;
            }
            Line::Domain(domain) => {
                counts.domains += 1;
                run_in!(
                    tx,
                    "insert into domains (host, workspace_id, is_primary, created_at) values ($1, $2, $3, $4)",
                    domain.host.as_str(),
                    domain.workspace.as_i64(),
                    domain.primary,
                    domain.created_at.ms()
                )?;
            }
            Line::User { password_hash, oidc_issuer, oidc_subject, principal, user } => {
                counts.users += 1;
                if user_rows::insert(tx, &user).await? == 0 {
                    return Err(duplicate_error(&format!("member {}", user.id)));
                }
                run_in!(
                    tx,
                    "update users set password_hash = $2, oidc_issuer = $3, oidc_subject = $4 where id = $1",
                    user.id.as_i64(),
                    password_hash,
                    oidc_issuer,
                    oidc_subject
                )?;
                user_rows::set_principal(tx, user.id, principal.as_deref()).await?;
            }
            Line::Key { hash, key } => {
                counts.keys += 1;
                if api_keys::insert(tx, &key, &hash).await? == 0 {
                    return Err(duplicate_error(&format!("key {}", key.id)));
                }
            }
            Line::Head { workspace_id, ts, links, head } => {
                run_in!(
                    tx,
                    "insert into heads (workspace_id, seq, hash, ts, links) values ($1, $2, $3, $4, $5)",
                    workspace_id.as_i64(),
                    head.seq,
                    &head.hash,
                    ts.ms(),
                    links
                )?;
            }
            Line::Worker { worker, last_id } => {
                run_in!(
                    tx,
                    "insert into workers (worker, last_id, holder, leased_until) values ($1, $2, '', 0)",
                    worker,
                    last_id.as_i64()
                )?;
            }
            Line::Link { target_normalized, link } => links.push((target_normalized, link)),
            Line::Audit { workspace_id, entry } => audit.push((workspace_id, entry)),
            Line::RlinksBackup { .. } | Line::End { .. } => {}
        }
    }
    counts.links += links.len() as u64;
    counts.audit += audit.len() as u64;
    if !links.is_empty() {
        let rows: Vec<_> = links
            .iter()
            .map(|(normalized, link)| LinkBatchRow::from_link(link, normalized.clone(), None))
            .collect();
        if insert::links(tx, &rows).await? != links.len() as u64 {
            return Err(duplicate_error("a code"));
        }
        insert::tags_and_words(tx, &links.iter().map(|(_, link)| link).collect::<Vec<_>>()).await?;
    }
    if !audit.is_empty() {
        let entries: Vec<_> = audit.iter().map(|(id, entry)| (id.as_i64(), entry)).collect();
        chain::insert(tx, &entries).await?;
    }
    Ok(())
}

fn duplicate_error(what: &str) -> StoreError {
    StoreError::Refused(format!("the backup holds {what} twice; nothing was changed"))
}

/// Reads a backup line by line, and at the end checks that it was all of it.
struct BackupReader {
    from: BufReader<File>,
    hash: Sha256,
    count: u64,
    ended: bool,
}

impl BackupReader {
    fn open(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path)
            .map_err(|error| StoreError::Unavailable(format!("{}: {error}", path.display())))?;
        Ok(Self { from: BufReader::new(file), hash: Sha256::new(), count: 0, ended: false })
    }

    fn next_line(&mut self) -> Result<Option<Line>, StoreError> {
        let refuse = |what: &str| {
            Err(StoreError::Refused(format!("not a whole rlinks backup: {what}; nothing was changed")))
        };
        let mut text = Vec::new();
        let mut limited = std::io::Read::take(&mut self.from, MAX_LINE_BYTES as u64);
        limited
            .read_until(b'\n', &mut text)
            .map_err(|error| StoreError::Unavailable(format!("the backup cannot be read: {error}")))?;
        if text.is_empty() {
            return if self.ended { Ok(None) } else { refuse("it ends early") };
        }
        if self.ended {
            return refuse("there is more after its end");
        }
        let Ok(line) = serde_json::from_slice::<Line>(&text) else {
            return refuse(&format!("line {} cannot be read", self.count + 1));
        };
        match &line {
            Line::RlinksBackup { format, .. } if *format > FORMAT_VERSION => {
                return refuse("it was written by a newer rmax");
            }
            Line::RlinksBackup { .. } if self.count == 0 => {}
            _ if self.count == 0 => return refuse("it has no header"),
            Line::End { lines, sha256 } => {
                self.ended = true;
                if *lines != self.count || *sha256 != hex::encode(&self.hash.clone().finalize()) {
                    return refuse("its contents are not those its last line names");
                }
            }
            _ => {}
        }
        self.hash.update(&text);
        self.count += 1;
        Ok(Some(line))
    }
}
