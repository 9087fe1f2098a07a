//! Power cuts at every operation of scripts, recovery included: the tree is as it was at one moment
//! between the last sync that returned and the cut.

use crate::model::*;
use silica_base::{Prng, test_size};
use silica_device::sim::{SimFlash, SimFlashOptions};

/// Blocks of each of the four LUNs: few enough that scripts collect.
const BLOCKS: u32 = 8;

/// Calls of a script, and what the tree is like before the first and after each.
fn script(seed: u64, calls: u64) -> (Vec<Call>, Vec<Picture>) {
    let (mut prng, mut model) = (Prng::new(seed), Model::new());
    let mut script = Vec::new();
    let mut pictures = vec![model.picture()];
    while (script.len() as u64) < calls {
        let call = draw(&mut prng, 9_000);
        if model.call(&call) {
            script.push(call);
            pictures.push(model.picture());
        }
    }
    (script, pictures)
}

/// Runs the script until the power is cut. Returns the range of pictures that may be found.
fn run(lfs: &Sim, script: &[Call]) -> (usize, usize) {
    let mut synced = 0;
    for (i, call) in script.iter().enumerate() {
        match do_call(lfs, call, at(i as i64)) {
            Ok(()) if matches!(call, Call::Sync) => synced = i + 1,
            Ok(()) => {}
            Err(_) => return (synced, i + 1),
        }
    }
    (synced, script.len())
}

fn check(flash: &SimFlash, pictures: &[Picture], allowed: (usize, usize), what: &str) -> usize {
    let lfs = open(flash).unwrap_or_else(|fault| panic!("{what}: {fault}"));
    let found = picture(&lfs);
    let is_one = (allowed.0..=allowed.1).rev().find(|i| pictures[*i] == found);
    let Some(one) = is_one else {
        let differ = |i: usize| {
            let (is, was) = (&found, &pictures[i]);
            let paths = is.keys().chain(was.keys());
            let paths: std::collections::BTreeSet<&String> =
                paths.filter(|path| is.get(*path) != was.get(*path)).collect();
            format!("{i}: {paths:?}")
        };
        let all: Vec<String> = (allowed.0..=allowed.1).map(differ).collect();
        panic!("{what}: no state of {allowed:?}; different: {all:#?}")
    };
    let problems = lfs.check().unwrap();
    assert!(problems.is_empty(), "{what}: {problems:?}");
    one
}

fn cut_everywhere(options: SimFlashOptions, seed: u64, calls: u64, every: u64) {
    let (script, pictures) = script(seed, calls);
    let fresh = SimFlash::new(seed, options);
    drop(create(&fresh));
    let base = fresh.reopen();
    let whole = base.fork(seed);
    let begin = whole.op_count();
    let lfs = open(&whole).unwrap();
    let (_, done) = run(&lfs, &script);
    let statistics = lfs.statistics();
    assert_eq!(done, script.len(), "{statistics:?}");
    assert!(statistics.checkpoints > 0 && statistics.segments_trimmed > 5, "{statistics:?}");
    let end = whole.op_count();
    for cut in (begin + 1 + seed % every..=end).step_by(every as usize) {
        let flash = base.fork(seed ^ cut);
        flash.cut_at_op(cut);
        let allowed = match open(&flash) {
            Ok(lfs) => run(&lfs, &script),
            Err(_) => (0, 0),
        };
        let after = flash.reopen();
        // The recovery is cut, too, at one of its first operations.
        let again = after.fork(cut);
        let at_op = again.op_count() + 1 + cut % 7;
        again.cut_at_op(at_op);
        let first = open(&again).map(drop);
        drop(first);
        again.power_cut();
        let what = format!("seed {seed}, cut at {cut}");
        let one = check(&after, &pictures, allowed, &what);
        let what = format!("seed {seed}, cut at {cut}, recovery cut");
        check(&again.reopen(), &pictures, allowed, &what);
        // What was found stays found.
        check(&after.reopen(), &pictures, (one, one), &what);
    }
}

#[test]
fn a_cut_leaves_a_state_since_the_last_sync() {
    for seed in 0..test_size(2, 4, 40) {
        let every = test_size(7, 3, 1);
        cut_everywhere(SimFlashOptions::flash(geometry(BLOCKS)), seed, 250, every);
    }
}

#[test]
fn a_cut_leaves_a_state_since_the_last_sync_on_a_drive_with_a_cache() {
    for seed in 0..test_size(2, 4, 40) {
        let every = test_size(7, 3, 1);
        let options = SimFlashOptions {
            has_volatile_cache: true,
            ..SimFlashOptions::flash(geometry(BLOCKS))
        };
        cut_everywhere(options, seed, 250, every);
    }
}
