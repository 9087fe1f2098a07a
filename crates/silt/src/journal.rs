//! What a store writes down besides its table files: the log, the value log, and the manifest that
//! names all files.

use crate::ground::Ground;
use crate::state::{Edit, StoreState};
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::Checkpoint;
use silica_parts::frame::Frame;
use silica_parts::manifest::Manifest;
use silica_parts::value_log::{self, Pointer, SegmentOf, Stored, ValueLog};
use silica_parts::wal::Wal;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Edits after which the manifest is rewritten as one snapshot.
const EDITS_MAX: u32 = 1000;

/// The manifest and the state it holds; every change goes through [`Journal::edit`].
pub(crate) struct Book<D: Device> {
    pub(crate) manifest: Manifest<D>,
    pub(crate) state: StoreState,
    /// Edits since the last snapshot.
    pub(crate) edits: u32,
}

impl<D: Device> Book<D> {
    fn edit(&mut self, edits: &[Edit]) -> Result<()> {
        for edit in edits {
            self.manifest.append(&edit.encode())?;
            self.state.apply(edit);
            self.edits += 1;
        }
        if self.edits >= EDITS_MAX {
            let snapshot = self.state.encode();
            self.manifest.rewrite(&snapshot)?;
            self.edits = 0;
        }
        Ok(())
    }
}

/// See the module's documentation.
pub(crate) struct Journal<D: Device> {
    ground: Arc<Ground<D>>,
    pub(crate) log: Wal<D>,
    pub(crate) values: ValueLog<D>,
    pub(crate) book: Mutex<Book<D>>,
}

impl<D: Device> Journal<D> {
    pub(crate) fn new(
        ground: Arc<Ground<D>>,
        log: Wal<D>,
        values: ValueLog<D>,
        book: Book<D>,
    ) -> Self {
        Journal { ground, log, values, book: Mutex::new(book) }
    }

    /// Makes `edits` durable in the manifest and applies them to the state.
    pub(crate) fn edit(&self, edits: &[Edit]) -> Result<()> {
        let mut book = self.book.lock().expect("no panic while held");
        let result = book.edit(edits);
        if book.manifest.is_poisoned() {
            // What the manifest says is not known any more, so nothing may build on it.
            self.log.poison();
        }
        result
    }

    /// Where a file or directory refuses further syncs, the whole store refuses further writes:
    /// half a store that goes on would only fail later.
    pub(crate) fn spread_poison<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.poison_with(error))
    }

    pub(crate) fn poison_with(&self, error: &Error) {
        if error.kind() == ErrorKind::Poisoned {
            self.log.poison();
        }
    }

    /// Makes everything written so far durable: values first, then the records that point at
    /// them.
    #[inline]
    pub(crate) fn sync_log(&self) -> Result<()> {
        self.log.sync(&|| self.sync_values())
    }

    /// Puts values into the value log: of each operation of a batch the key and the value, where
    /// that is to go there.
    pub(crate) fn store_values<'v>(
        &self,
        values: impl Iterator<Item = Option<(&'v [u8], &'v [u8])>>,
    ) -> Result<Stored<D::File>> {
        let register = |number| self.edit(&[Edit::ValueSegment(number)]);
        let stored = self.values.append_all(values, &register);
        if self.values.is_poisoned() {
            self.log.poison();
        }
        let stored = stored?;
        self.ground.metrics.value_log_bytes.fetch_add(stored.bytes, Ordering::Relaxed);
        Ok(stored)
    }

    /// The value that a pointer frame points at, or `None` where its segment was reclaimed since
    /// the frame was found.
    pub(crate) fn load_value(&self, frame: &Frame<'_>) -> Result<Option<Vec<u8>>> {
        self.values.read(&Pointer::of(frame)?, frame.key)
    }

    /// Writes down what is garbage, so that it is known after the next open.
    pub(crate) fn note_dead_values(&self) -> Result<()> {
        let book = self.book.lock().expect("no panic while held");
        let dead = book.state.values.news_of(self.values.dead());
        drop(book);
        // One edit, since each is a sync.
        if dead.is_empty() { Ok(()) } else { self.edit(&[Edit::ValueDead(dead)]) }
    }

    /// Counts the value of an overwritten frame as garbage.
    pub(crate) fn note_dead_value(&self, frame: &Frame<'_>) {
        if frame.is_pointer() {
            self.values.note_dead_at(frame.value);
        }
    }

    pub(crate) fn sync_values(&self) -> Result<()> {
        self.values.sync()
    }

    pub(crate) fn release_values(&self, number: u32) -> Result<()> {
        self.edit(&[Edit::ReleaseValueSegment(number)])?;
        self.values.release(number);
        self.ground.device.remove(&value_log::name(number))
    }

    /// Hands those of `segments` that `state` names to `target`. Upkeep is held, so none goes away.
    pub(crate) fn checkpoint_values(
        &self,
        segments: &[Arc<SegmentOf<D>>],
        state: &StoreState,
        target: &mut dyn Checkpoint,
    ) -> Result<()> {
        let is_named = |s: &&Arc<SegmentOf<D>>| state.values.segments.contains(&s.number);
        for segment in segments.iter().filter(is_named) {
            if segment.is_settled() {
                target.immutable(&segment.name())?;
            } else {
                segment.copy(&mut |name, bytes| target.piece(name, bytes))?;
            }
        }
        Ok(())
    }

    pub(crate) fn value_log_live_bytes(&self) -> u64 {
        self.values.bytes().1
    }

    pub(crate) fn value_log_bytes(&self) -> u64 {
        self.values.bytes().0
    }

    /// Has the log's next segment made before a writer needs it, and little left to sync then.
    pub(crate) fn attend_log(&self) -> Result<()> {
        // While room is short it is left to merges, and to the writer who needs a segment.
        let may_make = !self.ground.is_short_of_space();
        let register = |number| self.edit(&[Edit::LogSegment(number)]);
        self.log.attend(may_make, &|| self.sync_log(), &register).map(drop)
    }

    /// Syncs everything and notes in the manifest how far the log is durable, so that damage to
    /// its end is told from a torn tail. Called on drop; errors then are lost, the data is not.
    pub(crate) fn close(&self) -> Result<()> {
        self.log.check()?;
        self.sync_log()?;
        self.note_dead_values()?;
        let mut book = self.book.lock().expect("no panic while held");
        let end = self.log.end_of_records();
        if book.state.durable_end < end {
            let edit = Edit::DurableEnd(end);
            book.manifest.append(&edit.encode())?;
            book.state.apply(&edit);
        }
        book.manifest.close()
    }
}
