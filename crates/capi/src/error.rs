//! Codes and errors, and what every exported function runs in.

use crate::raw::{self, opaque};
use silica::{ErrorKind, Result};
use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// What a call came to. Codes keep their numbers; new ones may be added.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum silica_code {
    /// It has happened.
    SILICA_OK = 0,
    /// The operating system or the device refused an operation.
    SILICA_IO = 1,
    /// Stored bytes are not what was written; the message names the file and the position.
    SILICA_CORRUPTION = 2,
    /// The device, or a limit set by the user, has no space left.
    SILICA_FULL = 3,
    /// A key, value or batch is over the engine's limit.
    SILICA_TOO_LARGE = 4,
    /// The engine or the format version cannot do this.
    SILICA_UNSUPPORTED = 5,
    /// A sync failed earlier; nothing more is accepted until the store is opened again.
    SILICA_POISONED = 6,
    /// The store was closed.
    SILICA_CLOSED = 7,
    /// An option, argument or handle is wrong; the message names the fix.
    SILICA_CONFIG = 8,
    /// Another process holds the store.
    SILICA_LOCKED = 9,
    /// A named thing does not exist.
    SILICA_NOT_FOUND = 10,
    /// A transaction met a write of somebody else; begin it anew.
    SILICA_CONFLICT = 11,
    /// The store was opened to be read only.
    SILICA_READ_ONLY = 12,
    /// Somebody else has the turn; the same call may work later.
    SILICA_BUSY = 13,
    /// What a reader of changes has not read yet is not kept any more.
    SILICA_TOO_LATE = 14,
    /// A fault of the library itself; please report it. The store may still be closed.
    SILICA_INTERNAL = 15,
}

use silica_code::*;

fn code_of(kind: ErrorKind) -> silica_code {
    match kind {
        ErrorKind::Io => SILICA_IO,
        ErrorKind::Corruption => SILICA_CORRUPTION,
        ErrorKind::Full => SILICA_FULL,
        ErrorKind::TooLarge => SILICA_TOO_LARGE,
        ErrorKind::Unsupported => SILICA_UNSUPPORTED,
        ErrorKind::Poisoned => SILICA_POISONED,
        ErrorKind::Closed => SILICA_CLOSED,
        ErrorKind::Config => SILICA_CONFIG,
        ErrorKind::Locked => SILICA_LOCKED,
        ErrorKind::NotFound => SILICA_NOT_FOUND,
        ErrorKind::Conflict => SILICA_CONFLICT,
        ErrorKind::ReadOnly => SILICA_READ_ONLY,
        ErrorKind::Busy => SILICA_BUSY,
        ErrorKind::TooLate => SILICA_TOO_LATE,
        // A kind that is newer than this list; its text says what it is.
        _ => SILICA_INTERNAL,
    }
}

/// An error of one call: its code and its text. It belongs to the thread that got it, which
/// frees it with silica_error_free.
pub struct silica_error {
    _opaque: (),
}

opaque!(silica_error, (silica_code, CString), b"SIL-ERRO", "error");

#[cold]
fn hand_over(error: *mut *mut silica_error, code: silica_code, text: &str) -> silica_code {
    let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
    if !error.is_null() {
        raw::put_if(error, raw::boxed::<silica_error>((code, text)));
    }
    code
}

/// Does `work`, and reports what it fails with: its code, and its text in `*error`.
#[inline(always)]
pub(crate) fn call(
    error: *mut *mut silica_error,
    work: impl FnOnce() -> Result<()>,
) -> silica_code {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => {
            raw::put_if(error, ptr::null_mut());
            SILICA_OK
        }
        Ok(Err(fault)) => hand_over(error, code_of(fault.kind()), &fault.to_string()),
        Err(panic) => panicked(error, &*panic),
    }
}

#[cold]
fn panicked(error: *mut *mut silica_error, panic: &(dyn std::any::Any + Send)) -> silica_code {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    let said = catch_unwind(AssertUnwindSafe(|| hand_over(error, SILICA_INTERNAL, text)));
    said.unwrap_or(SILICA_INTERNAL)
}

/// Does `work` for a function that has no code to return.
pub(crate) fn quietly<T>(otherwise: T, work: impl FnOnce() -> Result<T>) -> T {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => value,
        _ => otherwise,
    }
}

/// Returns the code of `error`; SILICA_OK for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_error_code(error: *const silica_error) -> silica_code {
    quietly(SILICA_OK, || Ok(raw::body(error)?.0))
}

/// Returns the text of `error`, which says what was being done and how to mend it. It is valid
/// until the error is freed; "" for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_error_message(error: *const silica_error) -> *const c_char {
    quietly(c"".as_ptr(), || Ok(raw::body(error)?.1.as_ptr()))
}

/// Frees `error`; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_error_free(error: *mut silica_error) {
    quietly((), || {
        raw::release(error);
        Ok(())
    });
}

/// Returns the name of a code, such as "SILICA_FULL"; "?" for a number that is no code.
#[unsafe(no_mangle)]
pub extern "C" fn silica_code_name(code: i32) -> *const c_char {
    const NAMES: [&std::ffi::CStr; 16] = [
        c"SILICA_OK",
        c"SILICA_IO",
        c"SILICA_CORRUPTION",
        c"SILICA_FULL",
        c"SILICA_TOO_LARGE",
        c"SILICA_UNSUPPORTED",
        c"SILICA_POISONED",
        c"SILICA_CLOSED",
        c"SILICA_CONFIG",
        c"SILICA_LOCKED",
        c"SILICA_NOT_FOUND",
        c"SILICA_CONFLICT",
        c"SILICA_READ_ONLY",
        c"SILICA_BUSY",
        c"SILICA_TOO_LATE",
        c"SILICA_INTERNAL",
    ];
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    name.map_or(c"?".as_ptr(), |name| name.as_ptr())
}

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn silica_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Frees memory that a call of this library returned as a value or a text; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_free(memory: *mut c_void) {
    raw::deallocate(memory);
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica::Error;

    /// What a C program would see of `work`.
    fn seen(work: impl FnOnce() -> Result<()>) -> (silica_code, String) {
        let mut error = ptr::null_mut();
        let code = call(&mut error, work);
        assert_eq!(raw::body(error).map_or(SILICA_OK, |body| body.0), code);
        let text = raw::body(error).map_or(String::new(), |body| body.1.to_string_lossy().into());
        raw::release(error);
        (code, text)
    }

    #[test]
    fn a_panic_becomes_a_code() {
        assert_eq!(seen(|| panic!("a fault of ours")), (SILICA_INTERNAL, "a fault of ours".into()));
        let number = 7;
        assert_eq!(seen(|| panic!("fault {number}")).1, "fault 7");
        assert_eq!(seen(|| std::panic::panic_any(7)), (SILICA_INTERNAL, "a panic".into()));
        assert_eq!(call(ptr::null_mut(), || panic!("nobody asks for the text")), SILICA_INTERNAL);
        assert_eq!(quietly(3, || panic!("no code to return")), 3);
    }

    #[test]
    fn an_error_keeps_its_kind_and_text() {
        let full = || Err(Error::new(ErrorKind::Full, "no room\0 left"));
        assert_eq!(seen(full), (SILICA_FULL, "no room\\0 left".into()));
        assert_eq!(seen(|| Ok(())), (SILICA_OK, String::new()));
    }
}
