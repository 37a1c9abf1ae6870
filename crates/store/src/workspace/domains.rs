//! Custody of hosts: which must be proven, which answer, and what was last seen of them.
//!
//! Whether a host answers is in the log too, entry by entry, so that a restored store and `rmax audit verify` know it. What was merely
//! seen (when DNS was last asked, when a registration ends) is only here, and is found out again.

use std::collections::{BTreeMap, HashSet};

use rlinks_core::workspace::domain_verification::Event;
use rlinks_core::{Actor, Custody, Domain, Host, Id, Standing, Timestamp};

use crate::audit::log::domain_subject;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::links::rows::json;
use crate::workspace::workspaces::{add_in, no_workspace, record_locked, remove_in};
use crate::write::queue::{NewEntry, lock_heads};
use crate::{Store, StoreError};

/// The action of a claim that waits for its proof, beside the entry that adds the host.
const UNPROVEN: &str = "domain.unproven";
/// The action of the operator who needs no proof of a host.
const TRUST: &str = "domain.trust";

/// A host, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Whose it is.
    pub domain: Domain,
    /// Whether it answers, and what was seen of it.
    pub custody: Custody,
}

macro_rules! held_columns {
    () => {
        "select d.host, d.workspace_id, d.is_primary, d.created_at, c.needs_proof, c.proven_at, c.missing_since, c.suspended_at,
                c.points_away_since, c.expires_at, c.registry_checked_at, c.alarmed_days, c.checked_at, c.note
         from domains d left join custody c on c.host = d.host"
    };
}

#[derive(sqlx::FromRow)]
struct HeldRow {
    host: String,
    workspace_id: i64,
    is_primary: bool,
    created_at: i64,
    needs_proof: Option<bool>,
    proven_at: Option<i64>,
    missing_since: Option<i64>,
    suspended_at: Option<i64>,
    points_away_since: Option<i64>,
    expires_at: Option<i64>,
    registry_checked_at: Option<i64>,
    alarmed_days: Option<i64>,
    checked_at: Option<i64>,
    note: Option<String>,
}

impl HeldRow {
    fn held(self) -> Held {
        let at = |ms: Option<i64>| ms.map(Timestamp::from_ms);
        Held {
            domain: Domain {
                host: Host::stored(self.host),
                workspace: Id::from_i64(self.workspace_id),
                primary: self.is_primary,
                created_at: Timestamp::from_ms(self.created_at),
            },
            custody: Custody {
                needs_proof: self.needs_proof.unwrap_or_default(),
                proven_at: at(self.proven_at),
                missing_since: at(self.missing_since),
                suspended_at: at(self.suspended_at),
                points_away_since: at(self.points_away_since),
                expires_at: at(self.expires_at),
                registry_checked_at: at(self.registry_checked_at),
                alarmed_days: self.alarmed_days,
                checked_at: at(self.checked_at),
                note: self.note,
            },
        }
    }
}

impl Store {
    /// All domains and what is known of them, by host.
    pub async fn held_domains(&self) -> Result<Vec<Held>, StoreError> {
        const SQL: &str = concat!(held_columns!(), " order by d.host");
        let rows: Vec<HeldRow> = read!(&self.pool, fetch_all, SQL)?;
        Ok(rows.into_iter().map(HeldRow::held).collect())
    }

    /// One of them.
    pub async fn held_domain(&self, host: &Host) -> Result<Option<Held>, StoreError> {
        const SQL: &str = concat!(held_columns!(), " where d.host = $1");
        let row: Option<HeldRow> = read!(&self.pool, fetch_optional, SQL, host.as_str())?;
        Ok(row.map(HeldRow::held))
    }

    /// The hosts that are taken and do not answer: they wait for their proof, or it is gone.
    pub async fn silent_hosts(&self) -> Result<HashSet<Host>, StoreError> {
        let rows: Vec<(String,)> = read!(
            &self.pool,
            fetch_all,
            "select host from custody where suspended_at is not null or (needs_proof and proven_at is null)"
        )?;
        Ok(rows.into_iter().map(|(host,)| Host::stored(host)).collect())
    }

