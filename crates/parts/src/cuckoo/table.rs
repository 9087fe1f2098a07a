//! The table of a log store.

use super::filter::TagFilter;
use super::geometry::{BUCKET_SLOTS, Geometry};
use silica_base::{HugeVec, KeyHash, Prng, prefetch};
use std::ops::Range;

/// A one in every lane of a bucket's four 16-bit tags.
const LANES: u64 = 0x0001_0001_0001_0001;
const LANE_LOW: u64 = 0x7FFF * LANES;
/// Buckets that the search for a free slot looks at before it gives up: two roots and at least
/// the 128 displacements of the paper, here alternatives rather than one chain.
const SEARCH_BUCKETS_MAX: usize = 512;
/// Lookups in flight together in [`lookup_many`].
pub const BURST: usize = 32;

/// Lanes of `word` that are zero, as their highest bits.
#[inline(always)]
fn zero_lanes(word: u64) -> u64 {
    !(((word & LANE_LOW) + LANE_LOW) | word | LANE_LOW)
}

/// The highest bits of four lanes as a number of four bits.
#[inline(always)]
fn lane_bits(mask: u64) -> u32 {
    ((mask >> 15).wrapping_mul(0x0001_0002_0004_0008) >> 48) as u32 & 0xF
}

#[inline(always)]
fn tag_in(word: u64, slot: u32) -> u16 {
    (word >> (16 * slot)) as u16
}

/// No chain of displacements frees a slot: the table is as full as it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFull;

impl std::fmt::Display for TableFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the cuckoo table has no room for this hash")
    }
}

impl std::error::Error for TableFull {}

/// A partial-key cuckoo table: key hash to `u32`, six bytes per slot.
///
/// It stores tags, not keys: a lookup yields every value whose tag matches, and the caller
/// compares keys. Equal hashes (an overwritten key) must be updated with [`CuckooTable::set`];
/// inserting them again takes another slot.
pub struct CuckooTable {
    geometry: Geometry,
    len: u32,
    order: Prng,
    buckets: HugeVec<Bucket>,
}

/// Tags and values side by side, so that a lookup mostly needs one cache line per bucket: a word
/// of four tags, the first slot in the lowest bits, then two words of two values each.
type Bucket = [u64; 3];

#[inline(always)]
fn value_in(bucket: &Bucket, slot: u32) -> u32 {
    (bucket[1 + slot as usize / 2] >> (32 * (slot % 2))) as u32
}

#[inline(always)]
fn set_value_in(bucket: &mut Bucket, slot: u32, value: u32) {
    let (word, shift) = (&mut bucket[1 + slot as usize / 2], 32 * (slot % 2));
    *word = (*word & !(0xFFFF_FFFF << shift)) | u64::from(value) << shift;
}

/// The free slot that ends a chain of displacements, and the chain.
struct Search {
    buckets: [u32; SEARCH_BUCKETS_MAX],
    /// Index of the bucket whose entry would move here, and that entry's slot.
    from: [u16; SEARCH_BUCKETS_MAX],
}

impl CuckooTable {
    /// An empty table; `seed` decides which of several shortest displacement chains is taken.
    pub fn new(geometry: Geometry, seed: u64) -> Self {
        CuckooTable {
            geometry,
            len: 0,
            order: Prng::new(seed),
            buckets: HugeVec::zeroed(geometry.buckets() as usize),
        }
    }

    /// Where hashes live.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Occupied slots.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True where no slot is occupied.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All slots.
    pub fn slots(&self) -> u32 {
        self.geometry.slots()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.buckets.bytes()
    }

    /// Asks the processor for both buckets of `h`.
    #[inline]
    pub fn prefetch(&self, h: KeyHash) {
        self.probe(h).prefetch();
    }

