//! Merging sorted sources.

use super::order;
use super::run::{Run, RunReader};
use silica_base::Result;
use silica_device::Device;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

/// Records in order: a run, or a sorted part of the records in memory.
pub(super) enum Source<'a, const RECORD: usize, D: Device> {
    Run(RunReader<'a, D>),
    Memory { records: Arc<Vec<[u8; RECORD]>>, at: usize, end: usize },
}

impl<'a, const RECORD: usize, D: Device> Source<'a, RECORD, D> {
    /// The parts of `records`, each of `share` but the last, each sorted.
    pub(super) fn slices(records: Vec<[u8; RECORD]>, share: usize) -> Vec<Self> {
        let records = Arc::new(records);
        let part = |at: usize| Source::Memory {
            records: Arc::clone(&records),
            at,
            end: records.len().min(at + share),
        };
        (0..records.len()).step_by(share).map(part).collect()
    }

    #[inline]
    fn next(&mut self) -> Result<Option<[u8; RECORD]>> {
        match self {
            Source::Run(reader) => reader.next(),
            Source::Memory { records, at, end } => {
                let record = records[..*end].get(*at).copied();
                *at += 1;
                Ok(record)
            }
        }
    }
}

/// The least record of a source that was not handed out. The greatest of heads is the one whose
/// record comes first, as heaps want it.
struct Head<const RECORD: usize> {
    record: [u8; RECORD],
    source: usize,
}

impl<const RECORD: usize> Ord for Head<RECORD> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        order(&other.record, &self.record)
    }
}

impl<const RECORD: usize> PartialOrd for Head<RECORD> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<const RECORD: usize> PartialEq for Head<RECORD> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<const RECORD: usize> Eq for Head<RECORD> {}

/// All records of several sources in order.
pub(super) struct Merge<'a, const RECORD: usize, D: Device> {
    sources: Vec<Source<'a, RECORD, D>>,
    heads: BinaryHeap<Head<RECORD>>,
}

impl<'a, const RECORD: usize, D: Device> Merge<'a, RECORD, D> {
    pub(super) fn new(mut sources: Vec<Source<'a, RECORD, D>>) -> Result<Self> {
        let mut heads = BinaryHeap::with_capacity(sources.len());
        for (number, source) in sources.iter_mut().enumerate() {
            if let Some(record) = source.next()? {
                heads.push(Head { record, source: number });
            }
        }
        Ok(Merge { sources, heads })
    }

    pub(super) fn of_runs(runs: Vec<Run<'a, D>>) -> Result<Self> {
        Merge::new(runs.into_iter().map(|run| Source::Run(RunReader::new(run))).collect())
    }

    /// The next record, or `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<[u8; RECORD]>> {
        let Some(mut head) = self.heads.peek_mut() else {
            return Ok(None);
        };
        let record = head.record;
        match self.sources[head.source].next()? {
            Some(next) => head.record = next,
            None => drop(PeekMut::pop(head)),
        }
        Ok(Some(record))
    }
}
