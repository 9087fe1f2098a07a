//! Sorted stores: the bulk of a partition's entries, in hash order.
//!
//! A sorted store is a packed file in the order of (hash, key) with an entropy-coded trie in
//! memory. The *sparse* trie knows which chunk a hash is in and serves entries of any size; the
//! *dense* trie knows the rank, which for entries of one size is the exact place. Without a trie
//! the chunk is found by interpolation: one to three reads. Format: docs/formats/sorted-store.md.
//!
//! Invariants:
//!
//! 1. Entries ascend strictly by (hash, key).
//! 2. The trie indexes *positions*: the 64 bits of the hash behind those that chose the
//!    partition. Different keys may share one; the sparse trie then gives the earliest of its
//!    chunks and a lookup goes on behind it. A dense trie exists only where no two do.
//! 3. A miss filter never rejects a key that is there.
//! 4. Trie and filter can be made from the entries alone, and may be dropped and loaded at any
//!    time.

mod build;
mod index;
mod miss_filter;
mod stream;

#[cfg(test)]
mod tests;

pub use build::{IndexRebuild, SortedStoreBuilder, SortedStoreOptions};
pub use index::IndexKind;
pub use stream::SortedStoreStream;

use crate::Hasher;
use crate::packed::{Extent, FileKind, Footer, Found, Located, PackedReader, SectionKind};
use index::{SortedIndex, Trie};
use miss_filter::MissFilter;
use silica_base::{AlignedBuf, Biased, Error, ErrorKind, KeyHash, Result};
use silica_device::{Device, DeviceFile};
use silica_parts::ect::{DenseIndex, SparseIndex};
use silica_parts::frame::Frame;
use std::sync::Arc;

/// How a lookup goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// The key is not in the store.
    Absent,
    /// Read this and call [`SortedStore::find`].
    Read(Extent),
    /// No trie is in memory: call [`SortedStore::lookup`].
    Search,
}

/// An immutable store in hash order.
pub struct SortedStore<F> {
    reader: Arc<PackedReader<F>>,
    hasher: Hasher,
    partition_bits: u32,
    index: Biased<Option<Arc<SortedIndex>>>,
}

const META_BYTES: usize = 4;

/// The bits of `h` behind those that chose the partition.
#[inline]
fn position(h: KeyHash, partition_bits: u32) -> u64 {
    h.high().checked_shl(partition_bits).unwrap_or(0)
}

impl<F: DeviceFile> SortedStore<F> {
    /// Opens the file `name`, whose id the manifest says is `file_id`. Reads the footer alone:
    /// lookups work at once, and search until [`SortedStore::load_index`].
    pub fn open<D: Device<File = F>>(
        device: &D,
        name: &str,
        file_id: u64,
        hasher: Hasher,
    ) -> Result<Self> {
        let reader = PackedReader::open(device, name, file_id)?;
        let footer = reader.footer();
        let meta: Option<[u8; META_BYTES]> = footer.meta.as_slice().try_into().ok();
        let partition_bits = meta
            .map(u32::from_le_bytes)
            .filter(|bits| *bits <= 32 && footer.kind == FileKind::SortedStore)
            .ok_or_else(|| Error::corruption(name, reader.file_bytes(), "not a sorted store"))?;
        Ok(SortedStore {
            reader: Arc::new(reader),
            hasher,
            partition_bits,
            index: Biased::new(None),
        })
    }

    /// The file.
    pub fn reader(&self) -> &Arc<PackedReader<F>> {
        &self.reader
    }

    /// What the file is: counts and sizes.
    pub fn footer(&self) -> &Footer {
        self.reader.footer()
    }

    /// True while gets write nothing of the lock.
    #[cfg(test)]
    pub(crate) fn is_biased(&self) -> bool {
        self.index.is_biased()
    }

    fn index(&self) -> Option<Arc<SortedIndex>> {
        self.index.read().clone()
    }

    fn set_index(&self, index: Option<Arc<SortedIndex>>) {
        *self.index.write() = index;
    }

    fn disagrees(&self, detail: &str) -> Error {
        Error::corruption(self.reader.name(), self.reader.file_bytes(), detail)
    }