    /// Every slot whose tag is that of `h`, first those of its first bucket.
    #[inline]
    pub fn candidates(&self, h: KeyHash) -> Candidates<'_> {
        self.probe(h).candidates()
    }

    #[inline(always)]
    fn probe(&self, h: KeyHash) -> Probe<'_> {
        let tag = self.geometry.tag(h);
        let bucket = self.geometry.bucket(h);
        Probe {
            buckets: &self.buckets,
            pair: [bucket, self.geometry.alternative(bucket, tag)],
            tag,
        }
    }

    /// Adds an entry, displacing others where both its buckets are full. On failure the table is
    /// exactly as before.
    #[inline]
    pub fn insert(&mut self, h: KeyHash, value: u32) -> Result<(), TableFull> {
        let tag = self.geometry.tag(h);
        let bucket = self.geometry.bucket(h);
        let other = self.geometry.alternative(bucket, tag);
        let free = match (self.free_slot(bucket), self.free_slot(other)) {
            (Some(slot), _) | (None, Some(slot)) => slot,
            (None, None) => self.make_room([bucket, other])?,
        };
        self.put(free, tag, value);
        self.len += 1;
        Ok(())
    }

    /// Replaces the value of an occupied slot.
    #[inline]
    pub fn set(&mut self, slot: u32, value: u32) {
        debug_assert_ne!(self.tag_at(slot), 0, "slot {slot} is occupied");
        let bucket = &mut self.buckets[(slot / BUCKET_SLOTS) as usize];
        set_value_in(bucket, slot % BUCKET_SLOTS, value);
    }

    /// Empties `slot`; it may be empty already.
    pub fn remove(&mut self, slot: u32) {
        if self.tag_at(slot) != 0 {
            let bucket = &mut self.buckets[(slot / BUCKET_SLOTS) as usize];
            bucket[0] &= !(0xFFFF << (16 * (slot % BUCKET_SLOTS)));
            self.len -= 1;
        }
    }

    /// Empties the table and keeps its memory.
    pub fn clear(&mut self) {
        self.buckets.iter_mut().for_each(|bucket| bucket[0] = 0);
        self.len = 0;
    }

    /// The occupied slots of `buckets` in slot order: slot, tag and value.
    pub fn occupied_in(&self, buckets: Range<u32>) -> impl Iterator<Item = (u32, u16, u32)> + '_ {
        buckets.flat_map(move |index| {
            let bucket = self.buckets[index as usize];
            (0..BUCKET_SLOTS).filter_map(move |i| {
                let tag = tag_in(bucket[0], i);
                (tag != 0).then(|| (BUCKET_SLOTS * index + i, tag, value_in(&bucket, i)))
            })
        })
    }

    /// The filter of the table as it is now.
    pub fn filter(&self) -> TagFilter {
        TagFilter::build(self.geometry, self.buckets.iter().map(|bucket| bucket[0]))
    }

    #[inline(always)]
    fn tag_at(&self, slot: u32) -> u16 {
        tag_in(self.buckets[(slot / BUCKET_SLOTS) as usize][0], slot % BUCKET_SLOTS)
    }

    #[inline(always)]
    fn free_slot(&self, bucket: u32) -> Option<u32> {
        let free = zero_lanes(self.buckets[bucket as usize][0]);
        (free != 0).then(|| BUCKET_SLOTS * bucket + free.trailing_zeros() / 16)
    }

    /// Writes a slot whatever it held.
    #[inline(always)]
    fn put(&mut self, slot: u32, tag: u16, value: u32) {
        let (bucket, i) = (&mut self.buckets[(slot / BUCKET_SLOTS) as usize], slot % BUCKET_SLOTS);
        bucket[0] = (bucket[0] & !(0xFFFF << (16 * i))) | u64::from(tag) << (16 * i);
        set_value_in(bucket, i, value);
    }

    /// Frees a slot in one of two full buckets: breadth first, so the chain found is a shortest
    /// one. No bucket occurs twice in it: an earlier visit of the same bucket would have led to
    /// the same free slot earlier. So moving entries from its end on is safe.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, roots: [u32; 2]) -> Result<u32, TableFull> {
        let mut search = Search { buckets: [0; SEARCH_BUCKETS_MAX], from: [0; SEARCH_BUCKETS_MAX] };
        search.buckets[..2].copy_from_slice(&roots);
        let (mut at, mut end) = (0, 2);
        let turn = self.order.next_u64() as u32;
        roots.into_iter().for_each(|root| self.prefetch_alternatives(root));
        while at < end {
            if at + 2 < end {
                self.prefetch_alternatives(search.buckets[at + 2]);
            }
            let bucket = search.buckets[at];
            let word = self.buckets[bucket as usize][0];
            for i in 0..BUCKET_SLOTS {
                let i = (i + turn) % BUCKET_SLOTS;
                let next = self.geometry.alternative(bucket, tag_in(word, i));
                let from = (at as u16) << 2 | i as u16;
                if let Some(free) = self.free_slot(next) {
                    return Ok(self.shift_chain(&search, from, free));
                }
                if end < SEARCH_BUCKETS_MAX {
                    search.buckets[end] = next;
                    search.from[end] = from;
                    end += 1;
                }
            }
            at += 1;
        }
        Err(TableFull)
    }

    /// Asks the processor for the buckets that entries of `bucket` could move to.
    #[inline(always)]
    fn prefetch_alternatives(&self, bucket: u32) {
        let word = self.buckets[bucket as usize][0];
        for i in 0..BUCKET_SLOTS {
            let next = self.geometry.alternative(bucket, tag_in(word, i));
            prefetch(&self.buckets, next as usize);
        }
    }

    /// Moves the entries of a chain that ends in `free`, the last one first; the slot that gets
    /// free in a root.
    fn shift_chain(&mut self, search: &Search, mut from: u16, mut free: u32) -> u32 {
        loop {
            let at = usize::from(from >> 2);
            let slot = BUCKET_SLOTS * search.buckets[at] + u32::from(from & 3);
            let bucket = self.buckets[search.buckets[at] as usize];
            let i = u32::from(from & 3);
            self.put(free, tag_in(bucket[0], i), value_in(&bucket, i));
            free = slot;
            if at < 2 {
                return free;
            }
            from = search.from[at];
        }
    }
}

