//! Scores as text: what Redis 7.0 reads and prints.

use super::Failure;
use silica_proto::{Reply, Version, parse_f64, parse_i64};
use std::io::Write;

/// Digits that tell any two numbers apart.
const DIGITS: i32 = 17;
/// Integers below it have no more digits than that.
const INTEGER_MAX: f64 = 1e17;

/// Reads a score or a weight, as strtod does. Refused are blanks, NaN, and decimal numbers that are
/// too large for 64 bits, or so small that they would be zero.
pub(crate) fn parse_score(text: &[u8]) -> Option<f64> {
    let score = parse_f64(text)?;
    let digits = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or(text);
    let is_over = score.is_infinite() && text.iter().any(u8::is_ascii_digit);
    let is_under = score == 0.0 && digits.iter().any(|byte| matches!(byte, b'1'..=b'9'));
    (!is_over && !is_under).then_some(score)
}

/// Reads the score at an end of a range: what is too large is infinite, and nothing is zero.
pub(crate) fn parse_range_end(text: &[u8]) -> Option<f64> {
    match text {
        b"" => Some(0.0),
        text => parse_f64(text.trim_ascii_start()),
    }
}

/// The number in an argument, or the error that it is none.
pub(crate) fn integer(text: &[u8]) -> Result<i64, Failure> {
    parse_i64(text).ok_or_else(|| Failure::reply(crate::resp::NOT_INTEGER))
}

/// Appends `score` in up to 17 digits, as printf's `%.17g` does.
pub(crate) fn append_score(out: &mut Vec<u8>, score: f64) {
    if score.is_infinite() {
        out.extend_from_slice(if score > 0.0 { b"inf" } else { b"-inf" });
    } else if score == 0.0 && score.is_sign_negative() {
        out.extend_from_slice(b"-0");
    } else if score.abs() < INTEGER_MAX && score == score.trunc() {
        write!(out, "{}", score as i64).expect("a vector takes every write");
    } else {
        append_fraction(out, score);
    }
}

fn append_fraction(out: &mut Vec<u8>, score: f64) {
    let text = format!("{:.*e}", DIGITS as usize - 1, score);
    let (mantissa, exponent) = text.split_once('e').expect("it is in this form");
    let exponent: i32 = exponent.parse().expect("it is a number");
    let text = match exponent {
        -4..DIGITS => {
            let fixed = format!("{:.*}", (DIGITS - 1 - exponent) as usize, score);
            without_zeros(&fixed).to_string()
        }
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
        }
    };
    out.extend_from_slice(text.as_bytes());
}

/// `text` without the zeros at the end of its fraction.
fn without_zeros(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// Writes a score: a double in RESP3, a string in RESP2.
pub(crate) fn write_score(reply: &mut Reply<'_>, score: f64) {
    let mut digits = Vec::with_capacity(24);
    append_score(&mut digits, score);
    match reply.version() {
        Version::Resp2 => reply.bulk(&digits),
        Version::Resp3 => {
            let out = reply.raw();
            out.push(b',');
            out.extend_from_slice(&digits);
            out.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(score: f64) -> String {
        let mut out = Vec::new();
        append_score(&mut out, score);
        String::from_utf8(out).unwrap()
    }

    /// What redis-server 7.0 prints.
    #[test]
    fn scores_are_printed_as_redis_does() {
        for (score, wanted) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (-3.0, "-3"),
            (0.1, "0.10000000000000001"),
            (-2.5, "-2.5"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (99999999999999984.0, "99999999999999984"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (1.0 / 3.0, "0.33333333333333331"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(shown(score), wanted);
        }
    }

    #[test]
    fn what_is_no_score_is_refused() {
        for text in ["", " 1", "1 ", "nan", "1e400", "-1e400", "1e-400", "0.0001e-999", "1e", "x"] {
            assert_eq!(parse_score(text.as_bytes()), None, "{text}");
        }
        for (text, wanted) in
            [("0e5", 0.0), ("+1.5", 1.5), ("-inf", f64::NEG_INFINITY), ("4e-320", 4e-320)]
        {
            assert_eq!(parse_score(text.as_bytes()), Some(wanted), "{text}");
        }
        assert_eq!(parse_range_end(b"1e400"), Some(f64::INFINITY));
        assert_eq!(parse_range_end(b""), Some(0.0));
        assert_eq!(parse_range_end(b"nan"), None);
    }
}
