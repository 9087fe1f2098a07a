//! A graph that was built: what it has, and results of programs.

use crate::catalog::{self, Catalog, ROOT_SEGMENTS};
use crate::memory::{Memory, Reserved};
use crate::program::{Number, Vertex, VertexProgram};
use crate::run::Outcome;
use crate::sort::Sorter;
use crate::storage::Storage;
use crate::stream::{StreamReader, Workspace};
use crate::values::Copies;
use silica_base::{Error, ErrorKind, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Vertices whose results are read at a time.
const STEP: u64 = 4096;

/// A graph on a storage.
pub struct Graph<'a, S> {
    pub(crate) space: Workspace<'a, S>,
    pub(crate) catalog: Catalog,
    /// Checksum of the catalog: which graph a record is about.
    pub(crate) sum: u32,
    _reserved: [Reserved; 2],
}

impl<'a, S: Storage> Graph<'a, S> {
    /// Opens the graph that a storage has.
    ///
    /// # Errors
    /// `NotFound` if it has none, or building was interrupted; `Full` if the memory number is too
    /// small; `Corruption`, `Unsupported`; what the storage said.
    pub fn open(storage: &'a S, memory: &'a Memory) -> Result<Self> {
        let own = memory.take(storage.memory_bytes(), "the mapping of the flash")?;
        let space = Workspace::new(storage, memory, ROOT_SEGMENTS);
        let Some(found) = catalog::read(&space)? else {
            let message = "there is no graph here, or building it was interrupted; build it";
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        let catalog::Found { catalog, sum, free, reserved } = found;
        let space = Workspace::new(storage, memory, free);
        Ok(Graph { space, catalog, sum, _reserved: [own, reserved] })
    }

    /// What the builder knew its input by.
    pub fn input(&self) -> u64 {
        self.catalog.input
    }

    /// Vertices.
    pub fn vertices(&self) -> u64 {
        self.catalog.vertices
    }

    /// Edges.
    pub fn edges(&self) -> u64 {
        self.catalog.edges
    }

    /// Lines of the input that were skipped.
    pub fn skipped(&self) -> u64 {
        self.catalog.skipped
    }

    /// Shards.
    pub fn shards(&self) -> usize {
        self.catalog.intervals()
    }

    /// Bytes of the shards.
    pub fn shard_bytes(&self) -> u64 {
        self.catalog.chunks.bytes
    }

    /// True if a vertex has this id. Reads all ids up to it.
    ///
    /// # Errors
    /// What the storage said.
    pub fn has(&self, id: u32) -> Result<bool> {
        let mut ids = self.numbers(&self.catalog.ids)?;
        while let Some(at) = ids.next_u32()? {
            if at >= id {
                return Ok(at == id);
            }
        }
        Ok(false)
    }

    /// The id of the vertex that most edges leave, the least of them; `None` for an empty graph.
    ///
    /// # Errors
    /// What the storage said.
    pub fn hub(&self) -> Result<Option<u32>> {
        let mut ids = self.numbers(&self.catalog.ids)?;
        let mut leaving = self.numbers(&self.catalog.leaving)?;
        let mut best: Option<(u32, u32)> = None;
        while let (Some(id), Some(count)) = (ids.next_u32()?, leaving.next_u32()?) {
            if best.is_none_or(|(most, _)| count > most) {
                best = Some((count, id));
            }
        }
        Ok(best.map(|(_, id)| id))
    }

    pub(crate) fn numbers(
        &self,
        stream: &crate::stream::Stream,
    ) -> Result<StreamReader<'_, 'a, S>> {
        StreamReader::new(&self.space, stream.clone(), self.space.page_bytes())
    }

    /// Gives each vertex and its result to `each`, in the order of the ids.
    ///
    /// # Errors
    /// What the storage said, and what `each` said.
    pub fn each_result<P: VertexProgram>(
        &self,
        program: &P,
        outcome: &Outcome,
        each: &mut dyn FnMut(u32, Number) -> Result<()>,
    ) -> Result<()> {
        let copies = Copies::<_, P::Value>::new(self.space.storage, self.vertices())?;
        let mut ids = self.numbers(&self.catalog.ids)?;
        let mut entering = self.numbers(&self.catalog.entering)?;
        let mut leaving = self.numbers(&self.catalog.leaving)?;
        let page_bytes = self.space.page_bytes();
        let step = STEP.min((page_bytes / size_of::<P::Value>()) as u64 * 4);
        let bytes = step * size_of::<P::Value>() as u64 + page_bytes as u64 * 2;
        let _reserved = self.space.memory.take(bytes, "results")?;
        let mut values = vec![P::Value::default(); step as usize];
        let mut bytes = vec![0; page_bytes * 2];
        for vertices in copies.steps(step) {
            let values = &mut values[..(vertices.end - vertices.start) as usize];
            copies.read(outcome.copy, vertices, &mut bytes, values)?;
            for value in values {
                let vertex = Vertex {
                    id: ids.next_u32()?.unwrap_or_default(),
                    entering: entering.next_u32()?.unwrap_or_default(),
                    leaving: leaving.next_u32()?.unwrap_or_default(),
                };
                each(vertex.id, program.number(vertex, *value))?;
            }
        }
        Ok(())
    }

    /// The `count` vertices with the greatest results, the greatest first; of equal ones the least
    /// id is first. Those without a result are not among them.
    ///
    /// # Errors
    /// What the storage said; `Full` if the memory number is too small.
    pub fn top<P: VertexProgram>(
        &self,
        program: &P,
        outcome: &Outcome,
        count: usize,
    ) -> Result<Vec<(u32, Number)>> {
        let count = count.min(self.vertices() as usize);
        let _reserved = self.space.memory.take(count as u64 * 48, "the top results")?;
        let mut top: BinaryHeap<Reverse<(Rank, Reverse<u32>)>> = BinaryHeap::new();
        self.each_result(program, outcome, &mut |id, number| {
            if number != Number::None {
                top.push(Reverse((Rank(number), Reverse(id))));
                if top.len() > count {
                    top.pop();
                }
            }
            Ok(())
        })?;
        let sorted = top.into_sorted_vec();
        Ok(sorted.into_iter().map(|Reverse((Rank(number), Reverse(id)))| (id, number)).collect())
    }

    /// How many vertices have each whole result, for components and levels: the number of results
    /// that differ, the vertices without one, and the first `count` pairs of result and vertices in
    /// the order that `by_size` says: the largest groups first, or the least results.
    ///
    /// # Errors
    /// What the storage said; `Full` if the memory number or the flash is too small.
    pub fn groups<P: VertexProgram>(
        &self,
        program: &P,
        outcome: &Outcome,
        count: usize,
        by_size: bool,
    ) -> Result<Groups> {
        let mut sorter = Sorter::new(&self.space, 2)?;
        let mut groups = Groups::default();
        self.each_result(program, outcome, &mut |_, number| match number {
            Number::Whole(number) => sorter.push(number),
            _ => {
                groups.without += 1;
                Ok(())
            }
        })?;
        let mut sorted = sorter.finish()?;
        let mut open: Option<(u64, u64)> = None;
        loop {
            let next = sorted.next()?;
            match &mut open {
                Some((number, size)) if Some(*number) == next => *size += 1,
                _ => {
                    if let Some(group) = open.take() {
                        groups.add(group, count, by_size);
                    }
                    open = next.map(|number| (number, 1));
                }
            }
            if next.is_none() {
                return Ok(groups);
            }
        }
    }
}

/// Vertices by their result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups {
    /// Results that differ.
    pub count: u64,
    /// Vertices without a result.
    pub without: u64,
    /// Results and how many vertices have each.
    pub first: Vec<(u64, u64)>,
}

impl Groups {
    fn add(&mut self, group: (u64, u64), count: usize, by_size: bool) {
        self.count += 1;
        if !by_size {
            if self.first.len() < count {
                self.first.push(group);
            }
            return;
        }
        let at = self.first.partition_point(|other| other.1 >= group.1);
        if at < count {
            self.first.insert(at, group);
            self.first.truncate(count);
        }
    }
}

/// A result in an order.
#[derive(PartialEq)]
struct Rank(Number);

impl Eq for Rank {}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (self.0, other.0) {
            (Number::Whole(one), Number::Whole(other)) => one.cmp(&other),
            (Number::Real(one), Number::Real(other)) => one.total_cmp(&other),
            // A program has one kind of results.
            _ => std::cmp::Ordering::Equal,
        }
    }
}
