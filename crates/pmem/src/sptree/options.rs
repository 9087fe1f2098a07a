//! The engine's options and what is read from them.

use silica_engine::OptionKind::{Bool, Choice, Count, Size};
use silica_engine::{MEMORY_OPTION, OptionSpec, OptionValues};

const MIB: u64 = 1 << 20;

const fn switch(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind: Bool, default: 1, fixed: false, tunable: true, doc }
}

/// Every option of the engine.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: MEMORY_OPTION,
        kind: Size(MIB, 1 << 44),
        default: 256 * MIB,
        fixed: false,
        tunable: false,
        doc: "bytes of the region and of all memory beside it",
    },
    OptionSpec {
        name: "buffers",
        kind: Count(0, 100),
        default: 0,
        fixed: false,
        tunable: true,
        doc: "percent of the leaves that may have a write buffer in memory, logged in the region",
    },
    OptionSpec {
        name: "merge",
        kind: Choice(&["in-place", "out-of-place"]),
        default: 0,
        fixed: false,
        tunable: true,
        doc: "what a buffer goes to: free slots of its leaf, or a new leaf in the old one's place",
    },
    switch("filters", "keep a filter of each leaf's keys in memory, so that misses read no leaf"),
    switch("sequences", "note the order of a leaf's keys in the leaf when a range has sorted them"),
];

/// The part of the memory number that the region may take; the rest is for nodes, the top layer,
/// the allocator's book and what snapshots keep. Nodes and top layer take some 8 % of the leaves.
const REGION_PART: (u64, u64) = (7, 8);

/// What the options say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    pub(crate) memory_bytes: u64,
    pub(crate) buffers_percent: u64,
    pub(crate) merges_out_of_place: bool,
    pub(crate) has_filters: bool,
    pub(crate) has_sequences: bool,
}

impl Config {
    pub(crate) fn new(options: &OptionValues) -> Self {
        let value = |name| options.value(OPTIONS, name);
        Config {
            memory_bytes: value(MEMORY_OPTION),
            buffers_percent: value("buffers"),
            merges_out_of_place: value("merge") != 0,
            has_filters: value("filters") != 0,
            has_sequences: value("sequences") != 0,
        }
    }

    /// Bytes of the region.
    pub(crate) fn region_bytes(memory_bytes: u64) -> u64 {
        memory_bytes / REGION_PART.1 * REGION_PART.0
    }

    /// Bytes of memory that snapshots may keep.
    pub(crate) fn history_bytes(memory_bytes: u64) -> u64 {
        memory_bytes / 32
    }
}
