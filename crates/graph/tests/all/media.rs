//! Flash that is too small, holds something else, or is a conventional drive; memory that is too
//! small.

use crate::reference::Reference;
use crate::support::{AMPLE, build_of, files, flash, policy, run_of};
use silica_base::ErrorKind;
use silica_device::blocks::{Append, FlashDevice};
use silica_device::sim::SimFlash;
use silica_graph::{
    Components, ConventionalStorage, Graph, Memory, PageRank, PolicyStorage, Rmat, Storage,
    triangles,
};

fn rmat(edges: usize) -> Vec<(u32, u32)> {
    let mut rmat = Rmat::new(11, 9).unwrap();
    (0..edges).map(|_| rmat.edge()).collect()
}

#[test]
fn a_full_flash_is_refused_in_words_and_can_be_used_again() {
    let storage = policy(64);
    let memory = Memory::new(storage.memory_bytes() + (96 << 10));
    let error = build_of(&storage, &memory, &rmat(60_000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().contains("larger flash"), "{error}");
    assert_eq!(Graph::open(&storage, &memory).err().unwrap().kind(), ErrorKind::NotFound);
    let edges = rmat(2_000);
    build_of(&storage, &memory, &edges).unwrap();
    let graph = Graph::open(&storage, &memory).unwrap();
    let components = run_of(&graph, &Components, u64::MAX).unwrap().1;
    assert_eq!(components, Reference::new(&edges).components());
}

#[test]
fn values_that_do_not_fit_are_refused_in_words() {
    let storage = policy(64);
    let memory = Memory::new(AMPLE);
    // Many vertices with few edges.
    let edges: Vec<(u32, u32)> = (0..8_000).step_by(2).map(|id| (id, id + 1)).collect();
    build_of(&storage, &memory, &edges).unwrap();
    let graph = Graph::open(&storage, &memory).unwrap();
    let error = run_of(&graph, &PageRank::default(), 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().contains("larger flash"), "{error}");
}

#[test]
fn too_little_memory_is_refused_before_it_is_taken() {
    let edges = rmat(4_000);
    for kib in [1, 8, 24, 40] {
        let storage = policy(256);
        let memory = Memory::new(storage.memory_bytes() + (kib << 10));
        let error = build_of(&storage, &memory, &edges).and_then(|_| {
            let graph = Graph::open(&storage, &memory)?;
            run_of(&graph, &PageRank::default(), 2).map(|_| ())
        });
        if let Err(error) = error {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            assert!(error.to_string().contains("--memory"), "{error}");
        } else {
            assert!(kib > 8, "{kib} KiB are not enough");
        }
        assert!(memory.peak_bytes() <= memory.limit_bytes());
    }
    // A flash whose mapping alone takes more.
    let storage = policy(256);
    let memory = Memory::new(storage.memory_bytes() - 1);
    assert_eq!(build_of(&storage, &memory, &edges).unwrap_err().kind(), ErrorKind::Full);
}

#[test]
fn flash_that_holds_something_else_is_not_touched() {
    let flash = flash(64);
    let block = flash.geometry().block_at(3);
    let pages = vec![7; flash.geometry().page_bytes as usize];
    flash.append(&Append { block, expected: None, stream: 0, pages: &pages, spare: &[] }).unwrap();
    let device = || Ok::<SimFlash, silica_base::Error>(flash.clone());
    let error = PolicyStorage::open(device).err().unwrap();
    assert!(error.to_string().contains("--overwrite"), "{error}");
    let mut back = vec![0; pages.len()];
    flash.read(block.page(0), &mut back, &mut []).unwrap();
    assert_eq!(back, pages);
    let storage = PolicyStorage::overwrite(flash.clone()).unwrap();
    let memory = Memory::new(AMPLE);
    build_of(&storage, &memory, &[(1, 2)]).unwrap();
    drop(storage);
    // It is known again.
    let storage = PolicyStorage::open(|| Ok::<_, silica_base::Error>(flash.reopen())).unwrap();
    assert_eq!(Graph::open(&storage, &memory).unwrap().edges(), 1);
}

#[test]
fn flash_too_small_for_any_graph_is_refused() {
    let error = PolicyStorage::format(flash(16)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().contains("blocks"), "{error}");
}

#[test]
fn a_conventional_drive_copies_where_ranges_of_blocks_do_not() {
    let edges = rmat(12_000);
    let ours = policy(128);
    let drive = ConventionalStorage::format(flash(128), 7).unwrap();
    let results = [&ours as &dyn DynCheck, &drive].map(|storage| storage.check(&edges));
    assert_eq!(results[0], results[1]);
    assert_eq!(ours.statistics().pages_copied, 0);
}

trait DynCheck {
    fn check(&self, edges: &[(u32, u32)]) -> Vec<(u32, silica_graph::Number)>;
}

impl<S: Storage> DynCheck for S {
    fn check(&self, edges: &[(u32, u32)]) -> Vec<(u32, silica_graph::Number)> {
        let memory = Memory::new(self.memory_bytes() + (128 << 10));
        build_of(self, &memory, edges).unwrap();
        let graph = Graph::open(self, &memory).unwrap();
        triangles(&graph, &mut |_| Ok(())).unwrap();
        run_of(&graph, &Components, u64::MAX).unwrap();
        run_of(&graph, &PageRank::default(), 60).unwrap().1
    }
}

#[test]
fn shards_kept_in_memory_and_read_from_flash_give_the_same_bits() {
    let edges = rmat(100_000);
    let storage = files(2);
    let little = Memory::new(192 << 10);
    build_of(&storage, &little, &edges).unwrap();
    let of = |memory: &Memory| {
        let graph = Graph::open(&storage, memory).unwrap();
        let options = silica_graph::RunOptions { iterations_max: 8, threads: 2, goes_on: false };
        let outcome = graph.run(&PageRank::default(), &options, &mut |_| Ok(())).unwrap();
        crate::support::results_of(&graph, &PageRank::default(), &outcome).unwrap()
    };
    let before = storage.counters().bytes_read();
    let slow = of(&little);
    let between = storage.counters().bytes_read();
    let quick = of(&Memory::new(AMPLE));
    let behind = storage.counters().bytes_read();
    assert_eq!(slow, quick);
    assert!(behind - between < (between - before) / 2, "{before} {between} {behind}");
}

#[test]
fn iterations_write_their_values_over_and_say_nothing_of_what_is_dead() {
    let storage = policy(256);
    let memory = Memory::new(AMPLE);
    let edges = rmat(20_000);
    build_of(&storage, &memory, &edges).unwrap();
    let graph = Graph::open(&storage, &memory).unwrap();
    let before = storage.statistics();
    run_of(&graph, &PageRank::default(), 10).unwrap();
    let after = storage.statistics();
    let copied = after.pages_copied - before.pages_copied;
    assert_eq!((copied, after.pages_of_holes - before.pages_of_holes), (0, 0));
    // Results of an earlier run, and a block of records that is begun anew.
    let trims = (after.pages_of_mapping - before.pages_of_mapping)
        .saturating_sub(8 * (after.checkpoints - before.checkpoints));
    assert!(trims <= 4, "{trims} pages of trims in 10 iterations: {after:?}");
}
