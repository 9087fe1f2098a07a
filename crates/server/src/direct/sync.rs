//! The atomics of the wake flag; a model checker's twins take their place in its tests.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};
