//! The policy: what it says, what each field means, and what a change would change before it is saved.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rlinks_core::error_code::ErrorCode;
use rlinks_core::workspace::policy::SignInMethod;
use rlinks_core::{FieldErrors, Policy, Preset, Workspace};

use super::super::{PageError, Web, render_page, see_other};
use super::{field_error, flash_text, is_confirmed};
use crate::auth::authorize::WorkspaceAdmin;
use crate::auth::session::CurrentSession;
use crate::web::extract::{AuthorizedForm, AuthorizedPage, Form};
use crate::web::workspace::policy_fields::{
    FieldKind, POLICY_FIELDS, PolicyField, SIGN_IN_METHODS, value_of,
};
use rlinks_ops::workspaces::WorkspacePatch;

const FLASH_TEXTS: [(&str, &str); 3] = [
    (
        "policy",
        "The policy was changed. It binds what is written from now on; links that are there keep answering.",
    ),
    ("nothing", "Nothing was changed: the policy says this already."),
    ("name", "The name was changed."),
];

/// A field and what its input shows.
struct FieldInput {
    field: &'static PolicyField,
    value: String,
    error: Option<String>,
}

/// A group of fields.
struct Group {
    title: &'static str,
    fields: Vec<FieldInput>,
}

/// A field that a change would change.
struct FieldDiff {
    label: &'static str,
    before: String,
    after: String,
}

#[derive(Template)]
#[template(path = "workspace/policy.html")]
struct PolicyPage<'a> {
    current: &'a CurrentSession,
    done: Option<&'static str>,
    /// The preset the form is filled from, and not the policy there is.
    from_preset: Option<Preset>,
    /// The preset the policy was filled from.
    preset: Preset,
    groups: Vec<Group>,
    sign_in: Vec<(&'static str, &'static str, bool)>,
    errors: FieldErrors,
    name: &'a str,
    name_error: Option<String>,
}

#[derive(Template)]
#[template(path = "workspace/policy_change.html")]
struct PolicyChangePage<'a> {
    current: &'a CurrentSession,
    /// The policy is another than when the form was filled in.
    changed_meanwhile: bool,
    /// Whoever saves this is signed in by a way it no longer has.
    locks_out: bool,
    differences: Vec<FieldDiff>,
    /// The form once more, unseen.
    fields: Vec<(String, String)>,
}

