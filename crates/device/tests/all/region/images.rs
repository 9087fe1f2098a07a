//! All that a power cut at one moment may leave: every outcome is tried, none that cannot be, and
//! protocols that fence wrongly are found by their images.

use super::*;
use silica_base::test_size;
use silica_device::sim::SimRegions;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// The words at these offsets, in each image.
fn outcomes(region: &SimRegion, limit: usize, offsets: &[u64]) -> Vec<Vec<u64>> {
    let load = |region: SimRegion| offsets.iter().map(|at| region.load(*at)).collect();
    region.crash_images(limit, 5).map(|image| load(image.region())).collect()
}

#[test]
fn a_region_that_is_durable_has_one_image() {
    let region = SimRegion::new(1, 4096, RegionClass::Lines);
    region.store(0, 3);
    region.flush(0, 8);
    region.fence().unwrap();
    assert_eq!(outcomes(&region, 100, &[0, 64]), [[3, 0]]);
    region.store(64, 4);
    assert_eq!(outcomes(&region, 100, &[0, 64]), [[3, 0], [3, 4]]);
    assert_eq!(outcomes(&region, 1, &[64]), [[0]]);
    let memory = SimRegion::new(1, 4096, RegionClass::Process);
    memory.store(0, 3);
    assert_eq!(outcomes(&memory, 100, &[0]), [[0]], "nothing is left");
}

#[test]
fn none_all_singles_and_pairs_come_first_and_all_sets_in_the_end() {
    let region = SimRegion::new(1, 4096, RegionClass::Lines);
    let lines = [0, 64, 512, 1024, 2048];
    lines.iter().for_each(|at| region.store(*at, 1));
    let found = outcomes(&region, 400, &lines);
    assert_eq!((&found[0], &found[1]), (&vec![0; 5], &vec![1; 5]));
    let sums: Vec<u64> = found[2..12].iter().map(|words| words.iter().sum()).collect();
    assert_eq!(sums, [1, 1, 1, 1, 1, 4, 4, 4, 4, 4]);
    let distinct = |found: &[Vec<u64>]| found.iter().cloned().collect::<BTreeSet<_>>().len();
    assert_eq!((distinct(&found[2..7]), distinct(&found[7..12])), (5, 5));
    let pairs = found[12..32].iter().filter(|words| words.iter().sum::<u64>() == 2);
    assert!(pairs.cloned().collect::<BTreeSet<_>>().len() == 10, "all pairs");
    assert_eq!(distinct(&found), 32);
}

#[test]
fn lines_are_torn_between_stores_and_by_words() {
    let region = SimRegion::new(1, 4096, RegionClass::Lines);
    region.write(0, &[1; 64]);
    region.store(64, 1);
    let word = u64::MAX / 255;
    let offsets: Vec<u64> = (0..9).map(|word| 8 * word).collect();
    let found: BTreeSet<Vec<u64>> = outcomes(&region, 2000, &offsets).into_iter().collect();
    for words in 0..=8 {
        for last in [0, 1] {
            let begun = (0..8).map(|at| if at < words { word } else { 0 }).chain([last]);
            assert!(found.contains(&begun.collect::<Vec<u64>>()), "{words} words and {last}");
        }
    }
    assert!(found.len() > 300, "mixtures: {}", found.len());
    assert!(found.iter().flatten().all(|value| [0, 1, word].contains(value)));
}

#[test]
fn pages_of_a_disk_are_old_new_or_torn_at_sectors() {
    let region = SimRegion::new(1, 8192, RegionClass::Pages);
    region.write(0, &[1; 8192]);
    region.sync().unwrap();
    let sectors: Vec<u64> = (0..16).map(|sector| 512 * sector).collect();
    sectors.iter().for_each(|at| region.store(*at, u64::MAX / 255 * 2));
    let found: BTreeSet<Vec<u64>> = outcomes(&region, 500, &sectors).into_iter().collect();
    let (old, new) = (u64::MAX / 255, u64::MAX / 255 * 2);
    assert!(found.contains(&vec![new; 16]) && found.len() > 100);
    assert!(found.contains(&[vec![new; 3], vec![old; 5], vec![old; 8]].concat()));
    assert!(found.iter().flatten().all(|value| [old, new].contains(value)));
}

#[test]
fn released_pages_come_back_below_the_lines_that_were_stored_since() {
    let region = SimRegion::new(1, 8192, RegionClass::Lines);
    region.write(0, &[1; 8192]);
    region.sync().unwrap();
    region.release(0, 4096).unwrap();
    region.store(4096, 5);
    let found: BTreeSet<Vec<u64>> = outcomes(&region, 100, &[0, 4096]).into_iter().collect();
    let old = u64::MAX / 255;
    assert_eq!(found, [vec![0, old], vec![0, 5], vec![old, old], vec![old, 5]].into());
}

