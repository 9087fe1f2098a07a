//! The filters of a bucket's runs, side by side: nearly all runs are told to have nothing of a key
//! without a look at anything else of theirs, and the table of one that may have it is at hand. The
//! way from a run to its part, its table and its filter would wait for memory three times.

use crate::memtable::head;
use crate::run::{Part, Run};
use silica_device::Device;
use silica_parts::FuseFilter;
use silica_parts::table::Table;
use std::sync::Arc;

/// What tells whether a part may have a key: one line of the processor's caches.
#[repr(align(64))]
struct PartFilter<D: Device> {
    lower_head: u64,
    upper_head: u64,
    /// `None` where it is not in memory.
    filter: Option<FuseFilter>,
    table: Arc<Table<D::File>>,
    run: u32,
    part: u32,
}

impl<D: Device> PartFilter<D> {
    /// True unless the part's range has no key that begins with `head`.
    #[inline]
    fn is_near(&self, head: u64) -> bool {
        self.lower_head <= head && head <= self.upper_head
    }

    /// True where the part's range has all keys that begin with `head`.
    #[inline]
    fn is_inside(&self, head: u64) -> bool {
        self.lower_head < head && head < self.upper_head
    }

    #[inline]
    fn part<'r>(&self, runs: &'r [Run<D>]) -> &'r Part<D> {
        &runs[self.run as usize][self.part as usize]
    }
}

/// Those of all parts of runs, in their order.
pub(crate) struct RunFilters<D: Device>(Vec<PartFilter<D>>);

impl<D: Device> RunFilters<D> {
    pub(crate) fn new(runs: &[Run<D>]) -> Self {
        let of_run = |(run, parts): (usize, &Run<D>)| {
            let of_part = move |(number, part): (usize, &Part<D>)| {
                let (lower_head, upper_head) = part.heads();
                let (run, part_number) = (run as u32, number as u32);
                let table = Arc::clone(&part.table.table);
                let filter = table.filter().cloned();
                PartFilter { lower_head, upper_head, filter, table, run, part: part_number }
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

    /// From place `from` on, the first place whose part may have `key`, with this hash.
    #[inline]
    pub(crate) fn next(
        &self,
        runs: &[Run<D>],
        from: usize,
        (key, hash): (&[u8], u64),
    ) -> Option<usize> {
        let head = head(key);
        let found = self.0.iter().skip(from).position(|near| {
            let may_contain = |filter: &FuseFilter| filter.may_contain(hash);
            near.is_near(head)
                && near.filter.as_ref().is_none_or(may_contain)
                && (near.is_inside(head) || near.part(runs).has(key))
        });
        found.map(|found| from + found)
    }

    /// The table of the part at a place.
    #[inline]
    pub(crate) fn table(&self, at: usize) -> &Arc<Table<D::File>> {
        &self.0[at].table
    }

    /// The part at a place.
    #[inline]
    pub(crate) fn part<'r>(&self, runs: &'r [Run<D>], at: usize) -> &'r Part<D> {
        self.0[at].part(runs)
    }
}
