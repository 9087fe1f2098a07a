//! Shards are checked before anything in them is believed: once after an opening, at the first
//! touch or by `maintain`, and by the scrub (`verify`).
//!
//! The check computes each bucket's sum and compares it with the commit word, and looks whether
//! every key is where searches find it. Tags and sums, which follow from the rest, are stored anew
//! where a crash left others. Which keys have passed full buckets, which only memory has, is
//! computed anew. It says which objects the shard reaches. Entries beside are not read:
//! their own checksum is looked at by each read. Cost: docs/benchmarks/turbo.md.

use super::bucket::{BUCKET_BYTES, Commit, Kind, SLOTS, SUM, TAGS};
use super::bucket::{place_sum, slot_sum, with_tag};
use super::entry::Pointer;
use super::shards::{Buckets, UNCHECKED, decode};
use super::store::{Tally, Turbo};
use silica_base::{Error, Result};
use silica_device::region::Region;
use std::sync::atomic::Ordering;

/// A bucket as it should be.
struct Bucket {
    commit: Commit,
    sum: u64,
    tags: [u64; 2],
    hashes: [u64; SLOTS],
}

/// What a check does with words that follow from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Derived {
    /// Stores them as they should be.
    Stored,
    /// Finds damage if the sum is not as it should be.
    SumCompared,
    /// Finds damage if anything is not as it should be.
    Compared,
}

impl<R: Region> Turbo<R> {
    /// Checks a shard after an opening. Only for the holder of its lock.
    ///
    /// # Errors
    /// `Corruption`: it stays unchecked, and nothing of it is served.
    pub(super) fn check_shard(&self, shard: usize, tally: &mut Tally) -> Result<()> {
        let word = self.shards[shard].load(Ordering::Relaxed);
        let buckets = Buckets::of(word);
        let derived = if self.was_settled { Derived::SumCompared } else { Derived::Stored };
        let mut counted = Tally::default();
        let mut reached = Vec::new();
        self.passed.set_all(buckets, |_| 0);
        for number in 0..buckets.count {
            self.check_bucket(shard, buckets, number, derived, &mut counted, &mut reached)?;
        }
        let offsets: Vec<u64> = reached.iter().map(|pointer| pointer.offset()).collect();
        self.space.mark(&offsets)?;
        if reached.iter().any(|pointer| pointer.expires()) {
            // When is not known: the next sweep looks.
            self.soonest_ms.store(0, Ordering::Relaxed);
        }
        *tally = counted;
        if self.is_counted {
            // Saturates if the number was of another store: the check's own count stands.
            let less = |left: u64| Some(left.saturating_sub(u64::from(counted.used)));
            let _ = self.uncounted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        self.shards[shard].store(word & !UNCHECKED, Ordering::Release);
        if self.unchecked.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.space.marks_done()?;
        }
        Ok(())
    }

    fn check_bucket(
        &self,
        shard: usize,
        buckets: Buckets,
        number: u64,
        derived: Derived,
        tally: &mut Tally,
        reached: &mut Vec<Pointer>,
    ) -> Result<()> {
        let (at, region) = (buckets.at(number), self.region());
        if at + BUCKET_BYTES > region.len() {
            return Err(self.damaged(at, "a shard reaches beyond the end of the region"));
        }
        let bucket = self.as_it_should_be(at);
        let sum = self.sum_of(at);
        if !bucket.commit.is_sound(bucket.sum) || derived != Derived::Stored && sum != bucket.sum {
            return Err(self.damaged(at, "a bucket does not match its checksum"));
        }
        for slot in (0..SLOTS).filter(|slot| bucket.commit.used() >> slot & 1 == 1) {
            if !self.is_found(shard, buckets, number, bucket.hashes[slot]) {
                return Err(self.damaged(at, "a bucket has a key that belongs elsewhere"));
            }
            self.check_passed(buckets, number, bucket.hashes[slot], derived)?;
            if bucket.commit.kind(slot) == Kind::Beside {
                reached.push(Pointer(self.slot_words(at, slot)[1]));
            }
        }
        tally.used += bucket.commit.used().count_ones();
        tally.deleted += bucket.commit.deleted().count_ones();
        let tags = [region.word(at + TAGS), region.word(at + TAGS + 8)];
        match derived {
            Derived::Compared if self.tags_differ(&bucket, tags) => {
                return Err(self.damaged(at + TAGS, "a tag is not that of its key"));
            }
            Derived::Compared => {}
            Derived::Stored | Derived::SumCompared => {
                if sum != bucket.sum {
                    region.store(at + SUM, bucket.sum);
                }
                if tags != bucket.tags {
                    region.store(at + TAGS, bucket.tags[0]);
                    region.store(at + TAGS + 8, bucket.tags[1]);
                }
                if sum != bucket.sum || tags != bucket.tags {
                    region.flush(at, 32);
                }
            }
        }
        Ok(())
    }

