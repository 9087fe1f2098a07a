//! A shard gets other buckets: more, fewer, or as many without deleted slots.
//!
//! The holder of the lock reads the old buckets in their order, makes the new ones in memory,
//! writes them to the region in one go, makes them durable, and then stores the descriptor. Readers
//! go on in the old buckets, which do not change any more.

use super::bucket::{BUCKET_BYTES, BUCKET_WORDS, Commit, FILLED_SLOTS, Kind, SLOTS, State};
use super::bucket::{place_sum, slot_sum, with_tag};
use super::entry::Pointer;
use super::passed;
use super::shards::{BUCKETS_MAX, Buckets, Division, encode, grown};
use super::store::{Tally, Turbo};
use crate::space::Space;
use silica_base::{Error, ErrorKind, Result};
use silica_device::region::Region;
use std::sync::atomic::Ordering;

/// A slot in use, and the hash of its key.
#[derive(Debug, Clone, Copy)]
struct Used {
    hash: u64,
    kind: Kind,
    words: [u64; 2],
}

/// New buckets, in memory.
struct Image {
    words: Vec<u64>,
    filled: Vec<u8>,
    /// Which keys have passed each bucket.
    passed: Vec<u16>,
}

impl Image {
    /// Puts all of `used` into `count` buckets; `None` if one of them has no room in its scope.
    fn build(division: Division, used: &[Used], count: u64) -> Option<Image> {
        let words = vec![0; count as usize * BUCKET_WORDS];
        let (filled, passed) = (vec![0; count as usize], vec![0; count as usize]);
        let mut image = Image { words, filled, passed };
        let buckets = Buckets { start: 0, count };
        for one in used {
            let mut number = division.home(one.hash, count);
            let mut left = buckets.scope();
            while image.filled[number as usize] >= FILLED_SLOTS as u8 {
                image.passed[number as usize] |= passed::bit_of(one.hash);
                number = buckets.after(number);
                left -= 1;
                if left == 0 {
                    return None;
                }
            }
            image.put(number as usize, one);
        }
        Some(image)
    }

    fn put(&mut self, number: usize, one: &Used) {
        let slot = usize::from(self.filled[number]);
        self.filled[number] += 1;
        let bucket = &mut self.words[number * BUCKET_WORDS..][..BUCKET_WORDS];
        bucket[0] = Commit(bucket[0]).with(slot, State::Used(one.kind)).0;
        bucket[1 + slot / 8] = with_tag(bucket[1 + slot / 8], slot, one.hash as u8);
        bucket[3] ^= slot_sum(slot, one.kind, one.words);
        bucket[4 + 2 * slot] = one.words[0];
        bucket[5 + 2 * slot] = one.words[1];
    }

    /// Writes the buckets from `start` on and flushes them.
    fn write(&mut self, region: &impl Region, store: u64, start: u64) {
        let mut bytes = Vec::with_capacity(self.words.len() * 8);
        for (number, bucket) in self.words.chunks_exact_mut(BUCKET_WORDS).enumerate() {
            bucket[3] ^= place_sum(store, start + number as u64 * BUCKET_BYTES);
            bucket[0] = Commit(bucket[0]).sealed(bucket[3]).0;
            bucket.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        }
        region.stream(start, &bytes);
    }
}

/// How many buckets a shard gets when it grows. Shards of a store fill up at the same time: from
/// eight buckets on they have different sizes, so that not all of them grow at once.
fn grown_apart(shard: usize, count: u64) -> u64 {
    match grown(count) {
        8.. if count < 8 => [8, 10, 12][shard % 3],
        larger => larger,
    }
}

/// Buckets that fit into what an allocation of at least `count` buckets gets.
fn fitting<R: Region>(count: u64) -> u64 {
    Space::<R>::fit(count * BUCKET_BYTES) / BUCKET_BYTES
}

