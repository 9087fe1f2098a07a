//! The log of a store: records of entries, values that lie apart, and the manifest that names the
//! files of both and of the store's tables.
//!
//! Invariants:
//!
//! 1. A segment of either log is named in the manifest before anything is written to it.
//! 2. A sync of the records syncs the values before: no durable record points at a value that a
//!    power cut may take.
//! 3. They fail together. Once a file of one of them has refused a sync, the records take nothing
//!    more until the store is opened again: half a store that goes on would only fail later.

use crate::frame::Frame;
use crate::manifest::{Book, Ledger};
use crate::value_log::{self, Garbage, Pointer, SegmentOf, Stored, ValueLog};
use crate::wal::{SegmentList, Segments, Wal};
use silica_base::{Error, ErrorKind, Result};
use silica_device::{Device, LogFile};
use std::sync::{Arc, Mutex, MutexGuard};

/// A change of a store's log in its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEdit {
    /// A log segment was created.
    LogSegment(u64),
    /// Log segments below this number are not needed any more.
    ReleaseLog(u64),
    /// The log is durable up to this position.
    DurableEnd(u64),
    /// A value-log segment was created.
    ValueSegment(u32),
    /// A value-log segment is not needed any more.
    ReleaseValueSegment(u32),
    /// Nothing points to so many bytes of these value-log segments.
    ValueDead(Vec<(u32, u64)>),
}

/// What a manifest says of the log of its store.
pub struct LogState<'s> {
    /// Log segments that live, ascending.
    pub segments: &'s mut Vec<u64>,
    /// The value log.
    pub values: &'s mut value_log::State,
    /// Everything below this log position was durable at some moment, so recovery has to reach it.
    pub durable_end: &'s mut u64,
}

/// A manifest's state that has the log of a store in it.
pub trait LogLedger: Ledger<Edit: From<LogEdit>> {
    /// What it says of the log.
    fn log_state(&mut self) -> LogState<'_>;
    /// What it says of the value log.
    fn values(&self) -> &value_log::State;
    /// Up to where the log was durable at some moment.
    fn durable_end(&self) -> u64;
}

/// The log of a store; see the module's documentation.
pub struct StoreLog<D: Device, S> {
    /// Records of entries.
    pub log: Wal<D>,
    /// Values that lie apart.
    pub values: ValueLog<D>,
    book: Mutex<Book<D, S>>,
}

impl<D: Device, S: LogLedger> StoreLog<D, S> {
    /// Logs that were opened as `book` says.
    pub fn new(log: Wal<D>, values: ValueLog<D>, book: Book<D, S>) -> Self {
        StoreLog { log, values, book: Mutex::new(book) }
    }

