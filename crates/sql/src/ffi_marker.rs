//! `silica_sql_place` of `shim/silica_store.h`.

use crate::marker::{Place, PlaceOptions, Storage, place};
use silica::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

const OK: c_int = 0;
const BUSY: c_int = 5;
const IOERR: c_int = 10;
const CANTOPEN: c_int = 14;

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
    let (code, found, text) = match asked() {
        Ok(Place::Stock) => (OK, STOCK, None),
        Ok(Place::Store { directory, is_read_only }) => {
            let found = if is_read_only { READ_ONLY } else { WRITABLE };
            (OK, found, CString::new(directory.into_os_string().into_vec()).ok())
        }
        Err(error) => (code_of(&error), STOCK, CString::new(error.to_string()).ok()),
    };
    let text = text.map_or(std::ptr::null_mut(), CString::into_raw);
    // SAFETY: the caller lets all three be written.
    unsafe {
        *kind = found;
        *directory = if code == OK { text } else { std::ptr::null_mut() };
        *message = if code == OK { std::ptr::null_mut() } else { text };
    }
    code
}

fn code_of(error: &Error) -> c_int {
    match error.kind() {
        ErrorKind::Locked | ErrorKind::Busy => BUSY,
        ErrorKind::NotFound | ErrorKind::Config => CANTOPEN,
        _ if error.to_string().contains("ermission") => CANTOPEN,
        _ => IOERR,
    }
}
