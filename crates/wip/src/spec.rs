//! The engine as the facade knows it.

use crate::{OPTIONS, Wip, made, repair};
use silica_device::FileDevice;
use silica_engine::EngineSpec;
use std::sync::Arc;

/// WipDB on files.
pub static ENGINE: EngineSpec<FileDevice> = EngineSpec::new(
    "wip",
    "Entries in the order of their keys, at a write amplification near 4",
    OPTIONS,
    |device, options, environment| Ok(Arc::new(Wip::open(device, options, environment)?)),
)
.with_repair(repair::<FileDevice>, made);
