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

use crate::failure::{Failure, Result, code};
use crate::keyspaces::Keyspaces;
use crate::layout::{HEADER_KEY, Header};
use crate::pieces::{self, Failed};
use crate::results::{Results, Written};
use crate::view::{Kept, Slot, View};
use log::error;
use silica::engine::transaction::Transaction;
use silica::engine::{Ordered, SnapshotExt};
use silica::{DEFAULT_ENGINE, Durability, Error, ErrorKind, KeyRange, Keyspace, Silica};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    key_bytes_max: usize,
    value_bytes_max: usize,
    batch_bytes_max: usize,
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
    ) -> Result<Arc<Self>> {
        let engine = Arc::clone(keyspace.engine());
        let batch_bytes_max = engine.descriptor().limits.batch_bytes_max;
        let store = Some((keyspace, Arc::new(store)));
        Database::build(engine, store, is_read_only, batch_bytes_max, results)
    }

    /// The other keyspaces of its own store.
    pub(crate) fn keyspaces(&self) -> Option<Arc<dyn Keyspaces>> {
        let (_, store) = self.store.as_ref()?;
        Some(Arc::clone(store) as Arc<dyn Keyspaces>)
    }

    /// The database in an engine that keeps an order, which nobody else may write to.
    pub fn on(engine: Arc<dyn silica::Engine>) -> Result<Arc<Self>> {
        let batch_bytes_max = engine.descriptor().limits.batch_bytes_max;
        Database::with_batches_of(engine, batch_bytes_max)
    }

    /// As [`Database::on`]; commits of more than `bytes` are written in pieces of a quarter.
    pub fn with_batches_of(engine: Arc<dyn silica::Engine>, bytes: usize) -> Result<Arc<Self>> {
        Database::build(engine, None, false, bytes, None)
    }

    fn build(
        engine: Arc<dyn silica::Engine>,
        store: Option<(Keyspace, Arc<Silica>)>,
        is_read_only: bool,
        batch_bytes_max: usize,
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
        let left = pieces::look(&Arc::clone(&ordered).snapshot()?)?;
        match left {
            pieces::Left::Commit(_) if is_read_only => {
                let words = "a large transaction was committed and is not all written; open the \
                             database once to write to it";
                return Err(Failure::new(code::CANTOPEN, words));
            }
            _ if is_read_only => {}
            left => pieces::recover(&ordered, &left)?,
        }
        let snapshot = Arc::clone(&ordered).snapshot()?;
        let header = snapshot.get_with(HEADER_KEY, |entry| {
            Header::decode(entry.as_ref().map(|entry| entry.value))
        })??;
        let state =
            State { header, view: None, has_writer: false, is_stuck: false, slots: Vec::new() };
        Ok(Arc::new(Database {
            state: Mutex::new(state),
            commits: AtomicU64::new(0),
            ordered,
            key_bytes_max: limits.key_bytes_max,
            value_bytes_max: limits.value_bytes_max.saturating_sub(pieces::BESIDE_BYTES_MAX),
            batch_bytes_max,
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
    pub(crate) fn transaction(&self, view: &View) -> Transaction {
        Transaction::begin_alone(Arc::clone(&self.ordered), Arc::clone(&view.snapshot))
    }

    /// Commits what was written in `turn`, and ends that. Others see the writes then; they are not
    /// synced. After an error the turn goes on.
    pub(crate) fn commit(
        &self,
        turn: &mut Turn,
        transaction: &mut Transaction,
        header: Header,
        written: &Written,
    ) -> Result<()> {
        if let Some(results) = &self.results {
            // Only whoever has the turn counts commits up.
            results.stamp(written, self.commits() + 1);
        }
        if transaction.bytes() > self.batch_bytes_max {
            self.commit_in_pieces(turn, transaction)?;
        } else {
            match transaction.commit(Durability::Buffered) {
                // Many small writes: each takes more than its bytes.
                Err(error) if error.kind() == ErrorKind::TooLarge => {
                    self.commit_in_pieces(turn, transaction)?;
                }
                done => done?,
            }
        }
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
        Ok(())
    }

    fn commit_in_pieces(&self, turn: &mut Turn, transaction: &Transaction) -> Result<()> {
        match pieces::commit(&self.ordered, transaction, self.batch_bytes_max / 4) {
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

    /// Refuses a key that the engine does not take.
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<()> {
        at_most("an index entry's key", key.len(), self.key_bytes_max)
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
