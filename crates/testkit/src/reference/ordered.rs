//! The reference engine in the order of its keys: a snapshot is a copy of everything.

use super::{Reference, State, Stored};
use silica_base::Result;
use silica_engine::transaction::CommitTurns;
use silica_engine::{
    Durability, EntryIter, EntryRef, GetSink, KeyRange, Near, Op, OpKind, Ordered, RangeSize,
    Reads, Snapshot, WriteBatch,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

pub(super) type Copied = BTreeMap<Vec<u8>, Stored>;

/// Everything there was at one moment.
struct Image {
    entries: Arc<Copied>,
    sequence: u64,
    unix_ms: u64,
}

/// What of an image is in a range and has not expired, and a place in it.
struct Place {
    entries: Copied,
    at: Option<Vec<u8>>,
}

impl State {
    /// The keys in `range`, in order.
    fn keys_in(&self, range: &KeyRange) -> Vec<Vec<u8>> {
        let all = self.positions.values().flatten();
        let mut keys: Vec<_> =
            all.filter(|s| range.contains(&s.key)).map(|s| s.key.clone()).collect();
        keys.sort_unstable();
        keys
    }

    /// For each delete of a range in `batch`, the keys that it removes.
    pub(super) fn doomed(&self, batch: &WriteBatch<'_>) -> Vec<Vec<Vec<u8>>> {
        let mut doomed = Vec::new();
        for (at, op) in batch.ops().iter().enumerate() {
            let OpKind::DeleteRange(upper) = op.kind else { continue };
            let upper = upper.map_or(Bound::Unbounded, |upper| Bound::Excluded(upper.to_vec()));
            let range = KeyRange { lower: Bound::Included(op.key.to_vec()), upper };
            let mut keys = self.keys_in(&range);
            let earlier = batch.ops()[..at].iter().filter(|op| !is_range(op));
            keys.extend(earlier.map(|op| op.key.to_vec()).filter(|key| range.contains(key)));
            doomed.push(keys);
        }
        doomed
    }

    /// A copy of everything; the one made last where nothing has changed since.
    fn image(&mut self) -> Arc<Copied> {
        let all = self.positions.values().flatten();
        let copy = || Arc::new(all.map(|s| (s.key.clone(), s.clone())).collect());
        Arc::clone(self.copied.get_or_insert_with(copy))
    }

    /// True if anything in `range` was written after `sequence`.
    fn is_range_written_since(&self, range: &KeyRange, sequence: u64) -> bool {
        let mut written = self.written.iter().filter(|(key, _)| range.contains(key));
        self.cleared > sequence || written.any(|(_, at)| *at > sequence)
    }

    /// True where `key` was written after `sequence`.
    fn is_written_since(&self, key: &[u8], sequence: u64) -> bool {
        self.written.get(key).copied().unwrap_or(0).max(self.cleared) > sequence
    }
}

fn is_range(op: &Op<'_>) -> bool {
    matches!(op.kind, OpKind::DeleteRange(_))
}

impl Ordered for Reference {
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        let state = &mut self.write_lock().state;
        let (entries, sequence) = (state.image(), state.sequence);
        Ok(Arc::new(Image { entries, sequence, unix_ms: self.clock.unix_ms() }))
    }

    fn delete_range(&self, range: &KeyRange, durability: Durability) -> Result<()> {
        let mut inner = self.write_lock();
        let keys = inner.state.keys_in(range);
        let mut batch = WriteBatch::new();
        keys.iter().for_each(|key| {
            batch.delete(key);
        });
        Reference::commit(self, &mut inner, &batch, durability)
    }

    fn commit(
        &self,
        snapshot: &dyn Snapshot,
        reads: Reads<'_>,
        batch: &WriteBatch<'_>,
        durability: Durability,
    ) -> Result<bool> {
        let mut inner = self.write_lock();
        let since = snapshot.sequence();
        let Reads { keys, ranges, expires_unix_ms } = reads;
        if expires_unix_ms != 0 && expires_unix_ms <= self.clock.unix_ms() {
            return Ok(false);
        }
        if keys.iter().any(|key| inner.state.is_written_since(key, since)) {
            return Ok(false);
        }
        if ranges.iter().any(|range| inner.state.is_range_written_since(range, since)) {
            return Ok(false);
        }
        Reference::commit(self, &mut inner, batch, durability).map(|()| true)
    }

    fn commit_turns(&self) -> &Arc<CommitTurns> {
        &self.turns
    }

    fn sync_commits(&self) -> Result<()> {
        self.sync_inner(&mut self.write_lock())
    }

    fn range_size(&self, range: &KeyRange) -> RangeSize {
        let state = &self.read().state;
        let all = state.positions.values().flatten().filter(|s| range.contains(&s.key));
        all.fold(RangeSize::default(), |size, stored| RangeSize {
            entries: size.entries + 1,
            bytes: size.bytes + (stored.key.len() + stored.value.len()) as u64,
        })
    }

    fn near(&self, random: u64) -> Option<Near> {
        let keys = self.read().state.keys_in(&KeyRange::ALL);
        let at = random.checked_rem(keys.len() as u64)?;
        Some(Near { key: keys[at as usize].clone(), among: 1 })
    }

    fn compact_range(&self, _range: &KeyRange) -> Result<()> {
        Ok(())
    }
}

