//! Records as JSON: an object on each line, or a list inside of one text.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read};

use rlinks_core::{FieldCode, FieldError};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{Allowance, BoundedReader, Container, MAX_ROW_BYTES, ReadAbort, ReadError, RowSender, too_long};
use crate::import::record::{Record, RecordBuilder};
use crate::import::{ImportFormat, formats};

/// The names under which lists of links stand in the texts of others.
const LIST_KEYS: [&str; 2] = ["links", "data"];

/// What the beginning of a JSON text is.
pub(super) fn detect_format(head: &[u8], declared: Option<ImportFormat>) -> Option<Container> {
    let declared = declared.filter(|said| may_be_json(*said));
    let mut lines = head.split(|byte| matches!(byte, b'\n' | b'\r'));
    let line = lines.next().unwrap_or_default();
    let of = |record: &Record| {
        declared.filter(|said| may_match(*said, record)).or_else(|| formats::detect_json_format(record))
    };
    let is_line = serde_json::from_slice::<Record>(line).is_ok() && !is_list_inside(line);
    if !is_line {
        match first_record(head) {
            // Several objects on one line are a bad line.
            FirstRecord::Sole(_, end) if end <= line.len() => {}
            FirstRecord::ListItem(record) | FirstRecord::Sole(record, _) => {
                return Some(Container::Document(of(&record).or(declared)?));
            }
            // An empty list, or one whose first object is cut off: then somebody must say.
            FirstRecord::UnreadableList => return Some(Container::Document(declared?)),
            FirstRecord::Truncated if line.len() < head.len() => return Some(Container::Document(declared?)),
            // A line longer than the beginning may be too long for a row, and the next one is read all the same.
            FirstRecord::Truncated | FirstRecord::None => {}
        }
    }
    // The first that is not broken says what they are, else somebody must. A single object of a format that has no lines is a list
    // of one.
    let mut known =
        std::iter::once(line).chain(lines).filter_map(|line| of(&serde_json::from_slice(line).ok()?));
    Some(Container::Lines(known.next().or(declared)?))
}

/// Whether a format may be JSON at all.
const fn may_be_json(format: ImportFormat) -> bool {
    !matches!(format, ImportFormat::Csv | ImportFormat::Shlink | ImportFormat::Dub | ImportFormat::Yourls)
}

/// Whether records like this one may be of a format: each has names of its own that must be there.
fn may_match(format: ImportFormat, record: &Record) -> bool {
    match format {
        ImportFormat::Jsonl => record.has_all(&["target"]) && !record.has_all(&["address"]),
        format => formats::detect_json_format(record) == Some(format),
    }
}

fn is_list_inside(line: &[u8]) -> bool {
    let whole = serde_json::from_slice::<Value>(line).unwrap_or_default();
    LIST_KEYS.iter().any(|name| whole[*name].is_array())
}

/// The first record of a text, as far as its beginning holds it.
enum FirstRecord {
    ListItem(Record),
    /// The text is one, up to this byte.
    Sole(Record, usize),
    /// There is a list, and none in it that could be read.
    UnreadableList,
    /// The text goes on beyond the beginning.
    Truncated,
    /// There is none that could be read.
    None,
}

fn first_record(head: &[u8]) -> FirstRecord {
    let mut first = None;
    let mut keep = |record: Record| {
        first = Some(record);
        false
    };
    let mut reader = serde_json::Deserializer::from_slice(head);
    let mut is_listed = false;
    // It ends early, by an error of ours or because the beginning is no whole text.
    let read =
        DocumentVisitor { each: &mut keep, is_listed: &mut is_listed, depth: 0 }.deserialize(&mut reader);
    match (first, read) {
        (Some(record), _) if is_listed => FirstRecord::ListItem(record),
        (Some(record), _) => FirstRecord::Sole(record, first_end(head)),
        (None, _) if is_listed => FirstRecord::UnreadableList,
        (None, Err(error)) if error.is_eof() => FirstRecord::Truncated,
        (None, _) => FirstRecord::None,
    }
}

/// Where the first value of a text ends.
fn first_end(text: &[u8]) -> usize {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
    values.next();
    values.byte_offset()
}

