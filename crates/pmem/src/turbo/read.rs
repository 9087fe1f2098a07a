//! Bursts of gets, in stages: shard and bucket, slot, entry. Up to 32 keys go through a stage
//! before the next one begins, so that their cache misses overlap.

use super::bucket::{Commit, TAGS, match_tags, slot_at};
use super::entry::{Loaded, Pointer};
use super::protocol::{Words, is_unchanged};
use super::shards::Buckets;
use super::store::{Hit, Probe, Turbo};
use silica_base::Result;
use silica_device::region::Region;
use silica_engine::{EntryRef, GetSink};

/// Keys of a burst that are in flight together.
const IN_FLIGHT: usize = 32;

impl<R: Region> Turbo<R> {
    /// Looks all `keys` up.
    pub(super) fn read_burst(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        let _pinned = crossbeam_epoch::pin();
        let mut scratch = Scratch::default();
        let mut hits = 0;
        for (number, group) in keys.chunks(IN_FLIGHT).enumerate() {
            hits += self.read_group(group, number * IN_FLIGHT, sink, &mut scratch)?;
        }
        let mine = self.counts.mine();
        mine.add(|counts| &counts.gets, keys.len() as u64);
        mine.add(|counts| &counts.hits, hits);
        Ok(())
    }

    /// Looks up a group of keys, of which the first is number `first` of the burst; how many there
    /// are.
    #[inline]
    fn read_group(
        &self,
        keys: &[&[u8]],
        first: usize,
        sink: &mut dyn GetSink,
        scratch: &mut Scratch,
    ) -> Result<u64> {
        let mut hashes = [0; IN_FLIGHT];
        self.seed.low_many(keys, &mut hashes);
        let mut all = [Buckets::default(); IN_FLIGHT];
        for (buckets, hash) in all.iter_mut().zip(&hashes[..keys.len()]) {
            *buckets = self.checked_buckets(self.division.shard(*hash))?;
            if keys.len() > 1 {
                self.region().prefetch(self.home_in(*buckets, *hash));
            }
        }
        let mut missing = 0_u32;
        if keys.len() > 1 {
            for (place, (key, hash)) in keys.iter().zip(hashes).enumerate() {
                let buckets = all[place];
                let is_missing =
                    buckets.count == 0 || self.look_first(buckets, &Probe::new(key, hash));
                missing |= u32::from(is_missing) << place;
            }
        }
        let mut found = [None; IN_FLIGHT];
        for (place, key) in keys.iter().enumerate() {
            if missing >> place & 1 == 1 {
                continue;
            }
            let probe = Probe::new(key, hashes[place]);
            // Whatever lies beside is looked at in the next stage.
            let hit = self.search(all[place], &probe, &mut |_| Ok(true))?;
            if let Some(Hit::Beside(pointer)) = hit {
                self.region().prefetch(pointer.offset());
            }
            found[place] = hit;
        }
        let mut hits = 0;
        for (place, hit) in found[..keys.len()].iter().enumerate() {
            let is_there = match hit {
                None => false,
                Some(Hit::Inline(value)) => {
                    sink.found(first + place, EntryRef::new(&value.to_le_bytes()));
                    true
                }
                Some(Hit::Beside(pointer)) => {
                    let probe = Probe::new(keys[place], hashes[place]);
                    self.report(first + place, &probe, all[place], *pointer, sink, scratch)?
                }
            };
            hits += u64::from(is_there);
        }
        Ok(hits)
    }

    /// Reports an entry beside whose hash is the key's; false if it is not there.
    #[inline(never)]
    fn report(
        &self,
        index: usize,
        probe: &Probe<'_>,
        buckets: Buckets,
        pointer: Pointer,
        sink: &mut dyn GetSink,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        if let Some(header) = self.reader().large(pointer)?
            && self.reader().has_key(pointer, probe.key)?
            && !self.has_expired(header.expires_unix_ms, &mut scratch.now_ms)
            && !sink.wants(index, header.value_bytes)
        {
            return Ok(true);
        }
        let loaded = match self.load_if(pointer, probe.key, &mut scratch.bytes)? {
            Some(loaded) => Some(loaded),
            None => self.load_searched(buckets, probe, scratch)?,
        };
        let Some(loaded) = loaded else { return Ok(false) };
        if self.has_expired(loaded.expires_unix_ms, &mut scratch.now_ms) {
            return Ok(false);
        }
        if sink.wants(index, loaded.value.len()) {
            sink.found(index, loaded.entry(&scratch.bytes));
        }
        Ok(true)
    }

