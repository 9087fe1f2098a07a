//! A partition: one index, one log, one writer at a time.

use crate::expiry::Expiry;
use crate::family::{Family, SPACES_MAX, Spaces};
use crate::index::{BUCKET_WORDS, Bucket, Index, first_of, offset_of, tag_of};
use crate::item::{self, Copied, Form, Item, Scratch};
use crate::large::{ChunkKey, Remains};
use crate::layout::Layout;
use crate::log::Log;
use crate::protocol::{Lock, Refusal, begin_read, begin_write, end_read, end_write};
use crate::store::Store;
use crate::sync::Backoff;
use crate::words::{Frames, Words};
use silica_base::{Clock, Error, ErrorKind, HashSeed, Result, prefetch_burst};
use silica_device::numa::{Nodes, bring};
use silica_engine::EntryRef;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Where a key belongs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Probe {
    pub(crate) partition: u32,
    pub(crate) bucket: u32,
    /// 16 bits, never zero.
    pub(crate) tag: u64,
    /// What is put there.
    pub(crate) form: Form,
}

/// A key that a reader looks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sought<'p> {
    /// Where its chain begins.
    bucket: &'p Bucket,
    tag: u64,
}

/// What a reader saw of a key's main bucket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hint {
    /// Its first word; odd where a writer was at work.
    seen: u64,
    /// The first slot that had the tag; 0 where none had.
    word: u64,
}

impl Sought<'_> {
    #[inline(always)]
    pub(crate) fn tag(&self) -> u64 {
        self.tag
    }
}

impl Hint {
    /// Where in the log the slot points.
    #[inline(always)]
    pub(crate) fn offset(self) -> u64 {
        offset_of(self.word)
    }
}

/// What a writer needs to know besides the entry.
pub(crate) struct Rules<'c, P> {
    pub(crate) policy: P,
    pub(crate) clock: &'c dyn Clock,
    pub(crate) seed: &'c HashSeed,
}

/// A number that only the holder of the lock changes, and that everybody may read.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn add(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }

    pub(crate) fn sub(&self, n: u64) {
        self.set(self.get().wrapping_sub(n));
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }
}

/// What happened in a partition.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Entries that can be found, those included that have expired meanwhile.
    pub(crate) entries: Tally,
    /// Chunks of large values that can be found, which are no entries.
    pub(crate) chunks: Tally,
    pub(crate) live_words: Tally,
    pub(crate) puts: Tally,
    pub(crate) deletes: Tally,
    pub(crate) user_bytes: Tally,
    pub(crate) words_appended: Tally,
    pub(crate) updates_in_place: Tally,
    /// Keys looked up by the shard that owns the partition, and those found.
    pub(crate) gets_owned: Tally,
    pub(crate) hits_owned: Tally,
    pub(crate) moved: Tally,
    pub(crate) evicted_from_log: Tally,
    pub(crate) evicted_from_index: Tally,
    /// Entries that had expired when they were evicted.
    pub(crate) expired: Tally,
    /// The chain to clean next, and the words that may still be appended before.
    pub(crate) clean_next: Tally,
    pub(crate) clean_due: Tally,
}

impl Counts {
    /// Forgets what happened, not what there is.
    pub(crate) fn forget(&self) {
        let happened = [
            &self.puts,
            &self.deletes,
            &self.user_bytes,
            &self.words_appended,
            &self.updates_in_place,
            &self.gets_owned,
            &self.hits_owned,
            &self.moved,
            &self.evicted_from_log,
            &self.evicted_from_index,
            &self.expired,
        ];
        happened.into_iter().for_each(|tally| tally.set(0));
    }
}

/// Aligned so that partitions share no cache lines.
#[repr(align(128))]
pub(crate) struct Partition {
    index: Index,
    log: Log,
    lock: Lock,
    /// What store mode has besides.
    store: Option<Box<Store>>,
    /// Upper bits of a hash that say which partition this is.
    skipped_bits: u32,
    expiry: Expiry,
    /// How the entries divide among databases, if there may be several.
    spaces: Option<Box<Spaces>>,
    /// The large values of which a part went from here.
    remains: Remains,
    /// The node of the machine to which the memory was brought last.
    node: AtomicU64,
    pub(crate) counts: Counts,
}

/// Of a partition that is being written; dropped where that panics.
struct Guard<'p>(&'p Partition);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.stop_half_way();
        if self.0.lock.refusal() != Some(Refusal::Owned) {
            self.0.unlock();
        }
    }
}

