//! Random calls: the file system answers and looks as the model does, opened again or not, on every
//! ground.

use crate::model::*;
use silica_base::{Prng, test_size};
use silica_lfs::{Fault, Ground, Lfs};

fn same<G: Ground>(lfs: &Lfs<G>, model: &Model, step: u64) {
    let (found, expected) = (picture(lfs), model.picture());
    for (path, item) in &expected {
        assert_eq!(found.get(path).map(|i| &i.what), Some(&item.what), "step {step}: {path}");
    }
    assert_eq!(found, expected, "step {step}");
}

fn run<G: Ground>(lfs: &Lfs<G>, model: &mut Model, prng: &mut Prng, step: u64) {
    let call = draw(prng, 12_000);
    let mut after = model.clone();
    let is_done = after.call(&call);
    match do_call(lfs, &call, at(step as i64)) {
        Ok(()) => assert!(is_done, "step {step}: {call:?} was done"),
        Err(Fault::NoSpace) => return,
        Err(Fault::Store(error)) => panic!("step {step}: {call:?}: {error}"),
        Err(fault) => assert!(!is_done, "step {step}: {call:?} was refused: {fault}"),
    }
    *model = after;
}

#[test]
fn calls_do_what_they_do_in_memory() {
    for seed in 0..test_size(2, 4, 200) {
        let flash = flash(seed, 24);
        let mut lfs = create(&flash);
        let (mut model, mut prng) = (Model::new(), Prng::new(seed));
        for step in 0..2000 {
            run(&lfs, &mut model, &mut prng, step);
            if prng.one_in(50) {
                same(&lfs, &model, step);
            }
            if prng.one_in(200) {
                // Sometimes in order, sometimes as if the process had died after a sync.
                if prng.one_in(2) {
                    lfs.close().unwrap()
                } else {
                    lfs.sync().unwrap()
                }
                drop(lfs);
                lfs = open(&flash.reopen()).unwrap();
                same(&lfs, &model, step);
            }
        }
        assert!(lfs.check().unwrap().is_empty());
    }
}
