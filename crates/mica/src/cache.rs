//! Writes in cache mode: what is appended takes the place of the entries that were written first,
//! but for those that the policy copies to the front because they are read.

use crate::again::{Again, Spared};
use crate::index::{Place, offset_of, slot};
use crate::item::{self, Copied, Form, Item, Scratch};
use crate::large::ChunkKey;
use crate::log::Which;
use crate::partition::{Partition, Probe, Rules, Tally};
use crate::policy::Policy;
use silica_engine::EntryRef;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Chains are cleaned in turn, each once while the log is written so many times.
const LAPS_PER_CLEANING: u64 = 2;

/// What is live does not give way if it takes at most one of so many parts of the main log.
const ROOMY_PARTS: u64 = 2;
/// The head is so many words ahead of each that is put, so that the live half of a log may lie
/// together: while it passes, a quarter of it is written, which is what was free before.
const WORDS_AHEAD: u64 = 4;
/// The part of the main log that is free then.
const FREE_PARTS: u64 = 4;

/// Cache mode. Only for the holder of the lock.
impl Partition {
    /// Maps `key` to `entry`. Readers of the bucket have been turned away.
    pub(crate) fn put<P: Policy>(
        &self,
        probe: &Probe,
        key: &[u8],
        entry: &EntryRef<'_>,
        rules: &Rules<'_, P>,
    ) {
        let counts = &self.counts;
        counts.puts.add(1);
        // The bytes of a large value are counted by chunks.
        let value_bytes = if probe.form == Form::Whole { entry.value.len() } else { 0 };
        counts.user_bytes.add((key.len() + value_bytes) as u64);
        self.expiry().note(entry.expires_unix_ms);
        let needed = item::words_needed(key, entry);
        let bucket = probe.bucket as usize;
        let mut old = self.index().find(self.log(), bucket, probe.tag, key);
        if let Some(found) = &old {
            let (room, uses) = (found.item.header.words(), found.item.header.uses());
            self.note_gone(&found.item);
            let moves = P::USES_MAX == 0 && rules.policy.is_due(self.log(), found.offset);
            if needed <= room && !moves {
                self.store_at(found.offset, room, (key, entry), probe.form);
                counts.updates_in_place.add(1);
                if P::USES_MAX > 0 {
                    self.log().set_uses(found.offset, P::USES_MAX.min(uses + 1));
                }
                return;
            }
        }
        if self.clean_some(needed as u64) && old.is_some() {
            // Cleaning moves slots.
            old = self.index().find(self.log(), bucket, probe.tag, key);
        }
        // What was used once in the small log has its place there by it.
        let (mut which, mut uses) = (Which::Main, 0);
        let is_ghost = || match &old {
            Some(found) => self.log().which(found.offset) == Which::Main,
            None => self.index().take_ghost(self.log(), bucket, probe.tag),
        };
        // A list is as old as its chunks, which are too large for the small log.
        if P::HAS_SMALL && probe.form == Form::Whole && !self.is_roomy() {
            which = rules.policy.log_for(self.log(), needed, is_ghost);
        }
        if let Some(found) = &old {
            if which == Which::Small {
                uses = P::USES_MAX.min(found.item.header.uses() + 1);
            }
            // Before it can be evicted, which would count it.
            counts.live_words.sub(self.log().kill(found.offset) as u64);
        }
        let mut again = Again::default();
        self.go_ahead(needed, rules, &mut again);
        let offset = self.append(which, needed, rules, &mut again);
        self.store_at(offset, needed, (key, entry), probe.form);
        if uses > 0 {
            self.log().set_uses(offset, uses);
        }
        let target = match old {
            Some(found) => found.slot,
            None => {
                self.count_new(key, probe.form);
                self.new_slot(bucket, rules)
            }
        };
        target.store(slot(probe.tag, offset), Relaxed);
        if !again.is_empty() {
            self.put_again(again, rules);
        }
    }

    /// Puts a chunk, which is new, with as many uses as there are: it stays until its value is
    /// whole, whatever else is used.
    pub(crate) fn put_chunk<P: Policy>(
        &self,
        probe: &Probe,
        key: &ChunkKey,
        value: &[u8],
        rules: &Rules<'_, P>,
    ) {
        let entry = EntryRef::new(value);
        let needed = item::words_needed(key, &entry);
        self.counts.user_bytes.add(value.len() as u64);
        self.clean_some(needed as u64);
        let mut again = Again::default();
        self.go_ahead(needed, rules, &mut again);
        let offset = self.append(Which::Main, needed, rules, &mut again);
        // Long before it is found: readers of its bucket need not wait for that.
        self.store_at(offset, needed, (key, &entry), Form::Chunk);
        self.log().set_uses(offset, P::USES_MAX);
        self.begin(probe.bucket);
        self.count_new(key, Form::Chunk);
        let target = self.new_slot(probe.bucket as usize, rules);
        target.store(slot(probe.tag, offset), Relaxed);
        if !again.is_empty() {
            self.put_again(again, rules);
        }
        self.end(probe.bucket);
    }

