//! `silica_sql_place` of `shim/silica_store.h`.

use crate::failure::{Failure, code};
use crate::marker::{Place, PlaceOptions, Storage, place};
use silica::{Error, Result};
use std::error::Error as _;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

const STOCK: c_int = 0;
const WRITABLE: c_int = 1;
const READ_ONLY: c_int = 2;

/// See `shim/silica_store.h`.
///
/// # Safety
/// `path` is a C string, `choice` one or null; `kind`, `directory` and `message` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_place(
    path: *const c_char,
    read_only: c_int,
    may_create: c_int,
    choice: *const c_char,
    must_be_stock: c_int,
    kind: *mut c_int,
    directory: *mut *mut c_char,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller gives C strings.
    let (path, choice) = unsafe {
        let choice = (!choice.is_null()).then(|| CStr::from_ptr(choice));
        (CStr::from_ptr(path), choice)
    };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let asked = || -> Result<Place> {
        let choice = choice.map(|name| Storage::of_name(&name.to_string_lossy())).transpose()?;
        let options = PlaceOptions {
            is_read_only: read_only != 0,
            may_create: may_create != 0,
            choice,
            must_be_stock: must_be_stock != 0,
        };
        place(path, options)
    };
    let (result, found, text) = match asked() {
        Ok(Place::Stock) => (code::OK, STOCK, None),
        Ok(Place::Store { directory, is_read_only }) => {
            let found = if is_read_only { READ_ONLY } else { WRITABLE };
            (code::OK, found, CString::new(directory.into_os_string().into_vec()).ok())
        }
        Err(error) => (code_of(&error), STOCK, CString::new(error.to_string()).ok()),
    };
    let text = text.map_or(std::ptr::null_mut(), CString::into_raw);
    // SAFETY: the caller lets all three be written.
    unsafe {
        *kind = found;
        *directory = if result == code::OK { text } else { std::ptr::null_mut() };
        *message = if result == code::OK { std::ptr::null_mut() } else { text };
    }
    result
}

fn code_of(error: &Error) -> c_int {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    match source.map(io::Error::kind) {
        // As of a file of SQLite's that may not be opened.
        Some(io::ErrorKind::PermissionDenied) => code::CANTOPEN,
        _ => Failure::of_opening(error).code,
    }
}
