//! Memory: how long a read takes that nobody foresaw, and how much is copied.

use silica_base::{HugeVec, Prng};
use silica_engine::{Error, ErrorKind, Result};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Words of a line.
const LINE_WORDS: usize = 8;
/// Reads between two looks at the clock.
const STEPS: u64 = 4096;

/// Lines, each of which says which one comes next.
pub(super) struct Buffer {
    words: HugeVec<u64>,
}

impl Buffer {
    /// A chain through all lines of `bytes`, in an order that no processor foresees: one cycle
    /// (Sattolo's shuffle).
    pub(super) fn new(bytes: u64) -> Self {
        let lines = (bytes as usize / (8 * LINE_WORDS)).max(2);
        let mut words = HugeVec::<u64>::zeroed(lines * LINE_WORDS);
        let mut prng = Prng::new(5);
        for line in 0..lines {
            words[line * LINE_WORDS] = line as u64;
        }
        for line in (1..lines).rev() {
            let other = prng.below(line as u64) as usize;
            words.swap(line * LINE_WORDS, other * LINE_WORDS);
        }
        Buffer { words }
    }

    /// Reads a second, each of the line that the one before named.
    pub(super) fn dependent_reads(&self, period: Duration) -> f64 {
        let (mut line, mut done, started) = (0, 0u64, Instant::now());
        while started.elapsed() < period || done == 0 {
            for _ in 0..STEPS {
                line = self.words[line * LINE_WORDS] as usize;
            }
            done += STEPS;
        }
        black_box(line);
        done as f64 / started.elapsed().as_secs_f64()
    }

    /// Bytes copied a second from one half to the other; the chain is gone then.
    pub(super) fn copied(mut self, period: Duration) -> f64 {
        let half = self.words.len() / 2;
        let (mut done, started) = (0u64, Instant::now());
        while started.elapsed() < period || done == 0 {
            let (from, to) = self.words.split_at_mut(half);
            black_box(&mut to[..half]).copy_from_slice(from);
            done += 8 * half as u64;
        }
        done as f64 / started.elapsed().as_secs_f64()
    }
}

/// Bytes that programs could have now.
pub(super) fn available_bytes() -> Result<u64> {
    const FILE: &str = "/proc/meminfo";
    let text = std::fs::read_to_string(FILE)
        .map_err(|e| Error::io(format!("reading {FILE} for the memory there is"), e))?;
    parse(&text).ok_or_else(|| Error::new(ErrorKind::Io, format!("{FILE} names no MemAvailable")))
}

fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_leads_through_every_line() {
        let buffer = Buffer::new(64 << 10);
        let (mut line, mut met) = (0, 0);
        loop {
            line = buffer.words[line * LINE_WORDS] as usize;
            met += 1;
            if line == 0 {
                break;
            }
        }
        assert_eq!(met, (64 << 10) / 64);
    }

    #[test]
    fn memory_is_read_from_the_kernel() {
        assert_eq!(parse("MemTotal: 9 kB\nMemAvailable:   7 kB\n"), Some(7168));
        assert_eq!(parse("MemAvailable: x kB"), None);
        assert_eq!(parse(""), None);
        assert!(available_bytes().unwrap() > 0);
    }
}
