//! Clicks leave: as JSON lines or Parquet, to a file or an object store.
//!
//! The writers ([`jsonl`], [`parquet`]) know nothing of destinations, the destinations ([`destination`]) nothing of clicks. [`Export`] is one
//! output: it moves the bytes from a writer to an upload, batch by batch, so memory does not grow with the number of clicks.

mod buffer;
pub mod destination;
pub(crate) mod job;
pub mod jsonl;
pub mod parquet;
pub(crate) mod watermark_lock;

pub use crate::export::destination::{Destination, OpenDestination, Upload};
pub use crate::export::job::{ExportReport, ExportRequest, watermark_name};
use buffer::Buffer;

use crate::Click;

/// What the bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Lines(jsonl::Form),
    Parquet,
}

/// Why clicks could not leave, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// What was typed is no place, or not one for this: type something else.
    #[error("{0}")]
    InvalidDestination(String),
    /// Something is there already: choose another name, or replace it.
    #[error("{0} exists already; nothing was written")]
    Exists(String),
    /// Another export goes by the same watermark: wait for it.
    #[error("another export of these clicks since the last one is running; nothing was written")]
    Busy,
    /// The disk or the object store said no; what was begun is undone.
    #[error("{0}")]
    Failed(String),
    /// The clicks could not be read.
    #[error(transparent)]
    Store(#[from] rlinks_store::StoreError),
}

impl From<std::io::Error> for ExportError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// One output in the making. It appears at its place when [`finish`](Self::finish) returns, and not before.
pub struct Export {
    writer: Writer,
    made: Buffer,
    upload: Upload,
}

enum Writer {
    Lines(jsonl::Writer<Buffer>),
    Parquet(Box<parquet::Writer<Buffer>>),
}

impl Export {
    /// Begins a file in this format.
    pub fn begin(upload: Upload, format: Format) -> Result<Self, ExportError> {
        let made = Buffer::default();
        let writer = match format {
            Format::Lines(form) => Writer::Lines(jsonl::Writer::new(made.clone(), form)),
            Format::Parquet if upload.is_stdout() => {
                let why = "Parquet cannot go to stdout; name a file, or choose JSON lines";
                return Err(ExportError::InvalidDestination(why.to_owned()));
            }
            Format::Parquet => Writer::Parquet(Box::new(parquet::Writer::new(made.clone())?)),
        };
        Ok(Self { writer, made, upload })
    }

    /// Adds these clicks in their order. Batches of some thousands are best: all of a batch is in memory.
    pub async fn write(&mut self, clicks: &[Click]) -> Result<(), ExportError> {
        match &mut self.writer {
            Writer::Lines(writer) => writer.write(clicks)?,
            Writer::Parquet(writer) => writer.write(clicks)?,
        }
        self.upload.write(&self.made.take()).await
    }

    /// Puts the whole file in its place.
    pub async fn finish(mut self) -> Result<(), ExportError> {
        match self.writer {
            Writer::Lines(writer) => drop(writer.finish()?),
            Writer::Parquet(writer) => drop(writer.finish()?),
        }
        self.upload.write(&self.made.take()).await?;
        self.upload.finish().await
    }

    /// Leaves nothing behind. Dropping does the same as far as it can; this waits until it is done.
    pub async fn abandon(self) {
        self.upload.abandon().await;
    }
}