    /// True if a slot in use has another tag than its key.
    fn tags_differ(&self, bucket: &Bucket, tags: [u64; 2]) -> bool {
        let tag = |words: [u64; 2], slot: usize| (words[slot / 8] >> (8 * (slot % 8))) as u8;
        let mut used = (0..SLOTS).filter(|slot| bucket.commit.used() >> slot & 1 == 1);
        used.any(|slot| tag(tags, slot) != tag(bucket.tags, slot))
    }

    /// Sum and tags as the slots say; those of slots not in use stay.
    fn as_it_should_be(&self, at: u64) -> Bucket {
        let region = self.region();
        let commit = Commit(region.word(at));
        let mut sum = place_sum(self.space.store(), at);
        let mut tags = [region.word(at + TAGS), region.word(at + TAGS + 8)];
        let (mut hashes, mut keys) = ([0; SLOTS], [[0; 8]; SLOTS]);
        let mut words = [[0; 2]; SLOTS];
        for slot in (0..SLOTS).filter(|slot| commit.used() >> slot & 1 == 1) {
            words[slot] = self.slot_words(at, slot);
            sum ^= slot_sum(slot, commit.kind(slot), words[slot]);
            keys[slot] = words[slot][0].to_le_bytes();
        }
        let refs: [&[u8]; SLOTS] = std::array::from_fn(|slot| &keys[slot][..]);
        self.seed.low_many(&refs, &mut hashes);
        for slot in (0..SLOTS).filter(|slot| commit.used() >> slot & 1 == 1) {
            if commit.kind(slot) == Kind::Beside {
                hashes[slot] = words[slot][0];
            }
            tags[slot / 8] = with_tag(tags[slot / 8], slot, hashes[slot] as u8);
        }
        Bucket { commit, sum, tags, hashes }
    }

    /// The sum of a bucket as its slots and its commit word say.
    pub(super) fn computed_sum(&self, at: u64) -> u64 {
        self.as_it_should_be(at).sum
    }

    /// True if a search for the hash gets to bucket `number` of the shard.
    fn is_found(&self, shard: usize, buckets: Buckets, number: u64, hash: u64) -> bool {
        if self.division.shard(hash) != shard {
            return false;
        }
        let home = self.division.home(hash, buckets.count);
        let distance = buckets.distance(home, number);
        let mut before = home;
        distance < buckets.scope()
            && (0..distance).all(|_| {
                let commit = Commit(self.region().word(buckets.at(before)));
                before = buckets.after(before);
                !commit.is_path_end()
            })
    }

    /// The buckets before `number` say that the search for the hash goes on there: after an opening
    /// they are made to.
    fn check_passed(
        &self,
        buckets: Buckets,
        number: u64,
        hash: u64,
        derived: Derived,
    ) -> Result<()> {
        let home = self.division.home(hash, buckets.count);
        let distance = buckets.distance(home, number);
        if derived != Derived::Compared {
            self.mark_passed(buckets, hash, distance);
            return Ok(());
        }
        let mut before = home;
        for _ in 0..distance {
            if !self.passed.may_have(buckets.at(before), hash) {
                let why = "memory hides a key that lies beyond a bucket; open the store again";
                return Err(self.damaged(buckets.at(before), why));
            }
            before = buckets.after(before);
        }
        Ok(())
    }