    /// Adds a domain that answers only once it is proven. One's own is given back as it is.
    pub async fn claim_domain(
        &self,
        workspace: Id,
        host: Host,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Domain, StoreError> {
        self.add_with(workspace, host, actor, now, Standing::Unproven).await
    }

    /// Adds a domain that answers at once, or waits for its proof.
    pub(crate) async fn add_with(
        &self,
        workspace: Id,
        host: Host,
        actor: &Actor,
        now: Timestamp,
        standing: Standing,
    ) -> Result<Domain, StoreError> {
        let mut tx = self.pool.begin().await?;
        let heads = lock_heads(&mut tx, [workspace.as_i64()]).await?;
        if heads.get(&workspace.as_i64()).is_none_or(|head| head.deleted) {
            return Err(no_workspace());
        }
        let (domain, added) = add_in(&mut tx, workspace, host, actor, now).await?;
        let Some(added) = added else { return Ok(domain) };
        let mut entries = vec![added];
        if standing == Standing::Unproven {
            write(&mut tx, &domain.host, &Custody::waiting()).await?;
            entries.push(told(&domain, actor, UNPROVEN, serde_json::json!({ "state": standing })));
        }
        record_locked(&mut tx, heads, workspace, entries, now).await?;
        tx.commit().await?;
        self.announce();
        Ok(domain)
    }

    /// What a look found out becomes what is known, and each of its events an entry. A host that is no longer as it was `seen` is a
    /// conflict.
    pub async fn keep_custody(
        &self,
        seen: &Held,
        next: &Custody,
        events: &[Event],
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if *next == seen.custody {
            return Ok(());
        }
        let workspace = seen.domain.workspace;
        let mut tx = self.pool.begin().await?;
        let heads = lock_heads(&mut tx, [workspace.as_i64()]).await?;
        still(&mut tx, seen).await?;
        write(&mut tx, &seen.domain.host, next).await?;
        let entry = |event: &Event| {
            let mut why = serde_json::json!({ "reason": event.to_string() });
            if let Event::Expiring { days, .. } = event {
                why["days"] = (*days).into();
            }
            told(&seen.domain, actor, event.action(), why)
        };
        let entries: Vec<_> = events.iter().map(entry).collect();
        let is_told = !entries.is_empty();
        if is_told {
            record_locked(&mut tx, heads, workspace, entries, now).await?;
        }
        tx.commit().await?;
        if is_told {
            self.announce();
        }
        Ok(())
    }

    /// The operator stands behind a host that waits for its proof, or lost it: it answers, and none is asked for.
    pub async fn trust_domain(&self, seen: &Held, actor: &Actor, now: Timestamp) -> Result<(), StoreError> {
        let workspace = seen.domain.workspace;
        let mut tx = self.pool.begin().await?;
        let heads = lock_heads(&mut tx, [workspace.as_i64()]).await?;
        still(&mut tx, seen).await?;
        let next = Custody {
            needs_proof: false,
            proven_at: None,
            missing_since: None,
            suspended_at: None,
            ..seen.custody.clone()
        };
        write(&mut tx, &seen.domain.host, &next).await?;
        let entry = told(&seen.domain, actor, TRUST, serde_json::json!({ "state": Standing::Active }));
        record_locked(&mut tx, heads, workspace, [entry], now).await?;
        tx.commit().await?;
        self.announce();
        Ok(())
    }

    /// Removes a host that does not answer, because its claim is over or somebody else proved it. One that is no longer as it was
    /// `seen` is a conflict.
    pub async fn lapse_domain(&self, seen: &Held, actor: &Actor, now: Timestamp) -> Result<(), StoreError> {
        let workspace = seen.domain.workspace;
        let mut tx = self.pool.begin().await?;
        let heads = lock_heads(&mut tx, [workspace.as_i64()]).await?;
        still(&mut tx, seen).await?;
        let entries = remove_in(&mut tx, workspace, &seen.domain.host, actor).await?;
        record_locked(&mut tx, heads, workspace, entries, now).await?;
        tx.commit().await?;
        self.announce();
        Ok(())
    }
}

/// Nobody changed a host since it was read. Under the lock of its workspace's head.
async fn still(tx: &mut Tx, seen: &Held) -> Result<(), StoreError> {
    const SQL: &str = concat!(held_columns!(), " where d.host = $1");
    let row: Option<HeldRow> = read_in!(tx, fetch_optional, SQL, seen.domain.host.as_str())?;
    if row.map(HeldRow::held).as_ref() == Some(seen) { Ok(()) } else { Err(StoreError::Conflict) }
}

/// An entry about a domain that stays what it is: the log's directory reads the domain, people read the rest.
fn told<'a>(domain: &Domain, actor: &'a Actor, action: &'a str, why: serde_json::Value) -> NewEntry<'a> {
    let mut after = serde_json::to_value(domain).unwrap_or_default();
    if let (Some(after), serde_json::Value::Object(why)) = (after.as_object_mut(), why) {
        after.extend(why);
    }
    NewEntry {
        actor,
        action,
        subject: domain_subject(&domain.host),
        before: Some(json(domain)),
        after: Some(json(&after)),
    }
}

async fn write(tx: &mut Tx, host: &Host, custody: &Custody) -> Result<(), StoreError> {
    let ms = |at: Option<Timestamp>| at.map(Timestamp::ms);
    run_in!(
        tx,
        "insert into custody (host, needs_proof, proven_at, missing_since, suspended_at, points_away_since, expires_at,
                              registry_checked_at, alarmed_days, checked_at, note)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         on conflict (host) do update set needs_proof = excluded.needs_proof, proven_at = excluded.proven_at,
             missing_since = excluded.missing_since, suspended_at = excluded.suspended_at,
             points_away_since = excluded.points_away_since, expires_at = excluded.expires_at,
             registry_checked_at = excluded.registry_checked_at, alarmed_days = excluded.alarmed_days,
             checked_at = excluded.checked_at, note = excluded.note",
        host.as_str(),
        custody.needs_proof,
        ms(custody.proven_at),
        ms(custody.missing_since),
        ms(custody.suspended_at),
        ms(custody.points_away_since),
        ms(custody.expires_at),
        ms(custody.registry_checked_at),
        custody.alarmed_days,
        ms(custody.checked_at),
        custody.note.as_deref()
    )?;
    Ok(())
}

