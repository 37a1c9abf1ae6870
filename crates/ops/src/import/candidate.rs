//! A row as the link it would be, checked by itself.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};

use rlinks_clicks::rollup::Total;
use rlinks_core::draft::{Input, LinkIdentity};
use rlinks_core::link::code::is_server_word;
use rlinks_core::time::DAY_MS;
use rlinks_core::{
    Actor, Code, FieldCode, FieldError, FieldErrors, Id, Link, LinkDraft, LinkSource, LinkState, Policy,
    Timestamp,
};

use crate::import::report::{RowOutcome, RowResult};
use crate::import::row::{PreservedFields, Row, truncated_code};
use crate::import::rules::{ImportIdentity, Rules};

/// An id may be so much younger than our clock says: two clocks differ.
const MAX_ID_SKEW_MS: i64 = DAY_MS;
/// The most changes a link can have had: so few that it can go on being changed.
const MAX_VERSION: i64 = 1_000_000_000_000;
/// The longest target any policy allows.
const MAX_TARGET_BYTES: u32 = 65_536;

/// A link that may be made of a row.
pub struct Candidate {
    pub row: u64,
    /// What it would be.
    pub link: Link,
    /// The id it must have.
    pub(crate) id: Option<Id>,
    /// When it last changed, where that is kept.
    pub(crate) updated_at: Option<Timestamp>,
    /// What it had counted.
    pub total: Option<Total>,
    /// Leads to a domain served here, and may.
    pub(crate) targets_served_host: bool,
    given: GivenFields,
    identity: ImportIdentity,
}

/// Which fields the row named: only these are compared with a link that is there.
#[expect(clippy::struct_excessive_bools, reason = "one for each field")]
struct GivenFields {
    redirect_status: bool,
    expires_at: bool,
    title: bool,
    notes: bool,
    tags: bool,
    https_only: bool,
    no_loop: bool,
    metadata: bool,
    state: bool,
}

impl Candidate {
    pub(crate) fn from_row(row: &Row, rules: &Rules, now: Timestamp) -> Result<Self, FieldErrors> {
        let (policy, domains) = (&rules.policy, &rules.domains);
        let mut errors = FieldErrors::default();
        let mut input = row.input.clone();
        let is_http =
            |target: &str| target.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
        if rules.allow_http && input.https_only.is_none() && input.target.as_deref().is_some_and(is_http) {
            input.https_only = Some(false);
        }
        let code = errors.ok_or_push(parse_code(&input, policy, rules.identity));
        let draft = match rules.identity {
            ImportIdentity::New => {
                LinkDraft::parse(&Input { code: None, ..input.clone() }, policy, domains, now)
            }
            ImportIdentity::Preserve => {
                let lenient_policy = Policy { max_target_bytes: MAX_TARGET_BYTES, ..policy.clone() };
                let lenient =
                    Input { code: None, https_only: Some(false), no_loop: Some(false), ..input.clone() };
                LinkDraft::parse(&lenient, &lenient_policy, domains, now)
            }
        };
        let draft = draft.map_err(|more| errors.0.extend(more.0)).ok();
        let exact = if rules.identity == ImportIdentity::Preserve {
            row.preserved.clone()
        } else {
            PreservedFields::default()
        };
        if let Some(id) = exact.id
            && (id.as_i64() <= 0 || id.created_at() > now.plus_ms(MAX_ID_SKEW_MS))
        {
            errors.push(FieldError::new(
                "id",
                FieldCode::BadCharacters,
                "is no id of ours, or one of a time to come",
            ));
        }
        if exact.version.is_some_and(|version| version < 1) {
            errors.push(FieldError::new("version", FieldCode::TooShort, "must be 1 at least"));
        }
        if exact.version.is_some_and(|version| version > MAX_VERSION) {
            let message = format!("must be {MAX_VERSION} at most");
            errors.push(FieldError::new("version", FieldCode::TooLong, message));
        }
        if exact
            .created_by
            .as_ref()
            .is_some_and(|maker| maker.len() > 255 || maker.chars().any(char::is_control))
        {
            errors.push(FieldError::new("created_by", FieldCode::BadCharacters, "is nobody's name here"));
        }
        errors.into_result()?;
        let (Some(draft), Some(code)) = (draft, code) else { return Err(FieldErrors::default()) };
        let mut link = draft.to_link(LinkIdentity {
            id: exact.id.unwrap_or(Id::from_i64(0)),
            workspace: rules.workspace,
            code,
            generated: exact.generated,
            source: exact.source.unwrap_or(LinkSource::Import),
            created_by: exact.created_by.map_or_else(|| rules.owner.clone(), Actor::from_stored),
            created_at: now,
            version: exact.version.unwrap_or(1),
        });
        link.https_only = input.https_only.unwrap_or(policy.https_only);
        link.no_loop = input.no_loop.unwrap_or(true);
        link.state = row.state.unwrap_or(LinkState::Active);
        link.expires_at = row.expires_at.flatten();
        link.created_at = row.created_at.unwrap_or(now);
        link.updated_at = exact.updated_at.unwrap_or(now);
        Ok(Self {
            row: row.number,
            targets_served_host: rules.identity == ImportIdentity::New
                && rules.may_answer_on(link.target.host()),
            id: exact.id,
            updated_at: exact.updated_at,
            total: row.total,
            given: GivenFields {
                redirect_status: input.redirect_status.is_some(),
                expires_at: row.expires_at.is_some(),
                title: input.title.is_some(),
                notes: input.notes.is_some(),
                tags: input.tags.is_some(),
                https_only: input.https_only.is_some(),
                no_loop: input.no_loop.is_some(),
                metadata: input.metadata.is_some(),
                state: row.state.is_some(),
            },
            link,
            identity: rules.identity,
        })
    }

