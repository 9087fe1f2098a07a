//! What the file system refuses, in the terms of system calls.

use silica_base::{Error, ErrorKind};
use std::fmt;

/// Result of a call on the file system.
pub type LfsResult<T> = std::result::Result<T, Fault>;

/// Why a call was refused.
#[derive(Debug)]
pub enum Fault {
    /// No such file, directory or name (ENOENT).
    NotFound,
    /// The inode is gone (ESTALE).
    Stale,
    /// The name exists already (EEXIST).
    Exists,
    /// Something that has to be a directory is none (ENOTDIR).
    NotDirectory,
    /// A directory where none may be (EISDIR).
    IsDirectory,
    /// The directory has entries (ENOTEMPTY).
    NotEmpty,
    /// There is no room; deletes still work (ENOSPC).
    NoSpace,
    /// A name has more than 255 bytes (ENAMETOOLONG).
    NameTooLong,
    /// The file would be larger than a file can be (EFBIG).
    TooLarge,
    /// An argument makes no sense (EINVAL).
    Invalid,
    /// The inode has no such extended attribute (ENODATA).
    NoAttribute,
    /// There is no data behind this offset (ENXIO).
    NoData,
    /// The inode has as many links as it can have (EMLINK).
    TooManyLinks,
    /// The caller may not do this (EPERM).
    NotPermitted,
    /// The device below failed (EIO).
    Store(Error),
}

impl Fault {
    /// The number that system calls have for it on Linux.
    pub fn errno(&self) -> i32 {
        match self {
            Fault::NotPermitted => 1,
            Fault::NotFound => 2,
            Fault::Store(error) if error.kind() == ErrorKind::Full => 28,
            Fault::Store(_) => 5,
            Fault::NoData => 6,
            Fault::Exists => 17,
            Fault::NotDirectory => 20,
            Fault::IsDirectory => 21,
            Fault::Invalid => 22,
            Fault::TooLarge => 27,
            Fault::NoSpace => 28,
            Fault::TooManyLinks => 31,
            Fault::NameTooLong => 36,
            Fault::NotEmpty => 39,
            Fault::NoAttribute => 61,
            Fault::Stale => 116,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::NotFound => "no such file or directory",
            Fault::Stale => "the inode is gone",
            Fault::Exists => "the name exists",
            Fault::NotDirectory => "not a directory",
            Fault::IsDirectory => "is a directory",
            Fault::NotEmpty => "the directory has entries",
            Fault::NoSpace => "no space left on the file system; delete some files",
            Fault::NameTooLong => "a name has at most 255 bytes",
            Fault::TooLarge => "the file would be too large",
            Fault::Invalid => "the argument is not valid",
            Fault::NoAttribute => "no such extended attribute",
            Fault::NoData => "no data behind this offset",
            Fault::TooManyLinks => "too many links",
            Fault::NotPermitted => "not permitted",
            Fault::Store(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for Fault {}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Store(error)
    }
}
