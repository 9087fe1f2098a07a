//! The store of one directory, which all connections of the process share.
//!
//! 1. One transaction writes at a time: [`Database::begin_writing`] gives the turn, which ends when
//!    the commit is in the log, or with a rollback.
//! 2. A [`View`] is a snapshot with the header and the number of commits of that moment. While
//!    nothing was committed since, all readers share one.
//! 3. The number of commits is changed under the lock, and read without it.
//! 4. No commit is under way while the shared view is missing: whoever takes the turn leaves one.
//!    So the snapshot of a view has neither more nor less than its header says, and a reader never
//!    waits for a write.

use crate::aside::Spilled;
use crate::failure::{Failure, Result, code};
use crate::keyspaces::Keyspaces;
use crate::layout::{HEADER_KEY, Header, range};
use crate::results::{Results, Written};
use crate::spill::{self, Failed};
use crate::view::{Kept, Slot, View};
use log::error;
use silica::engine::transaction::{Transaction, Wait};
use silica::engine::{Ordered, SnapshotExt};
use silica::{DEFAULT_ENGINE, Durability, Error, ErrorKind, KeyRange, Keyspace, Silica};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a transaction has in memory is at most this part of the database's memory, in these bounds.
const SPILL_PART: u64 = 4;
const SPILL_BYTES_MIN: usize = 256 << 10;
const SPILL_BYTES_MAX: usize = 16 << 20;
/// Bytes of what is written at once of a transaction that spills: it is there twice meanwhile.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Bytes that a transaction has in memory at most in a database with so much memory.
pub(crate) fn spill_bytes_of(memory_bytes: u64) -> usize {
    let share = usize::try_from(memory_bytes / SPILL_PART).unwrap_or(usize::MAX);
    share.clamp(SPILL_BYTES_MIN, SPILL_BYTES_MAX)
}

/// What changes with each commit.
struct State {
    header: Header,
    /// Of the newest commit, if somebody has asked for it.
    view: Option<Arc<View>>,
    has_writer: bool,
    /// A commit has happened that is not all there: nothing newer than the shared view may be read.
    is_stuck: bool,
    /// Where connections keep views.
    slots: Vec<Arc<Slot>>,
}

/// See the module's documentation.
pub struct Database {
    /// Dropped first: its snapshot keeps the engine, and with that the directory's lock.
    state: Mutex<State>,
    commits: AtomicU64,
    ordered: Arc<dyn Ordered>,
    value_bytes_max: usize,
    /// Bytes that a transaction has in memory at most, and what is written of them at once.
    pub(crate) spill_bytes: usize,
    pub(crate) batch_bytes: usize,
    /// What does not fit into the memory of a transaction becomes layers, which the engine has.
    takes_layers: AtomicBool,
    /// How often transactions have spilled.
    spills: AtomicU64,
    /// Whoever has it commits what was written beside others.
    commit_beside: Mutex<()>,
    /// The next rowid of trees that rows were appended to beside others.
    rowids: Mutex<BTreeMap<u32, i64>>,
    pub(crate) is_read_only: bool,
    results: Option<Arc<Results>>,
    /// Its own store, which is closed with it; none in one that the program has open.
    store: Option<(Keyspace, Arc<Silica>)>,
}

/// The turn to write, for the time between two commits. Dropped, it is over.
pub(crate) struct Turn {
    database: Arc<Database>,
    is_over: bool,
}

impl Turn {
    /// A commit has happened and is not all there.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            self.database.state().has_writer = false;
        }
    }
}

impl Database {
    /// The database in a keyspace of `store`.
    pub(crate) fn new(
        keyspace: Keyspace,
        store: Silica,
        is_read_only: bool,
        results: Option<Results>,
        spill_bytes: usize,
    ) -> Result<Arc<Self>> {
        let engine = Arc::clone(keyspace.engine());
        let store = Some((keyspace, Arc::new(store)));
        Database::build(engine, store, is_read_only, spill_bytes, results)
    }

    /// The other keyspaces of its own store.
    pub(crate) fn keyspaces(&self) -> Option<Arc<dyn Keyspaces>> {
        let (_, store) = self.store.as_ref()?;
        Some(Arc::clone(store) as Arc<dyn Keyspaces>)
    }

