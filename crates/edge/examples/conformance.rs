//! Prints the rows of `conformance/redirects.md` as JSON, with what KV and D1 hold for each, for the tests in workerd.

#[path = "../../../conformance/table.rs"]
mod table;

use std::collections::BTreeMap;

use rlinks_core::link::route_object::{ClickTotals, RouteObject};
use rlinks_core::link::{Link, LinkSource, LinkState, RedirectStatus, target};
use rlinks_core::{Actor, Code, Id, Policy, Target, Timestamp};
use serde_json::{Map, Value, json};
use table::{Form, On, Row, State};

/// Where the clock stands while a row runs. A whole second: D1 keeps no less.
const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

fn main() {
    let rows: Vec<Value> = table::rows().iter().map(export).collect();
    println!("{}", json!({ "now_ms": NOW.ms(), "domain": table::DOMAIN, "rows": rows }));
}

fn export(row: &Row) -> Value {
    let given = &row.given.main;
    let policy = given.overrides.iter().fold(preset(given), |policy, (key, value)| {
        policy.set_field(key, value).unwrap_or_else(|error| panic!("{}: {error}", row.id))
    });
    let links: Vec<(&table::Link, Link)> =
        given.links.iter().map(|link| (link, stored(link, &policy))).collect();
    let (form, code) = match &row.then.form {
        Form::Redirect => ("redirect", None),
        Form::Page => ("page", None),
        Form::Json => ("json", None),
        Form::Error(code) => ("error", Some(code)),
        Form::Text => ("text", None),
        Form::Bare => ("bare", None),
    };
    json!({
        "id": row.id,
        "line": row.line,
        "text": row.text,
        "on": match row.on { On::Everywhere => "", On::Native => "native", On::Http => "http", On::Explain => "explain" },
        "preset": given.preset,
        "policy": changes(&given.overrides),
        "kv": links.iter().map(|(asked, link)| kv(asked, link)).collect::<BTreeMap<_, _>>(),
        "d1": links.iter().map(|(asked, link)| d1(asked, link, &policy)).collect::<Option<Vec<_>>>(),
        "when": {
            "method": row.when.method, "target": row.when.target, "hosts": row.when.hosts,
            "headers": row.when.headers, "body": row.when.body,
        },
        "then": {
            "status": row.then.status, "form": form, "code": code,
            "headers": row.then.headers, "shows": row.then.shows,
        },
    })
}

fn preset(given: &table::Workspace) -> Policy {
    Policy::preset(given.preset.parse().expect("the table knows its presets"))
}

/// `cache.max_age=5` as `{"cache":{"max_age":5}}`, the form of `RMAX_POLICY`.
fn changes(overrides: &[(String, String)]) -> Value {
    let mut all = Map::new();
    for (key, value) in overrides {
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.clone()));
        match key.split_once('.') {
            None => drop(all.insert(key.clone(), value)),
            Some((outer, inner)) => {
                let slot = all.entry(outer).or_insert_with(|| json!({}));
                slot[inner] = value;
            }
        }
    }
    Value::Object(all)
}

fn stored(link: &table::Link, policy: &Policy) -> Link {
    Link {
        id: Id::from_i64(1),
        workspace: Id::from_i64(1),
        code: Code::from_path(&link.code).expect("a code"),
        generated: false,
        target: Target::parse(&link.target, target::MAX_TARGET_BYTES).expect("a target"),
        redirect_status: link.status.map_or(policy.redirect_status, |code| {
            RedirectStatus::from_code(code.into()).expect("a redirect status")
        }),
        state: if link.state == State::Disabled { LinkState::Disabled } else { LinkState::Active },
        https_only: link.https_only.unwrap_or(policy.https_only),
        no_loop: link.no_loop,
        expires_at: link.expires_ms.map(|ms| NOW.plus_ms(ms)),
        title: None,
        notes: None,
        tags: Vec::new(),
        metadata: Map::new(),
        source: LinkSource::Cli,
        created_by: Actor::operator("table"),
        created_at: NOW,
        updated_at: NOW,
        version: 1,
    }
}

/// A key of `ROUTES` and its value: an object, or what a deletion leaves.
fn kv(asked: &table::Link, link: &Link) -> (String, Value) {
    let object = json!(RouteObject::from_link(link, ClickTotals::default()));
    match asked.state {
        State::Deleted => (format!("tombstone:{}", link.code), object),
        State::Active | State::Disabled => (format!("route:{}", link.code), object),
    }
}

/// The row of D1, if its table can hold such a link: it knows neither states nor rules, and whole seconds only.
fn d1(asked: &table::Link, link: &Link, policy: &Policy) -> Option<Value> {
    let whole = asked.expires_ms.is_none_or(|ms| ms % 1000 == 0);
    let fits =
        asked.state != State::Disabled && link.no_loop && link.https_only == policy.https_only && whole;
    fits.then(|| {
        json!({
            "slug": link.code, "target": link.target, "status": link.redirect_status.code(),
            "expires_at": link.expires_at.map(|at| at.ms() / 1000), "deleted": asked.state == State::Deleted,
        })
    })
}
