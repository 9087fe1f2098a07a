//! How fast ranks are computed: in memory, streamed within a tenth of the memory that the graph
//! takes there, on files and on a flash image, beside a graph in petgraph's compressed rows.
//!
//! `cargo run --release -p silica-graph --example speed -- [SCALE [EDGES [THREADS]]]`

use petgraph::csr::Csr;
use silica_base::Result;
use silica_device::blocks::{FlashImage, FlashImageOptions, Geometry};
use silica_device::files::{DeviceOptions, FileDevice};
use silica_graph::{
    BuildOptions, Edges, FileStorage, Graph, Memory, PageRank, PolicyStorage, Rmat, RunOptions,
    Storage, edge_file::EdgeWriter,
};
use std::time::Instant;

const ITERATIONS: u64 = 10;
/// Bytes that petgraph's rows take: an edge has a column and an empty weight, a vertex an offset.
const REFERENCE_EDGE_BYTES: u64 = 4;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let scale = arguments.next().unwrap_or(20) as u32;
    let edges = arguments.next().unwrap_or(16 << 20);
    let threads = arguments.next().unwrap_or(1) as usize;
    let mut rmat = Rmat::new(scale, 1)?;
    let mut list: Vec<(u32, u32)> = (0..edges).map(|_| rmat.edge()).collect();
    let mut writer = EdgeWriter::new(Vec::new())?;
    list.iter().try_for_each(|(source, target)| writer.push(*source, *target))?;
    let input = writer.finish()?;
    println!("R-MAT of scale {scale}, {edges} edges, {threads} threads, {ITERATIONS} iterations");
    let directory = tempfile::tempdir().expect("a directory");
    let ample = 4 << 30;
    let little = (edges * REFERENCE_EDGE_BYTES + (8 << scale)) / 10;
    for (name, memory) in [("ample", ample), ("a tenth", little)] {
        let device = FileDevice::open(&directory.path().join(name), DeviceOptions::default())?;
        measure(&format!("files, {name}"), &FileStorage::create(device)?, memory, &input, threads)?;
        let geometry = Geometry {
            channels: 4,
            luns: 4,
            blocks: (edges * 40 / (16 << 20)) as u32 + 4,
            pages: 64,
            page_bytes: 16384,
            spare_bytes: 64,
        };
        let path = directory.path().join(format!("image {name}"));
        let image =
            FlashImage::create(&path, geometry, FlashImageOptions { id: 1, endurance: None })?;
        let storage = PolicyStorage::format(image)?;
        measure(&format!("flash image, {name}"), &storage, memory, &input, threads)?;
    }
    list.sort_unstable();
    list.dedup();
    reference(&list, scale);
    Ok(())
}

fn measure(
    name: &str,
    storage: &impl Storage,
    memory_bytes: u64,
    input: &[u8],
    threads: usize,
) -> Result<()> {
    let memory = Memory::new(memory_bytes);
    let started = Instant::now();
    let mut edges = Edges::new(input);
    let options = BuildOptions { threads, ..BuildOptions::default() };
    let report = silica_graph::build(storage, &memory, &mut edges, &options, &mut |_| Ok(()))?;
    let built = started.elapsed().as_secs_f64();
    let graph = Graph::open(storage, &memory)?;
    let program = PageRank::default();
    let run = |iterations_max| {
        let started = Instant::now();
        let options = RunOptions { iterations_max, threads, goes_on: false };
        let outcome = graph.run(&program, &options, &mut |_| Ok(()));
        outcome.map(|outcome| (outcome, started.elapsed().as_secs_f64()))
    };
    let (_, first) = run(1)?;
    let (outcome, whole) = run(1 + ITERATIONS)?;
    let rate = report.edges as f64 * ITERATIONS as f64 / (whole - first).max(1e-9);
    println!(
        "{name}: built {} shards in {built:.2} s; {:.2} s for {} iterations, {:.1} M edges/s; \
         {} MiB of memory",
        graph.shards(),
        whole,
        outcome.iterations,
        rate / 1e6,
        memory.peak_bytes() >> 20
    );
    Ok(())
}

/// Power iteration over petgraph's rows.
fn reference(list: &[(u32, u32)], scale: u32) {
    let graph: Csr<(), ()> = Csr::from_sorted_edges(list).expect("sorted edges");
    let vertices = graph.node_count();
    let started = Instant::now();
    let mut ranks = vec![1.0 / vertices as f64; vertices];
    for _ in 0..ITERATIONS {
        let mut next = vec![0.0; vertices];
        let mut dangling = 0.0;
        for (source, rank) in ranks.iter().enumerate() {
            let targets = graph.neighbors_slice(source as u32);
            if targets.is_empty() {
                dangling += rank;
            }
            let share = rank / targets.len() as f64;
            targets.iter().for_each(|target| next[*target as usize] += share);
        }
        let base = (0.15 + 0.85 * dangling) / vertices as f64;
        next.iter_mut().for_each(|sum| *sum = base + 0.85 * *sum);
        ranks = next;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "petgraph's rows, scale {scale}: {seconds:.2} s for {ITERATIONS} iterations, {:.1} M \
         edges/s (repeated edges once), one thread",
        list.len() as f64 * ITERATIONS as f64 / seconds / 1e6
    );
}
