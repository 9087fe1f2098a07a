//! Merging sorted sources of versions, and which versions somebody may still ask for.

use crate::deleted::DeletedRanges;
use silica_base::Result;
use silica_parts::frame::TOMBSTONE;
use silica_parts::table::Version;

/// Versions in order: keys ascending, of one key the newest first.
pub(crate) trait Source {
    /// Eight bytes of the key here, as a number, behind as many as all keys of all sources begin
    /// with; `None` at the end.
    fn head(&self) -> Option<u64>;
    /// The version here.
    fn version(&self) -> Version<'_>;
    /// To the next version, or to the end.
    fn advance(&mut self) -> Result<()>;
    /// True where that would wait for the device.
    fn would_wait(&self) -> bool {
        false
    }
}

/// Versions of several sources in order. Of one key, those of a source that comes before another
/// are newer.
pub(crate) struct Merge<S> {
    sources: Vec<S>,
    /// What [`Source::head`] said; greater than all where a source has ended.
    heads: Vec<(bool, u64)>,
    /// A tree of matches. Source `i` is leaf `len + i`, the parent of node `n` is `n / 2`; a node
    /// holds who lost its match, node 0 who won them all.
    tree: Vec<usize>,
}

impl<S: Source> Merge<S> {
    /// Of sources that are at their first versions.
    pub(crate) fn new(sources: Vec<S>) -> Self {
        let len = sources.len();
        let heads = sources.iter().map(head_of).collect();
        let mut merge = Merge { sources, heads, tree: vec![0; len] };
        let mut winners: Vec<usize> = (0..2 * len).map(|node| node.saturating_sub(len)).collect();
        for node in (1..len).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if merge.is_before(a, b) { (a, b) } else { (b, a) };
            (winners[node], merge.tree[node]) = (winner, loser);
        }
        if len > 1 {
            merge.tree[0] = winners[1];
        }
        merge
    }

    /// True where what source `a` is at comes before what `b` is at.
    #[inline]
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (of_a, of_b) = (self.heads[a], self.heads[b]);
        if of_a != of_b || of_a.0 {
            return (of_a, a) < (of_b, b);
        }
        let (key_a, key_b) = (self.sources[a].version().key, self.sources[b].version().key);
        key_a.cmp(key_b).then(a.cmp(&b)).is_lt()
    }

    /// The next version; `None` at the end.
    #[inline]
    pub(crate) fn version(&self) -> Option<Version<'_>> {
        let first = *self.tree.first()?;
        (!self.heads[first].0).then(|| self.sources[first].version())
    }

    /// True where [`Merge::advance`] would wait for the device.
    #[inline]
    pub(crate) fn would_wait(&self) -> bool {
        self.tree.first().is_some_and(|first| self.sources[*first].would_wait())
    }

    /// To the version behind it.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<()> {
        let mut winner = self.tree[0];
        self.sources[winner].advance()?;
        self.heads[winner] = head_of(&self.sources[winner]);
        let mut node = (self.sources.len() + winner) / 2;
        while node > 0 {
            if self.is_before(self.tree[node], winner) {
                std::mem::swap(&mut self.tree[node], &mut winner);
            }
            node /= 2;
        }
        self.tree[0] = winner;
        Ok(())
    }
}

fn head_of<S: Source>(source: &S) -> (bool, u64) {
    source.head().map_or((true, u64::MAX), |head| (false, head))
}

/// What is to be done with a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody asks for it.
    Drop,
    /// It stays.
    Keep,
    /// It has expired for everybody: a tombstone takes its place, which hides what is older.
    Bury,
    /// It stays, and nobody asks what was before it: its sequence number becomes 0.
    KeepAsOldest,
}

/// A tombstone in the place of `version`.
pub(crate) fn buried<'v>(version: &Version<'v>) -> Version<'v> {
    let gone = Version { flags: TOMBSTONE, expires_unix_ms: 0, user_bits: 0, ..*version };
    Version { value: b"", ..gone }
}

/// Decides about the versions of a merge, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Keeper {
    /// Live snapshots, ascending.
    snapshots: Vec<u64>,
    /// Nothing older is anywhere behind what is merged.
    is_last: bool,
    /// What expires by then is over for all of them.
    over_ms: u64,
    /// Ranges that were deleted, and those of them that stay.
    deleted: DeletedRanges,
    stay: DeletedRanges,
    /// The key before, and the sequence number of its version that was last asked about.
    key: Vec<u8>,
    newer: Option<u64>,
}

