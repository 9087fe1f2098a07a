//! Where the pages of a file lie.

use std::collections::BTreeMap;

/// The place of pages that are promised (`fallocate`) and were not written: they read as zeroes.
pub(crate) const UNWRITTEN: u64 = u64::MAX;

/// Pages of a file that lie one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first page of the file.
    pub(crate) index: u64,
    /// Where it lies: segment times pages of a segment, and its page; or [`UNWRITTEN`].
    pub(crate) at: u64,
    /// Pages.
    pub(crate) count: u64,
}

impl Run {
    fn end(&self) -> u64 {
        self.index + self.count
    }

    /// The part within `[from, to)`.
    fn part(&self, from: u64, to: u64) -> Option<Run> {
        let (index, end) = (self.index.max(from), self.end().min(to));
        if index >= end {
            return None;
        }
        let at = match self.at {
            UNWRITTEN => UNWRITTEN,
            at => at + (index - self.index),
        };
        Some(Run { index, at, count: end - index })
    }

    fn is_followed_by(&self, next: &Run) -> bool {
        let joins = match (self.at, next.at) {
            (UNWRITTEN, UNWRITTEN) => true,
            (UNWRITTEN, _) | (_, UNWRITTEN) => false,
            (at, then) => at + self.count == then,
        };
        self.end() == next.index && joins
    }
}

/// The map from pages of a file to places. What it does not have is a hole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extents {
    runs: BTreeMap<u64, (u64, u64)>,
    pages: u64,
}

impl Extents {
    /// Pages that have a place or the promise of one.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Runs; each costs memory and bytes in a checkpoint.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.runs.iter().map(|(index, (at, count))| Run { index: *index, at: *at, count: *count })
    }

    /// Runs within `[from, to)`, cut to it.
    pub(crate) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = Run> + '_ {
        let begin = self.runs.range(..=from).next_back().map_or(from, |(index, _)| *index);
        self.runs
            .range(begin..to.max(begin))
            .map(|(index, (at, count))| Run { index: *index, at: *at, count: *count })
            .filter_map(move |run| run.part(from, to))
    }

    /// The place of a page; `None` for a hole.
    pub(crate) fn get(&self, index: u64) -> Option<u64> {
        self.within(index, index + 1).next().map(|run| run.at)
    }

    /// Takes `[from, to)` out. Returns what was there.
    pub(crate) fn remove(&mut self, from: u64, to: u64) -> Vec<Run> {
        let gone: Vec<Run> = self.within(from, to).collect();
        for run in &gone {
            let (begin, (at, count)) = self.runs.range(..=run.index).next_back().expect("it");
            let whole = Run { index: *begin, at: *at, count: *count };
            self.runs.remove(&whole.index);
            let rests = [whole.part(0, run.index), whole.part(run.end(), u64::MAX)];
            for rest in rests.into_iter().flatten() {
                self.runs.insert(rest.index, (rest.at, rest.count));
            }
            self.pages -= run.count;
        }
        gone
    }

    /// Gives pages a place. Returns what was there before.
    pub(crate) fn set(&mut self, run: Run) -> Vec<Run> {
        let gone = self.remove(run.index, run.end());
        let mut run = run;
        self.pages += run.count;
        if let Some((index, (at, count))) = self.runs.range(..run.index).next_back() {
            let before = Run { index: *index, at: *at, count: *count };
            if before.is_followed_by(&run) {
                self.runs.remove(&before.index);
                run = Run { count: before.count + run.count, ..before };
            }
        }
        if let Some((at, count)) = self.runs.get(&run.end()).copied() {
            let after = Run { index: run.end(), at, count };
            if run.is_followed_by(&after) {
                self.runs.remove(&after.index);
                run.count += after.count;
            }
        }
        self.runs.insert(run.index, (run.at, run.count));
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    #[test]
    fn runs_say_what_a_map_of_pages_says() {
        let mut prng = Prng::new(3);
        let mut extents = Extents::default();
        let mut pages: BTreeMap<u64, u64> = BTreeMap::new();
        for step in 0..3000 {
            let (from, count) = (prng.below(60), 1 + prng.below(12));
            let before: Vec<(u64, u64)> =
                pages.range(from..from + count).map(|(i, at)| (*i, *at)).collect();
            let gone = if prng.one_in(3) {
                pages.retain(|index, _| !(from..from + count).contains(index));
                extents.remove(from, from + count)
            } else {
                let at = if prng.one_in(4) { UNWRITTEN } else { prng.below(50) * 7 };
                for i in 0..count {
                    pages.insert(from + i, if at == UNWRITTEN { at } else { at + i });
                }
                extents.set(Run { index: from, at, count })
            };
            let spread = |run: &Run| {
                let run = *run;
                (0..run.count).map(move |i| {
                    (run.index + i, if run.at == UNWRITTEN { run.at } else { run.at + i })
                })
            };
            let gone: Vec<(u64, u64)> = gone.iter().flat_map(spread).collect();
            assert_eq!(gone, before, "step {step}");
            let all: Vec<(u64, u64)> =
                extents.iter().collect::<Vec<_>>().iter().flat_map(spread).collect();
            assert!(all.iter().copied().eq(pages.iter().map(|(i, at)| (*i, *at))), "step {step}");
            assert_eq!(extents.pages(), pages.len() as u64);
            let probe = prng.below(80);
            assert_eq!(extents.get(probe), pages.get(&probe).copied());
        }
    }

    #[test]
    fn neighbours_join() {
        let mut extents = Extents::default();
        extents.set(Run { index: 0, at: 10, count: 2 });
        extents.set(Run { index: 4, at: 14, count: 2 });
        assert_eq!(extents.len(), 2);
        extents.set(Run { index: 2, at: 12, count: 2 });
        assert_eq!((extents.len(), extents.pages()), (1, 6));
    }
}