    /// Searches for a key whose hash another key has, too.
    #[cold]
    fn load_searched(
        &self,
        buckets: Buckets,
        probe: &Probe<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<Loaded>> {
        let mut loaded = None;
        self.search(buckets, probe, &mut |pointer| {
            loaded = self.load_if(pointer, probe.key, &mut scratch.bytes)?;
            Ok(loaded.is_some())
        })?;
        Ok(loaded)
    }

    /// Calls `see` with the entry of a key, unless it has expired. The caller holds the shard's
    /// lock.
    pub(super) fn current<T>(
        &self,
        key: &[u8],
        hash: u64,
        scratch: &mut Scratch,
        see: impl FnOnce(Option<EntryRef<'_>>) -> T,
    ) -> Result<T> {
        let probe = Probe::new(key, hash);
        let buckets = self.checked_buckets_locked(self.division.shard(hash));
        let mut loaded = None;
        let hit = self.search(buckets, &probe, &mut |pointer| {
            loaded = self.load_if(pointer, key, &mut scratch.bytes)?;
            Ok(loaded.is_some())
        })?;
        Ok(match (hit, loaded) {
            (Some(Hit::Inline(value)), _) => see(Some(EntryRef::new(&value.to_le_bytes()))),
            (_, Some(loaded)) => {
                scratch.note(loaded.expires_unix_ms);
                match self.has_expired(loaded.expires_unix_ms, &mut scratch.now_ms) {
                    true => see(None),
                    false => see(Some(loaded.entry(&scratch.bytes))),
                }
            }
            _ => see(None),
        })
    }

    /// The buckets of a shard whose lock the caller holds.
    pub(super) fn checked_buckets_locked(&self, shard: usize) -> Buckets {
        self.buckets(shard).expect("checked by the lock")
    }

    /// The first bucket of a key, if its shard is checked and has some.
    #[inline]
    pub(super) fn home_of(&self, hash: u64) -> Option<(u64, Buckets)> {
        let buckets = self.buckets(self.division.shard(hash)).filter(|b| b.count > 0)?;
        Some((self.home_in(buckets, hash), buckets))
    }

    #[inline(always)]
    fn home_in(&self, buckets: Buckets, hash: u64) -> u64 {
        buckets.at(self.division.home(hash, buckets.count))
    }

    /// Asks for the slot that has the key's tag, or for the next bucket if the search goes on. The
    /// home bucket, its commit word, and true if that bucket says that the key is not there.
    #[inline(always)]
    fn prefetch_found(&self, buckets: Buckets, probe: &Probe<'_>) -> (u64, Commit, bool) {
        let home = self.division.home(probe.hash, buckets.count);
        let at = buckets.at(home);
        let (commit, candidates) = self.candidates(at, probe);
        if candidates != 0 {
            self.region().prefetch(at + slot_at(candidates.trailing_zeros() as usize));
            return (at, commit, false);
        }
        let is_end = commit.is_path_end() || !self.passed.may_have(at, probe.hash);
        if !is_end {
            self.region().prefetch(buckets.at(buckets.after(home)));
        }
        (at, commit, is_end)
    }

    /// As [`Turbo::prefetch_found`]; true if the home bucket alone says that the key is not there,
    /// as it does of most keys that are not: the search need not be made.
    #[inline(always)]
    fn look_first(&self, buckets: Buckets, probe: &Probe<'_>) -> bool {
        let seen = self.words().load(buckets.at(self.division.home(probe.hash, buckets.count)));
        let (at, _, is_missing) = self.prefetch_found(buckets, probe);
        // What was looked at lies between two loads of one commit word: see the protocol.
        is_missing && is_unchanged(&self.words(), at, seen)
    }

    /// Asks also for the slot that an update would take.
    #[inline]
    pub(super) fn prefetch_slots(&self, buckets: Buckets, probe: &Probe<'_>) {
        let (at, commit, _) = self.prefetch_found(buckets, probe);
        let empty = commit.empty();
        if empty != 0 {
            self.region().prefetch(at + slot_at(empty.trailing_zeros() as usize));
        }
    }

    #[inline(always)]
    fn candidates(&self, at: u64, probe: &Probe<'_>) -> (Commit, u64) {
        let region = self.region();
        let commit = Commit(region.word(at));
        let tags = [region.word(at + TAGS), region.word(at + TAGS + 8)];
        (commit, match_tags(tags, probe.tag()) & commit.used())
    }
}

/// What a burst reads into, its time, and when the first entry expires that it has met.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) bytes: Vec<u8>,
    pub(super) now_ms: Option<u64>,
    pub(super) expires_unix_ms: u64,
}

impl Scratch {
    fn note(&mut self, expires_unix_ms: u64) {
        let is_first = self.expires_unix_ms == 0 || expires_unix_ms < self.expires_unix_ms;
        if expires_unix_ms != 0 && is_first {
            self.expires_unix_ms = expires_unix_ms;
        }
    }
}