impl Keeper {
    /// For a reader at each of `snapshots`, ascending, and for those to come. What expires by
    /// `over_ms` is over for all of them.
    pub(crate) fn new(snapshots: Vec<u64>, is_last: bool, over_ms: u64) -> Self {
        let (deleted, stay) = (Vec::new(), Vec::new());
        Keeper { snapshots, is_last, over_ms, deleted, stay, key: Vec::new(), newer: None }
    }

    /// What expires by this time is over for everybody.
    pub(crate) fn over_ms(&self) -> u64 {
        self.over_ms
    }

    /// The position of the oldest snapshot, or the end of all positions.
    pub(crate) fn oldest_snapshot(&self) -> u64 {
        self.snapshots.first().copied().unwrap_or(u64::MAX)
    }

    /// This keeper, where these ranges were deleted, some of which stay known.
    pub(crate) fn with_deleted(self, deleted: DeletedRanges, stay: DeletedRanges) -> Self {
        Keeper { deleted, stay, ..self }
    }

    /// The least position behind `version` at which its key was deleted with a range.
    #[inline]
    fn hidden_from(&self, version: &Version<'_>) -> Option<u64> {
        let ranges = self.deleted.iter();
        let hiding = ranges.filter(|r| r.position > version.sequence && r.covers(version.key));
        hiding.map(|range| range.position).min()
    }

    /// What becomes of `version`, which comes behind those asked about before.
    #[inline]
    pub(crate) fn fate(&mut self, version: &Version<'_>) -> Fate {
        let newer = self.newer.replace(version.sequence).filter(|_| self.key == version.key);
        if newer.is_none() {
            version.key.clone_into(&mut self.key);
        }
        let hidden = if self.deleted.is_empty() { None } else { self.hidden_from(version) };
        let newer = match (newer, hidden) {
            (Some(newer), Some(hidden)) => Some(newer.min(hidden)),
            (newer, hidden) => newer.or(hidden),
        };
        // Snapshots that do not see it, and those that see it or something newer.
        let unseen = self.snapshots.partition_point(|snapshot| *snapshot <= version.sequence);
        let is_seen = newer.is_none_or(|newer| {
            self.snapshots.get(unseen).is_some_and(|snapshot| *snapshot <= newer)
        });
        if !is_seen {
            return Fate::Drop;
        }
        let has_expired = version.expires_unix_ms != 0 && version.expires_unix_ms <= self.over_ms;
        if !self.is_last || unseen > 0 {
            return if has_expired { Fate::Bury } else { Fate::Keep };
        }
        let is_gone = version.flags & TOMBSTONE != 0 || has_expired;
        if is_gone {
            return Fate::Drop;
        }
        // A range that is older than the version and stays would hide it.
        let is_covered = self.stay.iter().any(|range| range.covers(version.key));
        if is_covered { Fate::Keep } else { Fate::KeepAsOldest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    struct List(Vec<(Vec<u8>, u64)>, usize);

    impl Source for List {
        fn head(&self) -> Option<u64> {
            self.0.get(self.1).map(|(key, _)| crate::memtable::head(key))
        }

        fn version(&self) -> Version<'_> {
            version(&self.0[self.1].0, self.0[self.1].1)
        }

        fn advance(&mut self) -> Result<()> {
            self.1 += 1;
            Ok(())
        }
    }

    fn version(key: &[u8], sequence: u64) -> Version<'_> {
        Version { key, sequence, flags: 0, expires_unix_ms: 0, user_bits: 0, value: b"" }
    }

    fn sort(list: &mut [(Vec<u8>, u64)]) {
        list.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    }

    #[test]
    fn any_number_of_sources_comes_out_in_order() {
        let mut prng = Prng::new(1);
        for count in 0..20u64 {
            let mut all = Vec::new();
            // The first has the newest versions. Keys begin alike, so heads do not decide.
            let sources: Vec<_> = (0..count)
                .map(|i| {
                    let mut list: Vec<_> = (0..prng.below(30))
                        .map(|n| {
                            let key = format!("common prefix {}", prng.below(40)).into_bytes();
                            (key, (count - i) * 1000 + n)
                        })
                        .collect();
                    sort(&mut list);
                    all.extend(list.clone());
                    List(list, 0)
                })
                .collect();
            sort(&mut all);
            let mut merge = Merge::new(sources);
            for (key, sequence) in all {
                assert_eq!(merge.version(), Some(version(&key, sequence)), "{count} sources");
                merge.advance().expect("no device");
            }
            assert_eq!(merge.version(), None);
        }
    }

