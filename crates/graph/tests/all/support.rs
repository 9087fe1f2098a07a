//! Storages and runs that tests share.

use silica_base::Result;
use silica_device::blocks::Geometry;
use silica_device::sim::{SimDevice, SimFlash, SimFlashOptions, SimOptions};
use silica_graph::{
    BuildOptions, BuildReport, Edges, FileStorage, Graph, Memory, Number, Outcome, PolicyStorage,
    RunOptions, Storage, VertexProgram,
};

/// Memory for graphs that fit.
pub(crate) const AMPLE: u64 = 64 << 20;

/// Plain files in memory.
pub(crate) fn files(seed: u64) -> FileStorage<SimDevice> {
    FileStorage::create(SimDevice::new(seed, SimOptions::default())).unwrap()
}

/// A flash with room for `blocks` blocks of 8 KiB.
pub(crate) fn flash(blocks: u32) -> SimFlash {
    let geometry = Geometry {
        channels: 2,
        luns: 2,
        blocks: blocks / 4,
        pages: 16,
        page_bytes: 512,
        spare_bytes: 64,
    };
    SimFlash::new(1, SimFlashOptions::flash(geometry))
}

/// A storage on a flash of its own.
pub(crate) fn policy(blocks: u32) -> PolicyStorage<SimFlash> {
    PolicyStorage::format(flash(blocks)).unwrap()
}

/// Edges as the text of an edge list.
pub(crate) fn text(edges: &[(u32, u32)]) -> String {
    edges.iter().map(|(source, target)| format!("{source}\t{target}\n")).collect()
}

/// Builds a graph of edges.
pub(crate) fn build_of(
    storage: &impl Storage,
    memory: &Memory,
    edges: &[(u32, u32)],
) -> Result<BuildReport> {
    let text = text(edges);
    let mut input = Edges::new(text.as_bytes());
    silica_graph::build(storage, memory, &mut input, &BuildOptions::default(), &mut |_| Ok(()))
}

/// Runs a program to its end: the outcome, and the result of each vertex.
pub(crate) fn run_of<P: VertexProgram>(
    graph: &Graph<'_, impl Storage>,
    program: &P,
    iterations_max: u64,
) -> Result<(Outcome, Vec<(u32, Number)>)> {
    let options = RunOptions { iterations_max, ..RunOptions::default() };
    let outcome = graph.run(program, &options, &mut |_| Ok(()))?;
    Ok((outcome, results_of(graph, program, &outcome)?))
}

/// The result of each vertex.
pub(crate) fn results_of<P: VertexProgram>(
    graph: &Graph<'_, impl Storage>,
    program: &P,
    outcome: &Outcome,
) -> Result<Vec<(u32, Number)>> {
    let mut results = Vec::new();
    graph.each_result(program, outcome, &mut |id, number| {
        results.push((id, number));
        Ok(())
    })?;
    Ok(results)
}

/// A real result.
pub(crate) fn real(number: Number) -> f64 {
    match number {
        Number::Real(number) => number,
        other => panic!("{other:?} is not real"),
    }
}
