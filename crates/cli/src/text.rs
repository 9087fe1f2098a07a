//! Keys and values as text, without losing a byte.

use serde_json::{Map, Value};
use silica::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The bytes that an argument stands for: hexadecimal digits, or text with escapes.
pub(crate) fn parse(argument: &OsStr, hex: bool) -> Result<Vec<u8>> {
    let text = argument.as_bytes();
    let bytes = if hex { from_hex(text) } else { unescape(text).map(Cow::into_owned) };
    bytes.ok_or_else(|| {
        let shown = argument.to_string_lossy();
        let fix = if hex {
            "with --hex it must be an even number of hexadecimal digits"
        } else {
            "after a backslash write xNN, n, r, t or another backslash, or use --hex"
        };
        Error::new(ErrorKind::Config, format!("cannot read '{shown}': {fix}"))
    })
}

/// Bytes as text that [`parse`] reads back.
pub(crate) fn show(bytes: &[u8], hex: bool) -> String {
    if hex { to_hex(bytes) } else { escape(bytes) }
}

/// An object of `fields`. Its code is small: `collect` sorts, by code of its own for each kind of
/// iterator.
pub(crate) fn object_of(fields: impl IntoIterator<Item = (String, Value)>) -> Map<String, Value> {
    let mut object = Map::new();
    object.extend(fields);
    object
}

/// Adds `name` to an object: as text where the bytes are UTF-8, else as `name_hex`.
pub(crate) fn insert_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8], hex: bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !hex => object.insert(name.to_string(), text.into()),
        _ => object.insert(format!("{name}_hex"), to_hex(bytes).into()),
    };
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|d| d as u8)
}

/// The bytes that pairs of hexadecimal digits stand for.
pub(crate) fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// The bytes that text with escapes stands for.
pub(crate) fn unescape(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !text.contains(&b'\\') {
        return Some(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match rest.next()? {
            b'\\' => b'\\',
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            _ => return None,
        });
    }
    Some(Cow::Owned(out))
}

/// Printable text stays; control characters, backslashes and bytes that are no UTF-8 do not.
fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c.is_control() => {
                    let mut utf8 = [0; 4];
                    push_escaped(&mut out, c.encode_utf8(&mut utf8).as_bytes());
                }
                c => out.push(c),
            }
        }
        push_escaped(&mut out, chunk.invalid());
    }
    out
}

fn push_escaped(out: &mut String, bytes: &[u8]) {
    bytes.iter().for_each(|b| out.push_str(&format!("\\x{b:02x}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_string_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [&all[..], b"", "Grüße\t\\x".as_bytes(), b"\xff\xfe", b"plain"] {
            for hex in [false, true] {
                let text = show(bytes, hex);
                assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
                assert_eq!(parse(OsStr::new(&text), hex).unwrap(), bytes, "{text}");
            }
        }
        assert_eq!(show(b"plain text", false), "plain text");
    }

    #[test]
    fn bad_escapes_name_the_fix() {
        for (text, hex, word) in
            [("a\\q", false, "backslash"), ("\\x4", false, "--hex"), ("abc", true, "even number")]
        {
            let error = parse(OsStr::new(text), hex).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
