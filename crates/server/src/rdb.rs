//! What DUMP and RESTORE carry a value in: Redis's RDB encoding of a string.
//!
//! ```text
//! type u8 (0 = string) | string | version u16 | CRC-64 of all before u64
//! ```
//!
//! Both numbers at the end are little-endian. A string is a length and its bytes, an integer of 1,
//! 2 or 4 bytes, or compressed with LZF. We write lengths and integers, and read all of them.

use silica_proto::Reply;
use std::borrow::Cow;

/// The version that is written, which every Redis since 5.0 reads. Strings have not changed since.
const VERSION: u16 = 9;
/// The newest version whose strings are known to be the same.
const VERSION_MAX: u16 = 12;
/// Bytes of version and checksum.
const FOOTER_BYTES: usize = 10;

const TYPE_STRING: u8 = 0;
/// Length in 6 bits, in 14 bits, in the next 4 or 8 bytes, or something special.
const LEN_6: u8 = 0;
const LEN_14: u8 = 1;
const LEN_32: u8 = 0x80;
const LEN_64: u8 = 0x81;
const SPECIAL: u8 = 3;
const INT_8: u8 = 0;
const INT_16: u8 = 1;
const INT_32: u8 = 2;
const COMPRESSED: u8 = 3;

/// Why a payload cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Its version is unknown or its checksum wrong.
    Footer,
    /// It is no string.
    Type(u8),
    /// It says something that cannot be.
    Data,
}

/// `value` as a payload.
#[cfg(test)]
pub(crate) fn dump(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (head, is_whole) = dump_head(value);
    push_payload(&head, if is_whole { b"" } else { value }, &mut out);
    out
}

/// What stands before the bytes of `value` in a payload, and whether that is all of it.
fn dump_head(value: &[u8]) -> (Vec<u8>, bool) {
    let mut head = vec![TYPE_STRING];
    let is_whole = push_integer(&mut head, value);
    if !is_whole {
        push_len(&mut head, value.len());
    }
    (head, is_whole)
}

/// Appends a payload of `head` and `value`.
fn push_payload(head: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(head);
    out.extend_from_slice(value);
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc64(&out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Answers with `value` as a payload, without a copy of it beside the reply.
pub(crate) fn reply_dump(value: &[u8], reply: &mut Reply<'_>) {
    let (head, is_whole) = dump_head(value);
    let value = if is_whole { b"" } else { value };
    let len = head.len() + value.len() + FOOTER_BYTES;
    let out = reply.raw();
    out.reserve_exact(len + 32);
    out.extend_from_slice(format!("${len}\r\n").as_bytes());
    push_payload(&head, value, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends `value` as an integer where it is one of at most 4 bytes, written as it is shown.
fn push_integer(out: &mut Vec<u8>, value: &[u8]) -> bool {
    if value.len() > 11 {
        return false;
    }
    let number = silica_proto::parse_i64(value).and_then(|n| i32::try_from(n).ok());
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

fn push_len(out: &mut Vec<u8>, len: usize) {
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
                out.extend_from_slice(&(len as u64).to_be_bytes());
            }
        },
    }
}

/// Bytes of the value in `payload`, as far as it says them: 0 if it is not compressed.
pub(crate) fn unpacked_bytes(payload: &[u8]) -> usize {
    let packed = || {
        let mut reader = Reader(payload.get(1..)?);
        let first = reader.chunk::<1>()?[0];
        let (_, len) = (reader.len()?, reader.len()?);
        (first == SPECIAL << 6 | COMPRESSED).then_some(len)
    };
    packed().unwrap_or(0)
}

/// The value in `payload`, which may have `len_max` bytes.
pub(crate) fn restore(payload: &[u8], len_max: usize) -> Result<Cow<'_, [u8]>, Wrong> {
    let end = payload.len().checked_sub(FOOTER_BYTES).ok_or(Wrong::Footer)?;
    let (version, sum) = payload[end..].split_first_chunk::<2>().ok_or(Wrong::Footer)?;
    let sum: [u8; 8] = sum.try_into().map_err(|_| Wrong::Footer)?;
    let is_known = u16::from_le_bytes(*version) <= VERSION_MAX;
    if !is_known || crc64(&payload[..end + 2]) != u64::from_le_bytes(sum) {
        return Err(Wrong::Footer);
    }
    let (kind, rest) = payload[..end].split_first().ok_or(Wrong::Data)?;
    if *kind != TYPE_STRING {
        return Err(Wrong::Type(*kind));
    }
    let mut reader = Reader(rest);
    let value = reader.string(len_max).ok_or(Wrong::Data)?;
    if reader.0.is_empty() { Ok(value) } else { Err(Wrong::Data) }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A length that is no special string's, whose first byte is `first`.
    fn len_after(&mut self, first: u8) -> Option<usize> {
        match (first >> 6, first) {
            (LEN_6, _) => Some(usize::from(first & 0x3F)),
            (LEN_14, _) => {
                Some(usize::from(first & 0x3F) << 8 | usize::from(self.chunk::<1>()?[0]))
            }
            (_, LEN_32) => Some(u32::from_be_bytes(self.chunk()?) as usize),
            (_, LEN_64) => usize::try_from(u64::from_be_bytes(self.chunk()?)).ok(),
            _ => None,
        }
    }

    fn len(&mut self) -> Option<usize> {
        let first = self.chunk::<1>()?[0];
        self.len_after(first)
    }

    fn string(&mut self, len_max: usize) -> Option<Cow<'a, [u8]>> {
        let first = self.chunk::<1>()?[0];
        if first >> 6 != SPECIAL {
            let len = self.len_after(first)?;
            return self.take(len).map(Cow::Borrowed);
        }
        let number = match first & 0x3F {
            INT_8 => i32::from(i8::from_le_bytes(self.chunk()?)),
            INT_16 => i32::from(i16::from_le_bytes(self.chunk()?)),
            INT_32 => i32::from_le_bytes(self.chunk()?),
            COMPRESSED => {
                let (packed, len) = (self.len()?, self.len()?);
                let packed = self.take(packed)?;
                return if len <= len_max { unpack(packed, len).map(Cow::Owned) } else { None };
            }
            _ => return None,
        };
        Some(Cow::Owned(number.to_string().into_bytes()))
    }
}

