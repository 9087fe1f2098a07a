//! How the entries of a partition divide among the databases of a cache: see `family.rs`.

use crate::family::{SPACES_MAX, Spaces, home_of};
use crate::item::{Form, Item};
use crate::large::Gone;
use crate::partition::Partition;

impl Partition {
    /// True if nobody finds the entry because its database was cleared.
    #[inline]
    pub(crate) fn is_dead(&self, item: &Item<'_>) -> bool {
        let is_dead = |home| self.spaces().is_some_and(|spaces| spaces.family.is_dead(home));
        item.header.form() != Form::Chunk && is_dead(item.home())
    }

    /// Counts an entry of `key`, as it is stored, that can be found from now on.
    #[inline]
    pub(crate) fn count_new(&self, key: &[u8], form: Form) {
        if form == Form::Chunk {
            return self.counts.chunks.add(1);
        }
        self.counts.entries.add(1);
        if let Some(spaces) = self.spaces()
            && let Some(place) = spaces.place(home_of(key))
        {
            spaces.change(place, |entries| entries + 1);
            // It was written while its database was cleared: a pass is to remove it.
            self.expiry().note(u64::from(place == 0));
        }
    }

    /// Counts that an entry can no longer be found.
    #[inline]
    pub(crate) fn count_gone(&self, item: &Item<'_>) {
        if item.header.form() == Form::Chunk {
            return self.counts.chunks.sub(1);
        }
        self.counts.entries.sub(1);
        if let Some(spaces) = self.spaces()
            && let Some(place) = spaces.place(item.home())
        {
            spaces.change(place, |entries| entries.wrapping_sub(1));
        }
    }

    /// Notes that an entry goes for good, so that what is left of a large value goes, too.
    #[inline(always)]
    pub(crate) fn note_gone(&self, item: &Item<'_>) {
        if item.header.is_large() {
            self.note_remains(item);
        }
    }

    #[cold]
    fn note_remains(&self, item: &Item<'_>) {
        Gone::of(item).into_iter().for_each(|gone| self.remains().push(gone));
    }

    /// Counts that there are no entries.
    pub(crate) fn count_empty(&self) {
        self.counts.entries.set(0);
        self.counts.chunks.set(0);
        self.counts.live_words.set(0);
        self.spaces().into_iter().for_each(|spaces| spaces.set(&[0; SPACES_MAX]));
    }

    /// Lets the entries of `space`, which has a new generation, be dead. The caller has locked all
    /// partitions.
    pub(crate) fn bury(&self, space: usize) {
        let Some(spaces) = self.spaces() else { return };
        let of = spaces.get()[space];
        if of > 0 {
            spaces.change(0, |dead| dead + of);
            spaces.change(space, |_| 0);
            self.expiry().forget();
        }
    }

    /// Entries of `space` that are not dead.
    pub(crate) fn entries_of(&self, space: usize) -> u64 {
        let entries = self.spaces().map_or([0; SPACES_MAX], Spaces::get);
        match space {
            // The numbers are read one by one, while the holder of the lock changes them.
            0 => self.counts.entries.get().saturating_sub(entries.iter().sum()),
            _ => entries[space],
        }
    }
}
