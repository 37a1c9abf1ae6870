//! `rmax shorten`: a link under a generated code, and its short URL alone on stdout.

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use rlinks_core::draft::{Input, TimeInput};
use rlinks_core::link::route_object::RouteObject;
use rlinks_ops::{Deleted, Mode, Outcome};
use serde::Serialize;

use crate::args::Shorten;
use crate::backend::Place;
use crate::backend::links::Made;
use crate::error::Failure;

/// A link as programs see it, and what became of the request.
#[derive(Serialize)]
struct Shortened {
    #[serde(flatten)]
    link: RouteObject,
    short_url: Option<String>,
    reused: bool,
    revived: bool,
    not_applied: Vec<String>,
}

pub(crate) async fn run(place: &Place, args: &Shorten) -> Result<(), Failure> {
    let (input, output) = (args.input(), place.output());
    let Made { seen, outcome, not_applied } = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => {
            let (workspace, by) = (session.workspace().await?, session.by());
            let change = async {
                Ok(session.ops.create(&by, &workspace, &input, Deleted::Refuse, None, Mode::Write).await?)
            };
            session.made(&workspace, session.change(change).await?).await?
        }
        Place::Server(remote) => remote.create(&input, Deleted::Refuse).await?,
    };
    seen.warn(output);
    if output.json {
        return output.object(&Shortened {
            link: place.object(&seen).await,
            short_url: seen.short_url,
            reused: matches!(outcome, Outcome::Reused | Outcome::Revived),
            revived: outcome == Outcome::Revived,
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
fn qr(url: &str) -> Result<String, Failure> {
    let code =
        QrCode::new(url).map_err(|error| Failure::failed(format!("no QR code can be drawn: {error}")))?;
    let drawn = code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
    Ok(drawn + "\n")
}
