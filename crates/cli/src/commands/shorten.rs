//! `rmax shorten`: a link under a generated code, and its short URL alone on stdout.

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use rlinks_core::draft::{Input, TimeInput};
use rlinks_core::link::route_object::RouteObject;
use rlinks_ops::{OnDeletedCode, WriteMode, WriteOutcome};
use serde::Serialize;

use crate::args::Shorten;
use crate::backend::Backend;
use crate::backend::links::LinkResult;
use crate::error::CliError;

/// A link as programs see it, and what became of the request.
#[derive(Serialize)]
struct ShortenOutput {
    #[serde(flatten)]
    link: RouteObject,
    short_url: Option<String>,
    reused: bool,
    revived: bool,
    not_applied: Vec<String>,
}

pub(crate) async fn run(backend: &Backend, args: &Shorten) -> Result<(), CliError> {
    let (input, output) = (args.input(), backend.output());
    let LinkResult { details: seen, outcome, not_applied } = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let workspace = local.workspace().await?;
            let caller = local.caller_in(&workspace);
            let change = async {
                Ok(local.ops.create(&caller, &input, OnDeletedCode::Refuse, None, WriteMode::Apply).await?)
            };
            local.link_result(&workspace, local.change(change).await?).await?
        }
        Backend::Server(client) => client.create(&input, OnDeletedCode::Refuse).await?,
    };
    seen.print_warnings(output);
    if output.json {
        return output.object(&ShortenOutput {
            link: backend.route_object(&seen).await,
            short_url: seen.short_url,
            reused: matches!(outcome, WriteOutcome::Reused | WriteOutcome::Revived),
            revived: outcome == WriteOutcome::Revived,
            not_applied,
        });
    }
    output.line(&seen.address())?;
    if !not_applied.is_empty() {
        output.note(&format!(
            "this target has a link already; not applied: {} (`rmax links set {} <url>` changes it)",
            not_applied.join(", "),
            seen.link.code
        ));
    }
    match seen.short_url.filter(|_| args.qr) {
        Some(url) => output.raw(qr(&url)?.as_bytes()),
        None => Ok(()),
    }
}

impl Shorten {
    fn input(&self) -> Input {
        Input {
            code: self.code.clone(),
            target: Some(self.url.clone()),
            expires_at: self.expires.clone().map(|text| Some(TimeInput::Text(text))),
            title: self.title.clone(),
            add_tags: self.tag.clone(),
            https_only: self.no_https.then_some(false),
            ..Input::default()
        }
    }
}

/// Drawn dark on light, whatever the colours of the terminal: not every reader takes an inverted one.
fn qr(url: &str) -> Result<String, CliError> {
    let code =
        QrCode::new(url).map_err(|error| CliError::failed(format!("no QR code can be drawn: {error}")))?;
    let drawn = code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
    Ok(drawn + "\n")
}
