//! Follows the requests of a connection, byte by byte as they arrive, and stops at the first whose framing two readers could understand
//! differently: hyper sees heads only after it has made one reading of them.
//!
//! Stricter than hyper everywhere, so that whatever passes ends for hyper exactly where it ends here. It keeps the beginning of one line
//! and nothing of a body.

/// As much of a line as is kept. Only lines that say where a body ends are read, and those are shorter.
const KEPT_BYTES: usize = 64;
/// The digits of a chunk's size.
const MAX_CHUNK_DIGITS: usize = 16;

/// A request that must not be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// How many bytes came before it, of those given last.
    pub at: usize,
    pub place: Place,
}

/// What a byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The request has not reached anyone yet.
    Head,
    /// The request is being handled already.
    Body,
}

/// Where in the stream of requests a connection is.
pub struct RequestScanner {
    part: Part,
    line: Line,
    framing: Framing,
}

#[derive(Clone, Copy)]
enum Part {
    /// A request line, or an empty line before it.
    RequestLine,
    Header,
    /// So many bytes, then the next request.
    Body(u64),
    ChunkSize,
    /// So many bytes, then the end of a line.
    Chunk(u64),
    ChunkEnd,
    Trailer,
}

/// What the headers so far say about the body.
#[derive(Clone, Copy)]
enum Framing {
    None,
    Length(u64),
    Chunked,
}

struct FramingError;

impl RequestScanner {
    /// At the beginning of a request.
    pub const fn new() -> Self {
        Self { part: Part::RequestLine, line: Line::new(), framing: Framing::None }
    }

    /// Takes the next bytes of the stream.
    pub fn scan(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if let Part::Body(left) | Part::Chunk(left) = &mut self.part {
                let skipped = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                *left -= skipped as u64;
                at += skipped;
                self.part = match self.part {
                    Part::Body(0) => Part::RequestLine,
                    Part::Chunk(0) => Part::ChunkEnd,
                    unfinished => unfinished,
                };
                continue;
            }
            let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
                self.line.push(rest);
                return Ok(());
            };
            self.line.push(&rest[..length]);
            let place = match self.part {
                Part::RequestLine | Part::Header => Place::Head,
                _ => Place::Body,
            };
            self.end_line().map_err(|FramingError| Violation { at: at + length, place })?;
            at += length + 1;
        }
        Ok(())
    }

    /// A line feed has come.
    fn end_line(&mut self) -> Result<(), FramingError> {
        let line = self.line.finish()?;
        self.part = match self.part {
            Part::RequestLine | Part::Trailer if line.is_empty() => Part::RequestLine,
            Part::RequestLine => Part::Header,
            Part::Header if line.is_empty() => match std::mem::replace(&mut self.framing, Framing::None) {
                Framing::None | Framing::Length(0) => Part::RequestLine,
                Framing::Length(length) => Part::Body(length),
                Framing::Chunked => Part::ChunkSize,
            },
            Part::Header => {
                self.framing = framing(&line, self.framing)?;
                Part::Header
            }
            Part::ChunkSize => match chunk_size(&line)? {
                0 => Part::Trailer,
                size => Part::Chunk(size),
            },
            Part::ChunkEnd if line.is_empty() => Part::ChunkSize,
            Part::Trailer => Part::Trailer,
            Part::ChunkEnd | Part::Body(_) | Part::Chunk(_) => return Err(FramingError),
        };
        Ok(())
    }
}

/// The framing after a header line.
fn framing(line: &FinishedLine, before: Framing) -> Result<Framing, FramingError> {
    let kept = line.kept();
    // A folded line continues the one before it, for those who know of folding.
    if matches!(kept.first(), Some(b' ' | b'\t')) {
        return Err(FramingError);
    }
    let Some(colon) = kept.iter().position(|byte| *byte == b':') else { return Ok(before) };
    let (name, value) = (&kept[..colon], kept[colon + 1..].trim_ascii());
    let is_length = name.eq_ignore_ascii_case(b"content-length");
    if !is_length && !name.eq_ignore_ascii_case(b"transfer-encoding") {
        return Ok(before);
    }
    if !matches!(before, Framing::None) || line.is_cut() {
        return Err(FramingError);
    }
    if is_length {
        return decimal(value).map(Framing::Length);
    }
    if value.eq_ignore_ascii_case(b"chunked") { Ok(Framing::Chunked) } else { Err(FramingError) }
}

/// Digits and nothing else: no sign, no list.
fn decimal(text: &[u8]) -> Result<u64, FramingError> {
    if !text.iter().all(u8::is_ascii_digit) {
        return Err(FramingError);
    }
    str::from_utf8(text).ok().and_then(|digits| digits.parse().ok()).ok_or(FramingError)
}

fn chunk_size(line: &FinishedLine) -> Result<u64, FramingError> {
    let kept = line.kept();
    let digits = kept.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let extension = kept[digits..].trim_ascii_start();
    if !(1..=MAX_CHUNK_DIGITS).contains(&digits) || !matches!(extension.first(), None | Some(b';')) {
        return Err(FramingError);
    }
    let digits = str::from_utf8(&kept[..digits]).map_err(|_| FramingError)?;
    u64::from_str_radix(digits, 16).map_err(|_| FramingError)
}