impl<'a> PolicyPage<'a> {
    fn new(current: &'a CurrentSession, policy: &Policy) -> Self {
        let shown = |field: &'static PolicyField| FieldInput {
            field,
            value: value_of(policy, field.path),
            error: None,
        };
        let mut groups: Vec<Group> = Vec::new();
        for field in &POLICY_FIELDS {
            match groups.last_mut().filter(|group| group.title == field.group) {
                Some(group) => group.fields.push(shown(field)),
                None => groups.push(Group { title: field.group, fields: vec![shown(field)] }),
            }
        }
        let choice = |(name, words, method): (&'static str, &'static str, SignInMethod)| {
            (name, words, policy.sign_in.contains(&method))
        };
        Self {
            current,
            done: None,
            from_preset: None,
            preset: current.workspace.policy.preset,
            groups,
            sign_in: SIGN_IN_METHODS.into_iter().map(choice).collect(),
            errors: FieldErrors::default(),
            name: &current.workspace.name,
            name_error: None,
        }
    }

    /// With what was typed, and what is wrong about it.
    fn with_errors(mut self, form: &Form, errors: FieldErrors) -> Self {
        for shown in self.groups.iter_mut().flat_map(|group| &mut group.fields) {
            form.get(shown.field.path).clone_into(&mut shown.value);
            shown.error = field_error(&errors, shown.field.path)
                .map(|said| shown.field.error_message(shown.value.trim(), said));
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
const PRESET_DESCRIPTIONS: [(Preset, &str); 4] = [
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
pub async fn show(
    AuthorizedPage { request, current, .. }: AuthorizedPage<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let preset = request.query_param("preset").and_then(|name| name.parse::<Preset>().ok());
    let policy = preset.map_or_else(|| current.workspace.policy.clone(), Policy::preset);
    let shown = PolicyPage::new(&current, &policy);
    render_page(&PolicyPage { done: flash_text(&request, &FLASH_TEXTS), from_preset: preset, ..shown })
}

/// The policy the form means. Only what differs from where it begins is set, so that an error is about what somebody changed.
fn policy_from_form(form: &Form, policy: &Policy) -> Result<Policy, FieldErrors> {
    let begin = match form.get("preset") {
        "" => policy.clone(),
        name => Policy::preset(name.parse()?),
    };
    let mut changes: Vec<(String, String)> = Vec::new();
    for field in &POLICY_FIELDS {
        let given = form.get(field.path).trim();
        if given != value_of(&begin, field.path) {
            let value = match field.kind {
                FieldKind::Number { empty: Some(_) } if given.is_empty() => "null",
                _ => given,
            };
            changes.push((field.path.to_owned(), value.to_owned()));
        }
    }
    let methods: Vec<SignInMethod> = SIGN_IN_METHODS
        .into_iter()
        .filter(|(name, _, _)| !form.get(name).is_empty())
        .map(|(_, _, method)| method)
        .collect();
    let same =
        methods.len() == begin.sign_in.len() && methods.iter().all(|method| begin.sign_in.contains(method));
    if !same {
        let text = serde_json::to_string(&methods).expect("ways are JSON");
        changes.push(("sign_in".to_owned(), text));
    }
    begin.set_fields(&changes)
}

fn diff(before: &Policy, after: &Policy) -> Vec<FieldDiff> {
    let mut found = Vec::new();
    let mut compare = |label, before: String, after: String| {
        if before != after {
            found.push(FieldDiff { label, before, after });
        }
    };
    compare("Preset", before.preset.to_string(), after.preset.to_string());
    for field in &POLICY_FIELDS {
        compare(
            field.label,
            field.in_words(&value_of(before, field.path)),
            field.in_words(&value_of(after, field.path)),
        );
    }
    let method_names = |policy: &Policy| {
        let names = SIGN_IN_METHODS
            .into_iter()
            .filter(|(_, _, method)| policy.sign_in.contains(method))
            .map(|(_, words, _)| words);
        names.collect::<Vec<_>>().join(", ")
    };
    compare("Ways to sign in", method_names(before), method_names(after));
    found
}

/// Shows what a change would change; once that was confirmed, makes it.
pub async fn change(
    State(web): State<Arc<Web>>,
    AuthorizedForm { current, caller, form, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let seen = &current.workspace;
    let next = match policy_from_form(&form, &seen.policy) {
        Ok(next) => next,
        Err(errors) => {
            let again = PolicyPage::new(&current, &seen.policy).with_errors(&form, errors);
            return Err(PageError::new(ErrorCode::ValidationFailed).rendered_in(&again, None));
        }
    };
    let differences = diff(&seen.policy, &next);
    if differences.is_empty() {
        return Ok(see_other("/admin/policy?done=nothing", None));
    }
    let seen_then = form.get("seen");
    let changed_meanwhile = is_confirmed(&form) && seen_then != workspace_version(seen);
    if is_confirmed(&form) && !changed_meanwhile {
        web.ops.update_workspace(&caller, WorkspacePatch { policy: Some(next), name: None }).await?;
        return Ok(see_other("/admin/policy?done=policy", None));
    }
    let mut fields: Vec<(String, String)> =
        POLICY_FIELDS.iter().map(|field| (field.path.to_owned(), value_of(&next, field.path))).collect();
    for (name, _, method) in SIGN_IN_METHODS {
        if next.sign_in.contains(&method) {
            fields.push((name.to_owned(), "on".to_owned()));
        }
    }
    if !form.get("preset").is_empty() {
        fields.push(("preset".to_owned(), next.preset.to_string()));
    }
    fields.push(("seen".to_owned(), workspace_version(seen)));
    render_page(&PolicyChangePage {
        current: &current,
        changed_meanwhile,
        locks_out: !next.sign_in.contains(&current.session.how.sign_in_method()),
        differences,
        fields,
    })
}

/// Which state of the workspace somebody looked at.
fn workspace_version(workspace: &Workspace) -> String {
    workspace.updated_at.ms().to_string()
}

/// Gives the workspace another name.
pub async fn rename(
    State(web): State<Arc<Web>>,
    AuthorizedForm { current, caller, form, .. }: AuthorizedForm<WorkspaceAdmin>,
) -> Result<Response, PageError> {
    let name = match Workspace::parse_name(form.get("name")) {
        Ok(name) => name,
        Err(error) => {
            let again = PolicyPage::new(&current, &current.workspace.policy);
            let again = PolicyPage { name: form.get("name"), name_error: Some(error.message), ..again };
            return Err(PageError::new(ErrorCode::ValidationFailed).rendered_in(&again, None));
        }
    };
    web.ops.update_workspace(&caller, WorkspacePatch { name: Some(name), policy: None }).await?;
    Ok(see_other("/admin/policy?done=name", None))
}
