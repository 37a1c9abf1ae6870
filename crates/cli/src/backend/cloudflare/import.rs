//! `rmax links import`: rows of a file become objects, some hundreds at a time.
//!
//! Files are read, and rows judged, by the same code as for a store. What differs is where they go: each step looks at what is there
//! and writes at once, in bulk. Nothing that is there is changed unless that was asked for, and a row whose link is there already is
//! skipped, so an import that was cut off goes on by being repeated.

use std::collections::{HashMap, HashSet};

use rlinks_clicks::rollup::Total;
use rlinks_core::link::route_object::ClickTotals;
use rlinks_core::{FieldCode, FieldError, FieldErrors, Id, Link, LinkSource, LinkState, Target, Timestamp};
use rlinks_ops::WriteMode;
use rlinks_ops::import::{
    Candidate, ImportAction, ImportIdentity, ImportReport, OnExisting, ParsedRow, PreservedFields, Row,
    RowChecker, RowOutcome, RowResult, Rows, Rules, UpdatedLink,
};

use super::change::update_time;
use super::{Cloudflare, now};
use crate::backend::cloudflare::audit::LinkEvent;
use crate::backend::cloudflare::client::KeyValue;
use crate::backend::cloudflare::objects::{StoredObject, Tombstone, new_value, route_key, tombstone_key};
use crate::error::CliError;

/// Rows that are looked at and written together. More would be read too long before they are written, fewer would ask too often.
const CHUNK_ROWS: usize = 500;
/// Rows that may lead to links of ours: they are remembered until the end, for circles among them.
const MAX_INTERNAL_LINKS: usize = 10_000;

pub(crate) struct ImportOptions<'a> {
    pub(crate) mode: WriteMode,
    pub(crate) existing: OnExisting,
    pub(crate) keep: ImportIdentity,
    pub(crate) allow_http: bool,
    /// Called after each step.
    pub(crate) progress: &'a (dyn Fn(&ImportReport) + Send + Sync),
}

impl Cloudflare {
    /// Imports the rows of a file.
    pub(crate) async fn import(
        &self,
        mut rows: Rows,
        import: &ImportOptions<'_>,
    ) -> Result<ImportReport, CliError> {
        let rules = Rules {
            claimed: HashSet::new(),
            policy: self.policy.clone(),
            workspace: Id::from_i64(0),
            owner: self.actor.clone(),
            domains: self.served_hosts.clone(),
            on_existing: import.existing,
            identity: import.keep,
            allow_http: import.allow_http,
        };
        let mut work = KvImportRun {
            cloudflare: self,
            mode: import.mode,
            checker: RowChecker::new(rules, rows.format, import.mode),
            internal_targets: HashMap::new(),
            dropped: DroppedFields::default(),
        };
        while let Some(items) = rows.next(CHUNK_ROWS).await {
            match items {
                Ok(items) => work.import_chunk(items).await?,
                Err(error) => work.checker.report.stopped = Some(error.to_string()),
            }
            (import.progress)(&work.checker.report);
        }
        work.checker.report.notes.extend(work.dropped.notes());
        if work.checker.report.created + work.checker.report.updated > 0 {
            self.warn_no_loop_check();
        }
        Ok(work.checker.report)
    }
}

/// What files say and objects do not keep, or not for long: how many links that concerns.
#[derive(Clone, Copy, Default)]
struct DroppedFields {
    /// Id, version, how it came to be: asked for by `ImportIdentity::Preserve`.
    exact: u64,
    /// `notes` and `tags` among the metadata.
    metadata: u64,
    /// What was counted elsewhere.
    total: u64,
}

impl DroppedFields {
    /// Takes out of a row what an object has no place for.
    fn take_from(row: &mut Row, keep: ImportIdentity) -> Self {
        let PreservedFields { created_by, updated_at, id, version, source, generated } =
            std::mem::take(&mut row.preserved);
        row.preserved = PreservedFields { created_by, updated_at, ..PreservedFields::default() };
        let says = id.is_some() || version.is_some() || source.is_some() || generated;
        let mut metadata = 0;
        if let Some(values) = &mut row.input.metadata {
            // An object has its notes and tags there.
            for name in ["notes", "tags"] {
                metadata |= u64::from(values.remove(name).is_some());
            }
        }
        Self {
            exact: u64::from(says && keep == ImportIdentity::Preserve),
            metadata,
            total: row.total.is_some().into(),
        }
    }

    fn add(&mut self, other: Self) {
        self.exact += other.exact;
        self.metadata += other.metadata;
        self.total += other.total;
    }

