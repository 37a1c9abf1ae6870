//! An export from beginning to end: which clicks, in which parts, and how far the next one may begin.

use rlinks_core::{Id, Timestamp};
use rlinks_store::StoreError;
use rlinks_store::database::atomic_file::Overwrite;
use rlinks_store::database::pool::{read, run_in};

use super::{Export, ExportError, Format, OpenDestination};
use crate::database::ClickStore;
use crate::events::{Codes, EventFilter};

/// Numbers looked through at once.
const EVENTS_PER_READ: i64 = 10_000;
/// Clicks in one part.
const MAX_CLICKS_PER_PART: u64 = 1_000_000;

pub struct ExportRequest<'a> {
    pub filter: EventFilter,
    /// How they are written.
    pub format: Format,
    /// Whether what is there may be replaced.
    pub overwrite: Overwrite,
    /// Begin where the last export by this name ended, and remember where this one does.
    pub watermark: Option<&'a str>,
    /// How the names of parts begin.
    pub stem: &'a str,
    /// Only clicks up to this number.
    pub upto: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    pub clicks: u64,
    /// The names of the parts, where there are parts.
    pub parts: Vec<String>,
}

impl ClickStore {
    /// Exports clicks in the order they were stored. Where the place takes parts, each is named after the number it begins with.
    ///
    /// A file is whole before the watermark passes it. An export that was cut off between the two finds a note that the file is its
    /// own, writes it again and goes on; any other file that is there stays, unless it may be replaced. One export at a time goes by
    /// a watermark.
    pub async fn export(
        &self,
        codes: &mut Codes,
        target: &OpenDestination,
        request: &ExportRequest<'_>,
        now: Timestamp,
        mut progress: impl FnMut(u64),
    ) -> Result<ExportReport, ExportError> {
        let Some(name) = request.watermark else {
            return self.export_from(codes, target, request, 0, now, &mut progress).await;
        };
        let lock = self.lock_watermark(name).await?;
        let done = match self.watermark(name).await {
            Ok(after) => self.export_from(codes, target, request, after, now, &mut progress).await,
            Err(error) => Err(error.for_clicks().into()),
        };
        lock.release().await;
        done
    }

    /// Exports the clicks after a number.
    async fn export_from(
        &self,
        codes: &mut Codes,
        target: &OpenDestination,
        request: &ExportRequest<'_>,
        mut after: i64,
        now: Timestamp,
        progress: &mut impl FnMut(u64),
    ) -> Result<ExportReport, ExportError> {
        let last =
            self.last_event().await.map_err(StoreError::for_clicks)?.min(request.upto.unwrap_or(i64::MAX));
        let mut done = ExportReport::default();
        loop {
            let name = target.takes_parts().then(|| part_name(request, after + 1));
            let most = if name.is_some() { MAX_CLICKS_PER_PART } else { u64::MAX };
            let note = request.watermark.zip(target.named(name.as_deref())).map(|(watermark, file)| {
                FileNote { name: format!("{}{file}", note_prefix(watermark)), after, now }
            });
            let part = Part { name: name.as_deref(), note: note.as_ref(), after, last, most };
            let (clicks, upto) = self.export_part(codes, target, request, &part, progress).await?;
            done.clicks += clicks;
            done.parts.extend(name.filter(|_| clicks > 0));
            if let Some(name) = request.watermark {
                self.move_watermark(name, after, upto, now).await?;
            }
            after = upto;
            if after >= last {
                return Ok(done);
            }
        }
    }

    /// One file. An empty part is not written; a single file is, even when it is empty.
    async fn export_part(
        &self,
        codes: &mut Codes,
        target: &OpenDestination,
        request: &ExportRequest<'_>,
        part: &Part<'_>,
        progress: &mut impl FnMut(u64),
    ) -> Result<(u64, i64), ExportError> {
        let mut export = match part.name {
            Some(_) => None,
            None => Some(self.begin_file(target, request, part).await?),
        };
        let (mut written, mut after) = (0, part.after);
        while after < part.last && written < part.most {
            let span = EVENTS_PER_READ.min(part.last - after);
            let page = self.events_after(&request.filter, after, span, codes).await;
            let (clicks, _) = match page {
                Ok(page) => page,
                Err(error) => {
                    if let Some(export) = export {
                        export.abandon().await;
                    }
                    return Err(error.into());
                }
            };
            after += span;
            if clicks.is_empty() {
                continue;
            }
            if export.is_none() {
                export = Some(self.begin_file(target, request, part).await?);
            }
            if let Some(export) = &mut export {
                export.write(&clicks).await?;
            }
            written += clicks.len() as u64;
            progress(clicks.len() as u64);
        }
        if let Some(export) = export {
            self.finish_file(export, part).await?;
        }
        Ok((written, after))
    }

