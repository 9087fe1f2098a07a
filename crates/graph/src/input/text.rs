//! Lines with two numbers.

use super::{BAD_MAX, BadLine, InputReport, failed};
use silica_base::{Error, ErrorKind, Result};
use std::io::BufRead;

/// Bytes of a line at most: a longer one is no edge.
const LINE_MAX: usize = 4096;
/// Characters of a line that a message shows.
const SHOWN_MAX: usize = 40;

/// Reads lines to the end.
pub(super) fn read(
    mut input: impl BufRead,
    skips_bad: bool,
    each: &mut dyn FnMut(u32, u32) -> Result<()>,
) -> Result<InputReport> {
    let mut lines = Lines { report: InputReport::default(), number: 0, skips_bad, each };
    // A line that began in the bytes before.
    let mut begun: Vec<u8> = Vec::new();
    loop {
        let bytes = input.fill_buf().map_err(failed)?;
        if bytes.is_empty() {
            break;
        }
        let taken = bytes.len();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if begun.is_empty() {
                lines.take(line)?;
            } else {
                begin(&mut begun, line);
                lines.take(&begun)?;
                begun.clear();
            }
            rest = after;
        }
        begin(&mut begun, rest);
        input.consume(taken);
    }
    if !begun.is_empty() {
        lines.take(&begun)?;
    }
    Ok(lines.report)
}

/// Keeps as much of a line as tells that it is too long.
fn begin(begun: &mut Vec<u8>, bytes: &[u8]) {
    let room = (LINE_MAX + 1).saturating_sub(begun.len());
    begun.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

struct Lines<'e> {
    report: InputReport,
    number: u64,
    skips_bad: bool,
    each: &'e mut dyn FnMut(u32, u32) -> Result<()>,
}

impl Lines<'_> {
    fn take(&mut self, line: &[u8]) -> Result<()> {
        self.number += 1;
        if let Some((source, target)) = quick(line) {
            self.report.edges += 1;
            return (self.each)(source, target);
        }
        match parse(line) {
            Ok(Some((source, target))) => {
                self.report.edges += 1;
                (self.each)(source, target)
            }
            Ok(None) => Ok(()),
            Err(reason) if self.skips_bad => {
                self.report.bad += 1;
                if self.report.bad_lines.len() < BAD_MAX {
                    self.report.bad_lines.push(BadLine { line: self.number, reason });
                }
                Ok(())
            }
            Err(reason) => {
                let message = format!(
                    "line {} of the edge list: {reason}; mend it, or skip such lines (--skip-bad)",
                    self.number
                );
                Err(Error::new(ErrorKind::Config, message))
            }
        }
    }
}

/// Two numbers of at most nine digits with a space or a tab between them, and nothing else: most
/// lines are so.
fn quick(line: &[u8]) -> Option<(u32, u32)> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let middle = line.iter().position(|byte| !byte.is_ascii_digit())?;
    let is_gap = matches!(line[middle], b' ' | b'\t');
    let (source, target) = (&line[..middle], &line[middle + 1..]);
    let is_short = |digits: &[u8]| (1..=9).contains(&digits.len());
    let is_plain = is_gap && is_short(source) && is_short(target);
    if !is_plain || !target.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| digits.iter().fold(0, |n, d| n * 10 + u32::from(d - b'0'));
    Some((number(source), number(target)))
}

/// An edge; `None` for comments and empty lines; what is wrong with anything else.
fn parse(line: &[u8]) -> Result<Option<(u32, u32)>, String> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"%") {
        return Ok(None);
    }
    if line.len() > LINE_MAX {
        return Err(format!("it has more than {LINE_MAX} bytes"));
    }
    let is_gap = |byte: &u8| matches!(byte, b' ' | b'\t' | b',' | b';');
    let mut fields = line.split(is_gap).filter(|field| !field.is_empty());
    let (first, second) = (fields.next(), fields.next());
    let extra = fields.count();
    match (first, second) {
        (Some(source), Some(target)) if extra == 0 => Ok(Some((vertex(source)?, vertex(target)?))),
        (Some(_), Some(_)) => {
            Err(format!("it has {} fields, and an edge has two vertices", extra + 2))
        }
        _ => Err(format!("\"{}\" is one field, and an edge has two vertices", shown(line))),
    }
}

fn vertex(field: &[u8]) -> Result<u32, String> {
    let text = shown(field);
    let digits = field.strip_prefix(b"-").unwrap_or(field);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(format!("\"{text}\" is no whole number"));
    }
    if digits.len() < field.len() {
        return Err(format!("\"{text}\" is negative, and vertices are numbered from 0"));
    }
    let number = digits.iter().try_fold(0u32, |number, digit| {
        number.checked_mul(10).and_then(|n| n.checked_add(u32::from(digit - b'0')))
    });
    number.ok_or_else(|| format!("\"{text}\" is too large: vertices go up to {}", u32::MAX))
}

/// The begin of a text, for a message.
fn shown(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes).chars().take(SHOWN_MAX).collect();
    let text = text.escape_debug().to_string();
    if bytes.len() > SHOWN_MAX { format!("{text}...") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_edges_comments_or_wrong() {
        assert_eq!(parse(b" 1\t2 \r"), Ok(Some((1, 2))));
        assert_eq!(parse(b"4294967295,0"), Ok(Some((u32::MAX, 0))));
        assert_eq!(parse(b"# 1 2"), Ok(None));
        assert_eq!(parse(b" \t"), Ok(None));
        let wrong = |line: &[u8]| parse(line).unwrap_err();
        assert!(wrong(b"4294967296 1").contains("too large"));
        assert!(wrong(b"1 -2").contains("negative"));
        assert!(wrong(b"1 x2").contains("no whole number"));
        assert!(wrong(b"1").contains("one field"));
        assert!(wrong(b"1 2 3").contains("3 fields"));
        assert!(wrong(&[b'1'; 5000]).contains("bytes"));
    }

    #[test]
    fn the_quick_way_finds_what_the_slow_way_finds() {
        let lines =
            ["1 2", "000000012\t7", "1234567890 1", "1  2", "1 2 ", "1 ", " 1 2", "1-2", "7 8\r"];
        for line in lines {
            if let Some(found) = quick(line.as_bytes()) {
                assert_eq!(parse(line.as_bytes()), Ok(Some(found)), "{line}");
            }
        }
        assert_eq!(quick(b"7 8\r"), Some((7, 8)));
        assert_eq!(quick(b"1 "), None);
    }
}