    /// Reads the trie into memory, unless it is there.
    pub fn load_trie(&self) -> Result<()> {
        if self.index().is_some() {
            return Ok(());
        }
        let within = |e: Error| e.within(self.reader.name());
        let trie = if let Some(bytes) = self.reader.section(SectionKind::DenseIndex)? {
            let index = DenseIndex::decode(&bytes).map_err(within)?;
            if index.len() != self.footer().entries || self.footer().entry_bytes_equal == 0 {
                return Err(self.disagrees("the dense index is of another file"));
            }
            Trie::Dense(index)
        } else if let Some(bytes) = self.reader.section(SectionKind::SparseIndex)? {
            let index = SparseIndex::decode(&bytes).map_err(within)?;
            if index.chunks() > self.footer().data_chunks.max(1) {
                return Err(self.disagrees("the sparse index is of another file"));
            }
            Trie::Sparse(index)
        } else {
            return Err(self.disagrees("a section is missing"));
        };
        self.set_index(Some(Arc::new(SortedIndex::new(trie, None))));
        Ok(())
    }

    /// Reads the filter into memory, if the store has one and the trie is there.
    pub fn load_filter(&self) -> Result<()> {
        let Some(index) = self.index().filter(|index| index.filter.is_none()) else {
            return Ok(());
        };
        if let Some(bytes) = self.reader.section(SectionKind::MissFilter)? {
            let filter = MissFilter::decode(&bytes).map_err(|e| e.within(self.reader.name()))?;
            let filter = Some(Arc::new(filter));
            self.set_index(Some(Arc::new(SortedIndex { filter, ..SortedIndex::clone(&index) })));
        }
        Ok(())
    }

    /// Drops the filter from memory; the trie stays.
    pub fn drop_filter(&self) {
        if let Some(index) = self.index() {
            let trie = index.trie.clone();
            self.set_index(Some(Arc::new(SortedIndex { trie, filter: None })));
        }
    }

    /// Reads trie and filter into memory, unless they are there.
    pub fn load_index(&self) -> Result<()> {
        self.load_trie()?;
        self.load_filter()
    }

    /// Drops trie and filter from memory.
    pub fn drop_index(&self) {
        self.set_index(None);
    }

    /// True where the trie is in memory.
    pub fn is_index_loaded(&self) -> bool {
        self.index().is_some()
    }

    /// The kind of trie in memory.
    pub fn index_kind(&self) -> Option<IndexKind> {
        self.index().map(|index| index.trie.kind())
    }

    /// Bytes of memory that trie and filter take now.
    pub fn index_bytes(&self) -> usize {
        self.index().map_or(0, |index| index.bytes())
    }

    /// Bytes of memory that the filter takes now.
    pub fn filter_bytes(&self) -> usize {
        self.index().and_then(|index| index.filter.as_ref().map(|f| f.bytes())).unwrap_or(0)
    }

    /// First half of a lookup.
    #[inline]
    pub fn plan(&self, h: KeyHash) -> Plan {
        let data_chunks = self.footer().data_chunks;
        if data_chunks == 0 {
            return Plan::Absent;
        }
        let guard = self.index.read();
        let Some(index) = &*guard else { return Plan::Search };
        let position = position(h, self.partition_bits);
        if index.filter.as_ref().is_some_and(|filter| !filter.may_contain(position)) {
            return Plan::Absent;
        }
        match &*index.trie {
            Trie::Sparse(sparse) => {
                Plan::Read(self.reader.extent(sparse.chunk(position).min(data_chunks - 1)))
            }
            Trie::Dense(dense) => {
                self.reader.extent_of_rank(dense.rank(position)).map_or(Plan::Absent, Plan::Read)
            }
        }
    }

