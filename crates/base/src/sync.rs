//! What threads share; a model checker's twins take their place in its tests.

pub(crate) use crate::fences::{heavy_fence, light_fence, prepare_fences};
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use std::sync::{Arc, Mutex};
pub(crate) use std::sync::{RwLock, RwLockReadGuard as ReadGuard, RwLockWriteGuard as WriteGuard};
pub(crate) use std::thread::yield_now;

/// A place that two threads use in turns.
#[derive(Debug)]
pub(crate) struct Place<T>(std::cell::UnsafeCell<T>);

impl<T> Place<T> {
    pub(crate) fn new(value: T) -> Self {
        Place(std::cell::UnsafeCell::new(value))
    }

    /// Calls `use_it` with a pointer to what is there.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, use_it: impl FnOnce(*mut T) -> R) -> R {
        use_it(self.0.get())
    }

    /// Calls `use_it` with a pointer to what is there, which others may read meanwhile.
    #[inline(always)]
    pub(crate) fn with<R>(&self, use_it: impl FnOnce(*const T) -> R) -> R {
        use_it(self.0.get())
    }
}
