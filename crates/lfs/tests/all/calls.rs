//! What single calls promise.

use crate::model::*;
use silica_lfs::{Allocation, Fault, Kind, ROOT, Rename, Seek, XattrMode};

#[test]
fn names_have_255_bytes_at_most() {
    let lfs = create(&flash(1, 12));
    let name = [b'n'; 256];
    lfs.make(ROOT, &name[..255], &make(Kind::File), at(1)).unwrap();
    let refused = lfs.make(ROOT, &name, &make(Kind::File), at(1)).unwrap_err();
    assert!(matches!(refused, Fault::NameTooLong));
    assert_eq!(refused.errno(), 36);
    assert!(matches!(lfs.lookup(ROOT, &name), Err(Fault::NameTooLong)));
    let to = (ROOT, &name[..]);
    let renamed = lfs.rename((ROOT, &name[..255]), to, Rename::Replace, at(1));
    assert!(matches!(renamed, Err(Fault::NameTooLong)));
}

#[test]
fn a_file_that_is_held_outlives_its_name_and_not_a_restart() {
    let flash = flash(1, 12);
    let lfs = create(&flash);
    let ino = lfs.make(ROOT, b"a", &make(Kind::File), at(1)).unwrap();
    lfs.write(ino, None, &[7; 5000], at(2)).unwrap();
    let before = lfs.usage().free_pages;
    lfs.hold(ino).unwrap();
    lfs.unlink(ROOT, b"a", at(3)).unwrap();
    let mut bytes = vec![0; 6000];
    assert_eq!(lfs.read(ino, 0, &mut bytes).unwrap(), 5000);
    lfs.write(ino, None, &[8; 10], at(4)).unwrap();
    assert_eq!(lfs.attributes(ino).unwrap().0.links, 0);
    lfs.sync().unwrap();
    drop(lfs);
    let lfs = open(&flash.reopen()).unwrap();
    assert!(matches!(lfs.attributes(ino), Err(Fault::Stale)));
    assert!(lfs.usage().free_pages >= before + 5);
    let other = lfs.make(ROOT, b"b", &make(Kind::File), at(5)).unwrap();
    assert!(other > ino, "numbers are not used again");
    lfs.hold(other).unwrap();
    lfs.unlink(ROOT, b"b", at(6)).unwrap();
    lfs.let_go(other, 1);
    assert!(matches!(lfs.attributes(other), Err(Fault::Stale)));
}

#[test]
fn sparse_files_have_holes_that_are_found() {
    let lfs = create(&flash(1, 12));
    let ino = lfs.make(ROOT, b"a", &make(Kind::File), at(1)).unwrap();
    lfs.write(ino, Some(10 << 30), b"end", at(2)).unwrap();
    lfs.write(ino, Some(4096), &[1; 2048], at(2)).unwrap();
    for _ in 0..2 {
        assert_eq!(lfs.attributes(ino).unwrap().1, 3, "pages of data");
        assert_eq!(lfs.seek(ino, 0, Seek::Data).unwrap(), 4096);
        assert_eq!(lfs.seek(ino, 4100, Seek::Data).unwrap(), 4100);
        assert_eq!(lfs.seek(ino, 4100, Seek::Hole).unwrap(), 6144);
        assert_eq!(lfs.seek(ino, 6144, Seek::Data).unwrap(), 10 << 30);
        assert_eq!(lfs.seek(ino, 10 << 30, Seek::Hole).unwrap(), (10 << 30) + 3);
        assert!(matches!(lfs.seek(ino, (10 << 30) + 3, Seek::Data), Err(Fault::NoData)));
        lfs.sync().unwrap();
    }
    lfs.truncate(ino, 8192, at(3)).unwrap();
    assert!(matches!(lfs.seek(ino, 6144, Seek::Data), Err(Fault::NoData)));
    lfs.allocate(ino, 0, 4096, Allocation::Promise { keeps_size: true }, at(3)).unwrap();
    assert_eq!(lfs.seek(ino, 0, Seek::Data).unwrap(), 4096, "promised pages are holes");
    assert_eq!(lfs.attributes(ino).unwrap().1, 6);
}

#[test]
fn xattrs_are_set_as_the_mode_says() {
    let lfs = create(&flash(1, 12));
    let ino = lfs.make(ROOT, b"a", &make(Kind::File), at(1)).unwrap();
    let set = |value: &[u8], mode| lfs.set_xattr(ino, b"user.x", value, mode, at(2));
    assert!(matches!(set(b"1", XattrMode::Replace), Err(Fault::NoAttribute)));
    set(b"1", XattrMode::Create).unwrap();
    assert!(matches!(set(b"2", XattrMode::Create), Err(Fault::Exists)));
    set(b"3", XattrMode::Replace).unwrap();
    assert_eq!(lfs.xattr(ino, b"user.x").unwrap(), b"3");
    assert!(matches!(set(&[0; 1 << 20], XattrMode::Any), Err(Fault::TooLarge)));
    lfs.remove_xattr(ino, b"user.x", at(3)).unwrap();
    assert!(matches!(lfs.remove_xattr(ino, b"user.x", at(3)), Err(Fault::NoAttribute)));
}

#[test]
fn a_directory_does_not_move_into_itself() {
    let lfs = create(&flash(1, 12));
    let a = lfs.make(ROOT, b"a", &make(Kind::Directory), at(1)).unwrap();
    let b = lfs.make(a, b"b", &make(Kind::Directory), at(1)).unwrap();
    let moved = lfs.rename((ROOT, b"a"), (b, b"c"), Rename::Replace, at(2));
    assert!(matches!(moved, Err(Fault::Invalid)));
    lfs.rename((a, b"b"), (ROOT, b"b"), Rename::NoReplace, at(2)).unwrap();
    assert_eq!((lfs.parent(b).unwrap(), lfs.lookup(b, b"..").unwrap()), (ROOT, ROOT));
    assert_eq!(lfs.attributes(a).unwrap().0.links, 2);
    assert_eq!(lfs.attributes(ROOT).unwrap().0.links, 4);
}

#[test]
fn a_listing_goes_on_where_it_stopped_while_entries_come_and_go() {
    let lfs = create(&flash(1, 24));
    for i in 0..300 {
        let name = format!("file{i}");
        lfs.make(ROOT, name.as_bytes(), &make(Kind::File), at(1)).unwrap();
    }
    let (mut from, mut seen) = (0, Vec::new());
    loop {
        let listed = lfs.list(ROOT, from, 7).unwrap();
        let Some(last) = listed.last() else { break };
        from = last.next;
        for entry in listed {
            lfs.unlink(ROOT, &entry.name, at(2)).unwrap();
            seen.push(entry.name);
        }
    }
    assert_eq!(seen.len(), 300);
    assert!(lfs.list(ROOT, 0, 1).unwrap().is_empty());
}
