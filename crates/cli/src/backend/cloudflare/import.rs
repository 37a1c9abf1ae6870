//! `rmax links import`: rows of a file become objects, some hundreds at a time.
//!
//! Files are read, and rows judged, by the same code as for a store. What differs is where they go: each step looks at what is there
//! and writes at once, in bulk. Nothing that is there is changed unless that was asked for, and a row whose link is there already is
//! skipped, so an import that was cut off goes on by being repeated.

use std::collections::HashMap;

use rlinks_clicks::rollup::Total;
use rlinks_core::link::route_object::ClickTotals;
use rlinks_core::{FieldCode, FieldError, FieldErrors, Id, Link, LinkSource, LinkState, Target, Timestamp};
use rlinks_ops::Mode;
use rlinks_ops::import::{
    Candidate, Exact, Existing, Item, Judge, Keep, Outcome, Report, Row, Rows, Rules, Step, Update, Verdict,
};

use super::change::after;
use super::{Cloudflare, now};
use crate::backend::cloudflare::audit::Deed;
use crate::backend::cloudflare::client::Pair;
use crate::backend::cloudflare::objects::{Kept, Tombstone, route_key, tombstone_key, value};
use crate::error::Failure;

/// Rows that are looked at and written together. More would be read too long before they are written, fewer would ask too often.
const CHUNK: usize = 500;
/// Rows that may lead to links of ours: they are remembered until the end, for circles among them.
const MOST_LEADING_HOME: usize = 10_000;

/// How to import.
pub(crate) struct Import<'a> {
    pub(crate) mode: Mode,
    pub(crate) existing: Existing,
    pub(crate) keep: Keep,
    pub(crate) allow_http: bool,
    /// Called after each step.
    pub(crate) progress: &'a (dyn Fn(&Report) + Send + Sync),
}

impl Cloudflare {
    /// Imports the rows of a file.
    pub(crate) async fn import(&self, mut rows: Rows, import: &Import<'_>) -> Result<Report, Failure> {
        let rules = Rules {
            policy: self.policy.clone(),
            workspace: Id::from_i64(0),
            owner: self.actor.clone(),
            domains: self.domains.clone(),
            existing: import.existing,
            keep: import.keep,
            allow_http: import.allow_http,
        };
        let mut work = Work {
            cloudflare: self,
            mode: import.mode,
            judge: Judge::new(rules, rows.format, import.mode),
            leading_home: HashMap::new(),
            unkept: Unkept::default(),
        };
        while let Some(items) = rows.next(CHUNK).await {
            match items {
                Ok(items) => work.chunk(items).await?,
                Err(error) => work.judge.report.stopped = Some(error.to_string()),
            }
            (import.progress)(&work.judge.report);
        }
        work.judge.report.notes.extend(work.unkept.notes());
        if work.judge.report.created + work.judge.report.updated > 0 {
            self.warn_unguarded();
        }
        Ok(work.judge.report)
    }
}

/// What files say and objects do not keep, or not for long: how many links that concerns.
#[derive(Clone, Copy, Default)]
struct Unkept {
    /// Id, version, how it came to be: asked for by `Keep::Everything`.
    exact: u64,
    /// `notes` and `tags` among the metadata.
    metadata: u64,
    /// What was counted elsewhere.
    total: u64,
}

