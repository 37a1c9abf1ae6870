//! Rows become links: checked against the policy, compared with what is there, and written many at a time.
//!
//! Nothing that is there is changed unless that was asked for. A row whose link is there already is skipped, so an import that was
//! cut off goes on by being repeated. Clicks that were counted elsewhere are stored before their link: where it is, they are. While
//! some rows are being written, the next are read and compared.

use std::collections::HashMap;

use rlinks_clicks::Clicks;
use rlinks_core::{Id, Link, LinkState, Timestamp, Workspace};
use rlinks_store::StoreError;
use rlinks_store::write::{Action, LinkOp, LinkWrite, PreparedBatch, Written};
use tokio::task::JoinHandle;

use super::action::{Step, conflict_of, full};
use super::candidate::Candidate;
use super::checker::Judge;
use super::reader::{Item, Rows};
use super::report::{Outcome, Report, Update, Verdict};
use super::rules::{Existing, Keep, Rules};
use crate::{By, Mode, Ops, OpsError};

/// Rows that share a transaction. Others wait for it, so it is short.
const CHUNK: usize = 500;
/// Ids set aside at once. Who sets some aside waits for what is being written, so it is done rarely; those nobody needs are never missed.
const IDS: usize = 16_000;
/// So many new links change how a database should look for them.
const MANY: u64 = 10_000;

/// How to import.
pub struct Import<'a> {
    /// Write, or only say what would be written.
    pub mode: Mode,
    /// What to do where another link is there.
    pub existing: Existing,
    /// What a link keeps of what it was.
    pub keep: Keep,
    /// Let links that lead to http do so, where the file does not say otherwise.
    pub allow_http: bool,
    /// Where clicks that were counted elsewhere go. Nobody needs it who only looks.
    pub clicks: Option<&'a Clicks>,
    /// Who limits creations.
    pub admit: Option<&'a dyn Admit>,
    /// Called with each link that was written.
    pub written: &'a (dyn Fn(&Link) + Send + Sync),
    /// Called after each step.
    pub progress: &'a (dyn Fn(&Report) + Send + Sync),
}

/// A limit of creations.
pub trait Admit: Send + Sync {
    /// How many of so many links may be made.
    fn take(&self, wanted: usize) -> usize;
    /// So many of them were not made.
    fn give_back(&self, unused: usize);
}

impl Ops {
    /// Imports the rows of a file.
    pub async fn import(
        &self,
        by: &By,
        workspace: &Workspace,
        mut rows: Rows,
        import: &Import<'_>,
    ) -> Result<Report, OpsError> {
        let rules = Rules {
            policy: workspace.policy.clone(),
            workspace: workspace.id,
            owner: by.owner.clone(),
            domains: self.served_to(workspace).await?,
            existing: import.existing,
            keep: import.keep,
            allow_http: import.allow_http,
        };
        let mut work = Work {
            ops: self,
            by,
            workspace,
            import,
            live: self.store.count_live_links(workspace.id, self.clock.now()).await?,
            ids: Vec::new(),
            admitted: 0,
            leading_home: 0,
            underway: None,
            judge: Judge::new(rules, rows.format, import.mode),
        };
        let read = work.read(&mut rows).await;
        // What is on its way is waited for, whatever became of the rest.
        let settled = work.settle().await;
        if let Some(admit) = import.admit {
            admit.give_back(work.admitted);
        }
        settled.and(read)?;
        if import.mode == Mode::Write && work.judge.report.created >= MANY {
            self.store.analyze().await;
            if let Some(clicks) = import.clicks {
                clicks.take_stock().await;
            }
        }
        if import.mode == Mode::DryRun && work.leading_home > 1 {
            work.judge.report.notes.push(format!(
                "{} rows lead to links of this server; whether they lead in circles with one another is seen only when they are written",
                work.leading_home
            ));
        }
        Ok(work.judge.report)
    }

