//! The numbers of INCRBYFLOAT: Redis adds in the 80 bits of x87's long double, and prints 17 digits
//! behind the point, so that 0.1 and 0.2 make 0.3.

use rustc_apfloat::Float;
use rustc_apfloat::ieee::X87DoubleExtended;
use std::str::FromStr;

/// Digits behind the point.
const DIGITS: u32 = 17;
/// What the exponent of 1.0 is written as, and the bits of the significand behind its first.
const EXPONENT_OF_ONE: i32 = 16383;
const SIGNIFICAND_BITS: i32 = 63;
/// A limb of a large number has nine decimal digits.
const LIMB: u64 = 1_000_000_000;
/// Bits by which a limb is shifted at a time: the product fits 64 bits.
const SHIFT_BITS: u32 = 30;

/// A long double.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongDouble(X87DoubleExtended);

impl LongDouble {
    /// Reads a decimal number, or an infinity; blanks and what is no number are refused.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let word = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
        let sign = if text.starts_with('-') { "-" } else { "" };
        if text.len() - word.len() <= 1 && ["inf", "infinity"].contains(&&word[..]) {
            return X87DoubleExtended::from_str(&format!("{sign}inf")).ok().map(LongDouble);
        }
        // The rest of what the parser takes (hexadecimal digits, signs of their own) is none of ours.
        text.parse::<f64>().ok()?;
        let is_decimal = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        let number = text.bytes().all(is_decimal).then(|| X87DoubleExtended::from_str(text).ok());
        number.flatten().map(LongDouble)
    }

    pub(super) fn plus(self, other: Self) -> Self {
        LongDouble((self.0 + other.0).value)
    }

    /// Its digits, without zeros at the end; none where it is not finite.
    pub(super) fn digits(self) -> Option<String> {
        if !self.0.is_finite() {
            return None;
        }
        let bits = self.0.to_bits();
        let (significand, exponent) = (bits as u64, (bits >> 64) as i32 & 0x7FFF);
        let shift = exponent - EXPONENT_OF_ONE - SIGNIFICAND_BITS;
        let text = match u32::try_from(shift) {
            Ok(left) => shifted_left(significand, left),
            Err(_) => shifted_right(significand, shift.unsigned_abs()),
        };
        let sign = if self.0.is_negative() && text != "0" { "-" } else { "" };
        Some(format!("{sign}{text}"))
    }
}

/// The digits of `significand` over two to the power of `by`, rounded to the nearest and from the
/// middle to the even one.
fn shifted_right(significand: u64, by: u32) -> String {
    let one = 10u128.pow(DIGITS);
    let scaled = u128::from(significand) * one;
    let whole = scaled.checked_shr(by).unwrap_or(0);
    let rest = scaled - whole.checked_shl(by).unwrap_or(0);
    let half = 1u128.checked_shl(by - 1).unwrap_or(u128::MAX);
    let is_up = rest > half || (rest == half && whole % 2 == 1);
    let rounded = whole + u128::from(is_up);
    let behind = format!("{:0width$}", rounded % one, width = DIGITS as usize);
    let text = format!("{}.{behind}", rounded / one);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The digits of `significand` times two to the power of `by`.
fn shifted_left(significand: u64, mut by: u32) -> String {
    // The least first.
    let mut limbs = vec![significand % LIMB, significand / LIMB % LIMB, significand / LIMB / LIMB];
    while by > 0 {
        let step = by.min(SHIFT_BITS);
        let mut carry = 0;
        for limb in &mut limbs {
            let shifted = (*limb << step) + carry;
            (*limb, carry) = (shifted % LIMB, shifted / LIMB);
        }
        while carry > 0 {
            limbs.push(carry % LIMB);
            carry /= LIMB;
        }
        by -= step;
    }
    let text: String = limbs.iter().rev().map(|limb| format!("{limb:09}")).collect();
    match text.trim_start_matches('0') {
        "" => "0".into(),
        digits => digits.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::LongDouble;
    use silica_base::{Prng, test_size};

    fn sum(a: &str, b: &str) -> Option<String> {
        LongDouble::parse(a.as_bytes())?.plus(LongDouble::parse(b.as_bytes())?).digits()
    }

    /// What redis-server 7.0 answers.
    #[test]
    fn sums_are_those_of_redis() {
        for (a, b, wanted) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3.0", "1.000000000000000005", "4.00000000000000001"),
            ("1", "-1", "0"),
            ("-0.0", "0", "0"),
            ("-1.5", "0.25", "-1.25"),
            ("1e20", "1", "100000000000000000000"),
            ("17179869184", "1.5e-7", "17179869184.00000015087425709"),
            ("0.000000000000000001", "0", "0"),
            ("1e-17", "0", "0.00000000000000001"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(wanted), "{a} + {b}");
        }
        let power = sum("1e400", "0").expect("a long double has it");
        assert_eq!((power.len(), &power[..3]), (401, "100"));
        assert_eq!(sum("1e4932", "1e4932"), None);
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("inf", "-inf"), None);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in
            ["", " 1", "1 ", "nan", "0x10", "1e", "--1", "+-1", "1.2.3", "e5", ".", "\u{661}"]
        {
            assert!(LongDouble::parse(text.as_bytes()).is_none(), "{text}");
        }
        assert!(LongDouble::parse(b"\xFF").is_none());
        let mut random = Prng::new(3);
        let letters = b"0123456789+-.eEinf x";
        for _ in 0..test_size(20_000, 200_000, 20_000_000) {
            let len = random.below(12);
            let text: Vec<u8> =
                (0..len).map(|_| letters[random.below(letters.len() as u64) as usize]).collect();
            if let Some(number) = LongDouble::parse(&text) {
                let near: f64 = std::str::from_utf8(&text).unwrap().parse().unwrap();
                let digits = number.digits().unwrap_or_else(|| near.to_string());
                let read: f64 = digits.parse().unwrap();
                assert!(near.is_infinite() || (read - near).abs() <= near.abs() / 1e15 + 1e-17);
            }
        }
    }
}
