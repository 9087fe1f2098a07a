//! Running a program: iterations, what is kept in memory, and where a run goes on.
//!
//! Vertices of an interval are computed by one thread, from the shard of the interval and, if the
//! program asks for targets, from the windows of all shards. As many intervals as there are threads
//! are computed side by side; their values are written in order.

mod interval;
mod kept;

use self::interval::{Computed, Worker};
use self::kept::Kept;
use crate::graph::Graph;
use crate::program::{Pass, Totals, Vertex, VertexProgram};
use crate::state::{Record, StateLog};
use crate::storage::Storage;
use crate::values::Copies;
use silica_base::{Error, ErrorKind, Result};
use std::ops::Range;

/// How a program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// Iterations at most.
    pub iterations_max: u64,
    /// Threads; fewer are used if the memory number is too small for their intervals.
    pub threads: usize,
    /// Go on where an interrupted run of the same program on the same graph was.
    pub goes_on: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions { iterations_max: u64::MAX, threads: 2, goes_on: true }
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Iterations that are finished.
    pub iteration: u64,
    /// Shards of the iteration that is under way.
    pub shards_done: usize,
    /// Shards.
    pub shards: usize,
    /// Values that the last finished iteration changed.
    pub changed: u64,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Iterations in all.
    pub iterations: u64,
    /// Iterations that an interrupted run had finished.
    pub resumed: u64,
    /// True if no iteration is left to do, false if `iterations_max` ended it.
    pub is_finished: bool,
    /// Values that the last iteration changed.
    pub changed: u64,
    /// Edges that were gathered.
    pub edges_gathered: u64,
    /// The copy that has the values.
    pub(crate) copy: u32,
}

