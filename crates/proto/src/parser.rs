//! The incremental request parser.

use crate::inline;
use crate::number::parse_i64;
use std::fmt;

/// What a request may cost; over it the connection gets a [`ProtocolError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of one request.
    pub args_max: usize,
    /// Bytes of one argument.
    pub bulk_bytes_max: usize,
    /// Bytes of an inline command or of a length line.
    pub inline_bytes_max: usize,
    /// Bytes of one whole request, framing included; below 4 GiB.
    pub request_bytes_max: usize,
    /// True before a client has proven who it is; chooses the error texts.
    pub unauthenticated: bool,
}

impl Limits {
    /// For clients that are let in.
    pub const OPEN: Limits = Limits {
        args_max: 1 << 20,
        bulk_bytes_max: 512 << 20,
        inline_bytes_max: 64 << 10,
        request_bytes_max: 1 << 30,
        unauthenticated: false,
    };

    /// For clients that have not given their password yet.
    pub const BEFORE_AUTH: Limits = Limits {
        args_max: 10,
        bulk_bytes_max: 16 << 10,
        inline_bytes_max: 16 << 10,
        request_bytes_max: 256 << 10,
        unauthenticated: true,
    };
}

/// An argument: a range of the bytes that hold its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte, counted from the start of the request.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

impl Span {
    /// The argument's bytes in `buf`.
    #[inline]
    pub fn of(self, buf: &[u8]) -> &[u8] {
        &buf[self.start as usize..self.start as usize + self.len as usize]
    }

    /// The span of this argument if its request starts at `base` of a larger buffer.
    #[inline]
    #[must_use]
    pub fn at(self, base: usize) -> Self {
        Span { start: self.start + base as u32, len: self.len }
    }
}

/// Why the bytes are no request. The connection cannot go on after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number after `*` is not one, or too large.
    InvalidMultibulkLength,
    /// The number after `$` is not one, or too large.
    InvalidBulkLength,
    /// More arguments than a client without password may send.
    UnauthenticatedMultibulkLength,
    /// A longer argument than a client without password may send.
    UnauthenticatedBulkLength,
    /// The line after `*` does not end.
    TooBigCountLine,
    /// The line after `$` does not end.
    TooBigBulkLine,
    /// An inline command does not end.
    TooBigInline,
    /// All arguments together are over the limit.
    TooBigRequest,
    /// An argument does not start with `$`.
    ExpectedDollar(u8),
    /// An inline command has an open quote.
    UnbalancedQuotes,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        f.write_str(match self {
            ProtocolError::InvalidMultibulkLength => "invalid multibulk length",
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::TooBigCountLine => "too big mbulk count string",
            ProtocolError::TooBigBulkLine => "too big bulk count string",
            ProtocolError::TooBigInline => "too big inline request",
            ProtocolError::TooBigRequest => "too big request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
            ProtocolError::ExpectedDollar(byte) => {
                // A control character would break the error's own line.
                let shown = if byte.is_ascii_control() { ' ' } else { char::from(*byte) };
                return write!(f, "expected '$', got '{shown}'");
            }
        })
    }
}

impl std::error::Error for ProtocolError {}

/// Parses one connection's requests, a piece at a time.
///
/// The caller keeps the bytes. It calls [`Parser::parse`] with everything received from the
/// start of the current request on; after `Ok(None)` it calls again when more bytes follow,
/// and nothing is parsed twice. After `Ok(Some(n))` the request is complete, `n` bytes long, its
/// arguments are [`Parser::args`], and the next call starts with the bytes behind it.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    /// Bytes of this request that are done with.
    pos: usize,
    /// Bytes after `pos` known to hold no line end.
    scanned: usize,
    /// Arguments still to come, where the request is an array.
    missing: usize,
    /// Length of the argument whose bytes start at `pos`.
    bulk: Option<usize>,
    /// True once the line after `*` was read.
    counted: bool,
    /// True when the last call completed a request.
    complete: bool,
    spans: Vec<Span>,
}

impl Parser {
    /// A parser at the start of a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Arguments of the request just completed, counted from its first byte. An empty array or
    /// a blank line is a request without arguments, to be skipped.
    pub fn args(&self) -> &[Span] {
        &self.spans
    }

    /// Bytes that the current request has at least, as far as it has said.
    pub fn needed_bytes(&self) -> usize {
        if self.complete { 0 } else { self.pos + self.bulk.map_or(0, |len| len + 2) }
    }

    /// Bytes of the longest argument so far that is not all there.
    pub fn bulk_bytes(&self) -> usize {
        self.bulk.unwrap_or(0)
    }