/// What LZF has packed: runs of bytes as they are (a byte below 32 tells how many, less one), and
/// repetitions of earlier bytes (three bits of the length, thirteen of the distance).
fn unpack(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    // A repetition of 3 bytes makes 264 of them at most.
    if len > packed.len().saturating_mul(264) {
        return None;
    }
    let mut out: Vec<u8> = Vec::with_capacity(len);
    let mut reader = Reader(packed);
    while !reader.0.is_empty() {
        let control = usize::from(reader.chunk::<1>()?[0]);
        if control < 32 {
            out.extend_from_slice(reader.take(control + 1)?);
        } else {
            let mut run = control >> 5;
            if run == 7 {
                run += usize::from(reader.chunk::<1>()?[0]);
            }
            let distance = (control & 0x1F) << 8 | usize::from(reader.chunk::<1>()?[0]);
            let start = out.len().checked_sub(distance + 1)?;
            if out.len() + run + 2 > len {
                return None;
            }
            // What is repeated may be written by the repetition itself.
            (start..start + run + 2).for_each(|at| out.push(out[at]));
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// The reversed polynomial of CRC-64 as Redis has it ("Jones").
const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;
static TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| TABLE[(sum as u8 ^ byte) as usize] ^ sum >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Prng, test_size};

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
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
    fn repetitions_are_unpacked() {
        // "ab", then 7 + 5 + 2 bytes from two back.
        let packed = [1, b'a', b'b', 7 << 5, 5, 1];
        assert_eq!(unpack(&packed, 16).unwrap(), b"abababababababab");
        assert_eq!(unpack(&packed, 15), None);
        assert_eq!(unpack(&packed, 17), None);
        assert_eq!(unpack(&[1 << 5, 0], 3), None, "nothing is there to be repeated");
        assert_eq!(unpack(&[0], 1), None);
        assert_eq!(unpack(&[0, 1], usize::MAX), None);
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
            let sum = crc64(&bytes);
            bytes.extend_from_slice(&sum.to_le_bytes());
            match restore(&bytes, 1000) {
                Ok(value) => assert!(value.len() <= 1000),
                Err(wrong) => assert_ne!(wrong, Wrong::Footer),
            }
        }
        let mut newer = dump(b"x");
        newer.truncate(newer.len() - 10);
        newer.extend_from_slice(&(VERSION_MAX + 1).to_le_bytes());
        let sum = crc64(&newer);
        newer.extend_from_slice(&sum.to_le_bytes());
        assert_eq!(restore(&newer, 1000), Err(Wrong::Footer));
    }
}
