//! Power cuts of the twin: every word holds a value that it may hold, and protocols that fence
//! rightly lose nothing. Those that do not are found out.

use super::*;
use silica_base::{ErrorKind, Prng, test_size};
use std::collections::{BTreeMap, BTreeSet};

const BYTES: u64 = 1024;

/// Values that each word may have after a power cut: the last fenced one, and all since.
struct Model {
    allowed: BTreeMap<u64, Vec<u64>>,
    /// For each word, how many of its allowed values the last flush of its line covers.
    flushed: BTreeMap<u64, usize>,
}

impl Model {
    fn new() -> Model {
        let allowed = (0..BYTES / 8).map(|word| (word, vec![0])).collect();
        Model { allowed, flushed: BTreeMap::new() }
    }

    fn store(&mut self, word: u64, value: u64) {
        self.allowed.get_mut(&word).unwrap().push(value);
    }

    fn flush(&mut self, offset: u64, len: u64) {
        for word in offset / 64 * 8..(offset + len).div_ceil(64) * 8 {
            self.flushed.insert(word, self.allowed[&word].len());
        }
    }

    fn fence(&mut self) {
        for (word, count) in std::mem::take(&mut self.flushed) {
            self.allowed.get_mut(&word).unwrap().drain(..count - 1);
        }
    }

    fn check(&self, region: &SimRegion) {
        for (word, values) in &self.allowed {
            let found = region.load(8 * word);
            assert!(values.contains(&found), "word {word} is {found}, allowed {values:?}");
        }
    }
}

/// Runs random operations until the power is cut, at operation `cut`.
fn run(seed: u64, cut: u64) -> (SimRegion, Model) {
    let region = SimRegion::new(seed ^ cut, BYTES, RegionClass::Lines);
    let mut prng = Prng::new(seed);
    let mut model = Model::new();
    region.cut_at_op(cut);
    let mut next = 1;
    while !region.is_cut() {
        let word = prng.below(BYTES / 8);
        match prng.below(6) {
            0 | 1 => {
                model.store(word, next);
                region.store(8 * word, next);
                next += 1;
            }
            2 => {
                let len = prng.below(4).min(BYTES / 8 - word);
                let values: Vec<u64> = (next..next + len).collect();
                (word..).zip(&values).for_each(|(word, value)| model.store(word, *value));
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                region.write(8 * word, &bytes);
                next += len;
            }
            3 | 4 => {
                let len = prng.below(200).min(BYTES - 8 * word);
                region.flush(8 * word, len);
                if len > 0 && !region.is_cut() {
                    model.flush(8 * word, len);
                }
            }
            _ => match region.fence() {
                Ok(()) => model.fence(),
                Err(e) => assert_eq!(e.kind(), ErrorKind::Closed),
            },
        }
    }
    (region, model)
}

#[test]
fn every_word_is_one_of_its_values() {
    for seed in 0..test_size(20, 100, 10_000) {
        for cut in 1..80 {
            let (region, model) = run(seed, cut);
            assert_eq!(region.fence().unwrap_err().kind(), ErrorKind::Closed);
            let after = region.reopen();
            model.check(&after);
            // What was found is durable: a second cut changes nothing.
            let found: Vec<u64> = (0..BYTES / 8).map(|word| after.load(8 * word)).collect();
            after.power_cut();
            let again = after.reopen();
            assert!((0..).zip(&found).all(|(word, value)| again.load(8 * word) == *value));
        }
    }
}

#[test]
fn all_outcomes_of_a_line_occur() {
    let region = SimRegion::new(1, BYTES, RegionClass::Lines);
    region.store(0, 1);
    region.store(8, 2);
    region.store(0, 3);
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let fork = region.fork(seed);
        fork.power_cut();
        let after = fork.reopen();
        seen.insert((after.load(0), after.load(8)));
    }
    let all = [(0, 0), (0, 2), (1, 0), (1, 2), (3, 0), (3, 2)];
    assert_eq!(seen, BTreeSet::from(all));
    assert_eq!(region.load(0), 3, "forks go their own way");
}

/// Writes a record of two lines and then a commit word, with or without what makes it safe.
fn commit(region: &SimRegion, version: u64, flushes_record: bool, fences_record: bool) {
    let record = 256 + 128 * (version % 2);
    region.write(record, &[version as u8; 128]);
    if flushes_record {
        region.flush(record, 128);
    }
    if fences_record && region.fence().is_err() {
        return;
    }
    region.store(0, version);
    region.flush(0, 8);
    // A cut is noticed by whoever runs this.
    let _ = region.fence();
}

