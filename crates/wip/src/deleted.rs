//! Ranges of keys that were deleted in one step.
//!
//! 1. A deleted range is one frame of the log. A version is hidden where a range that covers its
//!    key has a greater position: for a snapshot, one of those that it sees.
//! 2. Each bucket has its own list, clipped to its keys: what lies behind the bucket's floor is in
//!    its stores, what is below it (the log may be gone) in its version and in the manifest.
//! 3. A range goes with the compaction after which nobody finds a version that it hides. While it
//!    is there, versions that are newer keep their numbers, since 0 would be older.

use silica_parts::frame::Frame;
use std::sync::Arc;

/// The keys from `lower` on and before `upper`, at `position`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeletedRange {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
    pub(crate) position: u64,
}

/// Some of them, in no order.
pub(crate) type DeletedRanges = Vec<Arc<DeletedRange>>;

impl DeletedRange {
    /// What a frame of the log at `position` says.
    pub(crate) fn of(frame: &Frame<'_>, position: u64) -> Self {
        let upper = (!frame.value.is_empty()).then(|| frame.value.to_vec());
        DeletedRange { lower: frame.key.to_vec(), upper, position }
    }

    #[inline]
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        *self.lower <= *key && self.upper.as_ref().is_none_or(|upper| *key < **upper)
    }

    /// True if it is what a bucket from `lower` on and before `upper` has of all its keys.
    #[inline]
    pub(crate) fn is_all_of(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        *self.lower == *lower && self.upper.as_deref() == upper
    }

    /// What of it is in `lower..upper`.
    pub(crate) fn within(&self, lower: &[u8], upper: Option<&[u8]>) -> Option<Arc<Self>> {
        let lower = self.lower.as_slice().max(lower).to_vec();
        let upper = match (self.upper.as_deref(), upper) {
            (Some(one), Some(other)) => Some(one.min(other).to_vec()),
            (one, other) => one.or(other).map(<[u8]>::to_vec),
        };
        let is_any = upper.as_ref().is_none_or(|upper| lower < *upper);
        is_any.then(|| Arc::new(DeletedRange { lower, upper, position: self.position }))
    }
}

/// What of `ranges` is in `lower..upper`.
pub(crate) fn within(
    ranges: &[Arc<DeletedRange>],
    lower: &[u8],
    upper: Option<&[u8]>,
) -> DeletedRanges {
    ranges.iter().filter_map(|range| range.within(lower, upper)).collect()
}

/// Where the last range before position `before` is that covers `key`; 0 where none does.
#[inline]
pub(crate) fn deleted_at(ranges: &[Arc<DeletedRange>], key: &[u8], before: u64) -> u64 {
    let mut last = 0;
    for range in ranges {
        if range.position > last && range.position < before && range.covers(key) {
            last = range.position;
        }
    }
    last
}
