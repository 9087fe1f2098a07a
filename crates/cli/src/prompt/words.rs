//! A line of the prompt in words: for the verbs, and as redis-cli does it.

use silica::{Error, ErrorKind, Result};

/// Splits at blanks; single or double quotes keep them together, and a backslash within double
/// quotes keeps a quote. Other backslashes are left for the verbs.
pub(super) fn split(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match quote {
            Some(q) if c == q => quote = None,
            Some('"') if c == '\\' && rest.peek() == Some(&'"') => {
                rest.next();
                word.get_or_insert_default().push('"');
            }
            Some('"') if c == '\\' && rest.peek() == Some(&'\\') => {
                // The verbs read both as one, so the second does not keep a quote behind it.
                rest.next();
                word.get_or_insert_default().push_str("\\\\");
            }
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        None => Ok(words),
        Some(q) => Err(Error::new(ErrorKind::Config, format!("a quote {q} is not closed"))),
    }
}

/// Splits as redis-cli does: in double quotes `\n`, `\r`, `\t`, `\b`, `\a`, `\xNN` and `\"` stand
/// for bytes, in single quotes only `\'` does, and outside of them nothing does.
pub(super) fn split_as_redis(line: &str) -> Result<Vec<Vec<u8>>> {
    let wrong = || Error::new(ErrorKind::Config, "Invalid argument(s)");
    let (mut words, mut rest) = (Vec::new(), line.as_bytes());
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(words);
        }
        let mut word = Vec::new();
        while let [first, behind @ ..] = rest
            && !first.is_ascii_whitespace()
        {
            rest = match first {
                b'"' => quoted(behind, &mut word).ok_or_else(wrong)?,
                b'\'' => single_quoted(behind, &mut word).ok_or_else(wrong)?,
                _ => {
                    word.push(*first);
                    behind
                }
            };
            // Nothing may follow a closing quote.
            let was_quote = matches!(first, b'"' | b'\'');
            if was_quote && !rest.first().is_none_or(u8::is_ascii_whitespace) {
                return Err(wrong());
            }
        }
        words.push(word);
    }
}

/// Reads up to the closing double quote; what is behind it.
fn quoted<'t>(mut text: &'t [u8], word: &mut Vec<u8>) -> Option<&'t [u8]> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    loop {
        text = match text {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', b'x', high, low, rest @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(digit(high)? << 4 | digit(low)?);
                rest
            }
            [b'\\', escaped, rest @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest
            }
            [byte, rest @ ..] => {
                word.push(*byte);
                rest
            }
            [] => return None,
        };
    }
}

/// Reads up to the closing single quote; what is behind it.
fn single_quoted<'t>(mut text: &'t [u8], word: &mut Vec<u8>) -> Option<&'t [u8]> {
    loop {
        text = match text {
            [b'\'', rest @ ..] => return Some(rest),
            [b'\\', b'\'', rest @ ..] => {
                word.push(b'\'');
                rest
            }
            [byte, rest @ ..] => {
                word.push(*byte);
                rest
            }
            [] => return None,
        };
    }
}

/// A word as [`split`] reads it back.
pub(super) fn quote(word: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && c != '"' && c != '\'';
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    format!("\"{}\"", word.replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_blanks_together() {
        let words = split(r#"put "a b" 'c "d"' e\n '' "#).unwrap();
        assert_eq!(words, ["put", "a b", "c \"d\"", "e\\n", ""]);
        assert!(split("get 'a").unwrap_err().to_string().contains("not closed"));
        assert_eq!(split(r#"put "a \"b\"" "c\\" d"#).unwrap(), ["put", "a \"b\"", "c\\\\", "d"]);
    }

    #[test]
    fn quoted_words_are_read_back() {
        for word in ["plain", "two words", "a\"b", "", "it's", "back\\\\slash", "\\x00"] {
            assert_eq!(split(&quote(word)).unwrap(), [word], "{word}");
        }
    }

    /// Each was given to redis-cli 7.0 as `ECHO …`.
    #[test]
    fn words_are_those_of_redis_cli() {
        let of = |line: &str| split_as_redis(line).map_err(|e| e.to_string());
        let words = |expected: &[&[u8]]| Ok(expected.iter().map(|w| w.to_vec()).collect());
        assert_eq!(of("  SET  a   b "), words(&[b"SET", b"a", b"b"]));
        assert_eq!(of(r#""a b" 'c d'"#), words(&[b"a b", b"c d"]));
        assert_eq!(
            of(r#""\x00\xfF\n\t\r\a\b\"\\\q" '\n\''"#),
            words(&[b"\x00\xff\n\t\r\x07\x08\"\\q", b"\\n'"])
        );
        assert_eq!(of(r#""\xzz" a\n"#), words(&[b"xzz", b"a\\n"]));
        assert_eq!(of(r#"a"b c""#), words(&[b"ab c"]));
        assert_eq!(of(r#""" ''"#), words(&[b"", b""]));
        for wrong in [r#""a"b"#, "'a'b", "\"a", "'a", r#""a\"#, r#""a\""#] {
            assert_eq!(of(wrong), Err("Invalid argument(s)".to_string()), "{wrong}");
        }
        assert_eq!(of(""), words(&[]));
    }
}
