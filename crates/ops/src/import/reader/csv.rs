//! Records as lines of columns under a header.
//!
//! The parser is the library's. What it does not tell is found beside it: on which line a record begins, whatever ends the lines and
//! however many of them are empty ([`LineTracker`]), and that a quote is never closed, which would make one cell of the rest of the file.

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::io::Read;
use std::rc::Rc;

use rlinks_core::{FieldCode, FieldError, FieldErrors};
use serde_json::Value;

use super::{Allowance, BoundedReader, Container, ReadAbort, ReadError, RowSender, too_long};
use crate::csv::from_cell;
use crate::import::record::{MAX_RECORD_VALUES, Record, normalized_name};
use crate::import::{ImportFormat, formats};

/// Behind the file: a record of its own, unless a quote is still open.
const END_MARKER: &[u8] = b"\n\x01the end of the file\x01\n";

/// What the beginning of a table is.
pub(super) fn detect_format(
    head: &[u8],
    declared: Option<ImportFormat>,
) -> Result<Option<Container>, ReadError> {
    let line = head.split(|byte| matches!(byte, b'\n' | b'\r')).find(|line| !line.trim_ascii().is_empty());
    let line = line.unwrap_or_default();
    let delimiter = [b',', b';', b'\t'];
    let delimiter = delimiter.into_iter().max_by_key(|delimiter| {
        // Of as many of each, the comma.
        (line.split(|byte| byte == delimiter).count(), *delimiter == b',')
    });
    let delimiter = delimiter.unwrap_or(b',');
    let mut reader = reader(head, delimiter);
    let mut header = csv::ByteRecord::new();
    if reader.read_byte_record(&mut header).is_err() {
        return Ok(None);
    }
    let Some(columns) = columns(&header) else {
        return Err(ReadError::Format("its first line is not UTF-8; save it as UTF-8".to_owned()));
    };
    if columns.len() > MAX_RECORD_VALUES {
        return Err(ReadError::Format(format!("its first line has more than {MAX_RECORD_VALUES} columns")));
    }
    let Some(format) = formats::detect_csv_format(&columns) else {
        return match declared {
            None => Ok(None),
            Some(said) => Err(ReadError::Format(format!(
                "its first line does not name the columns of {}; it is `{}`",
                said.name(),
                columns.join(",").chars().take(100).collect::<String>()
            ))),
        };
    };
    let mut known = HashSet::new();
    if let Some(name) = columns.iter().find(|name| !name.is_empty() && !known.insert(normalized_name(name))) {
        let name: String = name.chars().take(100).collect();
        return Err(ReadError::Format(format!("its column `{name}` is there twice; leave one of them out")));
    }
    if let Some(name) = formats::ours::unknown_column(&columns).filter(|_| format == ImportFormat::Csv) {
        let name: String = name.chars().take(100).collect();
        return Err(ReadError::Format(format!(
            "its column `{name}` is no field of a link; leave it out, or name it as a field"
        )));
    }
    Ok(Some(Container::Table(format, delimiter)))
}

pub(super) fn read(
    file: BoundedReader<impl Read>,
    allowance: &Allowance,
    format: ImportFormat,
    delimiter: u8,
    sender: &mut RowSender,
) -> Result<(), ReadAbort> {
    let (file, starts) = LineTracker::new(file.chain(END_MARKER));
    let mut reader = reader(file, delimiter);
    let mut line = csv::ByteRecord::new();
    let mut header: Option<Vec<String>> = None;
    loop {
        allowance.renew();
        let begins = reader.position().byte();
        let read = reader.read_byte_record(&mut line);
        let number = starts.line_at(begins);
        match read {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(_) if allowance.is_spent() => {
                return Err(ReadAbort::malformed(
                    number,
                    format!("{}; a quote may not be closed", too_long()),
                ));
            }
            Err(error) => return Err(ReadAbort::malformed(number, error.to_string())),
        }
        match line.iter().next_back() {
            Some(last) if last == END_MARKER.trim_ascii() && line.len() == 1 => return Ok(()),
            Some(last) if last.ends_with(END_MARKER) => {
                return Err(ReadAbort::malformed(number, "a quote is opened and never closed"));
            }
            _ => {}
        }
        match &header {
            None => header = columns(&line),
            Some(columns) => sender.push(number, record(columns, &line, format))?,
        }
    }
}

/// A reader that remembers where lines begin, as far as nobody has asked yet.
struct LineTracker<R> {
    inner: R,
    starts: LineStarts,
    bytes: u64,
    line: u64,
    last: u8,
}

/// Where lines that are not empty begin, and which they are.
#[derive(Clone, Default)]
struct LineStarts(Rc<RefCell<VecDeque<(u64, u64)>>>);

impl LineStarts {
    /// The line of the first record at or behind a place.
    fn line_at(&self, byte: u64) -> u64 {
        let mut starts = self.0.borrow_mut();
        while starts.front().is_some_and(|(start, _)| *start < byte) {
            starts.pop_front();
        }
        starts.front().map_or(0, |(_, line)| *line)
    }
}

impl<R: Read> LineTracker<R> {
    fn new(inner: R) -> (Self, LineStarts) {
        let starts = LineStarts::default();
        (Self { inner, starts: starts.clone(), bytes: 0, line: 1, last: b'\n' }, starts)
    }
}

impl<R: Read> Read for LineTracker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let mut starts = self.starts.0.borrow_mut();
        for &byte in &buffer[..read] {
            match byte {
                b'\r' => self.line += 1,
                b'\n' if self.last != b'\r' => self.line += 1,
                b'\n' => {}
                _ if matches!(self.last, b'\r' | b'\n') => starts.push_back((self.bytes, self.line)),
                _ => {}
            }
            self.last = byte;
            self.bytes += 1;
        }
        Ok(read)
    }
}

fn reader<R: Read>(file: R, delimiter: u8) -> csv::Reader<R> {
    csv::ReaderBuilder::new().delimiter(delimiter).has_headers(false).flexible(true).from_reader(file)
}

fn columns(header: &csv::ByteRecord) -> Option<Vec<String>> {
    header.iter().map(|name| std::str::from_utf8(name).ok().map(|name| name.trim().to_owned())).collect()
}

fn record(columns: &[String], line: &csv::ByteRecord, format: ImportFormat) -> Result<Record, FieldErrors> {
    let refuse = |code, message: &str| Err(FieldError::new("row", code, message).into());
    if line.len() > columns.len() {
        let message = format!("has {} values under {} columns", line.len(), columns.len());
        return refuse(FieldCode::TooLong, &message);
    }
    let texts: Result<Vec<&str>, _> = line.iter().map(std::str::from_utf8).collect();
    let Ok(texts) = texts else { return refuse(FieldCode::BadCharacters, "is not UTF-8") };
    let ours = format == ImportFormat::Csv;
    let value = |text: &str| Value::String(if ours { from_cell(text).to_owned() } else { text.to_owned() });
    Ok(Record::from_columns(columns, texts.into_iter().map(value)))
}