    /// Memory held.
    pub fn held_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }

    /// Gives the current request up, of which `buf` has what has come: what is left of it, to be
    /// skipped. The next call of [`Parser::parse`] starts with the bytes behind it. Nothing if it
    /// has hardly begun.
    pub fn give_up(&mut self, buf: &[u8]) -> Option<Rest> {
        let rest = match (self.counted, self.bulk) {
            (true, Some(len)) => Rest {
                left: self.pos + len + 2 - buf.len(),
                missing: self.missing - 1,
                ..Rest::default()
            },
            (true, None) => {
                Rest { missing: self.missing, line: buf[self.pos..].to_vec(), ..Rest::default() }
            }
            (false, _) if buf.first() == Some(&b'*') => return None,
            (false, _) => Rest { is_inline: true, ..Rest::default() },
        };
        *self = Parser::new();
        Some(rest)
    }

    /// Parses the request that `buf` starts with where it is all there and of the usual form: a few
    /// short arguments, which every client may send. They go to the end of `spans`, counted from
    /// `base` bytes before the request; returns its length. `None` leaves it to
    /// [`Parser::parse`].
    #[inline]
    pub fn parse_usual(&mut self, buf: &[u8], base: usize, spans: &mut Vec<Span>) -> Option<usize> {
        if self.complete {
            self.reset();
        }
        if self.counted || self.scanned > 0 {
            return None;
        }
        usual(buf, base, spans)
    }

    /// Goes on with the current request; see the type for the protocol of calls. An inline
    /// command is unquoted in place, which is why `buf` is mutable.
    pub fn parse(
        &mut self,
        buf: &mut [u8],
        limits: &Limits,
    ) -> Result<Option<usize>, ProtocolError> {
        if self.complete {
            self.reset();
        }
        if !self.counted {
            match buf.first() {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => return self.parse_inline(buf, limits),
            }
            let Some(line) = self.line(buf, limits, ProtocolError::TooBigCountLine)? else {
                return Ok(None);
            };
            self.count(&buf[1..line], limits)?;
        }
        while self.missing > 0 {
            if !self.argument(buf, limits)? {
                return Ok(None);
            }
        }
        self.complete = true;
        Ok(Some(self.pos))
    }

    /// Forgets the last request and any large allocation it needed.
    fn reset(&mut self) {
        let mut spans = std::mem::take(&mut self.spans);
        spans.clear();
        spans.shrink_to(64);
        *self = Parser { spans, ..Parser::default() };
    }

    fn count(&mut self, digits: &[u8], limits: &Limits) -> Result<(), ProtocolError> {
        let count = parse_i64(digits).ok_or(ProtocolError::InvalidMultibulkLength)?;
        let count = usize::try_from(count).unwrap_or(0);
        if count > limits.args_max {
            return Err(match limits.unauthenticated {
                true => ProtocolError::UnauthenticatedMultibulkLength,
                false => ProtocolError::InvalidMultibulkLength,
            });
        }
        self.missing = count;
        self.counted = true;
        Ok(())
    }

    /// Reads one argument; false where its bytes are not all there.
    #[inline]
    fn argument(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let len = match self.bulk {
            Some(len) => len,
            None => {
                let start = self.pos;
                match buf.get(start) {
                    None => return Ok(false),
                    Some(b'$') => {}
                    Some(&other) => return Err(ProtocolError::ExpectedDollar(other)),
                }
                let Some(end) = self.line(buf, limits, ProtocolError::TooBigBulkLine)? else {
                    return Ok(false);
                };
                let len = self.bulk_len(&buf[start + 1..end], limits)?;
                self.bulk = Some(len);
                len
            }
        };
        // The two bytes behind an argument are skipped, whatever they are; where they are not
        // a line end the next argument will not start with `$`.
        if buf.len() < self.pos + len + 2 {
            return Ok(false);
        }
        self.spans.push(Span { start: self.pos as u32, len: len as u32 });
        self.pos += len + 2;
        self.bulk = None;
        self.missing -= 1;
        Ok(true)
    }

    fn bulk_len(&self, digits: &[u8], limits: &Limits) -> Result<usize, ProtocolError> {
        let len = parse_i64(digits).and_then(|n| usize::try_from(n).ok());
        let len = len.ok_or(ProtocolError::InvalidBulkLength)?;
        if len > limits.bulk_bytes_max {
            return Err(match limits.unauthenticated {
                true => ProtocolError::UnauthenticatedBulkLength,
                false => ProtocolError::InvalidBulkLength,
            });
        }
        if self.pos + len + 2 > limits.request_bytes_max {
            return Err(ProtocolError::TooBigRequest);
        }
        Ok(len)
    }

    /// Finds the line that starts at `pos`, moves `pos` behind it and returns where its text
    /// ends; `None` where the line end has not come yet.
    #[inline]
    fn line(
        &mut self,
        buf: &[u8],
        limits: &Limits,
        too_big: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let from = self.pos + self.scanned;
        let end = buf[from..].iter().position(|b| *b == b'\r').map(|i| from + i);
        let text_len = end.unwrap_or(buf.len()) - self.pos;
        if text_len > limits.inline_bytes_max {
            return Err(too_big);
        }
        match end {
            Some(end) if end + 1 < buf.len() => {
                self.pos = end + 2;
                self.scanned = 0;
                Ok(Some(end))
            }
            Some(end) => {
                self.scanned = end - self.pos;
                Ok(None)
            }
            None => {
                self.scanned = text_len;
                Ok(None)
            }
        }
    }

    fn parse_inline(
        &mut self,
        buf: &mut [u8],
        limits: &Limits,
    ) -> Result<Option<usize>, ProtocolError> {
        let end = buf[self.scanned..].iter().position(|b| *b == b'\n').map(|i| self.scanned + i);
        if end.unwrap_or(buf.len()) > limits.inline_bytes_max {
            return Err(ProtocolError::TooBigInline);
        }
        let Some(end) = end else {
            self.scanned = buf.len();
            return Ok(None);
        };
        let text = if end > 0 && buf[end - 1] == b'\r' { end - 1 } else { end };
        if !inline::split(&mut buf[..text], &mut self.spans) {
            return Err(ProtocolError::UnbalancedQuotes);
        }
        if limits.unauthenticated && self.spans.len() > limits.args_max {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        self.complete = true;
        Ok(Some(end + 1))
    }
}

