//! Reads a trace line by line.

use super::{Event, HEADER, LINE_BYTES_MAX, ONE_KEY_IN, TraceKind, VALUE_BYTES_MAX};
use silica_base::{Error, ErrorKind, Result};
use std::io::{BufRead, Read};
use std::time::Duration;

/// Reads a trace from front to back; holds one line at a time.
#[derive(Debug)]
pub struct TraceReader<R> {
    input: R,
    name: String,
    /// Number of the line read last, from 1 on.
    number: u64,
    line: Vec<u8>,
    key: Vec<u8>,
    time: u64,
    /// The trace holds the operations on one key in so many.
    one_key_in: u64,
    has_operations: bool,
    /// A last line without its line feed is left out.
    up_to_cut: bool,
    cut_line: Option<u64>,
}

/// What is wrong with a line.
type Fault = &'static str;

impl<R: BufRead> TraceReader<R> {
    /// Reads the first line; errors call the trace `name`.
    ///
    /// # Errors
    /// `Config` where the first line is another one, `Io` where it cannot be read.
    pub fn new(input: R, name: &str) -> Result<Self> {
        let (line, key) = (Vec::new(), Vec::new());
        let mut reader = TraceReader {
            input,
            name: name.to_string(),
            number: 0,
            line,
            key,
            time: 0,
            one_key_in: 1,
            has_operations: false,
            up_to_cut: false,
            cut_line: None,
        };
        reader.next_line()?;
        if reader.line != HEADER.as_bytes() {
            reader.number = 1;
            let message = format!("it must be '{HEADER}', the format's name and version");
            return Err(reader.wrong(&message));
        }
        Ok(reader)
    }

    /// Takes a last line without its line feed for the place where a recording was cut: it is
    /// left out, not refused.
    #[must_use]
    pub fn up_to_cut(mut self) -> Self {
        self.up_to_cut = true;
        self
    }

    /// The number of the line that was cut and left out, once the end was met.
    pub fn cut_line(&self) -> Option<u64> {
        self.cut_line
    }

    /// The trace holds the operations on one key in so many, chosen by hash; 1 where it holds all.
    /// It is known once the first operation was read.
    pub fn one_key_in(&self) -> u64 {
        self.one_key_in
    }

    /// The next operation; `None` at the end.
    ///
    /// # Errors
    /// `Config` where a line is wrong: the message has the trace's name and the line's number.
    #[expect(clippy::should_implement_trait, reason = "what it gives is borrowed from it")]
    pub fn next(&mut self) -> Result<Option<Event<'_>>> {
        loop {
            if !self.next_line()? {
                return Ok(None);
            }
            match self.line.first() {
                None => {}
                Some(b'#') => self.comment()?,
                Some(_) => break,
            }
        }
        self.has_operations = true;
        match parse(&self.line, &mut self.key) {
            Ok((time, _)) if time < self.time => {
                Err(self.wrong("its time lies before that of the operation before"))
            }
            Ok((time, kind)) => {
                self.time = time;
                Ok(Some(Event { time: Duration::from_micros(time), kind, key: &self.key }))
            }
            Err(fault) => Err(self.wrong(fault)),
        }
    }

    /// An error about the line read last.
    pub fn wrong(&self, why: &str) -> Error {
        let message = format!("{}, line {}: {why}", self.name, self.number);
        Error::new(ErrorKind::Config, message)
    }

    /// Comments are nothing, but for the one that says which keys the trace has.
    fn comment(&mut self) -> Result<()> {
        let rest = self.line.strip_prefix(ONE_KEY_IN.as_bytes());
        match rest.and_then(number) {
            None => Ok(()),
            Some(_) if self.has_operations => {
                Err(self.wrong("'one key in N' belongs before the first operation"))
            }
            Some(0) => Err(self.wrong("'one key in' takes a number over zero")),
            Some(keys) => {
                self.one_key_in = keys;
                Ok(())
            }
        }
    }

    /// Reads a line without its line feed; false at the end.
    fn next_line(&mut self) -> Result<bool> {
        self.line.clear();
        let most = LINE_BYTES_MAX as u64 + 1;
        let read = (&mut self.input).take(most).read_until(b'\n', &mut self.line);
        match read {
            Ok(0) => return Ok(false),
            Ok(_) => self.number += 1,
            Err(e) => return Err(Error::io(format!("reading {}", self.name), e)),
        }
        if self.line.pop_if(|last| *last == b'\n').is_some() {
            return Ok(true);
        }
        if self.line.len() > LINE_BYTES_MAX {
            return Err(self.wrong("it has more than 1 MiB"));
        }
        if self.up_to_cut {
            self.cut_line = Some(self.number);
            return Ok(false);
        }
        Err(self.wrong("it has no line feed, so it may be cut off; finish or remove it"))
    }
}

fn parse(line: &[u8], key: &mut Vec<u8>) -> Result<(u64, TraceKind), Fault> {
    let mut fields = line.split(|b| *b == b' ');
    let time = fields.next().and_then(number).ok_or("its time is no number of microseconds")?;
    let operation = fields.next().unwrap_or_default();
    let text = fields.next().unwrap_or_default();
    let size = fields.next();
    let count = || size.and_then(number);
    let kind = match operation {
        b"get" => TraceKind::Get,
        b"delete" => TraceKind::Delete,
        b"put" => match count() {
            Some(bytes) if bytes <= VALUE_BYTES_MAX => {
                TraceKind::Put { value_bytes: bytes as usize }
            }
            _ => return Err("a put ends with the size of its value, at most 1 GiB"),
        },
        b"scan" => match count() {
            Some(entries) if (1..=u64::from(u32::MAX)).contains(&entries) => {
                TraceKind::Scan { entries: entries as usize }
            }
            _ => return Err("a scan ends with the number of its entries, at least 1"),
        },
        _ => return Err("its operation is none of get, put, delete, scan"),
    };
    unescape(text, key)?;
    let sized = matches!(kind, TraceKind::Put { .. } | TraceKind::Scan { .. });
    if fields.next().is_some() || (size.is_some() && !sized) {
        return Err("it has too many fields; a space in a key is \\x20");
    }
    Ok((time, kind))
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

fn unescape(text: &[u8], key: &mut Vec<u8>) -> Result<(), Fault> {
    key.clear();
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'\\' {
            key.push(*byte);
            continue;
        }
        let digit = |at: usize| rest.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (rest.first(), digit(1), digit(2)) {
            (Some(b'x'), Some(high), Some(low)) => key.push((high * 16 + low) as u8),
            _ => return Err("a backslash in a key begins \\xNN, two hexadecimal digits"),
        }
        rest = &rest[3..];
    }
    if key.is_empty() { Err("it has no key behind the operation") } else { Ok(()) }
}
