//! What can be said of rows without asking anybody, and of a row in view of the link that has its code. Where links go does not matter:
//! a store, or key-value storage at Cloudflare.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use rlinks_core::{Link, LinkState, Timestamp};

use super::ImportFormat;
use super::action::{ImportAction, differing_fields};
use super::candidate::Candidate;
use super::report::{ImportReport, RowOutcome, RowProblem, RowResult};
use super::row::Row;
use super::rules::{OnExisting, Rules};
use crate::WriteMode;

/// Rows of one file on their way, and what became of those before.
pub struct RowChecker {
    /// What they are held against.
    pub rules: Rules,
    pub report: ImportReport,
    /// Codes of this file and what their rows said, as hashes: twelve bytes a row.
    seen_codes: HashMap<[u32; 2], u32>,
    seen_ids: HashSet<i64>,
    hasher: RandomState,
}

fn halves(hash: u64) -> [u32; 2] {
    [hash >> 32, hash & u64::from(u32::MAX)].map(|half| u32::try_from(half).unwrap_or_default())
}

impl RowChecker {
    /// Of a file of which nothing was read yet.
    pub fn new(rules: Rules, format: ImportFormat, mode: WriteMode) -> Self {
        Self {
            rules,
            report: ImportReport {
                format: format.name().to_owned(),
                dry_run: mode == WriteMode::DryRun,
                ..ImportReport::default()
            },
            seen_codes: HashMap::new(),
            seen_ids: HashSet::new(),
            hasher: RandomState::new(),
        }
    }

    /// A row as the link it would be.
    pub fn candidate(&self, row: &Row, now: Timestamp) -> Result<Candidate, RowResult> {
        Candidate::from_row(row, &self.rules, now)
            .map_err(|errors| RowResult::refused(row.number, row.reported_code(), &errors))
    }

    /// Of rows with one code the first counts; the others say the same, or something else.
    pub fn refuse_repeated(&mut self, candidates: &mut Vec<Candidate>, verdicts: &mut Vec<RowResult>) {
        let rules = &self.rules.policy.code;
        let folds = rules.unique_fold || rules.fold_case;
        candidates.retain(|candidate| {
            let code = &candidate.link.code;
            let code = if folds { code.folded() } else { code.as_str().to_owned() };
            let [code, said] = [self.hasher.hash_one(code), candidate.fingerprint(&self.hasher)].map(halves);
            let said = said[0];
            let repeated_id = candidate.id.is_some_and(|id| !self.seen_ids.insert(id.as_i64()));
            let verdict = match self.seen_codes.insert(code, said) {
                None if !repeated_id => return true,
                None => candidate.verdict(RowOutcome::Conflicting, "an earlier row has its id"),
                Some(before) => {
                    self.seen_codes.insert(code, before);
                    if before == said {
                        candidate.verdict(RowOutcome::Skipped, "")
                    } else {
                        candidate.verdict(
                            RowOutcome::Conflicting,
                            "an earlier row has its code and says something else",
                        )
                    }
                }
            };
            verdicts.push(verdict);
            false
        });
    }

    /// A row against the link that has its code.
    pub fn compare(&self, candidate: &Candidate, link: &Link) -> Result<ImportAction, RowResult> {
        let next = candidate.apply_to(link);
        let comes_back = link.state == LinkState::Deleted && candidate.link.state != LinkState::Deleted;
        if next == *link && !comes_back {
            return Err(candidate.verdict(RowOutcome::Skipped, ""));
        }
        if link.state == LinkState::Deleted {
            return Err(candidate.deleted_conflict());
        }
        let is_to_go = next.state == LinkState::Deleted;
        if self.rules.on_existing == OnExisting::Skip || is_to_go {
            let reason = format!("another link is there: it differs in {}", differing_fields(link, &next));
            let verdict = candidate.verdict(RowOutcome::Conflicting, reason);
            return Err(RowResult {
                may_overwrite: !is_to_go && self.rules.on_existing == OnExisting::Skip,
                ..verdict
            });
        }
        Ok(ImportAction::Update { row: candidate.row, before: Box::new(link.clone()), after: Box::new(next) })
    }

    /// Counts what became of rows, and names those that were left out.
    pub fn record(&mut self, mut verdicts: Vec<RowResult>) {
        verdicts.sort_by_key(|verdict| verdict.row);
        for RowResult { row, code, outcome, reason, may_overwrite } in verdicts {
            self.report.count(outcome);
            self.report.may_overwrite += u64::from(may_overwrite);
            if matches!(outcome, RowOutcome::Conflicting | RowOutcome::Refused) {
                self.report.push_problem(RowProblem { row, code, outcome, reason });
            }
        }
    }
}
