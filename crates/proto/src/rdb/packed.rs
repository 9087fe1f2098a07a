//! Redis's compact forms of small values: listpack, ziplist, intset and zipmap.

use super::reader::{Fault, Reader};

type Result<T> = std::result::Result<T, Fault>;

fn number(n: i64) -> Vec<u8> {
    n.to_string().into_bytes()
}

/// The number in `bytes`, the least significant byte first, with the sign of the last.
fn signed(bytes: &[u8]) -> i64 {
    let sign = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let start = if sign { -1 } else { 0 };
    bytes.iter().rev().fold(start, |n, byte| n << 8 | i64::from(*byte))
}

/// The elements of a listpack.
///
/// ```text
/// bytes u32 | elements u16 | (element | its length, backwards)… | 0xFF
/// ```
pub(super) fn listpack(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut reader = Reader(bytes);
    if u32::from_le_bytes(reader.chunk()?) as usize != bytes.len() {
        return Err(Fault::Data);
    }
    reader.take(2)?;
    let mut all = Vec::new();
    loop {
        let before = reader.0.len();
        let first = reader.byte()?;
        let element = match first {
            0xFF if reader.0.is_empty() => return Ok(all),
            0..0x80 => number(i64::from(first)),
            0x80..0xC0 => reader.take(usize::from(first & 0x3F))?.to_vec(),
            0xC0..0xE0 => {
                let low = reader.byte()?;
                let bits = u16::from(first & 0x1F) << 8 | u16::from(low);
                // 13 bits, of which the highest is the sign.
                number(i64::from((bits << 3) as i16 >> 3))
            }
            0xE0..0xF0 => {
                let len = usize::from(first & 0x0F) << 8 | usize::from(reader.byte()?);
                reader.take(len)?.to_vec()
            }
            0xF0 => {
                let len = u32::from_le_bytes(reader.chunk()?);
                reader.take(len as usize)?.to_vec()
            }
            0xF1 => number(signed(reader.take(2)?)),
            0xF2 => number(signed(reader.take(3)?)),
            0xF3 => number(signed(reader.take(4)?)),
            0xF4 => number(signed(reader.take(8)?)),
            _ => return Err(Fault::Data),
        };
        let len = before - reader.0.len();
        reader.take(back_len(len))?;
        all.push(element);
    }
}

/// Bytes of the length behind an element of `len` bytes.
fn back_len(len: usize) -> usize {
    match len {
        0..128 => 1,
        128..16_384 => 2,
        16_384..2_097_152 => 3,
        2_097_152..268_435_456 => 4,
        _ => 5,
    }
}

/// Elements as a listpack.
pub(super) fn to_listpack<'e>(elements: impl Iterator<Item = &'e [u8]>) -> Vec<u8> {
    let mut out = vec![0; 6];
    let mut count = 0u32;
    for element in elements {
        let start = out.len();
        push_element(&mut out, element);
        let len = out.len() - start;
        push_back_len(&mut out, len);
        count += 1;
    }
    out.push(0xFF);
    let bytes = out.len() as u32;
    out[..4].copy_from_slice(&bytes.to_le_bytes());
    // What does not fit 16 bits is counted by the reader.
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    out[4..6].copy_from_slice(&count.to_le_bytes());
    out
}

fn push_element(out: &mut Vec<u8>, element: &[u8]) {
    let number = crate::parse_i64(element).filter(|n| n.to_string().as_bytes() == element);
    match number {
        Some(n @ 0..128) => out.push(n as u8),
        Some(n @ -4096..4096) => {
            let bits = n as u16 & 0x1FFF;
            out.extend_from_slice(&[0xC0 | (bits >> 8) as u8, bits as u8]);
        }
        Some(n) => {
            let bytes = n.to_le_bytes();
            let (kind, len) = match n {
                -32_768..=32_767 => (0xF1, 2),
                -8_388_608..=8_388_607 => (0xF2, 3),
                -2_147_483_648..=2_147_483_647 => (0xF3, 4),
                _ => (0xF4, 8),
            };
            out.push(kind);
            out.extend_from_slice(&bytes[..len]);
        }
        None => {
            match element.len() {
                len @ 0..64 => out.push(0x80 | len as u8),
                len @ 64..4096 => {
                    out.extend_from_slice(&[0xE0 | (len >> 8) as u8, len as u8]);
                }
                len => {
                    out.push(0xF0);
                    out.extend_from_slice(&(len as u32).to_le_bytes());
                }
            }
            out.extend_from_slice(element);
        }
    }
}

