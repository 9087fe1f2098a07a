//! One thread's part of a trace.

use super::{Trace, TraceKind, TraceReader};
use crate::generator::Shape;
use crate::target::Abilities;
use crate::window::{Turn, Window};
use crate::workload::Kind;
use silica::{Error, Result};
use silica_base::HashSeed;
use std::fs::File;
use std::io::BufReader;
use std::time::Duration;

/// Bytes that are read ahead.
const READ_BYTES: usize = 256 << 10;
/// Bytes of keys and values in one window, unless a single operation has more.
const WINDOW_BYTES: usize = 256 << 10;

/// The number that stands for a key of a trace.
pub(crate) fn index_of(key: &[u8]) -> u64 {
    HashSeed([0; 16]).hash(key).high()
}

/// Reads a whole trace and keeps the operations whose keys are its thread's, so that operations
/// on one key keep their order.
pub(crate) struct TracePart {
    reader: TraceReader<BufReader<File>>,
    turn: Turn,
    abilities: Abilities,
    versions: u64,
    /// Of keys asked for and of values put, all together.
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
}

impl TracePart {
    pub(crate) fn open(trace: &Trace, turn: Turn, abilities: Abilities) -> Result<Self> {
        let name = trace.path.display().to_string();
        let failed = |e| Error::io(format!("cannot read {name}; check the trace's path"), e);
        let file = File::open(&trace.path).map_err(failed)?;
        let input = BufReader::with_capacity(READ_BYTES, file);
        // A recording that was cut is replayed up to the cut.
        let reader = TraceReader::new(input, &name)?.up_to_cut();
        Ok(TracePart { reader, turn, abilities, versions: 0, key_bytes: 0, value_bytes: 0 })
    }

    /// Adds up to `count` operations to `window`; none at the end. The time of the last one.
    pub(crate) fn read(
        &mut self,
        window: &mut Window,
        count: usize,
        burst_max: usize,
    ) -> Result<Duration> {
        let mut last = Duration::ZERO;
        while window.operations.len() < count && window.bytes() < WINDOW_BYTES {
            let Some(event) = self.reader.next()? else { break };
            let index = index_of(event.key);
            if index % self.turn.threads != self.turn.thread {
                continue;
            }
            let (kind, entries, value_bytes) = match event.kind {
                TraceKind::Get => (Kind::Read, 0, 0),
                TraceKind::Put { value_bytes } => (Kind::Update, 0, value_bytes),
                TraceKind::Delete => (Kind::Delete, 0, 0),
                TraceKind::Scan { entries } => (Kind::Scan, entries, 0),
            };
            last = event.time;
            self.versions += u64::from(kind == Kind::Update);
            self.key_bytes += event.key.len() as u64;
            self.value_bytes += value_bytes as u64;
            let version = self.turn.version(self.versions);
            let shape = Shape { key_bytes: 0, value_bytes };
            let put_key = |out: &mut Vec<u8>| out.extend_from_slice(event.key);
            let put_value = |out: &mut Vec<u8>| shape.append_value(index, version, out);
            window.push((kind, index, entries), burst_max, put_key, put_value);
            if kind == Kind::Scan && !self.abilities.scan {
                return Err(self.reader.wrong("this store does not scan keys in order"));
            }
            if kind == Kind::Delete && !self.abilities.delete {
                return Err(self.reader.wrong("this store does not delete keys"));
            }
        }
        Ok(last)
    }
}
