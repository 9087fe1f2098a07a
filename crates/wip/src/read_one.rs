//! A get of one key that memory answers, as most gets are: the way of `read.rs` without what that
//! needs to have several reads under way. Whatever it does not decide a burst of one key does.

use crate::bucket::{LatestEntries, Version};
use crate::contents::Contents;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{EntryRef, GetSink};
use silica_parts::frame::{POINTER, TOMBSTONE};
use silica_parts::table::Lookup;

/// What a get asks for.
struct Asked<'k> {
    key: &'k [u8],
    hash: u64,
    /// Versions from this position on are not seen.
    before: u64,
    /// Entries that expire by then are not there; the time is now if this is `None`.
    at_ms: Option<u64>,
    /// Versions below this position were deleted with a range.
    deleted: u64,
}

/// A version that was found, and where.
struct Found<'e> {
    entry: EntryRef<'e>,
    flags: u8,
    position: u64,
}

/// What was counted on the way.
#[derive(Default)]
struct Counts {
    hits: u64,
    cache_hits: u64,
    false_positives: u64,
}

impl Asked<'_> {
    /// Reports what was found, if that is there; false if its value lies apart.
    #[inline]
    fn report<D: Device>(
        &self,
        contents: &Contents<D>,
        found: &Found<'_>,
        sink: &mut dyn GetSink,
        counts: &mut Counts,
    ) -> bool {
        let expires = found.entry.expires_unix_ms;
        let now = || self.at_ms.unwrap_or_else(|| contents.clock.unix_ms());
        let is_deleted = found.position < self.deleted || found.flags & TOMBSTONE != 0;
        if is_deleted || expires != 0 && expires <= now() {
            return true;
        }
        if found.flags & POINTER != 0 {
            return false;
        }
        sink.found(0, found.entry);
        counts.hits += 1;
        true
    }

    /// Looks for the key in the runs; false if a block is not in the cache.
    #[inline]
    fn search<D: Device>(
        &self,
        contents: &Contents<D>,
        version: &Version<D>,
        sink: &mut dyn GetSink,
        counts: &mut Counts,
    ) -> Result<bool> {
        let (filters, mut from) = (&version.filters, 0);
        while let Some(at) = filters.next(&version.runs, from, (self.key, self.hash)) {
            let table = filters.table(at);
            let mut block = table.block_of(self.key);
            loop {
                let Some(bytes) = contents.tables.cache.get(table.id(block)) else {
                    return Ok(false);
                };
                counts.cache_hits += 1;
                match table.search(block, &bytes, self.key, self.before - 1)? {
                    Lookup::Found(version) => {
                        let entry = EntryRef {
                            value: version.value,
                            expires_unix_ms: version.expires_unix_ms,
                            user_bits: version.user_bits,
                        };
                        let (flags, position) = (version.flags, version.sequence);
                        let found = Found { entry, flags, position };
                        return Ok(self.report(contents, &found, sink, counts));
                    }
                    Lookup::Next => block += 1,
                    Lookup::Absent => break,
                }
            }
            counts.false_positives += 1;
            from = at + 1;
        }
        Ok(true)
    }
}

/// Reports to `sink` what `key` had before the position `before`, and had not expired at `at_ms`,
/// or now. False if that is not decided: then nothing was reported or counted.
pub(crate) fn read_one<D: Device>(
    contents: &Contents<D>,
    key: &[u8],
    (before, at_ms): (u64, Option<u64>),
    sink: &mut dyn GetSink,
) -> Result<bool> {
    let hash = contents.seed.low(key);
    let buckets = contents.buckets.load();
    let bucket = buckets.of(key);
    let stores = bucket.read();
    if stores.is_gone {
        return Ok(false);
    }
    stores.version.filters.prefetch(key, hash);
    let deleted = stores.deleted_at(key, before);
    let (asked, mut counts) = (Asked { key, hash, before, at_ms, deleted }, Counts::default());
    // Taken under the bucket's lock: no segment that its memtables point at is missing, but for
    // those that come with what others insert.
    let segments = contents.log.segments_now();
    let entries = LatestEntries::new(&segments);
    let found = stores.find(hash, key, before, &entries);
    if entries.has_missed() {
        return Ok(false);
    }
    let is_decided = match found {
        Some(found) => {
            drop(stores);
            let (frame, position) = (found.entry, found.position);
            let entry = EntryRef {
                value: frame.value,
                expires_unix_ms: frame.expires_unix_ms,
                user_bits: frame.user_bits,
            };
            let found = Found { entry, flags: frame.flags, position };
            asked.report(contents, &found, sink, &mut counts)
        }
        None => {
            let version = stores.version_now();
            drop(stores);
            let is_decided = asked.search(contents, &version, sink, &mut counts)?;
            if is_decided {
                bucket.count_read();
            }
            is_decided
        }
    };
    if is_decided {
        let calls = contents.metrics.calls.mine();
        calls.add(|c| &c.gets, 1);
        calls.add(|c| &c.hits, counts.hits);
        if counts.cache_hits > 0 {
            calls.add(|c| &c.false_positives, counts.false_positives);
            contents.tables.cache.count(counts.cache_hits, 0);
        }
    }
    Ok(is_decided)
}
