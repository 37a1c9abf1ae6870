//! Clicks as Parquet: the fields of the full JSON line, a column each, packed as tightly as each of them allows.
//!
//! Written without Arrow. The columns of a row group must follow each other in the file while clicks come row by row, so every
//! column is encoded and compressed into a buffer of its own; what waits in memory are finished pages, not clicks.

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel,
};
use ::parquet::column::page::{CompressedPage, PageWriteSpec, PageWriter};
use ::parquet::column::writer::{ColumnWriter, get_column_writer};
use ::parquet::data_type::ByteArray;
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use ::parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use ::parquet::schema::types::{ColumnPath, Type};
use bytes::Bytes;

use super::ExportError;
use super::buffer::Buffer;
use super::jsonl::Hex;
use crate::Click;

/// Rows of a group. More would share dictionaries among more rows, and keep more in memory until the group is written.
const GROUP_ROWS: usize = 256 << 10;
/// Rows that are turned into columns at once.
const BATCH_ROWS: usize = 8 << 10;
const ZSTD_LEVEL: i32 = 9;

/// Writes clicks to a sink. A group of rows reaches it when the group is full or the file ends.
pub struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    group: Vec<Chunk>,
    rows: usize,
}

impl<W: Write + Send> Writer<W> {
    /// A file that has its first bytes and no rows.
    pub fn new(sink: W) -> Result<Self, ExportError> {
        let file = SerializedFileWriter::new(sink, Arc::new(schema()?), Arc::new(properties()?))?;
        Ok(Self { file, group: Vec::new(), rows: 0 })
    }

    /// Adds these clicks in their order.
    pub fn write(&mut self, clicks: &[Click]) -> Result<(), ExportError> {
        let mut rest = clicks;
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(rest.len().min(BATCH_ROWS).min(GROUP_ROWS - self.rows));
            if self.group.is_empty() {
                let columns = self.file.schema_descr().columns();
                self.group = columns
                    .iter()
                    .map(|column| Chunk::new(Arc::clone(column), self.file.properties()))
                    .collect();
            }
            for (column, chunk) in COLUMNS.iter().zip(&mut self.group) {
                column.write(batch, &mut chunk.writer)?;
            }
            self.rows += batch.len();
            if self.rows == GROUP_ROWS {
                self.end_group()?;
            }
            rest = after;
        }
        Ok(())
    }

    /// Ends the file and gives the sink back.
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.end_group()?;
        Ok(self.file.into_inner()?)
    }

    fn end_group(&mut self) -> Result<(), ExportError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for chunk in self.group.drain(..) {
            let end = chunk.writer.close()?;
            group.append_column(&Bytes::from(chunk.pages.take()), end)?;
        }
        group.close()?;
        // Otherwise the last few kilobytes of the group would wait for the next.
        self.file.flush()?;
        self.rows = 0;
        Ok(())
    }
}

impl From<ParquetError> for ExportError {
    fn from(error: ParquetError) -> Self {
        Self::Failed(format!("Parquet: {error}"))
    }
}

/// One column of the group in the making.
struct Chunk {
    writer: ColumnWriter<'static>,
    pages: Buffer,
}

impl Chunk {
    fn new(column: ::parquet::schema::types::ColumnDescPtr, properties: &WriterPropertiesPtr) -> Self {
        let pages = Buffer::default();
        let to = Box::new(Pages(TrackedWrite::new(pages.clone())));
        Self { writer: get_column_writer(column, Arc::clone(properties), to), pages }
    }
}

/// Finished pages on their way into a column's buffer. The library's own writer of pages borrows its sink; this one has it.
struct Pages(TrackedWrite<Buffer>);

impl PageWriter for Pages {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec, ParquetError> {
        SerializedPageWriter::new(&mut self.0).write_page(page)
    }

    fn close(&mut self) -> Result<(), ParquetError> {
        self.0.flush()?;
        Ok(())
    }
}

