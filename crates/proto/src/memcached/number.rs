//! Numbers as memcached reads them: as C's `strtol` does, which takes more than plain digits.

/// Reads what `strtoull` reads: an optional sign and digits, up to the end or a blank.
fn strtoull(text: &[u8]) -> Option<(bool, u64)> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let len = digits.iter().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
    if len == 0 || !digits.get(len).is_none_or(|b| is_space(*b)) {
        return None;
    }
    let mut n: u64 = 0;
    for digit in &digits[..len] {
        n = n.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some((negative, n))
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// An unsigned number of 64 bits.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    strtoull(text).filter(|(negative, n)| !negative || *n == 0).map(|(_, n)| n)
}

/// An unsigned number of 32 bits.
pub(super) fn parse_u32(text: &[u8]) -> Option<u32> {
    parse_u64(text).and_then(|n| u32::try_from(n).ok())
}

/// A signed number of 64 bits; memcached cuts off what is beyond 32.
pub(super) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, n) = strtoull(text)?;
    let n = i64::try_from(n).ok()?;
    Some(if negative { -n } else { n })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strtol_takes() {
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"007"), Some(7));
        assert_eq!(parse_u64(b"+7"), Some(7));
        assert_eq!(parse_u64(b"7\t8"), Some(7));
        assert_eq!(parse_u64(b"7 "), Some(7));
        assert_eq!(parse_u64(b"-0"), Some(0));
        for bad in [&b""[..], b"-", b"+", b"-1", b"7x", b"x7", b"0x7", b"7.5"] {
            assert_eq!(parse_u64(bad), None, "{bad:?}");
        }
        assert_eq!(parse_i64(b"-2147483649"), Some(-2_147_483_649));
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(parse_u32(b"4294967296"), None);
    }
}
