//! Huge pages that the system keeps for those who ask (`/proc/sys/vm/nr_hugepages`).
//!
//! A mapping of them is refused where too few are left, but what may still end the process is the
//! first touch: a container's limit of such pages is looked at only then. So all pages are taken
//! at once, by a call that fails instead.

use super::HUGE_PAGE_BYTES;
use memmap2::MmapRaw;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;

/// Private pages that nobody else can take any more: no `NORESERVE`.
fn flags() -> MapFlags {
    MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB
}

/// True where so many bytes of reserved pages, whole ones, are left; soon they may not be.
pub(super) fn has(bytes: usize) -> bool {
    debug_assert!(bytes.is_multiple_of(HUGE_PAGE_BYTES));
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the addresses, of which none are in use.
    let Ok(start) = (unsafe { mmap_anonymous(null_mut(), bytes, access, flags()) }) else {
        return false;
    };
    // SAFETY: mapped just now, and nobody knows of it.
    unsafe { munmap(start, bytes) }.is_ok()
}

/// Puts reserved pages into a mapping that nobody uses yet, `bytes` of them from `offset` on; both
/// are such that the pages are aligned, and the mapping has more bytes behind them.
pub(super) fn put_into(memory: MmapRaw, offset: usize, bytes: usize) -> Option<MmapRaw> {
    debug_assert!(offset + bytes < memory.len());
    let memory = ManuallyDrop::new(memory);
    let whole: *mut c_void = memory.as_mut_ptr().cast();
    let start = whole.wrapping_byte_add(offset);
    // SAFETY: a part of a mapping that nobody uses.
    unsafe { munmap(start, bytes) }.ok()?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let fixed = flags() | MapFlags::FIXED_NOREPLACE;
    // SAFETY: what somebody else may have mapped there meanwhile is not replaced.
    let mapped = unsafe { mmap_anonymous(start, bytes, access, fixed) };
    if mapped.is_ok_and(|mapped| mapped == start) {
        // The mapping is whole again; where it is dropped all of it goes.
        let memory = ManuallyDrop::into_inner(memory);
        // SAFETY: writing zeroes to pages that nobody uses.
        let has_all = unsafe { madvise(start, bytes, Advice::LinuxPopulateWrite) }.is_ok();
        return has_all.then_some(memory);
    }
    let after = start.wrapping_byte_add(bytes);
    let rest = memory.len() - offset - bytes;
    // SAFETY: what is left of the mapping, on both sides of what is no longer its own, and what a
    // kernel has mapped elsewhere that does not know `FIXED_NOREPLACE`.
    unsafe {
        if let Ok(elsewhere) = mapped {
            let _ = munmap(elsewhere, bytes);
        }
        if offset > 0 {
            let _ = munmap(whole, offset);
        }
        let _ = munmap(after, rest);
    }
    None
}
