//! Reads `redirects.md`, the table of what a request gets. Its notation is explained there.
//!
//! Plain std, so that the tests of any crate can include it: `#[path = "../../../../conformance/table.rs"] mod table;`
//! It knows nothing of ours: each runner turns a row into its own links, policies and requests.

#![allow(dead_code, reason = "each runner reads the fields it needs")]

use std::collections::HashSet;

/// The domain `main` serves, and the Host of a request, unless a row says otherwise.
pub(crate) const DOMAIN: &str = "rmax.to";

const HEADER: [&str; 5] = ["id", "given", "when", "then", "on"];
const PRESETS: [&str; 4] = ["fabric", "edge", "platform", "team"];
const MIN_ROWS: usize = 120;

/// One request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    /// Its line in `redirects.md`.
    pub(crate) line: usize,
    /// The three cells as written, for messages.
    pub(crate) text: [String; 3],
    pub(crate) given: Given,
    pub(crate) when: When,
    pub(crate) then: Then,
    pub(crate) on: On,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Everywhere,
    /// Not in the Worker.
    Native,
    /// Over a real connection only.
    Http,
    /// Asked of `explain` only.
    Explain,
}

#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) main: Workspace,
    pub(crate) other: Option<Workspace>,
}

#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    pub(crate) preset: String,
    /// Fields of the policy changed, in this order.
    pub(crate) overrides: Vec<(String, String)>,
    pub(crate) domains: Vec<String>,
    pub(crate) links: Vec<Link>,
}

#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) code: String,
    /// As typed, not yet serialised.
    pub(crate) target: String,
    pub(crate) state: State,
    /// `None`: the policy's.
    pub(crate) status: Option<u16>,
    /// `None`: the policy's.
    pub(crate) https_only: Option<bool>,
    pub(crate) no_loop: bool,
    /// From now.
    pub(crate) expires_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Active,
    Disabled,
    Deleted,
}

#[derive(Clone, Debug)]
pub(crate) struct When {
    pub(crate) method: String,
    /// As it stands in the request line: path and query, or more.
    pub(crate) target: String,
    /// The values of `Host`: one, unless the row is about that.
    pub(crate) hosts: Vec<String>,
    /// All other headers, in order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Then {
    pub(crate) status: u16,
    pub(crate) form: Form,
    /// Everything the answer's headers must be, the standing rules included: a name in lower case and its exact value, or
    /// `None` when it must be absent.
    pub(crate) headers: Vec<(String, Option<String>)>,
    pub(crate) shows: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Redirect,
    Page,
    Json,
    /// A JSON envelope with this code.
    Error(String),
    Text,
    /// Nothing but the status is ours to say.
    Bare,
}

/// All rows. Panics with the line of the first one that cannot be read.
pub(crate) fn rows() -> Vec<Row> {
    let rows = parse(include_str!("redirects.md")).unwrap_or_else(|error| panic!("redirects.md:{error}"));
    let native = rows.iter().filter(|row| row.on == On::Native).count();
    assert!(rows.len() >= MIN_ROWS, "redirects.md has {} rows: some are not read", rows.len());
    assert!(native * 10 <= rows.len(), "{native} of {} rows are native: more than a tenth", rows.len());
    rows
}

/// The rows below the first heading of second order, or `line: what is wrong`.
pub(crate) fn parse(text: &str) -> Result<Vec<Row>, String> {
    let (mut rows, mut ids) = (Vec::<Row>::new(), HashSet::new());
    let (mut in_tables, mut section_given) = (false, "");
    for (index, line) in text.lines().enumerate() {
        let at = |error: String| format!("{}: {error}", index + 1);
        if line.starts_with("## ") {
            (in_tables, section_given) = (true, "");
        } else if let Some(given) = line.strip_prefix("Given: ") {
            section_given = ticked(given).map_err(at)?;
        } else if in_tables && line.starts_with('|') {
            let Some(row) = row(line, section_given).map_err(at)? else { continue };
            if !ids.insert(row.id.clone()) {
                return Err(at(format!("the id {} is taken", row.id)));
            }
            rows.push(Row { line: index + 1, ..row });
        }
    }
    Ok(rows)
}

