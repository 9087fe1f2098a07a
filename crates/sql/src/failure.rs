//! Errors as SQLite knows them: a result code, and words for people.

use silica::{Error, ErrorKind};
use std::fmt;

/// Result codes of SQLite (`sqlite3.h`), as far as a store has a use for them.
pub mod code {
    /// Success.
    pub const OK: i32 = 0;
    /// What was asked is wrong; the words say how.
    pub const ERROR: i32 = 1;
    /// A fault of this library.
    pub const INTERNAL: i32 = 2;
    /// Somebody else writes, or another process has the store.
    pub const BUSY: i32 = 5;
    /// The store was opened to be read only.
    pub const READONLY: i32 = 8;
    /// The device refused an operation.
    pub const IOERR: i32 = 10;
    /// What was stored is not what is there.
    pub const CORRUPT: i32 = 11;
    /// No room on the device.
    pub const FULL: i32 = 13;
    /// The store cannot be opened.
    pub const CANTOPEN: i32 = 14;
    /// A key, a record or a transaction is too large.
    pub const TOOBIG: i32 = 18;
    /// A value that a column does not take.
    pub const CONSTRAINT_CHECK: i32 = 19 | 1 << 8;
    /// There is a row with this key.
    pub const CONSTRAINT_PRIMARYKEY: i32 = 19 | 6 << 8;
    /// A call that its order forbids: a write without a transaction that writes, say.
    pub const MISUSE: i32 = 21;
    /// There is no further entry.
    pub const DONE: i32 = 101;
    /// What was read is not the newest any more, so it cannot be followed by writes.
    pub const BUSY_SNAPSHOT: i32 = BUSY | 2 << 8;
    /// A sync failed: nothing is accepted until the store is opened again.
    pub const IOERR_FSYNC: i32 = IOERR | 4 << 8;
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One of [`code`].
    pub code: i32,
    /// What happened, and what to do about it.
    pub words: String,
}

/// Result of the calls of this crate.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure with its words.
    pub fn new(code: i32, words: impl Into<String>) -> Self {
        Failure { code, words: words.into() }
    }

    /// A call that is not allowed now.
    pub(crate) fn misuse(words: &str) -> Self {
        Failure::new(code::MISUSE, words)
    }

    /// A sync that failed, for whatever reason.
    pub(crate) fn of_sync(error: &Error) -> Self {
        Failure::new(code::IOERR_FSYNC, error.to_string())
    }

    /// An error of the opening of a store.
    pub(crate) fn of_opening(error: &Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Locked | ErrorKind::Busy => code::BUSY,
            ErrorKind::Io | ErrorKind::Poisoned => code::IOERR,
            ErrorKind::Corruption => code::CORRUPT,
            ErrorKind::Full => code::FULL,
            ErrorKind::ReadOnly => code::READONLY,
            // A newer version, a directory that is no store, options that nobody knows.
            _ => code::CANTOPEN,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Busy | ErrorKind::Locked => code::BUSY,
            ErrorKind::Conflict => code::BUSY_SNAPSHOT,
            ErrorKind::Full => code::FULL,
            ErrorKind::Io | ErrorKind::Closed => code::IOERR,
            ErrorKind::Poisoned => code::IOERR_FSYNC,
            ErrorKind::Corruption => code::CORRUPT,
            ErrorKind::TooLarge => code::TOOBIG,
            ErrorKind::ReadOnly => code::READONLY,
            ErrorKind::NotFound | ErrorKind::Config | ErrorKind::Unsupported => code::CANTOPEN,
            _ => code::INTERNAL,
        };
        Failure::new(code, error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Failure {}
