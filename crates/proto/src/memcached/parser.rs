//! The incremental parser of the text protocol.

use super::{Fault, Limits, Request, line};
use crate::Span;
use std::fmt;

/// A line is longer than any may be; the connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the line is too long")
    }
}

impl std::error::Error for TooLong {}

/// What the first word of a line says about the bytes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// Nothing follows.
    None,
    /// So many bytes of data, and a line end.
    Data(usize),
    /// So many bytes that are to be thrown away.
    Skip(usize),
}

/// Parses one connection's requests, a piece at a time.
///
/// The caller keeps the bytes. It calls [`Parser::parse`] with everything received from the
/// start of the current request on; after `Ok(None)` it calls again when more bytes follow,
/// and no line is parsed twice. After `Ok(Some(n))` a request of `n` bytes is complete, and the
/// next call starts with the bytes behind it.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    /// Bytes from the start known to hold no line end.
    scanned: usize,
    /// Where the data of the request starts and how long it is, once its line was read.
    data: Option<(usize, usize)>,
    /// Bytes still to be thrown away.
    skip: usize,
    request: Request,
    quiet: bool,
    spans: Vec<Span>,
}

impl Parser {
    /// A parser at the start of a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// The request just completed.
    pub fn request(&self) -> Request {
        self.request
    }

    /// True where its client wants no answer.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Keys and data of the request just completed, counted from its first byte.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Bytes that the current request has at least, as far as it has said.
    pub fn needed_bytes(&self) -> usize {
        self.data.map_or(0, |(start, len)| start + len + 2)
    }

    /// Memory held.
    pub fn held_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }

    /// Forgets that the line of the current request was read: the next call reads it again, within
    /// other limits. What data a request has that is over them is skipped.
    pub fn restart(&mut self) {
        (self.data, self.scanned) = (None, 0);
    }

    /// Goes on with the current request; see the type for the protocol of calls.
    pub fn parse(&mut self, buf: &mut [u8], limits: &Limits) -> Result<Option<usize>, TooLong> {
        if let Some((start, len)) = self.data {
            return Ok(self.finish(buf, start, len));
        }
        self.spans.clear();
        self.spans.shrink_to(64);
        if self.skip > 0 && !buf.is_empty() {
            let used = self.skip.min(buf.len());
            self.skip -= used;
            (self.request, self.quiet) = (Request::Nothing, true);
            return Ok(Some(used));
        }
        let found = buf[self.scanned..].iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| self.scanned + at) else {
            self.scanned = buf.len();
            return if is_too_long(buf, buf.len(), limits) { Err(TooLong) } else { Ok(None) };
        };
        self.scanned = 0;
        if is_too_long(buf, end, limits) {
            return Err(TooLong);
        }
        let parsed = line::parse(buf, end, limits, &mut self.spans);
        (self.request, self.quiet) = (parsed.request, parsed.quiet);
        match parsed.body {
            Body::None => Ok(Some(end + 1)),
            Body::Skip(len) => {
                self.skip = len;
                Ok(Some(end + 1))
            }
            Body::Data(len) => {
                self.data = Some((end + 1, len));
                Ok(self.finish(buf, end + 1, len))
            }
        }
    }

    /// Ends a request with data where all of it is there.
    fn finish(&mut self, buf: &[u8], start: usize, len: usize) -> Option<usize> {
        let terminator = buf.get(start + len..start + len + 2)?;
        self.data = None;
        if terminator != b"\r\n" {
            let auth = self.request == Request::Auth;
            let fault = if auth { Fault::AuthTermination } else { Fault::DataChunk };
            self.request = Request::Fault(fault);
            self.spans.clear();
        } else {
            // Behind the key, where there is one.
            let place = self.spans.len().min(1);
            self.spans.insert(place, Span { start: start as u32, len: len as u32 });
        }
        Some(start + len + 2)
    }
}

/// True where a line of `len` bytes is over its limit.
fn is_too_long(buf: &[u8], len: usize, limits: &Limits) -> bool {
    if len <= limits.line_bytes_max {
        return false;
    }
    let word = buf[..len].trim_ascii_start();
    let asks = [&b"get "[..], b"gets ", b"gat ", b"gats "].iter().any(|get| word.starts_with(get));
    !asks || len > limits.keys_bytes_max
}

#[cfg(test)]
mod tests;
