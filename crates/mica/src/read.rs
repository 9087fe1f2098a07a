//! Bursts of gets, in three stages over the keys of a burst.
//!
//! 1. Hash the key and ask for its bucket.
//! 2. The bucket has arrived: ask for the entry that the first slot with the key's tag names.
//! 3. The entry has arrived: compare, copy, answer.
//!
//! A stage goes over up to [`TOGETHER`] keys before the next one begins, so that as many lines are
//! on their way.

use crate::item::Scratch;
use crate::mica::Mica;
use crate::partition::{Partition, Probe, Sought};
use silica_base::Result;
use silica_engine::{EntryRef, GetSink};

/// Keys that go through a stage together.
const TOGETHER: usize = 32;

impl Mica {
    pub(crate) fn read_burst(&self, keys: &[&[u8]], sink: &mut dyn GetSink) {
        let hits = self.read::<false>(keys, sink, |key| Ok(self.probe(key)));
        self.gets.count(keys.len() as u64, hits.unwrap_or_default());
    }

    /// The same for the owner of partition `number`, to which all keys must belong.
    pub(crate) fn read_owned(
        &self,
        number: usize,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
    ) -> Result<()> {
        let hits = self.read::<true>(keys, sink, |key| self.probe_in(number, key))?;
        let counts = &self.partitions[number].counts;
        counts.gets_owned.add(keys.len() as u64);
        counts.hits_owned.add(hits);
        Ok(())
    }

    /// Reports the entries of `keys`; returns how many there are.
    #[inline(always)]
    fn read<const OWNED: bool>(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        probe: impl Fn(&[u8]) -> Result<Probe>,
    ) -> Result<u64> {
        let nothing = (&self.partitions[0], self.partitions[0].sought(&self.probe(b"")));
        let mut sought: [(&Partition, Sought<'_>); TOGETHER] = [nothing; TOGETHER];
        let mut scratch = Scratch::new();
        let (mut hits, mut now) = (0, None);
        for (number, keys) in keys.chunks(TOGETHER).enumerate() {
            for (key, (partition, sought)) in keys.iter().zip(&mut sought) {
                let probe = probe(key)?;
                *partition = self.partition(&probe);
                *sought = partition.sought(&probe);
            }
            for (partition, sought) in &mut sought[..keys.len()] {
                partition.prefetch_item(sought);
            }
            for (at, (key, (partition, sought))) in keys.iter().zip(&sought).enumerate() {
                let found = if OWNED {
                    partition.get_owned(sought, key, &mut scratch)
                } else {
                    partition.get(sought, key, &mut scratch)
                };
                let Some((copied, offset)) = found else { continue };
                if self.has_expired(&copied, &mut now) {
                    continue;
                }
                let entry: EntryRef<'_> = scratch.entry(copied);
                sink.found(number * TOGETHER + at, entry);
                hits += 1;
                if partition.log().is_older(offset, self.move_age) {
                    self.renew::<OWNED>(key, offset, &mut scratch);
                }
            }
        }
        Ok(hits)
    }

    /// Moves an entry that was used to the tail. Where somebody writes its partition just now,
    /// this use does not count.
    #[cold]
    fn renew<const OWNED: bool>(&self, key: &[u8], offset: u64, scratch: &mut Scratch) {
        let probe = self.probe(key);
        let partition = self.partition(&probe);
        if OWNED || partition.try_lock() {
            partition.renew(&probe, key, offset, scratch, &self.rules());
            if !OWNED {
                partition.unlock();
            }
        }
    }
}
