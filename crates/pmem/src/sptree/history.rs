//! Snapshots: what keys were before they changed, in memory, while somebody holds a snapshot.
//!
//! Versions of keys, other than copies of leaves, are independent of splits and merges, need no
//! copy of 64 entries for the change of one, and say exactly which keys changed since a snapshot,
//! which is what a commit asks.
//!
//! 1. A snapshot is taken while no write is under way (`SpTree::gate`), so every write knows
//!    whether a snapshot is held.
//! 2. A write notes what its keys were before it changes the first of them in the leaf.
//! 3. A reader at a snapshot reads the leaf first and then looks here: if it has met a change, the
//!    note is there.
//! 4. A key is noted once for the newest snapshot: notes are as many as keys, not as writes.
//! 5. A note stays as long as a snapshot is held that is older than the change. A write whose last
//!    snapshot is released before it notes leaves no note.

use silica_base::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Bytes of memory that a note takes beside its key and value, roughly.
const NOTE_BYTES: u64 = 160;

/// An entry that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Kept {
    pub(crate) value: Vec<u8>,
    pub(crate) expires_unix_ms: u64,
    pub(crate) user_bits: u32,
}

/// What a key was for snapshots before `until`.
struct Note {
    until: u64,
    entry: Option<Kept>,
}

#[derive(Default)]
struct State {
    /// Writes since the opening, counted while snapshots are held.
    sequence: u64,
    /// Snapshots that are held, and how many of each.
    held: BTreeMap<u64, usize>,
    notes: BTreeMap<Vec<u8>, Vec<Note>>,
    /// Keys of notes in the order in which they were made.
    made: VecDeque<(u64, Vec<u8>)>,
    bytes: u64,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct History {
    held: AtomicUsize,
    state: Mutex<State>,
}

impl History {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    /// True if a snapshot is held. For writes: see invariant 1.
    #[inline(always)]
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) > 0
    }

    /// Holds a snapshot of now. No write may be under way. Its number.
    pub(crate) fn hold(&self) -> u64 {
        let mut state = self.state();
        let sequence = state.sequence;
        *state.held.entry(sequence).or_default() += 1;
        self.held.fetch_add(1, Ordering::Relaxed);
        sequence
    }

    pub(crate) fn release(&self, sequence: u64) {
        let mut state = self.state();
        let count = state.held.get_mut(&sequence).expect("a snapshot that is held");
        *count -= 1;
        if *count == 0 {
            state.held.remove(&sequence);
            state.purge();
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes what the keys of one write were. All of them are noted before the first changes.
    ///
    /// # Errors
    /// `Full` if the notes would take more than `bytes_max`: nothing is noted.
    pub(crate) fn note(&self, entries: Vec<(Vec<u8>, Option<Kept>)>, bytes_max: u64) -> Result<()> {
        let mut state = self.state();
        if state.held.is_empty() {
            // The last one was released after this write had asked.
            return Ok(());
        }
        // A key that has changed since the newest snapshot is noted for all of them already.
        let newest = state.held.keys().next_back().copied().unwrap_or(0);
        let is_needed = |state: &State, key: &[u8]| {
            let last = state.notes.get(key).and_then(|notes| notes.last());
            last.is_none_or(|note| note.until <= newest)
        };
        let needed = entries.into_iter().filter(|(key, _)| is_needed(&state, key));
        let needed: Vec<(Vec<u8>, Option<Kept>)> = needed.collect();
        let bytes: u64 = needed.iter().map(|(key, entry)| note_bytes(key, entry)).sum();
        if state.bytes + bytes > bytes_max {
            let message = format!(
                "what keys were for the snapshots that are held would take over {bytes_max} bytes; \
                 end transactions and snapshots, or raise memory_bytes"
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
        state.sequence += 1;
        state.bytes += bytes;
        let until = state.sequence;
        for (key, entry) in needed {
            state.notes.entry(key.clone()).or_default().push(Note { until, entry });
            state.made.push_back((until, key));
        }
        Ok(())
    }

    /// What `key` was for a snapshot; `None` if it has not changed since.
    pub(crate) fn before(&self, key: &[u8], sequence: u64) -> Option<Option<Kept>> {
        let state = self.state();
        let note = state.notes.get(key)?.iter().find(|note| note.until > sequence)?;
        Some(note.entry.clone())
    }

    /// What has changed since a snapshot of the keys from `lower` on and before `upper`, in order.
    pub(crate) fn before_within(
        &self,
        lower: &[u8],
        upper: Option<&[u8]>,
        sequence: u64,
    ) -> Vec<(Vec<u8>, Option<Kept>)> {
        let state = self.state();
        if state.notes.is_empty() {
            return Vec::new();
        }
        let range = (Bound::Included(lower), upper.map_or(Bound::Unbounded, Bound::Excluded));
        if upper.is_some_and(|upper| upper <= lower) {
            return Vec::new();
        }
        let notes = state.notes.range::<[u8], _>(range);
        let at = |notes: &[Note]| {
            notes.iter().find(|note| note.until > sequence).map(|note| note.entry.clone())
        };
        notes.filter_map(|(key, notes)| Some((key.clone(), at(notes)?))).collect()
    }

    /// True if `key` was written since a snapshot.
    pub(crate) fn has_changed(&self, key: &[u8], sequence: u64) -> bool {
        let state = self.state();
        let last = state.notes.get(key).and_then(|notes| notes.last());
        last.is_some_and(|note| note.until > sequence)
    }

    /// True if a key in these bounds was written since a snapshot.
    pub(crate) fn has_changed_within(
        &self,
        lower: &[u8],
        upper: Option<&[u8]>,
        sequence: u64,
    ) -> bool {
        if upper.is_some_and(|upper| upper <= lower) {
            return false;
        }
        let state = self.state();
        let range = (Bound::Included(lower), upper.map_or(Bound::Unbounded, Bound::Excluded));
        let is_later = |notes: &Vec<Note>| notes.last().is_some_and(|note| note.until > sequence);
        state.notes.range::<[u8], _>(range).any(|(_, notes)| is_later(notes))
    }

    /// Bytes of memory, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().bytes
    }
}

fn note_bytes(key: &[u8], entry: &Option<Kept>) -> u64 {
    NOTE_BYTES + 2 * key.len() as u64 + entry.as_ref().map_or(0, |entry| entry.value.len() as u64)
}

impl State {
    /// Drops notes that no snapshot asks for.
    fn purge(&mut self) {
        let oldest = self.held.keys().next().copied().unwrap_or(u64::MAX);
        while self.made.front().is_some_and(|(until, _)| *until <= oldest)
            && let Some((until, key)) = self.made.pop_front()
        {
            let notes = self.notes.get_mut(&key).expect("a note that was made");
            let at = notes.iter().position(|note| note.until == until).expect("a note");
            let note = notes.remove(at);
            if notes.is_empty() {
                self.notes.remove(&key);
            }
            self.bytes -= note_bytes(&key, &note.entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(value: &[u8]) -> Option<Kept> {
        Some(Kept { value: value.to_vec(), ..Kept::default() })
    }

    #[test]
    fn a_write_that_comes_after_the_last_release_leaves_no_note() {
        let history = History::default();
        let held = history.hold();
        assert!(history.is_held(), "a write asks");
        history.release(held);
        history.note(vec![(b"a".to_vec(), kept(b"1"))], 1 << 20).unwrap();
        assert_eq!((history.bytes(), history.state().notes.len()), (0, 0));
    }

    #[test]
    fn snapshots_see_what_was_and_notes_go_with_them() {
        let history = History::default();
        let note = |key: &[u8], entry| history.note(vec![(key.to_vec(), entry)], 1 << 20).unwrap();
        let first = history.hold();
        note(b"b", kept(b"1"));
        let second = history.hold();
        note(b"b", kept(b"2"));
        note(b"c", None);
        assert_eq!(history.before(b"b", first), Some(kept(b"1")));
        assert_eq!(history.before(b"b", second), Some(kept(b"2")));
        assert_eq!(history.before(b"c", second), Some(None));
        assert_eq!(history.before(b"a", first), None);
        let third = history.hold();
        assert!(!history.has_changed(b"b", third) && history.has_changed(b"b", second));
        assert!(history.has_changed_within(b"c", None, second));
        assert!(!history.has_changed_within(b"d", None, first));
        let within = history.before_within(b"b", Some(b"c"), first);
        assert_eq!(within, [(b"b".to_vec(), kept(b"1"))]);
        history.release(first);
        assert_eq!(history.before(b"b", second), Some(kept(b"2")));
        history.release(second);
        history.release(third);
        assert_eq!((history.bytes(), history.state().notes.len()), (0, 0));
        assert!(!history.is_held());
        let held = history.hold();
        note(b"b", kept(b"3"));
        let bytes = history.bytes();
        note(b"b", kept(b"4"));
        assert_eq!(history.bytes(), bytes, "one note serves the newest snapshot");
        assert_eq!(history.before(b"b", held), Some(kept(b"3")));
        let full = history.note(vec![(b"k".to_vec(), None)], 10).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::Full);
        history.release(held);
    }
}
