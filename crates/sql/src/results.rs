//! Results of statements that are kept: the coordination cache (section 4.4.2 of the paper on
//! SQLiteKV), by text and arguments. They lie in a cache of the engine `mica`, whose slabs have
//! size classes and whose memory is one number.
//!
//! 1. A result was read at one moment, which is a number of commits. It names what it was read
//!    from: entries by their keys, trees as a whole where a range was read, and always the header.
//!    Each is a *place* in a table of stamps; a place is shared by whatever hashes to it.
//! 2. Whoever commits stamps the places of all that it writes with the number that the commit will
//!    have, before anybody can see it. One transaction commits at a time, so stamps only grow.
//! 3. A result of moment `n` is what a reader at moment `m` would read if no stamp of its places is
//!    above `min(n, m)`: nothing that it names was written between the two. A stamp that is too
//!    high costs a result, and never makes a wrong one.
//!
//! [`crate::stamps`] says what orders stamps and moments.

use crate::failure::Result;
use crate::layout::{HEADER_KEY, prefix};
use crate::stamps::Stamps;
use silica::engine::Engine;
use silica::{Durability, EngineExt, OpenOptions};
use silica_base::HashSeed;
use std::sync::Arc;

/// What everything depends on: stamped by transactions with many writes.
const EVERYTHING: u32 = 0;
/// Places of the table that hashes do not come to.
const PLACES_KEPT: u64 = 1;

/// Places that a transaction remembers: one with more writes stamps everything.
const WRITTEN_MAX: usize = 4096;
/// Places that a result names at most.
const READ_MAX: usize = 64;
/// Less memory is not worth a cache.
pub const RESULTS_BYTES_MIN: u64 = 256 << 10;

/// The places of what is read or written by somebody.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<u32>);

impl Places {
    fn add(&mut self, place: u32) {
        if self.0.last() != Some(&place) {
            self.0.push(place);
        }
    }
}

/// What a transaction writes.
#[derive(Debug, Default)]
pub(crate) struct Written {
    places: Places,
    /// The tree that was written last: rows of a batch are of one tree, whose place is known.
    tree: Option<u32>,
    is_everything: bool,
}

impl Written {
    pub(crate) fn clear(&mut self) {
        self.places.0.clear();
        self.tree = None;
        self.is_everything = false;
    }
}

/// What a statement reads, while it runs.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    places: Places,
    /// The moment that it reads, if it has read anything.
    number: Option<u64>,
    /// It read different moments, or what is not committed.
    is_void: bool,
}

/// See the module's documentation.
pub(crate) struct Results {
    cache: Arc<dyn Engine>,
    stamps: Stamps,
    seed: HashSeed,
}

