//! A folder and an environment of a test's own, and the real `rmax` run in them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use tempfile::TempDir;

/// Where a test happens. Nothing of the machine leaks in: no home, no git identity, no variables.
pub(crate) struct Sandbox {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl Sandbox {
    /// As the operator `max@rmax.ai`.
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), variables: Vec::new() }.with("RMAX_IDENTITY", "max@rmax.ai")
    }

    /// The same with a variable set; an empty value unsets it.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path("rlinks-data/rlinks.db")
    }

    /// The command itself, for what is not over at once.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rmax"));
        command
            .args(words(line))
            .current_dir(self.folder.path())
            .env_clear()
            .envs(self.variables.iter().filter(|(_, value)| !value.is_empty()).cloned())
            .env("HOME", self.folder.path().join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            // No repository above the folder of temporary files can lend its identity.
            .env("GIT_CEILING_DIRECTORIES", self.folder.path().parent().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `rmax` with the words of a line. Single quotes keep words together.
    pub(crate) fn rmax(&self, line: &str) -> CommandOutput {
        self.command_output(&self.command(line).output().unwrap())
    }

    /// Starts several at once and gives what became of each.
    pub(crate) fn together(&self, lines: &[String]) -> Vec<CommandOutput> {
        let started: Vec<_> = lines.iter().map(|line| self.command(line).spawn().unwrap()).collect();
        started.into_iter().map(|child| self.command_output(&child.wait_with_output().unwrap())).collect()
    }

    pub(crate) fn command_output(&self, output: &Output) -> CommandOutput {
        let folder = self.folder.path().to_string_lossy().into_owned();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace(&folder, "<folder>");
        CommandOutput {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Runs it; it must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> CommandOutput {
        let ran = self.rmax(line);
        assert_eq!(ran.code, Some(0), "rmax {line}\n{ran}");
        ran
    }

    /// Runs it; it must fail so, and print no data.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, line: &str) -> CommandOutput {
        let ran = self.rmax(line);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "rmax {line}\n{ran}");
        assert!(!ran.stderr.is_empty(), "rmax {line} says nothing");
        ran
    }

    /// The JSON a command prints.
    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        self.ok(line).json()
    }

    /// A link as `links get` prints it.
    #[track_caller]
    pub(crate) fn link(&self, code: &str) -> Value {
        self.json(&format!("links get {code}"))
    }

    /// The fingerprint of the key that signed a backup, as its header names it.
    #[track_caller]
    pub(crate) fn fingerprint(&self, backup: &str) -> String {
        let header: Value = serde_json::from_str(self.read(backup).lines().next().unwrap()).unwrap();
        header["rlinks_backup"]["fingerprint"].as_str().unwrap().to_owned()
    }

    /// How many changes there ever were.
    pub(crate) fn changes(&self) -> usize {
        self.json("audit list --limit 10000 --json").as_array().unwrap().len()
    }

    /// Changes the database past the store, as somebody with a file editor would.
    pub(crate) fn tamper(&self, sql: &str) {
        let path = self.database();
        let sql = sql.to_owned();
        block_on(async move {
            let mut connection =
                SqliteConnectOptions::new().filename(path).foreign_keys(false).connect().await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        });
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// The envelope on stderr.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let whole: Value =
            serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}\n{self}"));
        whole["error"].clone()
    }

    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        assert!(self.stderr.contains(text), "does not say {text:?}\n{self}");
    }
}

/// For snapshots: exit code, stdout, stderr, with what differs from run to run taken out.
impl fmt::Display for CommandOutput {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "exit {}", self.code.map_or("by a signal".to_owned(), |code| code.to_string()))?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                write!(out, "--- {name}\n{}", settled(text))?;
            }
        }
        Ok(())
    }
}

/// Text without its moments and hashes. Moments a test chose itself lie in 2020 or 2099 and stay.
fn settled(text: &str) -> String {
    let mut settled = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(length) = moment(rest) {
            settled.push_str("<time>");
            // In a table a moment without milliseconds is filled up to the length of the others.
            let padding = if length == "0000-00-00T00:00:00Z".len() { "    " } else { "" };
            rest = rest[length..].strip_prefix(padding).unwrap_or(&rest[length..]);
        } else if let Some(length) = fingerprint_length(rest) {
            settled.push_str("<fingerprint>");
            rest = &rest[length..];
        } else if rest.len() >= 64 && rest.as_bytes()[..64].iter().all(u8::is_ascii_hexdigit) {
            settled.push_str("<hash>");
            rest = rest.trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
        } else {
            settled.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    settled
}

/// Eight groups of four digits.
fn fingerprint_length(text: &str) -> Option<usize> {
    const LENGTH: usize = 8 * 4 + 7;
    let groups: Vec<&[u8]> = text.as_bytes().get(..LENGTH)?.split(|byte| *byte == b'-').collect();
    let fits = |group: &[u8]| group.len() == 4 && group.iter().all(u8::is_ascii_hexdigit);
    (groups.len() == 8 && groups.into_iter().all(fits)).then_some(LENGTH)
}

fn moment(text: &str) -> Option<usize> {
    let form = b"0000-00-00T00:00:00";
    let bytes = text.as_bytes();
    let fits = bytes.len() > form.len()
        && form
            .iter()
            .zip(bytes)
            .all(|(form, byte)| if *form == b'0' { byte.is_ascii_digit() } else { form == byte });
    if !fits || text.starts_with("2099") || text.starts_with("2020") {
        return None;
    }
    Some(text.find('Z')? + 1)
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// The bytes of every file of a folder.
pub(crate) fn bytes_of(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}
