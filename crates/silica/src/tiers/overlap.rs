//! How many entries there are in memory that are not behind it, by a sample.

use super::Tiers;
use super::databases::{BELIEVED_NS, SAMPLED};
use silica_base::{Prng, Result};
use silica_engine::{Engine, EntryRef, GetSink, Intent};
use std::sync::{Mutex, PoisonError};

/// The share of entries in memory that are not behind, when it was looked at last.
#[derive(Default)]
pub(super) struct Overlap(Mutex<Option<Looked>>);

#[derive(Clone, Copy)]
struct Looked {
    at_ns: u64,
    front_only: f64,
}

impl<F: Engine, B: Engine> Tiers<F, B> {
    /// The share of entries in memory that are not behind.
    pub(super) fn front_only(&self) -> Result<f64> {
        let now_ns = self.admission.now_ns();
        let mut looked = self.overlap.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Looked { at_ns, front_only }) = *looked
            && now_ns.saturating_sub(at_ns) <= BELIEVED_NS
        {
            return Ok(front_only);
        }
        let front_only = self.look(now_ns)?;
        *looked = Some(Looked { at_ns: now_ns, front_only });
        Ok(front_only)
    }

    /// Looks for some entries of memory from a place on that is chosen by the time: keys are
    /// hashed, so they are a fair sample.
    fn look(&self, now_ns: u64) -> Result<f64> {
        let front = self.front.as_scan().expect("the cache in memory has this view");
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let from = front.cursor_of(&Prng::new(now_ns).next_u64().to_le_bytes());
        let mut cursor = Some(from);
        while let Some(at) = cursor
            && keys.len() < SAMPLED
        {
            cursor = front.scan(at, SAMPLED - keys.len(), &mut |key, _| keys.push(key.to_vec()))?;
        }
        if keys.len() < SAMPLED {
            // Behind the end it goes on at the begin.
            keys.clear();
            front.scan(0, SAMPLED, &mut |key, _| keys.push(key.to_vec()))?;
        }
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut behind = Behind(0);
        self.back.get_many_with(&keys, Intent::Scan, &mut behind)?;
        let only = keys.len().saturating_sub(behind.0);
        Ok(only as f64 / keys.len().max(1) as f64)
    }
}

/// How many keys of a burst are there.
struct Behind(usize);

impl GetSink for Behind {
    fn found(&mut self, _: usize, _: EntryRef<'_>) {
        self.0 += 1;
    }
}
