//! What a verified backup holds, written into a store.

use std::path::Path;

use rlinks_core::Timestamp;

use super::envelope::RestoreTrust;
use super::reader::BackupReader;
use super::{BackupCounts, Line, PAGE_SIZE};
use crate::StoreError;
use crate::access::credentials::{self, StoredCredential};
use crate::access::{api_keys, user_rows};
use crate::audit::chain;
use crate::database::json::json;
use crate::database::paging::is_full_page;
use crate::database::pool::{Tx, run_in};
use crate::links::rows::LinkBatchRow;
use crate::write::insert;

pub(super) async fn load(tx: &mut Tx, path: &Path, trust: &RestoreTrust) -> Result<BackupCounts, StoreError> {
    // Reading is synchronous and loading is not, so lines wait in a batch until their turn.
    let mut counts = BackupCounts::default();
    let mut reader = BackupReader::open(path)?;
    let mut batch = Vec::new();
    loop {
        let line = reader.next_line()?;
        if let (Some(Line::RlinksBackup(_)), Some(origin)) = (&line, reader.origin()) {
            origin.ensure_trusted(trust)?;
        }
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
            Line::User { password_hash, oidc_issuer, oidc_subject, credential_salt, principal, user } => {
                counts.users += 1;
                if user_rows::insert(tx, &user).await? == 0 {
                    return Err(duplicate_error(&format!("member {}", user.id)));
                }
                let stored =
                    StoredCredential { password_hash, oidc_issuer, oidc_subject, salt: credential_salt };
                credentials::restore(tx, user.id, &stored).await?;
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
            Line::RlinksBackup(_) | Line::End(_) => {}
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
