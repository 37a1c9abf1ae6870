//! What hyper reads from: a socket whose requests are looked at as they pass. The first one that two readers could understand
//! differently never reaches hyper whole: it gets the answer to a malformed request, and the connection closes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::request_scanner::{Place, RequestScanner, Violation};

/// Ends a head that hyper has read a part of, whichever part, so that it answers 400.
const MALFORMED: &[u8] = b"\0\r\n\r\n";

pub struct CheckedStream<S> {
    stream: S,
    scanner: RequestScanner,
    ended: Option<StreamEnd>,
}

/// What is read once a request was refused.
enum StreamEnd {
    /// This, then nothing.
    Malformed(&'static [u8]),
    Error,
}

impl<S> CheckedStream<S> {
    /// The stream is at the beginning of a request.
    pub const fn new(stream: S) -> Self {
        Self { stream, scanner: RequestScanner::new(), ended: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CheckedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.ended.is_none() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
            let Err(Violation { at, place }) = this.scanner.scan(&buffer.filled()[before..]) else {
                return Poll::Ready(Ok(()));
            };
            buffer.set_filled(before + at);
            this.ended = Some(match place {
                Place::Head => StreamEnd::Malformed(MALFORMED),
                Place::Body => StreamEnd::Error,
            });
            // Nothing read would be the end of the stream.
            if at > 0 {
                return Poll::Ready(Ok(()));
            }
        }
        match &mut this.ended {
            Some(StreamEnd::Malformed(rest)) => {
                let (now, later) = rest.split_at(rest.len().min(buffer.remaining()));
                buffer.put_slice(now);
                *rest = later;
                Poll::Ready(Ok(()))
            }
            _ => Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CheckedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::{CheckedStream, MALFORMED};

    async fn read_all(stream: &[u8]) -> (Vec<u8>, bool) {
        let (mut read, mut checked) = (Vec::new(), CheckedStream::new(stream));
        let ended_well = checked.read_to_end(&mut read).await.is_ok();
        (read, ended_well)
    }

    #[tokio::test]
    async fn valid_requests_pass_unchanged_and_the_rest_of_an_invalid_one_is_withheld() {
        let head = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";
        let valid = format!("{head}\r\n3\r\na\nb\r\n0\r\nA: b\r\n\r\n").repeat(3);
        assert_eq!(read_all(valid.as_bytes()).await, (valid.clone().into_bytes(), true));
        let (read, ended_well) =
            read_all(format!("{valid}{head}Content-Length: 5\r\n\r\nGET /b").as_bytes()).await;
        let expected = [valid.as_bytes(), head.as_bytes(), b"Content-Length: 5\r", MALFORMED].concat();
        assert!(ended_well && read == expected, "{}", read.escape_ascii());
        let (read, ended_well) = read_all(format!("{head}\r\n3\r\nabcd\r\n0\r\n\r\n").as_bytes()).await;
        let expected = format!("{head}\r\n3\r\nabcd\r");
        assert!(!ended_well && read == expected.as_bytes(), "{}", read.escape_ascii());
        assert_eq!(read_all(b"\nGET /a HTTP/1.1\r\n\r\n").await, (MALFORMED.to_vec(), true));
    }
}