impl std::fmt::Debug for CuckooTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CuckooTable({} of {} slots, {:?})", self.len, self.slots(), self.geometry)
    }
}

/// Where a hash may be in a table.
#[derive(Clone, Copy)]
struct Probe<'a> {
    buckets: &'a [Bucket],
    pair: [u32; 2],
    tag: u16,
}

impl<'a> Probe<'a> {
    const NONE: Probe<'static> = Probe { buckets: &[], pair: [0; 2], tag: 0 };

    #[inline(always)]
    fn prefetch(&self) {
        self.pair.iter().for_each(|bucket| prefetch_bucket(self.buckets, *bucket));
    }

    /// A bit per slot of bucket `which` of the pair.
    #[inline(always)]
    fn matches_in(&self, which: usize) -> u32 {
        let pattern = u64::from(self.tag) * LANES;
        let matches = lane_bits(zero_lanes(self.buckets[self.pair[which] as usize][0] ^ pattern));
        matches << (BUCKET_SLOTS * which as u32)
    }

    #[inline(always)]
    fn candidates(self) -> Candidates<'a> {
        let matches = self.matches_in(0) | self.matches_in(1);
        Candidates { buckets: self.buckets, pair: self.pair, matches }
    }

    /// Those in bucket `which` of the pair.
    #[inline(always)]
    fn candidates_in(&self, which: usize) -> Candidates<'a> {
        Candidates { buckets: self.buckets, pair: self.pair, matches: self.matches_in(which) }
    }
}

/// Asks the processor for both lines that a bucket may lie in: one in four lies in two.
#[inline(always)]
fn prefetch_bucket(buckets: &[Bucket], index: u32) {
    if let Some(bucket) = buckets.get(index as usize) {
        prefetch(bucket, 0);
        prefetch(bucket, bucket.len() - 1);
    }
}