/// Cuts of a run of commits after which the commit word's record is not whole.
fn broken(flushes_record: bool, fences_record: bool) -> u64 {
    let mut broken = 0;
    for cut in 1..80 {
        for seed in 0..20 {
            let region = SimRegion::new(1000 * cut + seed, BYTES, RegionClass::Lines);
            region.cut_at_op(cut);
            let mut version = 0;
            while !region.is_cut() {
                version += 1;
                commit(&region, version, flushes_record, fences_record);
            }
            let after = region.reopen();
            let found = after.load(0);
            assert!(found == version || found + 1 == version, "acknowledged commits survive");
            let mut bytes = [0; 128];
            after.read(256 + 128 * (found % 2), &mut bytes);
            broken += u64::from(found > 0 && bytes != [found as u8; 128]);
        }
    }
    broken
}

#[test]
fn a_missing_flush_and_a_missing_fence_are_found() {
    assert_eq!(broken(true, true), 0);
    assert!(broken(false, true) > 0, "the record is not flushed");
    assert!(broken(true, false) > 0, "the record is not fenced before the commit word");
    let region = SimRegion::new(1, BYTES, RegionClass::Lines);
    commit(&region, 1, true, true);
    assert_eq!(region.unfenced_lines(), []);
    commit(&region, 2, false, true);
    assert_eq!(region.unfenced_lines(), [256, 320]);
}

#[test]
fn needless_flushes_and_media_writes_are_counted() {
    let region = SimRegion::new(1, 64 << 10, RegionClass::Lines);
    commit(&region, 1, true, true);
    let counts = region.counts();
    assert_eq!((counts.words_stored, counts.lines_flushed, counts.fences), (17, 3, 2));
    assert_eq!((counts.xplines_written, counts.flushes_needless), (2, 0));
    region.flush(256 + 128, 128);
    region.fence().unwrap();
    assert_eq!(region.counts().flushes_needless, 2);
    // A second flush before the fence is needless, too, unless something was stored between.
    region.store(0, 5);
    region.flush(0, 8);
    region.flush(0, 8);
    assert_eq!(region.counts().flushes_needless, 3);
    region.store(8, 5);
    region.flush(0, 8);
    assert_eq!(region.counts().flushes_needless, 3);
    region.fence().unwrap();
    // A store after a flush needs one of its own, whatever a fence made durable.
    region.store(0, 6);
    region.flush(0, 8);
    region.store(0, 7);
    region.fence().unwrap();
    region.flush(0, 8);
    assert_eq!(region.counts().flushes_needless, 3);
    // What is streamed is flushed.
    let before = region.counts();
    region.stream(300, &[1; 100]);
    region.fence().unwrap();
    let counts = region.counts();
    assert_eq!(counts.lines_flushed - before.lines_flushed, 3);
    assert_eq!((counts.xplines_written, region.unfenced_lines()), (2, Vec::new()));
    // Lines of an XPLine that is in the buffer are combined.
    region.store(512, 1);
    region.flush(512, 8);
    region.store(576, 1);
    region.flush(576, 8);
    assert_eq!(region.counts().xplines_written, 3);
    // 64 others push it out.
    for xpline in 10..74 {
        region.store(256 * xpline, 1);
        region.flush(256 * xpline, 8);
    }
    assert_eq!(region.counts().xplines_written, 67);
    region.store(512, 2);
    region.flush(512, 8);
    assert_eq!(region.counts().xplines_written, 68);
}

#[test]
fn a_fence_is_for_the_flushes_of_its_thread() {
    let lost = (0..50).any(|seed| {
        let region = SimRegion::new(seed, BYTES, RegionClass::Lines);
        region.store(0, 1);
        region.flush(0, 8);
        std::thread::scope(|scope| {
            scope.spawn(|| region.fence().unwrap());
        });
        region.power_cut();
        region.reopen().load(0) == 0
    });
    assert!(lost, "another thread's fence waits for nothing");
    // Stores behind the flush are not covered by it.
    let values: BTreeSet<u64> = (0..50)
        .map(|seed| {
            let region = SimRegion::new(seed, BYTES, RegionClass::Lines);
            region.store(0, 1);
            region.flush(0, 8);
            region.store(0, 2);
            region.fence().unwrap();
            region.power_cut();
            region.reopen().load(0)
        })
        .collect();
    assert_eq!(values, BTreeSet::from([1, 2]));
}

