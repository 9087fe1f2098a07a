//! A vertex program of one's own: the least id from which each vertex can be reached along edges.
//!
//! `cargo run --release -p silica-graph --example program -- EDGES`

use silica_base::{Error, Result};
use silica_device::files::{DeviceOptions, FileDevice};
use silica_graph::{
    BuildOptions, Edges, FileStorage, Graph, Memory, Number, Pass, RunOptions, Totals, Vertex,
    VertexProgram,
};
use std::fs::File;

/// The least id from which a vertex can be reached along edges.
struct Origin;

impl VertexProgram for Origin {
    type Value = u32;
    type Sum = u32;

    fn name(&self) -> String {
        "origin".to_string()
    }

    // Origins only fall, so sources that did not change have nothing new to say.
    fn is_monotone(&self) -> bool {
        true
    }

    fn begin(&self, _totals: Totals, vertex: Vertex) -> u32 {
        vertex.id
    }

    fn neutral(&self) -> u32 {
        u32::MAX
    }

    fn gather(&self, sum: &mut u32, value: u32) {
        *sum = (*sum).min(value);
    }

    fn apply(&self, _pass: &Pass, _vertex: Vertex, before: u32, sum: u32) -> u32 {
        before.min(sum)
    }

    fn number(&self, _vertex: Vertex, value: u32) -> Number {
        Number::Whole(u64::from(value))
    }
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1).expect("the path of an edge list");
    let file = File::open(&path).map_err(|e| Error::io(format!("reading {path}"), e))?;
    let directory = tempfile::tempdir().map_err(|e| Error::io("making a directory", e))?;
    let storage =
        FileStorage::create(FileDevice::open(directory.path(), DeviceOptions::default())?)?;
    let memory = Memory::new(64 << 20);
    let mut edges = Edges::new(file);
    silica_graph::build(&storage, &memory, &mut edges, &BuildOptions::default(), &mut |_| Ok(()))?;
    let graph = Graph::open(&storage, &memory)?;
    let outcome = graph.run(&Origin, &RunOptions::default(), &mut |_| Ok(()))?;
    println!("{} vertices, {} iterations", graph.vertices(), outcome.iterations);
    for (origin, vertices) in graph.groups(&Origin, &outcome, 5, true)?.first {
        println!("{vertices} vertices are reached from {origin}");
    }
    Ok(())
}
