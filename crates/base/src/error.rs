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

    /// Wraps an operating-system error; a full disk becomes [`ErrorKind::Full`].
    pub fn io(context: impl Into<String>, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Full,
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        Error { kind, context: context.into(), source: Some(Box::new(source)) }
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error with `outer` put in front of its context.
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
        }
        Ok(())
    }
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
    fn context_reads_from_the_outside_in() {
        let e = Error::corruption("table 7", 4096, "checksum").within("verify");
        assert_eq!(e.to_string(), "verify: table 7 is damaged at byte 4096: checksum");
    }
}
