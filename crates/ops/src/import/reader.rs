//! What a file holds: recognised by its beginning, and read record by record on a thread of its own.
//!
//! Everything has a limit: a row, the rows, what waits between the thread and whoever takes the rows. Compressed files are not
//! opened; text is UTF-8.

pub(crate) mod csv;
mod json;
mod sql;

use std::cell::Cell;
use std::io::{BufReader, Cursor, Read};
use std::rc::Rc;

use rlinks_core::FieldErrors;
use tokio::sync::mpsc;

use super::record::Record;
use super::row::Row;
use super::{ImportFormat, formats};

/// As much of a file as its format is told from.
const HEAD_BYTES: usize = 64 * 1024;
/// The longest row: a target of 64 KB, and everything else a link may have.
const MAX_ROW_BYTES: usize = 128 * 1024;
/// The most rows of one file.
const MAX_ROWS: u64 = 5_000_000;
/// Rows that travel together, and how many of these loads may wait.
const BATCH_ROWS: usize = 250;
const MAX_QUEUED_BATCHES: usize = 4;

/// Why a file is not read, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing of it: it is none of the formats, or not the one it was said to be.
    #[error("{0}")]
    Format(String),
    /// Not beyond this row.
    #[error("row {row}: {why}; nothing after it was read")]
    MalformedRow {
        row: u64,
        /// What is wrong with it.
        why: String,
    },
    #[error("it cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

/// A row that was read, or what is wrong with it.
pub enum ParsedRow {
    Row(Box<Row>),
    /// What is wrong with one.
    Invalid {
        number: u64,
        /// Its code, where it has one.
        code: Option<String>,
        /// Everything that is wrong.
        errors: FieldErrors,
    },
}

/// The rows of a file, as they are read.
pub struct Rows {
    /// What the file is.
    pub format: ImportFormat,
    batches: mpsc::Receiver<Result<Vec<ParsedRow>, ReadError>>,
    /// Of the loads that have come, what nobody has asked for yet.
    waiting: Vec<ParsedRow>,
}

impl Rows {
    /// Begins to read. Gives an error where nothing of it can be read.
    pub async fn open(
        file: impl Read + Send + 'static,
        format: Option<ImportFormat>,
    ) -> Result<Self, ReadError> {
        let (opened, open) = tokio::sync::oneshot::channel();
        let (send, batches) = mpsc::channel(MAX_QUEUED_BATCHES);
        tokio::task::spawn_blocking(move || {
            let (head, rest) = match read_head(file) {
                Ok(begun) => begun,
                Err(error) => return drop(opened.send(Err(error))),
            };
            let container = match detect_format(&head, format) {
                Ok(container) => container,
                Err(error) => return drop(opened.send(Err(error))),
            };
            let format = container.format();
            if opened.send(Ok(format)).is_err() {
                return;
            }
            let mut sender = RowSender { format, batch: Vec::new(), rows: 0, send };
            let read = container.read(Cursor::new(head).chain(rest), &mut sender);
            sender.finish(read);
        });
        let stopped = || ReadError::Io(std::io::Error::other("the reader has stopped"));
        let format = open.await.map_err(|_| stopped())??;
        Ok(Self { format, batches, waiting: Vec::new() })
    }

