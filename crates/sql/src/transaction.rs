//! What a connection reads and writes at the moment, which its cursors share.
//!
//! 1. A connection is idle, or reads a view, or writes a transaction above one.
//! 2. The generation changes when what cursors' iterators were opened on is not what is read any
//!    more: cursors open theirs anew then.
//! 3. The last entries that are known are those of the transaction that writes, or will be of the
//!    next one if nobody else commits before it.
//! 4. A transaction that writes beside others notes what it reads (`reads.rs`), from the first read
//!    of its snapshot on; what is remembered of earlier ones is of no use to it.

use crate::buffers::{BUFFER_BYTES_MAX, BUFFERS_MAX, Buffers};
use crate::database::Database;
use crate::failure::{Failure, Result, code};
use crate::last::LastEntries;
use crate::layout::{Header, all_ranges, range, row_key, rowid_of, tree_key};
use crate::long_keys::{Entries, is_long, split_value, stored_key};
use crate::pages::Pages;
use crate::reads::{Reads, Walker};
use crate::registry::Handle;
use crate::results::{Recording, Results, Written};
use crate::storage::{META_CONTENT_VERSION, META_COUNT, META_DATA_VERSION};
use crate::view::{Idle, IdleIterators, Kept, Slot, View};
use crate::writing::Writing;
use silica::engine::{EntryIter, SnapshotExt};
use silica::{EntryRef, KeyRange};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Reads(Arc<View>),
    Writes(Box<Writing>),
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct State {
    phase: Phase,
    generation: u64,
    /// Commits of this connection.
    own_commits: u64,
    /// Commits of others that the last transaction saw, and how often that number was another one.
    others_commits: Option<u64>,
    others_seen: u32,
    last: LastEntries,
    /// Iterators of the view that is read.
    idle: IdleIterators,
    /// Of the view that is read.
    pages: Pages,
    buffers: Vec<Buffers>,
    results: Option<Arc<Results>>,
    /// What is read, if transactions write beside others.
    reads: Option<Arc<Mutex<Reads>>>,
    /// Rowids that this connection may give: the next one of a tree, and the end of them.
    rowids: BTreeMap<u32, (i64, i64)>,
    /// What a statement reads whose result is to be kept.
    recording: RefCell<Option<Recording>>,
}

fn no_transaction() -> Failure {
    Failure::misuse("no transaction is open; begin one first")
}

