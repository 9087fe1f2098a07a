//! The memory number: what is allocated is counted before.

use silica_base::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of bytes, and how many of them are taken. Clones share both.
#[derive(Debug, Clone)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit_bytes: u64,
    taken: AtomicU64,
    peak: AtomicU64,
}

/// Bytes that are taken until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Reserved {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Memory {
    /// A memory number of so many bytes.
    pub fn new(limit_bytes: u64) -> Self {
        let taken = AtomicU64::new(0);
        Memory { shared: Arc::new(Shared { limit_bytes, taken, peak: AtomicU64::new(0) }) }
    }

    /// The number.
    pub fn limit_bytes(&self) -> u64 {
        self.shared.limit_bytes
    }

    /// Bytes that are not taken.
    pub fn free_bytes(&self) -> u64 {
        self.shared.limit_bytes.saturating_sub(self.shared.taken.load(Ordering::Relaxed))
    }

    /// Most bytes that were taken at one time.
    pub fn peak_bytes(&self) -> u64 {
        self.shared.peak.load(Ordering::Relaxed)
    }

    /// Takes `bytes` for `what`.
    ///
    /// # Errors
    /// `Full` if they are not free: the memory number is too small.
    pub fn take(&self, bytes: u64, what: &str) -> Result<Reserved> {
        let limit = self.shared.limit_bytes;
        let add = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.shared.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(before) => {
                self.shared.peak.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(Reserved { shared: self.shared.clone(), bytes })
            }
            Err(taken) => {
                let message = format!(
                    "{what} need {bytes} bytes, and {taken} of the memory number's {limit} are \
                     taken; give more memory (--memory)"
                );
                Err(Error::new(ErrorKind::Full, message))
            }
        }
    }

    /// Takes `bytes` if they are free.
    pub fn try_take(&self, bytes: u64) -> Option<Reserved> {
        self.take(bytes, "they").ok()
    }
}

impl Reserved {
    /// Takes `more` bytes beside those that are taken.
    ///
    /// # Errors
    /// As [`Memory::take`].
    pub fn grow(&mut self, more: u64, what: &str) -> Result<()> {
        let memory = Memory { shared: self.shared.clone() };
        let mut other = memory.take(more, what)?;
        self.bytes += std::mem::take(&mut other.bytes);
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.shared.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
