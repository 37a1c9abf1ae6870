//! Rows become links: checked against the policy, compared with what is there, and written many at a time.
//!
//! Nothing that is there is changed unless that was asked for. A row whose link is there already is skipped, so an import that was
//! cut off goes on by being repeated. Clicks that were counted elsewhere are stored before their link: where it is, they are. While
//! some rows are being written, the next are read and compared.

use std::collections::HashMap;

use rlinks_clicks::ClickStore;
use rlinks_core::{Id, Link, LinkState, Scope, Timestamp, Workspace};
use rlinks_store::StoreError;
use rlinks_store::write::{Action, LinkOp, LinkWrite, PreparedBatch, Written};
use tokio::task::JoinHandle;

use super::action::{ImportAction, conflict_of, quota_reached_message};
use super::candidate::Candidate;
use super::checker::RowChecker;
use super::reader::{ParsedRow, Rows};
use super::report::{ImportReport, RowOutcome, RowResult, UpdatedLink};
use super::rules::{ImportIdentity, OnExisting, Rules};
use crate::quotas::CreationLimit;
use crate::{Caller, Ops, OpsError, WriteMode};

/// Rows that share a transaction. Others wait for it, so it is short.
const CHUNK_ROWS: usize = 500;
/// Ids set aside at once. Who sets some aside waits for what is being written, so it is done rarely; those nobody needs are never missed.
const ID_BLOCK_SIZE: usize = 16_000;
/// So many new links change how a database should look for them.
const MIN_LINKS_TO_ANALYZE: u64 = 10_000;

pub struct ImportOptions<'a> {
    /// Write, or only say what would be written.
    pub mode: WriteMode,
    /// What to do where another link is there.
    pub on_existing: OnExisting,
    /// What a link keeps of what it was.
    pub identity: ImportIdentity,
    /// Let links that lead to http do so, where the file does not say otherwise.
    pub allow_http: bool,
    /// Where clicks that were counted elsewhere go. Nobody needs it who only looks.
    pub clicks: Option<&'a ClickStore>,
    /// Called after each step.
    pub on_progress: &'a (dyn Fn(&ImportReport) + Send + Sync),
}

impl Ops {
    /// Imports the rows of a file.
    pub async fn import(
        &self,
        caller: &Caller,
        mut rows: Rows,
        import: &ImportOptions<'_>,
    ) -> Result<ImportReport, OpsError> {
        caller.require(Scope::LinksWrite)?;
        let workspace = &caller.workspace;
        let domains = self.served_hosts_for(workspace).await?;
        let rules = Rules {
            claimed: self.claimed_hosts(&domains).await?,
            policy: workspace.policy.clone(),
            workspace: workspace.id,
            owner: caller.owner.clone(),
            domains,
            on_existing: import.on_existing,
            identity: import.identity,
            allow_http: import.allow_http,
        };
        let mut run = ImportRun {
            ops: self,
            caller,
            workspace,
            import,
            limit: self.creation_limit(caller),
            live_links: self.store.count_live_links(workspace.id, self.clock.now()).await?,
            reserved_ids: Vec::new(),
            taken_creations: 0,
            targeting_served_hosts: 0,
            in_flight: None,
            checker: RowChecker::new(rules, rows.format, import.mode),
        };
        let read = run.read(&mut rows).await;
        // What is on its way is waited for, whatever became of the rest.
        let settled = run.finish_in_flight().await;
        run.limit.refund(run.taken_creations);
        settled.and(read)?;
        if import.mode == WriteMode::Apply && run.checker.report.created >= MIN_LINKS_TO_ANALYZE {
            self.writer.analyze().await;
            if let Some(clicks) = import.clicks {
                clicks.analyze().await;
            }
        }
        if import.mode == WriteMode::DryRun && run.targeting_served_hosts > 1 {
            run.checker.report.notes.push(format!(
                "{} rows lead to links of this server; whether they lead in circles with one another is seen only when they are written",
                run.targeting_served_hosts
            ));
        }
        Ok(run.checker.report)
    }

    /// What is wrong with the targets of links, in their order: of those that would lead there.
    async fn check_safety_of(&self, links: &[&Link]) -> Result<Vec<Option<String>>, OpsError> {
        let leads = |link: &&&Link| link.state == LinkState::Active;
        let targets: Vec<_> = links.iter().filter(leads).map(|link| &link.target).collect();
        let mut verdicts = self.safety.check_all(&targets).await.into_iter();
        let mut found = Vec::with_capacity(links.len());
        for link in links {
            let verdict = if leads(&link) { verdicts.next() } else { None };
            found.push(match verdict.map(|verdict| self.safety.enforce(verdict)) {
                None | Some(Ok(())) => None,
                Some(Err(OpsError::Unsafe(reason))) => Some(OpsError::Unsafe(reason).to_string()),
                Some(Err(other)) => return Err(other),
            });
        }
        Ok(found)
    }
}

