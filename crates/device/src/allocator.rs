//! What the allocator keeps of memory that was freed.

/// Allocations from so many bytes on are mappings of their own, which go back when they are freed.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: usize = 256 << 10;
/// So many free bytes may stay at the end of the allocator's memory.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: usize = 1 << 20;

/// Lets large buffers go back to the system when they are freed, for the whole process. By itself
/// glibc learns from the first that is freed to keep the next ones, and their fragments stay
/// resident between longer-lived neighbours. Does nothing with other allocators.
pub fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    for (parameter, bytes) in
        [(libc::M_MMAP_THRESHOLD, LARGE_BYTES), (libc::M_TRIM_THRESHOLD, KEPT_BYTES)]
    {
        // SAFETY: mallopt only changes numbers of the allocator, under its own lock, and takes
        // any value for them.
        let taken = unsafe { libc::mallopt(parameter, bytes as libc::c_int) };
        if taken == 0 {
            log::warn!("the allocator refuses its parameter {parameter}");
        }
    }
}

/// Lets all freed memory go back to the system, for the whole process: what many small allocations
/// leave stays resident otherwise. It takes milliseconds. Does nothing with other allocators.
pub fn return_freed_memory() {
    // SAFETY: malloc_trim only gives back pages of which nothing is allocated, under the
    // allocator's own locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
