//! Numbers as C's `printf` writes them with `%.17g` and the like.

/// `number` with at most `digits` significant digits, without zeros behind them.
pub(crate) fn shortest(number: f64, digits: usize) -> String {
    if !number.is_finite() {
        let sign = if number.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if number.is_nan() { "nan" } else { "inf" });
    }
    let digits = digits.max(1);
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{number:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_in_c() {
        let cases = [
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (1e100, 14, "1e+100"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (123456789012345678.0, 14, "1.2345678901235e+17"),
            (1e15, 17, "1000000000000000"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (100.0, 3, "100"),
            (1000.0, 3, "1e+03"),
            (9.9999, 2, "10"),
            (-2.5, 14, "-2.5"),
            (0.0, 14, "0"),
            (f64::NEG_INFINITY, 14, "-inf"),
        ];
        for (number, digits, want) in cases {
            assert_eq!(shortest(number, digits), want, "{number} {digits}");
        }
    }
}
