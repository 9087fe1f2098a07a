//! Tells a block device that nobody needs what a range of it holds.

use crate::blocks::QueueLimits;
use silica_base::BLOCK_BYTES;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// `BLKDISCARD` of `linux/fs.h`, the same on every architecture that has the kernel's usual
/// encoding of calls. Its argument is the first byte and the number of bytes.
const BLKDISCARD: u32 = 0x1277;

/// What a block device can do with ranges that nobody needs.
#[derive(Debug)]
pub(super) struct Discards {
    /// False if the device has no use for them, or has refused one.
    is_taken: AtomicBool,
}

impl Discards {
    /// Those of the block device `path`; none of a file, whose space is to stay reserved.
    pub(super) fn of(path: &Path) -> Self {
        let most = QueueLimits::of_device(path).and_then(|all| all.number("discard_max_bytes"));
        Discards { is_taken: AtomicBool::new(most.is_some_and(|most| most > 0)) }
    }

    /// Discards the whole chunks of 4096 bytes in `range` of `file`. It is a hint: what the device
    /// refuses is not tried again.
    pub(super) fn discard(&self, file: &File, range: Range<u64>) {
        if !self.is_taken.load(Ordering::Relaxed) {
            return;
        }
        let chunk = BLOCK_BYTES as u64;
        let (from, to) = (range.start.next_multiple_of(chunk), range.end / chunk * chunk);
        if from >= to {
            return;
        }
        if let Err(error) = call(file, [from, to - from]) {
            log::warn!(
                "the drive refuses to discard what was erased, and is asked no more: {error}"
            );
            self.is_taken.store(false, Ordering::Relaxed);
        }
    }
}

fn call(file: &File, mut range: [u64; 2]) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and the call reads two u64
    // through the pointer, which is to an array of two that nobody else sees.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD as _, range.as_mut_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
