//! LEB128 variable-length integers.

/// Longest encoding of a `u64`.
pub const VARINT_BYTES_MAX: usize = 10;

/// Appends `value` to `out`.
#[inline]
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`write_varint`] takes for `value`.
#[inline]
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Reads a varint from the start of `bytes`: the value and the bytes it took, or `None` where the
/// encoding is cut short or does not fit 64 bits.
#[inline]
pub fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    // Nearly all are lengths below 16 KiB: no loop for these.
    match *bytes {
        [first, ..] if first < 0x80 => return Some((u64::from(first), 1)),
        [first, second, ..] if second < 0x80 => {
            return Some((u64::from(first & 0x7F) | u64::from(second) << 7, 2));
        }
        [first, second, third, ..] if third < 0x80 => {
            let low = u64::from(first & 0x7F) | u64::from(second & 0x7F) << 7;
            return Some((low | u64::from(third) << 14, 3));
        }
        _ => {}
    }
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        if i == VARINT_BYTES_MAX - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7F) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_at_every_width() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, u64::MAX >> shift] {
                let mut out = Vec::new();
                write_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value));
                assert_eq!(read_varint(&out), Some((value, out.len())));
                assert_eq!(read_varint(&out[..out.len() - 1]), None);
            }
        }
    }

    #[test]
    fn overlong_is_refused() {
        assert_eq!(read_varint(&[0xFF; 10]), None);
        assert_eq!(read_varint(&[]), None);
    }
}
