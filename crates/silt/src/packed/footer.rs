//! The footer chunk: what a file is and where its parts are.

use super::chunk::{self, CHUNK_BYTES, PAYLOAD_BYTES, Trailer};
use super::layout::Layout;
use silica_base::{Error, ErrorKind, Format, Result};
use silica_device::Lifetime;
use silica_parts::Fields;
use silica_parts::expiry::Expiries;

/// How every footer begins.
const FORMAT: Format = Format {
    name: "packed file",
    magic: b"SILTPACK",
    version_bytes: 4,
    version: 2,
    // Version 1 does not say when entries expire.
    steps: &[|footer| Expiries::default().encode(footer)],
};
/// Bytes of the fixed fields, before the section table.
const FIXED_BYTES: usize = 88;
/// Bytes of one section in the table.
#[cfg(test)]
const SECTION_BYTES: usize = 20;
const SECTIONS_MAX: usize = 16;
/// Most bytes of a store's own metadata in the footer.
pub const META_BYTES_MAX: usize = 2048;

/// Which store a packed file is the body of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Entries in (bucket, slot) order of a cuckoo table.
    HashStore,
    /// Entries in hash order.
    SortedStore,
}

impl FileKind {
    /// How long such a file is there: hash stores are merged into the sorted store.
    pub(super) fn lifetime(self) -> Lifetime {
        match self {
            FileKind::HashStore => Lifetime::Medium,
            FileKind::SortedStore => Lifetime::Long,
        }
    }
}

/// What a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionKind {
    /// Tag filter of a hash store.
    TagFilter,
    /// First rank of each chunk, Elias-Fano coded.
    ChunkRanks,
    /// Sparse entropy-coded trie.
    SparseIndex,
    /// Dense entropy-coded trie.
    DenseIndex,
    /// Miss filter of a sorted store.
    MissFilter,
}

impl SectionKind {
    fn code(self) -> u32 {
        match self {
            SectionKind::TagFilter => 1,
            SectionKind::ChunkRanks => 2,
            SectionKind::SparseIndex => 3,
            SectionKind::DenseIndex => 4,
            SectionKind::MissFilter => 5,
        }
    }

    fn from_code(code: u32) -> Option<Self> {
        [
            SectionKind::TagFilter,
            SectionKind::ChunkRanks,
            SectionKind::SparseIndex,
            SectionKind::DenseIndex,
            SectionKind::MissFilter,
        ]
        .into_iter()
        .find(|kind| kind.code() == code)
    }
}

/// Bytes kept in chunks of their own behind the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// What it holds.
    pub kind: SectionKind,
    /// Its first chunk.
    pub chunk: u64,
    /// Its length.
    pub bytes: u64,
}

/// What a packed file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// The store it belongs to.
    pub kind: FileKind,
    /// The file's id, unique in the life of a store.
    pub file_id: u64,
    /// The writer's rule for borders.
    pub layout: Layout,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// Entries whose value lies in the value log.
    pub pointers: u64,
    /// Bytes of all entry frames, padding not counted.
    pub entry_bytes: u64,
    /// Size of every entry where all are equal, otherwise 0.
    pub entry_bytes_equal: u64,
    /// Chunks of data.
    pub data_chunks: u64,
    /// Chunks beyond its first that an entry needs at most.
    pub straddle_max: u32,
    /// Chunks beyond its first that suffice for 999 of 1000 entries.
    pub straddle_usual: u32,
    /// Sections behind the data.
    pub sections: Vec<Section>,
    /// The store's own metadata.
    pub meta: Vec<u8>,
    /// When entries expire; a file of version 1 does not say, and counts as if none did.
    pub expiries: Expiries,
}

impl Footer {
    /// The section of `kind`.
    pub fn section(&self, kind: SectionKind) -> Option<Section> {
        self.sections.iter().find(|section| section.kind == kind).copied()
    }

