//! Power cuts at every operation of scripts, recovery included: the tree is as it was at one moment
//! between the last sync that returned and the cut.

use crate::model::*;
use silica_base::{Prng, test_size};
use silica_device::sim::{SimFlash, SimFlashOptions};
use silica_lfs::{Fault, Kind, LfsStatistics};

/// Blocks of each of the four LUNs: few enough that scripts collect.
const BLOCKS: u32 = 7;

/// Calls of a script that the file system takes, and what the tree is like before the first and
/// after each.
fn script(seed: u64, calls: u64, lfs: &Sim) -> (Vec<Call>, Vec<Picture>) {
    let (mut prng, mut model) = (Prng::new(seed), Model::new());
    let mut script = Vec::new();
    let mut pictures = vec![model.picture()];
    // Pages that stay beside pages that go, so that segments are collected.
    let mut first = Vec::new();
    for name in ["/keep", "/spill"] {
        first.push(Call::Make(name.into(), Kind::File));
    }
    for i in 0..lfs.usage().pages * 45 / 100 {
        first.push(Call::Append("/keep".into(), vec![i as u8; 1024]));
        first.push(Call::Append("/spill".into(), vec![1; 1024]));
    }
    first.extend([Call::Remove("/spill".into()), Call::Sync]);
    let mut first = first.into_iter();
    while (script.len() as u64) < calls {
        let call = first.next().unwrap_or_else(|| draw(&mut prng, 5_000));
        let mut after = model.clone();
        if !after.call(&call) {
            continue;
        }
        match do_call(lfs, &call, at(script.len() as i64)) {
            Ok(()) => model = after,
            Err(Fault::NoSpace) => continue,
            Err(fault) => panic!("{call:?}: {fault}"),
        }
        script.push(call);
        pictures.push(model.picture());
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

fn cut_everywhere(options: SimFlashOptions, seed: u64, calls: u64, every: u64) -> LfsStatistics {
    let fresh = SimFlash::new(seed, options);
    drop(create(&fresh));
    let base = fresh.reopen();
    let (script, pictures) = script(seed, calls, &open(&base.fork(seed)).unwrap());
    let whole = base.fork(seed);
    let begin = whole.op_count();
    let lfs = open(&whole).unwrap();
    let (_, done) = run(&lfs, &script);
    let statistics = lfs.statistics();
    assert_eq!(done, script.len(), "{statistics:?}");
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
    statistics
}

/// Cuts scripts of several seeds, some of which have to collect and to copy.
fn cut_scripts(options: SimFlashOptions) {
    let every = test_size(61, 23, 1);
    let run = |seed| cut_everywhere(options, seed, 600, every + seed);
    let all: Vec<LfsStatistics> = (0..test_size(6, 6, 30)).map(run).collect();
    let sum = |of: fn(&LfsStatistics) -> u64| all.iter().map(of).sum::<u64>();
    assert!(sum(|of| of.pages_copied) > 0, "{all:#?}");
    assert!(sum(|of| of.segments_trimmed) > 20, "{all:#?}");
}

#[test]
fn a_cut_leaves_a_state_since_the_last_sync() {
    cut_scripts(SimFlashOptions::flash(geometry(BLOCKS)));
}

#[test]
fn a_cut_leaves_a_state_since_the_last_sync_on_a_drive_with_a_cache() {
    let options = SimFlashOptions::flash(geometry(BLOCKS));
    cut_scripts(SimFlashOptions { has_volatile_cache: true, ..options });
}