impl Snapshot for Image {
    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            let stored = self.entries.get(*key);
            if let Some(entry) = stored.and_then(|stored| stored.live(self.unix_ms)) {
                sink.found(index, entry);
            }
        }
        Ok(())
    }

    fn iterate(self: Arc<Self>, range: &KeyRange) -> Result<Box<dyn EntryIter>> {
        let within = self.entries.iter().filter(|(key, _)| range.contains(key));
        let live = within.filter(|(_, stored)| stored.live(self.unix_ms).is_some());
        let entries = live.map(|(key, stored)| (key.clone(), stored.clone())).collect();
        Ok(Box::new(Place { entries, at: None }))
    }
}

impl Place {
    fn go_first(&mut self, lower: Bound<&[u8]>) -> bool {
        let mut found = self.entries.range::<[u8], _>((lower, Bound::Unbounded));
        self.at = found.next().map(|(key, _)| key.clone());
        self.at.is_some()
    }

    fn go_last(&mut self, upper: Bound<&[u8]>) -> bool {
        let mut found = self.entries.range::<[u8], _>((Bound::Unbounded, upper));
        self.at = found.next_back().map(|(key, _)| key.clone());
        self.at.is_some()
    }
}

impl EntryIter for Place {
    fn seek_to_first(&mut self) -> Result<bool> {
        Ok(self.go_first(Bound::Unbounded))
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        Ok(self.go_last(Bound::Unbounded))
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.go_first(Bound::Included(key)))
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.go_last(Bound::Included(key)))
    }

    fn next(&mut self) -> Result<bool> {
        let at = self.at.take();
        Ok(at.is_some_and(|at| self.go_first(Bound::Excluded(&at))))
    }

    fn prev(&mut self) -> Result<bool> {
        let at = self.at.take();
        Ok(at.is_some_and(|at| self.go_last(Bound::Excluded(&at))))
    }

    fn key(&self) -> &[u8] {
        self.at.as_deref().expect("it is at an entry")
    }

    fn entry(&self) -> EntryRef<'_> {
        self.entries[self.key()].entry()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Clock, ManualClock};
    use silica_engine::{Admin, Engine, EngineExt};

    const NOW: Durability = Durability::Buffered;

    fn filled() -> (Arc<Reference>, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::default());
        let engine = Arc::new(Reference::new().with_clock(clock.clone()));
        for key in [&b"b"[..], b"d", b"a", b"c"] {
            engine.put(key, key, NOW).unwrap();
        }
        (engine, clock)
    }

    fn ordered(engine: &Arc<Reference>) -> Arc<dyn Ordered> {
        Arc::clone(engine).as_ordered().expect("it keeps an order")
    }

    fn keys(snapshot: &Arc<dyn Snapshot>, range: &KeyRange) -> Vec<u8> {
        let mut iter = Arc::clone(snapshot).iterate(range).unwrap();
        let (mut forward, mut is_there) = (Vec::new(), iter.seek_to_first().unwrap());
        while is_there {
            assert_eq!(iter.entry().value, iter.key());
            forward.push(iter.key()[0]);
            is_there = iter.next().unwrap();
        }
        let (mut backward, mut is_there) = (Vec::new(), iter.seek_to_last().unwrap());
        while is_there {
            backward.insert(0, iter.key()[0]);
            is_there = iter.prev().unwrap();
        }
        assert_eq!(forward, backward);
        forward
    }

    #[test]
    fn a_snapshot_stays_and_has_an_order() {
        let (engine, clock) = filled();
        let before = ordered(&engine).snapshot().unwrap();
        engine.delete(b"b", NOW).unwrap();
        ordered(&engine).delete_range(&KeyRange::new(*b"c", *b"d"), NOW).unwrap();
        let expires_unix_ms = clock.unix_ms() + 1;
        let entry = EntryRef { value: b"e", expires_unix_ms, user_bits: 0 };
        engine.write(WriteBatch::new().put_entry(b"e", entry), NOW).unwrap();
        let after = ordered(&engine).snapshot().unwrap();
        assert!(before.sequence() < after.sequence());
        assert_eq!(keys(&before, &KeyRange::ALL), b"abcd");
        assert_eq!(keys(&before, &KeyRange::new(*b"b", *b"d")), b"bc");
        assert_eq!(keys(&after, &KeyRange::ALL), b"ade");
        clock.advance_ns(1_000_000);
        assert_eq!(keys(&after, &KeyRange::ALL), b"ade", "it has the time of its moment");
        let later = ordered(&engine).snapshot().unwrap();
        assert_eq!(keys(&later, &KeyRange::ALL), b"ad");
        let mut iter = before.iterate(&KeyRange::ALL).unwrap();
        assert!(iter.seek(b"bb").unwrap() && iter.key() == b"c");
        assert!(iter.seek_for_prev(b"bb").unwrap() && iter.key() == b"b");
        assert!(!iter.seek(b"e").unwrap() && !iter.prev().unwrap());
    }

    #[test]
    fn a_commit_is_refused_where_something_read_has_changed() {
        let (engine, _) = filled();
        let snapshot = ordered(&engine).snapshot().unwrap();
        let mut batch = WriteBatch::new();
        batch.put(b"x", b"1");
        let commit = |reads: &[&[u8]]| {
            ordered(&engine).commit(&*snapshot, Reads::of(reads), &batch, NOW).unwrap()
        };
        engine.put(b"a", b"2", NOW).unwrap();
        assert!(!commit(&[b"b", b"a"]) && engine.get(b"x").unwrap().is_none());
        assert!(commit(&[b"b", b"none"]) && engine.get(b"x").unwrap().is_some());
        assert!(!commit(&[b"x"]));
        engine.clear().unwrap();
        assert!(!commit(&[b"c"]));
    }
}