    /// Stores an entry in the place of `words` words at `offset`.
    #[inline(always)]
    fn store_at(
        &self,
        offset: u64,
        words: usize,
        (key, entry): (&[u8], &EntryRef<'_>),
        form: Form,
    ) {
        let place = self.log().place(offset);
        item::store(&self.log().words()[place..place + words], key, entry, form);
    }

    /// Puts entries that stay once more. Their slots dangle meanwhile, and readers of their
    /// buckets were turned away before.
    #[cold]
    fn put_again<P: Policy>(&self, mut again: Again, rules: &Rules<'_, P>) {
        while let Some(Spared { probe, key, value, copied, word, uses, began }) = again.pop() {
            let Copied { expires_unix_ms, user_bits, form, .. } = copied;
            let entry = EntryRef { value: &value, expires_unix_ms, user_bits };
            let needed = item::words_needed(&key, &entry);
            self.clean_some(needed as u64);
            let offset = self.append(Which::Main, needed, rules, &mut again);
            self.store_at(offset, needed, (&key, &entry), form);
            self.log().set_uses(offset, uses);
            let bucket = probe.bucket as usize;
            // Its own slot, if that is still there: what dangles may be used by others.
            self.count_new(&key, form);
            let own = self.index().slots(bucket).find(|slot| slot.load(Relaxed) == word);
            let target = own.unwrap_or_else(|| self.new_slot(bucket, rules));
            target.store(slot(probe.tag, offset), Relaxed);
            if began && !again.takes_over(probe.bucket) {
                self.end(probe.bucket);
            }
            self.counts.moved.add(u64::from(form != Form::Chunk));
        }
    }

    /// A slot of a chain for a key that has none, whose entry is counted already.
    fn new_slot<P>(&self, bucket: usize, rules: &Rules<'_, P>) -> &AtomicU64 {
        match self.index().place(self.log(), bucket) {
            Place::Free(slot) => slot,
            Place::Oldest(slot) => {
                let offset = offset_of(slot.load(Relaxed));
                let item = self.log().item(offset).expect("the slot does not dangle");
                self.count_evicted(&item, &self.counts.evicted_from_index, rules);
                self.log().kill(offset);
                slot
            }
        }
    }

    /// Place in a log for a live entry.
    fn append<P: Policy>(
        &self,
        which: Which,
        words: usize,
        rules: &Rules<'_, P>,
        again: &mut Again,
    ) -> u64 {
        let counts = &self.counts;
        counts.live_words.add(words as u64);
        counts.words_appended.add(words as u64);
        self.log().append(which, words, &mut |offset, item: Item<'_>| {
            let kept = rules.policy.keeps(which, item.header.uses());
            let kept = kept.or_else(|| self.is_roomy().then_some(0));
            let kept = kept.filter(|uses| again.takes(*uses));
            self.leaves(offset, &item, kept, rules, again);
        })
    }

    /// True if so little is live that nothing has to give way: the places of what was deleted,
    /// overwritten or has expired are enough.
    #[inline]
    fn is_roomy(&self) -> bool {
        ROOMY_PARTS * self.counts.live_words.get() <= self.log().len(Which::Main)
    }

