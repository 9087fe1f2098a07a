//! Transactions over any engine that keeps an order: reads of one moment, writes that nobody else
//! sees before the commit, savepoints, cursors that see the transaction's own later writes, and
//! conditions on keys and ranges that the commit checks.
//!
//! What is visible when, for a transaction `T` and everybody else:
//!
//! ```text
//! begin ──── write k ──── savepoint ──── write m ──── roll back ──── commit ──────────►
//!   │           │                           │             │             │
//!   │           T sees k                    T sees k, m   T sees k      others see k, whole;
//!   T sees the moment of begin, whatever others write      │            T is over
//!                                                  cursors of T, too
//! ```
//!
//! - Reads see the snapshot of `begin`, below what `T` has written itself. Others see nothing of
//!   it before the commit, and then all of it.
//! - A **cursor's** place is a key. A call that moves it finds the next entry from that key on
//!   among the snapshot and the writes of `T` *as they are at that call*: what was written,
//!   deleted or rolled back since the last one is taken into account in both directions. What a
//!   cursor shows of the entry that it is at stays as it was when it came there.
//! - The commit happens if nobody has written, since `begin`, a key that `T` wrote or watches, nor
//!   anything in a range that `T` deleted or watches (phantom protection). What others do to
//!   other keys does not matter. The first to commit wins.
//! - A commit may be of any size if the engine takes such ([`Ordered::commit`] says). Until then
//!   the writes are in memory, which no engine counts.
//! - A commit that fails has written nothing. After [`ErrorKind::Conflict`] the transaction is of
//!   no more use; after any other error it may be committed again, or dropped.
//! - An **exclusive** transaction has its turn from `begin` on: no other transaction of the store
//!   commits before it is over, so it meets no conflict with one. Writes that are no transactions
//!   ([`crate::Engine::write`], [`crate::Atomic`]) go on, and are conflicts where they meet it.
//! - A transaction **alone** ([`Transaction::begin_alone`]) belongs to somebody who sees to it that
//!   nothing else writes to the store meanwhile. It takes no turn and looks for no conflicts.
//!
//! Engines write none of this: they offer [`Ordered::snapshot`], [`Ordered::commit`] and the
//! [`CommitTurns`] that exclusive transactions wait for.

mod cursor;
mod layers;
mod turns;
mod writes;

pub use cursor::Cursor;
pub use turns::{CommitTurn, CommitTurns, ExclusiveTurn, Wait};

use crate::WriteBatch;
use crate::{
    Durability, EntryRef, KeyRange, Op, OpKind, Ordered, Reads, Snapshot, SnapshotExt, Staging,
};
use silica_base::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use writes::Replaced;
use writes::{Put, Writes};

/// How a transaction begins and commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransactionOptions {
    /// No other transaction of the store commits until this one is over.
    pub is_exclusive: bool,
    /// How long `begin` waits for the turn of another exclusive transaction, and `commit` if this
    /// one is not exclusive itself.
    pub wait: Wait,
}

/// A state of a transaction's writes to return to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint(u64);

/// See the module's documentation. Dropped without a commit, it has done nothing.
pub struct Transaction {
    ordered: Arc<dyn Ordered>,
    snapshot: Arc<dyn Snapshot>,
    /// Cursors look at them, too.
    writes: Arc<RwLock<Writes>>,
    /// Keys and ranges that must be at the commit what they were.
    watched_keys: BTreeSet<Vec<u8>>,
    watched_ranges: Vec<KeyRange>,
    /// When the first of the watched entries expires; 0 if none does.
    expires_unix_ms: u64,
    turn: Option<ExclusiveTurn>,
    wait: Wait,
    /// Nothing else writes to the store: there are no conflicts, and nobody's turn.
    is_alone: bool,
    is_over: bool,
}

fn read(writes: &RwLock<Writes>) -> RwLockReadGuard<'_, Writes> {
    writes.read().expect("no panic while held")
}

/// Only the transaction changes its writes, with a `&mut`: readers never wait for a commit, which
/// reads them, too.
fn change(writes: &RwLock<Writes>) -> RwLockWriteGuard<'_, Writes> {
    writes.write().expect("no panic while held")
}

impl Transaction {
    /// Begins a transaction, which sees the store as it is now.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if another exclusive transaction is open for longer than
    /// [`TransactionOptions::wait`] says.
    pub fn begin(ordered: Arc<dyn Ordered>, options: TransactionOptions) -> Result<Self> {
        let TransactionOptions { is_exclusive, wait } = options;
        // Before the snapshot: what others commit until then is seen.
        let turn = match is_exclusive {
            true => Some(ordered.commit_turns().take_exclusive(wait)?),
            false => None,
        };
        let snapshot = Arc::clone(&ordered).snapshot()?;
        let alone = Transaction::begin_alone(ordered, snapshot);
        Ok(Transaction { turn, wait, is_alone: false, ..alone })
    }

