//! Files that are no region, not the expected one, or in use.

use super::*;
use silica_base::ErrorKind;
use std::fs;

#[test]
fn what_is_refused_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("region");
    let refused = |expected: Option<u64>| {
        FileRegion::open(&path, expected).map(|_| ()).expect_err("the file is refused")
    };
    assert_eq!(refused(None).kind(), ErrorKind::NotFound);
    for bytes in [0, 100, 4097] {
        let error = FileRegion::create(&path, bytes).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("multiple of 4096"), "{error}");
    }
    let huge = FileRegion::create(&path, 1 << 60).map(|_| ()).unwrap_err();
    assert_eq!(huge.kind(), ErrorKind::Full, "{huge}");
    assert!(!path.exists(), "nothing is left of an attempt");

    let region = FileRegion::create(&path, 8192).unwrap();
    assert_eq!(region.path(), path);
    assert!(FileRegion::create(&path, 8192).is_err(), "it exists");
    let locked = refused(None);
    assert_eq!(locked.kind(), ErrorKind::Locked, "{locked}");
    drop(region);

    for bytes in [0u64, 1, 4096, 8191, 8193, 12288] {
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes).unwrap();
        let error = refused(Some(8192));
        assert_eq!(error.kind(), ErrorKind::Corruption, "{bytes}: {error}");
        let is_whole = bytes > 0 && bytes.is_multiple_of(4096);
        assert_eq!(FileRegion::open(&path, None).is_ok(), is_whole, "{bytes}");
    }
}
