//! A connection: what a thread of an application has of a database.

use crate::cursor::TreeCursor;
use crate::database::Database;
use crate::encoding::Column;
use crate::failure::Result;
use crate::keyspaces::Keyspaces;
use crate::registry::{Handle, Options};
use crate::storage::Session;
use crate::transaction::Shared;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// A connection to a database; see [`Session`].
pub struct Connection {
    shared: Rc<Shared>,
}

impl Connection {
    /// Opens the database in `directory`. All connections of the process to it share one store,
    /// which is closed with the last of them.
    ///
    /// # Errors
    /// `BUSY` if another process has it open; `CANTOPEN` if it is no database, or one of a newer
    /// release.
    pub fn open(directory: &Path, options: Options) -> Result<Self> {
        let database = Handle::open(directory, options)?;
        Ok(Connection { shared: Rc::new(Shared::new(database, options.is_read_only)) })
    }

    /// A connection to a database that is open already.
    pub fn to(database: Arc<Database>) -> Self {
        Connection { shared: Rc::new(Shared::new(Handle::of(database), false)) }
    }
}

impl Connection {
    /// Lets transactions of this connection write beside others, or not any more; see
    /// `docs/sql.md`.
    ///
    /// # Errors
    /// `MISUSE` within a transaction.
    pub fn set_concurrent(&self, is_concurrent: bool) -> Result<()> {
        self.shared.set_concurrent(is_concurrent)
    }

    /// True if transactions of this connection write beside others.
    pub fn is_concurrent(&self) -> bool {
        self.shared.is_concurrent()
    }

    /// As [`Session::begin`], of a transaction that writes and has the turn, also if others of this
    /// connection write beside others.
    ///
    /// # Errors
    /// As of [`Session::begin`].
    pub fn begin_exclusive(&self) -> Result<()> {
        self.shared.begin(true, true)
    }

    /// See [`Database::spills`].
    pub fn spills(&self) -> u64 {
        self.shared.database().spills()
    }

    /// True if what transactions put aside becomes layers of the engine, which their commit only
    /// installs; else it is written as entries, and again by the commit.
    pub fn takes_layers(&self) -> bool {
        self.shared.database().takes_layers()
    }

    /// Bytes of memory that the writes of the transaction take until its commit.
    pub(crate) fn written_bytes(&self) -> usize {
        self.shared.written_bytes()
    }

    /// See [`Shared::find_result`].
    pub(crate) fn find_result(&self, key: &[u8], take: impl FnOnce(&[u8])) -> Result<bool> {
        self.shared.find_result(key, take)
    }

    /// See [`Shared::begin_recording`].
    pub(crate) fn begin_recording(&self) -> bool {
        self.shared.begin_recording()
    }

    /// See [`Shared::end_recording`].
    pub(crate) fn end_recording(&self, key: &[u8], rows: Option<&[u8]>) -> Result<()> {
        self.shared.end_recording(key, rows)
    }

    /// See [`Shared::result_bytes_max`].
    pub(crate) fn result_bytes_max(&self) -> usize {
        self.shared.result_bytes_max()
    }

    /// The other keyspaces of the store that the database has for itself.
    pub(crate) fn keyspaces(&self) -> Option<Arc<dyn Keyspaces>> {
        self.shared.database().keyspaces()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Cursors that are still there must not keep the turn of a transaction.
        if let Err(failure) = self.shared.roll_back(false) {
            log::error!("closing a connection: {failure}");
        }
    }
}

impl Session for Connection {
    type Cursor = TreeCursor;

    fn begin(&self, is_to_write: bool) -> Result<()> {
        self.shared.begin(is_to_write, false)
    }

    fn commit(&self, is_synced: bool, keeps_reading: bool) -> Result<()> {
        self.shared.commit(is_synced, keeps_reading)
    }

    fn roll_back(&self, keeps_reading: bool) -> Result<()> {
        self.shared.roll_back(keeps_reading)
    }

    fn open_savepoints(&self, count: usize) -> Result<()> {
        self.shared.open_savepoints(count)
    }

    fn release_savepoint(&self, index: usize) -> Result<()> {
        self.shared.release_savepoint(index)
    }

    fn roll_back_to(&self, index: Option<usize>) -> Result<()> {
        self.shared.roll_back_to(index)
    }

    fn meta(&self, index: usize) -> Result<u32> {
        self.shared.meta(index)
    }

    fn set_meta(&self, index: usize, value: u32) -> Result<()> {
        self.shared.set_meta(index, value)
    }

    fn create_tree(&self, has_rowids: bool) -> Result<u32> {
        self.shared.create_tree(has_rowids)
    }

    fn drop_tree(&self, root: u32) -> Result<()> {
        self.shared.drop_tree(root)
    }

    fn clear_tree(&self, root: u32, is_counted: bool) -> Result<u64> {
        self.shared.clear_tree(root, is_counted)
    }

    fn clear(&self) -> Result<()> {
        self.shared.clear()
    }

    fn last_root(&self) -> Result<u32> {
        self.shared.last_root()
    }

    fn bytes(&self) -> u64 {
        self.shared.database().bytes()
    }

    fn sync(&self) -> Result<()> {
        self.shared.database().sync()
    }

    fn compact(&self) -> Result<()> {
        self.shared.database().compact()
    }

    fn cursor(&self, root: u32, columns: Option<&[Column]>) -> Result<TreeCursor> {
        Ok(TreeCursor::new(Rc::clone(&self.shared), root, columns))
    }
}
