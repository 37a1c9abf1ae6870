//! How things look: data on stdout, everything else on stderr, and nothing stored can drive a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressStyle};
use rlinks_core::Slug;
use serde::Serialize;

use crate::args::Global;
use crate::environment::Environment;
use crate::error::CliError;

/// What the person or program at the other end wants to see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    quiet: bool,
    colour: bool,
    chart_style: ChartStyle,
    /// The workspace in use, where it is not the one commands are about anyway.
    workspace: Option<&'static str>,
}

/// How numbers are shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChartStyle {
    /// Somebody looks at a terminal: with block characters beside them.
    Blocks,
    Plain,
}

/// How often a line moves.
const TICK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(120);
/// Characters of a cell that are shown on a terminal.
const MAX_CELL_CHARS: usize = 64;
const ANSI_RED: &str = "\x1b[1;31m";
const ANSI_YELLOW: &str = "\x1b[1;33m";
const ANSI_CYAN: &str = "\x1b[1;36m";
const ANSI_RESET: &str = "\x1b[0m";

#[expect(clippy::unused_self, reason = "every way out of the program reads alike: output.line, output.hint")]
impl Output {
    pub(crate) fn new(global: &Global, environment: &Environment) -> Self {
        let workspace = global.workspace.as_deref().or_else(|| environment.text("RMAX_WORKSPACE"));
        let workspace = workspace.filter(|slug| *slug != Slug::MAIN);
        // Said once, and good until the process ends.
        let workspace = workspace.map(|slug| &*slug.to_owned().leak());
        Self { json: global.json, quiet: global.quiet, workspace, ..Self::json(environment) }
    }

    /// For errors found before the flags were read.
    pub(crate) fn json(environment: &Environment) -> Self {
        let dumb = environment.text("TERM") == Some("dumb");
        let colour = !dumb && environment.get("NO_COLOR").is_none() && std::io::stderr().is_terminal();
        let somebody_looks = !dumb && std::io::stdout().is_terminal();
        let drawing = if somebody_looks { ChartStyle::Blocks } else { ChartStyle::Plain };
        Self { json: true, quiet: false, colour, chart_style: drawing, workspace: None }
    }

    /// A line of data.
    pub(crate) fn line(self, text: &str) -> Result<(), CliError> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", clean(text))?;
        Ok(())
    }

    /// What was done, where that is no data.
    pub(crate) fn done(self, text: &str) -> Result<(), CliError> {
        if self.quiet { Ok(()) } else { self.line(text) }
    }

    /// Text of our own making, as it is.
    pub(crate) fn raw(self, text: &[u8]) -> Result<(), CliError> {
        let mut out = std::io::stdout().lock();
        out.write_all(text)?;
        out.flush()?;
        Ok(())
    }

    pub(crate) fn object(self, value: &impl Serialize) -> Result<(), CliError> {
        let mut text = serde_json::to_vec_pretty(value).expect("our own shapes are JSON");
        text.push(b'\n');
        self.raw(&text)
    }

    /// Aligned columns under their names. A column without any value is left out. On a terminal long cells are cut, or no line
    /// would be one.
    pub(crate) fn table(self, names: &[&str], rows: &[Vec<String>]) -> Result<(), CliError> {
        let most = if self.chart_style == ChartStyle::Blocks { MAX_CELL_CHARS } else { usize::MAX };
        let rows: Vec<Vec<Cow<'_, str>>> =
            rows.iter().map(|row| row.iter().map(|cell| truncate(clean(cell), most)).collect()).collect();
        let used: Vec<usize> =
            (0..names.len()).filter(|&at| rows.iter().any(|row| !row[at].is_empty())).collect();
        let width = |at: usize| {
            rows.iter().map(|row| row[at].chars().count()).chain([names[at].chars().count()]).max()
        };
        let widths: Vec<usize> = used.iter().map(|&at| width(at).unwrap_or_default()).collect();
        let mut text = String::new();
        let header: Vec<Cow<'_, str>> = names.iter().map(|name| Cow::Borrowed(*name)).collect();
        for row in std::iter::once(&header).chain(&rows) {
            let mut line = String::new();
            for (&at, &width) in used.iter().zip(&widths) {
                line.push_str(&row[at]);
                // Not by a width of `write!`, which has a limit that targets go beyond.
                line.extend(std::iter::repeat_n(' ', width - row[at].chars().count() + 2));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        self.raw(text.as_bytes())
    }

    /// Something worth knowing that is no data.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet {
            self.print_message("", text);
        }
    }

    /// Long work: a line that moves on a terminal, and nothing elsewhere. It goes when the value does.
    pub(crate) fn progress(self, what: &'static str) -> Progress {
        let bar = if self.quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        let style = ProgressStyle::with_template("{spinner} {msg} {bytes} {elapsed}");
        bar.set_style(style.expect("the template is a template"));
        bar.set_message(what);
        bar.enable_steady_tick(TICK_INTERVAL);
        Progress(bar)
    }

    /// The same for work whose length is known, or at least countable.
    pub(crate) fn counter(self, what: &'static str, total: Option<u64>) -> Progress {
        let bar = match total {
            _ if self.quiet => ProgressBar::hidden(),
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::no_length(),
        };
        let template = match total {
            Some(_) => "{spinner} {msg} [{bar:30}] {human_pos}/{human_len} {per_sec} {elapsed}",
            None => "{spinner} {msg} {human_pos} {elapsed}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is a template"));
        bar.set_message(what);
        bar.enable_steady_tick(TICK_INTERVAL);
        Progress(bar)
    }

    /// The same for a file that is read, by its size where that is known.
    pub(crate) fn reading(self, what: &'static str, bytes: Option<u64>) -> Progress {
        let bar = match bytes {
            _ if self.quiet => ProgressBar::hidden(),
            Some(bytes) => ProgressBar::new(bytes),
            None => ProgressBar::no_length(),
        };
        let template = match bytes {
            Some(_) => "{spinner} {msg} [{bar:30}] {bytes}/{total_bytes} {elapsed}",
            None => "{spinner} {msg} {bytes} {elapsed}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is a template"));
        bar.set_message(what);
        bar.enable_steady_tick(TICK_INTERVAL);
        Progress(bar)
    }

    /// Whether drawings are welcome on stdout.
    pub(crate) fn chart_style(self) -> ChartStyle {
        self.chart_style
    }

    pub(crate) fn hint(self, text: &str) {
        if !self.quiet {
            self.print_message(&self.label("hint:", ANSI_CYAN), text);
        }
    }

    /// Something that may matter though the command did its work.
    pub(crate) fn warning(self, text: &str) {
        self.print_message(&self.label("warning:", ANSI_YELLOW), text);
    }

    /// Why a command did not do its work, and the ways out.
    pub(crate) fn error(self, failure: &CliError) {
        if failure.is_output_closed() {
            return;
        }
        if self.json {
            to_stderr(&format!("{}\n", failure.envelope()));
            return;
        }
        for message in failure.messages() {
            self.print_message(&self.label("error:", ANSI_RED), &message);
        }
        for hint in failure.hints() {
            self.print_message(&self.label("hint:", ANSI_CYAN), hint);
        }
    }

    /// A line for people. Commands in it are about the workspace in use.
    fn print_message(self, label: &str, text: &str) {
        to_stderr(&format!("{label}{}\n", clean(&with_workspace_flag(text, self.workspace))));
    }

    fn label(self, word: &str, colour: &str) -> String {
        if self.colour { format!("{colour}{word}{ANSI_RESET} ") } else { format!("{word} ") }
    }
}

