//! The filters of a bucket's runs, side by side: nearly all runs are told to have nothing of a key
//! without a look at anything else of theirs. The way from a run to its part, its table and its
//! filter would wait for memory three times.

use crate::memtable::head;
use crate::run::{Part, Run};
use silica_device::Device;
use silica_parts::FuseFilter;

/// What tells whether a part may have a key.
struct PartFilter {
    lower_head: u64,
    upper_head: u64,
    /// `None` where it is not in memory.
    filter: Option<FuseFilter>,
    run: u32,
    part: u32,
}

impl PartFilter {
    /// True unless the part's range has no key that begins with `head`.
    #[inline]
    fn is_near(&self, head: u64) -> bool {
        self.lower_head <= head && head <= self.upper_head
    }
}

/// Those of all parts of runs, in their order.
pub(crate) struct RunFilters(Vec<PartFilter>);

impl RunFilters {
    pub(crate) fn new<D: Device>(runs: &[Run<D>]) -> Self {
        let of_run = |(run, parts): (usize, &Run<D>)| {
            let of_part = move |(number, part): (usize, &Part<D>)| {
                let (lower_head, upper_head) = part.heads();
                let filter = part.table.table.filter().cloned();
                PartFilter { lower_head, upper_head, filter, run: run as u32, part: number as u32 }
            };
            parts.iter().enumerate().map(of_part).collect::<Vec<_>>()
        };
        RunFilters(runs.iter().enumerate().flat_map(of_run).collect())
    }

    /// Asks for the memory that [`RunFilters::next`] looks at.
    #[inline]
    pub(crate) fn prefetch(&self, key: &[u8], hash: u64) {
        let head = head(key);
        for part in self.0.iter().filter(|part| part.is_near(head)) {
            if let Some(filter) = &part.filter {
                filter.prefetch(hash);
            }
        }
    }

    /// From place `from` on, the first place whose part may have `key`, with this hash, and the
    /// part.
    #[inline]
    pub(crate) fn next<'r, D: Device>(
        &self,
        runs: &'r [Run<D>],
        from: usize,
        (key, hash): (&[u8], u64),
    ) -> Option<(usize, &'r Part<D>)> {
        let head = head(key);
        for (at, near) in self.0.iter().enumerate().skip(from) {
            let may_contain = |filter: &FuseFilter| filter.may_contain(hash);
            if near.is_near(head) && near.filter.as_ref().is_none_or(may_contain) {
                let part = &runs[near.run as usize][near.part as usize];
                if part.has(key) {
                    return Some((at, part));
                }
            }
        }
        None
    }

    /// The part at a place.
    #[inline]
    pub(crate) fn part<'r, D: Device>(&self, runs: &'r [Run<D>], at: usize) -> &'r Part<D> {
        &runs[self.0[at].run as usize][self.0[at].part as usize]
    }
}
