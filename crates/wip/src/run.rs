//! Runs: tables, or parts of them, whose ranges of keys do not meet.

use crate::memtable::{head, is_from};
use crate::state::PartState;
use silica_base::Result;
use silica_device::Device;
use silica_parts::table::Table;
use std::ops::Deref;
use std::sync::Arc;

/// An open table and its number.
pub(crate) struct Numbered<D: Device> {
    pub(crate) number: u64,
    pub(crate) table: Arc<Table<D::File>>,
    /// The sequence number of all of its versions where it was ingested; else 0.
    pub(crate) ingested_at: u64,
}

impl<D: Device> Numbered<D> {
    /// A table that was not ingested.
    pub(crate) fn new(number: u64, table: Table<D::File>) -> Self {
        Numbered { number, table: Arc::new(table), ingested_at: 0 }
    }

    /// This table, ingested: its versions have no numbers.
    pub(crate) fn ingested(self, sequence: u64) -> Result<Self> {
        let table = Arc::new(self.table.numbered(sequence)?);
        Ok(Numbered { number: self.number, table, ingested_at: sequence })
    }
}

impl<D: Device> Clone for Numbered<D> {
    fn clone(&self) -> Self {
        let (number, ingested_at) = (self.number, self.ingested_at);
        Numbered { number, table: Arc::clone(&self.table), ingested_at }
    }
}

/// The keys of a table from `lower` on and before `upper`.
pub(crate) struct Part<D: Device> {
    pub(crate) table: Numbered<D>,
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
    /// How the two begin: nearly all keys are told apart by that, without the way to their bytes.
    lower_head: u64,
    upper_head: u64,
    /// The first block of the table that may have keys behind the range.
    upper_block: usize,
    /// How often its entries were merged, at most [`crate::policy::LEVEL_MAX`].
    pub(crate) level: u8,
    /// Bytes of tables that nobody needs because of it: older versions of its keys, and its own
    /// tombstones. An estimate.
    pub(crate) dead_bytes: u64,
}

impl<D: Device> Clone for Part<D> {
    fn clone(&self) -> Self {
        let (table, lower, upper) = (self.table.clone(), self.lower.clone(), self.upper.clone());
        Part { table, lower, upper, ..*self }
    }
}

impl<D: Device> Part<D> {
    pub(crate) fn new(
        table: Numbered<D>,
        lower: Vec<u8>,
        upper: Option<Vec<u8>>,
        level: u8,
        dead_bytes: u64,
    ) -> Self {
        let lower_head = head(&lower);
        let upper_head = upper.as_ref().map_or(u64::MAX, |upper| head(upper));
        let block_of = |upper: &Vec<u8>| table.table.block_of(upper);
        let upper_block = upper.as_ref().map_or(usize::MAX, block_of);
        Part { table, lower, upper, lower_head, upper_head, upper_block, level, dead_bytes }
    }

    /// These keys of `table`, which has the same versions.
    pub(crate) fn in_table(&self, table: Numbered<D>) -> Self {
        Part { table, ..self.clone() }
    }

