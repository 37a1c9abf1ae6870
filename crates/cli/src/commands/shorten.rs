//! `rmax shorten`: a link under a generated code, and its short URL alone on stdout.

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use rlinks_core::draft::{Input, TimeInput};
use rlinks_core::route_object::RouteObject;
use rlinks_server::ops::{Deleted, Mode, Outcome};
use serde::Serialize;

use crate::args::Shorten;
use crate::error::Failure;
use crate::session::Session;

/// A link as programs see it, and what became of the request.
#[derive(Serialize)]
struct Shortened {
    #[serde(flatten)]
    link: RouteObject,
    short_url: Option<String>,
    reused: bool,
    revived: bool,
    not_applied: Vec<&'static str>,
}

pub(super) async fn run(session: &Session, args: &Shorten) -> Result<(), Failure> {
    let workspace = session.workspace().await?;
    let by = session.by();
    let input = args.input();
    let change =
        async { Ok(session.ops.create(&by, &workspace, &input, Deleted::Refuse, None, Mode::Write).await?) };
    let done = session.change(change).await?;
    let url = session.short_url(&workspace, &done.link.code).await?;
    session.warn_unreached(&workspace, &done.link.code).await?;
    let not_applied = done.not_applied;
    if session.output.json {
        return session.output.object(&Shortened {
            link: session.object(&done.link).await,
            short_url: url,
            reused: matches!(done.outcome, Outcome::Reused | Outcome::Revived),
            revived: done.outcome == Outcome::Revived,
            not_applied,
        });
    }
    session.output.line(&session.address(&workspace, &done.link.code).await?)?;
    if !not_applied.is_empty() {
        session.output.note(&format!(
            "this target has a link already; not applied: {} (`rmax links set {} <url>` changes it)",
            not_applied.join(", "),
            done.link.code
        ));
    }
    match url.filter(|_| args.qr) {
        Some(url) => session.output.raw(qr(&url)?.as_bytes()),
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
