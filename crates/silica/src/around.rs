//! What must not lie inside a store: a store removes what it does not know, and is copied and
//! removed as a whole.

use crate::catalog::{FILE, FORMAT};
use silica_engine::{Error, ErrorKind, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Refuses `path`, which need not exist yet, where it is the directory of a store or lies in one;
/// links and relative parts are followed. `what` says what was to be there.
///
/// # Errors
/// `Config`, with the store and the fix.
pub fn refuse_within_store(path: impl AsRef<Path>, what: &str) -> Result<()> {
    let path = path.as_ref();
    let resolved = resolve(path);
    let Some(store) = resolved.ancestors().find(|directory| is_store(directory)) else {
        return Ok(());
    };
    let message = format!(
        "{what} cannot be at {}: that is in the directory of the store {}, which removes what it \
         does not know; give a path outside of it",
        path.display(),
        store.display()
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// The path without links as far as it exists, and the rest as it is.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut there = absolute.as_path();
    loop {
        if let Ok(mut resolved) = there.canonicalize() {
            resolved.extend(rest.iter().rev());
            return resolved;
        }
        let (Some(name), Some(parent)) = (there.components().next_back(), there.parent()) else {
            return absolute;
        };
        rest.push(name.as_os_str().to_owned());
        there = parent;
    }
}

/// True where `directory` has a catalog.
fn is_store(directory: &Path) -> bool {
    let mut begin = [0; FORMAT.prefix_bytes()];
    let file = std::fs::File::open(directory.join(FILE));
    file.is_ok_and(|mut file| file.read_exact(&mut begin).is_ok()) && FORMAT.begins(&begin)
}
