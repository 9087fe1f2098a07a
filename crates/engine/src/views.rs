//! Capability views.

use crate::{Durability, EntryRef, GetSink, Op, OpKind, WriteBatch};
use silica_base::{HashSeed, Result};

/// Iteration over all entries in the engine's own order.
pub trait Scan: Send + Sync {
    /// Visits entries from `cursor` on (0 is the start) until about `limit` were visited, and
    /// returns the cursor to go on with, or `None` at the end.
    ///
    /// A key that is there from the first call of a whole iteration to its last is visited at
    /// least once (twice only where it was rewritten or shares a cursor position with another);
    /// keys that come or go meanwhile may be visited or not. A cursor stays valid for ever,
    /// restarts included, and is below 2^63: clients keep it in signed numbers. More than `limit`
    /// entries are visited only where they share one cursor position.
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>>;
    /// The greatest cursor from which on `key` is visited, if it is there.
    fn cursor_of(&self, key: &[u8]) -> u64;
}

/// What an atomic update does to its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// Leaves it as it is.
    Keep,
    /// Stores this value and meta.
    Put {
        /// The new value.
        value: Vec<u8>,
        /// Expiry in milliseconds since the Unix epoch; 0 means never.
        expires_unix_ms: u64,
        /// The user's 32 bits.
        user_bits: u32,
    },
    /// Removes the key.
    Delete,
}

impl Update {
    /// Stores `value` without meta.
    pub fn put(value: Vec<u8>) -> Self {
        Update::Put { value, expires_unix_ms: 0, user_bits: 0 }
    }

    /// The update that does what `op` does, of which it copies the value.
    fn of(op: &Op<'_>) -> Self {
        match op.kind {
            OpKind::Put(EntryRef { value, expires_unix_ms, user_bits }) => {
                Update::Put { value: value.to_vec(), expires_unix_ms, user_bits }
            }
            OpKind::Delete => Update::Delete,
            OpKind::DeleteRange(_) => unreachable!("an update of keys deletes no range"),
        }
    }

    /// What it writes, if anything.
    pub fn kind(&self) -> Option<OpKind<'_>> {
        match self {
            Update::Keep => None,
            Update::Delete => Some(OpKind::Delete),
            Update::Put { value, expires_unix_ms, user_bits } => Some(OpKind::Put(EntryRef {
                value,
                expires_unix_ms: *expires_unix_ms,
                user_bits: *user_bits,
            })),
        }
    }
}

/// Atomic read-modify-write.
pub trait Atomic: Send + Sync {
    /// Calls `decide` with the current entry and applies what it returns, as one step with
    /// respect to every other write. `decide` may be called several times; only the last call
    /// counts.
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()>;

    /// Updates as many of `keys` as suit, from the first on, and returns how many: at least one
    /// where there is one. They happen in their order and as one step; one that comes later sees
    /// what an earlier one of the same key has left. The caller goes on with the others. Where it
    /// fails, none has happened.
    ///
    /// `decide` gets the key's place in `keys` and its entry. It may be called several times for
    /// a key, and for keys that are not updated now; only the last call counts.
    fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let Some(key) = keys.first() else { return Ok(0) };
        self.update(key, durability, &mut |current| decide(0, current))?;
        Ok(1)
    }

    /// Calls `decide` with the current entries of all `keys` and applies the updates that it
    /// returns, one for each key, as one step: all of them or none, after a crash too. Where a
    /// key comes twice, the later update wins. `decide` may be called several times; only the
    /// last call counts.
    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()>;

    /// Applies `ops` as one step if every key of `expected` has the entry that is named there;
    /// false, and nothing has happened, if one has another. Limits and errors are those of
    /// [`Atomic::update_all`].
    ///
    /// Engines that override it copy nothing of what they compare and write.
    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<bool> {
        self.update_expecting(expected, ops, durability, &mut || {})
    }

    /// As [`Atomic::write_expecting`], by [`Atomic::update_all`]: `is_due` is called when all that
    /// is expected was found, before `ops` take effect.
    fn update_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
        is_due: &mut dyn FnMut(),
    ) -> Result<bool> {
        // What is written comes first: an engine that publishes in order does so in this one.
        let mut keys: Vec<&[u8]> = ops.iter().map(|op| op.key).collect();
        keys.extend(expected.iter().map(|expected| expected.key));
        let mut holds = false;
        self.update_all(&keys, durability, &mut |entries| {
            let found = &entries[ops.len()..];
            holds = expected.iter().zip(found).all(|(expected, entry)| expected.entry == *entry);
            if holds {
                is_due();
            }
            let written = ops.iter().map(|op| if holds { Update::of(op) } else { Update::Keep });
            written.chain(expected.iter().map(|_| Update::Keep)).collect()
        })?;
        Ok(holds)
    }

    /// A number if a reader that has seen what one operation of a batch did finds, in reads that
    /// begin later, what the operations before it in the batch did; [`Atomic::update_all`] writes
    /// in the order of its keys. So whoever writes what an entry refers to before that entry, in
    /// one batch, lets readers find it.
    ///
    /// The number changes when another engine takes the place of the one that was read, which may
    /// publish otherwise. Who reads several entries asks before the first and after the last of
    /// them, and relies on the order only if the number is the same.
    ///
    /// The operations may still become visible one by one. Who has read several entries knows that
    /// they belong together if the entry that the batches write last is the same after a call of
    /// [`Atomic::settle`] as it was before the others were read:
    ///
    /// ```text
    /// writer:  ── put page ─────────────────── put entry ──
    /// reader:  read entry ── read page ── settle ────────── read entry: it differs
    /// ```
    fn order_epoch(&self) -> Option<u64> {
        None
    }

    /// Waits until each batch of which a reader may have seen a part is visible as a whole. Batches
    /// that begin during the call are not waited for. Engines whose batches become visible at once
    /// do nothing.
    ///
    /// Costs some loads from memory if nobody writes.
    fn settle(&self) {}
}

