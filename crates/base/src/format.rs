//! How everything that Silica writes begins, and how what an older release wrote is read.
//!
//! A format's decoder knows the newest version only. What is of an older version is made one of the
//! next by that version's [`Step`], and so on up to the newest.

use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::fmt::Display;

/// Makes the bytes of one version those of the next, the prefix aside: its version is replaced
/// when all steps are done. It may meet damaged bytes, which it hands on for the decoder to refuse.
pub type Step = fn(&mut Vec<u8>);

/// A format: how its bytes begin, which version is written, which are read.
///
/// The prefix is [`Format::magic`] and, behind it, the version, little-endian.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// As people read it, without an article: "table".
    pub name: &'static str,
    /// First bytes, which no other format begins with.
    pub magic: &'static [u8],
    /// Bytes of the version behind them: 1, 2 or 4.
    pub version_bytes: usize,
    /// The version that is written, and the newest that is read.
    pub version: u32,
    /// From each older version that is read to the one after it, the oldest first.
    pub steps: &'static [Step],
}

impl Format {
    /// Bytes of the prefix.
    pub const fn prefix_bytes(&self) -> usize {
        self.magic.len() + self.version_bytes
    }

    /// The oldest version that is read.
    pub const fn oldest(&self) -> u32 {
        self.version - self.steps.len() as u32
    }

    /// Appends the prefix to `out`.
    pub fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.magic);
        out.extend_from_slice(&self.version.to_le_bytes()[..self.version_bytes]);
    }

    /// Writes the prefix to the front of `bytes`.
    ///
    /// # Panics
    /// Where it does not fit.
    pub fn begin_in(&self, bytes: &mut [u8]) {
        bytes[..self.magic.len()].copy_from_slice(self.magic);
        self.set_version(bytes);
    }

    fn set_version(&self, bytes: &mut [u8]) {
        let version = &self.version.to_le_bytes()[..self.version_bytes];
        bytes[self.magic.len()..self.prefix_bytes()].copy_from_slice(version);
    }

    /// True where `bytes` begin as this format does, in whichever version.
    pub fn begins(&self, bytes: &[u8]) -> bool {
        bytes.len() >= self.prefix_bytes() && bytes.starts_with(self.magic)
    }

    /// The version of `bytes`, which stand at byte `at` of `file`.
    ///
    /// # Errors
    /// `Corruption` where they do not begin as this format, `Unsupported` where this release does
    /// not read their version.
    pub fn version_of(&self, file: impl Display, at: u64, bytes: &[u8]) -> Result<u32> {
        if !self.begins(bytes) {
            let detail = format!("it does not begin as a {} does", self.name);
            return Err(Error::corruption(file, at, detail));
        }
        let mut version = [0; 4];
        version[..self.version_bytes]
            .copy_from_slice(&bytes[self.magic.len()..self.prefix_bytes()]);
        let version = u32::from_le_bytes(version);
        self.check(file, version)?;
        Ok(version)
    }

    /// Checks that `version`, which `file` says it has, is one that is read.
    ///
    /// # Errors
    /// `Unsupported`, with the way out, where it is not.
    pub fn check(&self, file: impl Display, version: u32) -> Result<()> {
        let Format { name, version: newest, .. } = self;
        if (self.oldest()..=*newest).contains(&version) {
            return Ok(());
        }
        let known = match self.oldest() {
            oldest if oldest == *newest => format!("version {newest}"),
            oldest => format!("versions {oldest} to {newest}"),
        };
        let way = match version > *newest {
            true => "use the newer release that wrote it",
            false => "take it to this one by way of the release between",
        };
        let message = format!(
            "{file} has version {version} of the {name} format, this release reads {known}; {way}"
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// The content in the newest version: `bytes`, which stand at byte `at` of `file`, from the
    /// prefix on. Copies them only where their version is an older one.
    ///
    /// # Errors
    /// As of [`Format::version_of`].
    pub fn upgraded<'a>(
        &self,
        file: impl Display,
        at: u64,
        bytes: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        let version = self.version_of(file, at, bytes)?;
        if version == self.version {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut bytes = bytes.to_vec();
        for step in &self.steps[(version - self.oldest()) as usize..] {
            step(&mut bytes);
        }
        self.set_version(&mut bytes);
        Ok(Cow::Owned(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 2 put a count behind the prefix, version 3 a mark at the end.
    const LIST: Format = Format {
        name: "list",
        magic: b"LIST",
        version_bytes: 2,
        version: 3,
        steps: &[|bytes| bytes.insert(6, 7), |bytes| bytes.push(b'!')],
    };

    #[test]
    fn each_version_becomes_the_newest_by_the_steps_behind_it() {
        let mut newest = Vec::new();
        LIST.begin(&mut newest);
        newest.extend_from_slice(b"\x07abc!");
        assert_eq!(newest, b"LIST\x03\0\x07abc!");
        for (old, version) in
            [(&b"LIST\x01\0abc"[..], 1), (b"LIST\x02\0\x07abc", 2), (b"LIST\x03\0\x07abc!", 3)]
        {
            assert_eq!(LIST.version_of("f", 0, old).unwrap(), version);
            assert_eq!(*LIST.upgraded("f", 0, old).unwrap(), *newest, "version {version}");
        }
        let mut bytes = [b'x'; 8];
        LIST.begin_in(&mut bytes);
        assert_eq!(&bytes, b"LIST\x03\0xx");
    }

    #[test]
    fn what_is_not_read_is_refused_with_the_way_out() {
        let error = |bytes: &[u8]| LIST.upgraded("a file", 9, bytes).unwrap_err();
        for short in 0..LIST.prefix_bytes() {
            let error = error(&b"LIST\x01\0"[..short]);
            assert_eq!(error.kind(), ErrorKind::Corruption, "{short} bytes");
        }
        assert!(error(b"LOST\x01\0abc").to_string().contains("byte 9"));
        let newer = error(b"LIST\x04\0abc");
        assert_eq!(newer.kind(), ErrorKind::Unsupported);
        let text = newer.to_string();
        assert!(text.contains("versions 1 to 3") && text.contains("newer release"), "{text}");
        // The width of the version counts: 256 is not 0.
        assert!(error(b"LIST\0\x01abc").to_string().contains("version 256"));
        assert_eq!(error(b"LIST\0\0abc").kind(), ErrorKind::Unsupported);
    }
}
