//! Simulated queues of reads.

use super::SimFile;
use super::world::World;
use crate::{DeviceFile, READS_MAX, Read, ReadQueue};
use silica_base::Result;
use std::sync::Arc;

/// A queue of reads from a [`super::SimDevice`]. The seed decides the order in which they end.
pub struct SimReads<T> {
    world: Arc<World>,
    depth: usize,
    under_way: Vec<Read<T>>,
}

impl<T> SimReads<T> {
    pub(super) fn new(world: Arc<World>, depth: usize) -> Self {
        SimReads { world, depth: depth.clamp(1, READS_MAX), under_way: Vec::new() }
    }
}

impl<T: AsRef<SimFile>> ReadQueue<T> for SimReads<T> {
    fn push(&mut self, read: Read<T>) {
        assert!(!self.is_full(), "a read is pushed to a full queue");
        read.of.as_ref().check_alignment(read.offset, &read.buf);
        self.under_way.push(read);
    }

    fn pop(&mut self) -> Option<(Read<T>, Result<usize>)> {
        let count = self.under_way.len() as u64;
        if count == 0 {
            return None;
        }
        let chosen = {
            let mut state = self.world.0.lock().expect("no panic while locked");
            state.reads_rng.below(count)
        };
        let mut read = self.under_way.swap_remove(chosen as usize);
        let result = read.of.as_ref().read_at(read.offset, &mut read.buf);
        Some((read, result))
    }

    fn len(&self) -> usize {
        self.under_way.len()
    }

    fn is_full(&self) -> bool {
        self.len() >= self.depth
    }
}
