//! A hash table of cache lines, eight slots each.
//!
//! A slot is a tag of 16 bits, of the key's hash, and a position. A key has two lines, in one page
//! of memory; a new position goes to the one that has more room, behind those that are there. With
//! one line a table would have to grow as soon as one of many has nine keys by chance, at a third
//! of its room; with two it gets three quarters full.
//!
//! Orderings, for any number who insert and who read (`tests/directory_model.rs` checks them):
//!
//! * A slot is taken, and its position replaced, by compare-and-swap with release, once the entry
//!   is in the log, and the load of it that says where the entry is has acquire: so the entry's
//!   bytes are there.
//! * A slot goes from empty to a position and then only to greater positions of the same key, so a
//!   word is whole whenever it is read. The search by tags is relaxed: it says where to look, and
//!   the load that follows decides. A slot that it misses was empty for this reader, or holds
//!   another key's tag.
//! * Two who insert a key at the same time may each take a slot; the newest is found.
//! * Who comes with a lesser position than the key has already was overtaken. Nobody asks for the
//!   state between the two: snapshots are taken while nobody inserts.
//! * Versions of a key that readers of the past may ask for stay in slots of their own; so what was
//!   there when a reader began is found, or a newer version of the same key.
//! * The number of slots in use is relaxed: nothing is found by it.

use super::entries::{Entries, Found, Full, POSITION_BITS};
use super::sync::{Acquire, AtomicU64, Line, Lines, Relaxed, Release};
use super::sync::{TAG_GROUP, match_tags, prefetch};

const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;
/// Lines that a key's second one is at most away from the first, less one; all of a page.
const NEAR_MASK: u64 = 63;

/// Times that a directory has as many lines as its positions need, at most, where it grows.
const GROWTH_MAX: usize = 16;

/// A directory of more bytes does not grow.
const LARGE_BYTES: usize = 256 << 10;

/// How full a large one gets. Who inserts beside others and finds both lines of a key full can do
/// nothing but have it grow, for which all others wait: in one of 4 MiB that comes at 66 to 71
/// percent, in one of 32 MiB at 60 to 67.
const FULL_PERCENT: usize = 58;

/// What became of an older version of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// There was none, or it stays because a snapshot may ask for it.
    Added,
    /// This position gave way.
    Replaced(u64),
    /// A later version came first, and this one is not needed any more.
    Overtaken,
}

/// See the module's documentation.
pub struct Directory {
    lines: Lines,
    /// Slots in use.
    used: AtomicU64,
}

impl Directory {
    /// An empty one of `lines` lines, a power of two.
    ///
    /// # Panics
    /// Where that is none.
    pub fn new(lines: usize) -> Self {
        assert!(lines.is_power_of_two(), "lines are a power of two");
        Directory { lines: Lines::zeroed(lines), used: AtomicU64::new(0) }
    }

    /// An empty one to come after this: of as many lines, or twice as many where this is large and
    /// full.
    pub fn next(&self) -> Self {
        Directory::new(self.lines.len() << usize::from(self.is_nearly_full()))
    }

    /// True where another one had better take over before both lines of some key are full.
    pub fn is_nearly_full(&self) -> bool {
        self.is_large() && self.len() * 100 > self.lines.len() * TAG_GROUP * FULL_PERCENT
    }

    /// True where it is not to grow: the put that it grows for would wait for all of its keys to be
    /// hashed again. Another one takes over.
    pub fn is_large(&self) -> bool {
        self.bytes() > LARGE_BYTES
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        64 * self.lines.len()
    }

    /// Positions.
    pub fn len(&self) -> usize {
        self.used.load(Relaxed) as usize
    }

    /// True where there is no position.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lowest bits.
    #[inline(always)]
    fn tag(hash: u64) -> u16 {
        hash as u16
    }

    /// The lines of a key.
    #[inline(always)]
    fn lines_of(&self, hash: u64) -> [usize; 2] {
        let mask = self.lines.len() as u64 - 1;
        let first = hash >> 32 & mask;
        // Never the same one, unless there is only one.
        let apart = (hash >> 16 & NEAR_MASK).max(1);
        [first as usize, ((first ^ apart) & mask) as usize]
    }

