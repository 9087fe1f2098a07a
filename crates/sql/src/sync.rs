//! What stamps need of the standard library; the model checker brings its own.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};
