//! The engine's options table.

use silica_engine::OptionKind::{Choice, Count, Size};
use silica_engine::{OptionKind, OptionSpec};

const fn spec(
    name: &'static str,
    kind: OptionKind,
    default: u64,
    tunable: bool,
    doc: &'static str,
) -> OptionSpec {
    OptionSpec { name, kind, default, fixed: false, tunable, doc }
}

/// Every option of the flash cache.
pub const OPTIONS: &[OptionSpec] = &[
    spec(
        "memory_bytes",
        Size(64 << 10, 1 << 44),
        96 << 20,
        false,
        "memory of the keyspace: slabs in memory, and the index with what is left; fixed while it \
         is open",
    ),
    spec(
        "memory_slabs",
        Count(4, 1024),
        8,
        true,
        "slabs in memory: those that are being filled and those that wait to be written",
    ),
    spec(
        "over_provisioning",
        Choice(&["static", "heuristic", "queueing"]),
        2,
        true,
        "how many blocks are kept free: a quarter; twice as many each time that they run out, and \
         a few less each time that they do not; or as many as a queue between writer and collector \
         needs at the rates that are measured (003…, equations 2.1 to 2.3)",
    ),
    spec(
        "collection",
        Choice(&["adaptive", "space", "locality"]),
        0,
        false,
        "what is collected: the emptiest slabs, whose entries are copied, while blocks are many \
         enough, and else the slabs that were used longest ago, which are dropped; only the first; \
         or only the second",
    ),
    spec(
        "wear_period",
        Count(0, 1 << 20),
        2,
        false,
        "wear is levelled each time that blocks were erased so many times on average since; 0 is \
         never",
    ),
    spec(
        "wear_percent",
        Count(1, 100),
        50,
        false,
        "when wear is levelled, blocks are collected that were erased less than this part of the \
         mean",
    ),
    spec(
        "after_power_loss",
        Choice(&["empty", "keep"]),
        0,
        false,
        "what is there if the machine was started anew without a clean stop: nothing; or what was \
         on flash, for which every delete and overwrite waits for a sync",
    ),
];

/// How many blocks are kept free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverProvisioning {
    Static,
    Heuristic,
    Queueing,
}

impl OverProvisioning {
    /// The option's value.
    pub(crate) fn new(value: u64) -> Self {
        match value {
            0 => OverProvisioning::Static,
            1 => OverProvisioning::Heuristic,
            _ => OverProvisioning::Queueing,
        }
    }
}

/// What is collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collection {
    Adaptive,
    Space,
    Locality,
}

impl Collection {
    /// The option's value.
    pub(crate) fn new(value: u64) -> Self {
        match value {
            0 => Collection::Adaptive,
            1 => Collection::Space,
            _ => Collection::Locality,
        }
    }
}
