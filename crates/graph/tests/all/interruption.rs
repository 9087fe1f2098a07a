//! Power cuts at every step: what is there afterwards is a whole graph or none, and a run goes on at
//! its last finished iteration.

use crate::reference::Reference;
use crate::support::{AMPLE, build_of, files, flash, real, results_of, run_of};
use silica_base::{Error, ErrorKind, test_size};
use silica_device::sim::{SimDevice, SimFlash, SimOptions};
use silica_graph::{
    Components, FileStorage, Graph, Memory, PageRank, PolicyStorage, Rmat, RunOptions, Storage,
};

const ITERATIONS: u64 = 6;
/// A number that divides no step of a build or a run: cuts fall on all kinds of them.
const STEP: u64 = 7;

fn edges() -> Vec<(u32, u32)> {
    let mut rmat = Rmat::new(9, 4).unwrap();
    (0..3_000).map(|_| rmat.edge()).collect()
}

/// Builds a graph and ranks its vertices; returns how many iterations were there before.
fn work(storage: &impl Storage, edges: &[(u32, u32)]) -> silica_base::Result<u64> {
    let memory = Memory::new(storage.memory_bytes() + (160 << 10));
    match Graph::open(storage, &memory) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            build_of(storage, &memory, edges)?;
        }
        Err(error) => return Err(error),
    }
    let graph = Graph::open(storage, &memory)?;
    let (outcome, ranks) = run_of(&graph, &PageRank::default(), ITERATIONS)?;
    let expected = Reference::new(edges).ranks(0.85, ITERATIONS);
    assert_eq!(ranks.len(), expected.len());
    for (id, rank) in ranks {
        let (rank, expected) = (real(rank), expected[&id]);
        assert!((rank - expected).abs() < 1e-9 * expected, "vertex {id}: {rank}, {expected}");
    }
    Ok(outcome.resumed)
}

#[test]
fn power_cuts_at_every_step_on_flash() {
    let edges = edges();
    let fresh = flash(512);
    let whole = {
        let flash = fresh.fork(1);
        let storage = PolicyStorage::format(flash.clone()).unwrap();
        assert_eq!(work(&storage, &edges).unwrap(), 0);
        flash.op_count()
    };
    let step = STEP * test_size(4, 2, 1) / test_size(1, 1, STEP);
    let mut resumed = 0;
    for cut in (1..whole).step_by(step as usize) {
        let flash = fresh.fork(cut);
        flash.cut_at_op(cut);
        let error = PolicyStorage::open(|| Ok(flash.clone())).and_then(|s| work(&s, &edges));
        assert!(error.is_err() && flash.is_cut(), "cut {cut}");
        let after = flash.reopen();
        let storage = PolicyStorage::open(|| Ok::<SimFlash, Error>(after.clone())).unwrap();
        resumed += u64::from(work(&storage, &edges).unwrap() > 0);
    }
    assert!(resumed > 0, "no cut fell into a run");
}

#[test]
fn power_cuts_at_every_step_on_files() {
    let edges = edges();
    let whole = {
        let device = SimDevice::new(3, SimOptions::default());
        work(&FileStorage::open(device.fork(3)).unwrap(), &edges).unwrap();
        let device = device.fork(3);
        work(&FileStorage::open(device.clone()).unwrap(), &edges).unwrap();
        device.op_count()
    };
    let step = (whole / test_size(20, 40, 400)).max(1);
    let mut resumed = 0;
    for cut in (1..whole).step_by(step as usize) {
        let device = SimDevice::new(cut, SimOptions::default());
        device.cut_at_op(cut);
        let error = FileStorage::open(device.clone()).and_then(|s| work(&s, &edges));
        assert!(error.is_err() && device.is_cut(), "cut {cut}");
        let storage = FileStorage::open(device.reopen()).unwrap();
        resumed += u64::from(work(&storage, &edges).unwrap() > 0);
    }
    assert!(resumed > 0, "no cut fell into a run");
}

/// Stops a run after `iterations`, in the middle of the next one if it has several rounds.
fn stop_after(graph: &Graph<'_, impl Storage>, iterations: u64) {
    let options = RunOptions { iterations_max: ITERATIONS, threads: 1, goes_on: true };
    let stopped = graph.run(&PageRank::default(), &options, &mut |progress| {
        if progress.iteration == iterations && progress.shards_done > 0 {
            return Err(Error::new(ErrorKind::Closed, "stopped"));
        }
        Ok(())
    });
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_run_that_was_stopped_goes_on_at_its_last_finished_iteration() {
    let edges = edges();
    let storage = PolicyStorage::format(flash(512)).unwrap();
    let memory = Memory::new(storage.memory_bytes() + (96 << 10));
    build_of(&storage, &memory, &edges).unwrap();
    let graph = Graph::open(&storage, &memory).unwrap();
    assert!(graph.shards() > 1);
    stop_after(&graph, 2);
    stop_after(&graph, 4);
    let (outcome, ranks) = run_of(&graph, &PageRank::default(), ITERATIONS).unwrap();
    assert_eq!((outcome.resumed, outcome.iterations), (4, ITERATIONS));
    let straight = RunOptions { iterations_max: ITERATIONS, goes_on: false, threads: 2 };
    let again = graph.run(&PageRank::default(), &straight, &mut |_| Ok(())).unwrap();
    assert_eq!(again.resumed, 0);
    assert_eq!(results_of(&graph, &PageRank::default(), &again).unwrap(), ranks);
}

#[test]
fn another_program_or_another_graph_does_not_go_on() {
    let edges = edges();
    let (memory, storage) = (Memory::new(AMPLE), files(1));
    build_of(&storage, &memory, &edges).unwrap();
    let graph = Graph::open(&storage, &memory).unwrap();
    run_of(&graph, &PageRank::default(), 3).unwrap();
    // What is finished is not done again, and more iterations go on.
    assert_eq!(run_of(&graph, &PageRank::default(), 3).unwrap().0.resumed, 3);
    assert_eq!(run_of(&graph, &PageRank::default(), 5).unwrap().0.resumed, 3);
    // Fewer iterations than are done begin anew.
    assert_eq!(run_of(&graph, &PageRank::default(), 2).unwrap().0.resumed, 0);
    assert_eq!(run_of(&graph, &PageRank { damping: 0.5 }, 2).unwrap().0.resumed, 0);
    assert_eq!(run_of(&graph, &Components, 2).unwrap().0.resumed, 0);
    assert_eq!(run_of(&graph, &PageRank { damping: 0.5 }, 2).unwrap().0.resumed, 0);
    drop(graph);
    build_of(&storage, &memory, &edges[1..]).unwrap();
    let graph = Graph::open(&storage, &memory).unwrap();
    assert_eq!(run_of(&graph, &PageRank { damping: 0.5 }, 2).unwrap().0.resumed, 0);
}