    /// Second half of a lookup: searches `buf`, the bytes of `extent`, for `key` with hash `h`.
    /// May move bytes in `buf`: a buffer is searched once.
    #[inline]
    pub fn find<'a>(
        &self,
        buf: &'a mut [u8],
        extent: Extent,
        h: KeyHash,
        key: &[u8],
    ) -> Result<Found<'a>> {
        let located = self.locate(buf, extent, h, key)?;
        self.reader.found(buf, extent, located)
    }

    fn locate(&self, buf: &mut [u8], extent: Extent, h: KeyHash, key: &[u8]) -> Result<Located> {
        let wanted = position(h, self.partition_bits);
        self.reader.locate(buf, extent, key, |last| {
            position(self.hasher.hash(last), self.partition_bits) == wanted
        })
    }

    /// A whole lookup, one read after the other into `buf`; works without a trie too.
    pub fn lookup<'a>(
        &self,
        h: KeyHash,
        key: &[u8],
        buf: &'a mut AlignedBuf,
    ) -> Result<Option<Frame<'a>>> {
        let mut extent = match self.plan(h) {
            Plan::Absent => return Ok(None),
            Plan::Search => return self.search(h, key, buf),
            Plan::Read(extent) => extent,
        };
        loop {
            self.reader.read(extent, buf)?;
            match self.locate(buf, extent, h, key)? {
                Located::At(range) => return Ok(Frame::decode(&buf[range]).map(|f| f.0)),
                Located::Absent => return Ok(None),
                Located::More(next) => extent = next,
            }
        }
    }

    /// First and last hash of the partition that `h` is in.
    fn bounds(&self, h: KeyHash) -> (u128, u128) {
        let inside = u128::MAX.checked_shr(self.partition_bits).unwrap_or(0);
        (h.0 & !inside, h.0 | inside)
    }

    fn search<'a>(
        &self,
        h: KeyHash,
        key: &[u8],
        buf: &'a mut AlignedBuf,
    ) -> Result<Option<Frame<'a>>> {
        let mut scan = self.reader.scan(0, 0);
        scan.seek(h.0, self.bounds(h), |key| self.hasher.hash(key).0)?;
        while scan.advance()? {
            let here = self.hasher.hash(scan.key());
            if here > h {
                break;
            }
            if here == h && scan.key() == key {
                let frame = scan.frame_bytes();
                buf.resize(frame.len());
                buf.copy_from_slice(frame);
                return Ok(Frame::decode(buf).map(|f| f.0));
            }
        }
        Ok(None)
    }

    /// The entries from the hash `start` on, in hash order. Memory: a read-ahead buffer of
    /// `read_ahead_bytes`.
    pub fn stream(&self, start: KeyHash, read_ahead_bytes: usize) -> Result<SortedStoreStream<F>> {
        SortedStoreStream::new(self, start, read_ahead_bytes)
    }

    /// Starts to make a trie of `kind` from the entries; the data stays as it is. The new trie
    /// lives in memory: a later load gives the stored one again.
    pub fn rebuild_index(&self, kind: IndexKind, options: SortedStoreOptions) -> IndexRebuild<F> {
        IndexRebuild::new(self, kind, options)
    }

    /// Reads the whole file and checks every invariant above.
    pub fn verify(&self) -> Result<()> {
        self.reader.verify_sections()?;
        let loaded = self.is_index_loaded();
        self.load_index()?;
        let index = self.index().ok_or_else(|| Error::new(ErrorKind::Closed, "index dropped"))?;
        if !loaded {
            self.drop_index();
        }
        let mut scan = self.reader.scan(0, crate::packed::READ_AHEAD_BYTES);
        let mut before: Option<(KeyHash, Vec<u8>)> = None;
        let mut rank = 0;
        while scan.advance()? {
            let h = self.hasher.hash(scan.key());
            let damaged = |detail: &str| {
                let detail = format!("entry {rank}: {detail}");
                Err(Error::corruption(self.reader.name(), scan.offset(), detail))
            };
            if before.as_ref().is_some_and(|b| (b.0, b.1.as_slice()) >= (h, scan.key())) {
                return damaged("not in hash order");
            }
            let here = position(h, self.partition_bits);
            if index.filter.as_ref().is_some_and(|filter| !filter.may_contain(here)) {
                return damaged("rejected by the miss filter");
            }
            let tied = before.as_ref().is_some_and(|b| position(b.0, self.partition_bits) == here);
            let found = match &*index.trie {
                Trie::Dense(dense) => dense.rank(here) == rank,
                Trie::Sparse(sparse) => tied || sparse.chunk(here) == scan.chunk(),
            };
            if !found {
                return damaged("not where the index says");
            }
            rank += 1;
            let (hash, key) = before.get_or_insert_with(|| (h, Vec::new()));
            *hash = h;
            key.clear();
            key.extend_from_slice(scan.key());
        }
        if rank != self.footer().entries {
            return Err(self.disagrees("the footer says another number of entries"));
        }
        Ok(())
    }
}
