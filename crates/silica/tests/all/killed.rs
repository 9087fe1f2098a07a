//! What a process that is killed leaves of a store: a copy of a store that is open.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Of a file: its number, its length, when it was written last.
type Seen = (u64, u64, i64, i64);

fn files(path: &Path, found: &mut BTreeMap<PathBuf, Seen>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let told = entry.metadata()?;
        if told.is_dir() {
            files(&entry.path(), found)?;
        } else {
            let seen = (told.ino(), told.len(), told.mtime(), told.mtime_nsec());
            found.insert(entry.path(), seen);
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => drop(std::fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}

/// Copies the store at `from` to `to` as it is at one moment. Background work may remove and
/// write files while others are copied, and no kill leaves what such a copy would hold: so it is
/// made again until no file has changed meanwhile.
pub(crate) fn copy_of(from: &Path, to: &Path) {
    for _ in 0..1000 {
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        let copied = files(from, &mut before)
            .and_then(|()| copy(from, to))
            .and_then(|()| files(from, &mut after));
        match copied {
            Ok(()) if before == after => return,
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
            _ => drop(std::fs::remove_dir_all(to)),
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{} does not come to rest", from.display());
}