struct Column {
    name: &'static str,
    value: Value,
    packing: Packing,
}

/// How a click's value for a column is found.
enum Value {
    Moment(fn(&Click) -> i64),
    Flag(fn(&Click) -> bool),
    Number(fn(&Click) -> Option<f64>),
    Text(fn(&Click, &mut Vec<u8>)),
    /// Appends the text and says so, or says that there is none.
    OptionalText(fn(&Click, &mut Vec<u8>) -> bool),
}

/// How the values of a column are stored.
#[derive(Clone, Copy, PartialEq)]
enum Packing {
    /// Every different value once for each group, then numbers. What does not fit the dictionary is stored as `Texts`.
    Dictionary,
    /// The difference to the value before.
    Delta,
    /// What differs from the text before, as a length and an end.
    Ends,
    /// All lengths, then all texts.
    Texts,
    Plain,
}

/// In the order of the full JSON line.
const COLUMNS: [Column; 23] = [
    Column { name: "ts", value: Value::Moment(|click| click.ts.ms()), packing: Packing::Delta },
    text("code", |click, out| out.extend_from_slice(click.code.as_bytes())),
    optional("country", |click, out| append(click.country.as_deref(), out)),
    optional("ua_hash", |click, out| show(click.ua_hash.map(Hex), out)),
    optional("referrer", |click, out| append(click.referrer.as_deref(), out)),
    optional("ip_prefix", |click, out| show(click.ip_prefix, out)),
    Column { packing: Packing::Ends, ..text("id", |click, out| _ = show(Some(click.id), out)) },
    text("link_id", |click, out| _ = show(Some(click.link), out)),
    text("workspace_id", |click, out| _ = show(Some(click.workspace), out)),
    optional("user_agent", |click, out| append(click.user_agent.as_deref(), out)),
    optional("city", |click, out| append(click.city.as_deref(), out)),
    number("latitude", |click| click.latitude),
    number("longitude", |click| click.longitude),
    text("device", |click, out| out.extend_from_slice(click.device.as_str().as_bytes())),
    optional("browser", |click, out| append(click.browser.as_deref(), out)),
    optional("browser_version", |click, out| append(click.browser_version.as_deref(), out)),
    optional("system", |click, out| append(click.system.as_deref(), out)),
    optional("system_version", |click, out| append(click.system_version.as_deref(), out)),
    optional("utm_source", |click, out| append(click.utm_source.as_deref(), out)),
    optional("utm_medium", |click, out| append(click.utm_medium.as_deref(), out)),
    optional("utm_campaign", |click, out| append(click.utm_campaign.as_deref(), out)),
    // Hashes that seldom repeat: a dictionary would store most of them once more as a number.
    Column { packing: Packing::Texts, ..optional("visitor", |click, out| show(click.visitor.map(Hex), out)) },
    Column { name: "bot", value: Value::Flag(|click| click.bot), packing: Packing::Plain },
];

const fn text(name: &'static str, of: fn(&Click, &mut Vec<u8>)) -> Column {
    Column { name, value: Value::Text(of), packing: Packing::Dictionary }
}

const fn optional(name: &'static str, of: fn(&Click, &mut Vec<u8>) -> bool) -> Column {
    Column { name, value: Value::OptionalText(of), packing: Packing::Dictionary }
}

const fn number(name: &'static str, of: fn(&Click) -> Option<f64>) -> Column {
    Column { name, value: Value::Number(of), packing: Packing::Dictionary }
}

fn append(value: Option<&str>, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(value.unwrap_or_default().as_bytes());
    value.is_some()
}

fn show(value: Option<impl std::fmt::Display>, out: &mut Vec<u8>) -> bool {
    value.is_some_and(|value| write!(out, "{value}").is_ok())
}