    /// What is wrong with the targets of links, in their order: of those that would lead there.
    async fn check_safety_of(&self, links: &[&Link]) -> Result<Vec<Option<String>>, OpsError> {
        let leads = |link: &&&Link| link.state == LinkState::Active;
        let targets: Vec<_> = links.iter().filter(leads).map(|link| &link.target).collect();
        let mut verdicts = self.safety.check_all(&targets).await.into_iter();
        let mut found = Vec::with_capacity(links.len());
        for link in links {
            let verdict = if leads(&link) { verdicts.next() } else { None };
            found.push(match verdict.map(|verdict| self.safety.settle(verdict)) {
                None | Some(Ok(())) => None,
                Some(Err(OpsError::Unsafe(reason))) => Some(OpsError::Unsafe(reason).to_string()),
                Some(Err(other)) => return Err(other),
            });
        }
        Ok(found)
    }
}

/// An import at work.
struct Work<'a> {
    ops: &'a Ops,
    by: &'a By,
    workspace: &'a Workspace,
    import: &'a Import<'a>,
    judge: Judge,
    /// Links that count against the limit, those a dry run would make included.
    live: i64,
    /// Set aside and not given out.
    ids: Vec<Id>,
    /// Creations that were admitted and are not on their way: in a dry run, all of them.
    admitted: usize,
    /// Rows that would lead to links of ours.
    leading_home: u64,
    /// What is being written.
    underway: Option<Underway>,
}

/// Rows on their way into the store.
struct Underway {
    /// What is known of the rows beside them already.
    verdicts: Vec<Verdict>,
    writing: JoinHandle<Vec<(Step, Result<Written, StoreError>)>>,
}

