//! Domains and custody of them: which must be proven, which answer, and what was last seen of them. They are few, and changed
//! rarely, so each change is a transaction of its own.
//!
//! Whether a host answers is in the log too, entry by entry, so that a restored store and `rmax audit verify` know it. What was merely
//! seen (when DNS was last asked, when a registration ends) is only here, and is found out again.

use std::collections::{BTreeMap, HashSet};

use rlinks_core::workspace::domain_verification::DomainEvent;
use rlinks_core::{Actor, Domain, DomainStatus, DomainVerification, Host, Id, ServedHosts, Timestamp};

use crate::audit::chain::NewEntry;
use crate::audit::log::domain_subject;
use crate::database::json::json;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::database::row::from_row;
use crate::error::QuotaKind;
use crate::quota::{Held, Quota};
use crate::workspace::workspaces::MAIN_WORKSPACE_ID;
use crate::{Store, StoreError, StoreWriter};

/// The action of a claim that waits for its proof, beside the entry that adds the host.
const UNVERIFIED_ACTION: &str = "domain.unproven";
/// The action of the operator who needs no proof of a host.
const TRUST_ACTION: &str = "domain.trust";

/// A host, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainRecord {
    pub domain: Domain,
    /// Whether it answers, and what was seen of it.
    pub verification: DomainVerification,
}

/// Whom a new host counts for, and how many there may be.
#[derive(Clone, Debug, Default)]
pub struct DomainQuota {
    /// The member, or whoever answers for the key; nobody for what the operator adds.
    pub counted_for: Option<Actor>,
    pub quota: Option<Quota>,
}

macro_rules! domain_record_columns {
    () => {
        "select d.host, d.workspace_id, d.is_primary, d.created_at, c.needs_proof, c.proven_at, c.missing_since, c.suspended_at,
                c.points_away_since, c.expires_at, c.registry_checked_at, c.alarmed_days, c.checked_at, c.note
         from domains d left join custody c on c.host = d.host"
    };
}

