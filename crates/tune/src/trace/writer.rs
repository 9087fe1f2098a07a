//! Writes a trace.

use super::{Event, HEADER, ONE_KEY_IN, TraceKind};
use silica_base::{Error, Result};
use std::io::Write;

/// Appends operations to a trace; a writer with a buffer keeps it cheap.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    line: Vec<u8>,
}

fn failed(e: std::io::Error) -> Error {
    Error::io("writing a trace", e)
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace.
    pub fn new(mut out: W) -> Result<Self> {
        writeln!(out, "{HEADER}").map_err(failed)?;
        Ok(TraceWriter { out, line: Vec::new() })
    }

    /// Says that the trace holds the operations on one key in `keys`. Comes before the first
    /// operation.
    pub fn one_key_in(&mut self, keys: u64) -> Result<()> {
        writeln!(self.out, "{ONE_KEY_IN}{keys}").map_err(failed)
    }

    /// Appends a line that says something to people.
    pub fn comment(&mut self, text: &str) -> Result<()> {
        writeln!(self.out, "# {}", text.replace(['\n', '\r'], " ")).map_err(failed)
    }

    /// Where it is written to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Appends one operation.
    pub fn record(&mut self, event: &Event<'_>) -> Result<()> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.line.clear();
        let (name, size) = match event.kind {
            TraceKind::Get => ("get", None),
            TraceKind::Put { value_bytes } => ("put", Some(value_bytes)),
            TraceKind::Delete => ("delete", None),
            TraceKind::Scan { entries } => ("scan", Some(entries)),
        };
        write!(self.line, "{} {name} ", event.time.as_micros()).map_err(failed)?;
        for byte in event.key {
            match byte {
                b'!'..=b'~' if *byte != b'\\' => self.line.push(*byte),
                _ => {
                    let (high, low) = (byte >> 4, byte & 15);
                    let digits = [DIGITS[usize::from(high)], DIGITS[usize::from(low)]];
                    self.line.extend_from_slice(b"\\x");
                    self.line.extend_from_slice(&digits);
                }
            }
        }
        if let Some(size) = size {
            write!(self.line, " {size}").map_err(failed)?;
        }
        self.line.push(b'\n');
        self.out.write_all(&self.line).map_err(failed)
    }

    /// Writes out what is buffered.
    pub fn finish(mut self) -> Result<W> {
        self.out.flush().map_err(failed)?;
        Ok(self.out)
    }
}