    fn book(&self) -> MutexGuard<'_, Book<D, S>> {
        self.book.lock().expect("no panic while held")
    }

    /// Calls `look` with what the manifest says. Edits wait meanwhile.
    pub fn with_state<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(self.book().state())
    }

    /// False once it is not known what the manifest says: an edit may or may not have counted.
    pub fn is_state_known(&self) -> bool {
        !self.book().is_poisoned()
    }

    /// Makes `edits` durable in the manifest and applies them to the state; costs a sync each.
    ///
    /// # Errors
    /// Those of the device. Where it is not known then what the manifest says, the store refuses
    /// further writes.
    pub fn edit(&self, edits: &[S::Edit]) -> Result<()> {
        let mut book = self.book();
        let result = book.edit(edits);
        if book.is_poisoned() {
            self.log.poison();
        }
        result
    }

    /// Writes the manifest anew as one snapshot, of the newest version.
    ///
    /// # Errors
    /// Those of the device. The manifest stays as it was, unless the store refuses writes then.
    pub fn rewrite_manifest(&self) -> Result<()> {
        let mut book = self.book();
        let result = book.rewrite();
        if book.is_poisoned() {
            self.log.poison();
        }
        result
    }

    /// Has the whole store refuse further writes if `result` says that a file refuses further
    /// syncs.
    pub fn spread_poison<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.poison_with(error))
    }

    /// Has the whole store refuse further writes if `error` says that a file refuses further syncs.
    pub fn poison_with(&self, error: &Error) {
        if error.kind() == ErrorKind::Poisoned {
            self.log.poison();
        }
    }

    /// Makes everything that was written so far durable.
    #[inline]
    pub fn sync_log(&self) -> Result<()> {
        self.log.sync(&|| self.values.sync())
    }

    /// Makes what was written below byte `end` of the log durable.
    pub fn sync_log_below(&self, end: u64) -> Result<()> {
        self.log.sync_to(end, &|| self.values.sync())
    }

    /// Puts values into the value log: of each operation of a batch the key and the value, if that
    /// is to go there.
    pub fn store_values<'v>(
        &self,
        values: impl Iterator<Item = Option<(&'v [u8], &'v [u8])>>,
    ) -> Result<Stored<D::File>> {
        let register = |number| self.edit(&[LogEdit::ValueSegment(number).into()]);
        let stored = self.values.append_all(values, &register);
        if self.values.is_poisoned() {
            self.log.poison();
        }
        stored
    }

    /// The value that a pointer frame points at; `None` if its segment was reclaimed since the
    /// frame was found.
    pub fn load_value(&self, frame: &Frame<'_>) -> Result<Option<Vec<u8>>> {
        self.values.read(&Pointer::of(frame)?, frame.key)
    }

    /// The edit that says what is garbage in the value log, `more` included; `None` if the manifest
    /// knows it.
    pub fn garbage_edit(&self, more: &Garbage) -> Option<S::Edit> {
        self.values.note(more);
        let news = self.book().state().values().news_of(self.values.dead());
        (!news.is_empty()).then(|| LogEdit::ValueDead(news).into())
    }

    /// Forgets a segment of the value log to whose values nothing points; the caller removes its
    /// file.
    pub fn release_values(&self, number: u32) -> Result<()> {
        self.edit(&[LogEdit::ReleaseValueSegment(number).into()])?;
        self.values.release(number);
        Ok(())
    }

    /// Forgets the log segments that lie below position `floor`, which the caller hands to
    /// [`Wal::retire`].
    pub fn release_log_below(&self, floor: u64) -> Result<SegmentList<D::Log>> {
        let gone = self.log.release_below(floor);
        if let Some(last) = gone.last() {
            self.edit(&[LogEdit::ReleaseLog(last.number + 1).into()])?;
        }
        Ok(gone)
    }

    /// Has the log's next segment made, if it `may_make` one, before a writer needs it, and little
    /// left to sync then; true if it made one.
    pub fn attend_log(&self, may_make: bool) -> Result<bool> {
        let register = |number| self.edit(&[LogEdit::LogSegment(number).into()]);
        self.log.attend(may_make, &|| self.sync_log(), &register)
    }

    /// Syncs everything, and notes in the manifest how far the log is durable, so that damage to
    /// its end is told from a torn tail.
    pub fn close(&self) -> Result<()> {
        self.log.check()?;
        self.sync_log()?;
        let end = self.log.end_of_records();
        let garbage = self.garbage_edit(&Garbage::default());
        let mut book = self.book();
        if book.state().durable_end() < end {
            book.edit(&[LogEdit::DurableEnd(end).into()])?;
        }
        garbage.map_or(Ok(()), |edit| book.edit(&[edit]))?;
        book.close()
    }
}

/// What a copy of a store has of its logs, as of one moment.
pub struct LogCut<D: Device, S> {
    /// What the copy's manifest says.
    pub state: S,
    segments: Arc<Segments<D::Log>>,
    /// Bytes of each of them.
    lens: Vec<u64>,
    values: Vec<Arc<SegmentOf<D>>>,
}

/// A piece of a copy.
pub enum Piece<'p> {
    /// A whole file of this name, which nobody writes any more.
    Whole(&'p str),
    /// The next bytes of a file of this name.
    Bytes(&'p str, &'p [u8]),
}

impl<D: Device, S: LogLedger + Clone> StoreLog<D, S> {
    /// What is in the logs now. Nobody may write meanwhile; the log is to be synced before the copy
    /// is made, and no segment of the value log may go until then.
    pub fn cut(&self) -> LogCut<D, S> {
        // In this order: what the state says needs no segment that is not in the list. The log's
        // oldest ones may go meanwhile.
        let segments = self.log.segments();
        let mut state = self.with_state(S::clone);
        let named = state.log_state();
        named.segments.retain(|number| segments.iter().any(|s| s.number == *number));
        *named.durable_end = (*named.durable_end).max(self.log.end_of_records());
        let lens = segments.iter().map(|s| s.log.len()).collect();
        let values = self.values.segments();
        // One that is only named has no value yet that anything points at.
        named.values.segments.retain(|number| values.iter().any(|s| s.number == *number));
        LogCut { state, segments, lens, values }
    }
}

impl<D: Device, S: LogLedger> LogCut<D, S> {
    /// Hands the segments of both logs that the state names to `copy`.
    pub fn copy(&mut self, copy: &mut dyn FnMut(Piece<'_>) -> Result<()>) -> Result<()> {
        let named = self.state.log_state();
        for (segment, len) in self.segments.iter().zip(&self.lens) {
            if named.segments.contains(&segment.number) {
                segment.copy(*len, &mut |name, bytes| copy(Piece::Bytes(name, bytes)))?;
            }
        }
        for segment in self.values.iter().filter(|s| named.values.segments.contains(&s.number)) {
            if segment.is_settled() {
                copy(Piece::Whole(&segment.name()))?;
            } else {
                segment.copy(&mut |name, bytes| copy(Piece::Bytes(name, bytes)))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "store_log_tests.rs"]
mod tests;
