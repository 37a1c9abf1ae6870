//! The policy: what it says, what each field means, and what a change would change before it is saved.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::workspace::policy::SignIn;
use rlinks_core::{FieldErrors, Policy, Preset, Workspace};

use super::super::{Problem, Web, page, see_other};
use super::{beside, done, is_confirmed};
use crate::auth::authorize::WorkspaceAdmin;
use crate::auth::caller::Caller;
use crate::auth::session::Signed;
use crate::web::extract::{Doing, Form, Looking};
use crate::web::workspace::policy_fields::{FIELDS, Field, Kind, SIGN_IN, value_of};
use rlinks_ops::OpsError;

const DONE: [(&str, &str); 3] = [
    (
        "policy",
        "The policy was changed. It binds what is written from now on; links that are there keep answering.",
    ),
    ("nothing", "Nothing was changed: the policy says this already."),
    ("name", "The name was changed."),
];

/// A field and what its input shows.
struct Shown {
    field: &'static Field,
    value: String,
    wrong: Option<String>,
}

/// A group of fields.
struct Group {
    title: &'static str,
    fields: Vec<Shown>,
}

/// A field that a change would change.
struct Difference {
    label: &'static str,
    before: String,
    after: String,
}

#[derive(Template)]
#[template(path = "space/policy.html")]
struct PolicyPage<'a> {
    signed: &'a Signed,
    done: Option<&'static str>,
    /// The preset the form is filled from, and not the policy there is.
    from_preset: Option<Preset>,
    /// The preset the policy was filled from.
    preset: Preset,
    groups: Vec<Group>,
    sign_in: Vec<(&'static str, &'static str, bool)>,
    errors: FieldErrors,
    name: &'a str,
    name_wrong: Option<String>,
}

#[derive(Template)]
#[template(path = "space/policy_change.html")]
struct ChangePage<'a> {
    signed: &'a Signed,
    /// The policy is another than when the form was filled in.
    moved: bool,
    /// Whoever saves this is signed in by a way it no longer has.
    locks_out: bool,
    differences: Vec<Difference>,
    /// The form once more, unseen.
    fields: Vec<(String, String)>,
}

impl<'a> PolicyPage<'a> {
    fn new(signed: &'a Signed, policy: &Policy) -> Self {
        let shown = |field: &'static Field| Shown { field, value: value_of(policy, field.path), wrong: None };
        let mut groups: Vec<Group> = Vec::new();
        for field in &FIELDS {
            match groups.last_mut().filter(|group| group.title == field.group) {
                Some(group) => group.fields.push(shown(field)),
                None => groups.push(Group { title: field.group, fields: vec![shown(field)] }),
            }
        }
        let way = |(name, words, way): (&'static str, &'static str, SignIn)| {
            (name, words, policy.sign_in.contains(&way))
        };
        Self {
            signed,
            done: None,
            from_preset: None,
            preset: signed.workspace.policy.preset,
            groups,
            sign_in: SIGN_IN.into_iter().map(way).collect(),
            errors: FieldErrors::default(),
            name: &signed.workspace.name,
            name_wrong: None,
        }
    }

    /// With what was typed, and what is wrong about it.
    fn again(mut self, form: &Form, errors: FieldErrors) -> Self {
        for shown in self.groups.iter_mut().flat_map(|group| &mut group.fields) {
            form.get(shown.field.path).clone_into(&mut shown.value);
            shown.wrong =
                beside(&errors, shown.field.path).map(|said| shown.field.wrong(shown.value.trim(), said));
        }
        for (name, _, chosen) in &mut self.sign_in {
            *chosen = !form.get(name).is_empty();
        }
        self.from_preset = form.get("preset").parse().ok();
        self.errors = errors;
        self
    }
}

/// What each preset is for.
const PRESETS: [(Preset, &str); 4] = [
    (
        Preset::Fabric,
        "One person’s or one house’s canonical domain. Short lower-case codes, permanent redirects that are never cached, https targets only, \
         nothing ever given out twice, user agents kept only as a hash.",
    ),
    (
        Preset::Edge,
        "A small public shortener. Random codes of eight characters, temporary redirects that proxies may keep for five minutes, expired links \
         swept away daily, clicks kept for 90 days, at most 1,000 live links.",
    ),
    (
        Preset::Platform,
        "Many people who do not see each other’s links. Sign-in through an OpenID provider and keys, limits for each person and each hour, \
         deleted links can be brought back.",
    ),
    (
        Preset::Team,
        "A team that shares its links. The same target always gets the same code, long targets are allowed, redirects are never kept, \
         everybody sees everything.",
    ),
];

/// The policy as it is, or a form filled from a preset.
pub async fn show(Looking { visit, signed, .. }: Looking<WorkspaceAdmin>) -> Result<Response, Problem> {
    let preset = visit.parameter("preset").and_then(|name| name.parse::<Preset>().ok());
    let policy = preset.map_or_else(|| signed.workspace.policy.clone(), Policy::preset);
    let shown = PolicyPage::new(&signed, &policy);
    page(&PolicyPage { done: done(&visit, &DONE), from_preset: preset, ..shown })
}

