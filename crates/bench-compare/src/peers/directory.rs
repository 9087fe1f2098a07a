//! What a store's directory tells.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes of all files below `path`. A file that goes away meanwhile has none.
pub(crate) fn bytes(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let of_entry = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of_entry).sum()
}

/// Files directly in `path` whose names end with a dot and `extension`.
pub(crate) fn files(path: &Path, extension: &str) -> usize {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let is_one = |entry: &std::fs::DirEntry| entry.path().extension() == Some(extension.as_ref());
    entries.flatten().filter(is_one).count()
}

/// True where files in `path`, or where it will be made, can be read and written without the page
/// cache.
pub(crate) fn takes_direct_io(path: &Path) -> bool {
    let Some(path) = path.ancestors().find(|p| p.is_dir()) else { return false };
    let file = path.join(".direct-io-probe");
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).custom_flags(libc::O_DIRECT);
    let taken = options.open(&file).is_ok();
    // A file system that refuses the flag may have made the file before it did.
    let _ = std::fs::remove_file(&file);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), [0; 10]).unwrap();
        std::fs::create_dir(directory.path().join("below")).unwrap();
        std::fs::write(directory.path().join("below/b"), [0; 7]).unwrap();
        takes_direct_io(directory.path());
        assert_eq!(bytes(directory.path()), 17);
        std::fs::write(directory.path().join("7.log"), []).unwrap();
        assert_eq!((files(directory.path(), "log"), files(directory.path(), "sst")), (1, 0));
    }
}