    /// Begins a transaction of whoever alone writes to the store: the caller sees to it that
    /// nothing is written between `snapshot`, which is one of this store, and the commit. Then the
    /// commit of a few keys costs half. A write that comes between all the same is overwritten.
    pub fn begin_alone(ordered: Arc<dyn Ordered>, snapshot: Arc<dyn Snapshot>) -> Self {
        Transaction {
            ordered,
            snapshot,
            writes: Arc::default(),
            watched_keys: BTreeSet::new(),
            watched_ranges: Vec::new(),
            expires_unix_ms: 0,
            turn: None,
            wait: Wait::No,
            is_alone: true,
            is_over: false,
        }
    }

    /// Begins a transaction that sees `snapshot`, which is one of this store: its commit fails if
    /// what it wrote or watches was written since that moment.
    pub fn begin_at(ordered: Arc<dyn Ordered>, snapshot: Arc<dyn Snapshot>, wait: Wait) -> Self {
        Transaction { wait, is_alone: false, ..Transaction::begin_alone(ordered, snapshot) }
    }

    /// The moment that it sees below its own writes.
    pub fn snapshot(&self) -> &Arc<dyn Snapshot> {
        &self.snapshot
    }

    /// Calls `read` with the entry of `key`, borrowed: what this transaction wrote, or else what
    /// there was at the beginning.
    pub fn get<T>(&self, key: &[u8], read: impl FnOnce(Option<EntryRef<'_>>) -> T) -> Result<T> {
        let own = self::read(&self.writes).find(key, self.snapshot.unix_ms());
        if let Some(write) = own {
            return Ok(read(write.as_ref().map(Put::entry)));
        }
        self.snapshot.get_with(key, read)
    }

    /// As [`Transaction::get`]. The commit fails if somebody else writes `key` before it, or if
    /// the entry that was there at the beginning, and was read, expires.
    pub fn get_for_update<T>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(Option<EntryRef<'_>>) -> T,
    ) -> Result<T> {
        let own = self::read(&self.writes).find(key, self.snapshot.unix_ms());
        if let Some(write) = own {
            self.watch_key(key, 0);
            return Ok(read(write.as_ref().map(Put::entry)));
        }
        let mut expires_unix_ms = 0;
        let answer = self.get(key, |entry| {
            expires_unix_ms = entry.map_or(0, |entry| entry.expires_unix_ms);
            read(entry)
        })?;
        self.watch_key(key, expires_unix_ms);
        Ok(answer)
    }

    /// Lets the commit fail if somebody else writes `key` before it, or if the time is then
    /// `expires_unix_ms`, unless that is 0: when the entry expires that was read.
    pub fn watch_key(&mut self, key: &[u8], expires_unix_ms: u64) {
        self.watched_keys.insert(key.to_vec());
        if expires_unix_ms != 0 {
            let first = if self.expires_unix_ms == 0 { u64::MAX } else { self.expires_unix_ms };
            self.expires_unix_ms = first.min(expires_unix_ms);
        }
    }

    /// Lets the commit fail if somebody else writes or deletes anything in `range` before it, keys
    /// that are not there yet included. An entry that expires there is no write.
    pub fn watch_range(&mut self, range: KeyRange) {
        self.watched_ranges.push(range);
    }

    /// Maps `key` to an entry.
    pub fn put(&mut self, key: &[u8], entry: EntryRef<'_>) {
        change(&self.writes).set(key, Some(Put::new(entry)));
    }

    /// Removes `key`.
    pub fn delete(&mut self, key: &[u8]) {
        change(&self.writes).set(key, None);
    }

    /// Removes all keys of `range`: those of the beginning and those written here. Costs as much
    /// as writes of this transaction are in the range, however many entries there are.
    pub fn delete_range(&mut self, range: &KeyRange) {
        let (lower, upper) = range.half_open();
        change(&self.writes).delete_range(lower, upper);
    }

    /// Bytes of keys and values that were written here, and of what savepoints keep.
    pub fn bytes(&self) -> usize {
        read(&self.writes).bytes()
    }

    /// Marks the state of the writes. Savepoints nest. While one is there, each write costs a copy
    /// of what it replaces.
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint(change(&self.writes).mark())
    }