impl Partition {
    pub(crate) fn new(
        layout: &Layout,
        offset_bits: u32,
        frames: Frames,
        family: Option<&Arc<Family>>,
    ) -> Self {
        let words = layout.log_words;
        let (index, log) = if layout.is_store {
            // Together, because spare buckets come out of the space.
            let all = Words::new(words + layout.main_buckets * BUCKET_WORDS, frames);
            let index = Index::sharing(&all, words, layout.main_buckets);
            (index, Log::of_blocks(all.part(0..words)))
        } else {
            let index = Index::new(layout.main_buckets, layout.spare_buckets, frames);
            (index, Log::new(words, layout.small_words, offset_bits, frames))
        };
        let store = layout.is_store.then(|| Box::new(Store::new(log.words())));
        if let Some(store) = store.as_ref().filter(|_| log.reserved_bytes() > 0) {
            // They are all held, and stay so.
            store.pages().forget();
        }
        Partition {
            index,
            log,
            lock: Lock::default(),
            store,
            skipped_bits: layout.partitions.ilog2(),
            expiry: Expiry::default(),
            spaces: family.map(|family| Box::new(Spaces::of(family))),
            remains: Remains::default(),
            node: AtomicU64::new(u64::MAX),
            counts: Counts::default(),
        }
    }

    /// Where in this partition a key belongs with this lower half of its hash, whose upper bits say
    /// in which partition.
    #[inline(always)]
    pub(crate) fn probe(&self, partition: u32, hash: u64) -> Probe {
        let (bucket, tag) = (self.main_of(hash) as u32, Self::tag_of(hash));
        Probe { partition, bucket, tag, form: Form::Whole }
    }

    #[inline(always)]
    fn main_of(&self, hash: u64) -> usize {
        ((u128::from(hash << self.skipped_bits) * self.index.main() as u128) >> 64) as usize
    }

    /// The lowest bits, which decide little about the bucket.
    #[inline(always)]
    fn tag_of(hash: u64) -> u64 {
        (hash & 0xFFFF).max(1)
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// Bytes of index and log in pages that the system has reserved.
    pub(crate) fn reserved_bytes(&self) -> usize {
        let (log, index) = (self.log.reserved_bytes(), self.index.reserved_bytes());
        // A store's index lies in the same memory.
        if self.is_store() { log } else { log + index }
    }

    pub(crate) fn expiry(&self) -> &Expiry {
        &self.expiry
    }

    /// How the entries divide among databases, if there may be several.
    #[inline]
    pub(crate) fn spaces(&self) -> Option<&Spaces> {
        self.spaces.as_deref()
    }

    pub(crate) fn is_store(&self) -> bool {
        self.store.is_some()
    }

    pub(crate) fn remains(&self) -> &Remains {
        &self.remains
    }

    /// What store mode has besides; only in store mode.
    #[inline(always)]
    pub(crate) fn store(&self) -> &Store {
        self.store.as_deref().expect("the engine is in store mode")
    }

    /// Waits until the caller is the only writer, or says why that is in vain.
    #[inline]
    pub(crate) fn lock(&self) -> Result<(), Refusal> {
        self.wait_for(Lock::try_lock)
    }

    /// Locks the partition for an owner, who stays it. Where its thread is bound to a node of the
    /// machine, the partition's memory comes there.
    pub(crate) fn own(&self) -> Result<(), Refusal> {
        self.wait_for(Lock::try_own)?;
        let home = Nodes::here().home_of_caller().map(|node| node as u64);
        if let Some(node) = home.filter(|node| self.node.load(Relaxed) != *node) {
            self.node.store(node, Relaxed);
            bring(self.log.words(), node as usize);
            bring(self.index.words(), node as usize);
        }
        Ok(())
    }

    #[inline(always)]
    fn wait_for(&self, has_got: impl Fn(&Lock) -> bool) -> Result<(), Refusal> {
        let mut backoff = Backoff::default();
        while !has_got(&self.lock) {
            if let Some(refusal) = self.lock.refusal() {
                return Err(refusal);
            }
            backoff.pause();
        }
        Ok(())
    }

    /// Nobody writes any more.
    pub(crate) fn close(&self) {
        self.lock.close();
    }

    /// Locks a partition whose last writer stopped half way, too.
    pub(crate) fn lock_to_clear(&self) -> Result<(), Refusal> {
        self.lock().or_else(|why| if self.lock.try_mend() { Ok(()) } else { Err(why) })
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.lock.refusal() == Some(Refusal::Poisoned)
    }

    /// Calls `write` as the only writer, unless there is another one.
    pub(crate) fn try_write<T>(&self, write: impl FnOnce(&Self) -> T) -> Option<T> {
        if !self.lock.try_lock() {
            return None;
        }
        let written = self.guarded(write);
        self.unlock();
        Some(written)
    }

    /// Calls `write`; where it panics, the partition is in a safe state afterwards. Only for the
    /// holder of the lock, which is given back then unless a shard owns it.
    pub(crate) fn guarded<T>(&self, write: impl FnOnce(&Self) -> T) -> T {
        let guard = Guard(self);
        let written = write(self);
        std::mem::forget(guard);
        written
    }

    /// After a panic in the middle of a write: a cache forgets the partition's entries, a store
    /// refuses to go on.
    #[cold]
    pub(crate) fn stop_half_way(&self) {
        if self.is_store() {
            log::error!("a write panicked: its partition of the store takes no more");
            return self.lock.poison();
        }
        log::error!("a write panicked: its partition of the cache is emptied");
        self.index.clear();
        self.log.clear();
        self.count_empty();
    }

    /// Only for the holder of the lock, as are all methods below that say nothing else.
    #[inline]
    pub(crate) fn unlock(&self) {
        self.lock.unlock();
    }

    /// Turns readers of a bucket away; false where they already are.
    #[inline]
    pub(crate) fn begin(&self, bucket: u32) -> bool {
        begin_write(&self.index.bucket(bucket as usize)[0])
    }

    #[inline]
    pub(crate) fn end(&self, bucket: u32) {
        end_write(&self.index.bucket(bucket as usize)[0]);
    }

    /// For everybody: asks for the bucket of a key.
    #[inline(always)]
    pub(crate) fn prefetch_bucket(&self, probe: &Probe) {
        self.index.prefetch(probe.bucket as usize);
    }

    /// For everybody: no key yet.
    #[inline(always)]
    pub(crate) fn nothing(&self) -> Sought<'_> {
        Sought { bucket: self.index.bucket(0), tag: 0 }
    }

