//! Requests on their way to the loop that owns their keys, and what comes back.

use super::hub::Shards;
use silica::engine::{
    Durability, EntryRef, Error, ErrorKind, GetSink, Op, OpKind, Result, WriteBatch,
};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes of values after which the rest of a job's keys is left for another one.
const VALUES_BYTES_MAX: usize = 1 << 20;
/// Bytes that a job which waits for its next use keeps.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// What is wanted of the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Get,
    Write(Durability),
}

/// A key, or an operation.
#[derive(Debug, Clone)]
struct Item {
    /// Its place in the sender's list.
    place: u32,
    partition: u32,
    key: Range<usize>,
    /// What is stored; nothing where the key is deleted, or asked for.
    entry: Option<(Range<usize>, u64, u32)>,
}

/// An entry that was found.
#[derive(Debug, Clone)]
struct Found {
    place: u32,
    value: Range<usize>,
    expires_unix_ms: u64,
    user_bits: u32,
}

/// What goes to an owner and comes back; kept for its memory.
#[derive(Debug)]
pub(super) struct Job {
    /// The loop that gets it back.
    pub(super) from: usize,
    /// The loop that it goes to.
    pub(super) owner: usize,
    /// Which of the sender's rounds it belongs to.
    pub(super) round: u64,
    pub(super) db: usize,
    pub(super) want: Want,
    bytes: Vec<u8>,
    items: Vec<Item>,
    values: Vec<u8>,
    found: Vec<Found>,
    /// Places of keys whose values had no room.
    pub(super) missed: Vec<u32>,
    pub(super) result: Result<()>,
}

impl Job {
    pub(super) fn new() -> Self {
        Job {
            from: 0,
            owner: 0,
            round: 0,
            db: 0,
            want: Want::Get,
            bytes: Vec::new(),
            items: Vec::new(),
            values: Vec::new(),
            found: Vec::new(),
            missed: Vec::new(),
            result: Ok(()),
        }
    }

    /// Forgets all but a little memory.
    pub(super) fn clear(&mut self) {
        for bytes in [&mut self.bytes, &mut self.values] {
            bytes.clear();
            bytes.shrink_to(KEPT_BYTES_MAX);
        }
        self.items.clear();
        self.found.clear();
        self.missed.clear();
        self.result = Ok(());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn copy(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Adds a key. Those of one partition follow one another.
    pub(super) fn add_key(&mut self, place: u32, partition: usize, key: &[u8]) {
        let key = self.copy(key);
        self.items.push(Item { place, partition: partition as u32, key, entry: None });
    }

    /// Adds an operation. Those of one partition follow one another.
    pub(super) fn add_op(&mut self, place: u32, partition: usize, op: &Op<'_>) {
        self.add_key(place, partition, op.key);
        if let OpKind::Put(entry) = &op.kind {
            let value = self.copy(entry.value);
            let entry = (value, entry.expires_unix_ms, entry.user_bits);
            self.items.last_mut().expect("one was added").entry = Some(entry);
        }
    }

    /// Does the work, with the owner's shards.
    pub(super) fn run(&mut self, shards: &mut Shards) {
        let run = catch_unwind(AssertUnwindSafe(|| self.try_to_run(shards)));
        self.result = run.unwrap_or_else(|_| {
            log::error!("a request of another loop made an engine panic");
            Err(Error::new(ErrorKind::Io, "the engine failed; the server's log says more"))
        });
    }

    fn try_to_run(&mut self, shards: &mut Shards) -> Result<()> {
        let Job { bytes, items, values, found, missed, .. } = self;
        let mut result = Ok(());
        for items in items.chunk_by(|a, b| a.partition == b.partition) {
            let shard = shards.get(self.db, items[0].partition as usize)?;
            let done = match self.want {
                Want::Get => {
                    let keys: Vec<&[u8]> = items.iter().map(|i| &bytes[i.key.clone()]).collect();
                    shard.get_many(&keys, &mut Collector { items, values, found, missed })
                }
                Want::Write(durability) => {
                    let mut batch = WriteBatch::new();
                    for item in items {
                        batch.push(item.op(bytes));
                    }
                    shard.write(&batch, durability)
                }
            };
            // One partition's failure is not the others'.
            result = result.and(done);
        }
        result
    }

    /// Reports what was found.
    pub(super) fn report(&self, sink: &mut dyn GetSink) {
        for found in &self.found {
            let value = &self.values[found.value.clone()];
            let (expires_unix_ms, user_bits) = (found.expires_unix_ms, found.user_bits);
            sink.found(found.place as usize, EntryRef { value, expires_unix_ms, user_bits });
        }
    }
}

impl Item {
    fn op<'b>(&self, bytes: &'b [u8]) -> Op<'b> {
        let kind = match &self.entry {
            None => OpKind::Delete,
            Some((value, expires_unix_ms, user_bits)) => OpKind::Put(EntryRef {
                value: &bytes[value.clone()],
                expires_unix_ms: *expires_unix_ms,
                user_bits: *user_bits,
            }),
        };
        Op { key: &bytes[self.key.clone()], kind }
    }
}

/// Collects values; those that have no room are missed.
struct Collector<'j> {
    items: &'j [Item],
    values: &'j mut Vec<u8>,
    found: &'j mut Vec<Found>,
    missed: &'j mut Vec<u32>,
}

impl GetSink for Collector<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let (start, place) = (self.values.len(), self.items[index].place);
        // The first always fits: otherwise nothing would ever go on.
        if start > 0 && start + entry.value.len() > VALUES_BYTES_MAX {
            return self.missed.push(place);
        }
        self.values.extend_from_slice(entry.value);
        let (expires_unix_ms, user_bits) = (entry.expires_unix_ms, entry.user_bits);
        let value = start..self.values.len();
        self.found.push(Found { place, value, expires_unix_ms, user_bits });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_room_are_missed_but_for_the_first() {
        let mut job = Job::new();
        (0..3).for_each(|n| job.add_key(10 + n, 0, b"key"));
        let value = vec![1; VALUES_BYTES_MAX + 1];
        let Job { items, values, found, missed, .. } = &mut job;
        let mut collector = Collector { items, values, found, missed };
        collector.found(2, EntryRef::new(&value));
        collector.found(0, EntryRef::new(b"x"));
        assert_eq!((job.found.len(), job.found[0].place, &job.missed[..]), (1, 12, &[10][..]));
    }
}