impl<'a, S: Storage> Graph<'a, S> {
    /// Runs a program until it is finished. `watch` is called between shards; if it returns an
    /// error, the run ends there and can go on later.
    ///
    /// An iteration reads every shard that is not kept in memory, and for each interval the values
    /// of all sources; it writes each value once, and syncs.
    ///
    /// # Errors
    /// `Full` if the memory number is too small for an interval, or the flash for the values; what
    /// the storage and `watch` said.
    pub fn run<P: VertexProgram>(
        &self,
        program: &P,
        options: &RunOptions,
        watch: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Outcome> {
        let copies = Copies::<_, P::Value>::new(self.space.storage, self.vertices())?;
        let (mut log, found) = StateLog::open(self.space.storage)?;
        let is_ours = |record: &Record| {
            record.graph == self.sum
                && record.program == program.name()
                && record.iteration <= options.iterations_max
        };
        let found = found.filter(|record| options.goes_on && is_ours(record));
        let resumed = found.as_ref().map_or(0, |record| record.iteration);
        let record = match found {
            Some(record) => record,
            None => {
                // From here on what another run has is not taken for whole.
                log.append(self.space.storage, &Record::of_nothing())?;
                copies.clear()?;
                let sum_of_all = self.write_first(program, &copies)?;
                let record = Record {
                    graph: self.sum,
                    program: program.name(),
                    iteration: 0,
                    changed: self.vertices(),
                    sum_of_all,
                    copy: 0,
                };
                log.append(self.space.storage, &record)?;
                record
            }
        };
        self.iterate(program, options, &copies, (log, record, resumed), watch)
    }

    fn iterate<P: VertexProgram>(
        &self,
        program: &P,
        options: &RunOptions,
        copies: &Copies<'a, S, P::Value>,
        (mut log, mut record, resumed): (StateLog, Record, u64),
        watch: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<Outcome> {
        let mut run = Run::new(self, program, copies, options)?;
        run.kept.load(copies, record.copy)?;
        let is_finished =
            |record: &Record| record.iteration > 0 && program.is_finished(record.changed);
        let totals = self.totals();
        while record.iteration < options.iterations_max
            && !is_finished(&record)
            && totals.vertices > 0
        {
            let pass =
                Pass { totals, iteration: record.iteration + 1, sum_of_all: record.sum_of_all };
            let (changed, sum_of_all) = run.iteration(&pass, &record, watch)?;
            record.iteration += 1;
            record.changed = changed;
            record.sum_of_all = sum_of_all;
            record.copy = 1 - record.copy;
            log.append(self.space.storage, &record)?;
        }
        Ok(Outcome {
            iterations: record.iteration,
            resumed,
            is_finished: is_finished(&record) || totals.vertices == 0,
            changed: record.changed,
            edges_gathered: run.edges_gathered,
            copy: record.copy,
        })
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals { vertices: self.vertices(), edges: self.edges() }
    }

    /// Writes the values before the first iteration; returns what they add up to.
    fn write_first<P: VertexProgram>(
        &self,
        program: &P,
        copies: &Copies<'a, S, P::Value>,
    ) -> Result<f64> {
        let mut writer = copies.writer(0, self.space.memory)?;
        let mut ids = self.numbers(&self.catalog.ids)?;
        let mut entering = self.numbers(&self.catalog.entering)?;
        let mut leaving = self.numbers(&self.catalog.leaving)?;
        let mut sum = 0.0;
        // Sums of reals are added by interval here as in every iteration.
        for interval in 0..self.catalog.intervals() {
            let mut of_interval = 0.0;
            for _ in self.catalog.interval(interval) {
                let vertex = Vertex {
                    id: ids.next_u32()?.unwrap_or_default(),
                    entering: entering.next_u32()?.unwrap_or_default(),
                    leaving: leaving.next_u32()?.unwrap_or_default(),
                };
                let value = program.begin(self.totals(), vertex);
                of_interval += program.contribution(vertex, value);
                writer.push(&[value])?;
            }
            sum += of_interval;
        }
        writer.finish()?;
        Ok(sum)
    }
}

/// A run that is under way.
struct Run<'r, 'a, S, P: VertexProgram> {
    graph: &'r Graph<'a, S>,
    program: &'r P,
    copies: &'r Copies<'a, S, P::Value>,
    kept: Kept<P::Value>,
    workers: Vec<Worker<P>>,
    edges_gathered: u64,
}

impl<'r, 'a, S: Storage, P: VertexProgram> Run<'r, 'a, S, P> {
    fn new(
        graph: &'r Graph<'a, S>,
        program: &'r P,
        copies: &'r Copies<'a, S, P::Value>,
        options: &RunOptions,
    ) -> Result<Self> {
        // The buffer of the results, and what states and progress take.
        let memory = graph.space.memory;
        let spare = memory.take(memory.free_bytes() / 16, "the buffer of results")?;
        let mut workers = vec![Worker::new(graph, program)?];
        let wanted = options.threads.clamp(1, graph.catalog.intervals().max(1));
        while workers.len() < wanted {
            match Worker::new(graph, program) {
                Ok(worker) => workers.push(worker),
                Err(error) if error.kind() == ErrorKind::Full => break,
                Err(error) => return Err(error),
            }
        }
        let kept = Kept::new(graph, program.counts_edges())?;
        drop(spare);
        Ok(Run { graph, program, copies, kept, workers, edges_gathered: 0 })
    }

    /// Does an iteration: values that changed, and what the new ones add up to.
    fn iteration(
        &mut self,
        pass: &Pass,
        record: &Record,
        watch: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<(u64, f64)> {
        let shards = self.graph.catalog.intervals();
        let mut writer = self.copies.writer(1 - record.copy, self.graph.space.memory)?;
        let (mut changed, mut sum) = (0, 0.0);
        let mut next = 0;
        while next < shards {
            watch(&Progress {
                iteration: record.iteration,
                shards_done: next,
                shards,
                changed: record.changed,
            })?;
            let round = next..(next + self.workers.len()).min(shards);
            let computed = self.round(pass, record.copy, round.clone())?;
            for (interval, computed) in round.clone().zip(&computed) {
                let vertices = self.graph.catalog.interval(interval);
                let values = self.workers[interval - round.start].values(&vertices);
                writer.push(values)?;
                self.kept.put(&vertices, values);
                changed += computed.changed;
                sum += computed.sum;
                self.edges_gathered += computed.edges;
            }
            next = round.end;
        }
        writer.finish()?;
        self.kept.turn();
        Ok((changed, sum))
    }

    /// Computes some intervals, each in a thread.
    fn round(&mut self, pass: &Pass, copy: u32, intervals: Range<usize>) -> Result<Vec<Computed>> {
        let Run { graph, program, copies, kept, workers, .. } = self;
        let (graph, program, copies, kept) = (*graph, *program, *copies, &*kept);
        let place = interval::Place { graph, program, copies, kept, pass, copy };
        let place = &place;
        let mut jobs = intervals.zip(workers.iter_mut());
        let results: Vec<Result<Computed>> = std::thread::scope(|scope| {
            let first = jobs.next();
            let others: Vec<_> =
                jobs.map(|(n, worker)| scope.spawn(move || worker.compute(place, n))).collect();
            let own = first.map(|(number, worker)| worker.compute(place, number));
            let others = others.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            own.into_iter().chain(others).collect()
        });
        let results: Result<Vec<Computed>> = results.into_iter().collect();
        let results = results?;
        for computed in &results {
            self.kept.note_changed(&computed.changed_blocks);
        }
        Ok(results)
    }
}

/// Refuses a chunk that says what cannot be.
fn damaged(chunk: u64) -> Error {
    let what = format!("chunk {chunk} of the graph");
    Error::corruption(what, 0, "a vertex of it is not there; build the graph again")
}
