//! What a transaction has written so far: in memory, and spilled.
//!
//! 1. What was written last is in the engine's transaction; beyond its share of the memory it is
//!    spilled (`spill.rs`). After a spill the engine's transaction is another one, above what is
//!    spilled.
//! 2. Savepoints are the engine's, in the order in which they were set; those from before the last
//!    spill are marks instead. If there is a mark, and the engine has no layers, its transaction
//!    has one savepoint more, its first: so it knows what later writes replace.
//! 3. The header is an entry of the transaction, so it is rolled back with everything else. What is
//!    kept of it in memory is dropped then.

use crate::aside::{Mark, Spilled};
use crate::database::{Database, Turn};
use crate::failure::{Failure, Result, code};
use crate::layout::{HEADER_KEY, Header};
use crate::long_keys::{is_long, stored_key, stored_value};
use crate::results::{Results, Written};
use crate::view::View;
use silica::engine::transaction::{Savepoint, Transaction};
use silica::{EntryRef, ErrorKind, KeyRange};
use std::cell::Cell;
use std::sync::Arc;

/// A savepoint.
#[derive(Clone)]
pub(crate) enum Point {
    Own(Savepoint),
    /// From before the last spill.
    Spilled(Mark),
}

/// A transaction that writes.
pub(crate) struct Writing {
    /// Of what was committed when it began.
    pub(crate) view: Arc<View>,
    pub(crate) transaction: Transaction,
    pub(crate) spilled: Option<Spilled>,
    pub(crate) database: Arc<Database>,
    /// `None` if others write beside it: then it looks at its commit whether they have written what
    /// it has read.
    pub(crate) turn: Option<Turn>,
    pub(crate) savepoints: Vec<Point>,
    /// The first savepoint of the engine's transaction, if there are marks.
    pub(crate) floor: Option<Savepoint>,
    /// Bytes that were written to memory, at least.
    pub(crate) memory_bytes: usize,
    /// How many of these are of puts.
    pub(crate) put_bytes: usize,
    /// Writes stay in memory up to so many bytes, because the disk has no room for them.
    pub(crate) kept_bytes: usize,
    /// The header, if it is known.
    pub(crate) header: Cell<Option<Header>>,
    pub(crate) has_written: bool,
    /// Whom to tell what is written.
    pub(crate) results: Option<Arc<Results>>,
    pub(crate) written: Written,
}

/// Deletes stay in memory for so many shares of a transaction.
const DELETES_SHARES: usize = 16;
/// They stay there up to so many bytes if they cannot be spilled.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Memory of a write beside its key and its record.
const WRITE_BYTES: usize = 160;

impl Writing {
    /// Refuses to write after a spill that failed.
    pub(crate) fn check(&self) -> Result<()> {
        Ok(self.spilled.as_ref().map_or(Ok(()), Spilled::check)?)
    }

    /// Counts a write.
    #[inline]
    pub(crate) fn count(&mut self, key: &[u8], value: Option<&[u8]>) {
        let bytes = key.len() + value.map_or(0, <[u8]>::len) + WRITE_BYTES;
        self.memory_bytes += bytes;
        self.put_bytes += if value.is_some() { bytes } else { 0 };
    }

    /// True if so much is in memory that it had better be spilled.
    #[inline]
    pub(crate) fn has_much(&self) -> bool {
        if self.memory_bytes < self.database.spill_bytes.max(self.kept_bytes) {
            return false;
        }
        let deletes_max = self.database.spill_bytes.saturating_mul(DELETES_SHARES);
        !self.is_of_deletes() || self.memory_bytes >= deletes_max.min(KEPT_BYTES_MAX)
    }

    /// Most of what is in memory are deletes. A full disk takes these, which make room: they must
    /// not need room before that.
    fn is_of_deletes(&self) -> bool {
        4 * self.put_bytes < self.memory_bytes
    }

    pub(crate) fn new_transaction(&mut self, transaction: Transaction) {
        self.transaction = transaction;
        (self.memory_bytes, self.put_bytes, self.kept_bytes) = (0, 0, 0);
        let needs_undos = self.spilled.as_ref().is_some_and(Spilled::needs_undos);
        let has_floor = needs_undos && !self.savepoints.is_empty();
        self.floor = has_floor.then(|| self.transaction.savepoint());
    }

    /// Moves what is in memory to the device.
    pub(crate) fn spill(&mut self) -> Result<()> {
        if self.turn.is_none() {
            let words = format!(
                "a transaction beside others has its writes in memory, {} bytes at most; begin it \
                 with BEGIN EXCLUSIVE",
                self.database.spill_bytes
            );
            return Err(Failure::new(code::TOOBIG, words));
        }
        let database = &self.database;
        database.count_spill();
        let is_first = self.spilled.is_none();
        if is_first {
            self.spilled = Some(database.spilled(&self.view)?);
        }
        let spilled = self.spilled.as_mut().expect("just made");
        let mut marks = match spilled.spill(&self.transaction, !self.savepoints.is_empty()) {
            Err(error)
                if is_first
                    && error.kind() == ErrorKind::Full
                    && 4 * self.put_bytes < self.memory_bytes
                    && self.memory_bytes < KEPT_BYTES_MAX =>
            {
                if let Some(spilled) = self.spilled.take() {
                    spilled.end();
                }
                self.kept_bytes = (2 * self.memory_bytes).min(KEPT_BYTES_MAX);
                return Ok(());
            }
            Err(error) => {
                // Nothing is put aside: the transaction is in memory as before.
                if is_first && !spilled.needs_undos() {
                    self.spilled = None;
                }
                return Err(error.into());
            }
            Ok(marks) => marks.into_iter(),
        };
        if self.floor.is_some() {
            marks.next();
        }
        for point in &mut self.savepoints {
            if let Point::Own(_) = point {
                *point = Point::Spilled(marks.next().expect("one for each"));
            }
        }
        let transaction = spilled.transaction();
        self.new_transaction(transaction);
        if let Some(results) = &self.results {
            // As many places as writes would fill the memory.
            results.note_all_written(&mut self.written);
        }
        Ok(())
    }

