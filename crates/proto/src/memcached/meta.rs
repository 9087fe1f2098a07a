//! The meta commands' lines.

use super::line::{Line, Words};
use super::number::{parse_i64, parse_u64};
use super::parser::Body;
use super::{Fault, KEY_BYTES_MAX, Limits, Request, base64};
use crate::Span;

/// Words of a meta command at most.
const WORDS_MAX: usize = 19;
/// Bytes of an opaque, its letter included.
const OPAQUE_BYTES_MAX: usize = 32;

/// Which meta command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `mg`.
    Get,
    /// `ms`.
    Set,
    /// `md`.
    Delete,
    /// `ma`.
    Arithmetic,
    /// `me`.
    Debug,
}

/// A meta command. Its first span is the key; with [`Verb::Set`] the second is the data. The
/// other spans are the flags as they were sent, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Which.
    pub verb: Verb,
    /// Bit `letter - b'A'` for each flag that was sent.
    flags: u64,
    /// `M`: the mode's letter, 0 where none was sent.
    pub mode: u8,
    /// `F`: the user's 32 bits to store.
    pub client_flags: u32,
    /// `C`: the unique to compare.
    pub unique: u64,
    /// `T`: the new expiry, as it was sent.
    pub expiry: i64,
    /// `N`: the expiry of an entry that is made on a miss.
    pub vivify: i64,
    /// `R`: the remaining time below which a client wins.
    pub recache: i64,
    /// `J`: the number of an entry that is made on a miss.
    pub initial: u64,
    /// `D`: the number to add or to take away.
    pub delta: u64,
}

impl Meta {
    /// A command without flags.
    pub fn new(verb: Verb) -> Self {
        Meta {
            verb,
            flags: 0,
            mode: 0,
            client_flags: 0,
            unique: 0,
            expiry: 0,
            vivify: 0,
            recache: 0,
            initial: 0,
            delta: 1,
        }
    }

    /// True where the flag `letter` was sent.
    pub fn has(&self, letter: u8) -> bool {
        letter.checked_sub(b'A').is_some_and(|bit| bit < 64 && self.flags >> bit & 1 == 1)
    }

    /// Notes the flag; false where it was there before.
    fn note(&mut self, letter: u8) -> bool {
        let seen = self.has(letter);
        self.flags |= 1 << (letter - b'A');
        !seen
    }

    /// Reads the flag `word`.
    fn read(&mut self, word: &[u8]) -> Result<(), Fault> {
        let (letter, token) = (word[0], &word[1..]);
        let number = || parse_i64(token).ok_or(Fault::Token);
        match letter {
            b'N' => self.vivify = number()?,
            b'T' => self.expiry = number()?,
            b'R' => self.recache = number()?,
            b'C' => self.unique = parse_u64(token).ok_or(Fault::Token)?,
            b'F' => self.client_flags = parse_u64(token).ok_or(Fault::Format)? as u32,
            b'J' => self.initial = parse_u64(token).ok_or(Fault::Initial)?,
            b'D' => self.delta = parse_u64(token).ok_or(Fault::MetaDelta)?,
            b'M' => match token {
                [mode] => self.mode = *mode,
                _ => return Err(Fault::ModeLength),
            },
            b'O' if word.len() > OPAQUE_BYTES_MAX => return Err(Fault::Opaque),
            _ => {}
        }
        Ok(())
    }
}

/// Reads the flags from word `first` on.
fn flags(words: &Words<'_>, verb: Verb, first: usize) -> Result<Meta, Fault> {
    let mut meta = Meta::new(verb);
    let mut wrong = None;
    for index in first..words.len() {
        let word = words.get(index);
        if word[0] >= 127 {
            return Err(Fault::DuplicateFlag);
        }
        if !b"bNTRlOPLkstcfvhuqFCMJDI".contains(&word[0]) {
            return Err(Fault::Flag);
        }
        if !meta.note(word[0]) {
            return Err(Fault::DuplicateFlag);
        }
        if let Err(fault) = meta.read(word) {
            // The last one is told, unless it is the least telling.
            wrong = if fault == Fault::Format { wrong.or(Some(fault)) } else { Some(fault) };
        }
    }
    let modes: &[u8] = if verb == Verb::Set { b"\0EAPRS" } else { b"\0I+D-" };
    let mode_is_wrong = !modes.contains(&meta.mode);
    match (wrong, verb) {
        (Some(fault), _) => Err(fault),
        (None, Verb::Set) if mode_is_wrong => Err(Fault::SetMode),
        (None, Verb::Arithmetic) if mode_is_wrong => Err(Fault::ArithmeticMode),
        (None, _) => Ok(meta),
    }
}

