//! Hints that memory will be read soon.

const LINE_BYTES: usize = 64;

/// Asks the processor to fetch the cache line where `slice[index]` is, or would be; does nothing on
/// processors without such an instruction.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    prefetch_line::<true>(address(slice, index));
}

/// Asks for a line where many lines are asked for before the first of them is read: on x86-64 it
/// goes into the second-level cache, which can wait for two or three times as many as the first.
#[inline(always)]
pub fn prefetch_burst<T>(slice: &[T], index: usize) {
    prefetch_line::<false>(address(slice, index));
}

/// Asks for all lines where `value` is.
#[inline(always)]
pub fn prefetch_value<T>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for at in (0..size_of::<T>()).step_by(LINE_BYTES) {
        prefetch_line::<true>(start.wrapping_add(at));
    }
}

/// A hint needs no check: no address faults, and nothing is read from it.
#[inline(always)]
fn address<T>(slice: &[T], index: usize) -> *const u8 {
    slice.as_ptr().wrapping_add(index).cast()
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_line<const CLOSE: bool>(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
    // SAFETY: SSE is part of x86-64, and a prefetch neither faults nor changes memory.
    unsafe {
        if CLOSE {
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        } else {
            _mm_prefetch::<_MM_HINT_T1>(address.cast());
        }
    }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn prefetch_line<const CLOSE: bool>(address: *const u8) {
    // SAFETY: PRFM is a hint; it neither faults nor changes memory, registers or flags.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{0}]",
            in(reg) address,
            options(nostack, readonly, preserves_flags)
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn prefetch_line<const CLOSE: bool>(_address: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_index_is_harmless() {
        let data = [1u32, 2, 3];
        for index in [0, 2, 3, usize::MAX] {
            prefetch(&data, index);
            prefetch_burst(&data, index);
        }
        assert_eq!(data, [1, 2, 3]);
        prefetch::<u64>(&[], 0);
        prefetch_value(&[0u8; 1000]);
        prefetch_value(&());
    }
}
