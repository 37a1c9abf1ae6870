//! Links as text: lines of JSON, CSV, and the maps of other servers. Nothing here knows more than the link at hand, but for codes that
//! differ by case alone.

use std::collections::HashSet;
use std::fmt::Write as _;

use rlinks_clicks::rollup::Total;
use rlinks_core::{Actor, Code, Id, Link, LinkSource, LinkState, RedirectStatus, Target, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

use super::ExportFormat;
use crate::csv::{Cell, write_row};

/// Columns of CSV, in the order of the fields of a line.
const CSV_COLUMNS: [&str; 22] = [
    "code",
    "target",
    "state",
    "redirect_status",
    "https_only",
    "no_loop",
    "expires_at",
    "title",
    "notes",
    "tags",
    "metadata",
    "source",
    "created_by",
    "created_at",
    "updated_at",
    "version",
    "clicks",
    "last_clicked_at",
    "hits",
    "last_hit_at",
    "id",
    "generated",
];
/// nginx reads its configuration in pieces of 4 KB, and a value must fit into one.
const MAX_NGINX_VALUE_BYTES: usize = 3_900;
/// Cloudflare's limit of a line, and of lines.
const MAX_CLOUDFLARE_LINE_BYTES: usize = 1_000;
/// The most lines Cloudflare takes.
pub(crate) const MAX_CLOUDFLARE_LINES: u64 = 2_000;

/// A link as a line of JSON: what the API gives, without what follows from where it is asked (workspace, domain, short URL) and
/// when (whether it is expired).
#[derive(Serialize)]
struct Line<'a> {
    code: &'a Code,
    target: &'a Target,
    state: LinkState,
    redirect_status: RedirectStatus,
    https_only: bool,
    no_loop: bool,
    expires_at: Option<Timestamp>,
    title: Option<&'a str>,
    notes: Option<&'a str>,
    tags: &'a [String],
    metadata: &'a Map<String, Value>,
    source: Option<LinkSource>,
    created_by: &'a Actor,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: Option<i64>,
    clicks: i64,
    last_clicked_at: Option<Timestamp>,
    hits: i64,
    last_hit_at: Option<Timestamp>,
    id: Option<Id>,
    generated: bool,
}

impl<'a> Line<'a> {
    fn from_link(link: &'a Link, total: &Total) -> Self {
        // An object at Cloudflare has no row: no id, and nobody counts its versions or knows how it came.
        let has_row = link.id.as_i64() != 0;
        Self {
            code: &link.code,
            target: &link.target,
            state: link.state,
            redirect_status: link.redirect_status,
            https_only: link.https_only,
            no_loop: link.no_loop,
            expires_at: link.expires_at,
            title: link.title.as_deref(),
            notes: link.notes.as_deref(),
            tags: &link.tags,
            metadata: &link.metadata,
            source: has_row.then_some(link.source),
            created_by: &link.created_by,
            created_at: link.created_at,
            updated_at: link.updated_at,
            version: has_row.then_some(link.version),
            clicks: total.clicks,
            last_clicked_at: total.last_click,
            hits: total.clicks + total.bots,
            last_hit_at: total.last_hit,
            id: has_row.then_some(link.id),
            generated: link.generated,
        }
    }
}

/// Prints links of one workspace in one format.
pub(crate) struct LinkFormatter {
    format: ExportFormat,
    /// Requests are compared without case, as the policy says.
    folds: bool,
    /// Codes that differ by case alone, in lower case, where the policy tells them apart.
    by_case: HashSet<String>,
}

/// What does not fit a format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnsupportedLinkError;

impl LinkFormatter {
    pub(crate) fn new(format: ExportFormat, folds: bool, by_case: Vec<String>) -> Self {
        Self { format, folds, by_case: by_case.into_iter().collect() }
    }

    /// What stands before the links.
    pub(crate) fn write_header(&self, out: &mut String) {
        match self.format {
            ExportFormat::Jsonl => {}
            ExportFormat::Csv => write_row(out, CSV_COLUMNS.map(Cell::text)),
            ExportFormat::Nginx => out.push_str(
                "# Links of rlinks, for the http block of nginx. docs/import-export.md says how to serve them.\n\
                 geo $rlinks_dollar { default \"$\"; }\n\
                 map $uri $rlinks_link {\n    default \"\";\n",
            ),
            ExportFormat::Caddy => out.push_str(
                "# Links of rlinks, for a site block of Caddy: import links.caddy\n\
                 map {http.request.uri.path} {rlinks_target} {rlinks_status} {\n",
            ),
            ExportFormat::Cloudflare => {
                out.push_str("# Links of rlinks, for the folder Cloudflare Pages or Workers serve.\n");
            }
        }
    }

