//! Atomics that the publish protocol is built on.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