    /// For everybody: asks for the bucket of the key with this hash.
    #[inline(always)]
    pub(crate) fn seek(&self, hash: u64) -> Sought<'_> {
        let bucket = self.index.bucket(self.main_of(hash));
        prefetch_burst(bucket, 0);
        Sought { bucket, tag: Self::tag_of(hash) }
    }

    /// For everybody: asks for the entry of a key, whose bucket has arrived by now.
    #[inline(always)]
    pub(crate) fn prefetch_item(&self, sought: &Sought<'_>) -> Hint {
        let Sought { bucket, tag } = *sought;
        let hint = Hint { seen: bucket[0].load(Acquire), word: first_of(bucket, tag) };
        if hint.word != 0 {
            self.prefetch_offset(hint.offset());
        } else if let Some(next) = self.index.next(hint.seen) {
            prefetch_burst(next, 0);
        }
        hint
    }

    /// For everybody: the same by number of the bucket and tag.
    #[inline(always)]
    pub(crate) fn prefetch_tagged(&self, main: usize, tag: u64) {
        self.prefetch_item(&Sought { bucket: self.index.bucket(main), tag });
    }

    #[inline(always)]
    fn prefetch_offset(&self, offset: u64) {
        let place = self.log.place(offset);
        prefetch_burst(self.log.words(), place);
        // A small entry may end in the next line.
        prefetch_burst(self.log.words(), place + 2);
    }

    /// For everybody: the same where no slot of the main bucket has the tag, but a spare one goes
    /// on with it, which has arrived by now.
    #[inline(always)]
    pub(crate) fn prefetch_chained(&self, tag: u64, hint: &mut Hint) {
        if hint.word != 0 {
            return;
        }
        let Some(spare) = self.index.next(hint.seen) else { return };
        let mut slots = spare[1..].iter().map(|slot| slot.load(Relaxed));
        // A chain that is being changed may lead anywhere; the version tells.
        if let Some(word) = slots.find(|word| tag_of(*word) == tag) {
            hint.word = word;
            self.prefetch_offset(offset_of(word));
        }
    }

    /// Asks for the entry of a key whose main bucket has arrived, in a chain.
    pub(crate) fn prefetch_chain(&self, probe: &Probe) {
        let bucket = self.index.bucket(probe.bucket as usize);
        let (seen, word) = (bucket[0].load(Relaxed), first_of(bucket, probe.tag));
        self.prefetch_chained(probe.tag, &mut Hint { seen, word });
    }

    /// The value of the entry of `key`, if it has at most 8 bytes, no meta, and is where the hint
    /// says; also how many bytes it has.
    ///
    /// For everybody, and with `OWNED` for the holder of the lock: then nothing can change
    /// meanwhile but what its own gets move, which leaves the bytes where they were until the head
    /// has gone past them.
    #[inline(always)]
    pub(crate) fn get_word<const OWNED: bool>(
        &self,
        sought: &Sought<'_>,
        hint: Hint,
        key: &[u8],
    ) -> Option<(u64, usize)> {
        let word = item::word_value(self.log.words(), self.log.place(hint.offset()), key)?;
        self.is_certain::<OWNED>(sought.bucket, hint).then_some(word)
    }

    /// Copies the entry of `key` into `scratch`; also returns its offset. For whom is the same.
    #[inline(always)]
    pub(crate) fn get<const OWNED: bool>(
        &self,
        sought: &Sought<'_>,
        hint: Hint,
        key: &[u8],
        scratch: &mut Scratch,
    ) -> Option<(Copied, u64)> {
        let bucket = sought.bucket;
        // No closure: it would be called for each key where this is not inlined into its callers.
        if let Some(item) = self.log.item(hint.offset())
            && item.is_whole_of(key)
        {
            let copied = item.copy_whole(scratch);
            if self.is_certain::<OWNED>(bucket, hint) {
                return Some((copied, hint.offset()));
            }
        }
        if OWNED {
            return self.get_owned(sought, key, scratch);
        }
        self.get_anew(sought, key, scratch)
    }

    /// As [`Partition::get_anew`], for the holder of the lock.
    #[inline(never)]
    fn get_owned(
        &self,
        sought: &Sought<'_>,
        key: &[u8],
        scratch: &mut Scratch,
    ) -> Option<(Copied, u64)> {
        let see = |item: &Item<'_>| item.has_key(key).then(|| item.copy(scratch));
        self.search(sought.bucket[0].load(Relaxed), sought, see)
    }

    /// For everybody: copies the entry of `key` into `scratch`; also returns its offset.
    #[inline(never)]
    pub(crate) fn get_anew(
        &self,
        sought: &Sought<'_>,
        key: &[u8],
        scratch: &mut Scratch,
    ) -> Option<(Copied, u64)> {
        self.get_again(sought, |item| item.has_key(key).then(|| item.copy(scratch)))
    }

    /// For everybody: copies the chunk of `key`, which has as many bytes as `out`; returns its
    /// offset.
    pub(crate) fn get_chunk(
        &self,
        sought: &Sought<'_>,
        key: &ChunkKey,
        out: &mut [u8],
    ) -> Option<u64> {
        let see = |item: &Item<'_>| (item.is_chunk(key) && item.copy_to(out)).then_some(());
        self.get_again(sought, see).map(|((), offset)| offset)
    }

    /// True where what was read just now at the hint's place is the entry that the hint names.
    #[inline(always)]
    fn is_certain<const OWNED: bool>(&self, bucket: &Bucket, hint: Hint) -> bool {
        // After the fence of `end_read`: what is still there now was whole.
        let is_whole = OWNED || hint.seen & 1 == 0 && end_read(&bucket[0], hint.seen);
        is_whole && hint.word != 0 && self.log.is_there(hint.offset())
    }

    /// A get where the first slot that had the tag is not the key's, or not any more: of the entry
    /// of which `see`, which may be called several times, makes something.
    #[inline(never)]
    fn get_again<T>(
        &self,
        sought: &Sought<'_>,
        mut see: impl FnMut(&Item<'_>) -> Option<T>,
    ) -> Option<(T, u64)> {
        let word = &sought.bucket[0];
        let mut backoff = Backoff::default();
        loop {
            if let Some(seen) = begin_read(word) {
                let found = self.search(seen, sought, &mut see);
                if end_read(word, seen) {
                    // After the fence of `end_read`: what is still there now was whole. What is
                    // not may have moved since, so it is looked for again.
                    if found.as_ref().is_none_or(|(_, offset)| self.log.is_there(*offset)) {
                        return found;
                    }
                }
            }
            // Whoever asked looks why it has found too little.
            if self.is_poisoned() {
                return None;
            }
            backoff.pause();
        }
    }

    /// Looks in the whole chain for the entry of which `see` makes something.
    fn search<T>(
        &self,
        seen: u64,
        sought: &Sought<'_>,
        mut see: impl FnMut(&Item<'_>) -> Option<T>,
    ) -> Option<(T, u64)> {
        let first = sought.bucket;
        let (mut bucket, mut word) = (&first[..], seen);
        loop {
            for slot in &bucket[1..] {
                let (tag, offset) = (tag_of(slot.load(Relaxed)), offset_of(slot.load(Relaxed)));
                if tag == sought.tag
                    && self.log.is_there(offset)
                    && let Some(item) = self.log.item(offset)
                    && let Some(seen) = see(&item)
                {
                    return Some((seen, offset));
                }
            }
            bucket = self.index.next(word)?;
            word = bucket[0].load(Relaxed);
            // A chain that changes may lead anywhere, in circles even.
            if first[0].load(Relaxed) != seen {
                return None;
            }
        }
    }

    /// For everybody: visits the entries of a chain; `begin` is called before each try.
    pub(crate) fn read_chain(
        &self,
        main: usize,
        out: &mut Vec<(Vec<u8>, Vec<u8>, Copied)>,
        scratch: &mut Scratch,
    ) {
        let first = self.index.bucket(main);
        let mut backoff = Backoff::default();
        loop {
            out.clear();
            if let Some(seen) = begin_read(&first[0]) {
                let mut offsets = Vec::new();
                let (mut bucket, mut word) = (&first[..], seen);
                loop {
                    let slots = bucket[1..].iter().map(|slot| slot.load(Relaxed));
                    offsets.extend(slots.filter(|word| *word != 0).map(offset_of));
                    let Some(next) = self.index.next(word) else { break };
                    bucket = next;
                    word = bucket[0].load(Relaxed);
                    if first[0].load(Relaxed) != seen {
                        break;
                    }
                }
                for offset in &offsets {
                    self.read_offset(*offset, out, scratch);
                }
                if end_read(&first[0], seen) {
                    return;
                }
            }
            if self.is_poisoned() {
                return out.clear();
            }
            backoff.pause();
        }
    }

    fn read_offset(
        &self,
        offset: u64,
        out: &mut Vec<(Vec<u8>, Vec<u8>, Copied)>,
        scratch: &mut Scratch,
    ) {
        if !self.log.is_there(offset) {
            return;
        }
        let item = self.log.item(offset).filter(|item| item.header.form() != Form::Chunk);
        let Some(item) = item else { return };
        let mut key = Vec::new();
        item.push_key(&mut key);
        let copied = item.copy(scratch);
        let value = scratch.entry(copied).value.to_vec();
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        if self.log.is_there(offset) {
            out.push((key, value, copied));
        }
    }

    /// The entry of `key`. Only for the holder of the lock.
    pub(crate) fn find(&self, probe: &Probe, key: &[u8]) -> Option<Item<'_>> {
        let found = self.index.find(&self.log, probe.bucket as usize, probe.tag, key)?;
        Some(found.item)
    }

    /// Copies the entry of `key` into `scratch`.
    pub(crate) fn read(&self, probe: &Probe, key: &[u8], scratch: &mut Scratch) -> Option<Copied> {
        let found = self.index.find(&self.log, probe.bucket as usize, probe.tag, key)?;
        Some(found.item.copy(scratch))
    }

    /// The slot of the chunk of `key`.
    pub(crate) fn find_chunk(&self, probe: &Probe, key: &ChunkKey) -> Option<u64> {
        let is_it = |offset: u64| {
            self.log.is_there(offset)
                && self.log.item(offset).is_some_and(|item| item.is_chunk(key))
        };
        let words = self.index.slots(probe.bucket as usize).map(|slot| slot.load(Relaxed));
        let mut offsets = words.filter(|word| tag_of(*word) == probe.tag).map(offset_of);
        offsets.find(|offset| is_it(*offset))
    }

    /// Removes every entry.
    pub(crate) fn clear(&self) {
        self.expiry.clear();
        self.remains.take();
        match &self.store {
            None => self.log.clear(),
            Some(store) => {
                self.index.clear();
                store.clear(self.log.words());
                self.give_back_pages(usize::MAX);
            }
        }
        self.count_empty();
    }

    /// Visits every place, from the oldest on; the error says what is wrong where.
    fn walk(&self, visit: impl FnMut(u64, Item<'_>)) -> Result<(), (u64, &'static str)> {
        match &self.store {
            None => self.log.walk(visit),
            Some(store) => store.walk(self.log.words(), visit),
        }
    }

    /// Visits every entry, from the oldest on, expired ones and chunks included.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&[u8], Form, EntryRef<'_>)) -> Result<()> {
        let (mut key, mut scratch) = (Vec::new(), Scratch::new());
        let walked = self.walk(|_, item| {
            if item.header.is_live() {
                key.clear();
                item.push_key(&mut key);
                let copied = item.copy(&mut scratch);
                visit(&key, copied.form, scratch.entry(copied));
            }
        });
        walked.map_err(|(at, detail)| Error::corruption("a partition", 8 * at, detail))
    }

    /// Checks every invariant. `probe` says where a key belongs.
    pub(crate) fn verify(&self, number: usize, probe: impl Fn(&[u8]) -> Probe) -> Result<()> {
        let what = format!("partition {number}");
        let wrong = |at, detail: &str| Err(Error::corruption(&what, at, detail));
        let (mut live, mut chunks, mut live_words, mut misplaced) = (0, 0, 0, None);
        let (mut key, mut in_spaces) = (Vec::new(), [0; SPACES_MAX]);
        let visit = |offset, item: Item<'_>| {
            if item.header.is_live() {
                live_words += item.header.words() as u64;
                key.clear();
                item.push_key(&mut key);
                let at = probe(&key);
                let found = if let Some(key) = item.chunk_key() {
                    chunks += 1;
                    self.find_chunk(&at, &key)
                } else {
                    live += 1;
                    let place = self.spaces().and_then(|spaces| spaces.place(item.home()));
                    place.into_iter().for_each(|place| in_spaces[place] += 1);
                    let found = self.index.find(&self.log, at.bucket as usize, at.tag, &key);
                    found.map(|found| found.offset)
                };
                if found != Some(offset) {
                    misplaced = Some(offset);
                }
            }
        };
        if let Err((at, detail)) = self.walk(visit) {
            return wrong(8 * at, detail);
        }
        if let Some(offset) = misplaced {
            return wrong(8 * self.log.place(offset) as u64, "a live entry is not in the index");
        }
        let mut slots = 0;
        for main in 0..self.index.main() {
            let words = self.index.slots(main).map(|slot| slot.load(Relaxed));
            let used = words.filter(|w| *w != 0 && self.log.is_there(offset_of(*w)));
            slots += used.count() as u64;
        }
        let Counts { entries, chunks: counted, live_words: words, .. } = &self.counts;
        let counts = [entries.get(), counted.get(), words.get(), slots];
        if counts != [live, chunks, live_words, live + chunks] {
            let detail =
                format!("{live} entries, {chunks} chunks, {live_words} words, counted {counts:?}");
            return wrong(0, &detail);
        }
        let counted = self.spaces().map_or([0; SPACES_MAX], Spaces::get);
        if counted != in_spaces {
            let detail = format!("entries of databases: {in_spaces:?}, counted {counted:?}");
            return wrong(0, &detail);
        }
        self.index.verify_spares().or_else(|detail| wrong(0, &detail))
    }
}

/// The error for a write to partition `number`, which was refused.
#[cold]
pub(crate) fn refused(number: usize, why: Refusal) -> Error {
    match why {
        Refusal::Owned => {
            let message = format!(
                "partition {number} belongs to a shard, which alone writes it; send the write to \
                 its owner"
            );
            Error::new(ErrorKind::Locked, message)
        }
        Refusal::Poisoned => {
            let message = format!(
                "a write to partition {number} stopped half way; remove everything (clear, \
                 FLUSHALL) to go on"
            );
            Error::new(ErrorKind::Poisoned, message)
        }
        Refusal::Closed => {
            let message = "the keyspace in memory was closed; open it again to write";
            Error::new(ErrorKind::Closed, message)
        }
    }
}

/// Numbers of the bits that are set, from the lowest on.
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lowest
    })
}
