//! Splitting an inline command into arguments, in place.

use crate::parser::Span;

/// Splits `line` at blanks into `spans` and undoes quoting in place: `"a\n\x41"` knows escapes,
/// `'it\'s'` only the escaped quote. Text without its quotes is never longer than with them, so
/// arguments are written over the line itself. False where quotes are not balanced.
pub(crate) fn split(line: &mut [u8], spans: &mut Vec<Span>) -> bool {
    let mut at = 0;
    let mut to = 0;
    loop {
        while at < line.len() && is_blank(line[at]) {
            at += 1;
        }
        if at == line.len() {
            return true;
        }
        let start = to;
        while at < line.len() && !is_blank(line[at]) {
            match line[at] {
                quote @ (b'"' | b'\'') => match unquote(line, at + 1, &mut to, quote) {
                    // A closing quote must be followed by a blank or the end.
                    Some(after) if after == line.len() || is_blank(line[after]) => at = after,
                    _ => return false,
                },
                byte => {
                    line[to] = byte;
                    to += 1;
                    at += 1;
                }
            }
        }
        spans.push(Span { start: start as u32, len: (to - start) as u32 });
    }
}

/// Copies the quoted text from `at` on to `*to`; returns the position after the closing quote.
fn unquote(line: &mut [u8], mut at: usize, to: &mut usize, quote: u8) -> Option<usize> {
    while at < line.len() {
        let (byte, used) = match (line[at], line.get(at + 1)) {
            (b'\\', Some(&next)) if quote == b'"' => escape(&line[at..], next),
            (b'\\', Some(b'\'')) => (b'\'', 2),
            (byte, _) if byte == quote => return Some(at + 1),
            (byte, _) => (byte, 1),
        };
        line[*to] = byte;
        *to += 1;
        at += used;
    }
    None
}

/// The byte that an escape starting at `text[0]` (a backslash) stands for, and its length.
fn escape(text: &[u8], next: u8) -> (u8, usize) {
    if next == b'x'
        && let (Some(high), Some(low)) = (hex(text.get(2)), hex(text.get(3)))
    {
        return (high << 4 | low, 4);
    }
    let byte = match next {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    };
    (byte, 2)
}

fn hex(byte: Option<&u8>) -> Option<u8> {
    char::from(*byte?).to_digit(16).map(|d| d as u8)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut line = text.to_vec();
        let mut spans = Vec::new();
        split(&mut line, &mut spans).then(|| spans.iter().map(|s| s.of(&line).to_vec()).collect())
    }

    #[test]
    fn quotes_and_escapes() {
        let want = |list: &[&[u8]]| Some(list.iter().map(|a| a.to_vec()).collect::<Vec<_>>());
        assert_eq!(args(b"  set  a b "), want(&[b"set", b"a", b"b"]));
        assert_eq!(args(b"set \"a b\" ''"), want(&[b"set", b"a b", b""]));
        assert_eq!(args(br#""\x41\n\"\q\xg""#), want(&[b"A\n\"qxg"]));
        assert_eq!(args(br"'it\'s \n'"), want(&[br"it's \n"]));
        assert_eq!(args(b"pre\"fix\" x"), want(&[b"prefix", b"x"]));
        assert_eq!(args(b""), want(&[]));
        assert_eq!(args(b"\"a"), None);
        assert_eq!(args(b"\"a\"b"), None);
        assert_eq!(args(b"'a\\"), None);
    }
}
