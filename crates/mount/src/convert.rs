//! The kernel's terms and the file system's.

use fuser::{Errno, FileAttr, FileType, INodeNo};
use silica_lfs::{Attributes, Fault, Ino, Kind, Time};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of the blocks in which `stat` counts.
const STAT_BYTES: u64 = 512;

pub(crate) fn errno(fault: &Fault) -> Errno {
    if let Fault::Store(error) = fault {
        log::error!("{error}");
    }
    Errno::from_i32(fault.errno())
}

pub(crate) fn time_of(moment: SystemTime) -> Time {
    match moment.duration_since(UNIX_EPOCH) {
        Ok(since) => Time { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let borrow = i64::from(before.subsec_nanos() > 0);
            Time {
                seconds: -(before.as_secs() as i64) - borrow,
                nanoseconds: (1_000_000_000 - before.subsec_nanos()) % 1_000_000_000,
            }
        }
    }
}

/// The system's time.
pub fn now() -> Time {
    time_of(SystemTime::now())
}

fn moment_of(time: Time) -> SystemTime {
    let nanoseconds = Duration::from_nanos(u64::from(time.nanoseconds));
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    match time.seconds {
        0.. => UNIX_EPOCH + whole + nanoseconds,
        _ => UNIX_EPOCH - whole + nanoseconds,
    }
}

pub(crate) fn type_of(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// The kind of what `mknod` makes; `None` for what it cannot make.
pub(crate) fn kind_of(mode: u32) -> Option<Kind> {
    Some(match mode & 0o170_000 {
        0 | 0o100_000 => Kind::File,
        0o010_000 => Kind::Fifo,
        0o140_000 => Kind::Socket,
        0o020_000 => Kind::CharDevice,
        0o060_000 => Kind::BlockDevice,
        _ => return None,
    })
}

pub(crate) fn attr(ino: Ino, of: &Attributes, pages: u64, page_bytes: usize) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size: of.size,
        blocks: pages * page_bytes as u64 / STAT_BYTES,
        atime: moment_of(of.accessed),
        mtime: moment_of(of.modified),
        ctime: moment_of(of.changed),
        crtime: moment_of(of.created),
        kind: type_of(of.kind),
        perm: of.mode as u16,
        nlink: of.links,
        uid: of.uid,
        gid: of.gid,
        rdev: of.rdev,
        blksize: page_bytes as u32,
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_before_and_after_1970_come_back() {
        for (seconds, nanoseconds) in [(0, 0), (5, 7), (-1, 0), (-1, 999_999_999), (-9, 1)] {
            let time = Time { seconds, nanoseconds };
            assert_eq!(time_of(moment_of(time)), time);
        }
    }
}