#[test]
fn memory_that_is_not_persistent_is_empty_after_a_cut() {
    let region = SimRegion::new(1, BYTES, RegionClass::Process);
    region.store(0, 1);
    region.flush(0, 8);
    region.fence().unwrap();
    let region = region.reopen();
    assert_eq!(region.load(0), 1, "a process may die");
    region.power_cut();
    region.store(0, 9);
    assert_eq!(region.reopen().load(0), 0, "and old handles reach nothing");
}

#[test]
fn a_failed_fence_is_final() {
    let region = SimRegion::new(1, BYTES, RegionClass::Lines);
    region.fail_fence(2);
    region.fence().unwrap();
    assert_eq!(region.fence().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(region.fence().unwrap_err().kind(), ErrorKind::Poisoned);
    region.poke(3, b"damage");
    let region = region.reopen();
    region.fence().unwrap();
    let mut bytes = [0; 8];
    region.read(2, &mut bytes);
    assert_eq!(&bytes, b"\0damage\0");
}

/// Stores the numbers from 1 on, one for each page of four, and fences each.
fn count_up(region: &SimRegion, from: u64, to: u64) {
    for number in from..to {
        region.store(4096 * (number % 4), number);
        region.store(4096 * (number % 4) + 2048, number);
        region.flush(0, region.len());
        region.fence().unwrap();
    }
}

#[test]
fn a_disk_has_each_page_as_it_was_at_some_moment_since_the_sync() {
    let mut seen = BTreeSet::new();
    let (mut are_torn, mut are_mixed) = (false, false);
    for seed in 0..200 {
        let region = SimRegion::new(seed, 16 << 10, RegionClass::Pages);
        count_up(&region, 1, 50);
        region.sync().unwrap();
        assert_eq!(region.unfenced_lines(), []);
        count_up(&region, 50, 90);
        assert_eq!(region.unfenced_lines(), [0, 4096, 8192, 12_288]);
        region.power_cut();
        let after = region.reopen();
        for page in 0..4 {
            for at in [0, 2048] {
                let number = after.load(4096 * page + at);
                assert!(number % 4 == page && (46..90).contains(&number), "{number}");
                seen.insert(number);
            }
            are_torn |= after.load(4096 * page) != after.load(4096 * page + 2048);
        }
        // Fences do not help: a later page may be there without an earlier one.
        are_mixed |= after.load(0) > after.load(4096) + 4;
    }
    assert!(are_torn && are_mixed && seen.len() > 30, "{are_torn} {are_mixed} {seen:?}");
}

#[test]
fn what_was_synced_is_there_after_a_cut() {
    for class in [RegionClass::Lines, RegionClass::Pages] {
        for seed in 0..50 {
            let region = SimRegion::new(seed, 8192, class);
            (0..1024).for_each(|word| region.store(8 * word, seed + word));
            region.grow(12_288).unwrap();
            region.store(12_280, 9);
            region.sync().unwrap();
            region.power_cut();
            let after = region.reopen();
            assert!((0..1024).all(|word| after.load(8 * word) == seed + word));
            assert_eq!((after.len(), after.load(12_280)), (12_288, 9));
        }
        let region = SimRegion::new(1, 8192, class);
        region.fail_fence(1);
        assert_eq!(region.sync().unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(region.sync().unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(region.fence().unwrap_err().kind(), ErrorKind::Poisoned);
    }
}

/// Lengths that a cut leaves of a region of two pages that was changed to `bytes`.
fn lengths(class: RegionClass, bytes: u64, cut_at: u64) -> BTreeSet<(u64, u64)> {
    let lengths = (0..50).map(|seed| {
        let region = SimRegion::new(seed, 8192, class);
        region.store(4096, 7);
        region.sync().unwrap();
        region.cut_at_op(cut_at);
        let changed = match bytes > 8192 {
            true => region.grow(bytes),
            false => region.truncate(bytes),
        };
        assert_eq!(changed.is_err(), region.is_cut());
        region.power_cut();
        let after = region.reopen();
        (after.len(), if after.len() > 4096 { after.load(4096) } else { 0 })
    });
    lengths.collect()
}

#[test]
fn a_length_is_durable_where_lines_are() {
    let later = 100;
    assert_eq!(lengths(RegionClass::Lines, 12_288, later), [(12_288, 7)].into());
    assert_eq!(lengths(RegionClass::Lines, 4096, later), [(4096, 0)].into());
    // A cut in the middle leaves one of both.
    assert_eq!(lengths(RegionClass::Lines, 12_288, 3), [(8192, 7), (12_288, 7)].into());
    assert_eq!(lengths(RegionClass::Lines, 4096, 3), [(4096, 0), (8192, 7)].into());
    assert_eq!(lengths(RegionClass::Pages, 12_288, later), [(8192, 7), (12_288, 7)].into());
    assert_eq!(lengths(RegionClass::Pages, 4096, later), [(4096, 0), (8192, 7)].into());
}

#[test]
fn released_pages_are_zero_and_may_come_back_until_they_are_reserved() {
    for class in [RegionClass::Lines, RegionClass::Pages] {
        let after = |reserves: bool, syncs: bool| {
            let outcomes = (0..60).map(|seed| {
                let region = SimRegion::new(seed, 12_288, class);
                region.write(0, &[1; 12_288]);
                region.sync().unwrap();
                region.store(4096, 2);
                region.release(100, 8192).unwrap();
                assert_eq!(
                    (region.load(4088), region.load(8192)),
                    (u64::MAX / 255, u64::MAX / 255)
                );
                assert_eq!((region.load(4096), region.load(8184)), (0, 0));
                if reserves {
                    region.reserve(5000, 10).unwrap();
                    region.store(8000, 3);
                    region.flush(8000, 8);
                    region.fence().unwrap();
                }
                assert_eq!(region.counts().stores_into_holes, 0);
                if syncs {
                    region.sync().unwrap();
                }
                region.power_cut();
                let after = region.reopen();
                (after.load(4096), after.load(4104), after.load(8000))
            });
            outcomes.collect::<BTreeSet<_>>()
        };
        let old = u64::MAX / 255;
        let unsure = after(false, false);
        assert!(unsure.contains(&(0, 0, 0)) && unsure.contains(&(old, old, old)), "{unsure:?}");
        assert_eq!(after(false, true), [(0, 0, 0)].into());
        assert_eq!(after(true, true), [(0, 0, 3)].into());
        if class == RegionClass::Lines {
            assert_eq!(after(true, false), [(0, 0, 3)].into());
        }
    }
    let region = SimRegion::new(1, 8192, RegionClass::Lines);
    region.release(0, 8192).unwrap();
    region.reserve(0, 1).unwrap();
    region.store(0, 1);
    region.store(4096, 1);
    region.store(4104, 1);
    assert_eq!(region.counts().stores_into_holes, 1, "the store of a page without space");
}

#[test]
fn a_line_that_nobody_fences_keeps_a_bounded_history() {
    let (mut seen, mut early) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..100 {
        let region = SimRegion::new(seed, BYTES, RegionClass::Lines);
        region.store(8, 5);
        region.flush(8, 8);
        region.store(24, 7);
        for number in 1..=20_000u64 {
            region.store(0, number);
        }
        region.store(16, 6);
        region.fence().unwrap();
        region.power_cut();
        let after = region.reopen();
        assert_eq!(after.load(8), 5, "it was fenced");
        assert!(after.load(0) <= 20_000 && [0, 6].contains(&after.load(16)));
        seen.insert(after.load(0));
        early.insert(after.load(24));
    }
    assert_eq!(early, [0, 7].into(), "a store is forgotten only if a later one is kept");
    assert!(seen.contains(&0) && seen.contains(&20_000) && seen.len() > 20, "{seen:?}");
}

#[test]
fn what_the_medium_reads_and_writes_is_counted() {
    let region = SimRegion::new(1, 64 << 10, RegionClass::Lines);
    region.store(0, 1);
    region.flush(0, 8);
    assert_eq!(region.counts().bytes_read(), 256, "a line alone is a part of an XPLine");
    region.count_media(4096);
    assert_eq!((region.counts().bytes_written(), region.counts().bytes_read()), (0, 0));
    let mut bytes = [0; 1024];
    region.read(0, &mut bytes);
    region.load(512);
    region.word(1016);
    assert_eq!(region.counts().bytes_read(), 1024, "each XPLine once");
    region.write(1024, &[7; 256]);
    region.flush(1024, 256);
    region.fence().unwrap();
    let counts = region.counts();
    assert_eq!((counts.bytes_written(), counts.bytes_read()), (256, 1024 + 256));
    assert_eq!(counts.fences_needless, 0);
    // What is streamed is not read first, and is not in the cache; what is asked for ahead is.
    region.stream(2048, &[8; 256]);
    region.fence().unwrap();
    let counts = region.counts();
    assert_eq!((counts.bytes_written(), counts.bytes_read()), (512, 1024 + 256));
    region.prefetch(8192);
    region.prefetch(1 << 40);
    region.load(8192);
    assert_eq!(region.counts().bytes_read(), 1024 + 512);
    region.fence().unwrap();
    assert_eq!(region.counts().fences_needless, 1);
}
