//! Backup and restore: one logical format for both databases, so that a backup of one restores into the other.
//!
//! JSON lines: a header, then every workspace, domain, head, worker, link and audit entry as of one moment, then a last line
//! with the count and the SHA-256 of all lines before it. Restoring reads the file twice: once to verify it whole (counts, hash,
//! every audit chain), once to load it in one transaction. So a bad file changes nothing, and a crash leaves what was there.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write};
use std::path::Path;

use rlinks_core::audit::{AuditEntry, Head, Verifier, hex};
use rlinks_core::{Domain, Id, Link, Timestamp, Workspace};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::pool::{Dialect, Tx, read_in, run_in};
use crate::rows::{AuditRow, DomainRow, LinkBatchRow, LinkRow, WorkspaceRow, fills, json, link_columns};
use crate::write::insert_batches;
use crate::{Store, StoreError};

const FORMAT: u32 = 1;
const PAGE: i64 = 1000;
/// No line of ours is longer: a target of 64 KiB, notes, metadata, twice in an audit entry, escaped.
const LONGEST_LINE: usize = 1024 * 1024;

/// What a backup holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workspaces.
    pub workspaces: u64,
    /// Domains.
    pub domains: u64,
    /// Links, the deleted ones too.
    pub links: u64,
    /// Audit entries.
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
struct Out<W: Write> {
    to: W,
    hash: Sha256,
    lines: u64,
}

impl<W: Write> Out<W> {
    fn line(&mut self, line: &Line) -> Result<(), StoreError> {
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
    pub async fn backup(&self, to: impl Write + Send, now: Timestamp) -> Result<Counts, StoreError> {
        let mut view = self.pool.snapshot().await?;
        let mut out = Out { to: BufWriter::new(to), hash: Sha256::new(), lines: 0 };
        out.line(&Line::RlinksBackup {
            format: FORMAT,
            created_at: now,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })?;
        let mut counts = Counts::default();
        write_directory(&mut view, &mut out, &mut counts).await?;
        counts.links = write_links(&mut view, &mut out).await?;
        counts.audit = write_audit(&mut view, &mut out).await?;
        let end = Line::End { lines: out.lines, sha256: hex(&out.hash.clone().finalize()) };
        out.line(&end)?;
        out.to.flush().map_err(|error| cannot_write(&error))?;
        Ok(counts)
    }

    /// Whether anything was ever made in this store beyond what its first start makes.
    pub async fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.heads().await?.iter().map(|(_, head)| head.seq).sum::<i64>() <= 1)
    }

    /// Replaces everything in this store by a verified backup, in one transaction.
    pub async fn restore(&self, path: &Path) -> Result<Counts, StoreError> {
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
        run_in!(
            &mut tx,
            "insert into workers (worker, last_id, holder, leased_until) values (0, 0, '', 0) on conflict do nothing"
        )?;
        if tx.dialect() == Dialect::Postgres {
            run_in!(&mut tx, "select pg_notify('rlinks', '')")?;
        }
        tx.commit().await?;
        self.announce();
        Ok(counts)
    }
}

async fn write_directory<W: Write>(
    view: &mut Tx,
    out: &mut Out<W>,
    counts: &mut Counts,
) -> Result<(), StoreError> {
    let rows: Vec<WorkspaceRow> = read_in!(
        view,
        fetch_all,
        "select id, slug, name, policy, created_at, updated_at, deleted_at from workspaces order by id"
    )?;
    for row in rows {
        counts.workspaces += 1;
        out.line(&Line::Workspace(row.workspace()?))?;
    }
    let rows: Vec<DomainRow> = read_in!(
        view,
        fetch_all,
        "select host, workspace_id, is_primary, created_at from domains order by host"
    )?;
    for row in rows {
        counts.domains += 1;
        out.line(&Line::Domain(row.domain()))?;
    }
    let rows: Vec<(i64, String, i64, String, i64, i64)> = read_in!(
        view,
        fetch_all,
        "select h.workspace_id, w.slug, h.seq, h.hash, h.ts, h.links from heads h join workspaces w on w.id = h.workspace_id order by h.workspace_id"
    )?;
    for (id, workspace, seq, hash, ts, links) in rows {
        out.line(&Line::Head {
            workspace_id: Id::from_i64(id),
            ts: Timestamp::from_ms(ts),
            links,
            head: Head { workspace, seq, hash },
        })?;
    }
    let rows: Vec<(i64, i64)> =
        read_in!(view, fetch_all, "select worker, last_id from workers order by worker")?;
    for (worker, last_id) in rows {
        out.line(&Line::Worker { worker, last_id: Id::from_i64(last_id) })?;
    }
    Ok(())
}

async fn write_links<W: Write>(view: &mut Tx, out: &mut Out<W>) -> Result<u64, StoreError> {
    #[derive(sqlx::FromRow)]
    struct Row {
        #[sqlx(flatten)]
        link: LinkRow,
        target_normalized: Option<String>,
    }
    const SQL: &str = concat!(
        "select ",
        link_columns!(),
        ", target_normalized from links where id > $1 order by id limit $2"
    );
    let (mut count, mut after) = (0, i64::MIN);
    loop {
        let rows: Vec<Row> = read_in!(view, fetch_all, SQL, after, PAGE)?;
        let full = fills(PAGE, rows.len());
        for row in rows {
            after = row.link.id;
            count += 1;
            out.line(&Line::Link { target_normalized: row.target_normalized, link: row.link.link()? })?;
        }
        if !full {
            return Ok(count);
        }
    }
}

