//! What others need to know of an engine, as data: the one thing that a new engine hands to the
//! facade.

use crate::{
    Engine, EntryRef, Environment, MEMORY_OPTION, Metric, OptionKind, OptionSpec, OptionValues,
    Repaired,
};
use silica_base::Result;
use std::sync::Arc;

/// Opens an engine on a medium of its own; creates the store if the medium is empty.
pub type Open<D> = fn(D, &OptionValues, &Environment) -> Result<Arc<dyn Engine>>;

/// Makes a store of what is intact of a damaged one, on its medium.
pub type Repair<D> = fn(D, &OptionValues, &Environment) -> Result<Repaired>;

/// Begins files for a bulk load on a device where nothing else is.
pub type Ingest<D> = fn(Arc<D>, &SortedFilesOptions) -> Box<dyn SortedFiles>;

/// How the files of a bulk load are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortedFilesOptions {
    /// Memory for what is sorted.
    pub memory_bytes: u64,
    /// A file of so many bytes is followed by another.
    pub file_bytes: u64,
    /// What tells these files from others.
    pub id: u64,
}

/// Makes files of entries, outside of a store, that a store of the engine takes in by
/// [`Ordered::ingest`](crate::Ordered::ingest). After an error nothing on the device is of any use.
pub trait SortedFiles: Send {
    /// Adds an entry. Keys may come in any order; of several entries of one key the last counts.
    ///
    /// # Errors
    /// `TooLarge` for an entry that the engine does not take; those of the device.
    fn put(&mut self, key: &[u8], entry: EntryRef<'_>) -> Result<()>;

    /// Makes the files. `progress` is told of entries that are in them and of all that came.
    ///
    /// # Errors
    /// Those of the device.
    fn finish(self: Box<Self>, progress: &mut dyn FnMut(u64, u64)) -> Result<SortedFilesMade>;
}

/// The files of a bulk load.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SortedFilesMade {
    /// Their names on the device, in the order of their keys; none if there was no entry.
    pub names: Vec<String>,
    /// Entries in them.
    pub entries: u64,
}

/// Where an engine keeps its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Files, from its creation on.
    Files,
    /// Memory that is mapped from a file of its own, from its creation on.
    Region,
    /// Memory; files only if its options ask for an image at a clean close.
    Memory,
}

/// An engine: its name, its options, and how it is opened and repaired on a medium `D`.
pub struct EngineSpec<D: 'static> {
    /// The name that users write.
    pub name: &'static str,
    /// What the engine is for, in one line.
    pub doc: &'static str,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// What it reports besides [`crate::COMMON_METRICS`].
    pub metrics: &'static [Metric],
    /// Where its entries are.
    pub medium: Medium,
    /// True if a clean close of an engine with these options leaves nothing for its next opening.
    pub forgets: fn(&OptionValues) -> bool,
    /// Opens it.
    pub open: Open<D>,
    /// Repairs it, if the engine can.
    pub repair: Option<Repair<D>>,
    /// True if the files on a medium are this engine's; `None` if it cannot tell.
    pub made: Option<fn(&D) -> Result<bool>>,
    /// Makes files for a bulk load, if stores of the engine take such files in.
    pub ingest: Option<Ingest<D>>,
}

impl<D> Clone for EngineSpec<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for EngineSpec<D> {}

impl<D> EngineSpec<D> {
    /// An engine of files that forgets nothing and cannot be repaired.
    pub const fn new(
        name: &'static str,
        doc: &'static str,
        options: &'static [OptionSpec],
        open: Open<D>,
    ) -> Self {
        let (medium, forgets) = (Medium::Files, never as fn(&OptionValues) -> bool);
        let (metrics, repair, made, ingest) = (&[], None, None, None);
        EngineSpec { name, doc, options, metrics, medium, forgets, open, repair, made, ingest }
    }

    /// The memory number next to `bytes` that the engine takes; `None` if it has none.
    pub fn memory_within(&self, bytes: u64) -> Option<u64> {
        match self.options.iter().find(|spec| spec.name == MEMORY_OPTION)?.kind {
            OptionKind::Size(low, high) => Some(bytes.clamp(low, high)),
            _ => None,
        }
    }

    /// The engine with a repair, which knows its own files.
    #[must_use]
    pub const fn with_repair(self, repair: Repair<D>, made: fn(&D) -> Result<bool>) -> Self {
        EngineSpec { repair: Some(repair), made: Some(made), ..self }
    }

    /// The engine with bulk loads, whose files `ingest` makes.
    #[must_use]
    pub const fn with_ingest(self, ingest: Ingest<D>) -> Self {
        EngineSpec { ingest: Some(ingest), ..self }
    }

    /// The engine with metrics of its own.
    #[must_use]
    pub const fn with_metrics(self, metrics: &'static [Metric]) -> Self {
        EngineSpec { metrics, ..self }
    }

    /// The engine in a region.
    #[must_use]
    pub const fn in_region(self) -> Self {
        EngineSpec { medium: Medium::Region, ..self }
    }

    /// The engine in memory; `forgets` says whether these options leave no image at a clean close.
    #[must_use]
    pub const fn in_memory(self, forgets: fn(&OptionValues) -> bool) -> Self {
        EngineSpec { medium: Medium::Memory, forgets, ..self }
    }
}

fn never(_: &OptionValues) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(_: (), _: &OptionValues, _: &Environment) -> Result<Arc<dyn Engine>> {
        Err(silica_base::Error::new(silica_base::ErrorKind::Unsupported, "nobody opens it"))
    }

    const MEMORY: &[OptionSpec] = &[OptionSpec {
        name: MEMORY_OPTION,
        kind: OptionKind::Size(100, 200),
        default: 150,
        fixed: false,
        tunable: false,
        doc: "memory",
    }];

    #[test]
    fn memory_is_brought_within_what_an_engine_takes() {
        let spec = EngineSpec::new("some", "", MEMORY, open as Open<()>);
        let within = [1, 120, 900].map(|bytes| spec.memory_within(bytes));
        assert_eq!(within, [Some(100), Some(120), Some(200)]);
        assert_eq!(EngineSpec::new("none", "", &[], open as Open<()>).memory_within(1), None);
        let mut values = OptionValues::default();
        assert_eq!(values.memory_bytes(), None);
        assert_eq!(values.set_memory_bytes(7).memory_bytes(), Some(7));
    }
}