    /// Frees places ahead of those that `words` words need, if the log was filled and little of it
    /// is live: where that lies together, no single put has to move all of it.
    #[inline]
    fn go_ahead<P: Policy>(&self, words: usize, rules: &Rules<'_, P>, again: &mut Again) {
        if !self.log().is_filled() || !self.is_roomy() {
            return;
        }
        let free = self.log().len(Which::Main) / FREE_PARTS;
        let bounds = (WORDS_AHEAD * words as u64, free);
        self.log().go_ahead(Which::Main, bounds, &mut |offset, item: Item<'_>| {
            self.leaves(offset, &item, Some(item.header.uses()), rules, again);
        });
    }

    /// Takes a live entry out of its place: it is put again with the uses that it keeps, if it
    /// keeps any, and else goes.
    fn leaves<P>(
        &self,
        offset: u64,
        item: &Item<'_>,
        kept: Option<u64>,
        rules: &Rules<'_, P>,
        again: &mut Again,
    ) {
        if kept.is_some_and(|uses| self.spare((offset, uses), item, rules, again)) {
            self.count_gone(item);
            self.counts.live_words.sub(item.header.words() as u64);
        } else {
            self.count_evicted(item, &self.counts.evicted_from_log, rules);
        }
    }

    /// Keeps the entry at an offset, with so many of its uses, to put it again; false where it has
    /// expired.
    #[cold]
    fn spare<P>(
        &self,
        (offset, uses): (u64, u64),
        item: &Item<'_>,
        rules: &Rules<'_, P>,
        again: &mut Again,
    ) -> bool {
        let expires = item.expires_unix_ms();
        let has_expired = || expires != 0 && expires <= rules.clock.unix_ms();
        if has_expired() || self.is_dead(item) {
            return false;
        }
        let (mut key, mut scratch) = (Vec::new(), Scratch::new());
        item.push_key(&mut key);
        let copied = item.copy(&mut scratch);
        let value = scratch.entry(copied).value.to_vec();
        // Whose number the partition has does not matter here.
        let probe = self.probe(0, rules.seed.low(&key));
        // Before the head moves past it: nobody may miss it in between.
        let began = self.begin(probe.bucket);
        let word = slot(probe.tag, offset);
        again.push(Spared { probe, key, value, copied, word, uses, began });
        true
    }

    /// Counts a live entry that is about to go, under its cause; of a dead one nobody asks for the
    /// cause.
    fn count_evicted<P>(&self, item: &Item<'_>, cause: &Tally, rules: &Rules<'_, P>) {
        let counts = &self.counts;
        self.count_gone(item);
        self.note_gone(item);
        counts.live_words.sub(item.header.words() as u64);
        // Of a chunk the list is counted, once it goes.
        if item.header.form() == Form::Chunk || self.is_dead(item) {
            return;
        }
        let expires = item.expires_unix_ms();
        let has_expired = expires != 0 && expires <= rules.clock.unix_ms();
        (if has_expired { &counts.expired } else { cause }).add(1);
    }

    /// Cleans chains in turn, in proportion to what is appended; false where none is due.
    fn clean_some(&self, words: u64) -> bool {
        let counts = &self.counts;
        let laps = LAPS_PER_CLEANING * self.log().words().len() as u64;
        let mut due = counts.clean_due.get() + words * self.index().main() as u64;
        let is_due = due >= laps;
        while due >= laps {
            due -= laps;
            self.clean_next();
        }
        counts.clean_due.set(due);
        is_due
    }

    /// Cleans one chain.
    fn clean_next(&self) {
        let next = self.counts.clean_next.get() as usize % self.index().main();
        self.index().clean(self.log(), next);
        self.counts.clean_next.set(next as u64 + 1);
    }

    /// Removes `key`. Readers of the bucket have been turned away.
    pub(crate) fn delete(&self, probe: &Probe, key: &[u8]) {
        self.counts.deletes.add(1);
        let found = self.index().find(self.log(), probe.bucket as usize, probe.tag, key);
        if let Some(found) = found {
            found.slot.store(0, Relaxed);
            self.count_gone(&found.item);
            self.note_gone(&found.item);
            self.counts.live_words.sub(self.log().kill(found.offset) as u64);
        }
    }

    /// Moves the entry of `key` to the tail, if it still stands at `offset`.
    #[cold]
    pub(crate) fn renew<P: Policy>(
        &self,
        probe: &Probe,
        key: &[u8],
        offset: u64,
        scratch: &mut Scratch,
        rules: &Rules<'_, P>,
    ) {
        let bucket = probe.bucket as usize;
        // Before the slot is looked up: cleaning moves slots.
        self.clean_some(self.log().item(offset).map_or(0, |item| item.header.words() as u64));
        // No other entry ever had its offset.
        let word = slot(probe.tag, offset);
        let mut slots = self.index().slots(bucket);
        let own = slots.find(|slot| slot.load(Relaxed) == word && self.log().is_there(offset));
        let Some((own, item)) = own.zip(self.log().item(offset)) else { return };
        if P::USES_MAX > 0 {
            return self.log().set_uses(offset, P::USES_MAX.min(item.header.uses() + 1));
        }
        let copied = item.copy(scratch);
        let entry = scratch.entry(copied);
        self.begin(probe.bucket);
        self.counts.live_words.sub(self.log().kill(offset) as u64);
        let words = item::words_needed(key, &entry);
        let mut again = Again::default();
        self.go_ahead(words, rules, &mut again);
        let new = self.append(Which::Main, words, rules, &mut again);
        self.store_at(new, words, (key, &entry), copied.form);
        own.store(slot(probe.tag, new), Relaxed);
        if !again.is_empty() {
            self.put_again(again, rules);
        }
        self.end(probe.bucket);
        self.counts.moved.add(u64::from(copied.form != Form::Chunk));
    }
}
