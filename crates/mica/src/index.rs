//! A partition's index: buckets of one cache line, seven slots each.
//!
//! A **slot** is a tag (16 bits of the key's hash, never zero) and an offset in the log (48 bits);
//! zero is an empty one. A bucket's first word has its version (`protocol.rs`) and a link to a
//! **spare bucket** of half a line, three slots, which continues it where it overflows. A cache has
//! a fixed number of these; a store makes them out of its space (`store.rs`). Where no spare is
//! left, the oldest entry of the full chain gives way in a cache, and the new one is refused by a
//! store.
//!
//! 1. A key's slot is in the chain of the bucket that its hash names, at most once among the slots
//!    that do not dangle.
//! 2. A spare bucket is in one chain or free. Its version is not used: the main bucket's covers
//!    the chain.
//! 3. Slots dangle where their entry was evicted from the log. They are used again by inserts, and
//!    [`Index::clean`] empties them long before offsets begin anew. Until then those that were in
//!    the small log are its **ghosts**: they tell that an entry which is put was there not long
//!    ago, and take no memory of their own.

use crate::item::Item;
use crate::log::Log;
use crate::protocol::{begin_write, end_write};
use crate::words::{Frames, Words};
use silica_base::{TAG_GROUP, match_tags};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Words of a bucket: a cache line.
pub(crate) const BUCKET_WORDS: usize = TAG_GROUP;
/// Words of a spare bucket: a full line would stay empty for the most part.
pub(crate) const SPARE_WORDS: usize = 4;
/// Bits of an offset in a slot.
pub(crate) const OFFSET_BITS: u32 = 48;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const LINK_SHIFT: u32 = 32;

pub(crate) type Bucket = [AtomicU64; BUCKET_WORDS];
type Spare = [AtomicU64; SPARE_WORDS];

pub(crate) struct Index {
    /// Main buckets, and spare ones that are there from the beginning.
    words: Words,
    main: usize,
    /// Where links count spares from: link 1 is the one at `spares_from`, in spare buckets.
    shared: Words,
    spares_from: usize,
    /// Spares that are there from the beginning, and those that there are.
    first_spares: usize,
    spares: AtomicU64,
    /// Link to the first spare that was given back.
    free: AtomicU64,
    /// Spares that were never used start here.
    fresh: AtomicU64,
    spares_used: AtomicU64,
}

/// A slot that holds a key.
pub(crate) struct Found<'p> {
    pub(crate) slot: &'p AtomicU64,
    pub(crate) offset: u64,
    pub(crate) item: Item<'p>,
}

