//! The seam below SQL: what the b-tree functions of SQLite ask of a store. `shim/silica_store.h`
//! has the same calls for C, and what each means.

use crate::encoding::{Column, Field};
use crate::failure::Result;

/// Numbers of the header that are stored.
pub const META_COUNT: usize = 15;

/// A number that is not stored: it grows by one when a transaction begins that sees commits of
/// other connections, and begins with 1 for each connection, as in SQLite.
pub const META_DATA_VERSION: usize = 15;

/// A number that is not stored: it changes as [`META_DATA_VERSION`] does, and with each commit of
/// the connection.
pub const META_CONTENT_VERSION: usize = 16;

/// The tree that is always there.
pub const FIRST_ROOT: u32 = 1;

/// A database as one connection sees it. One thread uses it, with its cursors, at a time.
///
/// What reads or writes needs a transaction, and fails with `MISUSE` without one.
pub trait Session {
    /// A place in a tree.
    type Cursor: Cursor;

    /// Begins a transaction, or makes one that reads one that writes.
    ///
    /// # Errors
    /// `BUSY` if another one writes, `BUSY_SNAPSHOT` if this one reads what is not the newest,
    /// `READONLY`.
    fn begin(&self, is_to_write: bool) -> Result<()>;

    /// Ends the transaction; with `keeps_reading` it goes on as one that reads, of the newest.
    /// After an error before the sync it goes on as it was.
    ///
    /// # Errors
    /// `IOERR_FSYNC` if the sync fails; the transaction is over then.
    fn commit(&self, is_synced: bool, keeps_reading: bool) -> Result<()>;

    /// Takes everything back and ends the transaction; with `keeps_reading` it goes on as one that
    /// reads.
    fn roll_back(&self, keeps_reading: bool) -> Result<()>;

    /// Sees to it that `count` savepoints are open.
    fn open_savepoints(&self, count: usize) -> Result<()>;

    /// Closes savepoint `index` and later ones; what was written stays.
    fn release_savepoint(&self, index: usize) -> Result<()>;

    /// Takes back what was written since savepoint `index`, and closes later ones; `None` takes
    /// everything back and closes all.
    fn roll_back_to(&self, index: Option<usize>) -> Result<()>;

    /// A number of the header, [`META_DATA_VERSION`] among them.
    fn meta(&self, index: usize) -> Result<u32>;

    /// Changes a number of the header.
    fn set_meta(&self, index: usize, value: u32) -> Result<()>;

    /// A new tree; its number is above all that were ever used.
    fn create_tree(&self, has_rowids: bool) -> Result<u32>;

    /// Removes a tree with all that is in it.
    fn drop_tree(&self, root: u32) -> Result<()>;

    /// Removes all that is in a tree, and counts it before if that is `wanted`. The count walks
    /// through the tree; the rest costs the same for any number of entries.
    fn clear_tree(&self, root: u32, is_counted: bool) -> Result<u64>;

    /// Removes every tree but the first, and what is in that, and sets the numbers of the header to
    /// 0. Numbers of trees are not given again.
    fn clear(&self) -> Result<()>;

    /// The largest number that a tree ever had.
    fn last_root(&self) -> Result<u32>;

    /// Bytes of the store on the device and in the log, as far as they are known at once.
    fn bytes(&self) -> u64;

    /// Makes every commit survive a power cut that returned before.
    fn sync(&self) -> Result<()>;

    /// Rewrites the store so that only what is live takes space.
    fn compact(&self) -> Result<()>;

    /// A cursor over a tree of rows, or over an index with these columns. Starts unpositioned.
    fn cursor(&self, root: u32, columns: Option<&[Column]>) -> Result<Self::Cursor>;
}

/// Where an entry is, seen from what was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The cursor is at it.
    Here,
    /// The cursor is at the entry before it, or nowhere if there is none.
    Before,
    /// The cursor is at the entry behind it.
    Behind,
}

/// How entries count that begin with all the fields that are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Equal {
    /// As equal: the cursor goes to the first of them.
    Equal,
    /// As entries before.
    Before,
    /// As entries behind.
    Behind,
}

/// A place in a tree: at an entry, between two, or nowhere.
pub trait Cursor {
    /// To the first entry; false if there is none.
    fn first(&mut self) -> Result<bool>;

    /// To the last entry; false if there is none.
    fn last(&mut self) -> Result<bool>;

    /// To the entry behind this place; false if there is none, and from nowhere.
    fn next(&mut self) -> Result<bool>;

    /// To the entry before this place; false if there is none, and from nowhere.
    fn previous(&mut self) -> Result<bool>;

    /// To a row.
    fn seek_row(&mut self, rowid: i64) -> Result<Found>;

    /// To an entry of an index.
    fn seek_key(&mut self, fields: &[Field<'_>], equal: Equal) -> Result<Found>;

    /// True if it is at an entry.
    fn is_there(&mut self) -> Result<bool>;

    /// Looks again for what was here, since the tree was written; false if it is gone, and the
    /// cursor between its neighbours.
    fn restore(&mut self) -> Result<bool>;

    /// The rowid here; 0 if it is not at a row.
    fn rowid(&mut self) -> Result<i64>;

    /// Rowid, 0 in an index, and record of the entry here, if both are known without any work. The
    /// record's bytes stay as those of [`Cursor::record`].
    fn at_hand(&self) -> Option<(i64, &[u8])>;

    /// The record here. Its bytes stay until the cursor is moved, written through, restored or
    /// dropped, or the transaction ends.
    fn record(&mut self) -> Result<&[u8]>;

    /// Writes a row, with `zeroes` zero bytes behind its record, and goes there.
    fn put_row(&mut self, rowid: i64, record: &[u8], zeroes: usize) -> Result<()>;

    /// Writes an entry of an index, of all its columns, and goes there.
    fn put_key(&mut self, fields: &[Field<'_>], record: &[u8]) -> Result<()>;

    /// Deletes what is here; the cursor is between its neighbours then.
    fn delete(&mut self) -> Result<()>;

    /// The number of entries, by a walk through the tree.
    fn count(&mut self) -> Result<u64>;
}
