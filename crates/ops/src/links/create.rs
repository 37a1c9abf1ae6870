//! A new link: parsed against the policy, checked, given a code, and written once however often it is asked for.

use rlinks_core::draft::{Input, LinkIdentity, code_generator};
use rlinks_core::workspace::policy::Generator;
use rlinks_core::{Code, LinkDraft, LinkPatch, LinkState, Scope, ServedHosts, Timestamp, Workspace};
use rlinks_store::StoreError;
use rlinks_store::write::{CodeChoice, IdempotencyKey, LinkOp, LinkWrite, OnConflict, Written};

use crate::{Caller, LinkResult, LinkVisibility, OnDeletedCode, Ops, OpsError, WriteMode, WriteOutcome};
use rlinks_store::clock::Random;

/// How often a generated code may meet a taken one before we give up: with fresh candidates each time, practically never.
const MAX_CREATE_ATTEMPTS: usize = 8;
/// Candidates offered to the store at once.
const CANDIDATES_PER_ATTEMPT: usize = 4;
/// Salts of a deterministic code that are tried.
const MAX_HASH_SALTS: u32 = 16;

impl Ops {
    /// Makes a link: under the chosen code, or under one the policy's generator gives. With `idempotency_key`, one link however often it is
    /// asked for.
    pub async fn create(
        &self,
        caller: &Caller,
        input: &Input,
        on_deleted: OnDeletedCode,
        idempotency_key: Option<IdempotencyKey>,
        mode: WriteMode,
    ) -> Result<LinkResult, OpsError> {
        caller.require(Scope::LinksWrite)?;
        if let Some(key) = &idempotency_key
            && let Some(first) = self.replay(&caller.workspace, input, key).await?
        {
            return Ok(first);
        }
        if mode == WriteMode::DryRun {
            let domains = self.served_hosts_for(&caller.workspace).await?;
            let prepared = self.prepare(caller, input, on_deleted, &domains).await?;
            return self.dry_run(caller, prepared).await;
        }
        let limit = self.creation_limit(caller);
        let rate_limit = limit.take().map_err(OpsError::CreationLimit)?;
        let created = self.create_unlimited(caller, input, on_deleted, idempotency_key).await;
        let counts = created.as_ref().is_ok_and(LinkResult::is_creation);
        if !counts {
            limit.refund(1);
        }
        created.map(|done| LinkResult { rate_limit: rate_limit.filter(|_| counts), ..done })
    }

