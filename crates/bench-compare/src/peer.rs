//! What a store must tell to take part in a comparison.

use silica::Result;
use silica_bench::{Plan, Target};
use std::path::PathBuf;

/// Kinds of stores; a suite compares stores of one or two kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A store in this process that keeps its data on a device.
    Embedded,
    /// A table under SQL in this process, on a device.
    Sql,
    /// A table or cache in this process's memory.
    Memory,
    /// A server in a process of its own.
    Server,
}

impl Class {
    /// True for stores in this process that keep their data on a device.
    pub fn is_on_device(self) -> bool {
        matches!(self, Class::Embedded | Class::Sql)
    }
}

/// What a peer is opened for. Everybody gets the same.
#[derive(Debug, Clone)]
pub struct Setup {
    /// An empty directory, or one that the same peer filled before.
    pub directory: PathBuf,
    /// All memory that the store may use: buffers, block cache and page cache together.
    pub memory_bytes: u64,
    /// Bytes that levels 1, 2, … may have, for stores that can be told (RocksDB); the level behind
    /// them takes the rest. None: as an expert would have them.
    pub level_bytes: Vec<u64>,
    /// Which table of a level is compacted next, for stores that can be told: RocksDB's names of
    /// `compaction_pri`. `None`: as it comes.
    pub compaction_priority: Option<String>,
    /// Threads of a server that may run on every core; `None`: one, on a core of its own.
    pub server_threads: Option<usize>,
    /// Options of a store of ours, by name, beside its memory; others have none of these.
    pub set: Vec<(String, String)>,
    /// What will be done with it: sizes, keys and threads, for peers that must be told.
    pub plan: Plan,
}

/// One setting that a peer runs with, for the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The name in the peer's own interface.
    pub name: &'static str,
    /// The value, as people write it.
    pub value: String,
    /// Why an expert would choose it.
    pub why: &'static str,
}

/// What a store is called, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// The name on the command line and in the report, such as `rocksdb` or `redis:unix`.
    pub name: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
    /// Its kind.
    pub class: Class,
    /// It is another store of the list with one setting changed, such as compression.
    pub is_variant: bool,
}

impl About {
    pub(crate) const fn embedded(name: &'static str, doc: &'static str) -> Self {
        About { name, doc, class: Class::Embedded, is_variant: false }
    }

    pub(crate) const fn sql(name: &'static str, doc: &'static str) -> Self {
        About { name, doc, class: Class::Sql, is_variant: false }
    }

    pub(crate) const fn memory(name: &'static str, doc: &'static str) -> Self {
        About { name, doc, class: Class::Memory, is_variant: false }
    }

    pub(crate) const fn server(name: &'static str, doc: &'static str) -> Self {
        About { name, doc, class: Class::Server, is_variant: false }
    }

    /// Another one's store with one setting changed.
    pub(crate) const fn variant(self) -> Self {
        About { is_variant: true, ..self }
    }
}

/// A store that can be compared.
pub trait Peer: Sync {
    /// What it is called, and what it is.
    fn about(&self) -> &About;
    /// The name of [`Peer::about`].
    fn name(&self) -> &'static str {
        self.about().name
    }
    /// The line of [`Peer::about`].
    fn doc(&self) -> &'static str {
        self.about().doc
    }
    /// The kind of [`Peer::about`].
    fn class(&self) -> Class {
        self.about().class
    }
    /// True for stores of ours.
    fn is_ours(&self) -> bool {
        false
    }
    /// The version that is installed. Where none is, the error says how to install it.
    fn version(&self) -> Result<String>;
    /// The settings that [`Peer::open`] uses for `setup`, other than the peer's defaults.
    fn settings(&self, setup: &Setup) -> Vec<Setting>;
    /// Refuses a `setup` whose data the store cannot keep within its memory; the error names a
    /// size that would fit. Most stores keep to their memory whatever the data.
    fn check_room(&self, _setup: &Setup) -> Result<()> {
        Ok(())
    }
    /// Opens the store; it is closed when the target is dropped.
    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>>;
    /// Opens an empty store that is filled, settled, synced and closed before anything is measured,
    /// and that no crash need survive.
    fn open_to_fill(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        self.open(setup)
    }
}
