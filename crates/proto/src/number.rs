//! Numbers as text, in the exact form the protocol wants, without allocation.

use std::io::Write;

/// Appends `n` in decimal.
pub fn append_u64(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends `n` in decimal.
pub fn append_i64(out: &mut Vec<u8>, n: i64) {
    if n < 0 {
        out.push(b'-');
    }
    append_u64(out, n.unsigned_abs());
}

/// Appends `x` in the shortest form that reads back as the same number.
pub(crate) fn append_f64(out: &mut Vec<u8>, x: f64) {
    if x.is_nan() {
        out.extend_from_slice(b"nan");
    } else if x.is_infinite() {
        out.extend_from_slice(if x > 0.0 { b"inf" } else { b"-inf" });
    } else if x == 0.0 || (1e-5..1e17).contains(&x.abs()) {
        write!(out, "{x}").expect("a vector takes every write");
    } else {
        write!(out, "{x:e}").expect("a vector takes every write");
    }
}

/// Reads a signed 64-bit number in canonical form: no blanks, no plus sign, no leading zeros.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut n: u64 = 0;
    for d in digits {
        if !d.is_ascii_digit() {
            return None;
        }
        // Nineteen digits cannot overflow 64 unsigned bits.
        n = n * 10 + u64::from(d - b'0');
    }
    match negative {
        true if n <= i64::MIN.unsigned_abs() => Some((n as i64).wrapping_neg()),
        false => i64::try_from(n).ok(),
        true => None,
    }
}

/// Reads a finite or infinite floating-point number; blanks and NaN are refused.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let x: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!x.is_nan()).then_some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(n: i64) -> Vec<u8> {
        let mut out = Vec::new();
        append_i64(&mut out, n);
        out
    }

    #[test]
    fn every_edge_reads_back() {
        for n in [0, 1, -1, 9, 10, i64::MAX, i64::MIN, i64::MIN + 1, 1_000_000_007] {
            assert_eq!(shown(n), n.to_string().into_bytes());
            assert_eq!(parse_i64(&shown(n)), Some(n));
        }
    }

    #[test]
    fn only_the_canonical_form_is_a_number() {
        let bad: &[&[u8]] = &[
            b"",
            b"-",
            b"-0",
            b"+1",
            b"01",
            b" 1",
            b"1 ",
            b"1a",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"99999999999999999999",
        ];
        for text in bad {
            assert_eq!(parse_i64(text), None, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn doubles_are_short_and_exact() {
        let cases: &[(f64, &str)] = &[
            (0.0, "0"),
            (10.6, "10.6"),
            (-3.0, "-3"),
            (1e20, "1e20"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (x, text) in cases {
            let mut out = Vec::new();
            append_f64(&mut out, *x);
            assert_eq!(String::from_utf8(out).unwrap(), *text);
        }
        assert_eq!(parse_f64(b"nan"), None);
        assert_eq!(parse_f64(b" 1"), None);
        assert_eq!(parse_f64(b"1.5"), Some(1.5));
    }
}