    /// The database in an engine that keeps an order, which nobody else may write to.
    pub fn on(engine: Arc<dyn silica::Engine>) -> Result<Arc<Self>> {
        Database::with_batches_of(engine, SPILL_BYTES_MAX)
    }

    /// As [`Database::on`]; transactions have `bytes` of their writes in memory at most, or, with
    /// `usize::MAX`, all of them.
    pub fn with_batches_of(engine: Arc<dyn silica::Engine>, bytes: usize) -> Result<Arc<Self>> {
        Database::build(engine, None, false, bytes, None)
    }

    /// What does not fit into the memory of a transaction becomes layers.
    pub(crate) fn takes_layers(&self) -> bool {
        self.takes_layers.load(Ordering::Relaxed)
    }

    /// Lets transactions spill as on engines that have no layers: for tests.
    #[doc(hidden)]
    pub fn spill_to_entries(&self) {
        self.takes_layers.store(false, Ordering::Relaxed);
    }

    /// How often transactions have put what they had written aside, since it did not fit into
    /// their memory.
    pub fn spills(&self) -> u64 {
        self.spills.load(Ordering::Relaxed)
    }

    /// A transaction spills.
    pub(crate) fn count_spill(&self) {
        self.spills.fetch_add(1, Ordering::Relaxed);
    }

    /// Where a transaction that reads `view` puts writes aside.
    pub(crate) fn spilled(&self, view: &View) -> Result<Spilled> {
        let how = (self.batch_bytes, self.takes_layers());
        Ok(Spilled::new(&self.ordered, &view.snapshot, how)?)
    }