struct DomainRecordRow {
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

from_row!(DomainRecordRow {
    host,
    workspace_id,
    is_primary,
    created_at,
    needs_proof,
    proven_at,
    missing_since,
    suspended_at,
    points_away_since,
    expires_at,
    registry_checked_at,
    alarmed_days,
    checked_at,
    note
});

impl DomainRecordRow {
    fn record(self) -> DomainRecord {
        let at = |ms: Option<i64>| ms.map(Timestamp::from_ms);
        DomainRecord {
            domain: Domain {
                host: Host::from_stored(self.host),
                workspace: Id::from_i64(self.workspace_id),
                primary: self.is_primary,
                created_at: Timestamp::from_ms(self.created_at),
            },
            verification: DomainVerification {
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

pub(crate) struct DomainRow {
    host: String,
    workspace_id: i64,
    is_primary: bool,
    created_at: i64,
}

from_row!(DomainRow { host, workspace_id, is_primary, created_at });

impl DomainRow {
    pub(crate) fn domain(self) -> Domain {
        Domain {
            host: Host::from_stored(self.host),
            workspace: Id::from_i64(self.workspace_id),
            primary: self.is_primary,
            created_at: Timestamp::from_ms(self.created_at),
        }
    }
}

/// Who added each host. A cross join is what SQLite does in the order it is written: it would rather read the whole log.
const SELECT_HOST_ADDERS: &str = "select d.host, d.workspace_id, a.actor from domains d cross join audit a
     where a.workspace_id = d.workspace_id and a.subject = 'domain:' || d.host and a.action = 'domain.add'
     order by a.seq";

impl Store {
    /// All domains, by host.
    pub async fn domains(&self) -> Result<Vec<Domain>, StoreError> {
        let rows: Vec<DomainRow> = read!(
            &self.pool,
            fetch_all,
            "select host, workspace_id, is_primary, created_at from domains order by host"
        )?;
        Ok(rows.into_iter().map(DomainRow::domain).collect())
    }

    /// The hosts that count as ours for everybody: those of `main`, and those the operator gave to others. A host that a workspace gave
    /// itself is only its own word. The log says whose act it was.
    pub async fn operator_hosts(&self) -> Result<HashSet<Host>, StoreError> {
        let rows: Vec<(String, i64, String)> = read!(&self.pool, fetch_all, SELECT_HOST_ADDERS)?;
        // The last time it was added counts.
        let mut hosts = HashSet::new();
        for (host, workspace, actor) in rows {
            let (host, actor) = (Host::from_stored(host), Actor::from_stored(actor));
            if workspace == MAIN_WORKSPACE_ID || (actor.user().is_none() && actor.key().is_none()) {
                hosts.insert(host);
            } else {
                hosts.remove(&host);
            }
        }
        Ok(hosts)
    }

    /// The hosts that DNS says are their workspace's.
    pub async fn verified_hosts(&self) -> Result<HashSet<Host>, StoreError> {
        let rows: Vec<(String,)> = read!(
            &self.pool,
            fetch_all,
            "select host from custody where proven_at is not null and suspended_at is null"
        )?;
        Ok(rows.into_iter().map(|(host,)| Host::from_stored(host)).collect())
    }

    /// The hosts no link leads back to, whosever it is: what a workspace merely claims concerns that workspace only.
    pub async fn served_hosts(&self, base: Option<&Host>) -> Result<ServedHosts, StoreError> {
        let (mut hosts, verified) = (self.operator_hosts().await?, self.verified_hosts().await?);
        hosts.extend(verified);
        Ok(ServedHosts::new(hosts, base))
    }

    /// All domains and what is known of them, by host.
    pub async fn domain_records(&self) -> Result<Vec<DomainRecord>, StoreError> {
        const SQL: &str = concat!(domain_record_columns!(), " order by d.host");
        let rows: Vec<DomainRecordRow> = read!(&self.pool, fetch_all, SQL)?;
        Ok(rows.into_iter().map(DomainRecordRow::record).collect())
    }

    pub async fn domain_record(&self, host: &Host) -> Result<Option<DomainRecord>, StoreError> {
        const SQL: &str = concat!(domain_record_columns!(), " where d.host = $1");
        let row: Option<DomainRecordRow> = read!(&self.pool, fetch_optional, SQL, host.as_str())?;
        Ok(row.map(DomainRecordRow::record))
    }

    /// The hosts that are taken and do not answer: they wait for their proof, or it is gone.
    pub async fn unverified_hosts(&self) -> Result<HashSet<Host>, StoreError> {
        let rows: Vec<(String,)> = read!(
            &self.pool,
            fetch_all,
            "select host from custody where suspended_at is not null or (needs_proof and proven_at is null)"
        )?;
        Ok(rows.into_iter().map(|(host,)| Host::from_stored(host)).collect())
    }
}

impl StoreWriter {
    /// Adds a domain, whatever the quota; the first of a workspace is its primary one. Adding one's own domain again changes nothing.
    pub async fn add_domain(
        &self,
        workspace: Id,
        host: Host,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Domain, StoreError> {
        self.add_counted_domain(workspace, host, DomainStatus::Active, DomainQuota::default(), actor, now)
            .await
    }

    /// Removes a domain. Where it was the primary one, the oldest of the rest takes its place.
    pub async fn remove_domain(
        &self,
        workspace: Id,
        host: &Host,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut change = self.begin_change(workspace).await?;
        let entries = delete_domain(&mut change.tx, workspace, host, actor).await?;
        change.commit(entries, now).await
    }

    /// Makes a domain the one short URLs are written with.
    pub async fn set_primary_domain(
        &self,
        workspace: Id,
        host: &Host,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Domain, StoreError> {
        let mut change = self.begin_change(workspace).await?;
        let mine = domains_of(&mut change.tx, workspace).await?;
        let Some(seen) = mine.into_iter().find(|domain| domain.host == *host) else {
            return Err(StoreError::NotFound(format!("domain `{host}` in this workspace")));
        };
        if seen.primary {
            return Ok(seen);
        }
        let next = Domain { primary: true, ..seen.clone() };
        run_in!(
            &mut change.tx,
            "update domains set is_primary = (host = $2) where workspace_id = $1",
            workspace.as_i64(),
            host.as_str()
        )?;
        let entry = NewEntry {
            actor,
            action: "domain.primary",
            subject: domain_subject(host),
            before: Some(json(&seen)),
            after: Some(json(&next)),
        };
        change.commit([entry], now).await?;
        Ok(next)
    }

    /// Adds a domain that answers only once it is proven. One's own is given back as it is.
    pub async fn claim_domain(
        &self,
        workspace: Id,
        host: Host,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Domain, StoreError> {
        self.add_counted_domain(workspace, host, DomainStatus::Unverified, DomainQuota::default(), actor, now)
            .await
    }

    /// Adds a domain that answers at once, or waits for its proof, if the quota has room for it.
    pub async fn add_counted_domain(
        &self,
        workspace: Id,
        host: Host,
        status: DomainStatus,
        quota: DomainQuota,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Domain, StoreError> {
        let mut change = self.begin_change(workspace).await?;
        change.living_head()?;
        let (held, has_host) =
            count_domains(&mut change.tx, workspace, &host, quota.counted_for.as_ref()).await?;
        // Before anything else: whoever has no room must not learn what others have, nor take it from them.
        if let (Some(quota), false) = (quota.quota, has_host) {
            quota.check(QuotaKind::Domains, &held)?;
        }
        let (domain, added) = insert_domain(&mut change.tx, workspace, host, actor, now).await?;
        let Some(added) = added else { return Ok(domain) };
        if let Some(principal) = &quota.counted_for {
            run_in!(
                &mut change.tx,
                "insert into counted_domains (host, counted_for) values ($1, $2)",
                domain.host.as_str(),
                principal.as_str()
            )?;
        }
        let mut entries = vec![added];
        if status == DomainStatus::Unverified {
            write_verification(&mut change.tx, &domain.host, &DomainVerification::unverified()).await?;
            entries.push(domain_entry(
                &domain,
                actor,
                UNVERIFIED_ACTION,
                serde_json::json!({ "state": status }),
            ));
        }
        change.commit(entries, now).await?;
        Ok(domain)
    }

    /// What a look found out becomes what is known, and each of its events an entry. A host that is no longer as it was `seen` is a
    /// conflict.
    pub async fn record_domain_check(
        &self,
        seen: &DomainRecord,
        next: &DomainVerification,
        events: &[DomainEvent],
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if *next == seen.verification {
            return Ok(());
        }
        let workspace = seen.domain.workspace;
        let mut change = self.begin_change(workspace).await?;
        ensure_unchanged(&mut change.tx, seen).await?;
        write_verification(&mut change.tx, &seen.domain.host, next).await?;
        let entry = |event: &DomainEvent| {
            let mut why = serde_json::json!({ "reason": event.to_string() });
            if let DomainEvent::Expiring { days, .. } = event {
                why["days"] = (*days).into();
            }
            domain_entry(&seen.domain, actor, event.action(), why)
        };
        let entries: Vec<_> = events.iter().map(entry).collect();
        if entries.is_empty() { change.commit_unlogged().await } else { change.commit(entries, now).await }
    }

    /// The operator stands behind a host that waits for its proof, or lost it: it answers, and none is asked for.
    pub async fn trust_domain(
        &self,
        seen: &DomainRecord,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let workspace = seen.domain.workspace;
        let mut change = self.begin_change(workspace).await?;
        ensure_unchanged(&mut change.tx, seen).await?;
        let next = DomainVerification {
            needs_proof: false,
            proven_at: None,
            missing_since: None,
            suspended_at: None,
            ..seen.verification.clone()
        };
        write_verification(&mut change.tx, &seen.domain.host, &next).await?;
        let entry = domain_entry(
            &seen.domain,
            actor,
            TRUST_ACTION,
            serde_json::json!({ "state": DomainStatus::Active }),
        );
        change.commit([entry], now).await
    }

    /// Removes a host that does not answer, because its claim is over or somebody else proved it. One that is no longer as it was
    /// `seen` is a conflict.
    pub async fn release_domain(
        &self,
        seen: &DomainRecord,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let workspace = seen.domain.workspace;
        let mut change = self.begin_change(workspace).await?;
        ensure_unchanged(&mut change.tx, seen).await?;
        let entries = delete_domain(&mut change.tx, workspace, &seen.domain.host, actor).await?;
        change.commit(entries, now).await
    }
}

/// How many hosts a workspace has, and of them how many that count for a member; and whether this one is among them.
async fn count_domains(
    tx: &mut Tx,
    workspace: Id,
    host: &Host,
    counted_for: Option<&Actor>,
) -> Result<(Held, bool), StoreError> {
    let (by_workspace, by_member, same): (i64, i64, i64) = read_in!(
        tx,
        fetch_one,
        "select count(*), count(case when c.counted_for = $2 then 1 end), count(case when d.host = $3 then 1 end)
         from domains d left join counted_domains c on c.host = d.host where d.workspace_id = $1",
        workspace.as_i64(),
        counted_for.map(Actor::as_str),
        host.as_str()
    )?;
    Ok((Held { by_member: counted_for.map(|_| by_member), by_workspace }, same > 0))
}

/// Adds a domain under the lock of its workspace's head, with the entry that says so; nothing to say where it was there.
async fn insert_domain<'a>(
    tx: &mut Tx,
    workspace: Id,
    host: Host,
    actor: &'a Actor,
    now: Timestamp,
) -> Result<(Domain, Option<NewEntry<'a>>), StoreError> {
    let mine = domains_of(tx, workspace).await?;
    let primary = !mine.iter().any(|domain| domain.primary);
    let domain = Domain { host, workspace, primary, created_at: now };
    let written = run_in!(
        tx,
        "insert into domains (host, workspace_id, is_primary, created_at) values ($1, $2, $3, $4) on conflict do nothing",
        domain.host.as_str(),
        workspace.as_i64(),
        primary,
        now.ms()
    )?;
    if written == 0 {
        let known = mine.into_iter().find(|known| known.host == domain.host);
        let known = known.ok_or_else(|| StoreError::NameTaken(domain.host.to_string()))?;
        return Ok((known, None));
    }
    let entry = NewEntry {
        actor,
        action: "domain.add",
        subject: domain_subject(&domain.host),
        before: None,
        after: Some(json(&domain)),
    };
    Ok((domain, Some(entry)))
}

/// Removes a domain under the lock of its workspace's head, with the entries that say so.
async fn delete_domain<'a>(
    tx: &mut Tx,
    workspace: Id,
    host: &Host,
    actor: &'a Actor,
) -> Result<Vec<NewEntry<'a>>, StoreError> {
    let mut mine = domains_of(tx, workspace).await?;
    let Some(at) = mine.iter().position(|domain| domain.host == *host) else {
        return Err(StoreError::NotFound(format!("domain `{host}` in this workspace")));
    };
    let gone = mine.remove(at);
    run_in!(
        tx,
        "delete from domains where host = $1 and workspace_id = $2",
        host.as_str(),
        workspace.as_i64()
    )?;
    let mut entries = vec![NewEntry {
        actor,
        action: "domain.remove",
        subject: domain_subject(host),
        before: Some(json(&gone)),
        after: None,
    }];
    if let Some(successor) =
        mine.iter().min_by_key(|domain| (domain.created_at, domain.host.clone())).filter(|_| gone.primary)
    {
        run_in!(tx, "update domains set is_primary = $2 where host = $1", successor.host.as_str(), true)?;
        entries.push(NewEntry {
            actor,
            action: "domain.primary",
            subject: domain_subject(&successor.host),
            before: Some(json(successor)),
            after: Some(json(&Domain { primary: true, ..successor.clone() })),
        });
    }
    Ok(entries)
}

async fn domains_of(tx: &mut Tx, workspace: Id) -> Result<Vec<Domain>, StoreError> {
    let rows: Vec<DomainRow> = read_in!(
        tx,
        fetch_all,
        "select host, workspace_id, is_primary, created_at from domains where workspace_id = $1 order by host",
        workspace.as_i64()
    )?;
    Ok(rows.into_iter().map(DomainRow::domain).collect())
}

/// Checks under the head's lock that a host hasn't changed since it was read.
async fn ensure_unchanged(tx: &mut Tx, seen: &DomainRecord) -> Result<(), StoreError> {
    const SQL: &str = concat!(domain_record_columns!(), " where d.host = $1");
    let row: Option<DomainRecordRow> = read_in!(tx, fetch_optional, SQL, seen.domain.host.as_str())?;
    if row.map(DomainRecordRow::record).as_ref() == Some(seen) { Ok(()) } else { Err(StoreError::Conflict) }
}

/// An entry about a domain that stays what it is: the log's directory reads the domain, people read the rest.
fn domain_entry<'a>(
    domain: &Domain,
    actor: &'a Actor,
    action: &'a str,
    why: serde_json::Value,
) -> NewEntry<'a> {
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

async fn write_verification(
    tx: &mut Tx,
    host: &Host,
    verification: &DomainVerification,
) -> Result<(), StoreError> {
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
        verification.needs_proof,
        ms(verification.proven_at),
        ms(verification.missing_since),
        ms(verification.suspended_at),
        ms(verification.points_away_since),
        ms(verification.expires_at),
        ms(verification.registry_checked_at),
        verification.alarmed_days,
        ms(verification.checked_at),
        verification.note.as_deref()
    )?;
    Ok(())
}

// ---- what the log says ----

/// Whether hosts answer, as the log says it: by workspace and host. One on the operator's word is not in it.
pub(crate) async fn from_log(
    view: &mut Tx,
) -> Result<BTreeMap<(i64, String), DomainVerification>, StoreError> {
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
            UNVERIFIED_ACTION => drop(logged.insert(place, DomainVerification::unverified())),
            "domain.add" | "domain.remove" | TRUST_ACTION => drop(logged.remove(&place)),
            "domain.verify" | "domain.resume" => {
                let proven = DomainVerification { proven_at: Some(at), ..DomainVerification::unverified() };
                logged.insert(place, proven);
            }
            "domain.suspend" => {
                let mut gone = logged.remove(&place).unwrap_or_else(DomainVerification::unverified);
                (gone.missing_since, gone.suspended_at) = (Some(at), Some(at));
                logged.insert(place, gone);
            }
            _ => {}
        }
    }
    Ok(logged)
}

/// Hosts that need a proof, or do not answer, by workspace and host.
pub(crate) async fn verifications(
    view: &mut Tx,
) -> Result<BTreeMap<(i64, String), DomainVerification>, StoreError> {
    const SQL: &str = concat!(domain_record_columns!(), " where c.needs_proof or c.suspended_at is not null");
    let rows: Vec<DomainRecordRow> = read_in!(view, fetch_all, SQL)?;
    let place = |record: &DomainRecord| (record.domain.workspace.as_i64(), record.domain.host.to_string());
    Ok(rows.into_iter().map(DomainRecordRow::record).map(|held| (place(&held), held.verification)).collect())
}

/// Puts back what the log says of hosts that are there, after a restore: none answers that did not.
pub(crate) async fn replay(tx: &mut Tx) -> Result<(), StoreError> {
    let there: Vec<(i64, String)> = read_in!(tx, fetch_all, "select workspace_id, host from domains")?;
    let there: HashSet<(i64, String)> = there.into_iter().collect();
    for (place, verification) in from_log(tx).await? {
        if there.contains(&place) {
            write_verification(tx, &Host::from_stored(place.1), &verification).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::SELECT_HOST_ADDERS;
    use crate::database::query_plan::{empty_store, query_plan};

    #[tokio::test]
    async fn domain_origin_is_found_by_index_and_not_by_scanning_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let plan = query_plan(&empty_store(&folder).await, SELECT_HOST_ADDERS).await;
        assert!(
            plan.contains("SEARCH a USING INDEX audit_by_subject (workspace_id=? AND subject=?)"),
            "{plan}"
        );
    }
}