/// An import at work.
struct ImportRun<'a> {
    ops: &'a Ops,
    caller: &'a Caller,
    workspace: &'a Workspace,
    import: &'a ImportOptions<'a>,
    limit: CreationLimit<'a>,
    checker: RowChecker,
    /// Links that count against the limit, those a dry run would make included.
    live_links: i64,
    /// Set aside and not given out.
    reserved_ids: Vec<Id>,
    /// Creations that were admitted and are not on their way: in a dry run, all of them.
    taken_creations: usize,
    /// Rows that would lead to links of ours.
    targeting_served_hosts: u64,
    /// What is being written.
    in_flight: Option<InFlightBatch>,
}

/// Rows on their way into the store.
struct InFlightBatch {
    /// What is known of the rows beside them already.
    verdicts: Vec<RowResult>,
    writing: JoinHandle<Vec<(ImportAction, Result<Written, StoreError>)>>,
}

impl ImportRun<'_> {
    async fn read(&mut self, rows: &mut Rows) -> Result<(), OpsError> {
        while let Some(items) = rows.next(CHUNK_ROWS).await {
            match items {
                Ok(items) => self.process_chunk(items).await?,
                Err(error) => self.checker.report.stopped = Some(error.to_string()),
            }
        }
        Ok(())
    }

    async fn process_chunk(&mut self, items: Vec<ParsedRow>) -> Result<(), OpsError> {
        let now = self.ops.clock.now();
        let mut refusals = Vec::new();
        let mut candidates = Vec::new();
        for item in items {
            match item {
                ParsedRow::Invalid { number, code, errors } => {
                    refusals.push(RowResult::refused(number, code, &errors));
                }
                ParsedRow::Row(row) => match self.checker.candidate(&row, now) {
                    Ok(candidate) => candidates.push(candidate),
                    Err(verdict) => refusals.push(verdict),
                },
            }
        }
        // A link that leads to one of ours may close a circle with any link before it, so these are written first.
        let mut part = Vec::new();
        for candidate in candidates {
            if candidate.targets_served_host && !part.is_empty() {
                let before = refusals.partition_point(|verdict| verdict.row < candidate.row);
                let rest = refusals.split_off(before);
                self.process_part(std::mem::take(&mut part), now, std::mem::replace(&mut refusals, rest))
                    .await?;
            }
            part.push(candidate);
        }
        self.process_part(part, now, refusals).await
    }

    fn record(&mut self, verdicts: Vec<RowResult>) {
        self.checker.record(verdicts);
        (self.import.on_progress)(&self.checker.report);
    }

    /// Candidates of which only the first may lead to a link of ours, and what is known of the rows beside them.
    async fn process_part(
        &mut self,
        mut candidates: Vec<Candidate>,
        now: Timestamp,
        mut verdicts: Vec<RowResult>,
    ) -> Result<(), OpsError> {
        if let Some(first) = candidates.first().filter(|first| first.targets_served_host) {
            self.finish_in_flight().await?;
            let (code, target) = (&first.link.code, &first.link.target);
            match self.ops.check_cycle(self.workspace, code, target, &self.checker.rules.domains).await {
                Err(OpsError::Invalid(errors)) => {
                    verdicts.push(RowResult::refused(first.row, Some(code.to_string()), &errors));
                    candidates.remove(0);
                }
                checked => {
                    checked?;
                    self.targeting_served_hosts += 1;
                }
            }
        }
        self.checker.refuse_repeated(&mut candidates, &mut verdicts);
        let mut steps = self.compare(candidates, &mut verdicts).await?;
        let links: Vec<&Link> = steps.iter().map(ImportAction::link).collect();
        let unsafe_targets = self.ops.check_safety_of(&links).await?;
        let mut at = 0;
        steps.retain(|step| {
            at += 1;
            let Some(reason) = &unsafe_targets[at - 1] else { return true };
            verdicts.push(step.verdict(RowOutcome::Refused, reason.clone()));
            false
        });
        self.apply_quota(&mut steps, &mut verdicts);
        match self.import.mode {
            WriteMode::DryRun => {
                self.dry_run(steps, now, &mut verdicts);
                self.record(verdicts);
            }
            WriteMode::Apply => self.write(steps, now, verdicts).await?,
        }
        Ok(())
    }

    /// What is to be done, in view of what is there.
    async fn compare(
        &self,
        candidates: Vec<Candidate>,
        verdicts: &mut Vec<RowResult>,
    ) -> Result<Vec<ImportAction>, OpsError> {
        let store = &self.ops.store;
        let codes: Vec<String> = candidates.iter().map(|candidate| candidate.link.code.to_string()).collect();
        let there: HashMap<String, Result<Link, StoreError>> =
            store.links(self.workspace.id, &codes).await?.into_iter().collect();
        let mut alike = HashMap::new();
        if self.workspace.policy.code.unique_fold {
            let folded: Vec<String> =
                candidates.iter().map(|candidate| candidate.link.code.folded()).collect();
            alike.extend(store.codes_folding_to(self.workspace.id, &folded).await?);
        }
        let ids: Vec<Id> = candidates.iter().filter_map(|candidate| candidate.id).collect();
        let known_ids = if ids.is_empty() { Vec::new() } else { store.link_names(&ids).await? };
        let mut steps = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let conflict = |reason: &str| candidate.verdict(RowOutcome::Conflicting, reason);
            match there.get(candidate.link.code.as_str()) {
                Some(Err(_)) => verdicts.push(conflict("the link that has this code cannot be read")),
                Some(Ok(link)) if !self.caller.can_see(link) => verdicts.push(conflict("the code is taken")),
                Some(Ok(link)) => match self.checker.compare(&candidate, link) {
                    Ok(step) => steps.push(step),
                    Err(verdict) => verdicts.push(verdict),
                },
                None => {
                    let other_case =
                        alike.get(&candidate.link.code.folded()).filter(|_| !candidate.link.generated);
                    let known = candidate.id.is_some_and(|id| known_ids.iter().any(|name| name.id == id));
                    if let Some(code) = other_case {
                        verdicts.push(conflict(&format!("differs from `{code}` by case alone")));
                    } else if known {
                        verdicts.push(conflict("another link has its id"));
                    } else {
                        steps.push(ImportAction::Create(Box::new(candidate)));
                    }
                }
            }
        }
        Ok(steps)
    }

    /// Within the limit of creations, where there is one.
    fn apply_quota(&mut self, steps: &mut Vec<ImportAction>, verdicts: &mut Vec<RowResult>) {
        let wanted = steps.iter().filter(|step| matches!(step, ImportAction::Create(_))).count();
        let mut admitted = self.limit.take_up_to(wanted).unwrap_or_default();
        self.taken_creations += admitted;
        steps.retain(|step| match step {
            ImportAction::Update { .. } => true,
            ImportAction::Create(_) if admitted > 0 => {
                admitted -= 1;
                true
            }
            ImportAction::Create(_) => {
                let reason = "you have made as many links within an hour as you may; import the file again later to go on";
                verdicts.push(step.verdict(RowOutcome::Refused, reason));
                false
            }
        });
    }

    fn dry_run(&mut self, steps: Vec<ImportAction>, now: Timestamp, verdicts: &mut Vec<RowResult>) {
        let limit = self.workspace.policy.limits.live_links.map(i64::from);
        for step in steps {
            let lives = |link: &Link| i64::from(link.state != LinkState::Deleted && !link.is_expired(now));
            let more = match &step {
                ImportAction::Create(candidate) => lives(&candidate.link),
                ImportAction::Update { before, after, .. } => lives(after) - lives(before),
            };
            if let Some(limit) = limit.filter(|limit| more > 0 && self.live_links + more > *limit) {
                verdicts.push(step.verdict(RowOutcome::Conflicting, quota_reached_message(limit)));
                continue;
            }
            self.live_links += more;
            verdicts.push(step.verdict(step.outcome(), ""));
            if let ImportAction::Update { before, after, .. } = step {
                self.checker.report.push_update(UpdatedLink { before: *before, after: *after });
            }
        }
    }

    /// Begins to write rows, once those before them are written.
    async fn write(
        &mut self,
        mut steps: Vec<ImportAction>,
        now: Timestamp,
        verdicts: Vec<RowResult>,
    ) -> Result<(), OpsError> {
        self.assign_ids(&mut steps, now).await?;
        let totals: Vec<_> = steps.iter().filter_map(ImportAction::total).collect();
        let writer = self.ops.writer.clone();
        let counting = async {
            let Some(clicks) = self.import.clicks else { return Ok(()) };
            clicks.set_external_totals(self.workspace.id, &totals).await.map_err(StoreError::for_clicks)
        };
        let changes: Vec<LinkWrite> = steps.iter().map(|step| self.link_write(step, now)).collect();
        let brings_ids = steps.iter().any(ImportAction::brings_id);
        let preparing = async {
            if brings_ids { Ok(PreparedBatch::from(changes)) } else { writer.prepare(changes).await }
        };
        let ((), prepared) = tokio::try_join!(counting, preparing)?;
        self.finish_in_flight().await?;
        self.taken_creations = 0;
        let writing = tokio::spawn(async move {
            let results = writer.write_prepared(prepared).await;
            steps.into_iter().zip(results).collect()
        });
        self.in_flight = Some(InFlightBatch { verdicts, writing });
        Ok(())
    }

    /// Waits for what is being written, and says what became of it.
    async fn finish_in_flight(&mut self) -> Result<(), OpsError> {
        let Some(InFlightBatch { mut verdicts, writing }) = self.in_flight.take() else { return Ok(()) };
        let written = writing
            .await
            .map_err(|error| StoreError::Unavailable(format!("writing was cut off: {error}")))?;
        let (mut lost, mut late) = (Vec::new(), Vec::new());
        let (mut unmade, mut failure) = (0, None);
        for (step, result) in written {
            if result.is_err() {
                lost.extend(step.total().map(|(id, _)| id));
                unmade += usize::from(matches!(step, ImportAction::Create(_)));
            }
            match result {
                Ok(written) => {
                    self.ops.publish(written.link());
                    verdicts.push(step.verdict(step.outcome(), ""));
                    if let (Written::Changed(after), ImportAction::Update { before, .. }) = (written, step) {
                        self.checker.report.push_update(UpdatedLink { before: *before, after });
                    }
                }
                Err(error) => match (conflict_of(&error), step, error) {
                    (_, ImportAction::Create(candidate), StoreError::CodeTaken { .. }) => {
                        late.push(*candidate);
                    }
                    (_, step, error @ StoreError::RateLimited { .. }) => {
                        verdicts.push(step.verdict(RowOutcome::Refused, error.to_string()));
                    }
                    (Some(reason), step, _) => verdicts.push(step.verdict(RowOutcome::Conflicting, reason)),
                    (None, _, error) => failure = Some(error),
                },
            }
        }
        self.limit.refund(unmade);
        if let Some(error) = failure {
            // Whether it was written may not be known: what was counted elsewhere stays, and hurts nobody.
            return Err(error.into());
        }
        if let Some(clicks) = self.import.clicks.filter(|_| !lost.is_empty()) {
            // A link that brought its id may be there by another import, and what was counted elsewhere is that one's.
            let there = self.ops.store.link_names(&lost).await?;
            lost.retain(|id| there.iter().all(|name| name.id != *id));
            clicks.remove_external_totals(&lost).await.map_err(StoreError::for_clicks)?;
        }
        self.compare_late(late, &mut verdicts).await?;
        self.record(verdicts);
        Ok(())
    }

    /// Rows whose codes were taken while they were on their way: by the same link, if the same file is imported twice at once.
    async fn compare_late(
        &self,
        late: Vec<Candidate>,
        verdicts: &mut Vec<RowResult>,
    ) -> Result<(), OpsError> {
        if late.is_empty() {
            return Ok(());
        }
        for step in self.compare(late, verdicts).await? {
            verdicts.push(step.verdict(RowOutcome::Conflicting, "the code was taken meanwhile"));
        }
        Ok(())
    }

    /// Every new link has an id before anything of it is written.
    async fn assign_ids(&mut self, steps: &mut [ImportAction], now: Timestamp) -> Result<(), OpsError> {
        let mut claimed = Vec::new();
        for step in steps {
            let ImportAction::Create(candidate) = step else { continue };
            if let Some(id) = candidate.id {
                claimed.push(id);
                continue;
            }
            if self.reserved_ids.is_empty() {
                self.reserved_ids = self.ops.writer.reserve_ids(ID_BLOCK_SIZE, now).await?;
                self.reserved_ids.reverse();
            }
            candidate.link.id = self.reserved_ids.pop().expect("there are ids set aside");
        }
        if !claimed.is_empty() {
            self.ops.writer.claim_ids(&claimed).await?;
        }
        Ok(())
    }

    fn link_write(&self, step: &ImportAction, now: Timestamp) -> LinkWrite {
        let op = match step {
            ImportAction::Create(candidate) => {
                LinkOp::Import { link: Box::new(candidate.link.clone()), updated: candidate.updated_at }
            }
            ImportAction::Update { after, .. } => {
                LinkOp::Replace { next: after.clone(), action: Action::Update }
            }
        };
        let write = LinkWrite::new(self.workspace.id, self.caller.actor.clone(), now, op);
        let change_limits = self.ops.change_limits(self.caller);
        LinkWrite { owner: self.caller.owner.clone(), change_limits, ..write }
    }
}