impl Column {
    fn declare(&self) -> Result<Type, ParquetError> {
        let (physical, logical, repetition) = match self.value {
            Value::Moment(_) => {
                (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS)), Repetition::REQUIRED)
            }
            Value::Flag(_) => (Physical::BOOLEAN, None, Repetition::REQUIRED),
            Value::Number(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
            Value::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
            Value::OptionalText(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::OPTIONAL),
        };
        Type::primitive_type_builder(self.name, physical)
            .with_logical_type(logical)
            .with_repetition(repetition)
            .build()
    }

    fn write(&self, clicks: &[Click], to: &mut ColumnWriter<'static>) -> Result<(), ParquetError> {
        match (&self.value, to) {
            (Value::Moment(of), ColumnWriter::Int64ColumnWriter(to)) => {
                to.write_batch(&clicks.iter().map(of).collect::<Vec<_>>(), None, None)?;
            }
            (Value::Flag(of), ColumnWriter::BoolColumnWriter(to)) => {
                to.write_batch(&clicks.iter().map(of).collect::<Vec<_>>(), None, None)?;
            }
            (Value::Number(of), ColumnWriter::DoubleColumnWriter(to)) => {
                let known: Vec<_> = clicks.iter().map(|click| i16::from(of(click).is_some())).collect();
                to.write_batch(&clicks.iter().filter_map(of).collect::<Vec<_>>(), Some(&known), None)?;
            }
            (Value::Text(of), ColumnWriter::ByteArrayColumnWriter(to)) => {
                let (texts, _) = texts(clicks, |click, out| {
                    of(click, out);
                    true
                });
                to.write_batch(&texts, None, None)?;
            }
            (Value::OptionalText(of), ColumnWriter::ByteArrayColumnWriter(to)) => {
                let (texts, known) = texts(clicks, of);
                to.write_batch(&texts, Some(&known), None)?;
            }
            _ => return Err(ParquetError::General(format!("the column {} has another type", self.name))),
        }
        Ok(())
    }
}

/// The texts there are, as slices of one allocation, and for every click 1 if it has one.
fn texts(clicks: &[Click], of: impl Fn(&Click, &mut Vec<u8>) -> bool) -> (Vec<ByteArray>, Vec<i16>) {
    let mut bytes = Vec::new();
    let mut known = Vec::with_capacity(clicks.len());
    let mut ends = Vec::with_capacity(clicks.len());
    for click in clicks {
        let there = of(click, &mut bytes);
        known.push(i16::from(there));
        if there {
            ends.push(bytes.len());
        }
    }
    let bytes = Bytes::from(bytes);
    let mut from = 0;
    let texts =
        ends.into_iter().map(|end| ByteArray::from(bytes.slice(std::mem::replace(&mut from, end)..end)));
    (texts.collect(), known)
}

fn schema() -> Result<Type, ParquetError> {
    let fields = COLUMNS.iter().map(|column| column.declare().map(Arc::new)).collect::<Result<_, _>>()?;
    Type::group_type_builder("click").with_fields(fields).build()
}

fn properties() -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("rlinks ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_data_page_row_count_limit(GROUP_ROWS)
        .set_data_page_size_limit(8 << 20)
        .set_dictionary_page_size_limit(2 << 20);
    for column in &COLUMNS {
        let path = ColumnPath::from(column.name);
        let is_text = matches!(column.value, Value::Text(_) | Value::OptionalText(_));
        properties = properties
            .set_column_dictionary_enabled(path.clone(), column.packing == Packing::Dictionary)
            .set_column_encoding(
                path,
                match column.packing {
                    Packing::Delta => Encoding::DELTA_BINARY_PACKED,
                    Packing::Ends => Encoding::DELTA_BYTE_ARRAY,
                    Packing::Dictionary | Packing::Texts if is_text => Encoding::DELTA_LENGTH_BYTE_ARRAY,
                    Packing::Dictionary | Packing::Texts | Packing::Plain => Encoding::PLAIN,
                },
            );
    }
    Ok(properties.build())
}
