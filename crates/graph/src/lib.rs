//! Graphs larger than memory, ranked and searched on flash (papers: 003…, 3.7.3).
//!
//! [`build`] makes a [`Graph`] of an edge list: an external sort into *shards*, one for each
//! interval of vertices, which hold the edges into the interval in the order of their sources. A
//! [`VertexProgram`] then runs in iterations. Each streams every shard once; the values of the
//! sources slide past it as a window, because both are in the same order. Memory is a number
//! ([`Memory`]) that is counted before it is allocated.
//!
//! Bytes live behind [`Storage`]: a logical device of the flash library's policy level
//! ([`PolicyStorage`]), or plain files ([`FileStorage`]), the baseline.
//!
//! [`PageRank`], [`Components`] and [`Levels`] are programs; [`triangles`] counts those of the
//! undirected graph. `examples/program.rs` is a program of one's own.
//!
//! Crates: `flate2` reads gzip in safe Rust; it is what cargo itself reads crates with.
//!
//! ```
//! use silica_device::files::{DeviceOptions, FileDevice};
//! use silica_graph::{BuildOptions, Edges, FileStorage, Graph, Memory, PageRank, RunOptions};
//!
//! let directory = tempfile::tempdir().unwrap();
//! let device = FileDevice::open(directory.path(), DeviceOptions::default())?;
//! let storage = FileStorage::create(device)?;
//! let memory = Memory::new(8 << 20);
//! let mut edges = Edges::new(&b"# a triangle and a tail\n1 2\n2 3\n3 1\n3 9\n"[..]);
//! silica_graph::build(&storage, &memory, &mut edges, &BuildOptions::default(), &mut |_| Ok(()))?;
//! let graph = Graph::open(&storage, &memory)?;
//! let options = RunOptions { iterations_max: 20, ..RunOptions::default() };
//! let outcome = graph.run(&PageRank::default(), &options, &mut |_| Ok(()))?;
//! let top = graph.top(&PageRank::default(), &outcome, 1)?;
//! assert_eq!(top[0].0, 3);
//! # Ok::<(), silica_base::Error>(())
//! ```
//!
//! Invariants:
//! 1. A graph is there if the root page names it; the root is written after all that it names was
//!    synced, and taken away before any of it is written again.
//! 2. An iteration writes only the copy of the values that the newest state record does not name.
//!    The record is written after the copy was synced, so an interrupted run goes on at the last
//!    finished iteration.
//! 3. Results do not depend on memory or threads, but for the last bits of sums over all vertices.
#![forbid(unsafe_code)]

mod build;
mod catalog;
mod chunk;
pub mod edge_file;
mod graph;
mod input;
mod memory;
mod numbering;
mod program;
mod programs;
mod rmat;
mod run;
mod sort;
mod spool;
mod state;
mod storage;
mod stream;
mod triangles;
mod values;

pub use build::{BuildOptions, BuildProgress, BuildReport, BuildStage, build};
pub use graph::{Graph, Groups};
pub use input::{BadLine, Edges, InputReport};
pub use memory::{Memory, Reserved};
pub use program::{Fixed, Neighbours, Number, Pass, Totals, Vertex, VertexProgram};
pub use programs::{Components, Levels, PageRank};
pub use rmat::Rmat;
pub use run::{Outcome, Progress, RunOptions};
pub use storage::{
    Area, ConventionalStorage, FileStorage, PolicyStorage, Storage, StorageCounters,
};
pub use triangles::{TriangleProgress, triangles};
