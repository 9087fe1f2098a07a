//! What an update has done to a key.

use silica::engine::{EntryRef, Update};
use silica_types::{is_marked, pages_of};

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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effect {
    /// It was there before.
    pub(crate) existed: bool,
    pub(crate) became: Became,
    /// When what was put expires, in Unix milliseconds; 0 for never.
    pub(crate) expires_unix_ms: u64,
    /// The user bits of what was put.
    pub(crate) user_bits: u32,
    /// Pages that nobody owns any more: their object's id, and their end.
    pub(crate) dead: Option<(u64, u64)>,
    /// The string that was put, if replicas are told that.
    pub(crate) told: Option<Box<[u8]>>,
}

impl Effect {
    /// What `update` does to a key that holds `current`.
    #[inline]
    pub(crate) fn of(current: Option<EntryRef<'_>>, update: &Update) -> Self {
        let (became, expires_unix_ms, user_bits) = match update {
            Update::Keep => (Became::Kept, 0, 0),
            Update::Delete => (Became::Deleted, 0, 0),
            Update::Put { expires_unix_ms, user_bits, .. } => {
                (Became::Put, *expires_unix_ms, *user_bits)
            }
        };
        let had = current.filter(|entry| is_marked(entry.user_bits) && became != Became::Kept);
        let dead = had.and_then(|entry| pages_of(entry.value)).filter(|(id, _)| match update {
            Update::Put { value, user_bits, .. } if is_marked(*user_bits) => {
                pages_of(value).is_none_or(|(own, _)| own != *id)
            }
            _ => true,
        });
        let existed = current.is_some();
        Effect { existed, became, expires_unix_ms, user_bits, dead, told: None }
    }

    /// Notes what replicas are told of `update`, if they need the value.
    pub(crate) fn note_told(&mut self, update: &Update, needs_value: bool) {
        if let Update::Put { value, user_bits, .. } = update
            && !is_marked(*user_bits)
            && needs_value
        {
            self.told = Some(value[..].into());
        }
    }

    /// True unless the key is as it was.
    pub(crate) fn changed(&self) -> bool {
        self.became != Became::Kept
    }
}
