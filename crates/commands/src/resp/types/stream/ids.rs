//! Ids of entries as clients write them.

use super::super::{Done, Failure};
use silica_proto::parse_i64;
use silica_types::StreamId;

/// The error about an id that is none.
pub(super) const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";

/// Ids are no longer, as in Redis.
const BYTES_MAX: usize = 127;

/// The id that XADD gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewId {
    /// `*`: the time and the next number.
    Automatic,
    /// `ms-*`: the next number of that time.
    At(u64),
    /// All of it.
    Given(StreamId),
}

/// A number as Redis reads the parts of an id: in decimal and without a sign, or else as C's
/// `strtoull` does, which takes blanks, signs and zeros before it.
fn number(text: &[u8]) -> Option<u64> {
    if let Some(n) = parse_i64(text) {
        return u64::try_from(n).ok();
    }
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(|byte| is_blank(byte)).count()..];
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if is_negative { n.wrapping_neg() } else { n })
}

/// Time and number of an id: `None` as the latter if there is none.
fn parts(text: &[u8]) -> Option<(u64, Option<&[u8]>)> {
    if text.len() > BYTES_MAX {
        return None;
    }
    let mut parts = text.splitn(2, |byte| *byte == b'-');
    Some((number(parts.next()?)?, parts.next()))
}

fn parse(text: &[u8], missing_seq: u64) -> Option<StreamId> {
    let (ms, seq) = parts(text)?;
    Some(StreamId { ms, seq: seq.map_or(Some(missing_seq), number)? })
}

/// An id, in which the number may be missing.
pub(super) fn strict(text: &[u8]) -> Done<StreamId> {
    parse(text, 0).ok_or_else(|| Failure::reply(INVALID))
}

/// As [`strict`], or `-` or `+` for the least and the greatest.
pub(super) fn any(text: &[u8], missing_seq: u64) -> Done<StreamId> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => parse(text, missing_seq).ok_or_else(|| Failure::reply(INVALID)),
    }
}

/// The id of an entry that is to be added.
pub(super) fn new(text: &[u8]) -> Done<NewId> {
    if text == b"*" {
        return Ok(NewId::Automatic);
    }
    match parts(text) {
        Some((ms, Some(b"*"))) => Ok(NewId::At(ms)),
        _ => strict(text).map(NewId::Given),
    }
}

/// An end of a range, and whether it is excluded.
fn bound(text: &[u8], missing_seq: u64) -> Done<(StreamId, bool)> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            let id = parse(rest, missing_seq).ok_or_else(|| Failure::reply(INVALID))?;
            Ok((id, true))
        }
        _ => any(text, missing_seq).map(|id| (id, false)),
    }
}

/// The first id of a range.
pub(super) fn start(text: &[u8]) -> Done<StreamId> {
    match bound(text, 0)? {
        (id, false) => Ok(id),
        (id, true) => {
            id.next().ok_or_else(|| Failure::reply("ERR invalid start ID for the interval"))
        }
    }
}

/// The last id of a range.
pub(super) fn end(text: &[u8]) -> Done<StreamId> {
    match bound(text, u64::MAX)? {
        (id, false) => Ok(id),
        (id, true) => {
            id.previous().ok_or_else(|| Failure::reply("ERR invalid end ID for the interval"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_does() {
        let id = |ms, seq| Some(StreamId { ms, seq });
        for (text, want) in [
            ("5", id(5, 9)),
            ("5-3", id(5, 3)),
            ("18446744073709551615-0", id(u64::MAX, 0)),
            ("18446744073709551616-0", None),
            ("007-+1", id(7, 1)),
            (" 1-\t2", id(1, 2)),
            ("1--0002", id(1, u64::MAX - 1)),
            ("1--2", None),
            ("1-", None),
            ("-1", None),
            ("1-2x", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(parse(text.as_bytes(), 9), want, "{text}");
        }
        assert_eq!(parse(&[b'0'; 128], 0), None);
        assert_eq!(parse(&[b'0'; 127], 0), id(0, 0));
    }

    #[test]
    fn bounds_may_be_excluded() {
        let id = |ms, seq| StreamId { ms, seq };
        assert_eq!(start(b"(5").unwrap(), id(5, 1));
        assert_eq!(end(b"(5").unwrap(), id(5, u64::MAX - 1));
        assert_eq!(end(b"5").unwrap(), id(5, u64::MAX));
        assert_eq!(start(b"-").unwrap(), StreamId::MIN);
        assert!(start(b"(-").is_err() && end(b"(0-0").is_err() && start(b"(").is_err());
        assert_eq!(new(b"*").unwrap(), NewId::Automatic);
        assert_eq!(new(b"7-*").unwrap(), NewId::At(7));
        assert_eq!(new(b"7").unwrap(), NewId::Given(id(7, 0)));
        assert!(new(b"-").is_err() && new(b"7-**").is_err());
    }
}
