//! Batches of writes.
//!
//! A batch locks the partitions of its keys, turns readers of their buckets away, writes, and lets
//! readers in again: nobody sees a part of what a batch does to a key, and writers see all of a
//! batch or nothing.

use crate::mica::{Mica, at_most};
use crate::partition::Probe;
use silica_base::Result;
use silica_engine::{Op, OpKind};

/// Operations whose buckets and entries are on their way at the same time.
const WINDOW: usize = 32;

impl Mica {
    /// Applies `ops`, which have `bytes_max` bytes at most.
    pub(crate) fn apply(&self, ops: &[Op<'_>], bytes_max: usize) -> Result<()> {
        let mut bytes = 0;
        for op in ops {
            let value = value_bytes(op);
            self.check(op.key.len(), value)?;
            bytes += op.key.len() + value;
        }
        at_most(bytes, bytes_max, "batch")?;
        if ops.len() <= WINDOW {
            let mut probes = [Probe::default(); WINDOW];
            self.apply_checked(ops, &mut probes[..ops.len()])
        } else {
            self.apply_checked(ops, &mut vec![Probe::default(); ops.len()])
        }
    }

    fn apply_checked(&self, ops: &[Op<'_>], probes: &mut [Probe]) -> Result<()> {
        let mut mask = 0;
        for (op, probe) in ops.iter().zip(&mut *probes) {
            *probe = self.probe(op.key);
            mask |= 1 << probe.partition;
        }
        probes.iter().take(WINDOW).for_each(|p| self.partition(p).prefetch_bucket(p));
        let _locked = self.lock(mask)?;
        self.apply_locked(ops, probes);
        Ok(())
    }

    /// Applies operations to partitions that the caller has locked or owns.
    pub(crate) fn apply_locked(&self, ops: &[Op<'_>], probes: &[Probe]) {
        let rules = self.rules();
        for (number, (ops, window)) in ops.chunks(WINDOW).zip(probes.chunks(WINDOW)).enumerate() {
            for probe in window {
                let partition = self.partition(probe);
                partition.begin(probe.bucket);
                partition.prefetch_item(&mut partition.sought(probe));
            }
            let after = (number + 1) * WINDOW;
            let next = probes.get(after..).unwrap_or_default().iter().take(WINDOW);
            next.for_each(|p| self.partition(p).prefetch_bucket(p));
            for (op, probe) in ops.iter().zip(window) {
                let partition = self.partition(probe);
                match &op.kind {
                    OpKind::Put(entry) => partition.put(probe, op.key, entry, &rules),
                    OpKind::Delete => partition.delete(probe, op.key),
                }
            }
        }
        probes.iter().for_each(|p| self.partition(p).end(p.bucket));
    }
}

pub(crate) fn value_bytes(op: &Op<'_>) -> usize {
    match op.kind {
        OpKind::Put(entry) => entry.value.len(),
        OpKind::Delete => 0,
    }
}
