//! The engine as the facade knows it.

use crate::{OPTIONS, Silt, made, repair};
use silica_device::FileDevice;
use silica_engine::EngineSpec;
use std::sync::Arc;

/// SILT on files.
pub static ENGINE: EngineSpec<FileDevice> = EngineSpec::new(
    "silt",
    "Very many small entries on flash: half a byte of memory each at 100 million",
    OPTIONS,
    |device, options, environment| Ok(Arc::new(Silt::open(device, options, environment)?)),
)
.with_repair(repair::<FileDevice>, made);
