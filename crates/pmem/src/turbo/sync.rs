//! The atomics of the protocol; a model checker's twins take their place in its tests.

pub(super) use std::sync::atomic::{AtomicU16, Ordering, fence};
