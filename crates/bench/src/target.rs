//! What the driver drives: Silica's engines, and anything else that keeps keys and values.

use crate::memory::Process;
use silica::{Durability, MetricsMap, Result};

/// What a target can do beside gets and puts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities {
    /// [`Session::scan`] in the order of the keys.
    pub scan: bool,
    /// [`Session::delete_many`].
    pub delete: bool,
    /// What is put may be gone when it is asked for: a cache. Misses are counted, and are no
    /// wrong answers.
    pub lossy: bool,
}

/// A store under test. Its threads each open a session.
pub trait Target: Send + Sync {
    /// What it can do.
    fn abilities(&self) -> Abilities;
    /// What one thread uses: a connection, a transaction environment, or the store itself.
    /// Writes of the session are as durable as `durability` says.
    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>>;
    /// Waits until no background work is left.
    fn settle(&self) -> Result<()>;
    /// Waits until what is to be flushed or compacted by now is; what is in memory stays there.
    /// Stores that do that work themselves before they take more have nothing to wait for.
    fn catch_up(&self) -> Result<()> {
        Ok(())
    }
    /// Makes everything written survive a power cut, where the store can.
    fn sync(&self) -> Result<()>;
    /// The counters it has, by the names that Silica's engines use for the same thing.
    fn metrics(&self) -> Result<MetricsMap>;
    /// The process that keeps the data, whose memory and reads and writes are the store's.
    fn process(&self) -> Process {
        Process::This
    }
}

/// What one thread does with a store. Calls do not allocate where the store's own interface does
/// not make them.
pub trait Session {
    /// Looks up `keys`, and tells `sink` of those found.
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()>;
    /// Puts all entries (key, value), as one batch where the store knows batches.
    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()>;
    /// Removes all `keys`.
    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()>;
    /// Calls `entry` with up to `count` entries (key, value) in the order of the keys, the first
    /// at or behind `from`.
    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()>;
}

/// Receives the answers of [`Session::get_many`].
pub trait Sink {
    /// The key at `index` has this value, borrowed during the call.
    fn found(&mut self, index: usize, value: &[u8]);
}

/// Makes a vector of other borrows from the allocation of `vec`, whose items are forgotten.
pub fn recycled<T, U>(mut vec: Vec<T>) -> Vec<U> {
    vec.clear();
    // Collecting an empty iterator of items of the same layout keeps the allocation.
    vec.into_iter().map(|_| unreachable!("the vector is empty")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycling_keeps_the_allocation() {
        let mut keys: Vec<&[u8]> = Vec::with_capacity(32);
        keys.push(b"key");
        let place = keys.as_ptr() as usize;
        let next: Vec<&[u8]> = recycled(keys);
        assert_eq!((next.len(), next.capacity(), next.as_ptr() as usize), (0, 32, place));
    }
}
