//! The tight loop for what nearly every request is: a whole `GET /code` or `HEAD /code` with ordinary headers, for a link that
//! redirects. It parses the head where it lies, writes the answer into one buffer and waits for the next.
//!
//! It decides nothing of its own: the link is looked up and decided by the functions the other way uses too. Whatever is not
//! that plain (a body, an odd header, half a head, another method, a code the table does not know, an error) goes to hyper with
//! every byte as it came, and the connection stays there. So limits, slow clients and odd requests have one owner.

use std::future::{Future as _, poll_fn};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use http::HeaderName;
use rlinks_core::click::attribution::{country, is_prefetch};
use rlinks_core::link::code::is_code;
use rlinks_core::{RedirectStatus, Timestamp};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::watch;

use crate::process::config::Reloadable;
use crate::redirect::acceptor::{HEADER_READ, Phase};
use crate::redirect::connection::{Headers, PURPOSES, Plainly, Visit};

/// Longer heads are not plain.
const INPUT_BYTES: usize = 8 * 1024;
/// Answers to pipelined requests are sent when they have grown to this.
const OUTPUT_BYTES: usize = 32 * 1024;
const MOST_HEADERS: usize = 32;

/// How the loop ended.
pub enum Ended {
    /// The connection is done.
    Closed,
    /// What was read and not answered is for hyper.
    NotPlain(Vec<u8>),
}

/// Serves plain requests until one is not, the peer leaves or lies idle, or the server drains.
pub async fn serve<S>(stream: &mut S, visit: &Visit, phase: &mut watch::Receiver<Phase>) -> Ended
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _asking = visit.ask_on();
    let mut input = vec![0; INPUT_BYTES];
    let mut settings = visit.settings();
    let mut out = Plain::default();
    let mut idle = pin!(tokio::time::sleep(HEADER_READ));
    let changes = phase.clone();
    let mut draining = pin!(phase.wait_for(|phase| *phase == Phase::Draining));
    let (mut answered, mut armed) = (false, false);
    loop {
        // The timer is not set anew for every request: when it fires, it is enough to know whether there was one.
        let read = poll_fn(|context| {
            let read = poll_read(stream, &mut input, context);
            if read.is_ready() {
                return read.map(Some);
            }
            // Timer and drain stay registered from one request to the next and need not be asked again, until one of them has
            // something to say: it may have said so while there was something to read, and it says so only once.
            if armed && !idle.is_elapsed() && !changes.has_changed().unwrap_or(true) {
                return Poll::Pending;
            }
            if draining.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            while idle.as_mut().poll(context).is_ready() {
                if !std::mem::take(&mut answered) {
                    return Poll::Ready(None);
                }
                idle.as_mut().reset(tokio::time::Instant::now() + HEADER_READ);
            }
            armed = true;
            Poll::Pending
        });
        let Some(Ok(length @ 1..)) = read.await else { return Ended::Closed };
        let mut at = 0;
        while at < length {
            let request = plain(&input[at..length], settings.load());
            let answered = match &request {
                None => Plainly::No,
                Some(request) => match answer(request, visit, &mut out) {
                    Plainly::Ask(workspace) => visit.ask_plainly(workspace, request, &mut out).await,
                    answered => answered,
                },
            };
            let request = request.filter(|_| answered == Plainly::Yes);
            let (used, last) = request.as_ref().map_or((0, false), |request| (request.length, request.last));
            at += used;
            if out.bytes.len() > OUTPUT_BYTES || at == length || last || request.is_none() {
                visit.write_clicks().await;
                if stream.write_all(&out.bytes).await.is_err() {
                    return Ended::Closed;
                }
                out.bytes.clear();
            }
            if request.is_none() {
                return Ended::NotPlain(input[at..length].to_vec());
            }
            if last {
                let _ = stream.shutdown().await;
                return Ended::Closed;
            }
        }
        answered = true;
    }
}

fn poll_read<S: AsyncRead + Unpin>(
    stream: &mut S,
    input: &mut [u8],
    context: &mut Context<'_>,
) -> Poll<std::io::Result<usize>> {
    let mut buffer = ReadBuf::new(input);
    Pin::new(stream).poll_read(context, &mut buffer).map_ok(|()| buffer.filled().len())
}

/// Answers a plain request, if it is for a link that redirects.
fn answer(request: &PlainRequest<'_>, visit: &Visit, out: &mut Plain) -> Plainly {
    let before = out.bytes.len();
    // A panic here is hyper's to answer.
    let answered = catch_unwind(AssertUnwindSafe(|| visit.redirect_plainly(request, out)));
    answered.unwrap_or_else(|_| {
        out.bytes.truncate(before);
        Plainly::No
    })
}

/// A plain request, where it lies.
pub struct PlainRequest<'a> {
    length: usize,
    /// Its one Host.
    pub host: &'a [u8],
    /// The code asked for.
    pub code: &'a str,
    /// The client closes after this one.
    pub last: bool,
    /// Only the head of the answer is wanted, and it is no click.
    pub head: bool,
    /// What a click keeps.
    pub click: Headers<'a>,
    /// What is configured at this moment.
    pub settings: &'a Reloadable,
}

