//! Iteration in the order of hashes.
//!
//! A cursor is the upper 63 bits of a hash: it stays valid when a shard gets other buckets, and
//! over restarts. The entries of a home bucket lie in it and in the buckets behind it, so a scan
//! goes from home to home and looks at each one's path. Within a call, a shard is scanned in the
//! buckets that it had when the scan came to it.

use super::bucket::{Commit, Kind, SLOTS};
use super::entry::{Loaded, Pointer};
use super::protocol::is_unchanged;
use super::shards::Buckets;
use super::store::Turbo;
use silica_base::Result;
use silica_device::region::Region;
use silica_engine::{EntryRef, Scan};

/// An entry that was met.
struct Met {
    hash: u64,
    what: What,
}

enum What {
    Inline([u64; 2]),
    Beside(Pointer),
}

/// One call of a scan.
struct Call<'v> {
    limit: usize,
    visited: usize,
    visit: &'v mut dyn FnMut(&[u8], EntryRef<'_>),
    bytes: Vec<u8>,
    now_ms: Option<u64>,
}

impl<R: Region> Turbo<R> {
    /// Scans a shard from a hash on; where to go on in it.
    fn scan_shard(&self, shard: usize, from: u64, call: &mut Call<'_>) -> Result<Option<u64>> {
        let _pinned = crossbeam_epoch::pin();
        let buckets = self.checked_buckets(shard)?;
        if buckets.count == 0 {
            return Ok(None);
        }
        let mut met = Vec::new();
        let first = self.division.home(from, buckets.count);
        for home in first..buckets.count {
            if call.visited >= call.limit {
                return Ok(self.division.first_hash(shard, home, buckets.count));
            }
            met.clear();
            self.meet(buckets, home, &mut met)?;
            met.retain(|one| one.hash >= from);
            met.sort_unstable_by_key(|one| one.hash);
            if let Some(next) = self.visit_met(&met, call)? {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// Visits entries until there are enough; the hash of the next one.
    fn visit_met(&self, met: &[Met], call: &mut Call<'_>) -> Result<Option<u64>> {
        let mut last = None;
        for one in met {
            let position = one.hash >> 1;
            if call.visited >= call.limit && last != Some(position) {
                return Ok(Some(one.hash));
            }
            last = Some(position);
            match &one.what {
                What::Inline([key, value]) => {
                    call.visited += 1;
                    (call.visit)(&key.to_le_bytes(), EntryRef::new(&value.to_le_bytes()));
                }
                What::Beside(pointer) => {
                    let loaded = self.reader().load(*pointer, &mut call.bytes)?;
                    if !self.has_expired(loaded.expires_unix_ms, &mut call.now_ms) {
                        call.visited += 1;
                        let Loaded { key, .. } = loaded.clone();
                        (call.visit)(&call.bytes[key], loaded.entry(&call.bytes));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Collects the entries whose home is bucket `home`.
    fn meet(&self, buckets: Buckets, home: u64, met: &mut Vec<Met>) -> Result<()> {
        let mut number = home;
        for _ in 0..buckets.scope() {
            let before = met.len();
            let at = buckets.at(number);
            let commit = loop {
                met.truncate(before);
                let seen = self.region().load(at);
                let commit = Commit(seen);
                for slot in (0..SLOTS).filter(|slot| commit.used() >> slot & 1 == 1) {
                    let words = self.slot_words(at, slot);
                    met.push(match commit.kind(slot) {
                        Kind::Inline => Met {
                            hash: self.seed.low(&words[0].to_le_bytes()),
                            what: What::Inline(words),
                        },
                        Kind::Beside => {
                            Met { hash: words[0], what: What::Beside(Pointer(words[1])) }
                        }
                    });
                }
                if is_unchanged(&self.words(), at, seen) {
                    break commit;
                }
            };
            let mut place = before;
            while place < met.len() {
                if self.division.home(met[place].hash, buckets.count) == home {
                    place += 1;
                } else {
                    met.swap_remove(place);
                }
            }
            if commit.is_path_end() {
                break;
            }
            number = buckets.after(number);
        }
        Ok(())
    }
}

impl<R: Region> Scan for Turbo<R> {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        let limit = limit.max(1);
        let mut call = Call { limit, visited: 0, visit, bytes: Vec::new(), now_ms: None };
        let mut from = cursor << 1;
        loop {
            let shard = self.division.shard(from);
            if let Some(next) = self.scan_shard(shard, from, &mut call)? {
                return Ok(Some(next >> 1));
            }
            if shard + 1 == self.shards.len() {
                return Ok(None);
            }
            from = ((shard + 1) as u64) << (64 - self.division.bits);
            if call.visited >= limit {
                return Ok(Some(from >> 1));
            }
        }
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        self.seed.low(key) >> 1
    }
}
