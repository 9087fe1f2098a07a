//! Partitions that a thread owns.
//!
//! A shard is the only writer of its partition from [`Sharded::take`] until it is dropped: the
//! partition's lock stays with it, and whoever else asks for it is refused. So its calls take no
//! lock and need no atomic read-modify-write, and its gets look at no versions. It still keeps
//! them, with plain stores, so that everybody else may read through the engine at any time.

use crate::large::Held;
use crate::limits::at_most;
use crate::mica::Mica;
use crate::partition::{Partition, Probe, refused};
use crate::protocol::Refusal;
use crate::write::value_bytes;
use silica_base::{Error, ErrorKind, HashSeed, Result};
use silica_engine::{Durability, EntryRef, GetSink, Shard, Sharded, Update, WriteBatch};

/// Keys that are hashed together.
const TOGETHER: usize = 32;

/// The only writer of a partition.
struct MicaShard {
    mica: Mica,
    number: usize,
}

impl Sharded for Mica {
    fn shards(&self) -> usize {
        self.partitions.len()
    }

    fn shard_of(&self, key: &[u8]) -> usize {
        self.probe(key).partition as usize
    }

    fn shards_of(&self, keys: &[&[u8]], each: &mut dyn FnMut(usize, usize)) {
        let mut hashes = [0; TOGETHER];
        for (chunk, keys) in keys.chunks(TOGETHER).enumerate() {
            self.seed.low_many(keys, &mut hashes);
            for (at, hash) in hashes[..keys.len()].iter().enumerate() {
                each(chunk * TOGETHER + at, self.partition_of(*hash));
            }
        }
    }

    fn seed(&self) -> Option<HashSeed> {
        Some(self.seed)
    }

    fn take(&self, number: usize) -> Result<Box<dyn Shard>> {
        let Some(partition) = self.partitions.get(number) else {
            let count = self.partitions.len();
            let message = format!("there is no partition {number}; there are {count}");
            return Err(Error::new(ErrorKind::Config, message));
        };
        partition.own().map_err(|why| refused(number, why))?;
        Ok(Box::new(MicaShard { mica: self.share(), number }))
    }
}

impl MicaShard {
    fn partition(&self) -> &Partition {
        &self.mica.partitions[self.number]
    }

    /// Refuses to go on where an earlier call stopped half way.
    #[inline]
    fn check(&self) -> Result<()> {
        let is_poisoned = self.partition().is_poisoned();
        if is_poisoned { Err(refused(self.number, Refusal::Poisoned)) } else { Ok(()) }
    }

    /// Goes on with removing what has expired from a cache, which nobody else can meanwhile.
    #[inline]
    fn tidy(&self, chains: usize) {
        if !self.mica.is_store {
            self.partition().guarded(|_| self.mica.sweep_some(1 << self.number, chains));
        }
        self.mica.tidy_remains(1 << self.number, self.held());
    }

    fn held(&self) -> Held {
        Held::owned(self.number)
    }

    fn probes<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Result<Vec<Probe>> {
        keys.map(|key| self.mica.probe_in(self.number, self.mica.seed.low(key))).collect()
    }
}

impl Drop for MicaShard {
    fn drop(&mut self) {
        self.partition().unlock();
    }
}

impl Shard for MicaShard {
    fn number(&self) -> usize {
        self.number
    }

    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.check()?;
        self.mica.read_owned(self.number, keys, sink)
    }

    fn write(&mut self, batch: &WriteBatch<'_>, _durability: Durability) -> Result<()> {
        self.check()?;
        let mut bytes = 0;
        batch.refuse_ranges("mica")?;
        for op in batch.ops() {
            self.mica.check(op.key.len(), value_bytes(op))?;
            bytes += op.key.len() + self.mica.batch_bytes(value_bytes(op));
        }
        at_most(bytes, self.mica.descriptor.limits.batch_bytes_max, "batch")?;
        let probes = self.probes(batch.ops().iter().map(|op| op.key))?;
        probes.iter().take(32).for_each(|probe| self.partition().prefetch_bucket(probe));
        let result = self.mica.apply_held(batch.ops(), &probes, self.held());
        self.tidy(2 * probes.len());
        result
    }

    fn update_many(
        &mut self,
        keys: &[&[u8]],
        _durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        self.check()?;
        let probes = self.probes(keys.iter().copied())?;
        let result = self.mica.update_locked(keys, &probes, decide, self.held());
        self.tidy(2 * probes.len());
        result.map(|updated| updated.expect("an owner has all the locks that it gets"))
    }
}
