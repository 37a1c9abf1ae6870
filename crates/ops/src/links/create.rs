//! A new link: parsed against the policy, checked, given a code, and written once however often it is asked for.

use rlinks_core::draft::{Input, LinkIdentity, code_generator};
use rlinks_core::workspace::policy::Generator;
use rlinks_core::{Code, LinkDraft, LinkPatch, LinkState, ServedHosts, Timestamp, Workspace};
use rlinks_store::StoreError;
use rlinks_store::write::{CodeChoice, IdempotencyKey, LinkOp, LinkWrite, OnConflict, Written};

use crate::{By, Deleted, Done, Mode, Ops, OpsError, Outcome, Sees};
use rlinks_store::clock::random_bytes;

/// How often a generated code may meet a taken one before we give up: with fresh candidates each time, practically never.
const TRIES: usize = 8;
/// Candidates offered to the store at once.
const CANDIDATES: usize = 4;
/// Salts of a deterministic code that are tried.
const SALTS: u32 = 16;

impl Ops {
    /// Makes a link: under the chosen code, or under one the policy's generator gives. With `once`, one link however often it is
    /// asked for.
    pub async fn create(
        &self,
        by: &By,
        workspace: &Workspace,
        input: &Input,
        deleted: Deleted,
        once: Option<IdempotencyKey>,
        mode: Mode,
    ) -> Result<Done, OpsError> {
        let domains = self.served_to(workspace).await?;
        for _ in 0..TRIES {
            let prepared = self.prepare(by, workspace, input, deleted, &domains).await?;
            if mode == Mode::DryRun {
                return self.rehearse(by, workspace, prepared).await;
            }
            let write = LinkWrite { idempotency_key: once.clone(), ..self.creation(by, workspace, prepared) };
            let now = write.now;
            match self.store.write(write).await {
                // Only a generated code can meet this: fresh candidates, another try.
                Err(StoreError::Conflict) if input.code.is_none() => {}
                written => return settle(workspace, input, written?, now),
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// A new link as far as it can be told without writing it.
    pub(crate) async fn prepare(
        &self,
        by: &By,
        workspace: &Workspace,
        input: &Input,
        deleted: Deleted,
        domains: &ServedHosts,
    ) -> Result<Prepared, OpsError> {
        let now = self.clock.now();
        let draft = LinkDraft::parse(input, &workspace.policy, domains, now)?;
        if let Some(code) = &draft.code {
            self.check_cycle(workspace, code, &draft.target, domains).await?;
            if deleted == Deleted::Recreate && by.sees == Sees::Own {
                self.check_owner(by, workspace, code).await?;
            }
        }
        self.check_safety(&draft.target).await?;
        let (code, existing) = choose(workspace, &draft, input, deleted, now)?;
        Ok(Prepared { draft, code, existing, now })
    }

    pub(crate) fn creation(&self, by: &By, workspace: &Workspace, prepared: Prepared) -> LinkWrite {
        let Prepared { draft, code, existing, now } = prepared;
        let op = LinkOp::Create { draft, code, source: by.source, on_conflict: existing };
        LinkWrite {
            owner: by.owner.clone(),
            target_change_limit: by.brake(self.target_changes_per_minute),
            ..LinkWrite::new(workspace.id, by.actor.clone(), now, op)
        }
    }

    /// Who sees only their own takes no code that was another's: with it they would see what it was.
    async fn check_owner(&self, by: &By, workspace: &Workspace, code: &Code) -> Result<(), OpsError> {
        match self.store.link(workspace.id, code).await? {
            Some(link) if !by.can_see(&link) => {
                let deleted = link.state == LinkState::Deleted;
                Err(StoreError::CodeTaken { code: code.to_string(), deleted }.into())
            }
            _ => Ok(()),
        }
    }

    /// The answer that the same creation got before, where it is known by `once`; an error where the key was another creation's. What
    /// has become impossible since then (an expiry that is over, a limit that is reached) makes no difference.
    pub async fn answered(
        &self,
        workspace: &Workspace,
        body: &serde_json::Map<String, serde_json::Value>,
        once: &IdempotencyKey,
    ) -> Result<Option<Done>, OpsError> {
        let first = self.store.replay(workspace.id, once, self.clock.now()).await?;
        let Some(mut done) = first.map(Done::from) else { return Ok(None) };
        if done.outcome == Outcome::Reused {
            let sent = Input { code: None, ..Input::from_json(body)? };
            let sent = LinkPatch::parse(&sent, &workspace.policy, Timestamp::from_ms(0));
            done.not_applied = sent.map(|sent| sent.unapplied(&done.link)).unwrap_or_default();
        }
        Ok(Some(done))
    }

    /// What a creation would give. A generated code is only an example: the next one is another.
    async fn rehearse(&self, by: &By, workspace: &Workspace, prepared: Prepared) -> Result<Done, OpsError> {
        let Prepared { draft, code, existing, now } = prepared;
        let code = match code {
            CodeChoice::Chosen(code) => code,
            CodeChoice::Candidates(codes) => codes.into_iter().next().ok_or(StoreError::Conflict)?,
            CodeChoice::FromId => {
                let id = rlinks_core::Id::next(
                    rlinks_core::Id::from_i64(0),
                    now,
                    rlinks_core::id::WorkerId::new(0).expect("0 is a worker"),
                );
                code_generator::from_id(id).ok_or(StoreError::Conflict)?
            }
        };
        let there = self.store.link(workspace.id, &code).await?;
        let version = match &there {
            Some(link) if matches!(existing, OnConflict::Recreate) && link.state == LinkState::Deleted => {
                link.version + 1
            }
            Some(link) if matches!(existing, OnConflict::Reuse { .. }) => {
                let outcome = if link.state == LinkState::Active && !link.is_expired(now) {
                    Outcome::Reused
                } else {
                    Outcome::Revived
                };
                return Ok(Done::new(link.clone(), outcome));
            }
            Some(link) => {
                return Err(StoreError::CodeTaken {
                    code: code.to_string(),
                    deleted: link.state == LinkState::Deleted,
                }
                .into());
            }
            None => 1,
        };
        let link = draft.to_link(LinkIdentity {
            id: rlinks_core::Id::from_i64(0),
            workspace: workspace.id,
            code,
            generated: draft.code.is_none(),
            source: by.source,
            created_by: by.owner.clone(),
            created_at: now,
            version,
        });
        Ok(Done::new(link, Outcome::Created))
    }
}

/// A new link that keeps all rules, and when that was seen.
pub(crate) struct Prepared {
    draft: LinkDraft,
    code: CodeChoice,
    existing: OnConflict,
    pub(crate) now: Timestamp,
}

/// What became of a creation, and what a link that was handed back does not have of it.
pub(crate) fn settle(
    workspace: &Workspace,
    input: &Input,
    written: Written,
    now: Timestamp,
) -> Result<Done, OpsError> {
    let mut done = Done::from(written);
    if done.outcome == Outcome::Reused {
        let sent = Input { code: None, ..input.clone() };
        done.not_applied = LinkPatch::parse(&sent, &workspace.policy, now)?.unapplied(&done.link);
    }
    Ok(done)
}

fn choose(
    workspace: &Workspace,
    draft: &LinkDraft,
    input: &Input,
    deleted: Deleted,
    now: Timestamp,
) -> Result<(CodeChoice, OnConflict), OpsError> {
    if let Some(code) = &draft.code {
        let existing = if deleted == Deleted::Recreate { OnConflict::Recreate } else { OnConflict::Refuse };
        return Ok((CodeChoice::Chosen(code.clone()), existing));
    }
    let random = |letters, length| {
        let codes = std::iter::repeat_with(|| {
            code_generator::random_code(&random_bytes::<{ code_generator::RANDOM_BYTES }>(), letters, length)
        });
        CodeChoice::Candidates(codes.take(CANDIDATES).flatten().collect())
    };
    let existing = if workspace.policy.reuses_links() {
        let sent =
            Box::new(LinkPatch::parse(&Input { code: None, ..input.clone() }, &workspace.policy, now)?);
        OnConflict::Reuse { normalized: draft.target.normalized(), sent }
    } else {
        OnConflict::Refuse
    };
    let code = match workspace.policy.generator {
        Generator::Random7 => random(36, 7),
        Generator::Random8 => random(62, 8),
        Generator::Snowflake => CodeChoice::FromId,
        Generator::Hash => {
            let normalized = draft.target.normalized();
            CodeChoice::Candidates(
                (0..SALTS)
                    .filter_map(|salt| code_generator::from_target(&workspace.slug, &normalized, salt))
                    .collect(),
            )
        }
    };
    Ok((code, existing))
}