/// The policy the form means. Only what differs from where it begins is set, so that an error is about what somebody changed.
fn meant(form: &Form, policy: &Policy) -> Result<Policy, FieldErrors> {
    let begin = match form.get("preset") {
        "" => policy.clone(),
        name => Policy::preset(name.parse()?),
    };
    let mut changes: Vec<(String, String)> = Vec::new();
    for field in &FIELDS {
        let given = form.get(field.path).trim();
        if given != value_of(&begin, field.path) {
            let value = match field.kind {
                Kind::Number { empty: Some(_) } if given.is_empty() => "null",
                _ => given,
            };
            changes.push((field.path.to_owned(), value.to_owned()));
        }
    }
    let ways: Vec<SignIn> = SIGN_IN
        .into_iter()
        .filter(|(name, _, _)| !form.get(name).is_empty())
        .map(|(_, _, way)| way)
        .collect();
    let same = ways.len() == begin.sign_in.len() && ways.iter().all(|way| begin.sign_in.contains(way));
    if !same {
        let text = serde_json::to_string(&ways).expect("ways are JSON");
        changes.push(("sign_in".to_owned(), text));
    }
    begin.with_all(&changes)
}

fn differences(before: &Policy, after: &Policy) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut compare = |label, before: String, after: String| {
        if before != after {
            found.push(Difference { label, before, after });
        }
    };
    compare("Preset", before.preset.to_string(), after.preset.to_string());
    for field in &FIELDS {
        compare(
            field.label,
            field.in_words(&value_of(before, field.path)),
            field.in_words(&value_of(after, field.path)),
        );
    }
    let ways = |policy: &Policy| {
        let ways =
            SIGN_IN.into_iter().filter(|(_, _, way)| policy.sign_in.contains(way)).map(|(_, words, _)| words);
        ways.collect::<Vec<_>>().join(", ")
    };
    compare("Ways to sign in", ways(before), ways(after));
    found
}

/// Shows what a change would change; once that was confirmed, makes it.
pub async fn change(
    State(web): State<Arc<Web>>,
    Doing { signed, caller, form, .. }: Doing<WorkspaceAdmin>,
) -> Result<Response, Problem> {
    let seen = &signed.workspace;
    let next = match meant(&form, &seen.policy) {
        Ok(next) => next,
        Err(errors) => {
            let again = PolicyPage::new(&signed, &seen.policy).again(&form, errors);
            return Err(Problem::new(ErrorCode::ValidationFailed).in_page(&again, None));
        }
    };
    let differences = differences(&seen.policy, &next);
    if differences.is_empty() {
        return Ok(see_other("/admin/policy?done=nothing", None));
    }
    let seen_then = form.get("seen");
    let moved = is_confirmed(&form) && seen_then != version(seen);
    if is_confirmed(&form) && !moved {
        save(&web, &caller, Workspace { policy: next, ..seen.clone() }, "workspace.policy").await?;
        return Ok(see_other("/admin/policy?done=policy", None));
    }
    let mut fields: Vec<(String, String)> =
        FIELDS.iter().map(|field| (field.path.to_owned(), value_of(&next, field.path))).collect();
    for (name, _, way) in SIGN_IN {
        if next.sign_in.contains(&way) {
            fields.push((name.to_owned(), "on".to_owned()));
        }
    }
    if !form.get("preset").is_empty() {
        fields.push(("preset".to_owned(), next.preset.to_string()));
    }
    fields.push(("seen".to_owned(), version(seen)));
    page(&ChangePage {
        signed: &signed,
        moved,
        locks_out: !next.sign_in.contains(&signed.session.how.way()),
        differences,
        fields,
    })
}

/// Which state of the workspace somebody looked at.
fn version(workspace: &Workspace) -> String {
    workspace.updated_at.ms().to_string()
}

async fn save(web: &Web, caller: &Caller, next: Workspace, action: &str) -> Result<(), Problem> {
    let (actor, now) = (&caller.by.actor, web.clock.now());
    let saved = web.store.update_workspace(&caller.workspace, next, action, actor, now).await;
    saved.map_err(OpsError::Store)?;
    Ok(web.api.learn_directory().await?)
}

/// Gives the workspace another name.
pub async fn rename(
    State(web): State<Arc<Web>>,
    Doing { signed, caller, form, .. }: Doing<WorkspaceAdmin>,
) -> Result<Response, Problem> {
    let name = match Workspace::parse_name(form.get("name")) {
        Ok(name) => name,
        Err(error) => {
            let again = PolicyPage::new(&signed, &signed.workspace.policy);
            let again = PolicyPage { name: form.get("name"), name_wrong: Some(error.message), ..again };
            return Err(Problem::new(ErrorCode::ValidationFailed).in_page(&again, None));
        }
    };
    save(&web, &caller, Workspace { name, ..signed.workspace.clone() }, "workspace.update").await?;
    Ok(see_other("/admin/policy?done=name", None))
}
