//! The view of stores whose keys are in order: snapshots, ranges, transactions.

use crate::transaction::CommitTurns;
use crate::{
    Durability, EntryBurst, EntryRef, GetSink, Intent, IterateOptions, OpKind, Staging, WriteBatch,
};
use silica_base::{Error, ErrorKind, Result};
use std::ops::Bound;
use std::sync::Arc;

/// A range of keys, in the order of their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it begins.
    pub lower: Bound<Vec<u8>>,
    /// Where it ends.
    pub upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub const ALL: KeyRange = KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded };

    /// The keys from `lower` on and before `upper`.
    pub fn new(lower: impl Into<Vec<u8>>, upper: impl Into<Vec<u8>>) -> Self {
        KeyRange { lower: Bound::Included(lower.into()), upper: Bound::Excluded(upper.into()) }
    }

    /// The keys from `lower` on.
    pub fn from(lower: impl Into<Vec<u8>>) -> Self {
        KeyRange { lower: Bound::Included(lower.into()), upper: Bound::Unbounded }
    }

    /// The keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let upper = after_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        KeyRange { lower: Bound::Included(prefix.to_vec()), upper }
    }

    /// The range as "from this key on" and "before this key"; `None` stands for the end of all
    /// keys.
    pub fn half_open(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let after = |key: &Vec<u8>| [key, &[0][..]].concat();
        let lower = match &self.lower {
            Bound::Included(key) => key.clone(),
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => Vec::new(),
        };
        let upper = match &self.upper {
            Bound::Included(key) => Some(after(key)),
            Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        (lower, upper)
    }

    /// True where `key` is in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        !self.is_below(key) && !self.is_above(key)
    }

    /// True where `key` comes before the range.
    pub fn is_below(&self, key: &[u8]) -> bool {
        match &self.lower {
            Bound::Included(lower) => *key < **lower,
            Bound::Excluded(lower) => *key <= **lower,
            Bound::Unbounded => false,
        }
    }

    /// True where `key` comes after the range.
    pub fn is_above(&self, key: &[u8]) -> bool {
        match &self.upper {
            Bound::Included(upper) => *key > **upper,
            Bound::Excluded(upper) => *key >= **upper,
            Bound::Unbounded => false,
        }
    }
}

/// The first key after all that begin with `prefix`; `None` where there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

/// How much is in a range, as far as it is known without a read of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RangeSize {
    /// Entries; versions that are overwritten or deleted but still there count, too.
    pub entries: u64,
    /// Bytes on the device and in the log.
    pub bytes: u64,
}

/// A place near a random entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Near {
    /// The key to begin at, which may be missing.
    pub key: Vec<u8>,
    /// How many entries from there on are meant; at least one.
    pub among: u64,
}

/// What the names begin with of files that are put into an engine's directory to be ingested. Any
/// that are left there belong to an ingest that did not come to its end.
pub const INGESTED: &str = "INGEST-";

/// A sorted file that is to be ingested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortedFile {
    /// Its name on the engine's device, which begins with [`INGESTED`].
    pub name: String,
    /// What the user calls it.
    pub shown: String,
}

/// What an ingest came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ingested {
    /// Files that were read.
    pub files: u64,
    /// Entries in them, deleted keys included.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// What a transaction read, and must find as it was.
#[derive(Debug, Clone, Copy)]
pub struct Reads<'r> {
    /// Nobody wrote these keys.
    pub keys: &'r [&'r [u8]],
    /// Nobody wrote, deleted or added a key in these ranges. An entry that expired in one is no
    /// write.
    pub ranges: &'r [KeyRange],
    /// When the first of their entries that were read expires, in milliseconds since the Unix
    /// epoch; 0 if none does.
    pub expires_unix_ms: u64,
}

impl<'r> Reads<'r> {
    /// Keys whose entries do not expire, or were not read.
    pub fn of(keys: &'r [&'r [u8]]) -> Self {
        Reads { keys, ranges: &[], expires_unix_ms: 0 }
    }
}

/// Snapshots, ranges and transactions of an engine that keeps its keys in order.
pub trait Ordered: Send + Sync {
    /// The store as it is now. It stays so for whoever holds it, and what it needs stays stored:
    /// what has not expired now is there for as long as the snapshot is held.
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>>;

    /// Removes all keys of `range` in one step.
    fn delete_range(&self, range: &KeyRange, durability: Durability) -> Result<()>;