/// An image is whole again before the next, whatever its owner did to it.
#[test]
fn images_do_not_see_what_was_done_to_others() {
    let region = SimRegion::new(1, 8192, RegionClass::Lines);
    region.write(0, &[1; 8192]);
    region.sync().unwrap();
    (0..6).for_each(|line| region.store(64 * line, line + 2));
    let expected = outcomes(&region, 300, &[0, 64, 128, 192, 256, 320, 4096]);
    let mut kept = Vec::new();
    for (number, image) in region.crash_images(300, 5).enumerate() {
        let after = image.region();
        let words: Vec<u64> =
            [0, 64, 128, 192, 256, 320, 4096].iter().map(|at| after.load(*at)).collect();
        assert_eq!(words, expected[number], "{image}");
        assert_eq!((after.len(), after.unfenced_lines()), (8192, vec![]), "all of it is durable");
        assert_eq!(after.counts().words_stored, 0);
        (0..64).for_each(|line| after.store(64 * line, 1000 + number as u64));
        match number % 8 {
            0 => after.flush(0, 8192),
            1 => after.sync().unwrap(),
            2 => after.power_cut(),
            3 => after.reopen().store(0, 98),
            4 => after.grow(12_288).unwrap(),
            5 => after.release(4096, 4096).unwrap(),
            6 => after.poke(4096, b"damage"),
            _ => kept.push((number as u64, image.region())),
        }
        after.fence().ok();
    }
    assert_eq!(expected.len(), 300);
    assert!(kept.iter().all(|(number, after)| after.load(4032) == 1000 + number), "those stay");
    assert_eq!(region.load(64), 3, "the region itself stays");
}

/// A record of 16 words, then a commit word with its number; each may have lost its flush or fence.
fn commit(region: &SimRegion, number: u64, flushes: bool, fences: bool) {
    let slot = 4096 + 256 * (number % 4);
    region.write(slot, &[number as u8; 128]);
    if flushes {
        region.flush(slot, 128);
    }
    if fences {
        region.fence().unwrap();
    }
    region.store(0, number);
    region.flush(0, 8);
    region.fence().unwrap();
}

/// Images at all fences of some commits in which a record is not whole, and all images.
fn broken_images(flushes: bool, fences: bool) -> (usize, usize) {
    let region = SimRegion::new(1, 8192, RegionClass::Lines);
    let found = Arc::new(Mutex::new((0, 0)));
    let counts = found.clone();
    region.on_fence(move |region| {
        for image in region.crash_images(40, region.op_count()) {
            let place = SimRegions::holding("store", image.region(), true);
            let after = silica_device::region::Regions::open_region(&place, "store");
            let after = after.unwrap().unwrap();
            let number = after.load(0);
            let mut record = [0; 128];
            after.read(4096 + 256 * (number % 4), &mut record);
            let mut counts = counts.lock().unwrap();
            counts.0 += usize::from(record != [number as u8; 128]);
            counts.1 += 1;
        }
    });
    (1..=50).for_each(|number| commit(&region, number, flushes, fences));
    *found.lock().unwrap()
}

#[test]
fn missing_flushes_and_fences_are_found_at_the_fence_that_needs_them() {
    let (broken, images) = broken_images(true, true);
    assert_eq!(broken, 0);
    assert!(images > 1000, "{images}");
    assert!(broken_images(false, true).0 > 50);
    assert!(broken_images(true, false).0 > 50);
}

/// 256 KiB that are opened by reading all of them, as a store does, and then stored to.
#[test]
fn images_are_cheap() {
    let region = SimRegion::new(1, 256 << 10, RegionClass::Lines);
    let images = Arc::new(Mutex::new(0u64));
    let count = images.clone();
    let zeroes = vec![0; 252 << 10];
    region.on_fence(move |region| {
        for image in region.crash_images(200, region.op_count()) {
            let after = image.region();
            let mut bytes = vec![0; 256 << 10];
            after.read(0, &mut bytes);
            assert!(bytes[4096..] == zeroes);
            after.store(0, 1);
            after.flush(0, 8);
            after.fence().unwrap();
            *count.lock().unwrap() += 1;
        }
    });
    let fences = test_size(100, 500, 5000);
    for fence in 0..fences {
        (0..8).for_each(|line| region.store(64 * line, fence));
        region.flush(0, 512);
        region.fence().unwrap();
    }
    assert_eq!(*images.lock().unwrap(), 200 * fences);
}
