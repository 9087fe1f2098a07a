//! What tests of decoders need: damaged inputs, and a count of the memory that they cost.
//!
//! A decoder is tested with many [`mutated`] copies of valid encodings. It may refuse or accept
//! each, but must not panic, and must not allocate out of proportion to its input: a test binary
//! that installs [`CountingAllocator`] learns that from [`peak_allocated`].

use crate::Prng;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Numbers that stand at the borders of integer types and loops.
const BORDERS: [u64; 12] = [
    0,
    1,
    7,
    0x7F,
    0x80,
    0xFF,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    u64::MAX - 1,
    u64::MAX,
];

/// A copy of one of `corpus` (which must not be empty) with one to four changes: bits and bytes,
/// integers at the borders of their types, runs cut out, repeated, zeroed or taken from another
/// member of the corpus, a changed length.
pub fn mutated(prng: &mut Prng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let pick = |prng: &mut Prng| &corpus[prng.below(corpus.len() as u64) as usize];
    let mut bytes = pick(prng).clone();
    for _ in 0..1 + prng.below(4) {
        let len = bytes.len();
        // Formats keep what steers them at their ends.
        let at = match prng.below(4) {
            0 => prng.below(64.min(len as u64) + 1) as usize,
            1 => len - prng.below(64.min(len as u64) + 1) as usize,
            _ => prng.below(len as u64 + 1) as usize,
        };
        let run = at..(at + 1 + prng.below(16) as usize).min(len);
        match prng.below(9) {
            0 if at < len => bytes[at] ^= 1 << prng.below(8),
            1 if at < len => bytes[at] = prng.next_u64() as u8,
            2 | 3 => {
                let border = BORDERS[prng.below(BORDERS.len() as u64) as usize];
                let near = border.wrapping_add(prng.below(3)).wrapping_sub(1);
                let width = [1, 2, 4, 8][prng.below(4) as usize].min(len - at);
                bytes[at..at + width].copy_from_slice(&near.to_le_bytes()[..width]);
            }
            4 => bytes.truncate(at),
            5 => drop(bytes.drain(run)),
            6 => {
                let again = bytes[run].to_vec();
                bytes.splice(at..at, again);
            }
            7 => bytes[run].fill(0),
            _ => {
                let other = pick(prng);
                let from = prng.below(other.len() as u64 + 1) as usize;
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes
}

thread_local! {
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, which counts what each thread takes.
#[derive(Debug, Default, Clone, Copy)]
pub struct CountingAllocator;

fn count(bytes: isize) {
    // While a thread ends its counters may be gone; nobody asks for them then.
    let _ = ALLOCATED.try_with(|allocated| {
        allocated.set(allocated.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(allocated.get())));
    });
}

// SAFETY: every call goes to the system's allocator as it came; counting touches two constant-
// initialised thread-local cells and does not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(old, layout) }
    }
}

/// What `work` returns, and the bytes that this thread held at most meanwhile, beyond those it
/// held before.
///
/// # Panics
///
/// Where the binary does not use [`CountingAllocator`]: then nothing would be counted.
pub fn peak_allocated<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    PEAK.set(before);
    drop(std::hint::black_box(Box::new([0u8; 64])));
    assert!(PEAK.get() >= before + 64, "the test binary does not count its allocations");
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before) as usize)
}

/// Gives [`mutated`] copies of `corpus` to `decode`, which says whether it accepted one, and
/// returns how many it accepted and refused. Every second copy has passed through `reseal`, which
/// makes its checksums right again, so that what lies behind them is reached.
///
/// # Panics
///
/// Where `decode` panics or holds more than `overhead_bytes + 32 * input` bytes; the message has
/// the input's number: the variable `SILICA_SEED` repeats it alone.
#[allow(clippy::disallowed_methods)] // Tests have no other way to be told.
pub fn hammer(
    inputs: u64,
    overhead_bytes: usize,
    corpus: &[Vec<u8>],
    reseal: impl Fn(&mut Vec<u8>),
    mut decode: impl FnMut(&[u8]) -> bool,
) -> (u64, u64) {
    let only = std::env::var("SILICA_SEED").ok().and_then(|seed| seed.parse().ok());
    let numbers = only.map_or(0..inputs, |number: u64| number..number + 1);
    let (mut accepted, mut refused) = (0, 0);
    for number in numbers {
        let mut prng = Prng::new(number);
        let mut bytes = mutated(&mut prng, corpus);
        if number % 2 == 1 {
            reseal(&mut bytes);
        }
        let decoded = catch_unwind(AssertUnwindSafe(|| peak_allocated(|| decode(&bytes))));
        let Ok((good, peak)) = decoded else {
            panic!("input {number} of {} bytes makes the decoder panic", bytes.len())
        };
        let most = overhead_bytes + 32 * bytes.len();
        assert!(peak <= most, "input {number} of {} bytes takes {peak} bytes", bytes.len());
        *(if good { &mut accepted } else { &mut refused }) += 1;
    }
    (accepted, refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hammering_finds_panics_and_greed() {
        let corpus = vec![vec![1u8; 32]];
        let caught = |decode: fn(&[u8]) -> bool| {
            catch_unwind(|| hammer(2000, 64 << 10, &corpus, |_| (), decode)).is_err()
        };
        assert!(!caught(|bytes| bytes.len() < 32));
        assert!(caught(|bytes| bytes[0] == 1), "an empty input panics");
        assert!(caught(|bytes| {
            let len = bytes.first_chunk::<4>().map_or(0, |len| u32::from_le_bytes(*len));
            Vec::<u8>::with_capacity(len as usize % (1 << 30)).is_empty()
        }));
    }

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    #[test]
    fn peaks_are_those_of_the_thread() {
        let (len, peak) = peak_allocated(|| {
            drop(std::hint::black_box(vec![1u8; 5000]));
            let mut kept = std::hint::black_box(vec![1u8; 100]);
            kept.reserve_exact(2000);
            kept.len()
        });
        assert_eq!(len, 100);
        assert!((5000..6000).contains(&peak), "{peak} bytes");
    }

    #[test]
    fn mutations_differ_and_repeat() {
        let corpus = vec![b"some bytes of a format".to_vec(), vec![0; 100], Vec::new()];
        let all = |seed| {
            let mut prng = Prng::new(seed);
            (0..1000).map(|_| mutated(&mut prng, &corpus)).collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1));
        let mut distinct = all(1);
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 600, "{} of 1000 differ", distinct.len());
    }
}
