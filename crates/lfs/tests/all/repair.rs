//! Damage that a check finds and a repair puts right.

use crate::model::*;
use silica_device::blocks::FlashDevice;
use silica_lfs::{Kind, Problem, ROOT};

#[test]
fn pages_that_cannot_be_read_are_found_and_become_holes() {
    let flash = flash(1, 12);
    let lfs = create(&flash);
    let ino = lfs.make(ROOT, b"a", &make(Kind::File), at(1)).unwrap();
    for page in 0..40u64 {
        lfs.write(ino, Some(page << 10), &[page as u8 + 1; 1024], at(1)).unwrap();
    }
    lfs.close().unwrap();
    drop(lfs);
    // Every fourth page of every block that holds files; the others are log and checkpoint.
    let flash = flash.reopen();
    let lfs = open(&flash).unwrap();
    assert_eq!(lfs.check().unwrap(), []);
    for block in flash.geometry().all_blocks() {
        let mut first = vec![0; 1024];
        let is_file = flash.read(block.page(0), &mut first, &mut []).is_ok() && first[0] != b'S';
        for page in (0..16).step_by(4).filter(|_| is_file) {
            flash.spoil(block.page(page));
        }
    }
    let problems = lfs.check().unwrap();
    let is_damage = |problem: &Problem| matches!(problem, Problem::Damaged { .. });
    assert!(problems.len() > 5 && problems.iter().all(is_damage), "{problems:?}");
    assert!(problems[0].to_string().contains("not what was written"));
    assert_eq!(lfs.repair(at(2)).unwrap(), problems);
    assert_eq!(lfs.check().unwrap(), []);
    let mut bytes = vec![0; 40 << 10];
    assert_eq!(lfs.read(ino, 0, &mut bytes).unwrap(), 40 << 10);
    let holes = bytes.chunks(1024).filter(|page| page.iter().all(|byte| *byte == 0)).count();
    assert_eq!(holes, problems.len());
    let lfs = open(&flash.reopen()).unwrap();
    assert_eq!(lfs.check().unwrap(), []);
}

#[test]
fn what_is_not_ours_or_newer_is_refused_in_words() {
    let flash = flash(1, 12);
    let empty = open(&flash).err().unwrap().to_string();
    assert!(empty.contains("silica lfs create"), "{empty}");
    let lfs = create(&flash);
    lfs.close().unwrap();
    drop(lfs);
    let flash = flash.reopen();
    // Every checkpoint's page is written anew with a version that does not exist yet.
    for block in flash.geometry().all_blocks() {
        let mut page = vec![0; 1024];
        if flash.read(block.page(0), &mut page, &mut []).is_err() {
            continue;
        }
        page[4] = 9;
        flash.reset(block).unwrap();
        let append = silica_device::blocks::Append {
            block,
            expected: None,
            stream: 0,
            pages: &page,
            spare: &[],
        };
        flash.append(&append).unwrap();
    }
    let newer = open(&flash.reopen()).err().unwrap().to_string();
    assert!(newer.contains("version 9") && newer.contains("newer release"), "{newer}");
}