    /// Takes back all writes since `savepoint`, which stays; those set after it go. Keys and
    /// ranges that were watched since stay watched.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the savepoint was released, or went with an earlier one.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        change(&self.writes).roll_back_to(savepoint.0)
    }

    /// Forgets `savepoint` and those set after it, and keeps the writes.
    ///
    /// # Errors
    /// As of [`Transaction::roll_back_to`].
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        change(&self.writes).release(savepoint.0)
    }

    /// A cursor over `range` that sees later writes of this transaction, by the rule in the
    /// module's documentation. Costs as much as an iterator of the snapshot, however much was
    /// written.
    pub fn cursor(&self, range: &KeyRange) -> Result<Cursor> {
        let below = Arc::clone(&self.snapshot).iterate(range)?;
        let now_ms = self.snapshot.unix_ms();
        Ok(Cursor::new(below, Arc::clone(&self.writes), range.clone(), now_ms))
    }

    /// Writes everything in one step, as durable as asked. An exclusive turn ends when others see
    /// the writes, before they are synced: so transactions of several threads share one sync.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if something has changed that must not have; [`ErrorKind::Busy`] if
    /// an exclusive transaction is open for longer than it may wait; [`ErrorKind::TooLarge`] if the
    /// engine takes no commits over [`crate::Limits::batch_bytes_max`] and they are;
    /// [`ErrorKind::Closed`] if it is over.
    pub fn commit(&mut self, durability: Durability) -> Result<()> {
        if self.is_over {
            return Err(Error::new(
                ErrorKind::Closed,
                "the transaction is over; begin another one",
            ));
        }
        let takes_turn = self.turn.is_none() && !self.is_alone;
        let turns = takes_turn.then(|| Arc::clone(self.ordered.commit_turns()));
        let shared = turns.as_ref().map(|turns| turns.take(self.wait)).transpose()?;
        // Whoever waits for an exclusive turn need not wait for the device, too.
        let is_later = self.turn.is_some() && durability == Durability::Synced;
        let durability = if is_later { Durability::Buffered } else { durability };
        let written = self.write(durability).map_err(too_large)?;
        drop(shared);
        self.is_over = true;
        self.turn = None;
        if !written {
            let message = "a key or a range of this transaction was written by somebody else \
                           since it began, or has expired; begin it anew";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if is_later { self.ordered.sync_commits() } else { Ok(()) }
    }

    /// Calls `each` with what every write since the first savepoint has replaced, in their order,
    /// and with each savepoint where it was set. For a caller who moves the writes elsewhere and
    /// has to take them back there.
    ///
    /// # Errors
    /// The first one of `each`.
    pub fn replaced(&self, each: &mut dyn FnMut(Replaced<'_>) -> Result<()>) -> Result<()> {
        read(&self.writes).replaced(each)
    }

    /// Calls `each` with the ranges, from a key on and before another one, that are deleted: now,
    /// or at the first savepoint.
    pub fn deleted_ranges(&self, is_at_first: bool, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
        let writes = read(&self.writes);
        let deleted = if is_at_first { writes.deleted_at_first() } else { writes.deleted() };
        deleted.iter().for_each(|(lower, upper)| each(lower, upper.as_deref()));
    }

    /// Calls `each` with every key that is written, and its entry or `None` if it is deleted.
    ///
    /// # Errors
    /// The first one of `each`.
    pub fn written(
        &self,
        mut each: impl FnMut(&[u8], Option<EntryRef<'_>>) -> Result<()>,
    ) -> Result<()> {
        let writes = read(&self.writes);
        writes.points().iter().try_for_each(|(key, put)| each(key, put.as_ref().map(Put::entry)))
    }

    /// Puts what was written here into `staging`, over what that has. For each savepoint, in their
    /// order, how many layers it had then; if there are any, all of these are protected.
    ///
    /// # Errors
    /// Those of [`Staging::put`]; the layers are those from before then.
    pub fn stage(&self, staging: &mut dyn Staging) -> Result<Vec<usize>> {
        let before = staging.layers();
        let staged = read(&self.writes).stage(staging);
        staged.inspect_err(|_| staging.roll_back_to(before))
    }

    fn write(&self, durability: Durability) -> Result<bool> {
        let writes = read(&self.writes);
        let mut batch = WriteBatch::new();
        ops(&writes).for_each(|op| {
            batch.push(op);
        });
        if self.is_alone {
            return self.ordered.commit(&*self.snapshot, Reads::of(&[]), &batch, durability);
        }
        let keys: BTreeSet<&[u8]> =
            (self.watched_keys.iter().chain(writes.points().keys())).map(Vec::as_slice).collect();
        let keys: Vec<&[u8]> = keys.into_iter().collect();
        let deleted = writes.deleted().iter().map(|(lower, upper)| {
            let upper = upper.clone().map_or(Bound::Unbounded, Bound::Excluded);
            KeyRange { lower: Bound::Included(lower.clone()), upper }
        });
        let ranges: Vec<KeyRange> = self.watched_ranges.iter().cloned().chain(deleted).collect();
        let reads = Reads { keys: &keys, ranges: &ranges, expires_unix_ms: self.expires_unix_ms };
        self.ordered.commit(&*self.snapshot, reads, &batch, durability)
    }
}

/// What was written as operations, in the order in which they happen.
fn ops(writes: &Writes) -> impl Iterator<Item = Op<'_>> {
    let deleted = writes
        .deleted()
        .iter()
        .map(|(lower, upper)| Op { key: lower, kind: OpKind::DeleteRange(upper.as_deref()) });
    let points = writes.points().iter().map(|(key, put)| {
        let entry = put.as_ref().map(Put::entry);
        Op { key, kind: entry.map_or(OpKind::Delete, OpKind::Put) }
    });
    deleted.chain(points)
}

/// Says what to do about a commit that is too large.
fn too_large(error: Error) -> Error {
    if error.kind() != ErrorKind::TooLarge {
        return error;
    }
    let message = format!(
        "the writes of this transaction do not fit into one commit of this engine: {error}; commit \
         them in several transactions, or migrate to an engine whose commits have no limit"
    );
    Error::new(ErrorKind::TooLarge, message)
}

#[cfg(test)]
mod tests;
