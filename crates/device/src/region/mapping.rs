//! Reserved addresses with a file mapped at their beginning: all of the unsafe code behind
//! [`super::FileRegion`], but for the instructions in `lines`.
//!
//! Invariants:
//!
//! 1. The addresses from `start` to `start + limit` belong to this mapping until it is dropped, and
//!    nothing else is ever mapped there. `start` is a multiple of [`HUGE_BYTES`].
//! 2. The first `bytes` of them show the file. `bytes` grows after more of the file is mapped, and
//!    shrinks before less of it is.
//! 3. Everything below a value that `bytes` ever had stays readable and writable: what was cut is
//!    private memory that no file sees. A thread that looks there, against the rules of
//!    [`super::Region::truncate`], finds zeroes or its own stores, not a signal.
//! 4. Mapped bytes are touched as atomic words only, through shared references.

use super::extent::Extent;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a huge page on all machines that we know.
pub(super) const HUGE_BYTES: u64 = 2 << 20;

/// A file that is mapped at the beginning of reserved addresses.
pub(super) struct Mapping {
    /// What the kernel gave, to be given back.
    reserved: NonNull<c_void>,
    reserved_bytes: usize,
    start: NonNull<AtomicU64>,
    /// Bytes of the file that can be mapped.
    limit: AtomicU64,
    /// Bytes of the file that are mapped.
    bytes: Extent,
    /// Extra flags of each mapping of the file.
    flags: MapFlags,
}

// SAFETY: the mapping is owned, and its bytes are touched as `AtomicU64` only, which is `Send`.
unsafe impl Send for Mapping {}
// SAFETY: as above, and `AtomicU64` is `Sync`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `most` bytes of addresses, or half as often as the kernel refuses, but no less than
    /// `least`. Nothing is mapped. `is_sync` if the file is on persistent memory and is mapped so
    /// that its lines need no help of the file system.
    pub(super) fn reserve(most: u64, least: u64, is_sync: bool) -> io::Result<Mapping> {
        let mut limit = most.max(least).next_multiple_of(HUGE_BYTES);
        loop {
            let bytes = (limit + HUGE_BYTES) as usize;
            // SAFETY: a new mapping at an address of the kernel's choice touches no memory of this
            // process.
            let reserved = unsafe {
                let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), flags)
            };
            match reserved {
                Ok(reserved) => return Ok(Mapping::at(reserved, bytes, limit, is_sync)),
                Err(e) if limit / 2 < least.max(HUGE_BYTES) => return Err(e.into()),
                Err(_) => limit = (limit / 2).next_multiple_of(HUGE_BYTES),
            }
        }
    }

    fn at(reserved: *mut c_void, reserved_bytes: usize, limit: u64, is_sync: bool) -> Mapping {
        let skipped = reserved.addr().next_multiple_of(HUGE_BYTES as usize) - reserved.addr();
        let reserved = NonNull::new(reserved).expect("a mapping is not at 0");
        // SAFETY: a huge page more than `limit` was reserved, so less than that may be skipped.
        let start = unsafe { reserved.byte_add(skipped) }.cast();
        let flags = match is_sync {
            true => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            false => MapFlags::SHARED,
        };
        let (limit, bytes) = (AtomicU64::new(limit), Extent::new(0));
        Mapping { reserved, reserved_bytes, start, limit, bytes, flags }
    }

    /// True if the kernel maps the file so that its lines need no help of the file system.
    pub(super) fn can_sync(file: &File, bytes: u64) -> bool {
        let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of this
        // process, and it is unmapped before anybody knows of it.
        unsafe {
            let nowhere = std::ptr::null_mut();
            match rustix::mm::mmap(nowhere, bytes as usize, protection, flags, file, 0) {
                Ok(mapped) => rustix::mm::munmap(mapped, bytes as usize).is_ok(),
                Err(_) => false,
            }
        }
    }

    /// Bytes of the file that can be mapped.
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Bytes of the file that are mapped.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.bytes.get()
    }

    /// Maps the file from where it is mapped so far up to `bytes`. One thread at a time.
    ///
    /// # Panics
    /// If `bytes` is less than is mapped, or over the limit.
    pub(super) fn extend(&self, file: &File, bytes: u64) -> io::Result<()> {
        let from = self.len();
        assert!(from <= bytes && bytes <= self.limit(), "{bytes} bytes cannot be mapped");
        if from == bytes {
            return Ok(());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = self.flags | MapFlags::FIXED;
        let len = (bytes - from) as usize;
        // SAFETY: these addresses are ours (invariant 1). What is mapped there now is unused, or
        // was cut and is memory that nobody relies on (invariant 3).
        let mapped = unsafe {
            let at = self.start.as_ptr().byte_add(from as usize).cast();
            rustix::mm::mmap(at, len, protection, flags, file, from)
        };
        if let Err(e) = mapped {
            // The kernel may have unmapped what was there, and then another thread's mapping may
            // have come there: these addresses are given up.
            self.limit.store(from, Ordering::Relaxed);
            return Err(e.into());
        }
        self.advise_huge_pages(from, len);
        self.bytes.set(bytes);
        Ok(())
    }

    /// Asks for huge pages, which the kernel has for some media only; nothing depends on them.
    fn advise_huge_pages(&self, from: u64, len: usize) {
        // SAFETY: the advice changes no byte.
        let advised = unsafe {
            let at = self.start.as_ptr().byte_add(from as usize).cast();
            rustix::mm::madvise(at, len, Advice::LinuxHugepage)
        };
        if let Err(e) = advised {
            log::trace!("a region has pages of the usual size: {e}");
        }
    }

    /// Shows no more than the first `bytes` of the file. One thread at a time.
    ///
    /// # Panics
    /// If fewer are mapped.
    pub(super) fn cut(&self, bytes: u64) {
        let mapped = self.len();
        assert!(bytes <= mapped, "{bytes} bytes are more than the {mapped} that are mapped");
        if bytes == mapped {
            return;
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        self.bytes.set(bytes);
        // SAFETY: these addresses are ours (invariant 1). A thread that still looks there finds
        // atomic words before and after (invariant 3).
        let replaced = unsafe {
            let at = self.start.as_ptr().byte_add(bytes as usize).cast();
            rustix::mm::mmap_anonymous(at, (mapped - bytes) as usize, protection, flags)
        };
        if let Err(e) = replaced {
            log::warn!("a region that was cut cannot grow until it is opened again: {e}");
            self.limit.store(bytes, Ordering::Relaxed);
        }
    }

    /// The word with this number.
    ///
    /// # Panics
    /// If the mapping has fewer.
    #[inline]
    pub(super) fn word(&self, number: usize) -> &AtomicU64 {
        let words = self.len() / 8;
        assert!((number as u64) < words, "word {number} is beyond {words}");
        // SAFETY: the word lies in the mapping and is aligned; invariants 3 and 4 keep it there and
        // keep everybody in this process from looking at it as anything else.
        unsafe { self.start.add(number).as_ref() }
    }

    /// The words that `len` bytes from `offset` on lie in.
    ///
    /// # Panics
    /// If they reach beyond the mapping.
    #[inline]
    pub(super) fn words(&self, offset: u64, len: usize) -> &[AtomicU64] {
        let bytes = self.len();
        let end = offset.checked_add(len as u64).filter(|end| *end <= bytes);
        let end = end.unwrap_or_else(|| panic!("{len} bytes at {offset} end beyond {bytes}"));
        let first = offset / 8;
        // SAFETY: the words lie in the mapping, whose length is a multiple of 8, and are aligned;
        // invariants 3 and 4 keep them there and keep everybody in this process from looking at
        // them as anything else.
        unsafe {
            let start = self.start.add(first as usize).as_ptr();
            std::slice::from_raw_parts(start, (end.div_ceil(8) - first) as usize)
        }
    }

    /// Asks the processor for the line at `offset`, if it is mapped.
    #[inline]
    pub(super) fn prefetch(&self, offset: u64) {
        if offset >= self.len() {
            return;
        }
        // SAFETY: the address lies in the mapping, and a prefetch changes nothing that a program
        // can see. Every processor of the architecture has it.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.start.as_ptr().byte_add(offset as usize).cast());
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            let at = self.start.as_ptr().byte_add(offset as usize);
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags));
        }
    }

    /// Waits until the medium has everything that is mapped.
    pub(super) fn sync(&self) -> io::Result<()> {
        let bytes = self.len() as usize;
        // SAFETY: the range lies in the mapping, and `msync` only reads it.
        let synced =
            unsafe { rustix::mm::msync(self.start.as_ptr().cast(), bytes, MsyncFlags::SYNC) };
        Ok(synced?)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let limit = self.limit();
        let has_given_up = limit < self.reserved_bytes as u64 - HUGE_BYTES;
        let skipped = self.start.as_ptr().addr() - self.reserved.as_ptr().addr();
        let bytes = if has_given_up { skipped + limit as usize } else { self.reserved_bytes };
        // SAFETY: these addresses are ours (invariant 1), and nothing borrows them any more.
        let unmapped = unsafe { rustix::mm::munmap(self.reserved.as_ptr(), bytes) };
        if let Err(e) = unmapped {
            log::warn!("{bytes} bytes stay mapped: {e}");
        }
    }
}

