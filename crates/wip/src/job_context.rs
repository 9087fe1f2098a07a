//! What a job works with.

use crate::contents::Contents;
use crate::memory::MemoryBudget;
use crate::run::Numbered;
use silica_device::Device;

/// What the store holds, and its memory. Nothing that decides about jobs.
pub(crate) struct JobContext<'w, D: Device> {
    pub(crate) contents: &'w Contents<D>,
    pub(crate) memory: &'w MemoryBudget,
    /// There are threads for what can wait.
    pub(crate) is_attended: bool,
}

impl<D: Device> JobContext<'_, D> {
    /// True where there were reads lately, which may find blocks in the cache.
    pub(crate) fn has_reads(&self) -> bool {
        self.memory.has_reads(&self.contents.metrics)
    }

    /// A table that was just written, without its filter where the filter would go at once.
    pub(crate) fn as_it_stays(&self, table: Numbered<D>) -> Numbered<D> {
        self.memory.as_it_stays(&self.contents.metrics, table, self.is_attended)
    }
}