/// Stderr that cannot be written changes nothing: there is nowhere left to say so, and the exit code still tells.
fn to_stderr(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// The text with `--workspace` added to each command in it that would be about another workspace without.
fn with_workspace_flag<'a>(text: &'a str, workspace: Option<&str>) -> Cow<'a, str> {
    let Some(workspace) = workspace else { return Cow::Borrowed(text) };
    let concerned = |command: &str| {
        [
            "rmax links",
            "rmax clicks export",
            "rmax shorten",
            "rmax explain",
            "rmax domains",
            "rmax workspaces policy",
        ]
        .iter()
        .any(|family| command.starts_with(family))
            && !["--workspace", "--all"].iter().any(|flag| command.contains(flag))
    };
    let mut said = String::with_capacity(text.len());
    for (index, part) in text.split('`').enumerate() {
        if index > 0 {
            said.push('`');
        }
        said.push_str(part);
        if index % 2 == 1 && concerned(part) {
            let _ = write!(said, " --workspace {workspace}");
        }
    }
    Cow::Owned(said)
}

/// A line that moves.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Counts what is written.
    pub(crate) fn wrap_writer<W: std::io::Write>(&self, to: W) -> impl std::io::Write + use<W> {
        self.0.wrap_write(to)
    }

    /// So much more is done.
    pub(crate) fn add(&self, done: u64) {
        self.0.inc(done);
    }

    /// So far, in words and bytes.
    pub(crate) fn set_message(&self, what: String, bytes: u64) {
        self.0.set_message(what);
        self.0.set_position(bytes);
    }

    /// So much is done by now.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Text without control characters: what somebody stored must not move the cursor of whoever looks at it.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_unsafe(letter) {
            let _ = write!(clean, "\\u{:04x}", u32::from(letter));
        } else {
            clean.push(letter);
        }
    }
    Cow::Owned(clean)
}

fn truncate(text: Cow<'_, str>, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => text,
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Control characters, and those that turn the direction of what follows.
fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// What to do with somebody who was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Confirmed,
    Declined,
}

/// Asks on a terminal. Elsewhere nobody can answer, so the flag must say it.
pub(crate) fn confirm(question: &str) -> Result<Confirmation, CliError> {
    to_stderr(&format!("{} [y/N] ", clean(question)));
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CliError::failed(format!("the answer cannot be read: {error}")))?;
    let yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    Ok(if yes { Confirmation::Confirmed } else { Confirmation::Declined })
}

/// Whether somebody is there to be asked.
pub(crate) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// `1 link`, `2 links`.
pub(crate) fn pluralize(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
