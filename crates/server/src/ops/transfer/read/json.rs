//! Records as JSON: an object on each line, or a list inside of one text.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read};

use rlinks_core::{FieldCode, FieldError};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{Allowance, Bounded, Container, Desk, ROW_BYTES, ReadError, Stop, too_long};
use crate::ops::transfer::ImportFormat;
use crate::ops::transfer::formats;
use crate::ops::transfer::record::Record;

/// The names under which lists of links stand in the texts of others.
const LISTS: [&str; 2] = ["links", "data"];

/// What the beginning of a JSON text is.
pub(super) fn recognise(head: &[u8], said: Option<ImportFormat>) -> Option<Container> {
    let line = head.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
    if let Ok(record) = serde_json::from_slice::<Record>(line)
        && !is_list_inside(line)
    {
        let format = said.filter(|said| may_be(*said, &record)).or_else(|| formats::of_object(&record));
        // A single object of a format that has no lines is a list of one.
        return Some(Container::Lines(format?));
    }
    let first = first_record(head);
    let format = match (&first, said) {
        (Some(record), Some(said)) if may_be(said, record) => Some(said),
        (Some(record), _) => formats::of_object(record),
        // An empty list, or one whose first object is cut off: then somebody must say.
        (None, said) => {
            said.filter(|said| !matches!(said, ImportFormat::Csv | ImportFormat::Shlink | ImportFormat::Dub))
        }
    };
    Some(Container::Document(format?))
}

/// Whether records like this one may be of a format: each has names of its own that must be there.
fn may_be(format: ImportFormat, record: &Record) -> bool {
    match format {
        ImportFormat::Jsonl => record.has(&["target"]) && !record.has(&["address"]),
        format => formats::of_object(record) == Some(format),
    }
}

fn is_list_inside(line: &[u8]) -> bool {
    let whole = serde_json::from_slice::<Value>(line).unwrap_or_default();
    LISTS.iter().any(|name| whole[*name].is_array())
}

/// The first object of a list, as far as the beginning of a text holds it.
fn first_record(head: &[u8]) -> Option<Record> {
    let mut first = None;
    let mut keep = |record: Record| {
        first = Some(record);
        false
    };
    let mut reader = serde_json::Deserializer::from_slice(head);
    // It ends early, by an error of ours or because the beginning is no whole text.
    let _ = Whole { each: &mut keep }.deserialize(&mut reader);
    first
}

/// An object on each line. A line that is none is a bad row, and the next one is read all the same.
pub(super) fn lines(file: Bounded<impl Read>, allowance: &Allowance, desk: &mut Desk) -> Result<(), Stop> {
    let mut file = BufReader::new(file);
    let mut number = 0;
    let mut line = Vec::new();
    loop {
        allowance.renew();
        number += 1;
        line.clear();
        match line_of(&mut file, allowance, &mut line)? {
            Line::End => return Ok(()),
            Line::TooLong => desk.take(number, Err(bad(&too_long()).into()))?,
            Line::Whole if line.trim_ascii().is_empty() => {}
            Line::Whole => {
                let record =
                    serde_json::from_slice(&line).map_err(|error| bad(&without_place(&error)).into());
                desk.take(number, record)?;
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
fn line_of(
    file: &mut BufReader<Bounded<impl Read>>,
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
        long |= line.len() + part > ROW_BYTES;
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
pub(super) fn document(file: Bounded<impl Read>, allowance: &Allowance, desk: &mut Desk) -> Result<(), Stop> {
    let (mut number, mut stop) = (0, None);
    let mut each = |record: Record| {
        allowance.renew();
        number += 1;
        match desk.take(number, Ok(record)) {
            Ok(()) => true,
            Err(why) => {
                stop = Some(why);
                false
            }
        }
    };
    let mut reader = serde_json::Deserializer::from_reader(file);
    let read = Whole { each: &mut each }.deserialize(&mut reader).and_then(|()| reader.end());
    match (stop, read) {
        (Some(stop), _) => Err(stop),
        (None, Ok(())) => Ok(()),
        (None, Err(_)) if allowance.is_spent() => Err(Stop::broken(number + 1, too_long())),
        (None, Err(error)) if error.is_io() => Err(Stop::Error(ReadError::Io(error.into()))),
        (None, Err(error)) => Err(Stop::broken(number + 1, format!("is no JSON: {error}"))),
    }
}

fn bad(why: &str) -> FieldError {
    FieldError::new("row", FieldCode::BadCharacters, why)
}

/// What is wrong with a line of JSON; that it is line 1 of itself helps nobody.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    format!("is no JSON object (column {}): {text}", error.column())
}

/// A text that is a list of records, or an object with such a list in it.
struct Whole<'a> {
    each: &'a mut dyn FnMut(Record) -> bool,
}

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of links")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(record) = list.next_element()? {
            if !(self.each)(record) {
                return Err(serde::de::Error::custom("enough"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if LISTS.contains(&name.as_str()) {
                map.next_value_seed(Whole { each: &mut *self.each })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}