impl<R: Region> Turbo<R> {
    /// Gives a shard half as many buckets more, or more than that if it needs them.
    ///
    /// # Errors
    /// `Full`: nothing has changed.
    pub(super) fn grow(&self, shard: usize, tally: &mut Tally) -> Result<()> {
        let count = self.buckets(shard).expect("checked by the lock").count;
        self.rebuild(shard, tally, grown_apart(shard, count))?;
        self.rebuilds.resizes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Gives a shard `count` buckets, or as many more as its entries need; none if it has no
    /// entries and is to have none. Entries that have expired are dropped.
    ///
    /// # Errors
    /// `Full`: nothing has changed.
    pub(super) fn rebuild(&self, shard: usize, tally: &mut Tally, count: u64) -> Result<()> {
        let began_ns = self.clock.monotonic_ns();
        let old = self.buckets(shard).expect("checked by the lock");
        let (used, mut retired) = self.gather(old)?;
        let new = match used.len() {
            0 if count == 0 => Buckets::default(),
            _ => self.write_image(&used, count.max(1))?,
        };
        self.fence()?;
        let stored = self.store_descriptor(shard, new);
        // Readers find the new buckets even if it is unknown whether that is durable.
        self.shards[shard].store(new.word(), Ordering::Release);
        *tally = Tally { used: used.len() as u32, deleted: 0 };
        stored?;
        if old.count > 0 {
            retired.push(old.start);
        }
        self.retire(&retired, old.bytes());
        let took_ns = self.clock.monotonic_ns().saturating_sub(began_ns);
        self.rebuilds.ns.fetch_add(took_ns, Ordering::Relaxed);
        self.rebuilds.ns_max.fetch_max(took_ns, Ordering::Relaxed);
        Ok(())
    }

    /// Writes buckets with these entries, not fenced.
    fn write_image(&self, used: &[Used], mut count: u64) -> Result<Buckets> {
        let (count, mut image) = loop {
            count = fitting::<R>(count);
            if count > BUCKETS_MAX {
                let message = "a shard has as many buckets as it can have: make a store with more \
                               shards and migrate to it";
                return Err(Error::new(ErrorKind::Full, message));
            }
            match Image::build(self.division, used, count) {
                Some(image) => break (count, image),
                None => count = grown(count),
            }
        };
        let start = self.allocate(count * BUCKET_BYTES)?;
        image.write(self.region(), self.space.store(), start);
        let buckets = Buckets { start, count };
        self.passed.set_all(buckets, |number| image.passed[number as usize]);
        Ok(buckets)
    }

    /// Makes a shard's descriptor durable.
    pub(super) fn store_descriptor(&self, shard: usize, buckets: Buckets) -> Result<()> {
        let at = self.table.load(Ordering::Relaxed) + shard as u64 * 8;
        self.region().store(at, encode(self.space.store(), shard, buckets));
        self.region().flush(at, 8);
        self.fence()
    }

    /// The entries of a shard that have not expired, in the order of buckets; where the others lie.
    fn gather(&self, buckets: Buckets) -> Result<(Vec<Used>, Vec<u64>)> {
        let (mut used, mut expired) = (Vec::new(), Vec::new());
        let mut now = None;
        for number in 0..buckets.count {
            let at = buckets.at(number);
            let commit = Commit(self.region().word(at));
            let first = used.len();
            for slot in (0..SLOTS).filter(|slot| commit.used() >> slot & 1 == 1) {
                let (kind, words) = (commit.kind(slot), self.slot_words(at, slot));
                let pointer = Pointer(words[1]);
                if kind == Kind::Beside && pointer.expires() {
                    let expires = self.reader().header(pointer)?.expires_unix_ms;
                    if self.has_expired(expires, &mut now) {
                        expired.push(pointer.offset());
                        continue;
                    }
                }
                used.push(Used { hash: words[0], kind, words });
            }
            self.hash_inline(&mut used[first..]);
        }
        self.counts.add(|counts| &counts.expired, expired.len() as u64);
        Ok((used, expired))
    }

    /// Replaces the key of an inline slot by its hash.
    fn hash_inline(&self, used: &mut [Used]) {
        let keys: [[u8; 8]; SLOTS] =
            std::array::from_fn(|n| used.get(n).map_or([0; 8], |one| one.words[0].to_le_bytes()));
        let refs: [&[u8]; SLOTS] = std::array::from_fn(|n| &keys[n][..]);
        let mut hashes = [0; SLOTS];
        self.seed.low_many(&refs[..used.len()], &mut hashes);
        for (one, hash) in used.iter_mut().zip(hashes) {
            if one.kind == Kind::Inline {
                one.hash = hash;
            }
        }
    }
}
