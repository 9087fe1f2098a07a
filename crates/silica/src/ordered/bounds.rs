//! What can be given as a range of keys.

use silica_engine::KeyRange;
use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys: Rust's own ranges of anything that is bytes (`"a".."b"`, `..`), or a
/// [`KeyRange`], which also knows prefixes.
pub trait Bounds {
    /// The range.
    fn key_range(&self) -> KeyRange;
}

impl Bounds for KeyRange {
    fn key_range(&self) -> KeyRange {
        self.clone()
    }
}

impl<B: Bounds> Bounds for &B {
    fn key_range(&self) -> KeyRange {
        (**self).key_range()
    }
}

impl Bounds for RangeFull {
    fn key_range(&self) -> KeyRange {
        KeyRange::ALL
    }
}

/// The ranges with bounds are all alike.
macro_rules! bounded {
    ($($range:ident),*) => {$(
        impl<K: AsRef<[u8]>> Bounds for $range<K> {
            fn key_range(&self) -> KeyRange {
                let own = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
                KeyRange { lower: own(self.start_bound()), upper: own(self.end_bound()) }
            }
        }
    )*};
}

bounded!(Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive);