async fn write_audit<W: Write>(view: &mut Tx, out: &mut Out<W>) -> Result<u64, StoreError> {
    #[derive(sqlx::FromRow)]
    struct Row {
        workspace_id: i64,
        #[sqlx(flatten)]
        entry: AuditRow,
    }
    const SQL: &str = "select a.workspace_id, a.seq, a.ts, w.slug as workspace, a.actor, a.action, a.subject, a.before, a.after, a.prev_hash, a.hash
        from audit a join workspaces w on w.id = a.workspace_id
        where (a.workspace_id, a.seq) > ($1, $2) order by a.workspace_id, a.seq limit $3";
    let (mut count, mut after) = (0, (i64::MIN, 0));
    loop {
        let rows: Vec<Row> = read_in!(view, fetch_all, SQL, after.0, after.1, PAGE)?;
        let full = fills(PAGE, rows.len());
        for row in rows {
            let entry = row.entry.entry()?;
            after = (row.workspace_id, entry.seq);
            count += 1;
            out.line(&Line::Audit { workspace_id: Id::from_i64(row.workspace_id), entry })?;
        }
        if !full {
            return Ok(count);
        }
    }
}

/// Reads a backup whole and checks everything that can be checked without a store.
pub fn verify(path: &Path) -> Result<Counts, StoreError> {
    let mut chains: HashMap<String, Verifier> = HashMap::new();
    let mut heads: Vec<Head> = Vec::new();
    let mut counts = Counts::default();
    read_lines(path, |line| {
        match line {
            Line::Workspace(_) => counts.workspaces += 1,
            Line::Domain(_) => counts.domains += 1,
            Line::Link { .. } => counts.links += 1,
            Line::Head { head, .. } => heads.push(head),
            Line::Audit { entry, .. } => {
                counts.audit += 1;
                let chain = chains
                    .entry(entry.workspace.clone())
                    .or_insert_with(|| Verifier::new(&entry.workspace, Vec::new()));
                chain.push(&entry).map_err(|fault| {
                    StoreError::Refused(format!("the backup's audit log is broken: {fault}"))
                })?;
            }
            Line::RlinksBackup { .. } | Line::Worker { .. } | Line::End { .. } => {}
        }
        Ok(())
    })?;
    for head in &heads {
        let chain =
            chains.remove(&head.workspace).unwrap_or_else(|| Verifier::new(&head.workspace, Vec::new()));
        chain
            .finish(Some(head))
            .map_err(|fault| StoreError::Refused(format!("the backup's audit log is broken: {fault}")))?;
    }
    Ok(counts)
}

async fn load(tx: &mut Tx, path: &Path) -> Result<Counts, StoreError> {
    // Reading is synchronous and loading is not, so lines wait in a batch until their turn.
    let mut counts = Counts::default();
    let mut reader = Lines::open(path)?;
    let mut batch = Vec::new();
    loop {
        let line = reader.next_line()?;
        let done = line.is_none();
        batch.extend(line);
        if done || fills(PAGE, batch.len()) {
            load_batch(tx, std::mem::take(&mut batch), &mut counts).await?;
        }
        if done {
            return Ok(counts);
        }
    }
}

async fn load_batch(tx: &mut Tx, batch: Vec<Line>, counts: &mut Counts) -> Result<(), StoreError> {
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
        let rows: Vec<_> =
            links.iter().map(|(normalized, link)| LinkBatchRow::of(link, normalized.as_deref(), 0)).collect();
        if insert_batches::links(tx, &rows).await? != links.len() as u64 {
            return Err(StoreError::Refused("the backup holds the same code twice".to_owned()));
        }
        insert_batches::words(tx, &links.iter().map(|(_, link)| link).collect::<Vec<_>>()).await?;
    }
    if !audit.is_empty() {
        let entries: Vec<_> = audit.iter().map(|(id, entry)| (id.as_i64(), entry)).collect();
        insert_batches::audit(tx, &entries).await?;
    }
    Ok(())
}

fn read_lines(path: &Path, mut each: impl FnMut(Line) -> Result<(), StoreError>) -> Result<(), StoreError> {
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.next_line()? {
        each(line)?;
    }
    Ok(())
}

/// Reads a backup line by line, and at the end checks that it was all of it.
struct Lines {
    from: BufReader<File>,
    hash: Sha256,
    count: u64,
    ended: bool,
}

impl Lines {
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
        let mut limited = std::io::Read::take(&mut self.from, LONGEST_LINE as u64);
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
            Line::RlinksBackup { format, .. } if *format > FORMAT => {
                return refuse("it was written by a newer rmax");
            }
            Line::RlinksBackup { .. } if self.count == 0 => {}
            _ if self.count == 0 => return refuse("it has no header"),
            Line::End { lines, sha256 } => {
                self.ended = true;
                if *lines != self.count || *sha256 != hex(&self.hash.clone().finalize()) {
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
