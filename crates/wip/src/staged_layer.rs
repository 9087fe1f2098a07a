//! What a transaction has put aside (`staging.rs`) is made of layers: runs of tables, and deleted
//! ranges.

use crate::deleted::DeletedRange;
use crate::run::{Part, Run};
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_parts::value_log::Kept;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Tables, and values in the value log, that go if they are not installed.
pub(crate) struct Owned<D: Device> {
    pub(crate) wip: Arc<Wip<D>>,
    pub(crate) tables: Vec<u64>,
    pub(crate) values: Kept<D::File>,
    /// They are the store's, or those of another layer.
    pub(crate) is_over: AtomicBool,
}

impl<D: Device> Drop for Owned<D> {
    fn drop(&mut self) {
        if !*self.is_over.get_mut() {
            self.tables.iter().for_each(|number| self.wip.tables.remove_table(*number));
            self.wip.values.note(&self.values.records);
        }
    }
}

/// A layer that is a run.
pub(crate) struct StagedRun<D: Device> {
    pub(crate) run: Run<D>,
    pub(crate) owners: Vec<Arc<Owned<D>>>,
    /// The last key.
    pub(crate) last: Vec<u8>,
    /// How often its entries were merged.
    pub(crate) size: u32,
}

impl<D: Device> StagedRun<D> {
    pub(crate) fn filter_bytes(&self) -> u64 {
        let bytes = |part: &Part<D>| part.table.table.loaded_filter_bytes() as u64;
        self.run.iter().map(bytes).sum()
    }

    /// This run without filters.
    pub(crate) fn unfiltered(&self) -> Result<Self> {
        let mut parts = Vec::with_capacity(self.run.len());
        for part in &self.run {
            let mut part = part.clone();
            part.table.table = Arc::new(part.table.table.filtered(false)?);
            parts.push(part);
        }
        let (run, owners) = (parts.into_iter().collect(), self.owners.clone());
        Ok(StagedRun { run, owners, last: self.last.clone(), size: self.size })
    }
}

/// A layer of what a transaction has put aside.
pub(crate) enum Layer<D: Device> {
    Run(Arc<StagedRun<D>>),
    Deleted(Arc<DeletedRange>),
}

impl<D: Device> Clone for Layer<D> {
    fn clone(&self) -> Self {
        match self {
            Layer::Run(run) => Layer::Run(Arc::clone(run)),
            Layer::Deleted(range) => Layer::Deleted(Arc::clone(range)),
        }
    }
}
