//! Writes with a placement stream (NVMe's flexible data placement): the drive keeps pages of
//! different streams in different blocks of its flash, so those that die together leave whole
//! blocks empty.
//!
//! Linux has it from 6.16 on, for block devices: `max_write_streams` says how many streams there
//! are, and io_uring takes the stream of a write. Where the number is zero, or the kernel refuses
//! such a write, pages are written as ever.

use super::QueueLimits;
use crate::files::write_in_stream;
use crate::os::write_all;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Writes with a stream, whose number is 1 or more. Returns the bytes that were written.
type WriteInStream = dyn Fn(&File, u64, &[u8], u8) -> io::Result<usize> + Send + Sync;

/// Write streams of a drive.
pub(super) struct Streams {
    /// Streams that the drive keeps apart.
    count: u16,
    write: Box<WriteInStream>,
    is_refused: AtomicBool,
    bytes: AtomicU64,
}

impl Streams {
    /// Those of the block device `path`; none of a file.
    pub(super) fn of(path: &Path) -> Self {
        let limits = QueueLimits::of_device(path);
        Self::new(limits.as_ref(), path, Box::new(write_in_stream))
    }

    /// Those of a device with these limits, written to by `write`.
    fn new(limits: Option<&QueueLimits>, path: &Path, write: Box<WriteInStream>) -> Self {
        let count = limits.and_then(QueueLimits::write_streams).unwrap_or(0);
        // A write has eight bits for its stream.
        let count = count.min(u16::from(u8::MAX));
        if count > 0 {
            log::info!("{} keeps {count} write streams apart", path.display());
        }
        Streams { count, write, is_refused: AtomicBool::new(false), bytes: AtomicU64::new(0) }
    }

    /// Streams that are kept apart.
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// Bytes that were written with a stream.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Writes all of `bytes` at `offset`. Stream 0 is no stream; others share those of the drive.
    pub(super) fn write(
        &self,
        file: &File,
        mut offset: u64,
        mut bytes: &[u8],
        stream: u16,
    ) -> io::Result<()> {
        let is_plain = |streams: &Streams| {
            stream == 0 || streams.count == 0 || streams.is_refused.load(Ordering::Relaxed)
        };
        while !is_plain(self) && !bytes.is_empty() {
            let number = 1 + ((stream - 1) % self.count) as u8;
            match (self.write)(file, offset, bytes, number) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.bytes.fetch_add(written as u64, Ordering::Relaxed);
                    (offset, bytes) = (offset + written as u64, &bytes[written..]);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if is_refusal(&e) => {
                    log::warn!("write streams are refused ({e}); pages are written without");
                    self.is_refused.store(true, Ordering::Relaxed);
                }
                Err(e) => return Err(e),
            }
        }
        write_all(file, offset, bytes)
    }
}

/// True for what a kernel says that does not know streams, or lets nobody use io_uring.
fn is_refusal(error: &io::Error) -> bool {
    let codes = [libc::EINVAL, libc::EOPNOTSUPP, libc::ENOSYS, libc::EPERM, libc::EACCES];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::sync::{Arc, Mutex};

    /// Limits of a device in a directory like sysfs.
    fn limits(root: &Path, streams: &str) -> QueueLimits {
        let queue = root.join("8:0/queue");
        std::fs::create_dir_all(&queue).unwrap();
        std::fs::write(queue.join("max_write_streams"), streams).unwrap();
        QueueLimits::numbered(root, rustix::fs::makedev(8, 0)).unwrap()
    }

    /// Streams that note the stream of each write, which takes 512 bytes at most.
    fn recorded(limits: &QueueLimits, refuses: bool) -> (Streams, Arc<Mutex<Vec<u8>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let write = move |file: &File, offset: u64, bytes: &[u8], stream: u8| {
            noted.lock().unwrap().push(stream);
            match refuses {
                true => Err(io::Error::from_raw_os_error(libc::EINVAL)),
                false => file.write_at(&bytes[..bytes.len().min(512)], offset),
            }
        };
        (Streams::new(Some(limits), "drive".as_ref(), Box::new(write)), seen)
    }

    fn written(streams: &Streams, numbers: &[u16]) -> Vec<u8> {
        let file = tempfile::tempfile().unwrap();
        for (at, number) in (0..).zip(numbers) {
            streams.write(&file, 1024 * at, &[*number as u8; 1024], *number).unwrap();
        }
        let mut bytes = vec![0; 1024 * numbers.len()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes.iter().step_by(512).copied().collect()
    }

    #[test]
    fn streams_are_those_that_the_kernel_reports() {
        let root = tempfile::tempdir().unwrap();
        let (streams, seen) = recorded(&limits(root.path(), "3\n"), false);
        assert_eq!(streams.count(), 3);
        assert_eq!(written(&streams, &[0, 1, 2, 3, 4]), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
        // Two halves each; the fourth shares the first.
        assert_eq!(*seen.lock().unwrap(), [1, 1, 2, 2, 3, 3, 1, 1]);
        assert_eq!(streams.bytes(), 4096);
    }

    #[test]
    fn nothing_changes_where_there_are_none() {
        let root = tempfile::tempdir().unwrap();
        let (streams, seen) = recorded(&limits(root.path(), "0\n"), false);
        assert_eq!(written(&streams, &[1, 2]), [1, 1, 2, 2]);
        assert_eq!((streams.count(), streams.bytes()), (0, 0));
        assert!(seen.lock().unwrap().is_empty());
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Streams::of(file.path()).count(), 0);
    }

    #[test]
    fn a_refusal_is_for_good_and_loses_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (streams, seen) = recorded(&limits(root.path(), "2\n"), true);
        assert_eq!(written(&streams, &[1, 2]), [1, 1, 2, 2]);
        assert_eq!((seen.lock().unwrap().len(), streams.bytes()), (1, 0));
    }

    /// The call itself, on a file: its kernel takes stream 0, and refuses others or does not look.
    #[test]
    fn a_write_through_the_ring_is_whole() {
        let file = tempfile::tempfile().unwrap();
        match write_in_stream(&file, 512, &[7; 1024], 0) {
            Ok(written) => {
                assert_eq!(written, 1024);
                let mut bytes = [0; 1024];
                file.read_exact_at(&mut bytes, 512).unwrap();
                assert_eq!(bytes, [7; 1024]);
            }
            Err(e) => assert!(is_refusal(&e), "{e}"),
        }
    }
}