    /// Applies `batch` if nothing of `reads` was written since `snapshot`, a snapshot of this
    /// engine, was taken, and nothing of it has expired; false, and nothing happens, if something
    /// was or has. Both are one step. May also say false if it is not known. After an error, too,
    /// nothing has happened, as after one of [`crate::Engine::write`]. If the batch is over
    /// [`crate::Limits::batch_bytes_max`], the engine may have another way for it, which makes it
    /// durable whatever was asked for.
    ///
    /// [`crate::transaction::Transaction`] stands on it, and asks [`Ordered::commit_turns`] first:
    /// this call by itself waits for no exclusive transaction.
    fn commit(
        &self,
        snapshot: &dyn Snapshot,
        reads: Reads<'_>,
        batch: &WriteBatch<'_>,
        durability: Durability,
    ) -> Result<bool>;

    /// Whose turn it is to commit: one for the store, so that an exclusive transaction keeps all
    /// others from committing.
    fn commit_turns(&self) -> &Arc<CommitTurns>;

    /// A place to put writes of a transaction aside that do not fit into its memory; `None` if the
    /// engine has none.
    fn staging(self: Arc<Self>) -> Option<Box<dyn Staging>> {
        None
    }

    /// As [`crate::Engine::sync`], for commits that returned before the call.
    fn sync_commits(&self) -> Result<()>;

    /// How much is in `range`.
    fn range_size(&self, range: &KeyRange) -> RangeSize;

    /// A place from which a random entry is near, for a `random` number: of the [`Near::among`]
    /// entries from [`Near::key`] on any may be taken, and then each entry of the store is about as
    /// likely as another. `None` if the engine cannot tell, or has nothing.
    fn near(&self, _random: u64) -> Option<Near> {
        None
    }

    /// Rewrites what is in `range` so that only what is live takes space, and returns that space.
    fn compact_range(&self, range: &KeyRange) -> Result<()>;

    /// Puts the entries of sorted files into the store, durably and in one step: newer than all
    /// that is there, and after a crash all of them or none. The files are copied, and stay as they
    /// are. Whatever is wrong with one of them, nothing changes. `progress` is told of bytes done
    /// and of all of them.
    fn ingest(
        &self,
        _files: &[SortedFile],
        _progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Ingested> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "the engine takes no sorted files; use `silica load`",
        ))
    }
}

/// For each delete of a range in `batch`, the keys that it removes of `snapshot` and of the
/// operations before it: what [`WriteBatch::without_ranges`] takes. Costs a walk through the
/// ranges, and the memory of their keys.
pub fn keys_of_ranges(
    snapshot: &Arc<dyn Snapshot>,
    batch: &WriteBatch<'_>,
) -> Result<Vec<Vec<Vec<u8>>>> {
    let mut doomed = Vec::new();
    for (at, op) in batch.ops().iter().enumerate() {
        let OpKind::DeleteRange(upper) = op.kind else { continue };
        let upper = upper.map_or(Bound::Unbounded, |upper| Bound::Excluded(upper.to_vec()));
        let range = KeyRange { lower: Bound::Included(op.key.to_vec()), upper };
        let earlier = batch.ops()[..at].iter().filter(|op| matches!(op.kind, OpKind::Put(_)));
        let earlier = earlier.map(|op| op.key).filter(|key| range.contains(key));
        let mut keys: Vec<Vec<u8>> = earlier.map(<[u8]>::to_vec).collect();
        let mut iter = Arc::clone(snapshot).iterate(&range)?;
        let mut is_there = iter.seek_to_first()?;
        while is_there {
            keys.push(iter.key().to_vec());
            is_there = iter.next()?;
        }
        doomed.push(keys);
    }
    Ok(doomed)
}

/// A store as it was at one moment.
pub trait Snapshot: Send + Sync {
    /// Later snapshots of one engine have no lower number.
    fn sequence(&self) -> u64;

    /// The time of that moment, in milliseconds since the Unix epoch: entries that had expired then
    /// are not there, and all others are, whatever the time is now.
    fn unix_ms(&self) -> u64;

    /// As [`crate::Engine::get_many`], at that moment.
    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()>;

    /// As [`crate::Engine::get_many_with`], at that moment.
    fn get_many_with(&self, keys: &[&[u8]], _intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        self.get_many(keys, sink)
    }

