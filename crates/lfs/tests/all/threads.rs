//! Threads beside each other: readers see whole writes while others write, sync, rename and
//! collect.

use crate::model::*;
use silica_base::{Prng, test_size};
use silica_lfs::{Fault, Kind, ROOT, Rename};
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: usize = 1024;

#[test]
fn readers_see_whole_writes_while_everything_else_goes_on() {
    let flash = flash(1, 24);
    let lfs = create(&flash);
    let file = |name: &str| lfs.make(ROOT, name.as_bytes(), &make(Kind::File), at(1)).unwrap();
    let files: Vec<u64> = (0..3).map(|i| file(&format!("f{i}"))).collect();
    for ino in &files {
        lfs.write(*ino, Some(0), &[0; 8 * PAGE], at(1)).unwrap();
    }
    let is_done = AtomicBool::new(false);
    let steps = test_size(400, 1500, 20_000);
    std::thread::scope(|scope| {
        let (lfs, files, is_done) = (&lfs, &files, &is_done);
        let writers: Vec<_> = (0..3)
            .map(|thread: usize| {
                scope.spawn(move || {
                    let mut prng = Prng::new(thread as u64);
                    for step in 0..steps {
                        let bytes = [step as u8; PAGE * 2];
                        let page = prng.below(7);
                        let offset = Some(page * PAGE as u64);
                        match lfs.write(files[thread], offset, &bytes, at(2)) {
                            Ok(_) | Err(Fault::NoSpace) => {}
                            Err(fault) => panic!("{fault}"),
                        }
                        if prng.one_in(10) {
                            lfs.sync().unwrap();
                        }
                        let name = |i: u64| format!("t{thread}-{i}");
                        let made = lfs.make(ROOT, name(0).as_bytes(), &make(Kind::File), at(2));
                        if made.is_ok() {
                            let (from, to) = (name(0), name(1));
                            let (from, to) = ((ROOT, from.as_bytes()), (ROOT, to.as_bytes()));
                            lfs.rename(from, to, Rename::Replace, at(3)).unwrap();
                        }
                    }
                })
            })
            .collect();
        for thread in 0..2 {
            scope.spawn(move || {
                let mut prng = Prng::new(100 + thread);
                let mut bytes = [0; PAGE];
                while !is_done.load(Ordering::Relaxed) {
                    let ino = files[prng.below(3) as usize];
                    let offset = prng.below(8) * PAGE as u64;
                    assert_eq!(lfs.read(ino, offset, &mut bytes).unwrap(), PAGE);
                    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "half a write");
                    assert!(lfs.lookup(ROOT, b"f1").unwrap() == files[1]);
                    lfs.list(ROOT, 0, 10).unwrap();
                }
            });
        }
        scope.spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                lfs.tend().unwrap();
                std::thread::yield_now();
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(lfs.check().unwrap(), []);
    let statistics = lfs.statistics();
    assert!(statistics.collections + statistics.segments_trimmed > 0, "{statistics:?}");
    let before = picture(&lfs);
    lfs.close().unwrap();
    assert_eq!(picture(&open(&flash.reopen()).unwrap()), before);
}