fn row(line: &str, section_given: &str) -> Result<Option<Row>, String> {
    let inner = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')).ok_or("no | at the end")?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
    let cells: [&str; 5] =
        cells.try_into().map_err(|cells: Vec<_>| format!("{} cells instead of 5", cells.len()))?;
    if cells == HEADER || cells.iter().all(|cell| cell.len() >= 3 && cell.bytes().all(|byte| byte == b'-')) {
        return Ok(None);
    }
    let [id, given, when, then, on] = cells;
    let number = id.rsplit_once('-').map(|(_, number)| number).unwrap_or_default();
    if number.len() < 2 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{id}` is no id like expiry-03"));
    }
    let given_text = if given.is_empty() { section_given } else { ticked(given)? };
    let (when_text, then_text) = (ticked(when)?, ticked(then)?);
    let given = Given::parse(given_text).map_err(|error| format!("given: {error}"))?;
    let when = When::parse(when_text).map_err(|error| format!("when: {error}"))?;
    let then = Then::parse(then_text).map_err(|error| format!("then: {error}"))?;
    let on = match on {
        "" => On::Everywhere,
        "native" => On::Native,
        "http" => On::Http,
        "explain" => On::Explain,
        other => return Err(format!("on: `{other}` is neither empty, native, http nor explain")),
    };
    if on == On::Everywhere && (given.other.is_some() || given.main.domains != [DOMAIN]) {
        return Err("only a native row has other domains than the usual one".to_owned());
    }
    if when.method == "HEAD" && (matches!(then.form, Form::Error(_)) || !then.shows.is_empty()) {
        return Err("HEAD has no body to look into: write `json` or `page`".to_owned());
    }
    let text = [given_text, when_text, then_text].map(str::to_owned);
    Ok(Some(Row { id: id.to_owned(), line: 0, text, given, when, then, on }))
}

impl Given {
    fn parse(text: &str) -> Result<Self, String> {
        let mut main = Workspace::new(DOMAIN);
        let mut other = None;
        for (index, item) in items(text).enumerate() {
            if (index == 0) != PRESETS.contains(&item) {
                return Err(format!("`{item}`: a preset comes first, and once"));
            }
            match item.strip_prefix("other ") {
                Some(item) => other.get_or_insert_with(|| Workspace::new("")).add(item)?,
                None => main.add(item)?,
            }
        }
        Ok(Self { main, other })
    }
}

impl Workspace {
    fn new(domain: &str) -> Self {
        let domains = Some(domain).filter(|domain| !domain.is_empty()).map(str::to_owned);
        Self {
            preset: PRESETS[0].to_owned(),
            overrides: Vec::new(),
            domains: domains.into_iter().collect(),
            links: Vec::new(),
        }
    }

    fn add(&mut self, item: &str) -> Result<(), String> {
        if PRESETS.contains(&item) {
            item.clone_into(&mut self.preset);
        } else if item.starts_with('/') {
            self.links.push(Link::parse(item)?);
        } else if item == "no domain" {
            self.domains.clear();
        } else if let Some(host) = item.strip_prefix("domain ") {
            self.domains.push(host.to_owned());
        } else if let Some((key, value)) = item.split_once('=') {
            self.overrides.push((key.to_owned(), value.to_owned()));
        } else {
            return Err(format!("`{item}` is no preset, policy field, domain or link"));
        }
        Ok(())
    }
}

impl Link {
    fn parse(item: &str) -> Result<Self, String> {
        let words: Vec<String> = item.split(' ').map(expand).collect::<Result<_, _>>()?;
        let [code, arrow, target, fields @ ..] = words.as_slice() else {
            return Err(format!("`{item}` is no link"));
        };
        if arrow != "->" {
            return Err(format!("`{item}` has no -> after its code"));
        }
        let mut link = Self {
            code: code[1..].to_owned(),
            target: target.clone(),
            state: State::Active,
            status: None,
            https_only: None,
            no_loop: true,
            expires_ms: None,
        };
        for field in fields {
            let bad = || format!("`{field}` is no field of a link");
            match field.split_once('=').unwrap_or((field, "")) {
                ("disabled", "") => link.state = State::Disabled,
                ("deleted", "") => link.state = State::Deleted,
                ("status", code) => link.status = Some(code.parse().map_err(|_| bad())?),
                ("https_only", on) => link.https_only = Some(on.parse().map_err(|_| bad())?),
                ("no_loop", on) => link.no_loop = on.parse().map_err(|_| bad())?,
                ("expires", offset) => link.expires_ms = Some(milliseconds(offset).ok_or_else(bad)?),
                _ => return Err(bad()),
            }
        }
        Ok(link)
    }
}

impl When {
    fn parse(text: &str) -> Result<Self, String> {
        let mut items = items(text);
        let (method, target) =
            items.next().and_then(|line| line.split_once(' ')).ok_or("no method and path")?;
        let (mut hosts, mut headers, mut body) = (None::<Vec<String>>, Vec::new(), String::new());
        for item in items {
            if item == "json" {
                headers.push(("Accept".to_owned(), "application/json".to_owned()));
            } else if item == "no Host" {
                hosts = Some(Vec::new());
            } else if let Some(text) = item.strip_prefix("body ") {
                body = expand(text)?;
            } else if let Some(host) = item.strip_prefix("Host: ") {
                hosts.get_or_insert_default().push(expand(host)?);
            } else {
                let (name, value) = item.split_once(": ").ok_or_else(|| format!("`{item}` is no header"))?;
                headers.push((name.to_owned(), expand(value)?));
            }
        }
        let hosts = hosts.unwrap_or_else(|| vec![DOMAIN.to_owned()]);
        Ok(Self { method: method.to_owned(), target: expand(target)?, hosts, headers, body })
    }
}

impl Then {
    fn parse(text: &str) -> Result<Self, String> {
        let mut items = items(text);
        let (status, form) =
            items.next().and_then(|item| item.split_once(' ')).ok_or("no status and form")?;
        let status: u16 = status.parse().map_err(|_| format!("`{status}` is no status"))?;
        let location = form.strip_prefix("-> ");
        let form = match form {
            _ if location.is_some() => Form::Redirect,
            "page" => Form::Page,
            "json" => Form::Json,
            "text" => Form::Text,
            "bare" => Form::Bare,
            code if code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') => {
                Form::Error(code.to_owned())
            }
            other => return Err(format!("`{other}` is no form of an answer")),
        };
        let fits = match form {
            Form::Redirect => (300..400).contains(&status),
            Form::Error(_) => status >= 400,
            _ => !(300..400).contains(&status),
        };
        if !fits {
            return Err(format!("status {status} does not go with this form"));
        }
        let mut then = Self { headers: standing_headers(status, &form), status, form, shows: Vec::new() };
        if let Some(location) = location {
            let cache = items.next().ok_or("a redirect needs its Cache-Control")?;
            then.headers.push(("location".to_owned(), Some(expand(location)?)));
            then.headers.push(("cache-control".to_owned(), Some(cache.to_owned())));
        }
        for item in items {
            if let Some(text) = item.strip_prefix("shows ") {
                then.shows.push(expand(text)?);
            } else if let Some(name) = item.strip_prefix("no ") {
                then.headers.push((name.to_ascii_lowercase(), None));
            } else {
                let (name, value) = item.split_once(": ").ok_or_else(|| format!("`{item}` is no header"))?;
                then.headers.push((name.to_ascii_lowercase(), Some(value.to_owned())));
            }
        }
        Ok(then)
    }
}

/// What the section "Always" of `redirects.md` says about headers.
fn standing_headers(status: u16, form: &Form) -> Vec<(String, Option<String>)> {
    let mut headers = Vec::new();
    let mut say = |name: &str, value: Option<&str>| headers.push((name.to_owned(), value.map(str::to_owned)));
    if *form == Form::Bare {
        return headers;
    }
    say("set-cookie", None);
    if *form != Form::Redirect {
        say("location", None);
    }
    if status >= 400 {
        say("vary", Some("Accept"));
    }
    if status >= 400 || *form == Form::Page {
        say("cache-control", Some("no-store"));
    }
    if matches!(form, Form::Redirect | Form::Page) {
        say("x-robots-tag", Some("noindex"));
    }
    match form {
        Form::Page => say("content-type", Some("text/html; charset=utf-8")),
        Form::Json | Form::Error(_) => say("content-type", Some("application/json")),
        Form::Text => say("content-type", Some("text/plain; charset=utf-8")),
        Form::Redirect | Form::Bare => {}
    }
    headers
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(" · ")
}

fn ticked(cell: &str) -> Result<&str, String> {
    let inner = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
    inner
        .filter(|inner| !inner.is_empty() && !inner.contains('`'))
        .ok_or_else(|| format!("`{cell}` is not in backticks"))
}

/// `{a*64}` as 64 letters, `{U+202E}` as one character.
fn expand(text: &str) -> Result<String, String> {
    let mut parts = text.split('{');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let bad = || format!("`{{{part}` is neither {{text*count}} nor {{U+number}}");
        let (inner, rest) = part.split_once('}').ok_or_else(bad)?;
        if let Some(number) = inner.strip_prefix("U+") {
            let letter = u32::from_str_radix(number, 16).ok().and_then(char::from_u32).ok_or_else(bad)?;
            whole.push(letter);
        } else {
            let (unit, count) = inner.rsplit_once('*').ok_or_else(bad)?;
            whole.push_str(&unit.repeat(count.parse().map_err(|_| bad())?));
        }
        whole.push_str(rest);
    }
    Ok(whole)
}

/// `+90s` or `-1ms`: the sign is needed.
fn milliseconds(offset: &str) -> Option<i64> {
    let (number, unit) = match offset.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (offset.strip_suffix('s')?, 1000),
    };
    number.starts_with(['+', '-']).then(|| number.parse::<i64>().ok())?.and_then(|n| n.checked_mul(unit))
}