/// The meta command that `words` are, with the spans of its key and flags left in `spans`.
pub(super) fn parse(buf: &mut [u8], limits: &Limits, spans: &mut Vec<Span>) -> Line {
    let words = Words { buf, spans };
    let verb = match words.get(0) {
        b"mg" => Verb::Get,
        b"ms" => Verb::Set,
        b"md" => Verb::Delete,
        b"ma" => Verb::Arithmetic,
        b"me" => Verb::Debug,
        b"mn" => {
            spans.clear();
            return Line::new(Request::Noop);
        }
        _ => {
            spans.clear();
            return Fault::Unknown.into();
        }
    };
    let first = if verb == Verb::Set { 3 } else { 2 };
    let (mut meta, body) = match command(&words, verb, first, limits) {
        Ok(meta) => meta,
        Err(line) => {
            spans.clear();
            return line;
        }
    };
    let key = &mut spans[1];
    if meta.has(b'b') {
        let text = &mut buf[key.start as usize..(key.start + key.len) as usize];
        let Some(len) = base64::decode(text) else {
            spans.clear();
            let fault = match verb {
                Verb::Get | Verb::Set => Fault::KeyEncoding,
                Verb::Delete | Verb::Arithmetic => Fault::MetaFlags,
                Verb::Debug => Fault::Format,
            };
            return Line { body: skipped(body), ..fault.into() };
        };
        key.len = len as u32;
    }
    if verb == Verb::Debug {
        meta.flags &= 1 << (b'b' - b'A');
    }
    // The command's name, and the length of data, are no longer needed.
    spans.drain(2..first.min(spans.len()));
    spans.remove(0);
    let request = match body {
        Body::Skip(_) => Request::TooLarge,
        _ => Request::Meta(meta),
    };
    if request == Request::TooLarge {
        spans.truncate(1);
    }
    Line { body, ..Line::new(request) }
}

/// Throws away the data of a request that is refused.
fn skipped(body: Body) -> Body {
    match body {
        Body::Data(len) => Body::Skip(len + 2),
        other => other,
    }
}

/// The checks before the key is decoded; what is refused comes as a line.
fn command(
    words: &Words<'_>,
    verb: Verb,
    first: usize,
    limits: &Limits,
) -> Result<(Meta, Body), Line> {
    if words.len() < 2 {
        return Err(if verb == Verb::Debug { Fault::Format } else { Fault::Unknown }.into());
    }
    if words.get(1).len() > KEY_BYTES_MAX || words.len() < first {
        return Err(Fault::Format.into());
    }
    if verb == Verb::Debug {
        let mut meta = Meta::new(verb);
        if words.len() > 2 && words.get(2) == b"b" {
            meta.note(b'b');
        }
        return Ok((meta, Body::None));
    }
    if words.len() > WORDS_MAX {
        let fault = if verb == Verb::Get { Fault::GetFlagsTooLong } else { Fault::FlagsTooLong };
        return Err(fault.into());
    }
    let mut body = Body::None;
    if verb == Verb::Set {
        let len = parse_i64(words.get(2)).and_then(|len| u32::try_from(len).ok());
        let len = len.filter(|len| *len <= i32::MAX as u32 - 2).ok_or(Fault::Format)? as usize;
        let fits = len <= limits.value_bytes_max;
        body = if fits { Body::Data(len) } else { Body::Skip(len + 2) };
    }
    let meta = flags(words, verb, first).map_err(|fault| {
        let vague = matches!(verb, Verb::Delete | Verb::Arithmetic);
        let exact = matches!(fault, Fault::Opaque | Fault::ArithmeticMode);
        let fault = if vague && !exact { Fault::MetaFlags } else { fault };
        Line { body: skipped(body), ..fault.into() }
    })?;
    Ok((meta, body))
}
