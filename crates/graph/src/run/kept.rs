//! What a run keeps in memory beside its threads, as far as the memory number goes: values of all
//! vertices, numbers of edges, and chunks.

use crate::graph::Graph;
use crate::memory::Reserved;
use crate::program::Fixed;
use crate::storage::Storage;
use crate::values::Copies;
use silica_base::Result;
use std::ops::Range;
use std::sync::OnceLock;

/// Vertices of a block, of which it is known whether one changed.
pub(super) const BLOCK: u64 = 4096;
/// Bytes of values that are read at a time.
const STEP_BYTES: usize = 256 << 10;

/// What is kept.
pub(super) struct Kept<V> {
    /// Values before the iteration, if they are kept.
    pub(super) values: Option<Vec<V>>,
    /// Values behind it.
    next: Vec<V>,
    /// Edges that enter and leave each vertex, if they are kept.
    pub(super) counts: Option<(Vec<u32>, Vec<u32>)>,
    /// The first chunks.
    pub(super) chunks: Vec<OnceLock<Box<[u8]>>>,
    /// Blocks that the iteration before changed; empty if that is not known.
    changed: Vec<bool>,
    /// Blocks that this iteration changes.
    changes: Vec<bool>,
    _reserved: Vec<Reserved>,
}

impl<V: Fixed> Kept<V> {
    /// Takes what is free.
    pub(super) fn new<S: Storage>(graph: &Graph<'_, S>, counts_edges: bool) -> Result<Self> {
        let memory = graph.space.memory;
        let vertices = graph.vertices() as usize;
        let blocks = graph.vertices().div_ceil(BLOCK);
        let mut reserved = vec![memory.take(blocks * 2, "what changed")?];
        let mut take = |bytes: u64| memory.try_take(bytes).map(|taken| reserved.push(taken));
        let of_values = vertices as u64 * 2 * size_of::<V>() as u64;
        let values = take(of_values).map(|()| vec![V::default(); vertices]);
        let next = if values.is_some() { vec![V::default(); vertices] } else { Vec::new() };
        let counts = if counts_edges { take(vertices as u64 * 8) } else { None };
        let counts = counts.map(|()| counts_of(graph)).transpose()?;
        let each = graph.catalog.chunk_bytes + size_of::<OnceLock<Box<[u8]>>>() as u64;
        let chunks = (memory.free_bytes() / each).min(graph.catalog.sources.len() as u64);
        let chunks = take(chunks * each).map_or(0, |()| chunks);
        Ok(Kept {
            values,
            next,
            counts,
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            changed: Vec::new(),
            changes: vec![false; blocks as usize],
            _reserved: reserved,
        })
    }

    /// Reads the values of a copy if they are kept.
    pub(super) fn load<S: Storage>(&mut self, copies: &Copies<'_, S, V>, copy: u32) -> Result<()> {
        let Some(values) = &mut self.values else { return Ok(()) };
        // It stands in for the values behind the iteration, which are not there yet.
        let mut bytes = vec![0; STEP_BYTES.min(values.len() * V::BYTES + STEP_BYTES / 16)];
        let all = 0..values.len() as u64;
        copies.read(copy, all, &mut bytes, values)
    }

    /// Takes values behind the iteration.
    pub(super) fn put(&mut self, vertices: &Range<u64>, values: &[V]) {
        if self.values.is_some() {
            self.next[vertices.start as usize..vertices.end as usize].copy_from_slice(values);
        }
    }

    /// Notes blocks that changed.
    pub(super) fn note_changed(&mut self, blocks: &[u64]) {
        blocks.iter().for_each(|block| self.changes[*block as usize] = true);
    }

    /// Ends the iteration: what was behind it is before the next.
    pub(super) fn turn(&mut self) {
        if let Some(values) = &mut self.values {
            std::mem::swap(values, &mut self.next);
        }
        self.changed.resize(self.changes.len(), false);
        std::mem::swap(&mut self.changed, &mut self.changes);
        self.changes.fill(false);
    }

    /// True if the iteration before may have changed one of these vertices.
    pub(super) fn may_have_changed(&self, vertices: &Range<u64>) -> bool {
        if self.changed.is_empty() || vertices.is_empty() {
            return true;
        }
        let blocks = vertices.start / BLOCK..vertices.end.div_ceil(BLOCK);
        self.changed[blocks.start as usize..blocks.end as usize].contains(&true)
    }
}

fn counts_of<S: Storage>(graph: &Graph<'_, S>) -> Result<(Vec<u32>, Vec<u32>)> {
    let read = |stream| {
        let mut numbers = graph.numbers(stream)?;
        let mut all = Vec::with_capacity(graph.vertices() as usize);
        while let Some(number) = numbers.next_u32()? {
            all.push(number);
        }
        Ok::<_, silica_base::Error>(all)
    };
    Ok((read(&graph.catalog.entering)?, read(&graph.catalog.leaving)?))
}