    pub(crate) fn open_savepoint(&mut self) {
        // Nothing is in memory, so the place is that of the spill.
        let point = Point::Own(self.transaction.savepoint());
        self.savepoints.push(point);
    }

    pub(crate) fn release(&mut self, index: usize) -> Result<()> {
        if index >= self.savepoints.len() {
            return Ok(());
        }
        let released = self.savepoints.split_off(index);
        let own = released.iter().find_map(|point| match point {
            Point::Own(savepoint) => Some(*savepoint),
            Point::Spilled(_) => None,
        });
        match self.floor.filter(|_| self.savepoints.is_empty()) {
            Some(floor) => {
                self.floor = None;
                self.transaction.release(floor)?;
            }
            None => own.map_or(Ok(()), |own| self.transaction.release(own))?,
        }
        if let Some(spilled) = &mut self.spilled {
            let marks = self.savepoints.iter().rev().filter_map(|point| match point {
                Point::Spilled(mark) => Some(mark),
                Point::Own(_) => None,
            });
            let last = marks.take(1).next();
            if last.is_some() || self.savepoints.is_empty() || !spilled.needs_undos() {
                spilled.forget_behind(last)?;
            }
        }
        Ok(())
    }

    /// True if the engine's transaction is another one then.
    pub(crate) fn roll_back_to(&mut self, index: usize) -> Result<bool> {
        let Some(point) = self.savepoints.get(index).cloned() else { return Ok(false) };
        self.check()?;
        self.header.set(None);
        self.savepoints.truncate(index + 1);
        match (point, &mut self.spilled) {
            (Point::Spilled(mark), Some(spilled)) => {
                spilled.roll_back_to(&mark)?;
                let transaction = spilled.transaction();
                self.new_transaction(transaction);
                Ok(true)
            }
            (Point::Own(savepoint), _) => {
                self.transaction.roll_back_to(savepoint)?;
                Ok(false)
            }
            (Point::Spilled(_), None) => unreachable!("a mark is of a spill"),
        }
    }

    /// Takes everything back.
    pub(crate) fn roll_back(&mut self) {
        let is_over = self.turn.as_ref().is_some_and(Turn::is_over);
        if let Some(spilled) = self.spilled.take().filter(|_| !is_over) {
            spilled.end();
        }
        self.savepoints.clear();
        let transaction = self.database.transaction(&self.view, self.turn.is_some());
        self.new_transaction(transaction);
        self.header.set(Some(self.view.header));
        self.has_written = false;
        self.written.clear();
    }

    pub(crate) fn header(&self) -> Result<Header> {
        if let Some(header) = self.header.get() {
            return Ok(header);
        }
        let header = self
            .transaction
            .get(HEADER_KEY, |entry| Header::decode(entry.as_ref().map(|entry| entry.value)))??;
        self.header.set(Some(header));
        Ok(header)
    }

    pub(crate) fn set_header(&mut self, header: Header) {
        if let Some(results) = &self.results {
            results.note_header_written(&mut self.written);
        }
        self.has_written = true;
        self.transaction.put(HEADER_KEY, EntryRef::new(&header.encode()));
        self.header.set(Some(header));
    }

    /// Puts an entry of tree `root`.
    #[inline]
    pub(crate) fn put(&mut self, root: u32, key: &[u8], value: &[u8]) {
        if let Some(results) = &self.results {
            results.note_written(&mut self.written, root, key);
        }
        self.has_written = true;
        if is_long(key) {
            self.transaction.put(&stored_key(key), EntryRef::new(&stored_value(key, value)));
        } else {
            self.transaction.put(key, EntryRef::new(value));
        }
    }

    /// True if a record of so many bytes had better go to the device at once: it would be in memory
    /// twice, and have no room there.
    #[inline]
    pub(crate) fn is_large(&self, key: &[u8], bytes: usize) -> bool {
        let is_large = bytes >= self.database.spill_bytes && !is_long(key);
        is_large && self.turn.is_some() && self.database.takes_layers()
    }

    /// Puts a large entry behind all that is in memory, which is spilled before it; false if it is
    /// to be put as others are. Iterators are to be opened anew, whatever becomes of it.
    pub(crate) fn put_large(&mut self, root: u32, key: &[u8], record: &[u8]) -> Result<bool> {
        self.spill()?;
        let Some(spilled) = &mut self.spilled else { return Ok(false) };
        if !spilled.put_alone(key, record)? {
            return Ok(false);
        }
        let transaction = spilled.transaction();
        self.new_transaction(transaction);
        if let Some(results) = &self.results {
            results.note_written(&mut self.written, root, key);
        }
        self.has_written = true;
        Ok(true)
    }

    /// Deletes an entry of tree `root`.
    pub(crate) fn delete(&mut self, root: u32, key: &[u8]) {
        if let Some(results) = &self.results {
            results.note_written(&mut self.written, root, key);
        }
        self.has_written = true;
        self.transaction.delete(&stored_key(key));
    }

    pub(crate) fn delete_range(&mut self, range: &KeyRange) {
        if let Some(results) = &self.results {
            results.note_all_written(&mut self.written);
        }
        self.has_written = true;
        self.transaction.delete_range(range);
    }
}
