//! Clicks as JSON lines: one object for each click, every field always there, `null` where nothing is known.

use std::fmt;
use std::io::Write;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::ExportError;
use crate::Click;

/// How much of a click a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The seven fields of the log format: key, time, code, country, agent, referrer, network.
    Short,
    /// The short form's fields first, then everything else.
    Full,
}

/// Writes clicks to a sink, a line each. Nothing is kept back: after `write`, the sink has whole lines.
pub struct Writer<W> {
    sink: W,
    form: Form,
    // A whole line before it is written, so that a sink without a buffer is not called for every comma.
    lines: Vec<u8>,
}

const FLUSH_BYTES: usize = 64 << 10;

impl<W: Write + Send> Writer<W> {
    /// A writer of lines in this form.
    pub fn new(sink: W, form: Form) -> Self {
        Self { sink, form, lines: Vec::with_capacity(FLUSH_BYTES * 2) }
    }

    /// Writes these clicks in their order.
    pub fn write(&mut self, clicks: &[Click]) -> Result<(), ExportError> {
        for click in clicks {
            serde_json::to_writer(&mut self.lines, &Line { click, form: self.form })
                .map_err(|error| ExportError::Failed(error.to_string()))?;
            self.lines.push(b'\n');
            if self.lines.len() >= FLUSH_BYTES {
                self.flush()?;
            }
        }
        self.flush()
    }

    /// Ends the file and gives the sink back.
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.sink.write_all(&self.lines)?;
        self.lines.clear();
        Ok(())
    }
}

/// Sixteen digits, zeros in front: as text the values have one length, sort like numbers, and survive JavaScript.
pub(super) struct Hex(pub u64);

impl fmt::Display for Hex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A click with every field, as a line of the full form has them.
pub fn full(click: &Click) -> impl Serialize + '_ {
    Line { click, form: Form::Full }
}

struct Line<'a> {
    click: &'a Click,
    form: Form,
}

/// `hit:{code}:{day}:{id}`, written without a text of its own.
struct Key<'a>(&'a Click);

impl Serialize for Key<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Click { code, ts, id, .. } = self.0;
        serializer.collect_str(&format_args!("hit:{code}:{}:{id}", ts.day()))
    }
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let click = self.click;
        let mut line = serializer.serialize_struct("Click", if self.form == Form::Full { 24 } else { 7 })?;
        line.serialize_field("key", &Key(click))?;
        line.serialize_field("ts", &click.ts)?;
        line.serialize_field("code", &click.code)?;
        line.serialize_field("country", &click.country)?;
        line.serialize_field("ua_hash", &click.ua_hash.map(Hex))?;
        line.serialize_field("referrer", &click.referrer)?;
        line.serialize_field("ip_prefix", &click.ip_prefix)?;
        if self.form == Form::Full {
            line.serialize_field("id", &format_args!("{}", click.id))?;
            line.serialize_field("link_id", &click.link)?;
            line.serialize_field("workspace_id", &click.workspace)?;
            line.serialize_field("user_agent", &click.user_agent)?;
            line.serialize_field("city", &click.city)?;
            line.serialize_field("latitude", &click.latitude)?;
            line.serialize_field("longitude", &click.longitude)?;
            line.serialize_field("device", click.device.as_str())?;
            line.serialize_field("browser", &click.browser)?;
            line.serialize_field("browser_version", &click.browser_version)?;
            line.serialize_field("system", &click.system)?;
            line.serialize_field("system_version", &click.system_version)?;
            line.serialize_field("utm_source", &click.utm_source)?;
            line.serialize_field("utm_medium", &click.utm_medium)?;
            line.serialize_field("utm_campaign", &click.utm_campaign)?;
            line.serialize_field("visitor", &click.visitor.map(Hex))?;
            line.serialize_field("bot", &click.bot)?;
        }
        line.end()
    }
}
