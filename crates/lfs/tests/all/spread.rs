//! Segments are spread over the channels of the flash.

use crate::model::{at, make};
use silica_base::AlignedBuf;
use silica_device::blocks::{FlashDevice, Geometry};
use silica_device::sim::{FlashTiming, SimFlash, SimFlashOptions};
use silica_lfs::{Burst, FlashGround, Ground, Kind, Lfs, ROOT};
use std::collections::BTreeSet;

const CHANNELS: u32 = 4;

fn flash() -> SimFlash {
    let geometry = Geometry {
        channels: CHANNELS,
        luns: 1,
        blocks: 32,
        pages: 16,
        page_bytes: 1024,
        spare_bytes: 0,
    };
    SimFlash::new(1, SimFlashOptions::flash(geometry))
}

/// Nothing is written in between, so what channels have done says nothing yet.
#[test]
fn segments_that_are_taken_at_once_are_of_different_channels() {
    let flash = flash();
    let ground = FlashGround::open(flash.clone(), 4).unwrap();
    for round in 0..5 {
        let mut taken = BTreeSet::new();
        for _ in 0..CHANNELS {
            let segment = ground.allocate(false, &[]).unwrap().expect("there are free ones");
            taken.insert(flash.geometry().block_at(segment).channel);
        }
        assert_eq!(taken.len() as u32, CHANNELS, "round {round}: {taken:?}");
    }
}

#[test]
fn channels_write_about_as_much_as_one_another() {
    let flash = flash();
    let fs = Lfs::create(FlashGround::open(flash.clone(), 4).unwrap(), 7, (0, 0), at(0)).unwrap();
    let file = fs.make(ROOT, b"file", &make(Kind::File), at(1)).unwrap();
    for part in 0..64 {
        fs.write(file, Some(part * 8192), &[part as u8; 8192], at(2)).unwrap();
        fs.sync().unwrap();
    }
    let programs: Vec<u64> =
        (0..CHANNELS as u16).map(|channel| flash.counters().channel(channel).programs).collect();
    let (least, most) = (programs.iter().min().unwrap(), programs.iter().max().unwrap());
    assert!(*least > 64 && *most <= 2 * least, "pages by channel: {programs:?}");
}

#[test]
fn pages_of_a_file_that_follow_each_other_lie_on_different_channels() {
    let flash = flash();
    let fs = Lfs::create(FlashGround::open(flash.clone(), 4).unwrap(), 7, (0, 0), at(0)).unwrap();
    let other = fs.make(ROOT, b"other", &make(Kind::File), at(1)).unwrap();
    let channels = u64::from(CHANNELS);
    for round in 0..40 {
        // Segments end at different times, and are given back in between.
        fs.write(other, Some(round % 7 * 3072), &[1; 5 << 10], at(2)).unwrap();
        let name = format!("file {round}");
        let file = fs.make(ROOT, name.as_bytes(), &make(Kind::File), at(1)).unwrap();
        fs.write(file, Some(0), &[2; CHANNELS as usize * 1024], at(2)).unwrap();
        fs.sync().unwrap();
        let before = reads(&flash);
        fs.read(file, 0, &mut [0; CHANNELS as usize * 1024]).unwrap();
        let read: Vec<u64> = reads(&flash).iter().zip(before).map(|(now, old)| now - old).collect();
        assert_eq!(read, vec![1; channels as usize], "pages read of each channel, round {round}");
    }
}

fn reads(flash: &SimFlash) -> Vec<u64> {
    (0..CHANNELS as u16).map(|channel| flash.counters().channel(channel).reads).collect()
}

/// Segments of all channels wait to be erased: that takes as long as one erase.
#[test]
fn channels_are_erased_side_by_side() {
    const ERASE_NS: u64 = 7_000_000;
    let timing = FlashTiming { erase_ns: ERASE_NS, ..FlashTiming::default() };
    let options = SimFlashOptions { timing, ..SimFlashOptions::flash(*flash().geometry()) };
    let flash = SimFlash::new(1, options);
    let ground = FlashGround::open(flash.clone(), 4).unwrap();
    let mut taken = Vec::new();
    while let Some(segment) = ground.allocate(true, &[]).unwrap() {
        let pages = AlignedBuf::zeroed(1024);
        let results = ground.write(vec![Burst { segment, first: 0, pages }]);
        results.into_iter().for_each(|result| result.unwrap());
        taken.push(segment);
    }
    for segment in taken {
        ground.trim(segment).unwrap();
    }
    let before_ns = flash.now_ns();
    let mut open = Vec::new();
    for _ in 0..CHANNELS {
        let segment = ground.allocate(false, &open).unwrap().expect("they wait to be erased");
        open.push(segment);
    }
    assert_eq!(flash.now_ns() - before_ns, ERASE_NS);
}
