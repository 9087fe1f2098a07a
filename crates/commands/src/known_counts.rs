//! Counts of sorted sets whose elements are entries: what a rank is found by.
//!
//! An object names each of its states by a random number, so counts are right as long as the state
//! is the one that they were made of, whoever changed or replaced the object meanwhile. What is not
//! known is counted anew by whoever asks for a rank.
//!
//! A step tells the counts of the state that it is about to write: nobody finds that state without
//! them. Some states of an object are kept, as others may still work on an earlier one.

use crate::budget::{Budget, Share};
use silica_types::Counts;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// States of an object that are kept.
const STATES_MAX: usize = 8;
/// Memory of a state beside its counts, most of which it shares with the one before.
const STATE_BYTES: usize = 4 << 10;

/// The counts of the trees of an object.
pub(crate) type OfTrees = Vec<(usize, Counts)>;

#[derive(Debug, Default)]
struct Object {
    /// The last one was told last.
    states: VecDeque<(u64, OfTrees)>,
    bytes: usize,
    /// When it was asked for.
    used: u64,
}

#[derive(Debug, Default)]
struct Known {
    by_id: BTreeMap<u64, Object>,
    bytes: usize,
    uses: u64,
}

/// Counts by the ids and the states of objects.
pub(crate) struct KnownCounts {
    known: Mutex<Known>,
    share: Share,
    held_bytes_max: usize,
}

impl KnownCounts {
    /// None yet; `budget` counts what is kept, at most an eighth of it.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        let held_bytes_max = budget.max() / 8;
        KnownCounts { known: Mutex::default(), share: Share::new(budget), held_bytes_max }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts of an object in a state, as far as they are known.
    pub(crate) fn get(&self, (id, state): (u64, u64)) -> OfTrees {
        let mut known = self.known();
        known.uses += 1;
        let uses = known.uses;
        let Some(object) = known.by_id.get_mut(&id) else { return Vec::new() };
        object.used = uses;
        let found = object.states.iter().rev().find(|(own, _)| *own == state);
        found.map(|(_, counts)| counts.clone()).unwrap_or_default()
    }

    /// An object has these counts in a state.
    pub(crate) fn put(&self, (id, state): (u64, u64), counts: OfTrees) {
        let mut known = self.known();
        known.uses += 1;
        let uses = known.uses;
        let object = known.by_id.entry(id).or_default();
        object.states.retain(|(own, _)| *own != state);
        if object.states.len() == STATES_MAX {
            object.states.pop_front();
        }
        let bytes: usize = counts.iter().map(|(_, counts)| counts.held_bytes()).sum();
        object.states.push_back((state, counts));
        let now = bytes + object.states.len() * STATE_BYTES;
        let before = std::mem::replace(&mut object.bytes, now);
        object.used = uses;
        known.bytes = known.bytes - before + now;
        while known.bytes > self.held_bytes_max {
            let oldest = known.by_id.iter().min_by_key(|(_, object)| object.used);
            let Some(id) = oldest.map(|(id, _)| *id) else { break };
            known.bytes -= known.by_id.remove(&id).map_or(0, |object| object.bytes);
        }
        let (held, now) = (self.share.bytes(), known.bytes);
        match now.checked_sub(held) {
            Some(more) => self.share.force(more),
            None => self.share.shrink(held - now),
        }
    }

    /// The object is not, and will not be, in a state.
    pub(crate) fn forget(&self, (id, state): (u64, u64)) {
        let mut known = self.known();
        if let Some(object) = known.by_id.get_mut(&id) {
            object.states.retain(|(own, _)| *own != state);
        }
    }
}
