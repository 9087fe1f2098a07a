//! The engine as the facade knows it.

use crate::{Mica, OPTIONS};
use silica_device::FileDevice;
use silica_engine::EngineSpec;
use std::sync::Arc;

/// MICA in memory, with an image on files at a clean close if `warm_restart` asks for one.
pub static ENGINE: EngineSpec<FileDevice> = EngineSpec::new(
    "mica",
    "A cache in memory, at two cache lines a get; empty after a crash",
    OPTIONS,
    |device, options, environment| Ok(Arc::new(Mica::open_on(device, options, environment)?)),
)
.in_memory(|options| options.value(OPTIONS, "warm_restart") == 0);
