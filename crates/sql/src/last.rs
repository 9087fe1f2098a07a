//! The last entries of trees. A new one is put behind the last one most often, and to look for its
//! place costs twice what the rest of a small transaction does.
//!
//! What is remembered is of one state of the database, a number of commits, and of what the
//! connection's transaction has written above it. Whatever may have removed a last entry makes it
//! unknown.

/// Trees whose last row is remembered: more are seldom appended to at the same time.
const ROWS_MAX: usize = 8;
/// Indexes whose last key is.
const KEYS_MAX: usize = 8;
/// Longer keys are not remembered.
const KEY_BYTES_MAX: usize = 1024;
/// Keys in a row that were put each behind the one before it make it worth while to look for the
/// last one.
const ASCENDING_MIN: u32 = 4;

/// What is known of an index.
#[derive(Default)]
struct Last {
    root: u32,
    /// The last key of all, or only the one that was put last.
    key: Vec<u8>,
    is_last: bool,
    /// Keys that were put in ascending order.
    ascending: u32,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct LastEntries {
    /// Commits before the state of the database that they are of.
    pub(crate) commits: u64,
    rows: Vec<(u32, i64)>,
    /// Of trees whose last row is not known: the row that was put last, and how many were put in
    /// ascending order.
    appends: Vec<(u32, i64, u32)>,
    keys: Vec<Last>,
}

impl LastEntries {
    /// Forgets those of another state of the database.
    pub(crate) fn keep_if_of(&mut self, commits: u64) {
        if self.commits != commits {
            self.clear();
            self.commits = commits;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.appends.clear();
        self.keys.clear();
    }

    /// The tree was emptied or dropped.
    pub(crate) fn remove(&mut self, root: u32) {
        self.rows.retain(|(other, _)| *other != root);
        self.keys.retain(|last| last.root != root);
    }

    /// The last row of a tree, if it is known.
    pub(crate) fn row(&self, root: u32) -> Option<i64> {
        self.rows.iter().find(|(other, _)| *other == root).map(|(_, rowid)| *rowid)
    }

    /// The last row of a tree was looked for.
    pub(crate) fn set_row(&mut self, root: u32, rowid: i64) {
        self.rows.retain(|(other, _)| *other != root);
        self.rows.truncate(ROWS_MAX - 1);
        self.rows.insert(0, (root, rowid));
        self.appends.retain(|(other, ..)| *other != root);
    }

    /// A row was put; true if the last one of its tree is not known, and had better be.
    #[inline]
    pub(crate) fn put_row(&mut self, root: u32, rowid: i64) -> bool {
        if let Some((_, last)) = self.rows.iter_mut().find(|(other, _)| *other == root) {
            *last = rowid.max(*last);
            return false;
        }
        let Some(append) = self.appends.iter_mut().find(|(other, ..)| *other == root) else {
            self.appends.truncate(ROWS_MAX - 1);
            self.appends.insert(0, (root, rowid, 0));
            return false;
        };
        let (_, last, ascending) = append;
        *ascending = if rowid > *last { ascending.saturating_add(1) } else { 0 };
        *last = rowid;
        *ascending >= ASCENDING_MIN
    }

    pub(crate) fn delete_row(&mut self, root: u32, rowid: i64) {
        self.rows.retain(|last| *last != (root, rowid));
    }

    /// True if `key` is behind the last key of an index, as far as that is known.
    #[inline]
    pub(crate) fn is_behind(&self, root: u32, key: &[u8]) -> bool {
        self.keys.iter().any(|last| last.root == root && last.is_last && *key > *last.key)
    }

    /// A key was put; true if the last one of its index is not known, and had better be.
    pub(crate) fn put_key(&mut self, root: u32, key: &[u8]) -> bool {
        if key.len() > KEY_BYTES_MAX {
            self.keys.retain(|last| last.root != root || *key < *last.key);
            return false;
        }
        let Some(at) = self.keys.iter().position(|last| last.root == root) else {
            self.keys.truncate(KEYS_MAX - 1);
            self.keys.insert(0, Last { root, key: key.to_vec(), ..Last::default() });
            return false;
        };
        let last = &mut self.keys[at];
        let is_behind = *key > *last.key;
        if is_behind || !last.is_last {
            last.key.clear();
            last.key.extend_from_slice(key);
        }
        last.ascending = if is_behind { last.ascending.saturating_add(1) } else { 0 };
        !last.is_last && last.ascending >= ASCENDING_MIN
    }

    /// The last key of an index was looked for.
    pub(crate) fn set_key(&mut self, root: u32, key: &[u8]) {
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        if let Some(last) = self.keys.iter_mut().find(|last| last.root == root) {
            last.key.clear();
            last.key.extend_from_slice(key);
            last.is_last = true;
        }
    }

    pub(crate) fn delete_key(&mut self, root: u32, key: &[u8]) {
        self.keys.retain(|last| last.root != root || *last.key != *key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_key_is_known_when_it_was_looked_for_and_until_it_is_gone() {
        let mut last = LastEntries::default();
        let wants: Vec<bool> =
            [b"a", b"b", b"c", b"d", b"e"].map(|key| last.put_key(1, key)).to_vec();
        assert_eq!(wants, [false, false, false, false, true]);
        assert!(!last.is_behind(1, b"z"), "only what was put last is known");
        last.set_key(1, b"m");
        assert!(last.is_behind(1, b"n") && !last.is_behind(1, b"m") && !last.is_behind(2, b"n"));
        assert!(!last.put_key(1, b"b"));
        assert!(!last.is_behind(1, b"c"), "a smaller key is not the last");
        assert!(!last.put_key(1, b"p"));
        assert!(last.is_behind(1, b"q") && !last.is_behind(1, b"p"));
        last.delete_key(1, b"b");
        assert!(last.is_behind(1, b"q"));
        last.delete_key(1, b"p");
        assert!(!last.is_behind(1, b"q"));
    }

    #[test]
    fn a_last_row_is_wanted_once_rows_are_appended() {
        let mut last = LastEntries::default();
        let wants: Vec<bool> = [9, 1, 2, 3, 4, 5].map(|row| last.put_row(1, row)).to_vec();
        assert_eq!(wants, [false, false, false, false, false, true]);
        assert!(!last.put_row(2, 6), "another tree");
        last.set_row(1, 9);
        assert!(!last.put_row(1, 6) && last.row(1) == Some(9));
        assert!(!last.put_row(1, 10) && last.row(1) == Some(10));
        last.delete_row(1, 10);
        let wants: Vec<bool> = [11, 12, 13, 14, 15].map(|row| last.put_row(1, row)).to_vec();
        assert_eq!(wants, [false, false, false, false, true]);
    }

    #[test]
    fn long_keys_and_other_states_make_it_unknown() {
        let mut last = LastEntries::default();
        let learn = |last: &mut LastEntries| {
            last.put_key(1, b"a");
            last.set_key(1, b"m");
            last.set_row(1, 5);
        };
        learn(&mut last);
        assert!(!last.put_key(1, &[b'n'; KEY_BYTES_MAX + 1]));
        assert!(!last.is_behind(1, b"o"));
        learn(&mut last);
        assert!(!last.put_key(1, &[b'b'; KEY_BYTES_MAX + 1]));
        assert!(last.is_behind(1, b"o"));
        last.keep_if_of(0);
        assert!(last.is_behind(1, b"o") && last.row(1) == Some(5));
        last.keep_if_of(1);
        assert!(!last.is_behind(1, b"o") && last.row(1).is_none());
        learn(&mut last);
        last.remove(1);
        assert!(!last.is_behind(1, b"o") && last.row(1).is_none());
    }
}