    #[inline]
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.has_head(head(key), key)
    }

    /// Keys of the range begin with neither less nor more than these.
    pub(crate) fn heads(&self) -> (u64, u64) {
        (self.lower_head, self.upper_head)
    }

    /// True if a key that begins with `head` is in the range.
    #[inline]
    fn has_head(&self, head: u64, key: &[u8]) -> bool {
        let is_inside = self.lower_head < head && head < self.upper_head;
        let is_near = self.lower_head <= head && head <= self.upper_head;
        is_inside || is_near && is_from(&self.lower, key) && self.is_below_upper(key)
    }

    /// True where `key` comes before the end of the range.
    #[inline]
    pub(crate) fn is_below_upper(&self, key: &[u8]) -> bool {
        self.upper.as_ref().is_none_or(|upper| *key < **upper)
    }

    /// True if a key in block `block` of the table is below the upper end, which is mostly known by
    /// that.
    #[inline]
    pub(crate) fn is_below_upper_at(&self, block: usize, key: &[u8]) -> bool {
        block < self.upper_block || self.is_below_upper(key)
    }

    /// What the manifest says of it.
    pub(crate) fn state(&self) -> PartState {
        let (lower, upper) = (self.lower.clone(), self.upper.clone());
        let (level, dead_bytes) = (self.level, self.dead_bytes);
        let sequence = self.table.ingested_at;
        PartState { table: self.table.number, lower, upper, level, dead_bytes, sequence }
    }

    /// The keys that are in `lower..upper`, too, if that may be any.
    pub(crate) fn within(&self, lower: &[u8], upper: Option<&[u8]>) -> Option<Self> {
        let lower = lower.max(&self.lower).to_vec();
        let upper = match (upper, &self.upper) {
            (Some(a), Some(b)) => Some(a.min(b).to_vec()),
            (a, b) => a.map(<[u8]>::to_vec).or_else(|| b.clone()),
        };
        let is_any = upper.as_ref().is_none_or(|upper| lower < *upper);
        is_any.then(|| {
            let (table, level) = (self.table.clone(), self.level);
            let mut part = Part::new(table, lower, upper, level, 0);
            let share = part.bytes() as f64 / self.bytes() as f64;
            part.dead_bytes = (self.dead_bytes as f64 * share) as u64;
            part
        })
    }

    /// Bytes of the blocks that may have keys of the range.
    pub(crate) fn bytes(&self) -> u64 {
        let (table, blocks) = (&self.table.table, self.blocks());
        let last = table.place(blocks.end - 1);
        last.offset + last.len as u64 - table.place(blocks.start).offset
    }

    /// Bytes of a version of the table, on average.
    pub(crate) fn version_bytes(&self) -> f64 {
        let table = &self.table.table;
        let last = table.place(table.blocks() - 1);
        (last.offset + last.len as u64) as f64 / table.footer().versions as f64
    }

    /// Blocks that may have keys of the range.
    pub(crate) fn blocks(&self) -> std::ops::Range<usize> {
        let table = &self.table.table;
        table.block_of(&self.lower)..self.upper_block.min(table.blocks() - 1) + 1
    }
}

/// Parts in the order of their keys. Its clones share them: each search of a range takes one.
pub(crate) struct Run<D: Device>(Arc<Vec<Part<D>>>);

impl<D: Device> Run<D> {
    /// The parts, which nobody else has then.
    pub(crate) fn parts_mut(&mut self) -> &mut Vec<Part<D>> {
        Arc::make_mut(&mut self.0)
    }
}

impl<D: Device> Clone for Run<D> {
    fn clone(&self) -> Self {
        Run(Arc::clone(&self.0))
    }
}

impl<D: Device> Default for Run<D> {
    fn default() -> Self {
        Run(Arc::default())
    }
}

impl<D: Device> Deref for Run<D> {
    type Target = [Part<D>];

    #[inline]
    fn deref(&self) -> &[Part<D>] {
        &self.0
    }
}

impl<D: Device> FromIterator<Part<D>> for Run<D> {
    fn from_iter<I: IntoIterator<Item = Part<D>>>(parts: I) -> Self {
        Run(Arc::new(parts.into_iter().collect()))
    }
}

impl<'r, D: Device> IntoIterator for &'r Run<D> {
    type Item = &'r Part<D>;
    type IntoIter = std::slice::Iter<'r, Part<D>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The part where `key` belongs.
#[inline]
pub(crate) fn part_of<'r, D: Device>(run: &'r Run<D>, key: &[u8]) -> Option<&'r Part<D>> {
    let head = head(key);
    run.iter().find(|part| part.has_head(head, key))
}

/// True where `runs` begin with `some` and end with `others`, and that is all.
pub(crate) fn same<D: Device>(runs: &[Run<D>], some: &[Run<D>], others: &[Run<D>]) -> bool {
    let is_same = |(a, b): (&Run<D>, &Run<D>)| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.table.number == b.table.number)
    };
    runs.len() == some.len() + others.len()
        && runs.iter().zip(some.iter().chain(others)).all(is_same)
}