    /// What stands behind them.
    pub(crate) fn write_footer(&self, out: &mut String) {
        match self.format {
            ExportFormat::Jsonl | ExportFormat::Csv | ExportFormat::Cloudflare => {}
            ExportFormat::Nginx => {
                out.push_str("}\n");
                // The code as it is written must be the one that was asked for, where case matters.
                let same = if self.folds { r"\S+" } else { r"\1" };
                for status in [301, 302, 307, 308] {
                    let _ = writeln!(
                        out,
                        "map \"$uri $rlinks_link\" $rlinks_{status} {{\n    default \"\";\n    \
                         \"~^(\\S+) {same} {status} (?<rlinks_to_{status}>\\S+)$\" $rlinks_to_{status};\n}}"
                    );
                }
            }
            ExportFormat::Caddy => {
                out.push_str(
                    "\tdefault \"\" \"\"\n}\n@rlinks vars_regexp {rlinks_status} ^30[1278]$\n\
                     redir @rlinks {rlinks_target} {rlinks_status}\n",
                );
            }
        }
    }

    /// One link. The maps are given only what answers.
    pub(crate) fn write_link(
        &self,
        link: &Link,
        total: &Total,
        out: &mut String,
    ) -> Result<(), UnsupportedLinkError> {
        let (code, target, status) = (link.code.as_str(), link.target.as_str(), link.redirect_status.code());
        match self.format {
            ExportFormat::Jsonl => {
                out.push_str(&serde_json::to_string(&Line::from_link(link, total)).expect("a link is JSON"));
                out.push('\n');
            }
            ExportFormat::Csv => write_row(out, csv_cells(&Line::from_link(link, total))),
            ExportFormat::Nginx => {
                let value = nginx_value(&format!("/{code} {status} {target}"));
                if value.len() > MAX_NGINX_VALUE_BYTES {
                    return Err(UnsupportedLinkError);
                }
                // A map compares texts without case, and patterns with it.
                let key = if self.by_case.contains(&link.code.folded()) {
                    format!("~^/{code}$")
                } else {
                    format!("/{code}")
                };
                let _ = writeln!(out, "    \"{key}\" \"{value}\";");
            }
            ExportFormat::Caddy => {
                // Braces are placeholders there, and backslashes half of the time escapes: they leave as what they mean.
                let target =
                    target.replace('\\', "%5C").replace('"', "%22").replace('{', "%7B").replace('}', "%7D");
                if self.folds {
                    // Behind a pattern a dollar stands for what it found.
                    let target = target.replace('$', "$$");
                    let _ = writeln!(out, "\t~(?i)^/{code}$ \"{target}\" {status}");
                } else {
                    let _ = writeln!(out, "\t/{code} \"{target}\" {status}");
                }
            }
            ExportFormat::Cloudflare => {
                let text = format!("/{code} {target} {status}\n");
                if text.len() > MAX_CLOUDFLARE_LINE_BYTES {
                    return Err(UnsupportedLinkError);
                }
                out.push_str(&text);
            }
        }
        Ok(())
    }
}

/// A value between double quotes. A dollar begins a variable there, and only a variable can hold one.
fn nginx_value(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\\' => value.extend(['\\', letter]),
            '$' => value.push_str("${rlinks_dollar}"),
            letter => value.push(letter),
        }
    }
    value
}

fn csv_cells<'a>(line: &Line<'a>) -> [Cell<'a>; CSV_COLUMNS.len()] {
    let time = |at: Option<Timestamp>| Cell::optional_text(at.map(|at| at.to_string()));
    let metadata =
        (!line.metadata.is_empty()).then(|| serde_json::to_string(line.metadata).expect("metadata is JSON"));
    [
        Cell::text(line.code.as_str()),
        Cell::text(line.target.as_str()),
        Cell::text(line.state.to_string()),
        Cell::Integer(line.redirect_status.code().into()),
        Cell::Bool(line.https_only),
        Cell::Bool(line.no_loop),
        time(line.expires_at),
        Cell::optional_text(line.title),
        Cell::optional_text(line.notes),
        Cell::text(line.tags.join(",")),
        Cell::optional_text(metadata),
        Cell::optional_text(line.source.map(LinkSource::name)),
        Cell::text(line.created_by.as_str()),
        time(Some(line.created_at)),
        time(Some(line.updated_at)),
        line.version.map_or(Cell::Empty, Cell::Integer),
        Cell::Integer(line.clicks),
        time(line.last_clicked_at),
        Cell::Integer(line.hits),
        time(line.last_hit_at),
        Cell::optional_text(line.id.map(|id| id.to_string())),
        Cell::Bool(line.generated),
    ]
}

#[cfg(test)]
mod tests {
    use super::nginx_value;

    #[test]
    fn nginx_variables_in_a_target_are_escaped() {
        assert_eq!(nginx_value(r#"a$b"c\d"#), r#"a${rlinks_dollar}b\"c\\d"#);
    }
}
