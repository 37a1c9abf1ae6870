//! Bodies of answers: nothing, a few bytes, or whatever a handler streams.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use rlinks_core::redirect::response::HttpResponse;
use tokio::sync::OwnedSemaphorePermit;

pub enum Body {
    /// None, or all of it at once.
    Whole(Option<Bytes>),
    /// From a handler of the control plane, with the slot it takes until it is sent.
    Streamed { body: axum::body::Body, _slot: Option<OwnedSemaphorePermit> },
}

impl Body {
    pub const fn empty() -> Self {
        Self::Whole(None)
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Streamed { body, .. } => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Streamed { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Streamed { body, .. } => body.size_hint(),
        }
    }
}

/// An answer of core's as an HTTP response.
pub fn into_response(answer: HttpResponse) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(answer.body.into())));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(value)) {
            response.headers_mut().append(HeaderName::from_static(name), value);
        }
    }
    response
}