impl Work<'_> {
    async fn read(&mut self, rows: &mut Rows) -> Result<(), OpsError> {
        while let Some(items) = rows.next(CHUNK).await {
            match items {
                Ok(items) => self.chunk(items).await?,
                Err(error) => self.judge.report.stopped = Some(error.to_string()),
            }
        }
        Ok(())
    }

    async fn chunk(&mut self, items: Vec<Item>) -> Result<(), OpsError> {
        let now = self.ops.clock.now();
        let mut refusals = Vec::new();
        let mut candidates = Vec::new();
        for item in items {
            match item {
                Item::Bad { number, code, errors } => refusals.push(Verdict::refused(number, code, &errors)),
                Item::Row(row) => match self.judge.candidate(&row, now) {
                    Ok(candidate) => candidates.push(candidate),
                    Err(verdict) => refusals.push(verdict),
                },
            }
        }
        // A link that leads to one of ours may close a circle with any link before it, so these are written first.
        let mut part = Vec::new();
        for candidate in candidates {
            if candidate.leads_home && !part.is_empty() {
                let before = refusals.partition_point(|verdict| verdict.row < candidate.row);
                let rest = refusals.split_off(before);
                self.part(std::mem::take(&mut part), now, std::mem::replace(&mut refusals, rest)).await?;
            }
            part.push(candidate);
        }
        self.part(part, now, refusals).await
    }

    fn tell(&mut self, verdicts: Vec<Verdict>) {
        self.judge.tell(verdicts);
        (self.import.progress)(&self.judge.report);
    }

    /// Candidates of which only the first may lead to a link of ours, and what is known of the rows beside them.
    async fn part(
        &mut self,
        mut candidates: Vec<Candidate>,
        now: Timestamp,
        mut verdicts: Vec<Verdict>,
    ) -> Result<(), OpsError> {
        if let Some(first) = candidates.first().filter(|first| first.leads_home) {
            self.settle().await?;
            let (code, target) = (&first.link.code, &first.link.target);
            match self.ops.check_cycle(self.workspace, code, target, &self.judge.rules.domains).await {
                Err(OpsError::Invalid(errors)) => {
                    verdicts.push(Verdict::refused(first.row, Some(code.to_string()), &errors));
                    candidates.remove(0);
                }
                checked => {
                    checked?;
                    self.leading_home += 1;
                }
            }
        }
        self.judge.refuse_repeated(&mut candidates, &mut verdicts);
        let mut steps = self.compare(candidates, &mut verdicts).await?;
        let links: Vec<&Link> = steps.iter().map(Step::link).collect();
        let unsafe_targets = self.ops.check_safety_of(&links).await?;
        let mut at = 0;
        steps.retain(|step| {
            at += 1;
            let Some(reason) = &unsafe_targets[at - 1] else { return true };
            verdicts.push(step.verdict(Outcome::Refused, reason.clone()));
            false
        });
        self.admit(&mut steps, &mut verdicts);
        match self.import.mode {
            Mode::DryRun => {
                self.rehearse(steps, now, &mut verdicts);
                self.tell(verdicts);
            }
            Mode::Write => self.write(steps, now, verdicts).await?,
        }
        Ok(())
    }

    /// What is to be done, in view of what is there.
    async fn compare(
        &self,
        candidates: Vec<Candidate>,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<Vec<Step>, OpsError> {
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
            let conflict = |reason: &str| candidate.verdict(Outcome::Conflicting, reason);
            match there.get(candidate.link.code.as_str()) {
                Some(Err(_)) => verdicts.push(conflict("the link that has this code cannot be read")),
                Some(Ok(link)) if !self.by.can_see(link) => verdicts.push(conflict("the code is taken")),
                Some(Ok(link)) => match self.judge.against(&candidate, link) {
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
                        steps.push(Step::Create(Box::new(candidate)));
                    }
                }
            }
        }
        Ok(steps)
    }

    /// Within the limit of creations, where there is one.
    fn admit(&mut self, steps: &mut Vec<Step>, verdicts: &mut Vec<Verdict>) {
        let Some(admit) = self.import.admit else { return };
        let wanted = steps.iter().filter(|step| matches!(step, Step::Create(_))).count();
        let mut admitted = admit.take(wanted);
        self.admitted += admitted;
        steps.retain(|step| match step {
            Step::Update { .. } => true,
            Step::Create(_) if admitted > 0 => {
                admitted -= 1;
                true
            }
            Step::Create(_) => {
                let reason = "you have made your links of this hour; import the file again later to go on";
                verdicts.push(step.verdict(Outcome::Refused, reason));
                false
            }
        });
    }

    fn rehearse(&mut self, steps: Vec<Step>, now: Timestamp, verdicts: &mut Vec<Verdict>) {
        let limit = self.workspace.policy.limits.live_links.map(i64::from);
        for step in steps {
            let lives = |link: &Link| i64::from(link.state != LinkState::Deleted && !link.is_expired(now));
            let more = match &step {
                Step::Create(candidate) => lives(&candidate.link),
                Step::Update { before, after, .. } => lives(after) - lives(before),
            };
            if let Some(limit) = limit.filter(|limit| more > 0 && self.live + more > *limit) {
                verdicts.push(step.verdict(Outcome::Conflicting, full(limit)));
                continue;
            }
            self.live += more;
            verdicts.push(step.verdict(step.outcome(), ""));
            if let Step::Update { before, after, .. } = step {
                self.judge.report.show(Update { before: *before, after: *after });
            }
        }
    }

    /// Begins to write rows, once those before them are written.
    async fn write(
        &mut self,
        mut steps: Vec<Step>,
        now: Timestamp,
        verdicts: Vec<Verdict>,
    ) -> Result<(), OpsError> {
        self.give_ids(&mut steps, now).await?;
        let totals: Vec<_> = steps.iter().filter_map(Step::total).collect();
        let store = self.ops.store.clone();
        let counting = async {
            let Some(clicks) = self.import.clicks else { return Ok(()) };
            clicks.set_imported(self.workspace.id, &totals).await.map_err(StoreError::for_clicks)
        };
        let writes: Vec<LinkWrite> = steps.iter().map(|step| self.op(step, now)).collect();
        let brings_ids = steps.iter().any(Step::brings_id);
        let preparing =
            async { if brings_ids { Ok(PreparedBatch::from(writes)) } else { store.prepare(writes).await } };
        let ((), prepared) = tokio::try_join!(counting, preparing)?;
        self.settle().await?;
        self.admitted = 0;
        let writing = tokio::spawn(async move {
            let results = store.write_prepared(prepared).await;
            steps.into_iter().zip(results).collect()
        });
        self.underway = Some(Underway { verdicts, writing });
        Ok(())
    }

    /// Waits for what is being written, and says what became of it.
    async fn settle(&mut self) -> Result<(), OpsError> {
        let Some(Underway { mut verdicts, writing }) = self.underway.take() else { return Ok(()) };
        let written = writing
            .await
            .map_err(|error| StoreError::Unavailable(format!("writing was cut off: {error}")))?;
        let (mut lost, mut late) = (Vec::new(), Vec::new());
        let (mut unmade, mut trouble) = (0, None);
        for (step, result) in written {
            if result.is_err() {
                lost.extend(step.total().map(|(id, _)| id));
                unmade += usize::from(matches!(step, Step::Create(_)));
            }
            match result {
                Ok(written) => {
                    (self.import.written)(written.link());
                    verdicts.push(step.verdict(step.outcome(), ""));
                    if let (Written::Changed(after), Step::Update { before, .. }) = (written, step) {
                        self.judge.report.show(Update { before: *before, after });
                    }
                }
                Err(error) => match (conflict_of(&error), step, error) {
                    (_, Step::Create(candidate), StoreError::CodeTaken { .. }) => late.push(*candidate),
                    (Some(reason), step, _) => verdicts.push(step.verdict(Outcome::Conflicting, reason)),
                    (None, _, error) => trouble = Some(error),
                },
            }
        }
        if let Some(admit) = self.import.admit {
            admit.give_back(unmade);
        }
        if let Some(error) = trouble {
            // Whether it was written may not be known: what was counted elsewhere stays, and hurts nobody.
            return Err(error.into());
        }
        if let Some(clicks) = self.import.clicks.filter(|_| !lost.is_empty()) {
            // A link that brought its id may be there by another import, and what was counted elsewhere is that one's.
            let there = self.ops.store.link_names(&lost).await?;
            lost.retain(|id| there.iter().all(|name| name.id != *id));
            clicks.forget_imported(&lost).await.map_err(StoreError::for_clicks)?;
        }
        self.compare_late(late, &mut verdicts).await?;
        self.tell(verdicts);
        Ok(())
    }

    /// Rows whose codes were taken while they were on their way: by the same link, if the same file is imported twice at once.
    async fn compare_late(&self, late: Vec<Candidate>, verdicts: &mut Vec<Verdict>) -> Result<(), OpsError> {
        if late.is_empty() {
            return Ok(());
        }
        for step in self.compare(late, verdicts).await? {
            verdicts.push(step.verdict(Outcome::Conflicting, "the code was taken meanwhile"));
        }
        Ok(())
    }

    /// Every new link has an id before anything of it is written.
    async fn give_ids(&mut self, steps: &mut [Step], now: Timestamp) -> Result<(), OpsError> {
        let mut claimed = Vec::new();
        for step in steps {
            let Step::Create(candidate) = step else { continue };
            if let Some(id) = candidate.id {
                claimed.push(id);
                continue;
            }
            if self.ids.is_empty() {
                self.ids = self.ops.store.reserve_ids(IDS, now).await?;
                self.ids.reverse();
            }
            candidate.link.id = self.ids.pop().expect("there are ids set aside");
        }
        if !claimed.is_empty() {
            self.ops.store.claim_ids(&claimed).await?;
        }
        Ok(())
    }

    fn op(&self, step: &Step, now: Timestamp) -> LinkWrite {
        let op = match step {
            Step::Create(candidate) => {
                LinkOp::Import { link: Box::new(candidate.link.clone()), updated: candidate.updated }
            }
            Step::Update { after, .. } => LinkOp::Replace { next: after.clone(), action: Action::Update },
        };
        let write = LinkWrite::new(self.workspace.id, self.by.actor.clone(), now, op);
        let target_change_limit = self.by.brake(self.ops.target_changes_per_minute);
        LinkWrite { owner: self.by.owner.clone(), target_change_limit, ..write }
    }
}
