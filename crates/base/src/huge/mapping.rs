//! A mapping of anonymous memory that starts at a huge page.

#[cfg(target_os = "linux")]
mod reserved;

use memmap2::{MmapOptions, MmapRaw};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Bytes of a huge page.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;
/// The largest plain page that a kernel may have; parts of a mapping that are discarded are made
/// of whole ones.
pub(super) const PLAIN_PAGE_BYTES_MAX: usize = 64 << 10;

/// Zeroed memory of its own, aligned to [`HUGE_PAGE_BYTES`].
pub(super) struct Mapping {
    memory: MmapRaw,
    start: NonNull<u8>,
    bytes: usize,
    /// Its first so many bytes are in pages that the system has reserved.
    reserved_bytes: usize,
}

// SAFETY: a mapping is only an address range that it owns; memory is accessed by those it is
// handed out to.
unsafe impl Send for Mapping {}
// SAFETY: as above; all methods of a shared mapping are either pure or `unsafe`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes`, the first `huge_bytes` of them in huge pages where the kernel has any.
    pub(super) fn new(bytes: usize, huge_bytes: usize) -> Option<Self> {
        // A kernel aligns mappings as it likes. The pages around the aligned part are never
        // touched, so they cost addresses but no memory.
        let whole = bytes.checked_add(HUGE_PAGE_BYTES)?;
        let memory = MmapRaw::from(MmapOptions::new().len(whole).map_anon().ok()?);
        let skipped = memory.as_mut_ptr().align_offset(HUGE_PAGE_BYTES);
        debug_assert!(skipped < HUGE_PAGE_BYTES);
        let start = NonNull::new(memory.as_mut_ptr().wrapping_add(skipped))?;
        if huge_bytes > 0 && !super::ONLY_PLAIN.load(Ordering::Relaxed) {
            advise_huge(&memory, skipped, huge_bytes.min(bytes));
        }
        Some(Mapping { memory, start, bytes, reserved_bytes: 0 })
    }

    /// Maps `bytes`, the whole huge pages among them out of those that the system has reserved, and
    /// holds these at once; `None` where it has too few, or does not let this process have them.
    #[cfg(target_os = "linux")]
    pub(super) fn reserved(bytes: usize) -> Option<Self> {
        let reserved_bytes = bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if !reserved::has(reserved_bytes) {
            return None;
        }
        let Mapping { memory, start, .. } = Mapping::new(bytes, 0)?;
        let skipped = start.as_ptr() as usize - memory.as_mut_ptr() as usize;
        let memory = reserved::put_into(memory, skipped, reserved_bytes)?;
        Some(Mapping { memory, start, bytes, reserved_bytes })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn reserved(_bytes: usize) -> Option<Self> {
        None
    }

    /// So many bytes, the first ones, are in pages that the system has reserved.
    pub(super) fn reserved_bytes(&self) -> usize {
        self.reserved_bytes
    }

    /// The first byte.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the bytes of `range` zero by giving the memory back; it is held again once used.
    ///
    /// # Safety
    ///
    /// `range` lies in the mapping, its borders are multiples of [`PLAIN_PAGE_BYTES_MAX`], and
    /// nothing refers to its bytes.
    pub(super) unsafe fn discard(&self, range: Range<usize>) {
        // SAFETY: the caller's promise is that of `discard_pages` and of `clear`.
        unsafe {
            if !self.try_discard(range.clone()) {
                self.clear(range);
            }
        }
    }

    /// Gives memory back, except that bytes stay where the kernel refuses, and in reserved pages:
    /// false.
    ///
    /// What is given back of these is no gain to others, as it stays reserved; and before Linux
    /// 6.10 it does not, so that somebody else may take it and the next write end the process.
    ///
    /// # Safety
    ///
    /// `range` lies in the mapping, its borders are multiples of [`PLAIN_PAGE_BYTES_MAX`], and
    /// whoever refers to its bytes may find them zero.
    pub(super) unsafe fn try_discard(&self, range: Range<usize>) -> bool {
        if range.start < self.reserved_bytes {
            return false;
        }
        let skipped = self.start.as_ptr() as usize - self.memory.as_mut_ptr() as usize;
        // SAFETY: the caller's promise is that of `discard_pages`.
        unsafe { discard_pages(&self.memory, skipped + range.start, range.len()) }
    }

    /// Writes zeroes.
    ///
    /// # Safety
    ///
    /// `range` lies in the mapping, and nothing refers to its bytes.
    pub(super) unsafe fn clear(&self, range: Range<usize>) {
        debug_assert!(range.start <= range.end && range.end <= self.bytes);
        // SAFETY: the range lies in the mapping, which is writable, and the caller promises that
        // the bytes are nobody's.
        unsafe { self.start.as_ptr().add(range.start).write_bytes(0, range.len()) }
    }
}

/// Asks for huge pages. Failure (a kernel built without them) leaves plain ones.
#[cfg(target_os = "linux")]
fn advise_huge(memory: &MmapRaw, offset: usize, bytes: usize) {
    let _ = memory.advise_range(memmap2::Advice::HugePage, offset, bytes);
}

#[cfg(not(target_os = "linux"))]
fn advise_huge(_memory: &MmapRaw, _offset: usize, _bytes: usize) {}

/// Gives pages back to the kernel; false where it refuses (locked memory).
///
/// # Safety
///
/// The range lies in `memory`, consists of whole pages, and whoever refers to its bytes may find
/// them zero.
#[cfg(target_os = "linux")]
unsafe fn discard_pages(memory: &MmapRaw, offset: usize, bytes: usize) -> bool {
    // SAFETY: the pages read as zeroes from now on, which the caller allows.
    let advised =
        unsafe { memory.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, bytes) };
    advised.is_ok()
}

/// Other kernels may keep the bytes.
///
/// # Safety
///
/// None.
#[cfg(not(target_os = "linux"))]
unsafe fn discard_pages(_memory: &MmapRaw, _offset: usize, _bytes: usize) -> bool {
    false
}