impl Unkept {
    /// Takes out of a row what an object has no place for.
    fn take(row: &mut Row, keep: Keep) -> Self {
        let Exact { created_by, updated_at, id, version, source, generated } = std::mem::take(&mut row.exact);
        row.exact = Exact { created_by, updated_at, ..Exact::default() };
        let says = id.is_some() || version.is_some() || source.is_some() || generated;
        let mut metadata = 0;
        if let Some(values) = &mut row.input.metadata {
            // An object has its notes and tags there.
            for name in ["notes", "tags"] {
                metadata |= u64::from(values.remove(name).is_some());
            }
        }
        Self {
            exact: u64::from(says && keep == Keep::Everything),
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
struct Work<'a> {
    cloudflare: &'a Cloudflare,
    mode: Mode,
    judge: Judge,
    /// Links of this file that lead to links of ours, by their codes in lower case. What was just written may not be readable yet.
    leading_home: HashMap<String, Target>,
    unkept: Unkept,
}

/// What is to be done about a row.
struct Planned {
    step: Step,
    /// The object that is changed, where one is.
    kept: Option<Kept>,
}

impl Work<'_> {
    async fn chunk(&mut self, items: Vec<Item>) -> Result<(), Failure> {
        let now = now();
        let (mut verdicts, mut candidates) = (Vec::new(), Vec::new());
        let mut unkept: HashMap<u64, Unkept> = HashMap::new();
        for item in items {
            match item {
                Item::Bad { number, code, errors } => verdicts.push(Verdict::refused(number, code, &errors)),
                Item::Row(mut row) => {
                    unkept.insert(row.number, Unkept::take(&mut row, self.judge.rules.keep));
                    match self.judge.candidate(&row, now) {
                        Ok(candidate) => candidates.push(as_object(candidate)),
                        Err(verdict) => verdicts.push(verdict),
                    }
                }
            }
        }
        self.judge.refuse_repeated(&mut candidates, &mut verdicts);
        let planned = self.compare(candidates, &mut verdicts).await?;
        let planned = self.refuse_circles(planned, &mut verdicts).await?;
        for Planned { step, .. } in &planned {
            let mut lost = unkept.get(&step.row()).copied().unwrap_or_default();
            if let Step::Update { .. } = step {
                // A link that is there goes on counting.
                lost.total = 0;
            }
            self.unkept.add(lost);
        }
        if self.mode == Mode::Write {
            self.write(&planned, now).await?;
        }
        for Planned { step, .. } in planned {
            verdicts.push(step.verdict(step.outcome(), ""));
            if let Step::Update { before, after, .. } = step {
                self.judge.report.show(Update { before: *before, after: *after });
            }
        }
        self.judge.tell(verdicts);
        // However long the whole file takes: a step that came through is no reason to lose patience with the next.
        self.cloudflare.api.rest();
        Ok(())
    }

    /// What is to be done, in view of what is there.
    async fn compare(
        &self,
        candidates: Vec<Candidate>,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<Vec<Planned>, Failure> {
        let Cloudflare { api, routes, .. } = self.cloudflare;
        let keys_of =
            |candidate: &Candidate| [route_key(&candidate.link.code), tombstone_key(&candidate.link.code)];
        let keys: Vec<String> = candidates.iter().flat_map(keys_of).collect();
        let there = api.get_all(routes, &keys).await?;
        let mut planned = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let [route, tombstone] = keys_of(&candidate).map(|key| there.get(&key));
            match (route, tombstone) {
                (Some(object), _) => match Kept::read(&candidate.link.code, object.as_bytes()) {
                    Err(why) => {
                        let reason = format!("the object that has this code cannot be read: {why}");
                        verdicts.push(candidate.verdict(Outcome::Conflicting, reason));
                    }
                    Ok(kept) => match self.judge.against(&candidate, &kept.link) {
                        Ok(step) => planned.push(Planned { step, kept: Some(kept) }),
                        Err(verdict) => verdicts.push(verdict),
                    },
                },
                (None, Some(left)) => verdicts.push(self.against_tombstone(&candidate, left)),
                (None, None) => {
                    planned.push(Planned { step: Step::Create(Box::new(candidate)), kept: None });
                }
            }
        }
        Ok(planned)
    }

    /// A deleted link's code stays taken. The same deleted link is there already.
    fn against_tombstone(&self, candidate: &Candidate, left: &str) -> Verdict {
        let link = serde_json::from_str::<Tombstone>(left).ok().and_then(|tombstone| tombstone.link());
        match link {
            Some((link, _)) => match self.judge.against(candidate, &link) {
                Ok(_) => candidate.against_deleted(),
                Err(verdict) => verdict,
            },
            // It does not say which link it was.
            None if candidate.link.state == LinkState::Deleted => candidate.verdict(Outcome::Skipped, ""),
            None => candidate.against_deleted(),
        }
    }

    /// Links that lead to links of ours may lead in circles, with those that are there and with those of the file.
    async fn refuse_circles(
        &mut self,
        planned: Vec<Planned>,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<Vec<Planned>, Failure> {
        let mut fine = Vec::with_capacity(planned.len());
        for plan in planned {
            let Link { code, target, .. } = plan.step.link();
            // Who brings back what was exported is trusted, as on a store.
            if self.judge.rules.keep == Keep::Everything || !self.cloudflare.domains.contains(target.host()) {
                fine.push(plan);
                continue;
            }
            let error = if self.leading_home.len() < MOST_LEADING_HOME {
                self.cloudflare.circle(code, target, &self.leading_home).await?
            } else {
                let message =
                    format!("is one of more than {MOST_LEADING_HOME} that lead to links of our own");
                Some(FieldError::new("target", FieldCode::Loop, message))
            };
            let Some(error) = error else {
                self.leading_home.insert(code.folded(), target.clone());
                fine.push(plan);
                continue;
            };
            let reason = FieldErrors::from(error).to_string();
            verdicts.push(plan.step.verdict(Outcome::Refused, reason));
        }
        Ok(fine)
    }

    /// Links first, then the log: what it tells of is there.
    async fn write(&self, planned: &[Planned], now: Timestamp) -> Result<(), Failure> {
        let cloudflare = self.cloudflare;
        let (mut pairs, mut entries) = (Vec::new(), Vec::new());
        for Planned { step, kept } in planned {
            match step {
                Step::Update { before, after: next, .. } => {
                    let kept = kept.as_ref().expect("what is changed was read");
                    let now = after(now, before);
                    let next = Link { updated_at: now, ..(**next).clone() };
                    let key = route_key(&next.code);
                    pairs.push(Pair { key, value: kept.with(&next, kept.stats) });
                    let deed = Deed { action: "link.update", before: Some(before), after: &next };
                    entries.push(cloudflare.noted(&deed, now));
                }
                Step::Create(candidate) => {
                    let link = &candidate.link;
                    pairs.push(self.new_pair(link, stats(candidate.total)));
                    let deed = Deed { action: "link.create", before: None, after: link };
                    entries.push(cloudflare.noted(&deed, now));
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

    fn new_pair(&self, link: &Link, stats: ClickTotals) -> Pair {
        if link.state == LinkState::Deleted {
            let tombstone = Tombstone::born(link, stats, &self.cloudflare.actor);
            Pair { key: tombstone_key(&link.code), value: tombstone.value() }
        } else {
            Pair { key: route_key(&link.code), value: value(link, stats) }
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