    /// Goes through the entries in `range`. Starts unpositioned.
    fn iterate(self: Arc<Self>, range: &KeyRange) -> Result<Box<dyn EntryIter>>;

    /// As [`Snapshot::iterate`], as the options say.
    fn iterate_with(
        self: Arc<Self>,
        range: &KeyRange,
        _options: IterateOptions,
    ) -> Result<Box<dyn EntryIter>> {
        self.iterate(range)
    }

    /// The number of entries in `range`, exactly. Unless an engine knows better, it walks through
    /// their keys, as a [`Intent::Scan`].
    fn count(self: Arc<Self>, range: &KeyRange) -> Result<u64> {
        let options = IterateOptions { is_of_keys: true, intent: Intent::Scan };
        let mut iter = self.iterate_with(range, options)?;
        if !iter.seek_to_first()? {
            return Ok(0);
        }
        let (mut count, mut burst, mut is_there) = (1, EntryBurst::default(), true);
        while is_there {
            burst.begin_keys(COUNTED_ENTRIES_MAX, COUNTED_BYTES_MAX);
            is_there = iter.next_many(&mut burst)?;
            count += burst.len() as u64;
        }
        Ok(count)
    }
}

/// Entries that a count goes through at once, and bytes of their keys.
const COUNTED_ENTRIES_MAX: usize = 256;
const COUNTED_BYTES_MAX: usize = 16 << 10;

/// A place among the entries of a snapshot's range, in the order of their keys. After a call that
/// returned true it is at an entry; after one that returned false or failed it is nowhere, and only
/// a seek brings it back.
///
/// It may be aimed again as often as one likes, in any order of seeks and steps and in both
/// directions: that costs what the search costs, not what making an iterator costs.
pub trait EntryIter: Send {
    /// To the first entry.
    fn seek_to_first(&mut self) -> Result<bool>;
    /// To the last entry.
    fn seek_to_last(&mut self) -> Result<bool>;
    /// To the first entry at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;
    /// To the last entry at or before `key`.
    fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool>;
    /// To the entry after this one.
    fn next(&mut self) -> Result<bool>;

    /// Steps on as [`EntryIter::next`] does and copies each entry that it comes to into `burst`,
    /// until that is full. True if it is at the entry that it has copied last, false if there is no
    /// further one. What was copied before an error stays in the burst.
    fn next_many(&mut self, burst: &mut EntryBurst) -> Result<bool> {
        while !burst.is_full() {
            if !self.next()? {
                return Ok(false);
            }
            burst.push(self.key(), self.entry().value);
        }
        Ok(true)
    }

    /// To the entry before this one.
    fn prev(&mut self) -> Result<bool>;

    /// Steps back as [`EntryIter::prev`] does and copies each entry that it comes to into `burst`,
    /// until that is full; the rest is as of [`EntryIter::next_many`].
    fn prev_many(&mut self, burst: &mut EntryBurst) -> Result<bool> {
        while !burst.is_full() {
            if !self.prev()? {
                return Ok(false);
            }
            burst.push(self.key(), self.entry().value);
        }
        Ok(true)
    }

    /// The key here.
    ///
    /// # Panics
    /// May panic where it is nowhere, as [`EntryIter::entry`] may.
    fn key(&self) -> &[u8];
    /// The entry here.
    fn entry(&self) -> EntryRef<'_>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_bounds() {
        let all = KeyRange::prefix(b"");
        assert!(all.contains(b"") && all.contains(&[255; 9]));
        let ab = KeyRange::prefix(b"ab");
        assert!(ab.contains(b"ab") && ab.contains(b"ab\xff\xff"));
        assert!(ab.is_below(b"aa\xff") && ab.is_above(b"ac"));
        let high = KeyRange::prefix(b"a\xff");
        assert!(high.contains(b"a\xff\xff") && high.is_above(b"b") && high.is_below(b"a"));
        assert!(KeyRange::prefix(b"\xff").contains(b"\xff\xff"));
        let half_open = KeyRange::new(*b"b", *b"d");
        assert!(half_open.contains(b"b") && half_open.contains(b"c") && half_open.is_above(b"d"));
        let excluded =
            KeyRange { lower: Bound::Excluded(b"b".to_vec()), upper: Bound::Included(b"d".into()) };
        assert!(excluded.is_below(b"b") && excluded.contains(b"d"));
    }
}