impl State {
    /// Changes when iterators are to be opened anew.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    fn enter(&mut self, phase: Phase) -> Phase {
        self.generation += 1;
        self.idle.clear();
        self.pages.clear();
        let number = match &phase {
            Phase::Reads(view) => Some(view.number),
            Phase::Writes(writing) => Some(writing.view.number),
            Phase::Idle => None,
        };
        if let Some(number) = number {
            let others = number.wrapping_sub(self.own_commits);
            let seen = self.others_commits.replace(others);
            self.others_seen += u32::from(seen.is_some_and(|seen| seen != others));
        }
        std::mem::replace(&mut self.phase, phase)
    }

    /// What writes.
    ///
    /// # Errors
    /// `MISUSE` if nothing does.
    #[inline]
    pub(crate) fn writing(&mut self) -> Result<&mut Writing> {
        match &mut self.phase {
            Phase::Writes(writing) => Ok(writing),
            Phase::Idle | Phase::Reads(_) => {
                Err(Failure::misuse("no transaction is open that writes; begin one first"))
            }
        }
    }

    /// The last row of a tree, if it is known and this transaction writes.
    #[inline]
    pub(crate) fn last_row(&self, root: u32) -> Option<i64> {
        match self.phase {
            // What is remembered was read by nobody.
            Phase::Writes(_) if self.reads.is_none() => self.last.row(root),
            Phase::Writes(_) | Phase::Idle | Phase::Reads(_) => None,
        }
    }

    /// Remembers the last row of a tree if this transaction writes.
    pub(crate) fn note_last_row(&mut self, root: u32, rowid: i64) {
        if let Phase::Writes(_) = self.phase {
            self.last.set_row(root, rowid);
        }
    }

    /// What writes, to write.
    ///
    /// # Errors
    /// As of [`State::writing`]; that of a spill that has failed.
    #[inline]
    fn writable(&mut self) -> Result<&mut Writing> {
        let writing = self.writing()?;
        if writing.spilled.is_some() {
            writing.check()?;
        }
        Ok(writing)
    }

    #[cold]
    fn spill(&mut self) -> Result<()> {
        // Whatever becomes of it, iterators are to be opened anew.
        self.generation += 1;
        self.idle.clear();
        self.writing()?.spill()
    }

    /// Puts a row.
    ///
    /// # Errors
    /// `MISUSE` if this transaction does not write; those of a spill.
    #[inline]
    pub(crate) fn put_row(&mut self, root: u32, rowid: i64, record: &[u8]) -> Result<()> {
        let key = row_key(root, rowid);
        self.put(root, &key, record)?;
        if self.last.put_row(root, rowid) && self.reads.is_none() {
            self.find_last_row(root)?;
        }
        Ok(())
    }

    /// Looks for the last row of a tree: rows are appended to it, or will not be.
    #[cold]
    fn find_last_row(&mut self, root: u32) -> Result<()> {
        let mut idle = self.iterate(root)?;
        if idle.iterator.seek_to_last()?
            && let Some(rowid) = rowid_of(idle.iterator.key())
        {
            self.last.set_row(root, rowid);
        }
        Ok(())
    }

    /// Puts an entry. What is in memory is spilled before that if it is much: one large record
    /// alone, which is in memory in any case, is written to the device once.
    #[inline]
    fn put(&mut self, root: u32, key: &[u8], record: &[u8]) -> Result<()> {
        let writing = self.writable()?;
        if writing.is_large(key, record.len()) {
            self.generation += 1;
            self.idle.clear();
            if self.writing()?.put_large(root, key, record)? {
                return Ok(());
            }
        } else if writing.has_much() {
            self.spill()?;
        }
        let writing = self.writing()?;
        writing.put(root, key, record);
        writing.count(key, Some(record));
        Ok(())
    }

    /// True if `key` is known to be behind the last key of its index, in what this transaction
    /// writes.
    #[inline]
    pub(crate) fn is_behind_all(&self, root: u32, key: &[u8]) -> bool {
        let is_remembered = matches!(self.phase, Phase::Writes(_)) && self.reads.is_none();
        is_remembered && self.last.is_behind(root, key)
    }

    /// Puts an entry of an index.
    ///
    /// # Errors
    /// `MISUSE` if this transaction does not write; those of looking for the last key.
    pub(crate) fn put_key(&mut self, root: u32, key: &[u8], record: &[u8]) -> Result<()> {
        self.put(root, key, record)?;
        if self.reads.is_none() && self.last.put_key(root, key) {
            let mut idle = self.iterate(root)?;
            if idle.iterator.seek_to_last()? {
                self.last.set_key(root, idle.iterator.key());
            }
        }
        Ok(())
    }

    /// Deletes an entry; of a row `rowid` is the number.
    ///
    /// # Errors
    /// `MISUSE` if this transaction does not write.
    pub(crate) fn delete(&mut self, root: u32, key: &[u8], rowid: Option<i64>) -> Result<()> {
        if self.writable()?.has_much() {
            self.spill()?;
        }
        let writing = self.writing()?;
        writing.delete(root, key);
        writing.count(key, None);
        match rowid {
            Some(rowid) => self.last.delete_row(root, rowid),
            None => self.last.delete_key(root, key),
        }
        Ok(())
    }

    /// Calls `read` with the record of `key`, borrowed.
    #[inline]
    pub(crate) fn get<T>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> T) -> Result<T> {
        self.note_read(|results, recording, number| results.note_read(recording, number, key));
        if is_long(key) {
            return self.get_stored(&stored_key(key), |value| {
                Ok(read(value.map(split_value).transpose()?.map(|(_, record)| record)))
            })?;
        }
        self.get_stored(key, read)
    }

    #[inline]
    fn get_stored<T>(&self, key: &[u8], read: impl FnOnce(Option<&[u8]>) -> T) -> Result<T> {
        if let Some(reads) = &self.reads {
            lock(reads).note_key(key);
        }
        let read = |entry: Option<EntryRef<'_>>| read(entry.map(|entry| entry.value));
        match &self.phase {
            Phase::Reads(view) => Ok(view.snapshot.get_with(key, read)?),
            Phase::Writes(writing) => Ok(writing.transaction.get(key, read)?),
            Phase::Idle => Err(no_transaction()),
        }
    }

    /// Pages; `None` if this transaction has none.
    #[inline]
    pub(crate) fn pages(&mut self) -> Option<&mut Pages> {
        let has_pages = matches!(self.phase, Phase::Reads(_)) && self.reads.is_none();
        has_pages.then_some(&mut self.pages)
    }

    /// Tells that a page is read: where `key` would be, or anything of the tree.
    pub(crate) fn note_page_read(&self, root: u32, key: Option<&[u8]>) {
        self.note_read(|results, recording, number| match key {
            Some(key) => results.note_read(recording, number, key),
            None => results.note_tree_read(recording, number, root),
        });
    }

    /// An iterator over a tree, which sees later writes of this transaction, too.
    pub(crate) fn iterate(&mut self, root: u32) -> Result<Idle> {
        self.note_read(|results, recording, number| {
            results.note_tree_read(recording, number, root);
        });
        match self.idle.take(root) {
            Some(idle) => Ok(idle),
            None => {
                let is_live = matches!(self.phase, Phase::Writes(_));
                let walker = self.reads.as_ref().map(|reads| Box::new(Walker::new(reads, root)));
                let iterator = Entries::new(self.iterator(&range(root))?, is_live, walker);
                Ok(Idle { root, iterator, uses: 0 })
            }
        }
    }

    /// Takes back an iterator that was opened in `generation`.
    pub(crate) fn put_back(&mut self, idle: Idle, generation: u64) {
        let is_kept = matches!(self.phase, Phase::Reads(_)) && self.reads.is_none();
        if is_kept && generation == self.generation {
            self.idle.put(idle);
        }
    }

    /// Memory for a cursor, empty.
    pub(crate) fn take_buffers(&mut self) -> Buffers {
        self.buffers.pop().unwrap_or_default()
    }

    /// Takes back memory of a cursor.
    pub(crate) fn put_back_buffers(&mut self, mut buffers: Buffers) {
        let Buffers { key, record, written, columns, .. } = &mut buffers;
        if self.buffers.len() < BUFFERS_MAX && record.capacity() <= BUFFER_BYTES_MAX {
            key.clear();
            record.clear();
            written.clear();
            columns.clear();
            self.buffers.push(buffers);
        }
    }

    fn iterator(&self, range: &KeyRange) -> Result<Box<dyn EntryIter>> {
        match &self.phase {
            Phase::Reads(view) => Ok(Arc::clone(&view.snapshot).iterate(range)?),
            Phase::Writes(writing) => Ok(Box::new(writing.transaction.cursor(range)?)),
            Phase::Idle => Err(no_transaction()),
        }
    }

    /// The number of entries of tree `root`.
    pub(crate) fn count(&self, root: u32) -> Result<u64> {
        self.note_read(|results, recording, number| {
            results.note_tree_read(recording, number, root);
        });
        if let Some(reads) = &self.reads {
            lock(reads).note_tree(root);
        }
        let range = &range(root);
        let view = match &self.phase {
            Phase::Reads(view) => view,
            Phase::Writes(writing) if !writing.has_written => &writing.view,
            Phase::Idle | Phase::Writes(_) => {
                let mut iter = self.iterator(range)?;
                let (mut count, mut is_there) = (0, iter.seek_to_first()?);
                while is_there {
                    count += 1;
                    is_there = iter.next()?;
                }
                return Ok(count);
            }
        };
        Ok(Arc::clone(&view.snapshot).count(range)?)
    }

    /// Tells of a read, if a statement's reads are recorded.
    #[inline]
    fn note_read(&self, note: impl FnOnce(&Results, &mut Recording, Option<u64>)) {
        let Some(results) = &self.results else { return };
        if let Some(recording) = &mut *self.recording.borrow_mut() {
            let number = match &self.phase {
                Phase::Reads(view) => Some(view.number),
                Phase::Writes(_) | Phase::Idle => None,
            };
            note(results, recording, number);
        }
    }

    fn header(&self) -> Result<Header> {
        match &self.phase {
            Phase::Reads(view) => Ok(view.header),
            Phase::Writes(writing) => writing.header(),
            Phase::Idle => Err(no_transaction()),
        }
    }

    fn change_header<T>(&mut self, change: impl FnOnce(&mut Header) -> T) -> Result<T> {
        let writing = self.writable()?;
        let before = writing.header()?;
        let mut header = before;
        let answer = change(&mut header);
        if header != before {
            writing.set_header(header);
        }
        Ok(answer)
    }
}

