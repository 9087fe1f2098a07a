//! One error type on a shared, non-exhaustive kind.

use std::error::Error as StdError;
use std::fmt;
use std::io;

/// Result of every fallible Silica call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as far as a program can act on it.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The operating system or the device refused an operation.
    Io,
    /// Stored bytes are not what was written; the context names the file and the position.
    Corruption,
    /// The device, or a limit set by the user, has no space left.
    Full,
    /// A key, value or batch is over the engine's limit.
    TooLarge,
    /// The engine or the format version cannot do this.
    Unsupported,
    /// A sync failed earlier; nothing more is accepted until the store is reopened.
    Poisoned,
    /// The store was closed.
    Closed,
    /// An option or argument is wrong; the context names the fix.
    Config,
    /// Another process holds the store.
    Locked,
    /// A named thing does not exist.
    NotFound,
    /// A transaction met a write of somebody else; begin it anew.
    Conflict,
    /// The store was opened to be read only.
    ReadOnly,
    /// Somebody else has the turn, an exclusive transaction say; the same call may work later.
    Busy,
    /// What a reader of changes has not read yet is not kept any more; begin with a snapshot.
    TooLate,
}

/// An error: its kind, what was being done, and what caused it.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    context: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// A new error of `kind`; `context` says what was being done, where, and how to fix it.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Error { kind, context: context.into(), source: None }
    }

    /// Damage found in `what` (a file or structure) at byte `at`.
    pub fn corruption(what: impl fmt::Display, at: u64, detail: impl fmt::Display) -> Self {
        Error::new(ErrorKind::Corruption, format!("{what} is damaged at byte {at}: {detail}"))
    }

    /// Wraps an operating-system error; a full disk, or a file as large as this process may make
    /// one, becomes [`ErrorKind::Full`].
    pub fn io(context: impl Into<String>, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => ErrorKind::Full,
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        Error { kind, context: context.into(), source: Some(Box::new(source)) }
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// This error with `outer` put in front of its context.
    #[must_use]
    pub fn within(mut self, outer: impl fmt::Display) -> Self {
        self.context = format!("{outer}: {}", self.context);
        self
    }

    /// A copy without the boxed source (whose text moves into the context), for an error that
    /// must be reported to several callers.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Error::new(self.kind, self.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
            if let Some(fix) = source.downcast_ref().and_then(fix_of) {
                write!(f, "; {fix}")?;
            }
        }
        Ok(())
    }
}

/// What to do about a limit that the system has set.
fn fix_of(error: &io::Error) -> Option<&'static str> {
    // The numbers are Linux's.
    Some(match error.raw_os_error()? {
        12 => "give the process more memory (ulimit -v, vm.max_map_count), or ask for less",
        23 => "raise the system's limit of open files (sysctl fs.file-max)",
        24 => "raise the process's limit of open files (ulimit -n)",
        27 => "raise the process's limit of a file's size (ulimit -f)",
        _ => return None,
    })
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|s| s as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_its_own_kind() {
        let e = Error::io("append to log", io::Error::from_raw_os_error(28));
        assert_eq!(e.kind(), ErrorKind::Full);
    }

    #[test]
    fn limits_of_the_process_are_told_with_what_raises_them() {
        let e = Error::io("append to log", io::Error::from_raw_os_error(27));
        assert_eq!(e.kind(), ErrorKind::Full);
        for (number, fix) in [(27, "ulimit -f"), (24, "ulimit -n"), (12, "ulimit -v")] {
            let e = Error::io("open a", io::Error::from_raw_os_error(number));
            assert!(e.duplicate().to_string().contains(fix), "{e}");
        }
        let e = Error::io("open a", io::Error::from_raw_os_error(2));
        assert_eq!(e.to_string(), "open a: No such file or directory (os error 2)");
    }

    #[test]
    fn context_reads_from_the_outside_in() {
        let e = Error::corruption("table 7", 4096, "checksum").within("verify");
        assert_eq!(e.to_string(), "verify: table 7 is damaged at byte 4096: checksum");
    }
}
