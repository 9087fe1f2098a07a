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

/// Every option of the MICA engine.
pub const OPTIONS: &[OptionSpec] = &[
    spec(
        "memory_bytes",
        Size(64 << 10, 1 << 44),
        256 << 20,
        false,
        "memory of the keyspace: index, log and their management; fixed while it is open",
    ),
    spec(
        "partitions",
        Count(0, 64),
        0,
        true,
        "divisions of the hash space, rounded down to a power of two; writers of one take turns. 0 \
         takes 16, or as many as have 10 MiB each",
    ),
    spec(
        "entry_bytes_mean",
        Size(1, 1 << 20),
        64,
        true,
        "bytes of key and value of the usual entry, by which memory is divided between the index \
         and the log; a store's index takes more where it needs it",
    ),
    spec(
        "eviction",
        Choice(&["fifo", "lru", "approximate-lru", "none", "second-chance", "s3-fifo"]),
        5,
        true,
        "which entries give way: the oldest; the least recently used; nearly those (an entry is \
         moved when it is used in the older half of a log that is full or nearly so); the oldest \
         that were not used since they were written or last given a second chance; or by \
         S3-FIFO, where new entries go through a small log and only those stay that were used \
         there more than once. none makes the keyspace a store: nothing gives way, and what does \
         not fit is refused",
    ),
    spec(
        "reserved_pages",
        Choice(&["off", "on"]),
        1,
        false,
        "take the memory out of the 2 MiB pages that the system has reserved \
         (/proc/sys/vm/nr_hugepages), as far as there are enough; where there are, they are held \
         from the start to the end",
    ),
    spec(
        "warm_restart",
        Choice(&["off", "on"]),
        0,
        false,
        "leave the memory's contents in the keyspace's directory at a clean stop, and take them \
         back at the next start; after a crash the keyspace is empty",
    ),
];

/// Which entries give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eviction {
    Fifo,
    Lru,
    ApproximateLru,
    /// Nothing gives way: a store.
    None,
    /// The oldest that was not used since it was appended.
    SecondChance,
    /// The oldest that was not used since, of what has proved itself in a small log.
    S3Fifo,
}

impl Eviction {
    /// The option's value.
    pub(crate) fn new(value: u64) -> Self {
        match value {
            0 => Eviction::Fifo,
            1 => Eviction::Lru,
            3 => Eviction::None,
            2 => Eviction::ApproximateLru,
            4 => Eviction::SecondChance,
            _ => Eviction::S3Fifo,
        }
    }
}