#[cfg(test)]
impl Mapping {
    /// Says that it has more than it has: a sync of it fails, and nothing else may be done with it.
    pub(super) fn pretend_to_have(&mut self, bytes: u64) {
        self.bytes.set(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn addresses_stay_while_the_file_grows_and_is_cut() {
        let file = file(3 * 4096);
        let mapping = Mapping::reserve(1 << 40, 4096, false).unwrap();
        assert_eq!((mapping.len(), mapping.limit()), (0, 1 << 40));
        mapping.extend(&file, 4096).unwrap();
        let word = mapping.word(0);
        assert!(std::ptr::from_ref(word).addr().is_multiple_of(HUGE_BYTES as usize));
        word.store(7, Ordering::Relaxed);
        mapping.extend(&file, 3 * 4096).unwrap();
        let last = mapping.word(3 * 512 - 1);
        last.store(8, Ordering::Relaxed);
        assert_eq!(word.load(Ordering::Relaxed), 7);
        // Whoever still holds a word of what was cut meets no signal, and no byte of the file.
        mapping.cut(4096);
        assert_eq!(last.load(Ordering::Relaxed), 0);
        last.store(9, Ordering::Relaxed);
        mapping.extend(&file, 3 * 4096).unwrap();
        assert_eq!(mapping.word(3 * 512 - 1).load(Ordering::Relaxed), 8);
        assert_eq!(mapping.words(4095, 2).len(), 2);
        assert_eq!(mapping.words(3 * 4096, 0).len(), 0);
    }

    #[test]
    fn fewer_addresses_are_taken_if_the_kernel_has_no_more() {
        // More than any processor addresses.
        let mapping = Mapping::reserve(1 << 60, 4096, false).unwrap();
        assert!((1 << 30..1 << 57).contains(&mapping.limit()), "{}", mapping.limit());
        drop(mapping);
        assert!(Mapping::reserve(1 << 60, 1 << 59, false).is_err());
    }

    #[test]
    fn a_file_on_a_disk_needs_the_file_system() {
        assert!(!Mapping::can_sync(&file(4096), 4096));
    }
}
