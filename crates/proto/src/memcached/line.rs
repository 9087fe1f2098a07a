//! The lines of the text protocol.

use super::number::{parse_i64, parse_u32, parse_u64};
use super::parser::Body;
use super::{Fault, KEY_BYTES_MAX, Limits, Mode, Request, meta};
use crate::Span;

/// What a line says.
pub(super) struct Line {
    pub(super) request: Request,
    pub(super) quiet: bool,
    pub(super) body: Body,
}

impl Line {
    pub(super) fn new(request: Request) -> Self {
        Line { request, quiet: false, body: Body::None }
    }

    fn quiet(self, quiet: bool) -> Self {
        Line { quiet, ..self }
    }
}

impl From<Fault> for Line {
    fn from(fault: Fault) -> Self {
        Line::new(Request::Fault(fault))
    }
}

/// The words of a line.
pub(super) struct Words<'a> {
    pub(super) buf: &'a [u8],
    pub(super) spans: &'a [Span],
}

impl<'a> Words<'a> {
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Word `index`, which must be there.
    pub(super) fn get(&self, index: usize) -> &'a [u8] {
        self.spans[index].of(self.buf)
    }

    /// The last word asks for no reply.
    fn noreply(&self) -> bool {
        self.spans.last().is_some_and(|span| span.of(self.buf) == b"noreply")
    }

    fn key_is_long(&self, index: usize) -> bool {
        self.spans[index].len as usize > KEY_BYTES_MAX
    }
}

/// Splits the line that ends at `end` into `spans` at blanks, as memcached does: other white
/// space belongs to words, and a zero byte ends the line.
fn split(buf: &[u8], end: usize, spans: &mut Vec<Span>) {
    let end = if end > 1 && buf[end - 1] == b'\r' { end - 1 } else { end };
    let mut start = 0;
    for (at, byte) in buf[..end].iter().enumerate() {
        if *byte == b' ' || *byte == 0 {
            if at > start {
                spans.push(Span { start: start as u32, len: (at - start) as u32 });
            }
            start = at + 1;
            if *byte == 0 {
                return;
            }
        }
    }
    if end > start {
        spans.push(Span { start: start as u32, len: (end - start) as u32 });
    }
}

/// Parses the line that ends at `end`. `spans` holds its keys afterwards.
pub(super) fn parse(buf: &mut [u8], end: usize, limits: &Limits, spans: &mut Vec<Span>) -> Line {
    split(buf, end, spans);
    let words = Words { buf, spans };
    if words.len() == 0 || words.get(0).len() < 2 {
        spans.clear();
        return Fault::Unknown.into();
    }
    if !limits.let_in {
        let line = before_auth(&words, limits);
        spans.clear();
        return line;
    }
    if let [b'm', _] = words.get(0) {
        return meta::parse(buf, limits, spans);
    }
    let (line, keys) = command(&words, limits);
    if matches!(line.request, Request::Fault(_)) {
        spans.clear();
    } else {
        spans.truncate(keys.1);
        spans.drain(..keys.0);
    }
    line
}

/// The only command before the password: a set whose data is name and password.
fn before_auth(words: &Words<'_>, limits: &Limits) -> Line {
    if words.get(0) == b"quit" {
        return Line::new(Request::Quit);
    }
    let len = || parse_u32(words.get(4)).map(|len| len as usize);
    if words.len() < 5 || words.get(0) != b"set" {
        return Fault::Unauthenticated.into();
    }
    match len().filter(|len| *len <= limits.value_bytes_max) {
        Some(len) => Line { body: Body::Data(len), ..Line::new(Request::Auth) },
        None => Fault::Unauthenticated.into(),
    }
}

/// Which words are keys: from the first number up to the second.
type Keys = (usize, usize);

const NO_KEYS: Keys = (0, 0);
const ONE_KEY: Keys = (1, 2);

/// What the words mean.
fn command(words: &Words<'_>, limits: &Limits) -> (Line, Keys) {
    let all = (1, words.len());
    match words.get(0) {
        b"get" | b"bget" => (get(words, Request::Get { unique: false }), all),
        b"gets" => (get(words, Request::Get { unique: true }), all),
        b"gat" => (get_and_touch(words, false), (2, words.len())),
        b"gats" => (get_and_touch(words, true), (2, words.len())),
        b"set" => (store(words, limits, Mode::Set), ONE_KEY),
        b"add" => (store(words, limits, Mode::Add), ONE_KEY),
        b"replace" => (store(words, limits, Mode::Replace), ONE_KEY),
        b"append" => (store(words, limits, Mode::Append), ONE_KEY),
        b"prepend" => (store(words, limits, Mode::Prepend), ONE_KEY),
        b"cas" => (store(words, limits, Mode::Cas(0)), ONE_KEY),
        b"incr" => (arithmetic(words, true), ONE_KEY),
        b"decr" => (arithmetic(words, false), ONE_KEY),
        b"touch" => (touch(words), ONE_KEY),
        b"delete" => (delete(words), ONE_KEY),
        b"flush_all" => (flush_all(words), NO_KEYS),
        b"verbosity" => (verbosity(words), NO_KEYS),
        b"stats" => (Line::new(Request::Stats), all),
        b"version" => (Line::new(Request::Version), NO_KEYS),
        b"quit" => (Line::new(Request::Quit), NO_KEYS),
        b"shutdown" => (Fault::Shutdown.into(), NO_KEYS),
        b"slabs" if words.len() > 1 => (Fault::Slabs.into(), NO_KEYS),
        word if word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:") => {
            // A web page makes its visitor's browser talk to us; what follows is the page's.
            (Line::new(Request::Quit), NO_KEYS)
        }
        _ => (Fault::Unknown.into(), NO_KEYS),
    }
}

