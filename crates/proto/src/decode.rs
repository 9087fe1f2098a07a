//! Reading replies back; for clients and for tests.

use crate::number::{parse_f64, parse_i64};
use std::fmt;

/// Arrays within arrays that a reply may hold.
const DEPTH_MAX: usize = 32;

/// A reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A short text.
    Simple(String),
    /// An error with its code.
    Error(String),
    /// A number.
    Integer(i64),
    /// A byte string.
    Bulk(Vec<u8>),
    /// Nothing.
    Null,
    /// A list.
    Array(Vec<Value>),
    /// Pairs.
    Map(Vec<(Value, Value)>),
    /// A set.
    Set(Vec<Value>),
    /// A message that answers no request.
    Push(Vec<Value>),
    /// A floating-point number.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// Text to be shown as it is, without its three-letter format.
    Verbatim(Vec<u8>),
}

/// The bytes are not a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeError;

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these bytes are no RESP reply")
    }
}

impl std::error::Error for DecodeError {}

/// Reads the reply at the start of `buf` and its length; `None` where it is not complete.
pub fn decode(buf: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
    let mut reader = Reader { buf, pos: 0 };
    Ok(reader.value(0)?.map(|value| (value, reader.pos)))
}

struct Reader<'b> {
    buf: &'b [u8],
    pos: usize,
}

/// Unwraps a present value or returns `Ok(None)`: more bytes are needed.
macro_rules! need {
    ($e:expr) => {
        match $e {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

type Read<T> = Result<Option<T>, DecodeError>;

impl<'b> Reader<'b> {
    fn line(&mut self) -> Option<&'b [u8]> {
        let rest = &self.buf[self.pos..];
        let end = rest.windows(2).position(|w| w == b"\r\n")?;
        self.pos += end + 2;
        Some(&rest[..end])
    }

    fn value(&mut self, depth: usize) -> Read<Value> {
        let line = need!(self.line());
        let (kind, text) = line.split_first().ok_or(DecodeError)?;
        let owned = || String::from_utf8_lossy(text).into_owned();
        Ok(Some(match kind {
            b'+' => Value::Simple(owned()),
            b'-' => Value::Error(owned()),
            b':' => Value::Integer(parse_i64(text).ok_or(DecodeError)?),
            b'_' => Value::Null,
            b'#' => Value::Boolean(text == b"t"),
            b',' if text == b"nan" => Value::Double(f64::NAN),
            b',' => Value::Double(parse_f64(text).ok_or(DecodeError)?),
            b'$' | b'=' | b'*' | b'~' | b'>' | b'%' if text == b"-1" => Value::Null,
            b'$' => Value::Bulk(need!(self.bytes(text)?)),
            b'=' => Value::Verbatim(need!(self.bytes(text)?).split_off_format()?),
            b'*' => Value::Array(need!(self.values(text, depth)?)),
            b'~' => Value::Set(need!(self.values(text, depth)?)),
            b'>' => Value::Push(need!(self.values(text, depth)?)),
            b'%' => Value::Map(need!(self.pairs(text, depth)?)),
            _ => return Err(DecodeError),
        }))
    }

    fn bytes(&mut self, text: &[u8]) -> Read<Vec<u8>> {
        let len = length(text)?;
        let end = self.pos.checked_add(len).ok_or(DecodeError)?;
        if self.buf.len() < end + 2 {
            return Ok(None);
        }
        let bytes = self.buf[self.pos..end].to_vec();
        if &self.buf[end..end + 2] != b"\r\n" {
            return Err(DecodeError);
        }
        self.pos = end + 2;
        Ok(Some(bytes))
    }

    fn values(&mut self, text: &[u8], depth: usize) -> Read<Vec<Value>> {
        if depth == DEPTH_MAX {
            return Err(DecodeError);
        }
        let mut values = Vec::new();
        for _ in 0..length(text)? {
            values.push(need!(self.value(depth + 1)?));
        }
        Ok(Some(values))
    }

    fn pairs(&mut self, text: &[u8], depth: usize) -> Read<Vec<(Value, Value)>> {
        if depth == DEPTH_MAX {
            return Err(DecodeError);
        }
        let mut pairs = Vec::new();
        for _ in 0..length(text)? {
            let key = need!(self.value(depth + 1)?);
            pairs.push((key, need!(self.value(depth + 1)?)));
        }
        Ok(Some(pairs))
    }
}

fn length(text: &[u8]) -> Result<usize, DecodeError> {
    let len = parse_i64(text).and_then(|n| usize::try_from(n).ok()).ok_or(DecodeError)?;
    if len > u32::MAX as usize { Err(DecodeError) } else { Ok(len) }
}

trait Format {
    fn split_off_format(self) -> Result<Vec<u8>, DecodeError>;
}

impl Format for Vec<u8> {
    fn split_off_format(mut self) -> Result<Vec<u8>, DecodeError> {
        if self.len() < 4 { Err(DecodeError) } else { Ok(self.split_off(4)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reply, Version};

    #[test]
    fn what_is_written_reads_back() {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, Version::Resp3);
        reply.map(1);
        reply.bulk(b"k");
        reply.set(7);
        reply.double(0.5);
        reply.boolean(true);
        reply.null();
        reply.verbatim(b"text");
        reply.integer(-1);
        reply.push(1);
        reply.simple("x");
        reply.error("ERR y");
        let want = Value::Map(vec![(
            Value::Bulk(b"k".to_vec()),
            Value::Set(vec![
                Value::Double(0.5),
                Value::Boolean(true),
                Value::Null,
                Value::Verbatim(b"text".to_vec()),
                Value::Integer(-1),
                Value::Push(vec![Value::Simple("x".into())]),
                Value::Error("ERR y".into()),
            ]),
        )]);
        for cut in 0..out.len() {
            assert_eq!(decode(&out[..cut]), Ok(None), "cut at {cut}");
        }
        assert_eq!(decode(&out), Ok(Some((want, out.len()))));
    }

    #[test]
    fn nonsense_is_an_error() {
        let deep = b"*1\r\n".repeat(100);
        let bad: &[&[u8]] =
            &[b"?\r\n", b"\r\n", b":x\r\n", b"$-2\r\n", b"$1\r\nabc", b"=1\r\na\r\n", &deep];
        for bytes in bad {
            assert_eq!(decode(bytes), Err(DecodeError), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