fn lock(reads: &Mutex<Reads>) -> MutexGuard<'_, Reads> {
    reads.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rowids that a connection takes at once: so connections that append rows do not meet.
const ROWIDS: i64 = 32;

impl State {
    /// Forgets what was read: a transaction begins.
    fn clear_reads(&mut self) {
        if let Some(reads) = &self.reads {
            lock(reads).clear();
        }
    }

    /// A rowid for a new row behind all that are there, if transactions write beside others. It may
    /// be below rows that others append.
    ///
    /// # Errors
    /// Those of looking for the last row.
    pub(crate) fn new_rowid(&mut self, database: &Database, root: u32) -> Result<Option<i64>> {
        if self.reads.is_none() || self.writing().is_err() {
            return Ok(None);
        }
        let mut is_known = true;
        loop {
            if let Some((next, end)) = self.rowids.get_mut(&root)
                && *next < *end
            {
                let rowid = *next;
                *next += 1;
                if !self.get(&row_key(root, rowid), |record| record.is_some())? {
                    return Ok(Some(rowid));
                }
                // Somebody has given it without asking.
                self.rowids.remove(&root);
                is_known = false;
            }
            let mut last = None;
            if !is_known || !database.knows_rowids(root) {
                // That there is no row behind it need not hold at the commit: a rowid that was
                // given meanwhile is a conflict of writes.
                let mut iterator = self.iterator(&range(root))?;
                if iterator.seek_to_last()? {
                    last = rowid_of(iterator.key());
                }
            }
            let Some(first) = database.take_rowids(root, last.unwrap_or(0), ROWIDS) else {
                return Ok(None);
            };
            self.rowids.insert(root, (first, first + ROWIDS));
        }
    }
}

