//! memcached's text protocol.

use super::client::Dialect;
use super::wire::{BURST_MAX, Parsed, Wire, line, nonsense, number, push_number};
use ::silica::{Error, ErrorKind, Result};
use silica_bench::Sink;
use std::ops::Range;

const NAME: &str = "memcached";
/// Of the protocol.
const KEY_BYTES_MAX: usize = 250;
/// A cache without room for one more; the entry is not stored, and what it replaces is gone.
const FORGOTTEN: &[u8] = b"SERVER_ERROR out of memory storing object";

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends `key` as text: base 64 (URL alphabet, no padding), since keys of the protocol must not
/// have control characters or spaces.
#[inline]
pub(super) fn push_key(out: &mut Vec<u8>, key: &[u8]) -> Result<()> {
    let bytes = (key.len() * 8).div_ceil(6);
    if bytes > KEY_BYTES_MAX {
        let message = format!(
            "a key of {} bytes is over memcached's limit, which is 187 bytes in base 64",
            key.len()
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let digit = |bits: u32| DIGITS[bits as usize & 63];
    let mut triples = key.chunks_exact(3);
    for triple in &mut triples {
        let bits = u32::from_be_bytes([0, triple[0], triple[1], triple[2]]);
        out.extend_from_slice(&[
            digit(bits >> 18),
            digit(bits >> 12),
            digit(bits >> 6),
            digit(bits),
        ]);
    }
    match *triples.remainder() {
        [a] => out.extend_from_slice(&[digit(u32::from(a) >> 2), digit(u32::from(a) << 4)]),
        [a, b] => {
            let bits = u32::from(a) << 8 | u32::from(b);
            out.extend_from_slice(&[digit(bits >> 10), digit(bits >> 4), digit(bits << 2)]);
        }
        _ => {}
    }
    Ok(())
}

/// Appends the command that stores an entry.
pub(super) fn push_set(out: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Result<()> {
    out.extend_from_slice(b"set ");
    push_key(out, key)?;
    out.extend_from_slice(b" 0 0 ");
    push_number(out, value.len());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Appends the command that removes a key.
pub(super) fn push_delete(out: &mut Vec<u8>, key: &[u8]) -> Result<()> {
    out.extend_from_slice(b"delete ");
    push_key(out, key)?;
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// A reply, or one part of the reply to a `get`; by positions in the bytes that came.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Text {
    /// An entry that was asked for.
    Value { key: Range<usize>, value: Range<usize> },
    /// There are no more.
    End,
    /// Some other line.
    Line(Range<usize>),
}

/// Parses what stands at the beginning of `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Parsed<Text> {
    let Some((line, next)) = line(bytes) else { return Ok(None) };
    if line == b"END" {
        return Ok(Some((Text::End, next)));
    }
    let Some(rest) = line.strip_prefix(b"VALUE ") else {
        return Ok(Some((Text::Line(0..line.len()), next)));
    };
    let wrong = || nonsense(NAME, line);
    let key_bytes = rest.iter().position(|&byte| byte == b' ').ok_or_else(wrong)?;
    let key = b"VALUE ".len()..b"VALUE ".len() + key_bytes;
    let length = rest.rsplit(|&byte| byte == b' ').next().and_then(number).ok_or_else(wrong)?;
    let value = next..next + length;
    match bytes.get(value.end..value.end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((Text::Value { key, value: value.clone() }, value.end + 2))),
        Some(_) => Err(wrong()),
    }
}

/// Tells which of the keys that were asked for came. Those that are not there are left out of
/// replies, the others come in the order of the request.
pub(super) struct Matcher {
    /// Where the keys stand in the request.
    keys: Vec<Range<usize>>,
    next: usize,
}

impl Matcher {
    pub(super) fn new() -> Self {
        Matcher { keys: Vec::with_capacity(BURST_MAX), next: 0 }
    }

    /// Appends a command that gets `keys`.
    pub(super) fn push_get(&mut self, out: &mut Vec<u8>, keys: &[&[u8]]) -> Result<()> {
        self.keys.clear();
        self.next = 0;
        out.extend_from_slice(b"get");
        for key in keys {
            out.push(b' ');
            let start = out.len();
            push_key(out, key)?;
            self.keys.push(start..out.len());
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// The index, among the keys of the request, of the key that came.
    #[inline]
    pub(super) fn index_of(&mut self, request: &[u8], key: &[u8]) -> Result<usize> {
        while let Some(asked) = self.keys.get(self.next) {
            self.next += 1;
            if &request[asked.clone()] == key {
                return Ok(self.next - 1);
            }
        }
        Err(nonsense(NAME, key))
    }
}

/// Checks the reply to a `set`.
pub(super) fn check_stored(line: &[u8]) -> Result<()> {
    match line {
        b"STORED" => Ok(()),
        FORGOTTEN => Ok(()),
        other => Err(nonsense(NAME, other)),
    }
}

/// Checks the reply to a `delete`.
pub(super) fn check_deleted(line: &[u8]) -> Result<()> {
    match line {
        b"DELETED" | b"NOT_FOUND" => Ok(()),
        other => Err(nonsense(NAME, other)),
    }
}

/// Sends the request and checks the lines that come back.
fn exchange(wire: &mut Wire, lines: usize, check: fn(&[u8]) -> Result<()>) -> Result<()> {
    wire.send()?;
    for _ in 0..lines {
        wire.reply(parse, |text, came, _| match text {
            Text::Line(line) => check(&came[line]),
            _ => Err(nonsense(NAME, came)),
        })?;
    }
    Ok(())
}

/// Asks for the server's version, to see that it answers.
pub(super) fn greet(wire: &mut Wire) -> Result<()> {
    wire.out.clear();
    wire.out.extend_from_slice(b"version\r\n");
    exchange(wire, 1, |line| match line.starts_with(b"VERSION ") {
        true => Ok(()),
        false => Err(nonsense(NAME, line)),
    })
}

/// The protocol as a client speaks it.
pub(super) struct TextDialect(Matcher);

impl TextDialect {
    pub(super) fn new() -> Self {
        TextDialect(Matcher::new())
    }
}

impl Dialect for TextDialect {
    fn get(
        &mut self,
        wire: &mut Wire,
        keys: &[&[u8]],
        base: usize,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        wire.out.clear();
        self.0.push_get(&mut wire.out, keys)?;
        wire.send()?;
        let mut more = true;
        while more {
            more = wire.reply(parse, |text, came, request| match text {
                Text::Value { key, value } => {
                    let index = self.0.index_of(request, &came[key])?;
                    sink.found(base + index, &came[value]);
                    Ok(true)
                }
                Text::End => Ok(false),
                Text::Line(line) => Err(nonsense(NAME, &came[line])),
            })?;
        }
        Ok(())
    }

    fn put(&mut self, wire: &mut Wire, entries: &[(&[u8], &[u8])]) -> Result<()> {
        for (key, value) in entries {
            push_set(&mut wire.out, key, value)?;
        }
        exchange(wire, entries.len(), check_stored)
    }

    fn delete(&mut self, wire: &mut Wire, keys: &[&[u8]]) -> Result<()> {
        for key in keys {
            push_delete(&mut wire.out, key)?;
        }
        exchange(wire, keys.len(), check_deleted)
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::testing::{Parser, text};
    use super::*;

    fn key_text(key: &[u8]) -> String {
        let mut out = Vec::new();
        push_key(&mut out, key).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_are_base_64() {
        assert_eq!(key_text(b""), "");
        assert_eq!(key_text(b"f"), "Zg");
        assert_eq!(key_text(b"fo"), "Zm8");
        assert_eq!(key_text(b"foo"), "Zm9v");
        assert_eq!(key_text(b"foobar\xFF\xFE"), "Zm9vYmFy__4");
        assert_eq!(key_text(&[0xAB; 187]).len(), 250);
        let told = push_key(&mut Vec::new(), &[0; 188]).unwrap_err();
        assert_eq!(told.kind(), ErrorKind::TooLarge);
    }

    const PARSER: Parser<Text> = Parser {
        parse,
        show: |reply, bytes| match reply {
            Text::Value { key, value } => format!("{}={}", text(&bytes[key]), text(&bytes[value])),
            Text::End => "end".to_string(),
            Text::Line(line) => text(&bytes[line]),
        },
    };

    #[test]
    fn replies_may_be_split_anywhere() {
        let bytes = b"VALUE a 0 3\r\nx\r\n\r\nVALUE bb 7 0\r\n\r\nEND\r\nSTORED\r\nVERSION 1\r\n";
        PARSER.check(bytes, &["a=x\r\n", "bb=", "end", "STORED", "VERSION 1"]);
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        PARSER.refuse(&[b"VALUE a 0 x\r\n", b"VALUE a\r\n", b"VALUE a 0 1\r\nabc\r\n"]);
        assert!(check_stored(b"SERVER_ERROR object too large for cache").is_err());
        assert!(check_stored(FORGOTTEN).is_ok() && check_deleted(b"ERROR").is_err());
    }

    #[test]
    fn values_belong_to_the_keys_that_were_asked_for_in_their_order() {
        let (mut matcher, mut request) = (Matcher::new(), Vec::new());
        matcher.push_get(&mut request, &[b"a", b"b", b"a", b"c"]).unwrap();
        assert_eq!(request, b"get YQ Yg YQ Yw\r\n");
        assert_eq!(matcher.index_of(&request, b"YQ").unwrap(), 0);
        assert_eq!(matcher.index_of(&request, b"YQ").unwrap(), 2);
        assert_eq!(matcher.index_of(&request, b"Yw").unwrap(), 3);
        assert!(matcher.index_of(&request, b"YQ").is_err());
    }
}
