//! Names that a device accepts.

use silica_base::{Error, ErrorKind, Result};

/// The file that carries the advisory lock of a directory; not a name of the device.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// What the names of logs begin with, which may lie in a directory of their own
/// ([`crate::FileDevice::put_logs`]).
pub const LOG_PREFIX: &str = "LOG-";

/// Refuses names that would leave the directory or hit the lock file.
pub(crate) fn check(name: &str) -> Result<()> {
    let bad = name.is_empty()
        || name.len() > 255
        || name == "."
        || name == ".."
        || name == LOCK_NAME
        || name.contains(['/', '\0']);
    if bad {
        let message = format!("'{name}' is not a name that a device accepts");
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_stay_inside_the_directory() {
        for bad in ["", ".", "..", "a/b", "LOCK", "x\0"] {
            assert!(super::check(bad).is_err(), "{bad:?}");
        }
        assert!(super::check("000001.table").is_ok());
    }
}
