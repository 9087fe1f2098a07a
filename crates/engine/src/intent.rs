//! What a read is for, and what an iterator is asked for.

/// What a read is for: it decides who may push what out of an engine's caches. Answers do not
/// depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Intent {
    /// Somebody waits, and what is read will likely be read again: it is kept.
    #[default]
    Foreground,
    /// Somebody goes through much that is not read again soon, an export or an analysis: what is
    /// not cached is read and not kept.
    Scan,
    /// Nobody waits: a backup, a check. As [`Intent::Scan`]; an engine may serve others first.
    Background,
}

impl Intent {
    /// True if what is read for it is to be kept in a cache.
    #[inline]
    pub fn keeps(self) -> bool {
        self == Intent::Foreground
    }
}

/// How an iterator goes through entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IterateOptions {
    /// Values are not asked for: those that an engine would have to fetch are left where they are,
    /// and [`crate::EntryIter::entry`] has a value of no meaning. Expiry and user bits are right.
    pub is_of_keys: bool,
    /// What the reads are for.
    pub intent: Intent,
}
