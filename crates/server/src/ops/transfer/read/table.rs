//! Records as lines of columns under a header.

use std::io::Read;

use rlinks_core::{FieldCode, FieldError, FieldErrors};
use serde_json::Value;

use super::{Allowance, Bounded, Container, Desk, ReadError, Stop, too_long};
use crate::ops::transfer::ImportFormat;
use crate::ops::transfer::formats;
use crate::ops::transfer::record::{MOST_VALUES, Record};
use crate::ops::transfer::write::from_cell;

/// What the beginning of a table is.
pub(super) fn recognise(head: &[u8], said: Option<ImportFormat>) -> Result<Option<Container>, ReadError> {
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
    if columns.len() > MOST_VALUES {
        return Err(ReadError::Format(format!("its first line has more than {MOST_VALUES} columns")));
    }
    let Some(format) = formats::of_header(&columns) else {
        return match said {
            None => Ok(None),
            Some(said) => Err(ReadError::Format(format!(
                "its first line does not name the columns of {}; it is `{}`",
                said.name(),
                columns.join(",").chars().take(100).collect::<String>()
            ))),
        };
    };
    if let Some(name) = formats::unknown_column(&columns).filter(|_| format == ImportFormat::Csv) {
        let name: String = name.chars().take(100).collect();
        return Err(ReadError::Format(format!(
            "its column `{name}` is no field of a link; leave it out, or name it as a field"
        )));
    }
    Ok(Some(Container::Table(format, delimiter)))
}

pub(super) fn read(
    file: Bounded<impl Read>,
    allowance: &Allowance,
    format: ImportFormat,
    delimiter: u8,
    desk: &mut Desk,
) -> Result<(), Stop> {
    let mut reader = reader(file, delimiter);
    let mut line = csv::ByteRecord::new();
    let mut header: Option<Vec<String>> = None;
    loop {
        allowance.renew();
        let number = reader.position().line();
        match reader.read_byte_record(&mut line) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(_) if allowance.is_spent() => return Err(Stop::broken(number, too_long())),
            Err(error) => return Err(Stop::broken(number, error.to_string())),
        }
        let number = line.position().map_or(number, csv::Position::line);
        match &header {
            None => header = columns(&line),
            Some(columns) => desk.take(number, record(columns, &line, format))?,
        }
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
    Ok(Record::of(columns, texts.into_iter().map(value)))
}
