//! SQL on an engine that keeps its keys in order: SQLite, with our storage before its b-tree.
//!
//! [`sql`] is for programs: connections, statements, rows. [`marker`] says where a database is.
//! Below them stands the store, which the b-tree functions of SQLite ask:
//!
//! ```
//! # let name = format!("silica-doc-sql-{}", std::process::id());
//! # let directory = std::env::temp_dir().join(name);
//! use silica_sql::{Connection, Cursor, Options, Session};
//!
//! let connection = Connection::open(&directory, Options::default())?;
//! connection.begin(true)?;
//! let mut rows = connection.cursor(1, None)?;
//! rows.put_row(7, b"record", 0)?;
//! connection.commit(true, true)?;
//! assert!(rows.first()? && rows.rowid()? == 7);
//! # drop((rows, connection));
//! # std::fs::remove_dir_all(&directory).ok();
//! # Ok::<(), silica_sql::Failure>(())
//! ```
//!
//! [`Session`] and [`Cursor`] are the seam: `shim/silica_store.h` has the same calls for C, which
//! `ffi.rs` makes of them.
#![deny(unsafe_code)]

mod aside;
mod buffers;
mod connection;
mod cursor;
mod database;
pub mod encoding;
mod failure;
#[allow(unsafe_code)]
mod ffi;
#[allow(unsafe_code)]
mod ffi_cursor;
#[allow(unsafe_code)]
mod ffi_marker;
#[allow(unsafe_code)]
mod ffi_objects;
#[allow(unsafe_code)]
mod ffi_results;
#[allow(unsafe_code)]
mod ffi_tables;
mod in_store;
mod keyspaces;
mod last;
mod layout;
mod long_keys;
pub mod marker;
mod objects;
mod overlay;
mod pages;
mod reads;
mod registry;
mod rehearsal;
mod results;
mod spill;
#[allow(unsafe_code)]
pub mod sql;
mod stamps;
mod storage;
mod sync;
mod tables;
mod transaction;
mod view;
mod writing;

pub use connection::Connection;
pub use cursor::TreeCursor;
pub use database::Database;
pub use failure::{Failure, Result, code};
pub use keyspaces::{Keyspaces, is_database};
pub use registry::{DEFAULT_MEMORY_BYTES, KEYSPACE, Options};
pub use rehearsal::{Asked, Rehearsal};
pub use results::RESULTS_BYTES_MIN;
pub use storage::{
    Cursor, Equal, FIRST_ROOT, Found, META_CONTENT_VERSION, META_COUNT, META_DATA_VERSION, Session,
};