/// A line whose end has not come.
struct Line {
    kept: [u8; KEPT_BYTES],
    length: usize,
    ends_with_return: bool,
}

/// A whole line, without its end.
struct FinishedLine {
    kept: [u8; KEPT_BYTES],
    length: usize,
}

impl Line {
    const fn new() -> Self {
        Self { kept: [0; KEPT_BYTES], length: 0, ends_with_return: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.ends_with_return = *last == b'\r';
        let at = self.length.min(KEPT_BYTES);
        let count = bytes.len().min(KEPT_BYTES - at);
        self.kept[at..at + count].copy_from_slice(&bytes[..count]);
        self.length += bytes.len();
    }

    /// The line, if it ended in a carriage return before its line feed.
    fn finish(&mut self) -> Result<FinishedLine, FramingError> {
        let line = std::mem::replace(self, Self::new());
        if !line.ends_with_return {
            return Err(FramingError);
        }
        Ok(FinishedLine { kept: line.kept, length: line.length - 1 })
    }
}

impl FinishedLine {
    const fn is_empty(&self) -> bool {
        self.length == 0
    }

    const fn is_cut(&self) -> bool {
        self.length > KEPT_BYTES
    }

    fn kept(&self) -> &[u8] {
        &self.kept[..self.length.min(KEPT_BYTES)]
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, RequestScanner, Violation};

    /// What one reading of the whole stream says.
    fn verdict(stream: &[u8]) -> Option<Violation> {
        RequestScanner::new().scan(stream).err()
    }

    /// The same, of a stream that arrives in pieces of these lengths, again and again.
    fn verdict_in_pieces(stream: &[u8], mut next_length: impl FnMut() -> usize) -> Option<Violation> {
        let (mut scanner, mut at) = (RequestScanner::new(), 0);
        while at < stream.len() {
            let end = (at + next_length()).min(stream.len());
            if let Err(violation) = scanner.scan(&stream[at..end]) {
                return Some(Violation { at: at + violation.at, ..violation });
            }
            at = end;
        }
        None
    }

    const GOOD: [&str; 12] = [
        "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\nGET /a HTTP/1.1\r\nHost:a\r\nX: \r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na\nb\nc",
        "POST /a HTTP/1.1\r\nHost: a\r\ncontent-length:\t0 \r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\na\nb\r\nA;x=\"y\"\r\n0123456789\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\ntransfer-encoding:chunked\r\n\r\n00 ;x\r\nA: b\r\nC: d\r\n\r\n",
        "PUT /a HTTP/1.1\r\nHost: a\r\nX-Content-Length: 1\r\nContent-Length-X: 1\r\nContent: 1\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nCookie: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n0123456789",
        "GET /a HTTP/1.0\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n12345\r\n0\r\n\r\n",
        "DELETE /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0000000000000000000000000000000000000000003\r\n\r\nabc",
    ];

    const BAD_HEADS: [&str; 22] = [
        "\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a HTTP/1.1\nHost: a\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\n\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 00000000000000000000000000000000000000000000000000000000000005\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:                                                          chunked\r\n\r\n",
    ];

    const BAD_BODIES: [&str; 11] = [
        "zz\r\n",
        "\r\n",
        "-1\r\n",
        "11111111111111111\r\n",
        "1 1\r\n",
        "1\n",
        "1;a\n",
        "1\r\naa\r\n",
        "1\r\na\n",
        "0\r\n\n",
        "0\r\nA: b\n",
    ];

    fn chunked(body: &str) -> String {
        format!("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
    }

    #[test]
    fn requests_with_one_reading_pass_and_the_first_with_two_is_found() {
        let good = GOOD.concat();
        assert_eq!(verdict(good.as_bytes()), None);
        for bad in BAD_HEADS {
            let found = verdict(format!("{good}{bad}").as_bytes()).unwrap_or_else(|| panic!("{bad:?}"));
            assert_eq!(found.place, Place::Head, "{bad:?}");
            assert!((good.len()..good.len() + bad.len()).contains(&found.at), "{bad:?}: {found:?}");
        }
        for body in BAD_BODIES {
            let found = verdict(format!("{good}{}", chunked(body)).as_bytes());
            assert_eq!(found.map(|found| found.place), Some(Place::Body), "{body:?}");
        }
    }

    #[test]
    fn verdict_does_not_depend_on_how_the_stream_is_split() {
        let heads = BAD_HEADS.map(str::to_owned).into_iter();
        let streams = heads.chain(BAD_BODIES.map(chunked)).chain([String::new()]);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap() % below
        };
        for bad in streams {
            for _ in 0..50 {
                let mut stream: String = (0..random(4)).map(|_| GOOD[random(GOOD.len())]).collect();
                stream.push_str(&bad);
                let expected = verdict(stream.as_bytes());
                let longest = 1 + random(40);
                let found = verdict_in_pieces(stream.as_bytes(), || 1 + random(longest));
                assert_eq!(found, expected, "{stream:?}");
            }
        }
    }
}
