//! Segments are spread over the channels of the flash.

use crate::model::{at, make};
use silica_device::blocks::{FlashDevice, Geometry};
use silica_device::sim::{SimFlash, SimFlashOptions};
use silica_lfs::{FlashGround, Ground, Kind, Lfs, ROOT};
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
            let segment = ground.allocate(false).unwrap().expect("there are free ones");
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