    fn notes(self) -> Vec<String> {
        let said = |count: u64, what: &str, why: &str| {
            let whose = if count == 1 { "1 link".to_owned() } else { format!("{count} links") };
            (count > 0).then(|| format!("{what} ({whose}){why}"))
        };
        [
            said(
                self.exact,
                "ids, versions and sources are left out",
                ": at Cloudflare a link is known by its code alone",
            ),
            said(
                self.metadata,
                "`notes` and `tags` inside of metadata are left out",
                ": an object has the notes and tags of its link there",
            ),
            said(
                self.total,
                "what was counted elsewhere is in `stats`",
                ", until `rmax clicks publish-stats` counts the hits that are there",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// An import at work.
struct KvImportRun<'a> {
    cloudflare: &'a Cloudflare,
    mode: WriteMode,
    checker: RowChecker,
    /// Links of this file that lead to links of ours, by their codes in lower case. What was just written may not be readable yet.
    internal_targets: HashMap<String, Target>,
    dropped: DroppedFields,
}

/// What is to be done about a row.
struct PlannedChange {
    step: ImportAction,
    /// The object that is changed, where one is.
    stored: Option<StoredObject>,
}

impl KvImportRun<'_> {
    async fn import_chunk(&mut self, items: Vec<ParsedRow>) -> Result<(), CliError> {
        let now = now();
        let (mut verdicts, mut candidates) = (Vec::new(), Vec::new());
        let mut dropped: HashMap<u64, DroppedFields> = HashMap::new();
        for item in items {
            match item {
                ParsedRow::Invalid { number, code, errors } => {
                    verdicts.push(RowResult::refused(number, code, &errors));
                }
                ParsedRow::Row(mut row) => {
                    dropped
                        .insert(row.number, DroppedFields::take_from(&mut row, self.checker.rules.identity));
                    match self.checker.candidate(&row, now) {
                        Ok(candidate) => candidates.push(as_object(candidate)),
                        Err(verdict) => verdicts.push(verdict),
                    }
                }
            }
        }
        self.checker.refuse_repeated(&mut candidates, &mut verdicts);
        let planned = self.compare(candidates, &mut verdicts).await?;
        let planned = self.refuse_cycles(planned, &mut verdicts).await?;
        for PlannedChange { step, .. } in &planned {
            let mut lost = dropped.get(&step.row()).copied().unwrap_or_default();
            if let ImportAction::Update { .. } = step {
                // A link that is there goes on counting.
                lost.total = 0;
            }
            self.dropped.add(lost);
        }
        if self.mode == WriteMode::Apply {
            self.write(&planned, now).await?;
        }
        for PlannedChange { step, .. } in planned {
            verdicts.push(step.verdict(step.outcome(), ""));
            if let ImportAction::Update { before, after, .. } = step {
                self.checker.report.push_update(UpdatedLink { before: *before, after: *after });
            }
        }
        self.checker.record(verdicts);
        // However long the whole file takes: a step that came through is no reason to lose patience with the next.
        self.cloudflare.api.reset_backoff();
        Ok(())
    }

    /// What is to be done, in view of what is there.
    async fn compare(
        &self,
        candidates: Vec<Candidate>,
        verdicts: &mut Vec<RowResult>,
    ) -> Result<Vec<PlannedChange>, CliError> {
        let Cloudflare { api, routes, .. } = self.cloudflare;
        let keys_of =
            |candidate: &Candidate| [route_key(&candidate.link.code), tombstone_key(&candidate.link.code)];
        let keys: Vec<String> = candidates.iter().flat_map(keys_of).collect();
        let there = api.get_all(routes, &keys).await?;
        let mut planned = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let [route, tombstone] = keys_of(&candidate).map(|key| there.get(&key));
            match (route, tombstone) {
                (Some(object), _) => match StoredObject::parse(&candidate.link.code, object.as_bytes()) {
                    Err(why) => {
                        let reason = format!("the object that has this code cannot be read: {why}");
                        verdicts.push(candidate.verdict(RowOutcome::Conflicting, reason));
                    }
                    Ok(kept) => match self.checker.compare(&candidate, &kept.link) {
                        Ok(step) => planned.push(PlannedChange { step, stored: Some(kept) }),
                        Err(verdict) => verdicts.push(verdict),
                    },
                },
                (None, Some(left)) => verdicts.push(self.against_tombstone(&candidate, left)),
                (None, None) => {
                    planned.push(PlannedChange {
                        step: ImportAction::Create(Box::new(candidate)),
                        stored: None,
                    });
                }
            }
        }
        Ok(planned)
    }

    /// A deleted link's code stays taken. The same deleted link is there already.
    fn against_tombstone(&self, candidate: &Candidate, left: &str) -> RowResult {
        let link = serde_json::from_str::<Tombstone>(left).ok().and_then(|tombstone| tombstone.link());
        match link {
            Some((link, _)) => match self.checker.compare(candidate, &link) {
                Ok(_) => candidate.deleted_conflict(),
                Err(verdict) => verdict,
            },
            // It does not say which link it was.
            None if candidate.link.state == LinkState::Deleted => candidate.verdict(RowOutcome::Skipped, ""),
            None => candidate.deleted_conflict(),
        }
    }

    /// Links that lead to links of ours may lead in circles, with those that are there and with those of the file.
    async fn refuse_cycles(
        &mut self,
        planned: Vec<PlannedChange>,
        verdicts: &mut Vec<RowResult>,
    ) -> Result<Vec<PlannedChange>, CliError> {
        let mut fine = Vec::with_capacity(planned.len());
        for plan in planned {
            let Link { code, target, .. } = plan.step.link();
            // Who brings back what was exported is trusted, as on a store.
            if self.checker.rules.identity == ImportIdentity::Preserve
                || !self.cloudflare.served_hosts.contains(target.host())
            {
                fine.push(plan);
                continue;
            }
            let error = if self.internal_targets.len() < MAX_INTERNAL_LINKS {
                self.cloudflare.cycle_error(code, target, &self.internal_targets).await?
            } else {
                let message =
                    format!("is one of more than {MAX_INTERNAL_LINKS} that lead to links of our own");
                Some(FieldError::new("target", FieldCode::Loop, message))
            };
            let Some(error) = error else {
                self.internal_targets.insert(code.folded(), target.clone());
                fine.push(plan);
                continue;
            };
            let reason = FieldErrors::from(error).to_string();
            verdicts.push(plan.step.verdict(RowOutcome::Refused, reason));
        }
        Ok(fine)
    }

    /// Links first, then the log: what it tells of is there.
    async fn write(&self, planned: &[PlannedChange], now: Timestamp) -> Result<(), CliError> {
        let cloudflare = self.cloudflare;
        let (mut pairs, mut entries) = (Vec::new(), Vec::new());
        for PlannedChange { step, stored: kept } in planned {
            match step {
                ImportAction::Update { before, after: next, .. } => {
                    let kept = kept.as_ref().expect("what is changed was read");
                    let now = update_time(now, before);
                    let next = Link { updated_at: now, ..(**next).clone() };
                    let key = route_key(&next.code);
                    pairs.push(KeyValue { key, value: kept.updated_value(&next, kept.stats) });
                    let event = LinkEvent { action: "link.update", before: Some(before), after: &next };
                    entries.push(cloudflare.event_pair(&event, now));
                }
                ImportAction::Create(candidate) => {
                    let link = &candidate.link;
                    pairs.push(self.new_pair(link, stats(candidate.total)));
                    let event = LinkEvent { action: "link.create", before: None, after: link };
                    entries.push(cloudflare.event_pair(&event, now));
                }
            }
        }
        cloudflare.api.put_all(&cloudflare.routes, &pairs).await?;
        cloudflare.api.put_all(&cloudflare.hits, &entries).await.map_err(|failure| {
            failure.hint(format!(
                "{} links are written, and the log of changes does not tell of all of them",
                pairs.len()
            ))
        })
    }

    fn new_pair(&self, link: &Link, stats: ClickTotals) -> KeyValue {
        if link.state == LinkState::Deleted {
            let tombstone = Tombstone::from_deleted_link(link, stats, &self.cloudflare.actor);
            KeyValue { key: tombstone_key(&link.code), value: tombstone.value() }
        } else {
            KeyValue { key: route_key(&link.code), value: new_value(link, stats) }
        }
    }
}

/// The link as it will be read from its object.
fn as_object(mut candidate: Candidate) -> Candidate {
    candidate.link = Link { version: 0, source: LinkSource::Cli, ..candidate.link };
    candidate
}

fn stats(total: Option<Total>) -> ClickTotals {
    let Total { clicks, bots, last_click, last_hit } = total.unwrap_or_default();
    ClickTotals {
        hits: u64::try_from(clicks.saturating_add(bots)).unwrap_or_default(),
        last_hit: last_hit.or(last_click),
    }
}
