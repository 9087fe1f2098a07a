//! Traces of operations, one a line: docs/formats/trace.md.

mod part;
mod reader;
mod writer;

pub(crate) use part::{TracePart, index_of};
pub use reader::TraceReader;
pub use writer::TraceWriter;

use std::path::PathBuf;
use std::time::Duration;

/// The first line.
const HEADER: &str = "silica-trace 1";
/// Bytes of a line, at most.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a value, at most.
const VALUE_BYTES_MAX: u64 = 1 << 30;

/// What a line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceKind {
    /// The value of a key.
    Get,
    /// To map the key to a value of so many bytes.
    Put {
        /// Bytes of the value.
        value_bytes: usize,
    },
    /// To remove a key.
    Delete,
    /// Entries in the order of the keys, the first at or behind the key.
    Scan {
        /// How many.
        entries: usize,
    },
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Since the trace began.
    pub time: Duration,
    /// What is asked for.
    pub kind: TraceKind,
    /// The key, never empty.
    pub key: &'a [u8],
}

/// How to replay a trace.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The file.
    pub path: PathBuf,
    /// At the trace's own times instead of as fast as possible.
    pub timed: bool,
    /// The store was empty, so that values that are read must be those that were put.
    pub check: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    #[test]
    fn what_is_written_is_read() {
        let mut prng = Prng::new(3);
        let mut writer = TraceWriter::new(Vec::new()).unwrap();
        let mut expected = Vec::new();
        for i in 0..2000u64 {
            let mut key = vec![0; 1 + prng.below(40) as usize];
            prng.fill(&mut key);
            let kind = match prng.below(4) {
                0 => TraceKind::Get,
                1 => TraceKind::Put { value_bytes: prng.below(5000) as usize },
                2 => TraceKind::Delete,
                _ => TraceKind::Scan { entries: 1 + prng.below(100) as usize },
            };
            writer.record(&Event { time: Duration::from_micros(i / 3), kind, key: &key }).unwrap();
            expected.push((Duration::from_micros(i / 3), kind, key));
        }
        let bytes = writer.finish().unwrap();
        let mut reader = TraceReader::new(&bytes[..], "test").unwrap();
        for (time, kind, key) in &expected {
            let event = reader.next().unwrap().unwrap();
            assert_eq!((event.time, event.kind, event.key), (*time, *kind, &key[..]));
        }
        assert!(reader.next().unwrap().is_none());
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, line, why) in [
            ("", 1, "silica-trace 1"),
            ("silica-trace 2\n", 1, "silica-trace 1"),
            ("silica-trace 1\n\n# x\n1 fetch k\n", 4, "operation"),
            ("silica-trace 1\n1 get k\n2 get\n", 3, "no key"),
            ("silica-trace 1\nx get k\n", 2, "time"),
            ("silica-trace 1\n5 get k\n4 get k\n", 3, "before"),
            ("silica-trace 1\n1 put k\n", 2, "size"),
            ("silica-trace 1\n1 put k 99999999999\n", 2, "size"),
            ("silica-trace 1\n1 scan k 0\n", 2, "entries"),
            ("silica-trace 1\n1 get k 7\n", 2, "too many"),
            ("silica-trace 1\n1 get a\\q\n", 2, "\\xNN"),
            ("silica-trace 1\n1 get a\\x4\n", 2, "\\xNN"),
            ("silica-trace 1\n1 get  k\n", 2, "no key"),
            ("silica-trace 1\n1 get k", 2, "cut off"),
        ] {
            let read = || -> silica::Result<()> {
                let mut reader = TraceReader::new(text.as_bytes(), "the.trace")?;
                while reader.next()?.is_some() {}
                Ok(())
            };
            let error = read().unwrap_err().to_string();
            let place = format!("the.trace, line {line}:");
            assert!(error.contains(&place) && error.contains(why), "{text:?}: {error}");
        }
        let long = format!("silica-trace 1\n1 get {}\n", "k".repeat(LINE_BYTES_MAX));
        let mut reader = TraceReader::new(long.as_bytes(), "t").unwrap();
        assert!(reader.next().unwrap_err().to_string().contains("line 2: it has more than 1 MiB"));
    }
}