    /// The next of them in their order, `count` at a time and the rest at the end; nothing after that. Where the file cannot be read to
    /// its end, the rest comes after the error.
    pub async fn next(&mut self, count: usize) -> Option<Result<Vec<ParsedRow>, ReadError>> {
        while self.waiting.len() < count {
            match self.batches.recv().await {
                Some(Ok(load)) => self.waiting.extend(load),
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        let later = self.waiting.split_off(count.min(self.waiting.len()));
        let items = std::mem::replace(&mut self.waiting, later);
        (!items.is_empty()).then_some(Ok(items))
    }
}

/// Where records arrive, become rows and go on in loads.
struct RowSender {
    format: ImportFormat,
    batch: Vec<ParsedRow>,
    rows: u64,
    send: mpsc::Sender<Result<Vec<ParsedRow>, ReadError>>,
}

/// Why reading ends before the file does.
enum ReadAbort {
    /// Nobody takes the rows any more.
    ReceiverDropped,
    /// The file cannot be read on.
    Error(ReadError),
}

impl From<ReadError> for ReadAbort {
    fn from(error: ReadError) -> Self {
        Self::Error(error)
    }
}

impl From<std::io::Error> for ReadAbort {
    fn from(error: std::io::Error) -> Self {
        Self::Error(error.into())
    }
}

impl ReadAbort {
    fn malformed(row: u64, why: impl Into<String>) -> Self {
        Self::Error(ReadError::MalformedRow { row, why: why.into() })
    }
}

impl RowSender {
    /// Takes a record, or what is wrong with it.
    fn push(&mut self, number: u64, record: Result<Record, FieldErrors>) -> Result<(), ReadAbort> {
        self.rows += 1;
        if self.rows > MAX_ROWS {
            return Err(ReadAbort::malformed(
                number,
                format!("a file has at most {MAX_ROWS} rows; split it"),
            ));
        }
        match record
            .map_err(|errors| (None, errors))
            .and_then(|record| formats::rows(self.format, number, record))
        {
            Ok(rows) => self.batch.extend(rows.into_iter().map(|row| ParsedRow::Row(Box::new(row)))),
            Err((code, errors)) => self.batch.push(ParsedRow::Invalid { number, code, errors }),
        }
        if self.batch.len() < BATCH_ROWS {
            return Ok(());
        }
        self.send.blocking_send(Ok(std::mem::take(&mut self.batch))).map_err(|_| ReadAbort::ReceiverDropped)
    }

    fn finish(self, read: Result<(), ReadAbort>) {
        if !self.batch.is_empty() {
            let _ = self.send.blocking_send(Ok(self.batch));
        }
        if let Err(ReadAbort::Error(error)) = read {
            let _ = self.send.blocking_send(Err(error));
        }
    }
}

/// How a file holds its records.
enum Container {
    /// An object on each line.
    Lines(ImportFormat),
    /// One JSON text with a list in it.
    Document(ImportFormat),
    /// Lines of columns under a header.
    Table(ImportFormat, u8),
    Dump,
}

impl Container {
    const fn format(&self) -> ImportFormat {
        match self {
            Self::Lines(format) | Self::Document(format) | Self::Table(format, _) => *format,
            Self::Dump => ImportFormat::Yourls,
        }
    }

    fn read(&self, file: impl Read, sender: &mut RowSender) -> Result<(), ReadAbort> {
        let (file, allowance) = BoundedReader::new(BufReader::with_capacity(HEAD_BYTES, file));
        match self {
            Self::Lines(_) => json::lines(file, &allowance, sender),
            Self::Document(_) => json::document(file, &allowance, sender),
            Self::Table(format, delimiter) => {
                crate::import::reader::csv::read(file, &allowance, *format, *delimiter, sender)
            }
            Self::Dump => sql::read(file, &allowance, sender),
        }
    }
}

/// The beginning of a file, without a mark of its encoding, and the rest.
fn read_head<R: Read>(mut file: R) -> Result<(Vec<u8>, R), ReadError> {
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let refused = [
        (&b"\x1f\x8b"[..], "it is compressed by gzip; unpack it first"),
        (&b"PK\x03\x04"[..], "it is a zip archive; unpack it first"),
        (&b"PK\x05\x06"[..], "it is a zip archive; unpack it first"),
        (&b"BZh"[..], "it is compressed by bzip2; unpack it first"),
        (&b"\xfd7zXZ"[..], "it is compressed by xz; unpack it first"),
        (&b"\x28\xb5\x2f\xfd"[..], "it is compressed by zstd; unpack it first"),
        (
            &b"SQLite format 3"[..],
            "it is a database, not an export of one; use the export of the program it is from",
        ),
        (&b"\xff\xfe"[..], "it is UTF-16; save it as UTF-8"),
        (&b"\xfe\xff"[..], "it is UTF-16; save it as UTF-8"),
    ];
    if let Some((_, why)) = refused.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(ReadError::Format((*why).to_owned()));
    }
    if head.starts_with(b"\xef\xbb\xbf") {
        head.drain(..3);
    }
    // Text of two bytes a letter has a NUL in each of the first ones.
    if head.iter().take(4).any(|byte| *byte == 0) {
        return Err(ReadError::Format("it is no text, or UTF-16; save it as UTF-8".to_owned()));
    }
    Ok((head, file))
}

fn detect_format(head: &[u8], declared: Option<ImportFormat>) -> Result<Container, ReadError> {
    let text = head.trim_ascii_start();
    let container = match text.first() {
        None => return Err(ReadError::Format("it is empty".to_owned())),
        Some(b'{' | b'[') => json::detect_format(text, declared),
        Some(_) if sql::looks_like_dump(text) => Some(Container::Dump),
        Some(_) => crate::import::reader::csv::detect_format(head, declared)?,
    };
    let Some(container) = container else {
        return Err(ReadError::Format(format!(
            "its format is not known by its beginning; say which it is: {}",
            ImportFormat::ALL.map(|(name, _)| name).join(", ")
        )));
    };
    match declared {
        Some(said) if said != container.format() => Err(ReadError::Format(format!(
            "it was said to be {}, and looks like {}",
            said.name(),
            container.format().name()
        ))),
        _ => Ok(container),
    }
}

/// A reader that gives no more than it is allowed, until it is allowed more: so no row grows beyond its limit.
struct BoundedReader<R> {
    inner: R,
    left: Allowance,
}

/// How much of a row may still be read.
#[derive(Clone)]
struct Allowance(Rc<Cell<usize>>);

impl Allowance {
    /// The next row begins.
    fn renew(&self) {
        self.0.set(MAX_ROW_BYTES);
    }

    /// Whether the row was too long, where reading it failed.
    fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

fn too_long() -> String {
    format!("is longer than {} KiB", MAX_ROW_BYTES / 1024)
}

impl<R: Read> BoundedReader<R> {
    fn new(inner: R) -> (Self, Allowance) {
        let left = Allowance(Rc::new(Cell::new(MAX_ROW_BYTES)));
        (Self { inner, left: left.clone() }, left)
    }
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.left.0.get();
        if left == 0 && !buffer.is_empty() {
            return Err(std::io::Error::other(too_long()));
        }
        let most = buffer.len().min(left);
        let read = self.inner.read(&mut buffer[..most])?;
        self.left.0.set(left - read);
        Ok(read)
    }
}
