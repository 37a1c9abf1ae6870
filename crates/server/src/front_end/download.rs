//! Links as a file to take away, written while it is being read.

use std::fmt::Display;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt as _};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use rlinks_ops::export::{Export, ExportFormat};
use rlinks_ops::{Caller, OpsError};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::FrontEnd;

/// A file of the links somebody sees.
pub(crate) async fn download(
    front_end: &FrontEnd,
    caller: &Caller,
    format: ExportFormat,
) -> Result<Response, OpsError> {
    let clicks = front_end.clicks().await?;
    let mut export = Export::new(&front_end.ops, Some(clicks), caller, format).await?;
    // What can go wrong goes wrong here mostly, while there is still an answer to give.
    let first = export.next().await?.unwrap_or_default();
    let rest = stream::try_unfold(export, |mut export| async move {
        Ok::<_, OpsError>(export.next().await?.map(|text| (text, export)))
    });
    let body = stream_body(first, rest);
    let name = format!("attachment; filename=\"{}\"", format.file_name());
    Ok(([(CONTENT_TYPE, format.media_type()), (CONTENT_DISPOSITION, &name)], body).into_response())
}

/// A body of pages that come as they are taken. It is read on a serving thread, which never touches the database; so they are made
/// here.
pub(crate) fn stream_body(
    first: String,
    rest: impl Stream<Item = Result<String, OpsError>> + Send + 'static,
) -> Body {
    stream_body_until(first, rest, None)
}

/// The same, but what hasn't been taken by the deadline is never made, and what `rest` holds is dropped.
pub(crate) fn stream_body_until<E: Display + Send>(
    first: String,
    rest: impl Stream<Item = Result<String, E>> + Send + 'static,
    deadline: Option<Instant>,
) -> Body {
    let (pages, taken) = mpsc::channel(1);
    let sending = async move {
        let mut rest = std::pin::pin!(rest);
        while let Some(page) = rest.next().await {
            // An answer that breaks off is seen to be none.
            let page = page.map_err(|error| std::io::Error::other(error.to_string()));
            let is_over = page.is_err();
            if pages.send(page).await.is_err() || is_over {
                return;
            }
        }
    };
    tokio::spawn(async move {
        match deadline {
            None => sending.await,
            // The length was announced, so it is seen that something is missing.
            Some(deadline) => drop(tokio::time::timeout_at(deadline, sending).await),
        }
    });
    let rest = stream::unfold(taken, |mut taken| async { Some((taken.recv().await?, taken)) });
    Body::from_stream(stream::iter([Ok(first)]).chain(rest))
}