// ---- what the log says ----

/// Whether hosts answer, as the log says it: by workspace and host. One on the operator's word is not in it.
pub(crate) async fn logged(view: &mut Tx) -> Result<BTreeMap<(i64, String), Custody>, StoreError> {
    let rows: Vec<(i64, String, String, i64)> = read_in!(
        view,
        fetch_all,
        "select workspace_id, subject, action, ts from audit where subject >= 'domain:' and subject < 'domain;'
         order by workspace_id, seq"
    )?;
    let mut logged = BTreeMap::new();
    for (workspace, subject, action, ts) in rows {
        let Some(host) = subject.strip_prefix("domain:") else { continue };
        let (place, at) = ((workspace, host.to_owned()), Timestamp::from_ms(ts));
        match action.as_str() {
            UNPROVEN => drop(logged.insert(place, Custody::waiting())),
            "domain.add" | "domain.remove" | TRUST => drop(logged.remove(&place)),
            "domain.verify" | "domain.resume" => {
                let proven = Custody { proven_at: Some(at), ..Custody::waiting() };
                logged.insert(place, proven);
            }
            "domain.suspend" => {
                let mut gone = logged.remove(&place).unwrap_or_else(Custody::waiting);
                (gone.missing_since, gone.suspended_at) = (Some(at), Some(at));
                logged.insert(place, gone);
            }
            _ => {}
        }
    }
    Ok(logged)
}

/// Hosts that need a proof, or do not answer, by workspace and host.
pub(crate) async fn rows(view: &mut Tx) -> Result<BTreeMap<(i64, String), Custody>, StoreError> {
    const SQL: &str = concat!(held_columns!(), " where c.needs_proof or c.suspended_at is not null");
    let rows: Vec<HeldRow> = read_in!(view, fetch_all, SQL)?;
    let place = |held: &Held| (held.domain.workspace.as_i64(), held.domain.host.to_string());
    Ok(rows.into_iter().map(HeldRow::held).map(|held| (place(&held), held.custody)).collect())
}

/// Puts back what the log says of hosts that are there, after a restore: none answers that did not.
pub(crate) async fn replay(tx: &mut Tx) -> Result<(), StoreError> {
    let there: Vec<(i64, String)> = read_in!(tx, fetch_all, "select workspace_id, host from domains")?;
    let there: HashSet<(i64, String)> = there.into_iter().collect();
    for (place, custody) in logged(tx).await? {
        if there.contains(&place) {
            write(tx, &Host::stored(place.1), &custody).await?;
        }
    }
    Ok(())
}