    fn payload(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PAYLOAD_BYTES);
        FORMAT.begin(&mut out);
        out.push(if self.kind == FileKind::HashStore { 1 } else { 2 });
        out.push(if self.layout == Layout::Aligned { 1 } else { 2 });
        out.extend_from_slice(&(self.sections.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.file_id.to_le_bytes());
        for field in [
            self.entries,
            self.tombstones,
            self.pointers,
            self.entry_bytes,
            self.entry_bytes_equal,
            self.data_chunks,
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&self.straddle_max.to_le_bytes());
        out.extend_from_slice(&self.straddle_usual.to_le_bytes());
        out.extend_from_slice(&(self.meta.len() as u32).to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        debug_assert_eq!(out.len(), FIXED_BYTES);
        for section in &self.sections {
            out.extend_from_slice(&section.kind.code().to_le_bytes());
            out.extend_from_slice(&section.chunk.to_le_bytes());
            out.extend_from_slice(&section.bytes.to_le_bytes());
        }
        out.extend_from_slice(&self.meta);
        self.expiries.encode(&mut out);
        out
    }

    /// Writes the footer into `chunk`, which becomes chunk `number` of its file.
    pub(super) fn seal_into(&self, chunk: &mut [u8], number: u64) -> Result<()> {
        if self.meta.len() > META_BYTES_MAX || self.sections.len() > SECTIONS_MAX {
            return Err(Error::new(ErrorKind::TooLarge, "metadata of a packed file is too large"));
        }
        let payload = self.payload();
        chunk[..payload.len()].copy_from_slice(&payload);
        let trailer = Trailer { first: 0, used: payload.len() };
        chunk::seal(chunk, self.file_id, number, trailer);
        Ok(())
    }

    /// Reads the footer from the last chunk (number `number`) of the file `name`.
    pub(super) fn open(chunk: &[u8], name: &str, file_id: u64, number: u64) -> Result<Footer> {
        let at = number * CHUNK_BYTES as u64;
        let used = chunk::check(chunk, name, file_id, number)?.used;
        let bytes = FORMAT.upgraded(name, at, &chunk[..used])?;
        Self::fields(Fields(&bytes[FORMAT.prefix_bytes()..]))
            .filter(|footer| footer.is_consistent(file_id, number))
            .ok_or_else(|| Error::corruption(name, at, "impossible footer"))
    }

    /// The file id that the last chunk of a file claims, if it looks like a footer. Nobody vouches
    /// for it.
    pub(crate) fn claimed_id(chunk: &[u8]) -> Option<u64> {
        // The prefix, and kind, layout and number of sections.
        let mut fields = Fields(chunk.get(16..).filter(|_| FORMAT.begins(chunk))?);
        fields.u64()
    }

    fn fields(mut fields: Fields<'_>) -> Option<Footer> {
        let &[kind, layout, sections_low, sections_high] = fields.take(4)? else { return None };
        let mut footer = Footer {
            kind: match kind {
                1 => FileKind::HashStore,
                2 => FileKind::SortedStore,
                _ => return None,
            },
            layout: match layout {
                1 => Layout::Aligned,
                2 => Layout::Straddling,
                _ => return None,
            },
            file_id: fields.u64()?,
            entries: fields.u64()?,
            tombstones: fields.u64()?,
            pointers: fields.u64()?,
            entry_bytes: fields.u64()?,
            entry_bytes_equal: fields.u64()?,
            data_chunks: fields.u64()?,
            straddle_max: fields.u32()?,
            straddle_usual: fields.u32()?,
            sections: Vec::new(),
            meta: Vec::new(),
            expiries: Expiries::default(),
        };
        let meta_bytes = fields.u32()?;
        fields.u32()?;
        for _ in 0..u16::from_le_bytes([sections_low, sections_high]) {
            let kind = SectionKind::from_code(fields.u32()?)?;
            footer.sections.push(Section { kind, chunk: fields.u64()?, bytes: fields.u64()? });
        }
        footer.meta = fields.take(meta_bytes as usize)?.to_vec();
        footer.expiries = Expiries::decode(&mut fields)?;
        fields.0.is_empty().then_some(footer)
    }

    fn is_consistent(&self, file_id: u64, number: u64) -> bool {
        let payload = PAYLOAD_BYTES as u64;
        let mut next = self.data_chunks;
        let sections_follow = self.sections.iter().all(|section| {
            let here = section.chunk == next;
            next = next.saturating_add(section.bytes.div_ceil(payload));
            here
        });
        let sizes_add_up = self.entry_bytes_equal == 0
            || self.entry_bytes_equal.checked_mul(self.entries) == Some(self.entry_bytes);
        self.file_id == file_id
            && self.expiries.entries() <= self.entries
            && sections_follow
            && next == number
            && sizes_add_up
            && self.entry_bytes.div_ceil(payload) <= self.data_chunks
            && self.straddle_usual <= self.straddle_max
            && u64::from(self.straddle_max) <= self.data_chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_parts::expiry::{EXPIRIES_BYTES_MAX, ExpiriesBuilder, Expiring};

    /// Bytes of the expiries of a file in which nothing expires.
    const NO_EXPIRIES_BYTES: usize = 40;

    fn sample() -> Footer {
        Footer {
            kind: FileKind::SortedStore,
            file_id: 77,
            layout: Layout::Straddling,
            entries: 10,
            tombstones: 1,
            pointers: 2,
            entry_bytes: 10_000,
            entry_bytes_equal: 1000,
            data_chunks: 3,
            straddle_max: 1,
            straddle_usual: 1,
            sections: vec![
                Section { kind: SectionKind::SparseIndex, chunk: 3, bytes: 5000 },
                Section { kind: SectionKind::MissFilter, chunk: 5, bytes: 1 },
            ],
            meta: vec![1, 2, 3],
            expiries: Expiries::default(),
        }
    }

    #[test]
    fn footers_round_trip_and_sizes_are_as_documented() {
        let mut footer = sample();
        let bytes = FIXED_BYTES + 2 * SECTION_BYTES + 3 + NO_EXPIRIES_BYTES;
        assert_eq!(footer.payload().len(), bytes);
        const LARGEST: usize =
            FIXED_BYTES + SECTIONS_MAX * SECTION_BYTES + META_BYTES_MAX + EXPIRIES_BYTES_MAX;
        const { assert!(LARGEST <= PAYLOAD_BYTES) };
        let mut builder = ExpiriesBuilder::default();
        for n in 1..10 {
            builder.add(Expiring { expires_unix_ms: n, bytes: 1000, apart_bytes: n }, Some(n));
        }
        footer.expiries = builder.finish();
        let mut chunk = vec![0; CHUNK_BYTES];
        footer.seal_into(&mut chunk, 6).expect("fits");
        assert_eq!(Footer::open(&chunk, "f", 77, 6).expect("whole"), footer);
        assert!(Footer::open(&chunk, "f", 78, 6).is_err());
        footer.entries = 8;
        footer.entry_bytes = 8000;
        footer.seal_into(&mut chunk, 6).expect("fits");
        assert!(Footer::open(&chunk, "f", 77, 6).is_err(), "more expire than there are");
    }

    #[test]
    fn the_first_version_ends_before_it_says_when_entries_expire() {
        let footer = sample();
        let mut chunk = vec![0; CHUNK_BYTES];
        footer.seal_into(&mut chunk, 6).expect("fits");
        let used = footer.payload().len() - NO_EXPIRIES_BYTES;
        let cut = Trailer { first: 0, used };
        chunk::seal(&mut chunk, 77, 6, cut);
        assert!(Footer::open(&chunk, "f", 77, 6).is_err(), "the second version says it");
        chunk[8] = 1;
        chunk::seal(&mut chunk, 77, 6, cut);
        assert_eq!(Footer::open(&chunk, "f", 77, 6).expect("older"), footer);
    }

    #[test]
    fn a_newer_version_is_refused_as_unsupported() {
        let mut chunk = vec![0; CHUNK_BYTES];
        sample().seal_into(&mut chunk, 6).expect("fits");
        chunk[8] = 9;
        let used = chunk::check(&chunk, "f", 77, 6).is_err();
        assert!(used, "the checksum covers the version");
        chunk::seal(&mut chunk, 77, 6, Trailer { first: 0, used: 131 });
        let error = Footer::open(&chunk, "f", 77, 6).expect_err("newer");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn sections_that_do_not_follow_each_other_are_refused() {
        let mut footer = sample();
        footer.sections[1].chunk = 4;
        let mut chunk = vec![0; CHUNK_BYTES];
        footer.seal_into(&mut chunk, 6).expect("fits");
        assert!(Footer::open(&chunk, "f", 77, 6).is_err());
    }
}
