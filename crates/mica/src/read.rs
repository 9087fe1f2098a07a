//! Bursts of gets: a pipeline of three stages over the keys of a burst.
//!
//! 1. Hash the key and ask for its bucket.
//! 2. The bucket has arrived: ask for the entry that the first slot with the key's tag names.
//! 3. The entry has arrived: compare, copy, answer.
//!
//! Each stage is [`AHEAD`] keys before the next one, so that as many lines are on their way.

use crate::item::Scratch;
use crate::mica::Mica;
use crate::partition::Probe;
use silica_engine::GetSink;

/// Keys between two stages.
const AHEAD: usize = 16;
/// Keys under way, a power of two.
const RING: usize = 64;
const _: () = assert!(RING.is_power_of_two() && RING > 2 * AHEAD);

impl Mica {
    pub(crate) fn read_burst(&self, keys: &[&[u8]], sink: &mut dyn GetSink) {
        let ahead = AHEAD.min(keys.len());
        let mut ring = [Probe::default(); RING];
        let mut scratch = Scratch::new();
        let (mut hits, mut now) = (0, None);
        for step in 0..keys.len() + 2 * ahead {
            if let Some(key) = keys.get(step) {
                let probe = self.probe(key);
                self.partition(&probe).prefetch_bucket(&probe);
                ring[step % RING] = probe;
            }
            let at = step.wrapping_sub(ahead);
            if at < keys.len() {
                let probe = &ring[at % RING];
                self.partition(probe).prefetch_item(probe);
            }
            let at = step.wrapping_sub(2 * ahead);
            if at < keys.len() {
                let probe = ring[at % RING];
                hits += self.answer(at, keys[at], &probe, &mut scratch, &mut now, sink);
            }
        }
        self.gets.count(keys.len() as u64, hits);
    }

    /// Reports the entry of a key; returns how many there are.
    #[inline(always)]
    fn answer(
        &self,
        at: usize,
        key: &[u8],
        probe: &Probe,
        scratch: &mut Scratch,
        now: &mut Option<u64>,
        sink: &mut dyn GetSink,
    ) -> u64 {
        let partition = self.partition(probe);
        let Some((copied, offset)) = partition.get(probe, key, scratch) else { return 0 };
        if self.has_expired(&copied, now) {
            return 0;
        }
        sink.found(at, scratch.entry(copied));
        // Where somebody writes the partition just now, this use does not count.
        if partition.log().age(offset) > self.move_age && partition.try_lock() {
            partition.renew(probe, key, offset, scratch, &self.rules());
            partition.unlock();
        }
        1
    }
}
