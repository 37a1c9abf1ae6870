//! `rmax links export`.

use rlinks_ops::export::{Export, ExportFormat, ExportReport};
use rlinks_store::database::atomic_file::Overwrite;
use serde_json::json;

use crate::args;
use crate::backend::Backend;
use crate::backend::cloudflare::Cloudflare;
use crate::backend::cloudflare::export::ObjectExport;
use crate::backend::local_store::LocalStore;
use crate::commands::one_of;
use crate::error::CliError;
use crate::files::OutputFile;
use crate::output::{Output, pluralize};

pub(crate) async fn export(backend: &Backend, args: &args::ExportLinks) -> Result<(), CliError> {
    let format = export_format(args)?;
    let output = backend.output();
    let mut file = OutputFile::create(&args.file, Overwrite::from_flag(args.force))?;
    let (exported, notes) = match backend {
        Backend::Store(local) => {
            let mut source = export_store(local, format).await?;
            write(output, &mut source, &mut file).await?;
            (Some(source.exported().clone()), Vec::new())
        }
        Backend::Cloudflare(cloudflare) => {
            let (exported, notes) = export_cloudflare(cloudflare, format, &mut file).await?;
            (Some(exported), notes)
        }
        Backend::Server(client) => {
            client.export(format.name(), &mut file).await?;
            (None, Vec::new())
        }
    };
    let is_stdout = file.is_stdout();
    file.finish()?;
    if let Some(exported) = &exported {
        warn(backend, exported, format);
    }
    for note in notes {
        output.note(&note);
    }
    let wrote = exported.as_ref().map_or("wrote the links".to_owned(), |exported| {
        format!("wrote {}", pluralize(exported.links, "link"))
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
enum ExportSource<'a> {
    Store(Box<Export>),
    Cloudflare(Box<ObjectExport<'a>>),
}

impl ExportSource<'_> {
    async fn next(&mut self) -> Result<Option<String>, CliError> {
        match self {
            Self::Store(export) => Ok(export.next().await?),
            Self::Cloudflare(source) => source.next().await,
        }
    }

    fn exported(&self) -> &ExportReport {
        match self {
            Self::Store(export) => export.report(),
            Self::Cloudflare(source) => source.exported(),
        }
    }
}

async fn export_store(local: &LocalStore, format: ExportFormat) -> Result<ExportSource<'static>, CliError> {
    let workspace = local.workspace().await?;
    let clicks = if local.has_clicks() { Some(local.clicks().await?) } else { None };
    let export = Export::new(&local.ops, clicks, &local.caller_in(&workspace), format).await?;
    Ok(ExportSource::Store(Box::new(export)))
}

/// What was exported, and what else to know about it.
async fn export_cloudflare(
    cloudflare: &Cloudflare,
    format: ExportFormat,
    file: &mut OutputFile,
) -> Result<(ExportReport, Vec<String>), CliError> {
    let is_map = format.is_map();
    let mut notes = Vec::new();
    // Asked first: what goes wrong with a count must not cost an export that is complete.
    let deleted = if is_map { 0 } else { cloudflare.count_deleted().await? };
    if deleted > 0 {
        notes.push(format!(
            "deleted links were left out ({deleted}); their codes stay taken at Cloudflare, and only there"
        ));
    }
    let mut out = ExportSource::Cloudflare(Box::new(cloudflare.export_objects(format)));
    write(cloudflare.output, &mut out, file).await?;
    if let ExportSource::Cloudflare(source) = &out
        && source.with_unknown_fields > 0
        && !is_map
    {
        notes.push(format!(
            "fields that only objects at Cloudflare have were left out ({})",
            pluralize(source.with_unknown_fields, "link")
        ));
    }
    Ok((out.exported().clone(), notes))
}

async fn write(output: Output, out: &mut ExportSource<'_>, file: &mut OutputFile) -> Result<(), CliError> {
    let bar = (!file.is_stdout()).then(|| output.counter("exporting links", None));
    let mut before = 0;
    while let Some(text) = out.next().await? {
        file.write_chunk(text.as_bytes())?;
        let links = out.exported().links;
        if let Some(bar) = &bar {
            bar.add(links - before);
        }
        before = links;
    }
    Ok(())
}

fn warn(backend: &Backend, exported: &ExportReport, format: ExportFormat) {
    let output = backend.output();
    if exported.inactive > 0 {
        output.note(&match exported.inactive {
            1 => "1 link that does not answer (disabled, expired, deleted) was left out".to_owned(),
            silent => format!("{silent} links that do not answer (disabled, expired, deleted) were left out"),
        });
    }
    if !exported.unfit.is_empty() {
        let codes = exported.unfit.join(", ");
        output.warning(&format!("too long for {}, and left out: {codes}", format.name()));
    }
    if !exported.unreadable.is_empty() {
        let closer = match backend {
            Backend::Cloudflare(_) => "`wrangler kv key get` shows them as they are",
            Backend::Store(_) | Backend::Server(_) => "`rmax doctor` looks closer",
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
fn export_format(args: &args::ExportLinks) -> Result<ExportFormat, CliError> {
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