/// An object on each line. A line that is none is a bad row, and the next one is read all the same.
pub(super) fn lines(
    file: BoundedReader<impl Read>,
    allowance: &Allowance,
    sender: &mut RowSender,
) -> Result<(), ReadAbort> {
    let mut file = BufReader::new(file);
    let mut number = 0;
    let mut line = Vec::new();
    loop {
        allowance.renew();
        number += 1;
        line.clear();
        match read_line(&mut file, allowance, &mut line)? {
            Line::End => return Ok(()),
            Line::TooLong => sender.push(number, Err(row_error(&too_long()).into()))?,
            Line::Whole if line.trim_ascii().is_empty() => {}
            Line::Whole => {
                let record = serde_json::from_slice(&line)
                    .map_err(|error| row_error(&json_error_message(&error)).into());
                sender.push(number, record)?;
            }
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// The next line, whatever ends it. JSON has no line breaks inside of texts, so each of them ends one.
fn read_line(
    file: &mut BufReader<BoundedReader<impl Read>>,
    allowance: &Allowance,
    line: &mut Vec<u8>,
) -> Result<Line, std::io::Error> {
    let (mut seen, mut long) = (false, false);
    loop {
        allowance.renew();
        let buffer = file.fill_buf()?;
        if buffer.is_empty() {
            return Ok(match (seen, long) {
                (false, _) => Line::End,
                (true, true) => Line::TooLong,
                (true, false) => Line::Whole,
            });
        }
        seen = true;
        let end = buffer.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let part = end.unwrap_or(buffer.len());
        long |= line.len() + part > MAX_ROW_BYTES;
        if !long {
            line.extend_from_slice(&buffer[..part]);
        }
        // The second half of CR LF is an empty line, which counts for nothing but its number.
        let used = match end {
            Some(at) if buffer.get(at) == Some(&b'\r') && buffer.get(at + 1) == Some(&b'\n') => at + 2,
            Some(at) => at + 1,
            None => part,
        };
        file.consume(used);
        if end.is_some() {
            return Ok(if long { Line::TooLong } else { Line::Whole });
        }
    }
}

/// One text with a list in it, or the list itself. What is broken inside of it ends the reading.
pub(super) fn document(
    file: BoundedReader<impl Read>,
    allowance: &Allowance,
    sender: &mut RowSender,
) -> Result<(), ReadAbort> {
    let (mut number, mut stop) = (0, None);
    let mut each = |record: Record| {
        allowance.renew();
        number += 1;
        match sender.push(number, Ok(record)) {
            Ok(()) => true,
            Err(why) => {
                stop = Some(why);
                false
            }
        }
    };
    let mut reader = serde_json::Deserializer::from_reader(file);
    let mut is_listed = false;
    let whole = DocumentVisitor { each: &mut each, is_listed: &mut is_listed, depth: 0 };
    let read = whole.deserialize(&mut reader).and_then(|()| reader.end());
    match (stop, read) {
        (Some(stop), _) => Err(stop),
        (None, Ok(())) => Ok(()),
        (None, Err(_)) if allowance.is_spent() => Err(ReadAbort::malformed(number + 1, too_long())),
        (None, Err(error)) if error.is_io() => Err(ReadAbort::Error(ReadError::Io(error.into()))),
        (None, Err(error)) => Err(ReadAbort::malformed(number + 1, format!("is no JSON: {error}"))),
    }
}

fn row_error(why: &str) -> FieldError {
    FieldError::new("row", FieldCode::BadCharacters, why)
}

/// What is wrong with a line of JSON; that it is line 1 of itself helps nobody.
fn json_error_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    format!("is no JSON object (column {}): {text}", error.column())
}

/// A text that is a list of records, or an object with such a list in it; without one it is a record itself.
struct DocumentVisitor<'a> {
    each: &'a mut dyn FnMut(Record) -> bool,
    is_listed: &'a mut bool,
    /// Objects around this value.
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for DocumentVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DocumentVisitor<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of links")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        *self.is_listed = true;
        while let Some(record) = list.next_element()? {
            if !(self.each)(record) {
                return Err(A::Error::custom("enough"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut itself = RecordBuilder::default();
        while let Some(name) = map.next_key::<String>()? {
            if LIST_KEYS.contains(&name.as_str()) {
                let (each, is_listed) = (&mut *self.each, &mut *self.is_listed);
                map.next_value_seed(DocumentVisitor { each, is_listed, depth: self.depth + 1 })?;
            } else if *self.is_listed || self.depth > 0 {
                map.next_value::<IgnoredAny>()?;
            } else {
                itself.add(name, map.next_value()?).map_err(A::Error::custom)?;
            }
        }
        if *self.is_listed || self.depth > 0 || (self.each)(itself.build()) {
            return Ok(());
        }
        Err(A::Error::custom("enough"))
    }
}