    /// The same once the limit has been taken.
    pub(crate) async fn create_unlimited(
        &self,
        caller: &Caller,
        input: &Input,
        on_deleted: OnDeletedCode,
        idempotency_key: Option<IdempotencyKey>,
    ) -> Result<LinkResult, OpsError> {
        let domains = self.served_hosts_for(&caller.workspace).await?;
        for _ in 0..MAX_CREATE_ATTEMPTS {
            let prepared = self.prepare(caller, input, on_deleted, &domains).await?;
            let write =
                LinkWrite { idempotency_key: idempotency_key.clone(), ..self.link_write(caller, prepared) };
            let now = write.now;
            match self.writer.write(write).await {
                // Only a generated code can meet this: fresh candidates, another try.
                Err(StoreError::Conflict) if input.code.is_none() => {}
                written => {
                    let done = link_result(&caller.workspace, input, written?, now)?;
                    self.publish(&done.link);
                    return Ok(done);
                }
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// A new link as far as it can be told without writing it.
    pub(crate) async fn prepare(
        &self,
        caller: &Caller,
        input: &Input,
        on_deleted: OnDeletedCode,
        domains: &ServedHosts,
    ) -> Result<PreparedLink, OpsError> {
        let workspace = &caller.workspace;
        let now = self.clock.now();
        let draft = LinkDraft::parse(input, &workspace.policy, domains, now)?;
        if let Some(code) = &draft.code {
            self.check_cycle(workspace, code, &draft.target, domains).await?;
            if on_deleted == OnDeletedCode::Recreate && caller.visibility == LinkVisibility::Own {
                self.check_owner(caller, code).await?;
            }
        }
        self.check_safety(&draft.target).await?;
        let (code, on_conflict) = choose_code(workspace, &draft, input, on_deleted, now, &self.random)?;
        Ok(PreparedLink { draft, code, on_conflict, now })
    }

    pub(crate) fn link_write(&self, caller: &Caller, prepared: PreparedLink) -> LinkWrite {
        let workspace = &caller.workspace;
        let PreparedLink { draft, code, on_conflict, now } = prepared;
        let op = LinkOp::Create { draft, code, source: caller.source, on_conflict };
        LinkWrite {
            owner: caller.owner.clone(),
            change_limits: self.change_limits(caller),
            ..LinkWrite::new(workspace.id, caller.actor.clone(), now, op)
        }
    }

    /// Who sees only their own takes no code that was another's: with it they would see what it was.
    async fn check_owner(&self, caller: &Caller, code: &Code) -> Result<(), OpsError> {
        let workspace = &caller.workspace;
        match self.store.link(workspace.id, code).await? {
            Some(link) if !caller.can_see(&link) => {
                let deleted = link.state == LinkState::Deleted;
                Err(StoreError::CodeTaken { code: code.to_string(), deleted }.into())
            }
            _ => Ok(()),
        }
    }

    /// The answer that the same creation got before, where it is known by its key; an error where the key was another creation's. What
    /// has become impossible since then (an expiry that is over, a limit that is reached) makes no difference.
    async fn replay(
        &self,
        workspace: &Workspace,
        input: &Input,
        idempotency_key: &IdempotencyKey,
    ) -> Result<Option<LinkResult>, OpsError> {
        let first = self.store.replay(workspace.id, idempotency_key, self.clock.now()).await?;
        let Some(mut result) = first.map(LinkResult::from) else { return Ok(None) };
        if result.outcome == WriteOutcome::Reused {
            let sent = Input { code: None, ..input.clone() };
            let sent = LinkPatch::parse(&sent, &workspace.policy, Timestamp::from_ms(0));
            result.not_applied = sent.map(|sent| sent.unapplied(&result.link)).unwrap_or_default();
        }
        Ok(Some(result))
    }

    /// What a creation would give. A generated code is only an example: the next one is another.
    async fn dry_run(&self, caller: &Caller, prepared: PreparedLink) -> Result<LinkResult, OpsError> {
        let workspace = &caller.workspace;
        let PreparedLink { draft, code, on_conflict, now } = prepared;
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
            Some(link) if matches!(on_conflict, OnConflict::Recreate) && link.state == LinkState::Deleted => {
                link.version + 1
            }
            Some(link) if matches!(on_conflict, OnConflict::Reuse { .. }) => {
                let outcome = if link.state == LinkState::Active && !link.is_expired(now) {
                    WriteOutcome::Reused
                } else {
                    WriteOutcome::Revived
                };
                return Ok(LinkResult::new(link.clone(), outcome));
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
            source: caller.source,
            created_by: caller.owner.clone(),
            created_at: now,
            version,
        });
        Ok(LinkResult::new(link, WriteOutcome::Created))
    }
}

/// A new link that keeps all rules, and when that was seen.
pub(crate) struct PreparedLink {
    draft: LinkDraft,
    code: CodeChoice,
    on_conflict: OnConflict,
    pub(crate) now: Timestamp,
}

/// What became of a creation, and what a link that was handed back does not have of it.
pub(crate) fn link_result(
    workspace: &Workspace,
    input: &Input,
    written: Written,
    now: Timestamp,
) -> Result<LinkResult, OpsError> {
    let mut result = LinkResult::from(written);
    if result.outcome == WriteOutcome::Reused {
        let sent = Input { code: None, ..input.clone() };
        result.not_applied = LinkPatch::parse(&sent, &workspace.policy, now)?.unapplied(&result.link);
    }
    Ok(result)
}

fn choose_code(
    workspace: &Workspace,
    draft: &LinkDraft,
    input: &Input,
    on_deleted: OnDeletedCode,
    now: Timestamp,
    entropy: &Random,
) -> Result<(CodeChoice, OnConflict), OpsError> {
    if let Some(code) = &draft.code {
        let on_conflict =
            if on_deleted == OnDeletedCode::Recreate { OnConflict::Recreate } else { OnConflict::Refuse };
        return Ok((CodeChoice::Chosen(code.clone()), on_conflict));
    }
    let random = |letters, length| {
        let codes = std::iter::repeat_with(|| {
            code_generator::random_code(&entropy.bytes::<{ code_generator::RANDOM_BYTES }>(), letters, length)
        });
        CodeChoice::Candidates(codes.take(CANDIDATES_PER_ATTEMPT).flatten().collect())
    };
    let on_conflict = if workspace.policy.reuses_links() {
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
                (0..MAX_HASH_SALTS)
                    .filter_map(|salt| code_generator::from_target(&workspace.slug, &normalized, salt))
                    .collect(),
            )
        }
    };
    Ok((code, on_conflict))
}
