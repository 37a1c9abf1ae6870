//! `rmax links export`.

use rlinks_ops::export::{Export, ExportFormat, Exported};
use serde_json::json;

use crate::args;
use crate::backend::Place;
use crate::backend::cloudflare::Cloudflare;
use crate::backend::cloudflare::export::Leaving;
use crate::backend::local_store::Session;
use crate::commands::one_of;
use crate::error::Failure;
use crate::files::{NewFile, Overwrite};
use crate::output::{Output, counted};

pub(crate) async fn export(place: &Place, args: &args::ExportLinks) -> Result<(), Failure> {
    let format = export_format(args)?;
    let output = place.output();
    let mut file = NewFile::create(&args.file, Overwrite::forced(args.force))?;
    let (exported, notes) = match place {
        Place::Store(session) => {
            let mut leaving = of_store(session, format).await?;
            write(output, &mut leaving, &mut file).await?;
            (Some(leaving.exported().clone()), Vec::new())
        }
        Place::Cloudflare(cloudflare) => {
            let (exported, notes) = of_objects(cloudflare, format, &mut file).await?;
            (Some(exported), notes)
        }
        Place::Server(remote) => {
            remote.export(format.name(), &mut file).await?;
            (None, Vec::new())
        }
    };
    let is_stdout = file.is_stdout();
    file.finish()?;
    if let Some(exported) = &exported {
        warn(place, exported, format);
    }
    for note in notes {
        output.note(&note);
    }
    let wrote = exported.as_ref().map_or("wrote the links".to_owned(), |exported| {
        format!("wrote {}", counted(exported.links, "link"))
    });
    if is_stdout {
        output.note(&wrote);
        return Ok(());
    }
    if output.json {
        let count = exported.as_ref().map(|exported| exported.links);
        return output.object(&json!({ "file": args.file, "format": format.name(), "links": count }));
    }
    output.done(&format!("{wrote} to {}", args.file.display()))
}

/// Links on their way out of a place this process reads itself, a page of text at a time.
enum Out<'a> {
    Store(Box<Export>),
    Cloudflare(Box<Leaving<'a>>),
}

impl Out<'_> {
    async fn next(&mut self) -> Result<Option<String>, Failure> {
        match self {
            Self::Store(export) => Ok(export.next().await?),
            Self::Cloudflare(leaving) => leaving.next().await,
        }
    }

    fn exported(&self) -> &Exported {
        match self {
            Self::Store(export) => export.exported(),
            Self::Cloudflare(leaving) => leaving.exported(),
        }
    }
}

async fn of_store(session: &Session, format: ExportFormat) -> Result<Out<'static>, Failure> {
    let workspace = session.workspace().await?;
    let clicks = if session.has_clicks() { Some(session.clicks().await?) } else { None };
    let export = Export::new(&session.ops, clicks, &session.by(), &workspace, format).await?;
    Ok(Out::Store(Box::new(export)))
}

/// What was exported, and what else to know about it.
async fn of_objects(
    cloudflare: &Cloudflare,
    format: ExportFormat,
    file: &mut NewFile,
) -> Result<(Exported, Vec<String>), Failure> {
    let is_map = format.is_map();
    let mut notes = Vec::new();
    // Asked first: what goes wrong with a count must not cost an export that is complete.
    let deleted = if is_map { 0 } else { cloudflare.count_deleted().await? };
    if deleted > 0 {
        notes.push(format!(
            "deleted links were left out ({deleted}); their codes stay taken at Cloudflare, and only there"
        ));
    }
    let mut out = Out::Cloudflare(Box::new(cloudflare.leaving(format)));
    write(cloudflare.output, &mut out, file).await?;
    if let Out::Cloudflare(leaving) = &out
        && leaving.with_more > 0
        && !is_map
    {
        notes.push(format!(
            "fields that only objects at Cloudflare have were left out ({})",
            counted(leaving.with_more, "link")
        ));
    }
    Ok((out.exported().clone(), notes))
}

async fn write(output: Output, out: &mut Out<'_>, file: &mut NewFile) -> Result<(), Failure> {
    let bar = (!file.is_stdout()).then(|| output.counter("exporting links", None));
    let mut before = 0;
    while let Some(text) = out.next().await? {
        file.put(text.as_bytes())?;
        let links = out.exported().links;
        if let Some(bar) = &bar {
            bar.add(links - before);
        }
        before = links;
    }
    Ok(())
}

fn warn(place: &Place, exported: &Exported, format: ExportFormat) {
    let output = place.output();
    if exported.silent > 0 {
        output.note(&match exported.silent {
            1 => "1 link that does not answer (disabled, expired, deleted) was left out".to_owned(),
            silent => format!("{silent} links that do not answer (disabled, expired, deleted) were left out"),
        });
    }
    if !exported.unfit.is_empty() {
        let codes = exported.unfit.join(", ");
        output.warning(&format!("too long for {}, and left out: {codes}", format.name()));
    }
    if !exported.unreadable.is_empty() {
        let closer = match place {
            Place::Cloudflare(_) => "`wrangler kv key get` shows them as they are",
            Place::Store(_) | Place::Server(_) => "`rmax doctor` looks closer",
        };
        output.warning(&format!(
            "cannot be read, and were left out: {}; {closer}",
            exported.unreadable.join(", ")
        ));
    }
    if exported.too_many {
        output.warning("Cloudflare takes 2000 lines at most");
    }
}

/// As what: by its word, or by the name's ending.
fn export_format(args: &args::ExportLinks) -> Result<ExportFormat, Failure> {
    if let Some(format) = one_of("format", args.format.as_deref(), &ExportFormat::ALL)? {
        return Ok(format);
    }
    let name = args.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Ok(match name.rsplit_once('.').map_or(name, |(_, ending)| ending) {
        "csv" => ExportFormat::Csv,
        "_redirects" => ExportFormat::Cloudflare,
        "caddy" | "Caddyfile" => ExportFormat::Caddy,
        _ => ExportFormat::Jsonl,
    })
}
