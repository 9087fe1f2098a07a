//! Strings, and the payloads of DUMP and RESTORE.
//!
//! ```text
//! type u8 (0 = string) | string | version u16 | CRC-64 of all before u64
//! ```
//!
//! Both numbers at the end are little-endian. A string is a length and its bytes, an integer of 1,
//! 2 or 4 bytes, or compressed with LZF. We write lengths and integers, and read all of them.

use super::object::{self, Object};
use super::reader::{Fault, Reader};
use super::{
    COMPRESSED, INT_8, INT_16, INT_32, LEN_6, LEN_14, LEN_32, LEN_64, SPECIAL, TYPE_STRING,
    VERSION, VERSION_MAX, crc64,
};
use crate::Reply;
use std::borrow::Cow;

/// Bytes of version and checksum.
const FOOTER_BYTES: usize = 10;

/// Why a payload cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Its version is unknown or its checksum wrong.
    Footer,
    /// It is no string.
    Type(u8),
    /// It says something that cannot be.
    Data,
}

/// Returns `value` as a payload.
pub fn dump(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 24);
    let (head, is_whole) = dump_head(value);
    push_payload(&head, if is_whole { b"" } else { value }, &mut out);
    out
}

/// What stands before the bytes of `value` in a payload, and whether that is all of it.
fn dump_head(value: &[u8]) -> (Vec<u8>, bool) {
    let mut head = vec![TYPE_STRING];
    let is_whole = push_integer(&mut head, value);
    if !is_whole {
        push_len(&mut head, value.len() as u64);
    }
    (head, is_whole)
}

/// Appends a payload of `head` and `value`.
fn push_payload(head: &[u8], value: &[u8], out: &mut Vec<u8>) {
    push_payload_of(head, value, VERSION, out);
}