/// The length of an element, seven bits a byte, which is read from behind.
fn push_back_len(out: &mut Vec<u8>, len: usize) {
    let bytes = back_len(len);
    for nth in (0..bytes).rev() {
        let bits = (len >> (7 * nth)) as u8 & 0x7F;
        // All but the one that is read last say that more come.
        out.push(if nth == bytes - 1 { bits } else { bits | 0x80 });
    }
}

/// The elements of a ziplist.
///
/// ```text
/// bytes u32 | last u32 | elements u16 | (length before | kind | bytes)… | 0xFF
/// ```
pub(super) fn ziplist(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut reader = Reader(bytes);
    if u32::from_le_bytes(reader.chunk()?) as usize != bytes.len() {
        return Err(Fault::Data);
    }
    reader.take(6)?;
    let mut all = Vec::new();
    loop {
        match reader.byte()? {
            0xFF if reader.0.is_empty() => return Ok(all),
            0xFF => return Err(Fault::Data),
            254 => drop(reader.take(4)?),
            _ => {}
        }
        let kind = reader.byte()?;
        all.push(match kind {
            0..0x40 => reader.take(usize::from(kind))?.to_vec(),
            0x40..0x80 => {
                let len = usize::from(kind & 0x3F) << 8 | usize::from(reader.byte()?);
                reader.take(len)?.to_vec()
            }
            0x80 => {
                let len = u32::from_be_bytes(reader.chunk()?);
                reader.take(len as usize)?.to_vec()
            }
            0xC0 => number(signed(reader.take(2)?)),
            0xD0 => number(signed(reader.take(4)?)),
            0xE0 => number(signed(reader.take(8)?)),
            0xF0 => number(signed(reader.take(3)?)),
            0xFE => number(signed(reader.take(1)?)),
            0xF1..=0xFD => number(i64::from(kind & 0x0F) - 1),
            _ => return Err(Fault::Data),
        });
    }
}

/// The members of an intset: bytes of each u32, their number u32, and they themselves.
pub(super) fn intset(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut reader = Reader(bytes);
    let width = u32::from_le_bytes(reader.chunk()?);
    let count = u32::from_le_bytes(reader.chunk()?);
    if ![2, 4, 8].contains(&width) || reader.0.len() as u64 != u64::from(width) * u64::from(count) {
        return Err(Fault::Data);
    }
    let members = reader.0.chunks_exact(width as usize);
    Ok(members.map(|member| number(signed(member))).collect())
}

/// The fields and values of a zipmap, one behind the other.
pub(super) fn zipmap(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut reader = Reader(bytes);
    reader.byte()?;
    let mut all = Vec::new();
    loop {
        for is_value in [false, true] {
            let len = match reader.byte()? {
                0xFF if !is_value && reader.0.is_empty() => return Ok(all),
                254 => u32::from_le_bytes(reader.chunk()?) as usize,
                255 => return Err(Fault::Data),
                len => usize::from(len),
            };
            // A value may have room behind it.
            let free = if is_value { usize::from(reader.byte()?) } else { 0 };
            all.push(reader.take(len)?.to_vec());
            reader.take(free)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Prng, test_size};

    #[test]
    fn listpacks_come_back() {
        let mut random = Prng::new(3);
        for _ in 0..test_size(300, 3000, 100_000) {
            let elements: Vec<Vec<u8>> = (0..random.below(60))
                .map(|_| match random.below(4) {
                    0 => {
                        let bits = random.below(64);
                        let n = random.next_u64() as i64 >> bits;
                        n.to_string().into_bytes()
                    }
                    1 => {
                        let bits = random.below(14);
                        vec![b'x'; random.below(1 << bits) as usize]
                    }
                    _ => vec![b'y'; random.below(70) as usize],
                })
                .collect();
            let packed = to_listpack(elements.iter().map(|element| &element[..]));
            assert_eq!(listpack(&packed).unwrap(), elements);
        }
    }

    #[test]
    fn hostile_bytes_are_refused() {
        let mut random = Prng::new(5);
        let parsers = [listpack, ziplist, intset, zipmap];
        for _ in 0..test_size(20_000, 100_000, 10_000_000) {
            let mut bytes: Vec<u8> =
                (0..4 + random.below(40)).map(|_| random.next_u64() as u8).collect();
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            parsers.iter().for_each(|parse| drop(parse(&bytes)));
        }
    }
}