/// The slots whose tag matches: `(slot, value)`.
#[derive(Clone)]
pub struct Candidates<'a> {
    buckets: &'a [Bucket],
    pair: [u32; 2],
    /// A bit per slot: four of the first bucket, four of the second.
    matches: u32,
}

impl Candidates<'_> {
    /// True where no slot is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.matches == 0
    }

    /// Asks the processor for the value of the next candidate.
    #[inline]
    pub fn prefetch_value(&self) {
        if self.matches != 0 {
            let (bucket, i) = self.next_place();
            if let Some(bucket) = self.buckets.get(bucket as usize) {
                prefetch(bucket, 1 + i as usize / 2);
            }
        }
    }

    /// Bucket and slot within it of the next candidate.
    #[inline(always)]
    fn next_place(&self) -> (u32, u32) {
        let bit = self.matches.trailing_zeros();
        (self.pair[(bit / BUCKET_SLOTS) as usize & 1], bit % BUCKET_SLOTS)
    }
}

impl Iterator for Candidates<'_> {
    type Item = (u32, u32);

    #[inline]
    fn next(&mut self) -> Option<(u32, u32)> {
        if self.matches == 0 {
            return None;
        }
        let (bucket, i) = self.next_place();
        self.matches &= self.matches - 1;
        Some((BUCKET_SLOTS * bucket + i, value_in(&self.buckets[bucket as usize], i)))
    }
}

/// Looks up many hashes, [`BURST`] at a time with their cache misses overlapping. `table(i)` names
/// the table of the hash `i`.
///
/// `found(i, candidates)` is called with the candidates of the first bucket where it has any, and
/// says whether the wanted one was among them. Only where it was not, the second bucket is asked
/// for, and `found` is called with its candidates, a burst later: most entries lie in their first
/// bucket, so this saves nearly half of the memory's lines.
///
/// Prefetches stand close together and a burst ahead: a prefetch retires only when its address
/// is translated, so page walks overlap only within the processor's instruction window.
pub fn lookup_many<'t>(
    hashes: &[KeyHash],
    table: impl Fn(usize) -> &'t CuckooTable,
    mut found: impl FnMut(usize, Candidates<'t>) -> bool,
) {
    let mut asked: [[Probe<'t>; BURST]; 2] = [[Probe::NONE; BURST]; 2];
    let ask = |burst: usize, probes: &mut [Probe<'t>; BURST]| {
        let base = burst * BURST;
        let len = hashes.len().saturating_sub(base).min(BURST);
        for (i, probe) in probes[..len].iter_mut().enumerate() {
            *probe = table(base + i).probe(hashes[base + i]);
        }
        probes[..len].iter().for_each(|probe| prefetch_bucket(probe.buckets, probe.pair[0]));
        len
    };
    let mut waiting: [[(usize, Probe<'t>); BURST]; 2] = [[(0, Probe::NONE); BURST]; 2];
    let mut waiting_len = 0;
    let mut len = ask(0, &mut asked[0]);
    let mut burst = 0;
    while len > 0 || waiting_len > 0 {
        let next_len = ask(burst + 1, &mut asked[(burst + 1) % 2]);
        let [even, odd] = &mut waiting;
        let (old, new) = if burst.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        let mut new_len = 0;
        for (i, probe) in asked[burst % 2][..len].iter().enumerate() {
            let (at, first) = (burst * BURST + i, probe.candidates_in(0));
            if first.is_empty() || !found(at, first) {
                prefetch_bucket(probe.buckets, probe.pair[1]);
                new[new_len] = (at, *probe);
                new_len += 1;
            }
        }
        for (at, probe) in &old[..waiting_len] {
            let second = probe.candidates_in(1);
            if !second.is_empty() {
                found(*at, second);
            }
        }
        waiting_len = new_len;
        burst += 1;
        len = next_len;
    }
}