impl Results {
    /// A cache that takes so much memory with its stamps.
    ///
    /// # Errors
    /// Those of opening a cache.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let count = (bytes / 4 / 8).next_power_of_two() / 2;
        let stamps = Stamps::new(count.max(2) as usize);
        let memory = bytes - 8 * stamps.len() as u64;
        let opening = OpenOptions::new().memory_bytes(memory).background_threads(0);
        Ok(Results { cache: opening.open_cache()?, stamps, seed: HashSeed(*b"places, results.") })
    }

    /// Bytes of key and value that a result may have.
    pub(crate) fn result_bytes_max(&self) -> usize {
        let limits = self.cache.descriptor().limits;
        limits.value_bytes_max.min(64 << 10)
    }

    fn place(&self, key: &[u8]) -> u32 {
        let count = self.stamps.len() as u64 - PLACES_KEPT;
        let hash = self.seed.low(key);
        (PLACES_KEPT + hash % count) as u32
    }

    fn of_tree(&self, root: u32) -> u32 {
        self.place(&prefix(root))
    }

    /// An entry was written, or deleted.
    pub(crate) fn note_written(&self, written: &mut Written, root: u32, key: &[u8]) {
        if written.is_everything {
            return;
        }
        if written.tree.replace(root) != Some(root) {
            written.places.add(self.of_tree(root));
        }
        written.places.add(self.place(key));
        if written.places.0.len() > WRITTEN_MAX {
            self.note_all_written(written);
        }
    }

    /// The header was written.
    pub(crate) fn note_header_written(&self, written: &mut Written) {
        written.places.add(self.place(HEADER_KEY));
    }

    /// More was written than is told apart.
    pub(crate) fn note_all_written(&self, written: &mut Written) {
        written.places.0.clear();
        written.is_everything = true;
    }

    /// Stamps what is about to be committed as commit `number`: rule 2.
    pub(crate) fn stamp(&self, written: &Written, number: u64) {
        let everything = written.is_everything.then_some(EVERYTHING);
        for place in written.places.0.iter().copied().chain(everything) {
            self.stamps.set(place as usize, number);
        }
    }

    /// An entry was read, or found missing, at moment `number`.
    pub(crate) fn note_read(&self, recording: &mut Recording, number: Option<u64>, key: &[u8]) {
        if !recording.is_void {
            self.note(recording, number, self.place(key));
        }
    }

    /// A range of a tree was read.
    pub(crate) fn note_tree_read(&self, recording: &mut Recording, number: Option<u64>, root: u32) {
        if !recording.is_void {
            self.note(recording, number, self.of_tree(root));
        }
    }

    fn note(&self, recording: &mut Recording, number: Option<u64>, place: u32) {
        recording.is_void |=
            number.is_none() || recording.number.is_some_and(|n| Some(n) != number);
        recording.number = number;
        recording.places.add(place);
        recording.is_void |= recording.places.0.len() > READ_MAX;
    }

    /// Keeps the rows that `recording` has read, for the statement that `key` stands for.
    ///
    /// # Errors
    /// Those of the cache.
    pub(crate) fn keep(&self, recording: Recording, key: &[u8], rows: &[u8]) -> Result<()> {
        let Recording { places, number, is_void } = recording;
        let Some(number) = number.filter(|_| !is_void) else { return Ok(()) };
        let own = [EVERYTHING, self.place(HEADER_KEY)];
        let count = places.0.len() + own.len();
        let mut value = Vec::with_capacity(12 + 4 * count + rows.len());
        value.extend_from_slice(&number.to_le_bytes());
        value.extend_from_slice(&(count as u32).to_le_bytes());
        for place in places.0.iter().chain(&own) {
            value.extend_from_slice(&place.to_le_bytes());
        }
        value.extend_from_slice(rows);
        Ok(self.cache.put(key, &value, Durability::Buffered)?)
    }

    /// Calls `take` with the rows of the statement that `key` stands for as a reader at moment
    /// `number` reads them; false if they are not kept.
    ///
    /// # Errors
    /// Those of the cache.
    pub(crate) fn find(&self, key: &[u8], number: u64, take: impl FnOnce(&[u8])) -> Result<bool> {
        Ok(self.cache.get_with(key, |entry| {
            let rows = entry.and_then(|entry| self.rows_of(entry.value, number));
            rows.map(take).is_some()
        })?)
    }

    /// The rows of a result, if it holds at moment `reader`: rule 3.
    fn rows_of<'v>(&self, value: &'v [u8], reader: u64) -> Option<&'v [u8]> {
        let (number, rest) = value.split_first_chunk::<8>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let (places, rows) = rest.split_at_checked(4 * u32::from_le_bytes(*count) as usize)?;
        let bound = u64::from_le_bytes(*number).min(reader);
        let (places, _) = places.as_chunks::<4>();
        let holds = |place: &[u8; 4]| self.stamps.holds(u32::from_le_bytes(*place) as usize, bound);
        places.iter().all(holds).then_some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(results: &Results, number: u64, key: &[u8], rows: &[u8]) {
        let mut recording = Recording::default();
        results.note_read(&mut recording, Some(number), key);
        results.keep(recording, key, rows).expect("kept");
    }

    fn find(results: &Results, key: &[u8], number: u64) -> Option<Vec<u8>> {
        let mut found = None;
        results.find(key, number, |rows| found = Some(rows.to_vec())).expect("looked for");
        found
    }

    fn write(results: &Results, number: u64, keys: &[&[u8]]) {
        let mut written = Written::default();
        keys.iter().for_each(|key| results.note_written(&mut written, 9, key));
        results.stamp(&written, number);
    }

    #[test]
    fn a_result_holds_between_two_writes_of_what_it_was_read_from() {
        let results = Results::new(1 << 20).expect("a cache");
        write(&results, 5, &[b"a"]);
        keep(&results, 7, b"a", b"rows");
        for (reader, is_found) in [(4, false), (5, true), (7, true), (9, true)] {
            assert_eq!(find(&results, b"a", reader).is_some(), is_found, "{reader}");
        }
        write(&results, 10, &[b"b"]);
        assert_eq!(find(&results, b"a", 10).as_deref(), Some(&b"rows"[..]));
        write(&results, 11, &[b"a"]);
        for reader in [5, 7, 10, 11, 12] {
            assert_eq!(find(&results, b"a", reader), None, "{reader}");
        }
    }

    #[test]
    fn ranges_and_the_header_and_many_writes_end_results() {
        let results = Results::new(1 << 20).expect("a cache");
        let keep_range = |number| {
            let mut recording = Recording::default();
            results.note_tree_read(&mut recording, Some(number), 9);
            results.keep(recording, b"range", b"rows").expect("kept");
        };
        keep_range(1);
        assert!(find(&results, b"range", 1).is_some());
        write(&results, 2, &[b"whatever"]);
        assert_eq!(find(&results, b"range", 2), None);
        keep_range(2);
        let mut written = Written::default();
        results.note_header_written(&mut written);
        results.stamp(&written, 3);
        assert_eq!(find(&results, b"range", 3), None);
        keep(&results, 3, b"other", b"rows");
        let mut written = Written::default();
        for n in 0..10_000_u32 {
            results.note_written(&mut written, 8, &n.to_be_bytes());
        }
        results.stamp(&written, 4);
        assert_eq!(find(&results, b"other", 4), None);
    }

    #[test]
    fn what_two_moments_or_no_commit_came_to_is_not_kept() {
        let results = Results::new(1 << 20).expect("a cache");
        for numbers in [[Some(1), Some(2)], [None, Some(2)], [Some(2), None]] {
            let mut recording = Recording::default();
            numbers.iter().for_each(|number| results.note_read(&mut recording, *number, b"k"));
            results.keep(recording, b"k", b"rows").expect("dropped");
            assert_eq!(find(&results, b"k", 2), None);
        }
    }

    #[test]
    fn memory_stays_within_the_number() {
        let results = Results::new(RESULTS_BYTES_MIN).expect("a cache");
        for n in 0..20_000_u32 {
            keep(&results, 1, &n.to_be_bytes(), &[7; 300]);
        }
        let mut metrics = silica::MetricsMap::default();
        results.cache.metrics(&mut metrics);
        let of = ["index_bytes", "log_bytes", "management_bytes"].map(|name| metrics.0[name]);
        let bytes = of.iter().sum::<f64>() as u64 + 8 * results.stamps.len() as u64;
        assert!(bytes <= RESULTS_BYTES_MIN, "{bytes}");
        assert!(find(&results, &19_999_u32.to_be_bytes(), 1).is_some());
    }
}