/// A connection's state beside its database.
pub(crate) struct Shared {
    /// Dropped before the database, whose snapshot it may have.
    state: RefCell<State>,
    slot: Arc<Slot>,
    database: Handle,
    is_read_only: bool,
}

impl Shared {
    pub(crate) fn new(database: Handle, is_read_only: bool) -> Self {
        let is_read_only = is_read_only || database.is_read_only;
        let slot = database.add_slot();
        let (results, pages) = (database.results().cloned(), Pages::new(database.spill_bytes));
        let state = State { results, pages, ..State::default() };
        Shared { state: RefCell::new(state), slot, database, is_read_only }
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.database
    }

    #[inline]
    pub(crate) fn state(&self) -> &RefCell<State> {
        &self.state
    }

    /// Bytes of memory that the writes of the transaction take until its commit.
    pub(crate) fn written_bytes(&self) -> usize {
        // Whoever has it now is in the midst of a write, and asks later.
        let Ok(state) = self.state.try_borrow() else { return 0 };
        match &state.phase {
            Phase::Writes(writing) => writing.transaction.bytes(),
            _ => 0,
        }
    }

    /// Lets transactions write beside others from now on, or not any more.
    ///
    /// # Errors
    /// `MISUSE` within a transaction.
    pub(crate) fn set_concurrent(&self, is_concurrent: bool) -> Result<()> {
        let mut state = self.state.borrow_mut();
        if state.reads.is_some() == is_concurrent {
            return Ok(());
        }
        if !matches!(state.phase, Phase::Idle) {
            return Err(Failure::misuse("a transaction is open; change it between transactions"));
        }
        drop(self.slot.take());
        state.last.clear();
        state.rowids.clear();
        state.reads = is_concurrent.then(Arc::default);
        Ok(())
    }

    /// True if transactions write beside others.
    pub(crate) fn is_concurrent(&self) -> bool {
        self.state.borrow().reads.is_some()
    }

    /// Begins a transaction that writes, of the newest or of what was read so far.
    fn write(&self, state: &mut State, seen: Option<Arc<View>>, is_exclusive: bool) -> Result<()> {
        let is_beside = state.reads.is_some() && !is_exclusive;
        let (turn, view) = if is_beside {
            let view = seen.map_or_else(|| self.database.view(), Ok)?;
            state.last.clear();
            (None, view)
        } else {
            let (turn, view) = self.database.begin_writing(seen.as_deref())?;
            (Some(turn), view)
        };
        state.last.keep_if_of(view.number);
        let transaction = self.database.transaction(&view, turn.is_some());
        let writing = Writing {
            header: Cell::new(Some(view.header)),
            view,
            transaction,
            spilled: None,
            database: Arc::clone(self.database()),
            turn,
            savepoints: Vec::new(),
            floor: None,
            memory_bytes: 0,
            put_bytes: 0,
            kept_bytes: 0,
            has_written: false,
            results: state.results.clone(),
            written: Written::default(),
        };
        state.enter(Phase::Writes(Box::new(writing)));
        Ok(())
    }