fn get(words: &Words<'_>, request: Request) -> Line {
    match words.len() {
        1 => Fault::Unknown.into(),
        len if (1..len).any(|index| words.key_is_long(index)) => Fault::Format.into(),
        _ => Line::new(request),
    }
}

fn get_and_touch(words: &Words<'_>, unique: bool) -> Line {
    if words.len() < 2 {
        return Fault::Unknown.into();
    }
    let Some(expiry) = parse_i64(words.get(1)) else { return Fault::Expiry.into() };
    if (2..words.len()).any(|index| words.key_is_long(index)) {
        return Fault::Format.into();
    }
    Line::new(Request::GetAndTouch { unique, expiry })
}

/// The commands with data: key, flags, expiry, length and, for cas, the unique.
fn store(words: &Words<'_>, limits: &Limits, mode: Mode) -> Line {
    let least = if matches!(mode, Mode::Cas(_)) { 6 } else { 5 };
    if words.len() != least && words.len() != least + 1 {
        return Fault::Unknown.into();
    }
    let quiet = words.noreply();
    let wrong = || Line::from(Fault::Format).quiet(quiet);
    let (flags, expiry) = (parse_u64(words.get(2)), parse_i64(words.get(3)));
    let len = parse_i64(words.get(4)).and_then(|len| u32::try_from(len).ok());
    let (Some(flags), Some(expiry), Some(len)) = (flags, expiry, len) else { return wrong() };
    if words.key_is_long(1) || len > i32::MAX as u32 - 2 {
        return wrong();
    }
    let mode = match mode {
        Mode::Cas(_) => match parse_u64(words.get(5)) {
            Some(unique) => Mode::Cas(unique),
            None => return wrong(),
        },
        mode => mode,
    };
    let len = len as usize;
    if len > limits.value_bytes_max {
        let request = match mode {
            Mode::Set => Request::TooLarge,
            _ => Request::Fault(Fault::TooLarge),
        };
        return Line { request, quiet, body: Body::Skip(len + 2) };
    }
    // Flags beyond 32 bits lose their upper ones, in memcached too.
    let request = Request::Store { mode, flags: flags as u32, expiry };
    Line { request, quiet, body: Body::Data(len) }
}

fn arithmetic(words: &Words<'_>, up: bool) -> Line {
    if !(3..=4).contains(&words.len()) {
        return Fault::Unknown.into();
    }
    let line = match parse_u64(words.get(2)) {
        _ if words.key_is_long(1) => Fault::Format.into(),
        Some(delta) => Line::new(Request::Arithmetic { up, delta }),
        None => Fault::Delta.into(),
    };
    line.quiet(words.noreply())
}

fn touch(words: &Words<'_>) -> Line {
    if !(3..=4).contains(&words.len()) {
        return Fault::Unknown.into();
    }
    let line = match parse_i64(words.get(2)) {
        _ if words.key_is_long(1) => Fault::Format.into(),
        Some(expiry) => Line::new(Request::Touch { expiry }),
        None => Fault::Expiry.into(),
    };
    line.quiet(words.noreply())
}

/// A key, once followed by a time of zero, and noreply.
fn delete(words: &Words<'_>) -> Line {
    if !(2..=4).contains(&words.len()) {
        return Fault::Unknown.into();
    }
    let quiet = words.len() > 2 && words.noreply();
    let zero = words.len() > 2 && words.get(2) == b"0";
    let fits = match words.len() {
        2 => true,
        3 => zero || quiet,
        _ => zero && quiet,
    };
    let line = match (fits, words.key_is_long(1)) {
        (false, _) => Fault::DeleteUsage.into(),
        (true, true) => Fault::Format.into(),
        (true, false) => Line::new(Request::Delete),
    };
    line.quiet(quiet)
}

fn flush_all(words: &Words<'_>) -> Line {
    if words.len() > 3 {
        return Fault::Unknown.into();
    }
    let quiet = words.noreply();
    if words.len() == 1 + usize::from(quiet) {
        return Line::new(Request::FlushAll { delay: 0 }).quiet(quiet);
    }
    let line = match parse_i64(words.get(1)) {
        Some(delay) => Line::new(Request::FlushAll { delay }),
        None => Fault::Expiry.into(),
    };
    line.quiet(quiet)
}

fn verbosity(words: &Words<'_>) -> Line {
    if !(2..=3).contains(&words.len()) {
        return Fault::Unknown.into();
    }
    let line = match parse_u64(words.get(1)) {
        Some(_) => Line::new(Request::Verbosity),
        None => Fault::Format.into(),
    };
    line.quiet(words.noreply())
}