fn plain<'a>(bytes: &'a [u8], settings: &'a Reloadable) -> Option<PlainRequest<'a>> {
    let country_header = settings.country_header.as_ref().map(HeaderName::as_str);
    let mut headers = [MaybeUninit::uninit(); MOST_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let Ok(httparse::Status::Complete(length)) = request.parse_with_uninit_headers(bytes, &mut headers)
    else {
        return None;
    };
    let head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return None,
    };
    if request.version != Some(1) {
        return None;
    }
    let path = request.path?.strip_prefix('/')?;
    let (code, query) = path.split_once('?').unwrap_or((path, ""));
    if !is_code(code) {
        return None;
    }
    let mut click = Headers { query: query.as_bytes(), ..Headers::default() };
    let (mut host, mut last) = (None, false);
    for header in request.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        match header.name.len() {
            4 if is("host") => match host {
                None => host = Some(header.value),
                Some(_) => return None,
            },
            7 if is("referer") => click.referrer = header.value,
            10 if is("user-agent") => click.user_agent = header.value,
            10 if is("connection") => match header.value {
                b"keep-alive" => {}
                b"close" => last = true,
                _ => return None,
            },
            // What gives a request a body, or asks for anything but an answer.
            6 if is("expect") => return None,
            7 if is("upgrade") || is("trailer") => return None,
            14 if is("content-length") => return None,
            17 if is("transfer-encoding") => return None,
            5 | 7 | 9 | 11 if PURPOSES.into_iter().any(is) => click.prefetch |= is_prefetch(header.value),
            // Two lines of them are read by the other way.
            15 if is("x-forwarded-for") && click.forwarded_for.replace(header.value).is_some() => {
                return None;
            }
            9 if is("forwarded") && click.forwarded.replace(header.value).is_some() => return None,
            _ => {}
        }
        if country_header.is_some_and(is) {
            click.country = country(header.value);
        }
    }
    Some(PlainRequest { length, host: host?, code, last, head, click, settings })
}

/// Answers on their way out.
#[derive(Default)]
pub struct Plain {
    bytes: Vec<u8>,
    /// The second `date` was written for.
    second: i64,
    date: Vec<u8>,
}

impl Plain {
    /// Writes one redirect.
    pub fn redirect(
        &mut self,
        status: RedirectStatus,
        target: &str,
        cache: &[u8],
        id: &[u8],
        last: bool,
        now: Timestamp,
    ) {
        let line: &[u8] = match status {
            RedirectStatus::MovedPermanently => b"HTTP/1.1 301 Moved Permanently\r\nlocation: ",
            RedirectStatus::Found => b"HTTP/1.1 302 Found\r\nlocation: ",
            RedirectStatus::TemporaryRedirect => b"HTTP/1.1 307 Temporary Redirect\r\nlocation: ",
            RedirectStatus::PermanentRedirect => b"HTTP/1.1 308 Permanent Redirect\r\nlocation: ",
        };
        self.write_date(now);
        let end: &[u8] = if last { b"\r\nconnection: close\r\n\r\n" } else { b"\r\n\r\n" };
        let parts: [&[u8]; 9] = [
            line,
            target.as_bytes(),
            b"\r\ncache-control: ",
            cache,
            b"\r\nx-robots-tag: noindex\r\nx-request-id: ",
            id,
            b"\r\ncontent-length: 0\r\ndate: ",
            &self.date,
            end,
        ];
        self.bytes.reserve(parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
    }

    fn write_date(&mut self, now: Timestamp) {
        let second = now.ms() / 1000;
        if second != self.second {
            self.second = second;
            let moment = UNIX_EPOCH + Duration::from_secs(second.unsigned_abs());
            self.date = httpdate::fmt_http_date(moment).into_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[track_caller]
    fn check(request: &str, expected: Option<(&str, &str, bool)>) {
        let settings = crate::Reloadable::default();
        let got = plain(request.as_bytes(), &settings);
        let got =
            got.map(|got| (std::str::from_utf8(got.host).unwrap().to_owned(), got.code.to_owned(), got.last));
        assert_eq!(
            got,
            expected.map(|(host, code, last)| (host.to_owned(), code.to_owned(), last)),
            "{request:?}"
        );
    }

    #[test]
    fn only_a_whole_ordinary_request_for_a_code_is_plain() {
        check("GET /ok HTTP/1.1\r\nHost: a\r\n\r\n", Some(("a", "ok", false)));
        check(
            "HEAD /ok?x=1&y HTTP/1.1\r\nhost: a\r\nConnection: close\r\nTE: trailers\r\n\r\n",
            Some(("a", "ok", true)),
        );
        check(
            "GET /ok HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\nGET /more",
            Some(("a", "ok", false)),
        );
        for request in [
            "GET /ok HTTP/1.1\r\nHost: a\r\n",
            "GET /ok HTTP/1.0\r\nHost: a\r\n\r\n",
            "POST /ok HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /ok/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /%6fk HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /ok+ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/ok HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /ok HTTP/1.1\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
            "GET /ok HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
            "\u{16}\u{3}\u{1} not http",
        ] {
            check(request, None);
        }
    }
}
