//! The atomics that `extent` is made of; a model checker has its own.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};
