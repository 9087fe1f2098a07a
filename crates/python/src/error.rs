//! Exceptions.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use silica::ErrorKind;

create_exception!(silica, Error, PyException, "What every exception of this package is.");

/// An exception class for each kind of error, and how they are found.
macro_rules! kinds {
    ($($kind:ident => $class:ident, $doc:literal;)*) => {
        $(create_exception!(silica, $class, Error, $doc);)*

        /// The exception for an error of the library.
        pub(crate) fn raise(error: silica::Error) -> PyErr {
            let text = error.to_string();
            match error.kind() {
                $(ErrorKind::$kind => $class::new_err(text),)*
                _ => Error::new_err(text),
            }
        }

        /// Adds the classes to the module.
        pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
            let py = module.py();
            module.add("Error", py.get_type::<Error>())?;
            $(module.add(stringify!($class), py.get_type::<$class>())?;)*
            Ok(())
        }
    };
}

kinds! {
    Io => IoError, "The operating system or the device refused an operation.";
    Corruption => CorruptionError, "Stored bytes are not what was written.";
    Full => FullError, "The device, or a limit set by the user, has no space left.";
    TooLarge => TooLargeError, "A key, value or batch is over the engine's limit.";
    Unsupported => UnsupportedError, "The engine or the format version cannot do this.";
    Poisoned => PoisonedError, "A sync failed earlier; open the store again.";
    Closed => ClosedError, "The store was closed.";
    Config => ConfigError, "An option or argument is wrong; the text names the fix.";
    Locked => LockedError, "Somebody else has the store open.";
    NotFound => NotFoundError, "A named thing does not exist.";
    Conflict => ConflictError, "A transaction met a write of somebody else; begin it anew.";
    ReadOnly => ReadOnlyError, "The store was opened to be read only.";
    Busy => BusyError, "Somebody else has the turn; the same call may work later.";
}

/// Calls the engine without the interpreter's lock.
pub(crate) fn call<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> silica::Result<T> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(raise)
}