fn push_payload_of(head: &[u8], value: &[u8], version: u16, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(head);
    out.extend_from_slice(value);
    out.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(0, &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Answers with `value` as a payload, without a copy of it beside the reply.
pub fn reply_dump(value: &[u8], reply: &mut Reply<'_>) {
    let (head, is_whole) = dump_head(value);
    let value = if is_whole { b"" } else { value };
    let len = head.len() + value.len() + FOOTER_BYTES;
    let out = reply.raw();
    out.reserve_exact(len + 32);
    out.extend_from_slice(format!("${len}\r\n").as_bytes());
    push_payload(&head, value, out);
    out.extend_from_slice(b"\r\n");
}

/// Bytes of the value in `payload`, as far as it says them: 0 if it is not compressed.
pub fn unpacked_bytes(payload: &[u8]) -> usize {
    let packed = || {
        let mut reader = Reader(payload.get(1..)?);
        let first = reader.byte().ok()?;
        let (_, len) = (reader.len().ok()?, reader.len().ok()?);
        (first == SPECIAL << 6 | COMPRESSED).then_some(len)
    };
    packed().and_then(|len| usize::try_from(len).ok()).unwrap_or(0)
}

/// Appends a string, as an integer where it is a small one.
pub(super) fn push_string(out: &mut Vec<u8>, value: &[u8]) {
    if !push_integer(out, value) {
        push_len(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

/// Appends `value` as an integer where it is one of at most 4 bytes, written as it is shown.
fn push_integer(out: &mut Vec<u8>, value: &[u8]) -> bool {
    if value.len() > 11 {
        return false;
    }
    let number = crate::parse_i64(value).and_then(|n| i32::try_from(n).ok());
    let Some(number) = number.filter(|n| n.to_string().as_bytes() == value) else { return false };
    if let Ok(n) = i8::try_from(number) {
        out.push(SPECIAL << 6 | INT_8);
        out.extend_from_slice(&n.to_le_bytes());
    } else if let Ok(n) = i16::try_from(number) {
        out.push(SPECIAL << 6 | INT_16);
        out.extend_from_slice(&n.to_le_bytes());
    } else {
        out.push(SPECIAL << 6 | INT_32);
        out.extend_from_slice(&number.to_le_bytes());
    }
    true
}

pub(super) fn push_len(out: &mut Vec<u8>, len: u64) {
    match len {
        0..0x40 => out.push(LEN_6 << 6 | len as u8),
        0x40..0x4000 => out.extend_from_slice(&[LEN_14 << 6 | (len >> 8) as u8, len as u8]),
        _ => match u32::try_from(len) {
            Ok(len) => {
                out.push(LEN_32);
                out.extend_from_slice(&len.to_be_bytes());
            }
            Err(_) => {
                out.push(LEN_64);
                out.extend_from_slice(&len.to_be_bytes());
            }
        },
    }
}

/// What a payload has.
#[derive(Debug, Clone, PartialEq)]
pub enum Restored<'a> {
    /// A string.
    String(Cow<'a, [u8]>),
    /// Anything else.
    Object(Object),
}

/// Returns `object` as a payload.
pub fn dump_object(object: &Object) -> Vec<u8> {
    let (mut head, mut out) = (Vec::new(), Vec::new());
    object::write(object, &mut head);
    push_payload_of(&head, b"", object_version(object), &mut out);
    out
}

/// The version of RDB that `object` is written in.
fn object_version(object: &Object) -> u16 {
    match object::type_of(object) {
        24 => VERSION_MAX,
        19 => 10,
        _ => VERSION,
    }
}

/// Returns the string in `payload`, which may have `len_max` bytes.
///
/// # Errors
/// What is wrong with the payload; it is no string, say.
pub fn restore(payload: &[u8], len_max: usize) -> Result<Cow<'_, [u8]>, Wrong> {
    match payload.first() {
        None | Some(&TYPE_STRING) => {}
        Some(kind) => {
            footer(payload)?;
            return Err(Wrong::Type(*kind));
        }
    }
    match restore_any(payload, len_max)? {
        Restored::String(value) => Ok(value),
        Restored::Object(_) => Err(Wrong::Data),
    }
}

/// What is before the footer of `payload`, if that is right.
fn footer(payload: &[u8]) -> Result<&[u8], Wrong> {
    let end = payload.len().checked_sub(FOOTER_BYTES).ok_or(Wrong::Footer)?;
    let (version, sum) = payload[end..].split_first_chunk::<2>().ok_or(Wrong::Footer)?;
    let sum: [u8; 8] = sum.try_into().map_err(|_| Wrong::Footer)?;
    let is_known = u16::from_le_bytes(*version) <= VERSION_MAX;
    if !is_known || crc64(0, &payload[..end + 2]) != u64::from_le_bytes(sum) {
        return Err(Wrong::Footer);
    }
    Ok(&payload[..end])
}

/// Returns the value in `payload`, whose strings may have `len_max` bytes.
///
/// # Errors
/// What is wrong with the payload.
pub fn restore_any(payload: &[u8], len_max: usize) -> Result<Restored<'_>, Wrong> {
    let (kind, rest) = footer(payload)?.split_first().ok_or(Wrong::Data)?;
    let mut reader = Reader(rest);
    let wrong = |_: Fault| Wrong::Data;
    let value = match *kind {
        TYPE_STRING => Restored::String(reader.string(len_max).map_err(wrong)?),
        kind => {
            let object = object::read(kind, &mut reader, len_max).map_err(wrong)?;
            Restored::Object(object.ok_or(Wrong::Type(kind))?)
        }
    };
    if reader.0.is_empty() { Ok(value) } else { Err(Wrong::Data) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Prng, test_size};

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(0, b"123456789"), 0xE9C6_D914_C4B8_D9CA);
        let bytes: Vec<u8> = (0..1000_u32).map(|n| (n.wrapping_mul(n) >> 3) as u8).collect();
        let by_byte = |bytes: &[u8]| bytes.chunks(1).fold(0, crc64);
        for len in (0..200).chain([255, 256, 257, 1000]) {
            assert_eq!(crc64(0, &bytes[..len]), by_byte(&bytes[..len]), "{len} bytes");
            let (head, tail) = bytes[..len].split_at(len / 3);
            assert_eq!(crc64(crc64(0, head), tail), by_byte(&bytes[..len]), "{len} in two");
        }
        // From a redis-server 7.0.
        let hello = b"\x00\x05hello\n\x00cr\xdfve4 \n";
        assert_eq!(restore(hello, 100).unwrap(), &b"hello"[..]);
        assert_eq!(restore(b"\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5", 100).unwrap(), &b"12"[..]);
    }

    #[test]
    fn values_come_back() {
        let mut values: Vec<Vec<u8>> = [0, 1, 63, 64, 16_383, 16_384, 70_000]
            .map(|len| (0..len).map(|n| (n % 251) as u8).collect())
            .to_vec();
        for number in [0i64, -1, 127, 128, -128, -129, 32_767, 32_768, 1 << 31, -(1 << 31), 1 << 40]
        {
            values.push(number.to_string().into_bytes());
        }
        values.extend(["+1", "01", "-0", " 1"].map(|text| text.as_bytes().to_vec()));
        for value in values {
            assert_eq!(restore(&dump(&value), 1 << 20).unwrap(), &value[..]);
        }
    }

    #[test]
    fn damage_is_found() {
        let good = dump(b"some value that is not short");
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert_eq!(restore(&bad, 1000), Err(Wrong::Footer));
            }
            assert!(restore(&good[..at], 1000).is_err());
        }
    }

    /// Payloads whose checksum is right, whatever they say.
    #[test]
    fn hostile_payloads_are_refused_or_short() {
        let mut random = Prng::new(7);
        for _ in 0..test_size(20_000, 100_000, 100_000_000) {
            let len = 1 + random.below(40) as usize;
            let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            bytes[0] &= 1;
            if random.below(2) == 0 && len > 2 {
                bytes[1] = SPECIAL << 6 | COMPRESSED;
                bytes[2] &= 0x1F;
            }
            bytes.extend_from_slice(&VERSION_MAX.to_le_bytes());
            let sum = crc64(0, &bytes);
            bytes.extend_from_slice(&sum.to_le_bytes());
            match restore(&bytes, 1000) {
                Ok(value) => assert!(value.len() <= 1000),
                Err(wrong) => assert_ne!(wrong, Wrong::Footer),
            }
        }
        let mut newer = dump(b"x");
        newer.truncate(newer.len() - 10);
        newer.extend_from_slice(&(VERSION_MAX + 1).to_le_bytes());
        let sum = crc64(0, &newer);
        newer.extend_from_slice(&sum.to_le_bytes());
        assert_eq!(restore(&newer, 1000), Err(Wrong::Footer));
    }
}