/// Where a new entry's slot goes.
pub(crate) enum Place<'p> {
    /// This one, which is empty or dangles.
    Free(&'p AtomicU64),
    /// This one; its entry is the oldest of a chain that is full.
    Oldest(&'p AtomicU64),
}

#[inline(always)]
pub(crate) fn slot(tag: u64, offset: u64) -> u64 {
    tag << OFFSET_BITS | offset
}

#[inline(always)]
pub(crate) fn tag_of(slot: u64) -> u64 {
    slot >> OFFSET_BITS
}

#[inline(always)]
pub(crate) fn offset_of(slot: u64) -> u64 {
    slot & OFFSET_MASK
}

/// The first slot of a bucket that has `tag`; 0 where none has.
#[inline(always)]
pub(crate) fn first_of(bucket: &Bucket, tag: u64) -> u64 {
    // The first word is no slot.
    let found = match_tags(bucket, tag as u16) & !1;
    if found == 0 {
        return 0;
    }
    bucket[found.trailing_zeros() as usize % BUCKET_WORDS].load(Relaxed)
}

impl Index {
    pub(crate) fn new(main: usize, spares: usize, frames: Frames) -> Self {
        let words = Words::new(main * BUCKET_WORDS + spares * SPARE_WORDS, frames);
        let shared = words.part(0..words.len());
        Index { first_spares: spares, ..Self::of(words, main, shared, main * 2) }.with_first()
    }

    /// An index whose spare buckets come out of `shared`, in which its main ones are, too, from
    /// word `from` on.
    pub(crate) fn sharing(shared: &Words, from: usize, main: usize) -> Self {
        let words = shared.part(from..from + main * BUCKET_WORDS);
        Self::of(words, main, shared.part(0..shared.len()), 0)
    }

    fn of(words: Words, main: usize, shared: Words, spares_from: usize) -> Self {
        Index {
            words,
            main,
            shared,
            spares_from,
            first_spares: 0,
            spares: AtomicU64::new(0),
            free: AtomicU64::new(0),
            fresh: AtomicU64::new(0),
            spares_used: AtomicU64::new(0),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.bytes()
    }

    /// See [`Words::reserved_bytes`].
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.words.reserved_bytes()
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    fn with_first(self) -> Self {
        self.spares.store(self.first_spares as u64, Relaxed);
        self
    }

    /// What there is besides the words, for an image.
    pub(crate) fn state(&self) -> [&AtomicU64; 4] {
        [&self.free, &self.fresh, &self.spares_used, &self.spares]
    }

    /// Forgets all spares but the first, of which none is in a chain.
    pub(crate) fn reset_spares(&self) {
        self.state().into_iter().for_each(|word| word.store(0, Relaxed));
        self.spares.store(self.first_spares as u64, Relaxed);
    }

    /// Makes spare buckets of the words of `range`, as far as they are whole ones. Only for the
    /// holder of the lock.
    pub(crate) fn add_spares(&self, range: Range<usize>) {
        let spares = range.start.div_ceil(SPARE_WORDS)..range.end / SPARE_WORDS;
        for at in spares.clone() {
            let link = (at - self.spares_from) as u64 + 1;
            let Some(spare) = self.spare(link) else { continue };
            spare[0].store(self.free.load(Relaxed) << LINK_SHIFT, Relaxed);
            self.free.store(link, Relaxed);
        }
        self.spares.store(self.spares.load(Relaxed) + spares.len() as u64, Relaxed);
    }

    /// True where a spare bucket is in a chain.
    pub(crate) fn uses_spares(&self) -> bool {
        self.spares_used.load(Relaxed) != 0
    }

    /// Main buckets.
    pub(crate) fn main(&self) -> usize {
        self.main
    }

    /// Spare buckets that are in no chain.
    pub(crate) fn spares_left(&self) -> usize {
        (self.spares.load(Relaxed) - self.spares_used.load(Relaxed)) as usize
    }

    #[inline(always)]
    pub(crate) fn bucket(&self, at: usize) -> &Bucket {
        &self.words.as_chunks().0[at]
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        silica_base::prefetch_burst(&self.words, at * BUCKET_WORDS);
    }

    /// The spare bucket of a link; `None` of 0, and of what readers see who are late.
    #[inline(always)]
    fn spare(&self, link: u64) -> Option<&Spare> {
        let at = (link as usize).checked_sub(1)?;
        self.shared.as_chunks().0.get(self.spares_from + at)
    }

    /// The spare of a link that is known to lead to one.
    fn certain(&self, link: u64) -> &Spare {
        self.spare(link).expect("links lead to spares")
    }

    /// The spare bucket that continues the one with this first word.
    #[inline(always)]
    pub(crate) fn next(&self, word: u64) -> Option<&Spare> {
        self.spare(word >> LINK_SHIFT)
    }

    fn link(bucket: &[AtomicU64], link: u64) {
        let version = bucket[0].load(Relaxed) & u64::from(u32::MAX);
        bucket[0].store(version | link << LINK_SHIFT, Relaxed);
    }

    /// The buckets of a chain. Only for the holder of the lock.
    fn chain(&self, main: usize) -> impl Iterator<Item = &[AtomicU64]> {
        let mut next = Some(&self.bucket(main)[..]);
        std::iter::from_fn(move || {
            let bucket = next?;
            next = self.next(bucket[0].load(Relaxed)).map(|spare| &spare[..]);
            Some(bucket)
        })
    }

    /// The slots of a chain. Only for the holder of the lock.
    pub(crate) fn slots(&self, main: usize) -> impl Iterator<Item = &AtomicU64> {
        self.chain(main).flat_map(|bucket| &bucket[1..])
    }

    /// The slot of `key`. Only for the holder of the lock.
    #[inline(always)]
    pub(crate) fn find<'p>(
        &'p self,
        log: &'p Log,
        main: usize,
        tag: u64,
        key: &[u8],
    ) -> Option<Found<'p>> {
        let first = self.bucket(main);
        let mut same = match_tags(first, tag as u16) & !1;
        while same != 0 {
            let slot = &first[same.trailing_zeros() as usize % BUCKET_WORDS];
            let found = Self::look(log, slot, key);
            if found.is_some() {
                return found;
            }
            same &= same - 1;
        }
        self.find_spare(log, first[0].load(Relaxed), tag, key)
    }

    /// The slot, if it is that of `key`.
    #[inline(always)]
    fn look<'p>(log: &'p Log, slot: &'p AtomicU64, key: &[u8]) -> Option<Found<'p>> {
        let offset = offset_of(slot.load(Relaxed));
        if !log.is_there(offset) {
            return None;
        }
        let item = log.item(offset).filter(|item| item.has_key(key))?;
        Some(Found { slot, offset, item })
    }

    /// The slot of `key` in the spare buckets that continue the bucket with this first word.
    #[inline(never)]
    fn find_spare<'p>(
        &'p self,
        log: &'p Log,
        word: u64,
        tag: u64,
        key: &[u8],
    ) -> Option<Found<'p>> {
        let mut next = self.next(word);
        while let Some(spare) = next {
            let same = spare[1..].iter().filter(|slot| tag_of(slot.load(Relaxed)) == tag);
            let found = same.into_iter().find_map(|slot| Self::look(log, slot, key));
            if found.is_some() {
                return found;
            }
            next = self.next(spare[0].load(Relaxed));
        }
        None
    }

    /// Where the slot of a key that has none goes. Only for the holder of the lock, who has turned
    /// the bucket's readers away.
    pub(crate) fn place(&self, log: &Log, main: usize) -> Place<'_> {
        let mut last = &self.bucket(main)[..];
        for bucket in self.chain(main) {
            last = bucket;
            let mut ghost: Option<(u64, &AtomicU64)> = None;
            for slot in &bucket[1..] {
                let word = slot.load(Relaxed);
                let offset = offset_of(word);
                if word != 0 && log.is_there(offset) {
                    continue;
                }
                if word == 0 || !log.is_ghost(offset) {
                    return Place::Free(slot);
                }
                let age = log.behind(offset);
                if ghost.is_none_or(|(oldest, _)| age > oldest) {
                    ghost = Some((age, slot));
                }
            }
            if let Some((_, slot)) = ghost {
                return Place::Free(slot);
            }
        }
        match self.take_spare() {
            Some(link) => {
                Self::link(last, link);
                Place::Free(&self.certain(link)[1])
            }
            None => {
                let age = |slot: &&AtomicU64| {
                    let offset = offset_of(slot.load(Relaxed));
                    // Those that were used come last, and of large values before all others.
                    let is_large = log.item(offset).is_some_and(|item| item.header.is_large());
                    (is_large, log.uses(offset), log.ahead(offset))
                };
                Place::Oldest(self.slots(main).min_by_key(age).expect("a bucket has slots"))
            }
        }
    }

    /// Removes the ghost with `tag`; false where there is none. Only for the holder of the lock.
    pub(crate) fn take_ghost(&self, log: &Log, main: usize, tag: u64) -> bool {
        let ghost = self.slots(main).find(|slot| {
            let word = slot.load(Relaxed);
            tag_of(word) == tag && log.is_ghost(offset_of(word))
        });
        // Readers see a dangling slot and an empty one as the same, so no version changes.
        ghost.map(|slot| slot.store(0, Relaxed)).is_some()
    }

    /// A link to a spare bucket, which is empty.
    fn take_spare(&self) -> Option<u64> {
        let link = match self.free.load(Relaxed) {
            0 => {
                let fresh = self.fresh.load(Relaxed);
                if fresh == self.first_spares as u64 {
                    return None;
                }
                self.fresh.store(fresh + 1, Relaxed);
                fresh + 1
            }
            link => {
                let word = self.certain(link)[0].load(Relaxed);
                self.free.store(word >> LINK_SHIFT, Relaxed);
                link
            }
        };
        self.spares_used.store(self.spares_used.load(Relaxed) + 1, Relaxed);
        self.certain(link).iter().for_each(|word| word.store(0, Relaxed));
        Some(link)
    }

    /// Gives back the spares from `link` on.
    fn give_back(&self, mut link: u64) {
        while link != 0 {
            let bucket = self.certain(link);
            let next = bucket[0].load(Relaxed) >> LINK_SHIFT;
            Self::link(bucket, self.free.load(Relaxed));
            self.free.store(link, Relaxed);
            self.spares_used.store(self.spares_used.load(Relaxed) - 1, Relaxed);
            link = next;
        }
    }

    /// Empties the dangling slots of a chain and gives back the spares that it no longer needs.
    /// Only for the holder of the lock.
    pub(crate) fn clean(&self, log: &Log, main: usize) {
        let has_spare = self.has_spare(main);
        let dangles = |slot: &AtomicU64| {
            let (word, offset) = (slot.load(Relaxed), offset_of(slot.load(Relaxed)));
            // Ghosts cost nothing where they take no spares.
            word != 0 && !log.is_there(offset) && (has_spare || !log.is_ghost(offset))
        };
        // Readers see a dangling slot and an empty one as the same, so no version changes.
        self.slots(main).filter(|slot| dangles(slot)).for_each(|slot| slot.store(0, Relaxed));
        let first = &self.bucket(main)[0];
        if has_spare {
            let began = begin_write(first);
            self.compact(main);
            if began {
                end_write(first);
            }
        }
    }

    /// True where a spare bucket continues a main one. Only for the holder of the lock.
    pub(crate) fn has_spare(&self, main: usize) -> bool {
        self.next(self.bucket(main)[0].load(Relaxed)).is_some()
    }

    /// Moves a chain's slots together and gives back the spares that it no longer needs. Only for
    /// the holder of the lock, who has turned the bucket's readers away.
    pub(crate) fn compact(&self, main: usize) {
        // The next slot that is in use is never before the one that it moves to.
        let mut from = self.slots(main);
        for to in self.slots(main) {
            let used = from.find(|slot| slot.load(Relaxed) != 0);
            let word = used.map_or(0, |slot| slot.load(Relaxed));
            to.store(word, Relaxed);
        }
        let mut last = &self.bucket(main)[..];
        for bucket in self.chain(main) {
            if bucket[1].load(Relaxed) != 0 {
                last = bucket;
            }
        }
        let rest = last[0].load(Relaxed) >> LINK_SHIFT;
        Self::link(last, 0);
        self.give_back(rest);
    }

    /// Empties every bucket, whatever is in it; chains may be damaged. Only for the holder of the
    /// lock.
    pub(crate) fn clear(&self) {
        for main in 0..self.main {
            let [first, slots @ ..] = self.bucket(main);
            let word = first.load(Relaxed);
            let is_empty = word >> LINK_SHIFT == 0 && slots.iter().all(|s| s.load(Relaxed) == 0);
            if word & 1 == 0 && is_empty {
                continue;
            }
            begin_write(first);
            slots.iter().for_each(|slot| slot.store(0, Relaxed));
            Self::link(self.bucket(main), 0);
            end_write(first);
        }
        // Those who still read a spare find its main bucket changed.
        self.reset_spares();
        // Main buckets keep their memory: a version that began anew could be one that a reader saw.
        self.words.give_back(self.main * BUCKET_WORDS..self.words.len());
    }

    /// Checks invariant 2; the error says what is wrong. Only for the holder of the lock.
    pub(crate) fn verify_spares(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        let mut free = self.free.load(Relaxed);
        let mut enter = |link: u64| match self.spare(link).is_some() && seen.insert(link) {
            true => Ok(()),
            false => Err(format!("spare bucket {link} is used twice or does not exist")),
        };
        let mut chained = 0;
        for main in 0..self.main {
            let mut word = self.bucket(main)[0].load(Relaxed);
            while word >> LINK_SHIFT != 0 {
                enter(word >> LINK_SHIFT)?;
                chained += 1;
                word = self.certain(word >> LINK_SHIFT)[0].load(Relaxed);
            }
        }
        while free != 0 {
            enter(free)?;
            free = self.certain(free)[0].load(Relaxed) >> LINK_SHIFT;
        }
        let added = self.spares.load(Relaxed) as usize - self.first_spares;
        let (fresh, known) = (self.fresh.load(Relaxed) as usize + added, seen.len());
        if chained != self.spares_used.load(Relaxed) || known != fresh {
            return Err(format!("{chained} spares are chained, {known} of {fresh} are known"));
        }
        Ok(())
    }
}
