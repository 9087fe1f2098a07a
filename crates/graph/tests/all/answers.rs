//! Answers beside those of petgraph, on graphs of all shapes with ample and with little memory.

use crate::reference::Reference;
use crate::support::{AMPLE, build_of, files, policy, real, run_of};
use proptest::prelude::*;
use silica_base::{Prng, test_size};
use silica_graph::{Components, Graph, Levels, Memory, PageRank, Rmat, Storage, triangles};

/// Memory with which graphs of some thousand edges are sorted in several runs, and have several
/// shards.
const LITTLE: u64 = 96 << 10;

/// Compares every program with petgraph.
fn check(storage: &impl Storage, memory_bytes: u64, edges: &[(u32, u32)]) {
    let memory = Memory::new(memory_bytes);
    let report = build_of(storage, &memory, edges).unwrap();
    let reference = Reference::new(edges);
    assert_eq!((report.vertices, report.edges), (reference.vertices() as u64, edges.len() as u64));
    let graph = Graph::open(storage, &memory).unwrap();
    for iterations in [1, 12] {
        let expected = reference.ranks(0.85, iterations);
        let (outcome, ranks) = run_of(&graph, &PageRank::default(), iterations).unwrap();
        assert!(outcome.iterations == iterations || outcome.is_finished);
        assert_eq!(ranks.len(), expected.len());
        for ((id, rank), (expected_id, expected)) in ranks.iter().zip(&expected) {
            assert_eq!(id, expected_id);
            let error = (real(*rank) - expected).abs() / expected;
            assert!(error < 1e-9, "vertex {id}: {rank} and {expected}");
        }
    }
    let (outcome, components) = run_of(&graph, &Components, u64::MAX).unwrap();
    assert!(outcome.is_finished);
    assert_eq!(components, reference.components());
    for start in edges.iter().take(2).map(|edge| edge.0) {
        let levels = Levels { start, is_undirected: false };
        assert_eq!(run_of(&graph, &levels, u64::MAX).unwrap().1, reference.levels(start));
    }
    assert_eq!(triangles(&graph, &mut |_| Ok(())).unwrap(), reference.triangles());
    assert!(memory.peak_bytes() <= memory_bytes);
}

fn rmat(scale: u32, edges: usize, seed: u64) -> Vec<(u32, u32)> {
    let mut rmat = Rmat::new(scale, seed).unwrap();
    (0..edges).map(|_| rmat.edge()).collect()
}

#[test]
fn a_skewed_graph_in_memory() {
    check(&files(1), AMPLE, &rmat(10, 20_000, 1));
}

#[test]
fn a_skewed_graph_in_little_memory_is_cut_into_shards() {
    let edges = rmat(12, test_size(20_000, 60_000, 400_000) as usize, 2);
    let storage = policy(2_048);
    check(&storage, 4 * LITTLE, &edges);
    let memory = Memory::new(4 * LITTLE);
    let graph = Graph::open(&storage, &memory).unwrap();
    assert!(graph.shards() > 1, "{} shards", graph.shards());
    assert!(graph.shard_bytes() > memory.limit_bytes() / 5);
    // Nothing was copied: logical blocks are written in their order.
    let statistics = storage.statistics();
    assert_eq!(statistics.pages_copied, 0, "{statistics:?}");
}

#[test]
fn ids_far_apart_are_numbered_by_sorting() {
    let mut prng = Prng::new(5);
    let ids: Vec<u32> = (0..600).map(|_| prng.next_u64() as u32).chain([0, u32::MAX]).collect();
    let mut any = || ids[prng.below(ids.len() as u64) as usize];
    let mut edges: Vec<(u32, u32)> = (0..5_000).map(|_| (any(), any())).collect();
    edges.push((u32::MAX, 0));
    check(&policy(1_024), 2 * LITTLE, &edges);
    check(&files(3), AMPLE, &edges);
}

#[test]
fn loops_repeated_edges_and_dangling_vertices() {
    let edges = [(7, 7), (1, 2), (1, 2), (1, 2), (2, 1), (2, 9), (3, 9), (9, 9), (4, 4)];
    check(&files(4), AMPLE, &edges);
    // All are dangling but one.
    check(&files(4), AMPLE, &[(5, 1), (5, 2), (5, 3)]);
    check(&files(4), AMPLE, &[(5, 5)]);
}

#[test]
fn a_graph_without_edges_has_no_answers() {
    let memory = Memory::new(AMPLE);
    let storage = files(1);
    let report = build_of(&storage, &memory, &[]).unwrap();
    assert_eq!((report.vertices, report.edges, report.shards), (0, 0, 0));
    let graph = Graph::open(&storage, &memory).unwrap();
    let (outcome, ranks) = run_of(&graph, &PageRank::default(), 20).unwrap();
    assert!(outcome.is_finished && ranks.is_empty());
    assert_eq!(graph.top(&PageRank::default(), &outcome, 5).unwrap(), []);
    assert_eq!(graph.hub().unwrap(), None);
    assert_eq!(triangles(&graph, &mut |_| Ok(())).unwrap(), 0);
}

#[test]
fn ranks_without_jumps_are_those_of_petgraphs_own_pagerank() {
    let mut edges = rmat(7, 600, 3);
    edges.sort_unstable();
    edges.dedup();
    let expected = Reference::new(&edges).walk(10);
    let (memory, storage) = (Memory::new(AMPLE), files(1));
    build_of(&storage, &memory, &edges).unwrap();
    let graph = Graph::open(&storage, &memory).unwrap();
    let (_, ranks) = run_of(&graph, &PageRank { damping: 1.0 }, 10).unwrap();
    for (id, rank) in ranks {
        let (rank, expected) = (real(rank), expected[&id]);
        assert!((rank - expected).abs() <= 1e-9 * expected, "vertex {id}: {rank} and {expected}");
    }
}

#[test]
fn a_long_path_is_searched_to_its_end() {
    let edges: Vec<(u32, u32)> = (0..300).map(|id| (id, id + 1)).collect();
    let (memory, storage) = (Memory::new(LITTLE), policy(512));
    build_of(&storage, &memory, &edges).unwrap();
    let graph = Graph::open(&storage, &memory).unwrap();
    let levels = Levels { start: 0, is_undirected: false };
    let (outcome, results) = run_of(&graph, &levels, u64::MAX).unwrap();
    assert_eq!(results, Reference::new(&edges).levels(0));
    assert_eq!(outcome.iterations, 301);
    let backwards = Levels { start: 300, is_undirected: true };
    let (_, results) = run_of(&graph, &backwards, u64::MAX).unwrap();
    assert_eq!(results[0].1, silica_graph::Number::Whole(300));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(test_size(24, 48, 2_000) as u32))]

    #[test]
    fn any_graph_in_any_memory(
        ids in prop::collection::vec(any::<u32>(), 1..60),
        edges in prop::collection::vec((any::<u16>(), any::<u16>()), 1..800),
        is_dense in any::<bool>(),
        memory_kib in 64u64..512,
    ) {
        let id = |at: u16| match is_dense {
            true => u32::from(at) % 300,
            false => ids[usize::from(at) % ids.len()],
        };
        let edges: Vec<(u32, u32)> = edges.iter().map(|(a, b)| (id(*a), id(*b))).collect();
        let storage = policy(512);
        check(&storage, storage.memory_bytes() + (memory_kib << 10), &edges);
    }
}