    fn build(
        engine: Arc<dyn silica::Engine>,
        store: Option<(Keyspace, Arc<Silica>)>,
        is_read_only: bool,
        spill_bytes: usize,
        results: Option<Results>,
    ) -> Result<Arc<Self>> {
        let limits = engine.descriptor().limits;
        let name = engine.descriptor().name;
        let ordered = engine.as_ordered().ok_or_else(|| {
            let words = format!(
                "engine {name} keeps no order, which SQL needs; silica migrate --to \
                 {DEFAULT_ENGINE} moves it to one that does"
            );
            Failure::new(code::CANTOPEN, words)
        })?;
        let spill_bytes = match spill_bytes {
            usize::MAX => usize::MAX,
            bytes => bytes.min(limits.batch_bytes_max / 2),
        };
        let batch_bytes = (spill_bytes / 4).min(BATCH_BYTES_MAX);
        let left = spill::look(&Arc::clone(&ordered).snapshot()?)?;
        match left {
            spill::Left::Commit(_) if is_read_only => {
                let words = "a large transaction was committed and is not all written; open the \
                             database once to write to it";
                return Err(Failure::new(code::CANTOPEN, words));
            }
            _ if is_read_only => {}
            left => spill::recover(&ordered, &left, batch_bytes)?,
        }
        let snapshot = Arc::clone(&ordered).snapshot()?;
        let header = snapshot.get_with(HEADER_KEY, |entry| {
            Header::decode(entry.as_ref().map(|entry| entry.value))
        })??;
        let state =
            State { header, view: None, has_writer: false, is_stuck: false, slots: Vec::new() };
        let has_layers = Arc::clone(&ordered).staging().is_some();
        Ok(Arc::new(Database {
            state: Mutex::new(state),
            commits: AtomicU64::new(0),
            ordered,
            value_bytes_max: limits.value_bytes_max.saturating_sub(spill::BESIDE_BYTES_MAX),
            spill_bytes,
            batch_bytes,
            takes_layers: AtomicBool::new(has_layers),
            spills: AtomicU64::new(0),
            commit_beside: Mutex::default(),
            rowids: Mutex::default(),
            is_read_only,
            results: results.map(Arc::new),
            store,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The view of the newest commit. Costs a snapshot if nobody has it since that commit.
    fn view_of(&self, state: &mut State) -> Result<Arc<View>> {
        if let Some(view) = &state.view {
            return Ok(Arc::clone(view));
        }
        let snapshot = Arc::clone(&self.ordered).snapshot()?;
        let view = View { snapshot, header: state.header, number: self.commits() };
        Ok(Arc::clone(state.view.insert(Arc::new(view))))
    }

    /// Where a connection keeps a view from now on.
    pub(crate) fn add_slot(&self) -> Arc<Slot> {
        let slot = Arc::<Slot>::default();
        self.state().slots.push(Arc::clone(&slot));
        slot
    }

    /// The connection of a slot is closed.
    pub(crate) fn remove_slot(&self, slot: &Arc<Slot>) {
        self.state().slots.retain(|other| !Arc::ptr_eq(other, slot));
        drop(slot.take());
    }

    /// Keeps in `slot` what a transaction has read, for the connection's next one.
    pub(crate) fn keep(&self, slot: &Slot, kept: Kept) {
        slot.keep(kept, &self.commits);
    }

    /// What is committed now.
    pub(crate) fn view(&self) -> Result<Arc<View>> {
        self.view_of(&mut self.state())
    }

    /// Results of statements that are kept, if any are.
    pub(crate) fn results(&self) -> Option<&Arc<Results>> {
        self.results.as_ref()
    }

    /// About how many bytes a tree has, as far as it is known at once.
    pub(crate) fn tree_bytes(&self, root: u32) -> u64 {
        self.ordered.range_size(&range(root)).bytes
    }

    /// Commits since the database was opened.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// Takes the turn to write; with `seen`, the view that the transaction has read so far.
    pub(crate) fn begin_writing(
        self: &Arc<Self>,
        seen: Option<&View>,
    ) -> Result<(Turn, Arc<View>)> {
        let mut state = self.state();
        if state.is_stuck {
            return Err(stuck("of an earlier commit"));
        }
        if state.has_writer {
            return Err(Failure::new(code::BUSY, "another transaction writes; try again"));
        }
        if seen.is_some_and(|seen| seen.number != self.commits()) {
            let words = "what this transaction has read is not the newest any more; begin it anew";
            return Err(Failure::new(code::BUSY_SNAPSHOT, words));
        }
        let view = self.view_of(&mut state)?;
        state.has_writer = true;
        drop(state);
        Ok((Turn { database: Arc::clone(self), is_over: false }, view))
    }

    /// A transaction of whoever has the turn, on the view that came with it.
    ///
    /// One that is not alone looks at its commit whether what it watches was written since.
    pub(crate) fn transaction(&self, view: &View, is_alone: bool) -> Transaction {
        let (ordered, snapshot) = (Arc::clone(&self.ordered), Arc::clone(&view.snapshot));
        match is_alone {
            true => Transaction::begin_alone(ordered, snapshot),
            false => Transaction::begin_at(ordered, snapshot, Wait::Forever),
        }
    }

    /// Commits a transaction that has written beside others, if nothing that it watches was written
    /// since `view`.
    ///
    /// # Errors
    /// `BUSY` while a transaction has the turn, `BUSY_SNAPSHOT` if something was written.
    pub(crate) fn commit_beside(
        self: &Arc<Self>,
        view: &View,
        transaction: &mut Transaction,
        header: Header,
        written: &Written,
    ) -> Result<()> {
        // Commits wait for one another, but for no transaction of somebody who thinks.
        let _one = self.commit_beside.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut turn, now) = self.begin_writing(None)?;
        // The header is watched: if this has not changed it, it is what it was.
        let header = if header == view.header { now.header } else { header };
        if let Some(results) = &self.results {
            results.stamp(written, self.commits() + 1);
        }
        transaction.commit(Durability::Buffered)?;
        self.end_turn(&mut turn, header);
        Ok(())
    }

    /// True if rowids of a tree were taken before.
    pub(crate) fn knows_rowids(&self, root: u32) -> bool {
        self.rowids.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&root)
    }

    /// So many rowids in a row, behind `last` and behind all that were taken; the first of them.
    /// `None` if there are not so many.
    pub(crate) fn take_rowids(&self, root: u32, last: i64, count: i64) -> Option<i64> {
        let mut rowids = self.rowids.lock().unwrap_or_else(PoisonError::into_inner);
        let next = rowids.entry(root).or_insert(1);
        let first = (*next).max(last.max(0).checked_add(1)?);
        *next = first.checked_add(count)?;
        Some(first)
    }

    /// Commits what was written in `turn`, all of it in memory or all of it spilled, and ends the
    /// turn. Others see the writes then; they are not
    /// synced. After an error the turn goes on.
    pub(crate) fn commit(
        &self,
        turn: &mut Turn,
        view: &View,
        (transaction, spilled): (&mut Transaction, Option<&mut Spilled>),
        header: Header,
        written: &Written,
    ) -> Result<()> {
        if let Some(results) = &self.results {
            // Only whoever has the turn counts commits up.
            results.stamp(written, self.commits() + 1);
        }
        match spilled {
            Some(spilled) => self.commit_spilled(turn, spilled)?,
            None => match transaction.commit(Durability::Buffered) {
                // Many small writes: each takes more than its bytes.
                Err(error) if error.kind() == ErrorKind::TooLarge => {
                    self.count_spill();
                    let mut spilled = self.spilled(view)?;
                    let moved = spilled.spill(transaction, false).map_err(Failure::from);
                    let done = moved.and_then(|_| self.commit_spilled(turn, &mut spilled));
                    if let Err(error) = done {
                        if !turn.is_over {
                            spilled.end();
                        }
                        return Err(error);
                    }
                }
                done => done?,
            },
        }
        self.end_turn(turn, header);
        Ok(())
    }

    /// What was written in `turn` is there: others see it from now on.
    fn end_turn(&self, turn: &mut Turn, header: Header) {
        let mut state = self.state();
        state.header = header;
        self.commits.fetch_add(1, Ordering::SeqCst);
        state.has_writer = false;
        turn.is_over = true;
        let old = state.view.take();
        let kept: Vec<Kept> = state.slots.iter().filter_map(|slot| slot.take()).collect();
        drop(state);
        // Outside of the lock: they may be the last ones of their snapshots.
        drop((old, kept));
    }

    fn commit_spilled(&self, turn: &mut Turn, spilled: &mut Spilled) -> Result<()> {
        match spilled.commit() {
            Ok(()) => Ok(()),
            Err(Failed::Before(error)) => Err(error.into()),
            Err(Failed::Amid(error)) => {
                // The turn does not end, so the shared view stays.
                turn.is_over = true;
                self.state().is_stuck = true;
                Err(stuck(&error.to_string()))
            }
        }
    }

    /// Makes every commit survive a power cut that returned before.
    pub(crate) fn sync(&self) -> Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        self.ordered.sync_commits().map_err(|error| Failure::of_sync(&error))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.ordered.range_size(&KeyRange::ALL).bytes
    }

    pub(crate) fn compact(&self) -> Result<()> {
        // Else what is kept of older versions stays.
        let mut state = self.state();
        let kept: Vec<Kept> = state.slots.iter().filter_map(|slot| slot.take()).collect();
        // Whoever writes needs it to be there.
        let view = if state.has_writer { None } else { state.view.take() };
        drop(state);
        drop((view, kept));
        Ok(self.ordered.compact_range(&KeyRange::ALL)?)
    }

    /// Refuses a record that the engine does not take.
    pub(crate) fn check_record(&self, bytes: usize) -> Result<()> {
        at_most("a record", bytes, self.value_bytes_max)
    }
}

fn stuck(why: &str) -> Failure {
    let words = format!(
        "a large transaction is committed, but not all of it could be written: {why}; open the \
         database again, which writes the rest"
    );
    Failure::new(code::IOERR, words)
}

#[inline]
fn at_most(what: &str, bytes: usize, bytes_max: usize) -> Result<()> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let words = format!("{what} of {bytes} bytes is too large, {bytes_max} are the limit");
    Err(Failure::new(code::TOOBIG, words))
}

impl Drop for Database {
    fn drop(&mut self) {
        let view = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).view.take();
        drop(view);
        if let Some((keyspace, store)) = self.store.take() {
            drop(keyspace);
            let path = store.path().to_path_buf();
            if let Err(error) = store.shut() {
                log_close(&path.display().to_string(), &error);
            }
        }
    }
}

fn log_close(path: &str, cause: &Error) {
    error!("closing {path}: {cause}");
}
