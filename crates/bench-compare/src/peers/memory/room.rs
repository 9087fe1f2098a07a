//! What a table that nothing bounds needs for the keys of a run.

use crate::peer::Setup;
use silica::{Error, ErrorKind, Result};
use silica_bench::Plan;

/// Key and value as boxed slices, and the byte that stands for them in a table's directory.
const SLOT_BYTES: u64 = 33;
/// Tables fill seven slots of eight.
const FILLED: (u64, u64) = (7, 8);
/// Keys are not spread evenly over shards: one that would overflow has twice the slots.
const UNEVEN: (u64, u64) = (11, 10);

/// Bytes of the allocator's block for `bytes`: with its head, a multiple of 16, 32 at least.
fn block_bytes(bytes: f64) -> f64 {
    (((bytes + 8.0) / 16.0).ceil() * 16.0).max(32.0)
}

/// The most keys that are there at any time.
fn keys_max(plan: &Plan) -> u64 {
    let inserts = plan.operations * u64::from(plan.workload.inserts) / 100;
    if plan.workload.is_fill() { inserts.min(plan.keys) } else { plan.keys + inserts }
}

/// Bytes for `keys` entries of the plan: a table whose slots are a power of two, and two
/// allocations for each entry.
fn needed_bytes(plan: &Plan, keys: u64) -> u64 {
    let slots = (keys * FILLED.1 * UNEVEN.0 / (FILLED.0 * UNEVEN.1)).next_power_of_two();
    let values = plan.workload.sizes.mean_bytes(plan.shape.value_bytes);
    let entry = block_bytes(plan.shape.key_bytes as f64) + block_bytes(values);
    slots * SLOT_BYTES + (keys as f64 * entry) as u64
}

/// Refuses what does not fit into the setup's memory.
pub(super) fn check(name: &str, setup: &Setup) -> Result<()> {
    let (plan, memory) = (&setup.plan, setup.memory_bytes);
    let keys = keys_max(plan);
    let needed = needed_bytes(plan, keys);
    if needed <= memory {
        return Ok(());
    }
    // The largest number that fits lies below.
    let (mut fits, mut too_many) = (0, keys);
    while too_many - fits > 1 {
        let middle = fits + (too_many - fits) / 2;
        if needed_bytes(plan, middle) <= memory { fits = middle } else { too_many = middle }
    }
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let message = format!(
        "{name} forgets nothing and keeps to no bound: {keys} keys need about {} MiB of memory and \
         {} are given; --keys {fits} or --memory {}MiB would fit",
        mib(needed),
        mib(memory),
        mib(needed)
    );
    Err(Error::new(ErrorKind::Full, message))
}
