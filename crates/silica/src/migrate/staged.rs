//! What a transaction puts aside in the engine of a keyspace, which another engine may follow
//! before the commit.

use silica_engine::{Result, Snapshot, StagedWrite, Staging};
use std::sync::Arc;

/// Layers of an engine whose commit takes its way by `commits`.
pub(super) struct Routed<C> {
    pub(super) inner: Box<dyn Staging>,
    pub(super) commits: C,
}

impl<C: Fn(&mut dyn Staging) -> Result<()> + Send> Staging for Routed<C> {
    fn put<'w>(
        &mut self,
        put_bytes: u64,
        writes: &mut dyn Iterator<Item = StagedWrite<'w>>,
    ) -> Result<()> {
        self.inner.put(put_bytes, writes)
    }

    fn delete_range(&mut self, lower: &[u8], upper: Option<&[u8]>) {
        self.inner.delete_range(lower, upper);
    }

    fn layers(&self) -> usize {
        self.inner.layers()
    }

    fn protect(&mut self, layers: usize) {
        self.inner.protect(layers);
    }

    fn roll_back_to(&mut self, layers: usize) {
        self.inner.roll_back_to(layers);
    }

    fn over(&self, below: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        self.inner.over(below)
    }

    fn commit(&mut self) -> Result<()> {
        (self.commits)(&mut *self.inner)
    }
}