    fn damaged(&self, at: u64, why: &str) -> Error {
        Error::corruption(self.space.name(), at, why)
    }

    /// Checks some shards that were not checked yet; bytes looked at.
    pub(super) fn check_some(&self, bytes_max: u64) -> Result<u64> {
        let mut bytes = 0;
        for shard in 0..self.shards.len() {
            if bytes >= bytes_max || self.unchecked.load(Ordering::Acquire) == 0 {
                break;
            }
            let word = self.shards[shard].load(Ordering::Relaxed);
            if word & UNCHECKED != 0 {
                drop(self.lock(shard)?);
                bytes += Buckets::of(word).bytes().max(8);
            }
        }
        Ok(bytes)
    }

    /// Where everything lies that the shards reach; all are locked and checked.
    pub(super) fn objects(&self) -> Vec<u64> {
        let mut objects = Vec::new();
        for shard in 0..self.shards.len() {
            let buckets = self.checked_buckets_locked(shard);
            objects.extend((buckets.count > 0).then_some(buckets.start));
            for number in 0..buckets.count {
                let at = buckets.at(number);
                let commit = Commit(self.region().word(at));
                let beside = (0..SLOTS).filter(|slot| commit.beside() >> slot & 1 == 1);
                objects.extend(beside.map(|slot| Pointer(self.slot_words(at, slot)[1]).offset()));
            }
        }
        objects
    }

    /// Checks everything in a shard: buckets, tags, sums, descriptor, tallies, entries.
    pub(super) fn verify_shard(&self, shard: usize) -> Result<()> {
        let tally = self.lock(shard)?;
        let buckets = self.checked_buckets_locked(shard);
        self.check_descriptor(shard, buckets)?;
        let (mut counted, mut reached) = (Tally::default(), Vec::new());
        for number in 0..buckets.count {
            let derived = Derived::Compared;
            self.check_bucket(shard, buckets, number, derived, &mut counted, &mut reached)?;
            self.verify_entries(buckets.at(number))?;
        }
        if counted != *tally {
            let why = format!("shard {shard} counts {tally:?}, its buckets have {counted:?}");
            return Err(self.damaged(buckets.start, &why));
        }
        Ok(())
    }

    /// The descriptor in the region names the buckets that memory names.
    fn check_descriptor(&self, shard: usize, buckets: Buckets) -> Result<()> {
        let at = self.table.load(Ordering::Relaxed) + shard as u64 * 8;
        if decode(self.space.store(), shard, self.region().load(at)) != Some(buckets) {
            return Err(self.damaged(at, "a shard's descriptor is damaged"));
        }
        if buckets.count > 0 && self.space.object_bytes(buckets.start)? < buckets.bytes() {
            return Err(self.damaged(at, "a shard's descriptor names more than there is"));
        }
        Ok(())
    }

    /// Reads the entries of a bucket that lie beside.
    fn verify_entries(&self, at: u64) -> Result<()> {
        let commit = Commit(self.region().word(at));
        let mut bytes = Vec::new();
        for slot in (0..SLOTS).filter(|slot| commit.beside() >> slot & 1 == 1) {
            let [hash, pointer] = self.slot_words(at, slot);
            let pointer = Pointer(pointer);
            self.space.object_bytes(pointer.offset())?;
            let loaded = self.reader().load(pointer, &mut bytes)?;
            if self.seed.low(&bytes[loaded.key.clone()]) != hash {
                return Err(self.damaged(at, "a slot has another hash than its entry"));
            }
            if pointer.expires() != (loaded.expires_unix_ms != 0) {
                return Err(self.damaged(at, "a slot and its entry differ in expiry"));
            }
        }
        Ok(())
    }
}