    fn fates(snapshots: &[u64], is_last: bool, versions: &[Version<'_>]) -> Vec<Fate> {
        let mut keeper = Keeper::new(snapshots.to_vec(), is_last, 100);
        versions.iter().map(|version| keeper.fate(version)).collect()
    }

    #[test]
    fn every_snapshot_keeps_the_newest_version_that_it_sees() {
        use Fate::{Drop, Keep, KeepAsOldest};
        let list = [9, 7, 5, 3, 0].map(|sequence| version(b"k", sequence));
        assert_eq!(fates(&[], false, &list), [Keep, Drop, Drop, Drop, Drop]);
        assert_eq!(fates(&[], true, &list), [KeepAsOldest, Drop, Drop, Drop, Drop]);
        assert_eq!(fates(&[6], true, &list), [Keep, Drop, KeepAsOldest, Drop, Drop]);
        assert_eq!(fates(&[5], true, &list), [Keep, Drop, Drop, KeepAsOldest, Drop]);
        assert_eq!(fates(&[1, 8, 20], true, &list), [Keep, Keep, Drop, Drop, KeepAsOldest]);
        let two_keys = [version(b"a", 4), version(b"b", 4)];
        assert_eq!(fates(&[2], false, &two_keys), [Keep, Keep]);
    }

    #[test]
    fn deleted_ranges_hide_what_is_older_from_those_who_see_them() {
        use Fate::{Drop, Keep, KeepAsOldest};
        let range = |position| {
            let (lower, upper) = (b"b".to_vec(), Some(b"l".to_vec()));
            std::sync::Arc::new(crate::deleted::DeletedRange { lower, upper, position })
        };
        let list = [9, 7, 5].map(|sequence| version(b"k", sequence));
        let fates = |snapshots: &[u64], deleted: &[u64], stay: &[u64], key: &[u8]| {
            let ranges = |list: &[u64]| list.iter().map(|at| range(*at)).collect();
            let mut keeper = Keeper::new(snapshots.to_vec(), true, 100)
                .with_deleted(ranges(deleted), ranges(stay));
            list.map(|old| keeper.fate(&Version { key, ..old }))
        };
        assert_eq!(fates(&[], &[10], &[], b"k"), [Drop, Drop, Drop]);
        assert_eq!(fates(&[], &[10], &[], b"l"), [KeepAsOldest, Drop, Drop]);
        assert_eq!(fates(&[], &[8], &[], b"k"), [KeepAsOldest, Drop, Drop]);
        assert_eq!(fates(&[], &[8], &[8], b"k"), [Keep, Drop, Drop], "0 would be hidden");
        assert_eq!(fates(&[10], &[10], &[10], b"k"), [Keep, Drop, Drop]);
        // A range with a version's own number is of the same commit, and older.
        assert_eq!(fates(&[], &[9], &[], b"k"), [KeepAsOldest, Drop, Drop]);
        assert_eq!(fates(&[8], &[9], &[9], b"k"), [Keep, Keep, Drop]);
        assert_eq!(fates(&[8], &[6, 10], &[10], b"k"), [Drop, Keep, Drop]);
        assert_eq!(fates(&[6], &[6, 10], &[6, 10], b"k"), [Drop, Drop, Keep]);
    }

    #[test]
    fn what_is_gone_goes_where_nothing_older_is_and_no_snapshot_sees_more() {
        use Fate::{Bury, Drop, Keep, KeepAsOldest};
        let tombstone = Version { flags: TOMBSTONE, ..version(b"k", 9) };
        let old = version(b"k", 3);
        assert_eq!(fates(&[], true, &[tombstone, old]), [Drop, Drop]);
        assert_eq!(fates(&[], false, &[tombstone, old]), [Keep, Drop]);
        assert_eq!(fates(&[8], true, &[tombstone, old]), [Keep, KeepAsOldest]);
        let expired = Version { expires_unix_ms: 100, ..version(b"k", 9) };
        let later = Version { expires_unix_ms: 101, ..version(b"k", 9) };
        assert_eq!(fates(&[], true, &[expired, old]), [Drop, Drop]);
        assert_eq!(fates(&[], true, &[later, old]), [KeepAsOldest, Drop]);
        // It hides what is older, which is elsewhere or seen by others.
        assert_eq!(fates(&[], false, &[expired, old]), [Bury, Drop]);
        assert_eq!(fates(&[8], true, &[expired, old]), [Bury, KeepAsOldest]);
        assert_eq!(fates(&[], false, &[later, old]), [Keep, Drop]);
        assert_eq!(buried(&expired), tombstone);
    }
}
