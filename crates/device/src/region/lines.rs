//! How this processor writes lines back to memory.
//!
//! The instruction is chosen by the processor's own bits, never by its vendor. They differ in
//! cost, not in effect: `clwb` may keep the line in the cache, `clflushopt` drops it, `clflush`
//! waits for the one before it, and `dc cvap` is the first one's like on aarch64. Where memory is
//! not persistent, nothing is to be written back, and the twin of all of them does nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// An instruction that writes a line back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteBack {
    /// None: a fence orders, and that is all.
    Nothing,
    /// `clwb`.
    #[cfg(target_arch = "x86_64")]
    Clwb,
    /// `clflushopt`.
    #[cfg(target_arch = "x86_64")]
    ClflushOpt,
    /// `clflush`, which every processor of the architecture has.
    #[cfg(target_arch = "x86_64")]
    Clflush,
    /// `dc cvap`.
    #[cfg(target_arch = "aarch64")]
    DcCvap,
}

impl WriteBack {
    /// What this processor has, the best first.
    pub(super) fn available() -> Vec<WriteBack> {
        #[cfg(target_arch = "x86_64")]
        {
            // CPUID leaf 7, EBX: bit 23 is clflushopt, bit 24 is clwb.
            let leaves = std::arch::x86_64::__cpuid(0).eax;
            let bits = if leaves >= 7 { std::arch::x86_64::__cpuid_count(7, 0).ebx } else { 0 };
            let mut found = Vec::new();
            if bits & 1 << 24 != 0 {
                found.push(WriteBack::Clwb);
            }
            if bits & 1 << 23 != 0 {
                found.push(WriteBack::ClflushOpt);
            }
            found.push(WriteBack::Clflush);
            found
        }
        #[cfg(target_arch = "aarch64")]
        {
            match std::arch::is_aarch64_feature_detected!("dpb") {
                true => vec![WriteBack::DcCvap],
                false => Vec::new(),
            }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            Vec::new()
        }
    }

    /// Begins to write back the line that begins with `word`.
    #[inline]
    pub(super) fn line(self, word: &AtomicU64) {
        let _at = word.as_ptr();
        match self {
            WriteBack::Nothing => {}
            // SAFETY: the three instructions write a line back that may be read, which the
            // reference proves, and change no byte of it. `available` found that the processor
            // has them.
            #[cfg(target_arch = "x86_64")]
            WriteBack::Clwb => unsafe {
                std::arch::asm!("clwb [{}]", in(reg) _at, options(nostack, preserves_flags));
            },
            // SAFETY: as for `Clwb`.
            #[cfg(target_arch = "x86_64")]
            WriteBack::ClflushOpt => unsafe {
                std::arch::asm!("clflushopt [{}]", in(reg) _at, options(nostack, preserves_flags));
            },
            // SAFETY: as for `Clwb`.
            #[cfg(target_arch = "x86_64")]
            WriteBack::Clflush => unsafe {
                std::arch::asm!("clflush [{}]", in(reg) _at, options(nostack, preserves_flags));
            },
            // SAFETY: `dc cvap` cleans a line to the point of persistence and changes no byte;
            // the reference proves that it may be read, and `available` that the processor has
            // it. It is written as a system instruction, because assemblers know its name only
            // for newer architectures.
            #[cfg(target_arch = "aarch64")]
            WriteBack::DcCvap => unsafe {
                std::arch::asm!(
                    "sys #3, c7, c12, #1, {}",
                    in(reg) _at,
                    options(nostack, preserves_flags)
                );
            },
        }
    }

    /// True if this machine has stores past the cache.
    pub(super) const STREAMS: bool = cfg!(target_arch = "x86_64");

    /// Stores a word past the cache, in the machine's byte order. A fence waits for it. Where
    /// [`WriteBack::STREAMS`] is false this is a store.
    #[inline]
    pub(super) fn stream(word: &AtomicU64, value: u64) {
        #[cfg(not(target_arch = "x86_64"))]
        word.store(value, Ordering::Relaxed);
        // SAFETY: `movnti` stores one aligned word whole, as an atomic store does, into memory
        // that the reference proves may be stored to: it is an atomic, shared or not. Every
        // processor of the architecture has it.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "movnti [{}], {}",
                in(reg) word.as_ptr(),
                in(reg) value,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Waits until stores, and lines that were begun before, have left this processor: stores after
    /// it come later. Loads after it may come before.
    #[inline]
    pub(super) fn fence(self) {
        std::sync::atomic::fence(Ordering::AcqRel);
        // SAFETY: the barriers only order memory accesses of this thread.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("dsb sy", options(nostack, preserves_flags));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_streamed_are_stored_whole() {
        let word = AtomicU64::new(1);
        WriteBack::stream(&word, 0x0123_4567_89AB_CDEF);
        WriteBack::Nothing.fence();
        assert_eq!(word.load(Ordering::Relaxed), 0x0123_4567_89AB_CDEF);
    }

    #[test]
    fn every_instruction_leaves_the_bytes_as_they_are() {
        let words: Vec<AtomicU64> = (0..64).map(AtomicU64::new).collect();
        let mut found = WriteBack::available();
        #[cfg(target_arch = "x86_64")]
        assert_eq!(found.last(), Some(&WriteBack::Clflush));
        found.push(WriteBack::Nothing);
        for write_back in found {
            for word in words.iter().step_by(8) {
                write_back.line(word);
            }
            write_back.fence();
            assert!((0..).zip(&words).all(|(n, word)| word.load(Ordering::Relaxed) == n));
        }
    }
}
