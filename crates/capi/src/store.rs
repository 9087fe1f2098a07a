//! Stores: opening, closing, keyspaces, backup.

use crate::error::{call, silica_code, silica_error};
use crate::keyspace::silica_keyspace;
use crate::raw::{self, opaque};
use silica::{BackupKind, Durability, Error, ErrorKind, OpenOptions, Result, Silica};
use std::ffi::{c_char, c_int};
use std::fmt::Write;
use std::path::Path;

/// A write is as durable as the store was opened for.
pub const SILICA_USUAL: c_int = 0;
/// A write survives the death of the process, not a power cut.
pub const SILICA_BUFFERED: c_int = 1;
/// A write survives a power cut, too.
pub const SILICA_SYNCED: c_int = 2;

/// What `durability` says, if it says anything.
pub(crate) fn durability_of(durability: c_int) -> Result<Option<Durability>> {
    match durability {
        SILICA_USUAL => Ok(None),
        SILICA_BUFFERED => Ok(Some(Durability::Buffered)),
        SILICA_SYNCED => Ok(Some(Durability::Synced)),
        _ => {
            let message = format!(
                "no durability {durability}; use SILICA_USUAL, SILICA_BUFFERED or SILICA_SYNCED"
            );
            Err(Error::new(ErrorKind::Config, message))
        }
    }
}

/// An open store. Any number of threads may use one handle at the same time; closing it is the
/// last use.
pub struct silica_store {
    _opaque: (),
}

opaque!(silica_store, Silica, b"SIL-STOR", "store");

/// `name=value` as a pair.
fn pair(text: &str) -> Result<(&str, &str)> {
    text.split_once('=').ok_or_else(|| {
        let message = format!("option '{text}' has no value; write it as name=value");
        Error::new(ErrorKind::Config, message)
    })
}

/// The options of an array of `name=value`.
pub(crate) fn options_of(array: *const *const c_char) -> Result<OpenOptions> {
    let texts = raw::texts("option", array)?;
    texts.into_iter().try_fold(OpenOptions::new(), |options, text| {
        let (name, value) = pair(text)?;
        options.setting(name.trim(), value.trim())
    })
}

/// Opens the store in the directory `path` and writes a handle to `*store`.
///
/// `options` is an array of texts "name=value" that ends with NULL, or NULL for none:
/// memory_bytes, engine, durability (buffered, synced), create, read_only, background_threads,
/// background_bytes_per_second, log_path, workload, and every option of the engine
/// (docs/config.md). SILICA_LOCKED if another process has the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_open(
    path: *const c_char,
    options: *const *const c_char,
    store: *mut *mut silica_store,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let path = raw::text("path", path)?;
        raw::hand_out(options_of(options)?.open(path)?, store)
    })
}

/// Syncs and closes the store, and frees its handle whatever the answer; NULL is fine. Handles to
/// its keyspaces, snapshots and so on stay to be freed; their calls answer SILICA_CLOSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_close(
    store: *mut silica_store,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || if store.is_null() { Ok(()) } else { raw::take(store)?.close() })
}

/// Makes every write that returned before the call survive a power cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_sync(
    store: *const silica_store,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::body(store)?.sync())
}

/// Walks every keyspace and checks every invariant. Takes as long as reading everything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_verify(
    store: *const silica_store,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::body(store)?.verify())
}

/// Writes the names of all keyspaces and of their engines to `*text`: `name<TAB>engine` lines, to
/// be freed with silica_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_keyspaces(
    store: *const silica_store,
    text: *mut *mut c_char,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let mut lines = String::new();
        for info in raw::body(store)?.keyspaces()? {
            let _ = writeln!(lines, "{}\t{}", info.name, info.engine);
        }
        raw::hand_out_text(&lines, text)
    })
}

/// Opens the keyspace `name`, and creates it with the store's usual engine if it is missing. NULL
/// stands for the keyspace "default".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_keyspace_open(
    store: *const silica_store,
    name: *const c_char,
    keyspace: *mut *mut silica_keyspace,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let is_usual = name.is_null();
        let name = if is_usual { silica::DEFAULT_KEYSPACE } else { raw::text("name", name)? };
        raw::hand_out(raw::body(store)?.keyspace(name)?, keyspace)
    })
}

/// Opens the keyspace `name` if it is there; SILICA_NOT_FOUND if not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_keyspace_open_existing(
    store: *const silica_store,
    name: *const c_char,
    keyspace: *mut *mut silica_keyspace,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let name = raw::text("name", name)?;
        let found = raw::body(store)?.existing(name)?.ok_or_else(|| {
            let message = format!("no keyspace '{name}'; silica_keyspace_open creates one");
            Error::new(ErrorKind::NotFound, message)
        })?;
        raw::hand_out(found, keyspace)
    })
}

/// Creates the keyspace `name` with an engine and options "name=value" of it, in an array that
/// ends with NULL. SILICA_CONFIG if it exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_keyspace_create(
    store: *const silica_store,
    name: *const c_char,
    engine: *const c_char,
    options: *const *const c_char,
    keyspace: *mut *mut silica_keyspace,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let (name, engine) = (raw::text("name", name)?, raw::text("engine", engine)?);
        let options = raw::texts("option", options)?;
        let pairs = options.into_iter().map(pair).collect::<Result<Vec<_>>>()?;
        raw::hand_out(raw::body(store)?.create_keyspace(name, engine, &pairs)?, keyspace)
    })
}

/// Removes the keyspace `name` and everything in it. Handles to it answer SILICA_CLOSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_keyspace_drop(
    store: *const silica_store,
    name: *const c_char,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::body(store)?.drop_keyspace(raw::text("name", name)?))
}

/// Writes a backup of the open store into the new or empty directory `path`, which is a store
/// then. With `previous`, the directory of an earlier backup, files that did not change are linked
/// from there; NULL for none. Reads and writes go on meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_backup(
    store: *const silica_store,
    path: *const c_char,
    previous: *const c_char,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let path = raw::text("path", path)?;
        let kind = if previous.is_null() {
            BackupKind::New
        } else {
            BackupKind::Since(Path::new(raw::text("previous path", previous)?))
        };
        raw::body(store)?.backup_with(path, kind, &mut |_| Ok(())).map(drop)
    })
}

/// Brings the backup in the directory `path` up to date. Until it is, the old one is as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_backup_update(
    store: *const silica_store,
    path: *const c_char,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::body(store)?.update_backup(raw::text("path", path)?).map(drop))
}

/// Copies the backup in `backup` to the new or empty directory `path`, and checks the copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_restore(
    backup: *const c_char,
    path: *const c_char,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let (backup, path) = (raw::text("backup", backup)?, raw::text("path", path)?);
        silica::restore(backup, path, OpenOptions::new()).map(drop)
    })
}