/// What is left of a request that is not kept: its bytes are counted and thrown away.
#[derive(Debug, Clone, Default)]
pub struct Rest {
    /// Bytes of the current argument that are to come.
    left: usize,
    /// Arguments behind it.
    missing: usize,
    /// The beginning of the next argument's length line.
    line: Vec<u8>,
    /// It is an inline command, which ends with its line.
    is_inline: bool,
}

/// Bytes of a length line that is skipped.
const SKIPPED_LINE_BYTES_MAX: usize = 64;

impl Rest {
    /// Skips what `bytes` have of the request: how many bytes that is if they have its end, else
    /// nothing, and all of them belong to it.
    ///
    /// # Errors
    /// If it is no request.
    pub fn skip(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        if self.is_inline {
            return Ok(bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1));
        }
        let mut pos = 0;
        loop {
            let skipped = self.left.min(bytes.len() - pos);
            (self.left, pos) = (self.left - skipped, pos + skipped);
            if self.left > 0 {
                return Ok(None);
            }
            if self.missing == 0 {
                return Ok(Some(pos));
            }
            let end = bytes[pos..].iter().position(|byte| *byte == b'\n').map(|end| pos + end + 1);
            let line = &bytes[pos..end.unwrap_or(bytes.len())];
            if self.line.len() + line.len() > SKIPPED_LINE_BYTES_MAX {
                return Err(ProtocolError::TooBigBulkLine);
            }
            self.line.extend_from_slice(line);
            let Some(end) = end else { return Ok(None) };
            pos = end;
            let line = std::mem::take(&mut self.line);
            let (first, digits) = line.split_first().expect("it has a line end");
            if *first != b'$' {
                return Err(ProtocolError::ExpectedDollar(*first));
            }
            let len = parse_i64(digits.trim_ascii_end()).and_then(|n| usize::try_from(n).ok());
            let len = len.filter(|len| *len <= limits.bulk_bytes_max);
            self.left = len.ok_or(ProtocolError::InvalidBulkLength)? + 2;
            self.missing -= 1;
        }
    }
}

/// An array of up to nine arguments whose lengths have up to three digits.
#[inline]
fn usual(buf: &[u8], base: usize, spans: &mut Vec<Span>) -> Option<usize> {
    let [b'*', count @ b'1'..=b'9', b'\r', b'\n', ..] = buf else { return None };
    let before = spans.len();
    let mut pos = 4;
    for _ in b'0'..*count {
        let Some((start, len)) = usual_argument(buf, pos) else {
            spans.truncate(before);
            return None;
        };
        spans.push(Span { start: (base + start) as u32, len: len as u32 });
        pos = start + len + 2;
    }
    Some(pos)
}

/// Where the argument whose `$` stands at `pos` starts, and its length.
#[inline]
fn usual_argument(buf: &[u8], pos: usize) -> Option<(usize, usize)> {
    let digit = |byte: u8| usize::from(byte - b'0');
    let (start, len) = match buf.get(pos..)? {
        [b'$', a @ b'0'..=b'9', b'\r', b'\n', ..] => (pos + 4, digit(*a)),
        [b'$', a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] => {
            (pos + 5, 10 * digit(*a) + digit(*b))
        }
        [b'$', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b'\r', b'\n', ..] => {
            (pos + 6, 100 * digit(*a) + 10 * digit(*b) + digit(*c))
        }
        _ => return None,
    };
    (start + len + 2 <= buf.len()).then_some((start, len))
}

#[cfg(test)]
mod tests;
