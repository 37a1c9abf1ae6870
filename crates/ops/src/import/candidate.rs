//! A row as the link it would be, checked by itself.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};

use rlinks_clicks::rollup::Total;
use rlinks_core::draft::{Input, LinkIdentity};
use rlinks_core::link::code::is_reserved;
use rlinks_core::{
    Actor, Code, FieldCode, FieldError, FieldErrors, Id, Link, LinkDraft, LinkSource, LinkState, Policy,
    Timestamp,
};

use crate::import::report::{Outcome, Verdict};
use crate::import::row::{Exact, Row, shown};
use crate::import::rules::{Keep, Rules};

/// An id may be so much younger than our clock says: two clocks differ.
const LATEST_ID_MS: i64 = 24 * 3_600_000;
/// The most changes a link can have had: so few that it can go on being changed.
const MOST_VERSIONS: i64 = 1_000_000_000_000;
/// The longest target any policy allows.
const LONGEST_TARGET: u32 = 65_536;

/// A link that may be made of a row.
pub struct Candidate {
    /// The row's place.
    pub row: u64,
    /// What it would be.
    pub link: Link,
    /// The id it must have.
    pub(crate) id: Option<Id>,
    /// When it last changed, where that is kept.
    pub(crate) updated: Option<Timestamp>,
    /// What it had counted.
    pub total: Option<Total>,
    /// Leads to a domain served here, and may.
    pub(crate) leads_home: bool,
    said: Said,
    keep: Keep,
}

/// Which fields the row named: only these are compared with a link that is there.
#[expect(clippy::struct_excessive_bools, reason = "one for each field")]
struct Said {
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
    pub(crate) fn of(row: &Row, rules: &Rules, now: Timestamp) -> Result<Self, FieldErrors> {
        let (policy, domains) = (&rules.policy, &rules.domains);
        let mut errors = FieldErrors::default();
        let mut input = row.input.clone();
        let is_http =
            |target: &str| target.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
        if rules.allow_http && input.https_only.is_none() && input.target.as_deref().is_some_and(is_http) {
            input.https_only = Some(false);
        }
        let code = errors.ok_or_push(code_of(&input, policy, rules.keep));
        let draft = match rules.keep {
            Keep::Words => LinkDraft::parse(&Input { code: None, ..input.clone() }, policy, domains, now),
            Keep::Everything => {
                let lenient_policy = Policy { max_target_bytes: LONGEST_TARGET, ..policy.clone() };
                let lenient =
                    Input { code: None, https_only: Some(false), no_loop: Some(false), ..input.clone() };
                LinkDraft::parse(&lenient, &lenient_policy, domains, now)
            }
        };
        let draft = draft.map_err(|more| errors.0.extend(more.0)).ok();
        let exact = if rules.keep == Keep::Everything { row.exact.clone() } else { Exact::default() };
        if let Some(id) = exact.id
            && (id.as_i64() <= 0 || id.created_at() > now.plus_ms(LATEST_ID_MS))
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
        if exact.version.is_some_and(|version| version > MOST_VERSIONS) {
            let message = format!("must be {MOST_VERSIONS} at most");
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
            leads_home: rules.keep == Keep::Words && domains.contains(link.target.host()),
            id: exact.id,
            updated: exact.updated_at,
            total: row.total,
            said: Said {
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
            keep: rules.keep,
        })
    }

    /// What becomes of it where its code is a deleted link's.
    pub fn against_deleted(&self) -> Verdict {
        let reason = "the code is a deleted link's, and stays taken; restore that link first";
        self.verdict(Outcome::Conflicting, reason)
    }

    /// What becomes of it.
    pub fn verdict(&self, outcome: Outcome, reason: impl Into<String>) -> Verdict {
        let code = Some(shown(self.link.code.as_str()));
        Verdict { row: self.row, code, outcome, reason: reason.into(), may_overwrite: false }
    }

    /// The link that is there as it would become.
    pub(crate) fn over(&self, there: &Link) -> Link {
        let (said, link) = (&self.said, self.link.clone());
        let mut next = there.clone();
        if self.keep == Keep::Everything {
            next = Link { id: self.id.unwrap_or(there.id), workspace: there.workspace, ..link.clone() };
            next.updated_at = self.updated.unwrap_or(there.updated_at);
        }
        next.target = link.target;
        if said.redirect_status {
            next.redirect_status = link.redirect_status;
        }
        if said.expires_at {
            next.expires_at = link.expires_at;
        }
        if said.title {
            next.title = link.title;
        }
        if said.notes {
            next.notes = link.notes;
        }
        if said.tags {
            next.tags = link.tags;
        }
        if said.https_only {
            next.https_only = link.https_only;
        }
        if said.no_loop {
            next.no_loop = link.no_loop;
        }
        if said.metadata {
            next.metadata = link.metadata;
        }
        if said.state {
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

fn code_of(input: &Input, policy: &Policy, keep: Keep) -> Result<Code, FieldError> {
    let Some(text) = input.code.as_deref() else {
        return Err(FieldError::new(
            "code",
            FieldCode::Required,
            "is missing, and there is no short URL it could be read from",
        ));
    };
    match (keep, Code::from_path(text)) {
        // A grammar binds new links only. What the server itself is reached by was never a link's.
        (Keep::Everything, Some(code)) if !is_reserved(text) => Ok(code),
        _ => Code::parse(text, &policy.code),
    }
}