    /// Asks for the lines of a key with this hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        for line in self.lines_of(hash) {
            prefetch(&self.lines, line);
        }
    }

    /// The newest version of `key` before position `before`. For everybody.
    #[inline]
    pub fn find<'e>(
        &self,
        hash: u64,
        key: &[u8],
        before: u64,
        entries: &'e impl Entries,
    ) -> Option<Found<'e>> {
        self.find_slot(hash, key, before, entries).map(|(found, _)| found)
    }

    #[inline(always)]
    fn find_slot<'e>(
        &self,
        hash: u64,
        key: &[u8],
        before: u64,
        entries: &'e impl Entries,
    ) -> Option<(Found<'e>, &AtomicU64)> {
        let mut newest: Option<(Found<'e>, &AtomicU64)> = None;
        let [first, second] = self.lines_of(hash);
        let both = [first, second];
        for line in &both[..if first == second { 1 } else { 2 }] {
            let line = &self.lines[*line];
            let mut same = match_tags(line, Self::tag(hash));
            while same != 0 {
                let slot = &line[same.trailing_zeros() as usize % TAG_GROUP];
                same &= same - 1;
                let position = slot.load(Acquire) & POSITION_MASK;
                let is_newer = newest.as_ref().is_none_or(|(found, _)| found.position < position);
                // Empty slots may have the tag, too.
                if position == 0 || position >= before || !is_newer {
                    continue;
                }
                let entry = entries.entry(position);
                if entry.key == key {
                    newest = Some((Found { position, entry }, slot));
                }
            }
        }
        newest
    }

    /// Adds the position of `key`. Where an older version of the key is at or behind `kept_before`,
    /// nobody may ask for it any more, and it gives way. For any number of callers.
    #[inline]
    pub fn insert(
        &self,
        hash: u64,
        key: &[u8],
        position: u64,
        kept_before: u64,
        entries: &impl Entries,
    ) -> Result<Inserted, Full> {
        let word = |position: u64| u64::from(Self::tag(hash)) << POSITION_BITS | position;
        while let Some((old, slot)) = self.find_slot(hash, key, u64::MAX, entries) {
            if old.position > position {
                return Ok(Inserted::Overtaken);
            }
            if old.position < kept_before {
                break;
            }
            let (now, new) = (word(old.position), word(position));
            if slot.compare_exchange(now, new, Release, Relaxed).is_ok() {
                return Ok(Inserted::Replaced(old.position));
            }
            // Another one was quicker: the slot has a greater position of this key.
        }
        self.add(hash, word(position))?;
        Ok(Inserted::Added)
    }

    #[inline(always)]
    fn add(&self, hash: u64, word: u64) -> Result<(), Full> {
        let [first, second] = self.lines_of(hash).map(|line| &self.lines[line]);
        loop {
            // Slots are taken from the first on.
            let used = |line: &Line| line.iter().take_while(|slot| slot.load(Relaxed) != 0).count();
            let (in_first, in_second) = (used(first), used(second));
            let (line, at) =
                if in_second < in_first { (second, in_second) } else { (first, in_first) };
            let slot = line.get(at).ok_or(Full)?;
            if slot.compare_exchange(0, word, Release, Relaxed).is_ok() {
                self.used.fetch_add(1, Relaxed);
                return Ok(());
            }
        }
    }

    /// All positions, in no order. For everybody; those that are added meanwhile may be missing.
    pub fn positions(&self) -> Vec<u64> {
        let slots = self.lines.iter().flatten().map(|slot| slot.load(Acquire) & POSITION_MASK);
        let mut positions = Vec::with_capacity(self.len());
        positions.extend(slots.filter(|position| *position != 0));
        positions
    }

    /// About `most` positions, of keys with no order among them; all if there are no more. Costs by
    /// `most`, not by how many there are.
    pub fn some_positions(&self, most: usize) -> Vec<u64> {
        // Keys are spread over lines by their hashes, so any lines will do.
        let step = self.len().div_ceil(most.max(1)).max(1);
        let slots = self.lines.iter().step_by(step).flatten();
        let positions = slots.map(|slot| slot.load(Acquire) & POSITION_MASK);
        positions.filter(|position| *position != 0).collect()
    }

    /// These positions in twice as many lines, or more where they need them; `None` where more
    /// lines do not help, since a key has too many versions. `hash` is that of keys.
    pub fn grown(&self, hash: impl Fn(&[u8]) -> u64, entries: &impl Entries) -> Option<Directory> {
        // In the order of the log, whose memory is then read from one end to the other, and in
        // which positions were added.
        let mut positions = self.positions();
        positions.sort_unstable();
        let most = (positions.len() / TAG_GROUP + 1) * GROWTH_MAX;
        let mut lines = 2 * self.lines.len();
        while lines <= most {
            let larger = Directory::new(lines);
            let added = positions.iter().try_for_each(|position| {
                let hash = hash(entries.entry(*position).key);
                larger.add(hash, u64::from(Self::tag(hash)) << POSITION_BITS | position)
            });
            if added.is_ok() {
                return Some(larger);
            }
            lines *= 2;
        }
        None
    }
}