    async fn begin_file(
        &self,
        target: &OpenDestination,
        request: &ExportRequest<'_>,
        part: &Part<'_>,
    ) -> Result<Export, ExportError> {
        let is_ours = match part.note {
            Some(note) => self.has_note(&note.name).await.map_err(StoreError::for_clicks)?,
            None => false,
        };
        let overwrite = if is_ours { Overwrite::Replace } else { request.overwrite };
        Export::begin(target.begin(part.name, overwrite).await?, request.format)
    }

    /// Notes that the file is ours before it can be seen, so that whoever goes on after us knows.
    async fn finish_file(&self, export: Export, part: &Part<'_>) -> Result<(), ExportError> {
        let Some(note) = part.note else { return export.finish().await };
        self.insert_note(note).await.map_err(StoreError::for_clicks)?;
        let finished = export.finish().await;
        if matches!(finished, Err(ExportError::Exists(_))) {
            // Somebody else's after all.
            self.delete_note(&note.name).await.map_err(StoreError::for_clicks)?;
        }
        finished
    }

    /// How far exports by a name have come.
    pub async fn watermark(&self, name: &str) -> Result<i64, StoreError> {
        let row: Option<(i64,)> =
            read!(&self.pool, fetch_optional, "select upto from exports where name = $1", name)?;
        Ok(row.map_or(0, |(upto,)| upto))
    }

    /// Moves a watermark that is still where it was found, and forgets which file was being written.
    async fn move_watermark(
        &self,
        name: &str,
        from: i64,
        upto: i64,
        now: Timestamp,
    ) -> Result<(), ExportError> {
        match self.try_move(name, from, upto, now).await.map_err(StoreError::for_clicks)? {
            WatermarkMove::Moved => Ok(()),
            WatermarkMove::Conflict => Err(ExportError::Busy),
        }
    }

    async fn try_move(
        &self,
        name: &str,
        from: i64,
        upto: i64,
        now: Timestamp,
    ) -> Result<WatermarkMove, StoreError> {
        let mut tx = self.pool.begin().await?;
        let moved = run_in!(
            &mut tx,
            "insert into exports (name, upto, updated_at) values ($1, $2, $3)
             on conflict (name) do update set upto = excluded.upto, updated_at = excluded.updated_at
             where exports.upto = $4",
            name,
            upto,
            now.ms(),
            from
        )?;
        if moved == 0 {
            return Ok(WatermarkMove::Conflict);
        }
        let notes = note_prefix(name);
        run_in!(
            &mut tx,
            "delete from exports where substr(name, 1, cast($2 as integer)) = $1",
            notes.as_str(),
            i64::try_from(notes.len()).unwrap_or_default()
        )?;
        tx.commit().await?;
        Ok(WatermarkMove::Moved)
    }

    async fn has_note(&self, note: &str) -> Result<bool, StoreError> {
        let row: Option<(i64,)> =
            read!(&self.pool, fetch_optional, "select upto from exports where name = $1", note)?;
        Ok(row.is_some())
    }

    async fn insert_note(&self, note: &FileNote) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "insert into exports (name, upto, updated_at) values ($1, $2, $3) on conflict (name) do nothing",
            note.name.as_str(),
            note.after,
            note.now.ms()
        )?;
        tx.commit().await
    }

    async fn delete_note(&self, note: &str) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        run_in!(&mut tx, "delete from exports where name = $1", note)?;
        tx.commit().await
    }

    /// Takes a job that is due, by name: true for one caller in `every_ms`, on whichever node.
    pub async fn claim_job(&self, name: &str, every_ms: i64, now: Timestamp) -> Result<bool, StoreError> {
        let mut tx = self.pool.begin().await?;
        let taken = run_in!(
            &mut tx,
            "insert into exports (name, upto, updated_at) values ($1, 0, $2)
             on conflict (name) do update set updated_at = excluded.updated_at where exports.updated_at <= $3",
            format!("job:{name}"),
            now.ms(),
            now.ms() - every_ms
        )?;
        tx.commit().await?;
        Ok(taken == 1)
    }
}

/// The watermark of a workspace's clicks, or of one link's.
pub fn watermark_name(workspace: Id, link: Option<Id>) -> String {
    match link {
        Some(link) => format!("export:{workspace}:{link}"),
        None => format!("export:{workspace}"),
    }
}

/// Whether a watermark was still where it had been found.
enum WatermarkMove {
    Moved,
    Conflict,
}

/// One file of an export.
struct Part<'a> {
    name: Option<&'a str>,
    note: Option<&'a FileNote>,
    /// Clicks after this number,
    after: i64,
    /// up to this one,
    last: i64,
    /// and about so many at most.
    most: u64,
}

/// A row that says that a file is written by a watermark and the watermark has not passed it yet.
struct FileNote {
    name: String,
    after: i64,
    now: Timestamp,
}

/// How the notes of a watermark begin.
fn note_prefix(watermark: &str) -> String {
    format!("begun:{watermark}:")
}

fn part_name(request: &ExportRequest<'_>, first: i64) -> String {
    let ending = match request.format {
        Format::Lines(_) => "jsonl",
        Format::Parquet => "parquet",
    };
    format!("{}-{first:012}.{ending}", request.stem)
}
