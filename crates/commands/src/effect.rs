//! What an update has done to a key.

use silica::engine::{EntryRef, Update};

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Became {
    /// It is as it was.
    #[default]
    Kept,
    /// It has a value, which may be the one that it had.
    Put,
    /// It is gone.
    Deleted,
}

/// What an update has done to a key; by default nothing to a key that was not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effect {
    /// It was there before.
    pub(crate) existed: bool,
    pub(crate) became: Became,
    /// When what was put expires, in Unix milliseconds; 0 for never.
    pub(crate) expires_unix_ms: u64,
}

impl Effect {
    /// What `update` does to a key that holds `current`.
    #[inline]
    pub(crate) fn of(current: Option<EntryRef<'_>>, update: &Update) -> Self {
        let (became, expires_unix_ms) = match update {
            Update::Keep => (Became::Kept, 0),
            Update::Delete => (Became::Deleted, 0),
            Update::Put { expires_unix_ms, .. } => (Became::Put, *expires_unix_ms),
        };
        Effect { existed: current.is_some(), became, expires_unix_ms }
    }

    /// True unless the key is as it was.
    pub(crate) fn changed(&self) -> bool {
        self.became != Became::Kept
    }
}
