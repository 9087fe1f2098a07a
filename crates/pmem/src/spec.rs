//! The engines as the facade knows them.

use crate::{made_sptree, made_turbo, repair_sptree, repair_turbo, sptree, turbo};
use silica_device::FileDevice;
use silica_engine::EngineSpec;
use std::sync::Arc;

/// TurboHash, in a file of its directory that is mapped.
pub static TURBO: EngineSpec<FileDevice> = EngineSpec::new(
    "turbo",
    "A hash table in mapped memory, open in milliseconds; for tmpfs and persistent memory",
    turbo::OPTIONS,
    |place, options, environment| Ok(Arc::new(turbo::Turbo::open_on(place, options, environment)?)),
)
.in_region()
.with_metrics(turbo::METRICS)
.with_repair(repair_turbo, made_turbo);

/// SPTree, in a file of its directory that is mapped.
pub static SPTREE: EngineSpec<FileDevice> = EngineSpec::new(
    "sptree",
    "A tree in mapped memory, in the order of keys; for tmpfs and persistent memory",
    sptree::OPTIONS,
    |place, options, environment| {
        Ok(Arc::new(sptree::SpTree::open_on(&place, options, environment)?))
    },
)
.in_region()
.with_metrics(sptree::METRICS)
.with_repair(repair_sptree, made_sptree);
