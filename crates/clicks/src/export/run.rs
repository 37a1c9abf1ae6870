//! An export from beginning to end: which clicks, in which parts, and how far the next one may begin.

use rlinks_core::{Id, Timestamp};
use rlinks_store::StoreError;
use rlinks_store::pool::{read, run_in};

use super::{Export, ExportError, Format, Overwrite, Target};
use crate::events::{Codes, EventFilter};
use crate::open::Clicks;

/// Numbers looked through at once.
const SPAN: i64 = 10_000;
/// Clicks in one part.
const PART: u64 = 1_000_000;

/// What to export.
pub struct Wanted<'a> {
    /// Which clicks.
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

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// How many clicks.
    pub clicks: u64,
    /// The names of the parts, where there are parts.
    pub parts: Vec<String>,
}

impl Clicks {
    /// Exports clicks in the order they were stored. Where the place takes parts, each is whole before the watermark passes it, and
    /// is named after the number it begins with: an export that was cut off goes on where it was and writes the same names.
    pub async fn export(
        &self,
        codes: &mut Codes,
        target: &Target,
        wanted: &Wanted<'_>,
        now: Timestamp,
        mut progress: impl FnMut(u64),
    ) -> Result<Exported, ExportError> {
        let mut after = match wanted.watermark {
            Some(name) => self.watermark(name).await?,
            None => 0,
        };
        let last = self.last_event().await?.min(wanted.upto.unwrap_or(i64::MAX));
        let mut done = Exported::default();
        loop {
            let name = target.takes_parts().then(|| part_name(wanted, after + 1));
            let most = if name.is_some() { PART } else { u64::MAX };
            let (clicks, upto) = self
                .export_part(codes, target, wanted, name.as_deref(), after, last, most, &mut progress)
                .await?;
            done.clicks += clicks;
            done.parts.extend(name.filter(|_| clicks > 0));
            after = upto;
            if let Some(name) = wanted.watermark {
                self.set_watermark(name, after, now).await?;
            }
            if after >= last {
                return Ok(done);
            }
        }
    }

    /// One file. An empty part is not written; a single file is, even when it is empty.
    #[expect(clippy::too_many_arguments, reason = "all of them belong to one export")]
    async fn export_part(
        &self,
        codes: &mut Codes,
        target: &Target,
        wanted: &Wanted<'_>,
        name: Option<&str>,
        mut after: i64,
        last: i64,
        most: u64,
        progress: &mut impl FnMut(u64),
    ) -> Result<(u64, i64), ExportError> {
        // What a cut-off export by a watermark left is ours to replace.
        let overwrite =
            if name.is_some() && wanted.watermark.is_some() { Overwrite::Replace } else { wanted.overwrite };
        let mut export = match name {
            Some(_) => None,
            None => Some(Export::begin(target.begin(None, overwrite).await?, wanted.format)?),
        };
        let mut written = 0;
        while after < last && written < most {
            let span = SPAN.min(last - after);
            let page = self.events_after(&wanted.filter, after, span, codes).await;
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
                export = Some(Export::begin(target.begin(name, overwrite).await?, wanted.format)?);
            }
            if let Some(export) = &mut export {
                export.write(&clicks).await?;
            }
            written += clicks.len() as u64;
            progress(clicks.len() as u64);
        }
        if let Some(export) = export {
            export.finish().await?;
        }
        Ok((written, after))
    }

    /// How far exports by a name have come.
    pub async fn watermark(&self, name: &str) -> Result<i64, StoreError> {
        let row: Option<(i64,)> =
            read!(&self.pool, fetch_optional, "select upto from exports where name = $1", name)?;
        Ok(row.map_or(0, |(upto,)| upto))
    }

    async fn set_watermark(&self, name: &str, upto: i64, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "insert into exports (name, upto, updated_at) values ($1, $2, $3)
             on conflict (name) do update set upto = excluded.upto, updated_at = excluded.updated_at",
            name,
            upto,
            now.ms()
        )?;
        tx.commit().await
    }

    /// Takes a job that is due, by name: true for one caller in `every_ms`, on whichever node.
    pub async fn take_job(&self, name: &str, every_ms: i64, now: Timestamp) -> Result<bool, StoreError> {
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

fn part_name(wanted: &Wanted<'_>, first: i64) -> String {
    let ending = match wanted.format {
        Format::Lines(_) => "jsonl",
        Format::Parquet => "parquet",
    };
    format!("{}-{first:012}.{ending}", wanted.stem)
}