/// What a key has to hold for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its entry; `None` if there is none.
    pub entry: Option<EntryRef<'a>>,
}

/// Number of entries, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// There are at least this many.
    pub low: u64,
    /// The best guess.
    pub estimate: u64,
    /// There are at most this many.
    pub high: u64,
}

/// Receives the files of a checkpoint.
pub trait Checkpoint {
    /// The file `name` is immutable and may be hard-linked or copied as it is.
    fn immutable(&mut self, name: &str) -> Result<()>;
    /// The file `name` of the checkpoint consists of these bytes. May be called repeatedly for
    /// the same name; the pieces follow one another.
    fn piece(&mut self, name: &str, bytes: &[u8]) -> Result<()>;
}

/// Operations on the whole store.
pub trait Admin: Send + Sync {
    /// Number of entries; `exact` walks the store where that is needed to know.
    fn count(&self, exact: bool) -> Result<Count>;
    /// Number of entries as far as it is known at once, however many they are: nothing is walked
    /// through.
    fn estimate(&self) -> Result<Count> {
        self.count(false)
    }
    /// Removes every entry, durably and atomically.
    fn clear(&self) -> Result<()>;
    /// Hands every file of a consistent, self-contained checkpoint to `target` while reads and
    /// writes go on. Everything acknowledged before the call is in it.
    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()>;
    /// Changes the memory number of the open engine (its option `memory_bytes`); later `maintain`
    /// calls bring it there. An engine whose memory is fixed does nothing.
    fn set_memory_bytes(&self, _bytes: u64) {}
    /// Before the engine is dropped for good: leaves what it can for its next opening. Where it
    /// has something to leave, writes are refused from then on; after an error they go on where
    /// that does no harm. `progress` is told of bytes done and of all of them.
    fn close(&self, _progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        Ok(())
    }
    /// An engine in memory that leaves an image at its close ([`Admin::close`]) leaves one now,
    /// while writes wait, and goes on; after a crash the keyspace is what it was then. `progress`
    /// is told of bytes done and of all of them. False where the engine leaves no image.
    fn save(&self, _progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
        Ok(false)
    }
    /// A description of files and structures for people, as lines of `name: value`.
    fn inspect(&self) -> Result<String>;
}

/// How much a repair could not bring back, in versions of entries: what was deleted or overwritten
/// counts, too, so entries are not more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loss {
    /// All was there.
    #[default]
    Nothing,
    /// So many at most.
    AtMost(u64),
    /// Something is missing that nobody knows the size of.
    Unknown,
}

impl Loss {
    /// This, and `more` lost versions.
    #[must_use]
    pub fn and(self, more: u64) -> Self {
        match self {
            _ if more == 0 => self,
            Loss::Nothing => Loss::AtMost(more),
            Loss::AtMost(lost) => Loss::AtMost(lost + more),
            Loss::Unknown => Loss::Unknown,
        }
    }
}

/// What a repair came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Entries that are there now.
    pub entries: u64,
    /// What was damaged and what is lost, in words; none where nothing was.
    pub findings: Vec<String>,
    /// The directory, in the store's own, with the files that were there; `None` where nothing was
    /// damaged and nothing changed.
    pub aside: Option<String>,
    /// What is lost.
    pub lost: Loss,
    /// True where of an entry an older version may be back, or one that was deleted.
    pub may_be_older: bool,
}

/// Partitions that threads can own, for service without synchronisation between them.
pub trait Sharded: Send + Sync {
    /// Number of partitions.
    fn shards(&self) -> usize;

    /// The partition that `key` belongs to.
    fn shard_of(&self, key: &[u8]) -> usize;

    /// Calls `each` with the place and the partition of every one of `keys`, in their order.
    fn shards_of(&self, keys: &[&[u8]], each: &mut dyn FnMut(usize, usize)) {
        keys.iter().enumerate().for_each(|(place, key)| each(place, self.shard_of(key)));
    }

    /// Where partitions are the highest bits of the lower half of a key's hash under a seed, that
    /// seed: with it others know where a key belongs, and can make keys that collide.
    fn seed(&self) -> Option<HashSeed> {
        None
    }

    /// Hands out partition `number`. Until the shard is dropped it alone writes the partition:
    /// writes and updates of its keys through the engine fail with [`silica_base::ErrorKind`]
    /// `Locked`, while reads go on.
    fn take(&self, number: usize) -> Result<Box<dyn Shard>>;
}

/// A partition that one thread owns. No call takes a lock or makes an atomic read-modify-write.
///
/// Keys that belong to another partition are refused with `Config`.
pub trait Shard: Send {
    /// The partition's number.
    fn number(&self) -> usize;

    /// As [`crate::Engine::get_many`]; where it fails, some keys may have been reported.
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()>;

    /// As [`crate::Engine::write`].
    fn write(&mut self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()>;

    /// As [`Atomic::update_many`].
    fn update_many(
        &mut self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize>;
}
