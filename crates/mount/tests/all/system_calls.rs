//! What programs see through the kernel.

use super::{Mount, user};
use silica_base::ErrorKind;
use silica_mount::{LfsOptions, Shape, Volume, check_mount_point, now};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

#[test]
fn files_directories_and_links_are_there_after_a_remount() {
    let Some(mut mount) = Mount::new(64) else { return };
    let root = mount.path();
    fs::write(root.join("a"), b"contents").unwrap();
    fs::create_dir(root.join("d")).unwrap();
    fs::hard_link(root.join("a"), root.join("d/b")).unwrap();
    symlink("a", root.join("s")).unwrap();
    fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o640)).unwrap();
    for i in 0..1000 {
        fs::write(root.join(format!("d/{i}")), i.to_string()).unwrap();
    }
    fs::rename(root.join("d/7"), root.join("d/8")).unwrap();
    mount.unmount();
    mount.mount().unwrap();
    assert_eq!(fs::read(root.join("d/b")).unwrap(), b"contents");
    assert_eq!(fs::read(root.join("s")).unwrap(), b"contents");
    assert_eq!(fs::read_link(root.join("s")).unwrap().to_str(), Some("a"));
    let of = fs::metadata(root.join("a")).unwrap();
    assert_eq!((of.nlink(), of.mode() & 0o7777, of.uid()), (2, 0o640, user().0));
    assert_eq!(fs::read_dir(root.join("d")).unwrap().count(), 1000);
    assert_eq!(fs::read(root.join("d/8")).unwrap(), b"7");
    mount.end();
}

#[test]
fn an_open_file_outlives_its_name_and_appends_go_to_the_end() {
    let Some(mount) = Mount::new(64) else { return };
    let path = mount.path().join("a");
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path).unwrap();
    let mut other = OpenOptions::new().append(true).open(&path).unwrap();
    for i in 0..100 {
        let to = if i % 2 == 0 { &mut file } else { &mut other };
        to.write_all(&[i; 100]).unwrap();
    }
    fs::remove_file(&path).unwrap();
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut bytes).unwrap();
    assert!(bytes.chunks(100).enumerate().all(|(i, part)| part == [i as u8; 100]));
    assert_eq!(bytes.len(), 10_000);
    drop((file, other));
    mount.end();
}

#[test]
fn a_sparse_file_takes_the_space_of_its_data() {
    let Some(mount) = Mount::new(64) else { return };
    let file = File::create(mount.path().join("a")).unwrap();
    file.write_all_at(b"x", 1 << 40).unwrap();
    let of = file.metadata().unwrap();
    assert_eq!((of.len(), of.blocks()), ((1 << 40) + 1, 8));
    file.set_len(100).unwrap();
    assert_eq!(file.metadata().unwrap().blocks(), 0);
    drop(file);
    mount.end();
}

#[test]
fn names_of_255_bytes_do_and_256_are_refused() {
    let Some(mount) = Mount::new(64) else { return };
    let name = "n".repeat(256);
    fs::write(mount.path().join(&name[..255]), b"").unwrap();
    let refused = fs::write(mount.path().join(&name), b"").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(36));
    mount.end();
}

#[test]
fn a_full_file_system_refuses_writes_and_takes_deletes() {
    let Some(mount) = Mount::new(64) else { return };
    let path = mount.path().join("a");
    let mut file = File::create(&path).unwrap();
    let refused = loop {
        if let Err(error) = file.write_all(&[1; 1 << 16]) {
            break error;
        }
    };
    assert_eq!(refused.raw_os_error(), Some(28));
    file.sync_all().unwrap();
    drop(file);
    fs::remove_file(&path).unwrap();
    fs::write(&path, vec![2; 1 << 20]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), vec![2; 1 << 20]);
    mount.end();
}

#[test]
fn what_is_mounted_is_not_mounted_twice_and_what_is_not_ours_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    let open = || Volume::open(&image, LfsOptions::default()).err().unwrap();
    assert_eq!(open().kind(), ErrorKind::NotFound);
    fs::write(&image, vec![7; 1 << 20]).unwrap();
    let refused = open();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(refused.to_string().contains("silica lfs create"), "{refused}");
    fs::remove_file(&image).unwrap();
    let volume = Volume::create(&image, Shape::Drive(64 << 20), 7, user(), now()).unwrap();
    let refused = open();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    assert!(refused.to_string().contains("mounted already"), "{refused}");
    volume.close().unwrap();
    assert!(Volume::open(&image, LfsOptions::default()).is_ok());
    let small =
        Volume::create(&directory.path().join("b"), Shape::Drive(1 << 20), 7, user(), now());
    assert!(small.err().unwrap().to_string().contains("too few"));
    let again = Volume::create(&image, Shape::Drive(64 << 20), 7, user(), now()).err().unwrap();
    assert_eq!(again.kind(), ErrorKind::Config);
    assert!(again.to_string().contains("is there already"), "{again}");
    let swapped = Volume::open(directory.path(), LfsOptions::default()).err().unwrap();
    assert!(swapped.to_string().contains("is a directory"), "{swapped}");
}

/// Whoever is told to make a file system where a damaged one is loses what can be saved.
#[test]
fn a_damaged_header_is_named_and_nobody_is_told_to_make_a_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let geometry = "2x2x32x16x4KiB".parse().unwrap();
    for (name, shape) in [("drive", Shape::Drive(64 << 20)), ("image", Shape::Image(geometry))] {
        let path = directory.path().join(name);
        Volume::create(&path, shape, 10, user(), now()).unwrap().close().unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 20).unwrap();
        file.write_all_at(&[byte[0] ^ 1], 20).unwrap();
        let refused = Volume::open(&path, LfsOptions::default()).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
        let told = refused.to_string();
        assert!(told.contains("damaged") && !told.contains("lfs create"), "{told}");
    }
}

#[test]
fn what_is_no_mount_point_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let told = |at: &Path| check_mount_point(at).unwrap_err().to_string();
    assert!(told(&file).contains("is no directory"));
    assert!(told(&directory.path().join("missing")).contains("make it first"));
    check_mount_point(directory.path()).unwrap();
}

#[test]
fn an_image_with_checksums_does_as_a_drive_does() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    let geometry = "2x2x32x16x4KiB".parse().unwrap();
    let volume = Volume::create(&image, Shape::Image(geometry), 10, user(), now()).unwrap();
    volume.close().unwrap();
    let volume = Volume::open(&image, LfsOptions::default()).unwrap();
    assert_eq!(volume.check(true).unwrap(), []);
    assert!(volume.usage().0.over_provisioned > 0, "the monitor's share");
}