    /// What becomes of it where its code is a deleted link's.
    pub fn deleted_conflict(&self) -> RowResult {
        let reason = "the code is a deleted link's, and stays taken; restore that link first";
        self.verdict(RowOutcome::Conflicting, reason)
    }

    /// What becomes of it.
    pub fn verdict(&self, outcome: RowOutcome, reason: impl Into<String>) -> RowResult {
        let code = Some(truncated_code(self.link.code.as_str()));
        RowResult { row: self.row, code, outcome, reason: reason.into(), may_overwrite: false }
    }

    /// The link that is there as it would become.
    pub(crate) fn apply_to(&self, there: &Link) -> Link {
        let (given, link) = (&self.given, self.link.clone());
        let mut next = there.clone();
        if self.identity == ImportIdentity::Preserve {
            next = Link { id: self.id.unwrap_or(there.id), workspace: there.workspace, ..link.clone() };
            next.updated_at = self.updated_at.unwrap_or(there.updated_at);
        }
        next.target = link.target;
        if given.redirect_status {
            next.redirect_status = link.redirect_status;
        }
        if given.expires_at {
            next.expires_at = link.expires_at;
        }
        if given.title {
            next.title = link.title;
        }
        if given.notes {
            next.notes = link.notes;
        }
        if given.tags {
            next.tags = link.tags;
        }
        if given.https_only {
            next.https_only = link.https_only;
        }
        if given.no_loop {
            next.no_loop = link.no_loop;
        }
        if given.metadata {
            next.metadata = link.metadata;
        }
        if given.state {
            next.state = link.state;
        }
        next
    }

    /// What the row says of its link, in a number.
    pub(crate) fn fingerprint(&self, hasher: &RandomState) -> u64 {
        let link = &self.link;
        let mut hash = hasher.build_hasher();
        (link.target.as_str(), link.redirect_status.code(), link.state.name()).hash(&mut hash);
        (link.https_only, link.no_loop, link.expires_at).hash(&mut hash);
        (&link.title, &link.notes, &link.tags).hash(&mut hash);
        if !link.metadata.is_empty() {
            serde_json::to_string(&link.metadata).unwrap_or_default().hash(&mut hash);
        }
        hash.finish()
    }
}

fn parse_code(input: &Input, policy: &Policy, identity: ImportIdentity) -> Result<Code, FieldError> {
    let Some(text) = input.code.as_deref() else {
        return Err(FieldError::new(
            "code",
            FieldCode::Required,
            "is missing, and there is no short URL it could be read from",
        ));
    };
    match (identity, Code::from_path(text)) {
        // Grammar and reserved words bind new links only; what the server itself is reached by was never a link's.
        (ImportIdentity::Preserve, Some(code)) if !is_server_word(&code.folded()) => Ok(code),
        _ => Code::parse(text, &policy.code),
    }
}
