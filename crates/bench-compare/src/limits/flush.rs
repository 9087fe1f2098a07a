//! How often a line can be stored, written back and fenced: what one durable step in persistent
//! memory costs at least.

use super::cores::{on_cores, per_second};
use super::table::Line;
use super::{Limit, LimitSetup, Reading};
use silica::{Error, ErrorKind, Result};
use silica_base::{HugeVec, Prng};

const STEPS: u64 = 256;
/// Lines that persistent memory writes together.
const GROUP_LINES: usize = 4;

/// Stores that are written back at once.
pub(super) struct MemoryFlush;

impl Limit for MemoryFlush {
    fn name(&self) -> &'static str {
        "memory-flush"
    }

    fn doc(&self) -> &'static str {
        "stores that are written back from the caches to memory and fenced, one after the other"
    }

    fn version(&self) -> Result<String> {
        Ok(format!("own probe with {}", WriteBack::find()?.name()))
    }

    fn figures(&self) -> usize {
        4
    }

    fn measure(&self, setup: &LimitSetup) -> Result<Vec<Reading>> {
        let threads = setup.threads.max(1);
        let write_back = WriteBack::find()?;
        // Each thread has at least the lines that are written together.
        let lines = (setup.bytes as usize / size_of::<Line>() / threads).max(2 * GROUP_LINES);
        let mut memory = HugeVec::<Line>::zeroed(lines * threads);
        memory.fill([1; 64]);
        let mut rate = |group: usize, next: fn(&mut Prng, usize, usize) -> usize| {
            on_cores(memory.chunks_mut(lines).collect(), |part| {
                let mut prng = Prng::new(part.as_ptr() as u64);
                let mut place = 0;
                per_second(setup.seconds, || {
                    for step in 0..STEPS {
                        place = next(&mut prng, place, part.len() / group);
                        let group = &mut part[place * group..][..group];
                        group.iter_mut().for_each(|line| line[..8].fill(step as u8));
                        write_back.perform(group);
                    }
                    STEPS
                })
            })
        };
        let random = |prng: &mut Prng, _, count: usize| prng.below(count as u64) as usize;
        let following = |_: &mut Prng, place, count| (place + 1) % count;
        let reading = |metric, value| Reading::new(metric, "1/s", value);
        Ok(vec![
            reading("same_line", rate(1, |_, _, _| 0)),
            reading("lines_in_order", rate(1, following)),
            reading("random_lines", rate(1, random)),
            reading("random_256_bytes", rate(GROUP_LINES, random)),
        ])
    }
}

/// The processor's cheapest way to write a line back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each processor has its own")]
enum WriteBack {
    /// The line stays in the cache.
    Clwb,
    /// The line leaves the cache.
    ClflushOpt,
    /// As `Clwb`, of another family of processors.
    DcCvac,
}

impl WriteBack {
    fn find() -> Result<Self> {
        Self::of_processor().ok_or_else(|| {
            let message = "the processor has no instruction that writes a line back without a \
                           fence of its own (x86-64: clwb or clflushopt; AArch64: dc cvac); \
                           measure on a machine, or let the virtual machine see a processor, \
                           that has one";
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    fn name(self) -> &'static str {
        match self {
            WriteBack::Clwb => "clwb and sfence",
            WriteBack::ClflushOpt => "clflushopt and sfence",
            WriteBack::DcCvac => "dc cvac and dsb",
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn of_processor() -> Option<Self> {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        if __cpuid(0).eax < 7 {
            return None;
        }
        let features = __cpuid_count(7, 0).ebx;
        match (features >> 24 & 1, features >> 23 & 1) {
            (1, _) => Some(WriteBack::Clwb),
            (0, 1) => Some(WriteBack::ClflushOpt),
            _ => None,
        }
    }

    /// Linux allows `dc cvac` to every program.
    #[cfg(all(target_arch = "aarch64", target_os = "linux"))]
    fn of_processor() -> Option<Self> {
        Some(WriteBack::DcCvac)
    }

    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux"))))]
    fn of_processor() -> Option<Self> {
        None
    }

    /// Writes `lines` back and waits until they are.
    #[inline(always)]
    fn perform(self, lines: &mut [Line]) {
        for line in lines.iter_mut() {
            self.write_back(line);
        }
        self.fence();
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn write_back(self, line: &mut Line) {
        use std::arch::asm;
        let line = line.as_mut_ptr();
        // SAFETY: `of_processor` found the instruction; it changes no byte of memory, and its
        // address is that of a line of ours. Memory is not declared untouched, so that the stores
        // before it stay before it.
        unsafe {
            match self {
                WriteBack::Clwb => {
                    asm!("clwb [{0}]", in(reg) line, options(nostack, preserves_flags));
                }
                _ => asm!("clflushopt [{0}]", in(reg) line, options(nostack, preserves_flags)),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn fence(self) {
        // SAFETY: SSE is part of x86-64, and a fence changes no memory.
        unsafe { std::arch::x86_64::_mm_sfence() }
    }

    #[cfg(all(target_arch = "aarch64", target_os = "linux"))]
    #[inline(always)]
    fn write_back(self, line: &mut Line) {
        let line = line.as_mut_ptr();
        // SAFETY: Linux allows the instruction to programs; it changes no byte of memory, and its
        // address is that of a line of ours.
        unsafe {
            std::arch::asm!("dc cvac, {0}", in(reg) line, options(nostack, preserves_flags));
        }
    }

    #[cfg(all(target_arch = "aarch64", target_os = "linux"))]
    #[inline(always)]
    fn fence(self) {
        // SAFETY: a barrier changes no memory.
        unsafe { std::arch::asm!("dsb sy", options(nostack, preserves_flags)) }
    }

    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux"))))]
    fn write_back(self, _line: &mut Line) {}

    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux"))))]
    fn fence(self) {}
}
