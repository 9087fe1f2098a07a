//! Small files that are replaced as a whole: magic, version, length, body, checksum.
//!
//! The frame is that of the catalog (docs/formats/store.md). What is in them is a help, never data
//! of a user's, so they are not part of a backup.

use silica_base::{Format, checksum};
use silica_engine::{Error, Result};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const HEADER_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 4;
/// Nothing that is kept so is larger.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A kind of file, whose magic has 8 bytes and whose version 4.
pub(crate) struct Kind(pub(crate) Format);

impl Kind {
    /// The bytes of a file with this body.
    pub(crate) fn seal(&self, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + body.len() + CHECKSUM_BYTES);
        self.0.begin(&mut out);
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(body);
        let sum = checksum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// The body of the file's `bytes`; `name` is the file's in errors.
    pub(crate) fn open<'a>(&self, bytes: &'a [u8], name: &str) -> Result<&'a [u8]> {
        let damaged = |at: usize, what: &str| Error::corruption(name, at as u64, what);
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(damaged(bytes.len(), "it ends inside its header"));
        };
        self.0.version_of(name, 0, header)?;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        let Some((body, sum)) = rest.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(damaged(bytes.len(), "it ends before its checksum"));
        };
        if body.len() != word(12) as usize {
            return Err(damaged(12, "its length is another one"));
        }
        if u32::from_le_bytes(*sum) != checksum(&bytes[..bytes.len() - CHECKSUM_BYTES]) {
            return Err(damaged(bytes.len() - CHECKSUM_BYTES, "its checksum is another one"));
        }
        Ok(body)
    }

    /// Replaces the file at `path`: after a crash it is the old one or the new one.
    pub(crate) fn write(&self, path: &Path, body: &[u8]) -> Result<()> {
        let new = new_name(path);
        let write = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(&self.seal(body))?;
            file.sync_all()?;
            std::fs::rename(&new, path)?;
            match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                Some(parent) => File::open(parent)?.sync_all(),
                None => File::open(".")?.sync_all(),
            }
        };
        write().map_err(|e| {
            // A full disk should not have less room for it.
            let _ = std::fs::remove_file(&new);
            Error::io(format!("writing {}", path.display()), e)
        })
    }

    /// The body of the file at `path`; `None` where there is none.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        let name = path.display().to_string();
        let failed = |e| Error::io(format!("reading {name}"), e);
        let file = match File::open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed)?,
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
        self.open(&bytes, &name).map(|body| Some(body.to_vec()))
    }
}

/// The name under which a file is written before it takes its place.
pub(crate) fn new_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_engine::ErrorKind;

    const FORMAT: Format = Format {
        name: "test",
        magic: b"SILTEST\n",
        version_bytes: 4,
        version: 2,
        steps: &[|_| ()],
    };
    const KIND: Kind = Kind(FORMAT);

    #[test]
    fn any_damaged_byte_is_found() {
        let sealed = KIND.seal(b"the body");
        assert_eq!(KIND.open(&sealed, "f").unwrap(), b"the body");
        for at in 0..sealed.len() {
            let mut other = sealed.clone();
            other[at] ^= 0x10;
            assert!(KIND.open(&other, "f").is_err(), "byte {at}");
            assert!(KIND.open(&sealed[..at], "f").is_err(), "cut at {at}");
        }
        let next = Kind(Format { version: 3, ..FORMAT });
        assert_eq!(KIND.open(&next.seal(b""), "f").unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(next.open(&sealed, "f").is_ok());
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("FILE");
        assert_eq!(KIND.read(&path).unwrap(), None);
        KIND.write(&path, b"one").unwrap();
        KIND.write(&path, b"two").unwrap();
        assert_eq!(KIND.read(&path).unwrap().unwrap(), b"two");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