    /// Begins a transaction; `is_exclusive` has an effect only if others write beside it.
    pub(crate) fn begin(&self, is_to_write: bool, is_exclusive: bool) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let seen = match &state.phase {
            Phase::Writes(_) => return Ok(()),
            Phase::Reads(_) if !is_to_write => return Ok(()),
            Phase::Reads(view) => Some(Arc::clone(view)),
            Phase::Idle => None,
        };
        if seen.is_none() {
            state.clear_reads();
        }
        if !is_to_write {
            return self.read(&mut state);
        }
        if self.is_read_only {
            let words = "the database was opened to be read only; open it without read-only";
            return Err(Failure::new(code::READONLY, words));
        }
        self.write(&mut state, seen, is_exclusive)
    }

    /// Begins to read the newest.
    fn read(&self, state: &mut State) -> Result<()> {
        let commits = self.database.commits();
        match self.slot.take().filter(|kept| kept.view.number == commits) {
            Some(Kept { view, idle }) => {
                state.enter(Phase::Reads(view));
                state.idle = idle;
            }
            None => {
                let view = self.database.view()?;
                state.enter(Phase::Reads(view));
            }
        }
        Ok(())
    }

    /// Ends the transaction, and keeps what the next one may read, too.
    fn end(&self, state: &mut State) -> Phase {
        let idle = std::mem::take(&mut state.idle);
        match state.enter(Phase::Idle) {
            Phase::Reads(view) => {
                self.database.keep(&self.slot, Kept { view, idle });
                Phase::Idle
            }
            phase => phase,
        }
    }

    pub(crate) fn commit(&self, is_synced: bool, keeps_reading: bool) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let mut has_written = false;
        if let Phase::Writes(writing) = &mut state.phase {
            has_written = writing.has_written;
            if has_written {
                let header = writing.header()?;
                if writing.spilled.is_some() {
                    // Iterators are of what is in memory yet.
                    state.generation += 1;
                    state.idle.clear();
                    writing.spill()?;
                }
                let Writing { view, turn, transaction, spilled, written, .. } = &mut **writing;
                let what = (transaction, spilled.as_mut());
                match (turn, &state.reads) {
                    (Some(turn), _) => self.database.commit(turn, view, what, header, written)?,
                    (None, Some(reads)) => {
                        lock(reads).watch(what.0);
                        self.database.commit_beside(view, what.0, header, written)?;
                    }
                    (None, None) => unreachable!("it is noted what is read"),
                }
                state.own_commits += 1;
                state.last.commits += 1;
            }
        }
        // With the transaction goes its snapshot, unless others read it.
        drop(self.end(state));
        let synced = if has_written && is_synced { self.database.sync() } else { Ok(()) };
        if state.reads.is_some() {
            state.last.clear();
            state.clear_reads();
        }
        if keeps_reading {
            self.read(state)?;
        }
        synced
    }

    pub(crate) fn roll_back(&self, keeps_reading: bool) -> Result<()> {
        let mut state = self.state.borrow_mut();
        match state.phase {
            Phase::Reads(_) if keeps_reading => {}
            _ => {
                if let Phase::Writes(mut writing) = self.end(&mut state) {
                    state.last.clear();
                    writing.roll_back();
                    if keeps_reading {
                        state.enter(Phase::Reads(Arc::clone(&writing.view)));
                    }
                }
            }
        }
        Ok(())
    }

    pub(crate) fn open_savepoints(&self, count: usize) -> Result<()> {
        let mut state = self.state.borrow_mut();
        if let Phase::Writes(writing) = &mut state.phase {
            while writing.savepoints.len() < count {
                writing.open_savepoint();
            }
        }
        Ok(())
    }

    pub(crate) fn release_savepoint(&self, index: usize) -> Result<()> {
        let mut state = self.state.borrow_mut();
        match &mut state.phase {
            Phase::Writes(writing) => writing.release(index),
            Phase::Idle | Phase::Reads(_) => Ok(()),
        }
    }

    pub(crate) fn roll_back_to(&self, index: Option<usize>) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Phase::Writes(writing) = &mut state.phase else { return Ok(()) };
        state.last.clear();
        let is_other = match index {
            Some(index) => writing.roll_back_to(index),
            None => {
                writing.roll_back();
                Ok(true)
            }
        };
        if !matches!(is_other, Ok(false)) {
            state.generation += 1;
            state.idle.clear();
        }
        is_other.map(drop)
    }

    /// Calls `take` with the rows that are kept of the statement that `key` stands for, if they are
    /// what it would read now; false if there are none.
    pub(crate) fn find_result(&self, key: &[u8], take: impl FnOnce(&[u8])) -> Result<bool> {
        let state = self.state.borrow();
        let Some(results) = &state.results else { return Ok(false) };
        let number = match &state.phase {
            Phase::Idle => self.database.commits(),
            Phase::Reads(view) => view.number,
            Phase::Writes(_) => return Ok(false),
        };
        if state.reads.is_some() {
            // Nobody would note what was read for them.
            return Ok(false);
        }
        results.find(key, number, take)
    }

    /// Begins to record what is read; false if that is done already, or nothing is kept.
    pub(crate) fn begin_recording(&self) -> bool {
        let state = self.state.borrow();
        let mut recording = state.recording.borrow_mut();
        let begins = state.results.is_some()
            && recording.is_none()
            && !matches!(state.phase, Phase::Writes(_));
        if begins {
            *recording = Some(Recording::default());
        }
        begins
    }

    /// Ends what [`Shared::begin_recording`] began; `rows` are what was read, if they are to be
    /// kept for the statement that `key` stands for.
    pub(crate) fn end_recording(&self, key: &[u8], rows: Option<&[u8]>) -> Result<()> {
        let state = self.state.borrow();
        let recording = state.recording.borrow_mut().take();
        match (&state.results, recording, rows) {
            (Some(results), Some(recording), Some(rows)) => results.keep(recording, key, rows),
            _ => Ok(()),
        }
    }

    /// Bytes that a statement's key and rows may have to be kept; 0 if nothing is kept.
    pub(crate) fn result_bytes_max(&self) -> usize {
        self.database.results().map_or(0, |results| results.result_bytes_max())
    }

    pub(crate) fn meta(&self, index: usize) -> Result<u32> {
        let state = self.state.borrow();
        // From 1 on, as SQLite's: its full-text index takes 0 for not known.
        let data_version = state.others_seen.wrapping_add(1);
        match index {
            META_DATA_VERSION => return Ok(data_version),
            META_CONTENT_VERSION => return Ok(data_version.wrapping_add(state.own_commits as u32)),
            _ => {}
        }
        let header = state.header()?;
        header.meta.get(index).copied().ok_or_else(|| no_meta(index))
    }

    pub(crate) fn set_meta(&self, index: usize, value: u32) -> Result<()> {
        if index >= META_COUNT {
            return Err(no_meta(index));
        }
        self.state.borrow_mut().change_header(|header| header.meta[index] = value)
    }

    pub(crate) fn last_root(&self) -> Result<u32> {
        Ok(self.state.borrow().header()?.last_root)
    }

    pub(crate) fn create_tree(&self, has_rowids: bool) -> Result<u32> {
        let mut state = self.state.borrow_mut();
        if state.header()?.last_root == u32::MAX {
            let words = "no number for another tree is left; copy the database into a new one";
            return Err(Failure::new(code::FULL, words));
        }
        let root = state.change_header(|header| {
            header.last_root += 1;
            header.last_root
        })?;
        state.writable()?.put(root, &tree_key(root), &[u8::from(has_rowids)]);
        Ok(root)
    }

    pub(crate) fn drop_tree(&self, root: u32) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let writing = state.writable()?;
        writing.delete_range(&range(root));
        writing.delete(root, &tree_key(root));
        state.last.remove(root);
        Ok(())
    }

    pub(crate) fn clear(&self) -> Result<()> {
        let mut state = self.state.borrow_mut();
        state.change_header(|header| header.meta = Header::default().meta)?;
        let writing = state.writable()?;
        all_ranges().iter().for_each(|range| writing.delete_range(range));
        state.last.clear();
        Ok(())
    }

    pub(crate) fn clear_tree(&self, root: u32, is_counted: bool) -> Result<u64> {
        let mut state = self.state.borrow_mut();
        let range = range(root);
        state.writing()?;
        let entries = if is_counted { state.count(root)? } else { 0 };
        state.writable()?.delete_range(&range);
        state.last.remove(root);
        Ok(entries)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.database.remove_slot(&self.slot);
    }
}

fn no_meta(index: usize) -> Failure {
    Failure::misuse(&format!("the header has no number {index} to change or read"))
}
