//! Hash stores: a full log store, written out in the order of its cuckoo table.
//!
//! A hash store is a packed file of entries in (bucket, slot) order with the empty slots squeezed
//! out. In memory stay the table's tags (the *filter*, copied, not computed) and, unless all
//! entries have one size, a map from an entry's rank to its chunk. A lookup asks the filter for
//! the ranks of the slots whose tag matches and reads one chunk for each: none for almost every
//! key that is not there. Format: docs/formats/hash-store.md.
//!
//! Invariants:
//!
//! 1. Entry number `r` of the file is the `r`-th occupied slot of the filter.
//! 2. Every entry lies in one of the two buckets of its key's hash; both are in the same block,
//!    and blocks are in hash order. So the blocks, each sorted, are the whole store in hash
//!    order: [`HashStoreStream`].
//! 3. The filter and the map are read-only copies of sections of the file, and may be dropped
//!    and loaded at any time; lookups without them read the few bytes they need from the device.

mod build;
mod stream;

#[cfg(test)]
mod tests;

pub use build::HashStoreBuilder;
pub use stream::HashStoreStream;

use crate::Hasher;
use crate::packed::{Extent, FileKind, Footer, Found, Located, PackedReader, SectionKind};
use crate::rank_map::RankMap;
use silica_base::{AlignedBuf, Biased, Error, ErrorKind, KeyHash, Result};
use silica_device::{Device, DeviceFile};
use silica_parts::cuckoo::{Geometry, TagFilter, encoded_bucket_range, match_encoded};
use silica_parts::frame::Frame;
use std::sync::Arc;

/// Matching slots of a key: at most both its buckets full of them.
const CANDIDATES_MAX: usize = 8;

/// The reads that a lookup in a hash store needs; mostly none or one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Candidates {
    extents: [Extent; CANDIDATES_MAX],
    len: usize,
}

impl Candidates {
    /// No reads.
    pub fn new() -> Self {
        Self::default()
    }

    /// This read alone.
    pub(crate) fn one(extent: Extent) -> Self {
        let mut one = Self::new();
        one.add(extent);
        one
    }

    /// Puts a read in the place of number `index`.
    pub(crate) fn replace(&mut self, index: usize, extent: Extent) {
        self.extents[index] = extent;
    }

    /// Forgets all reads.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The reads.
    pub fn extents(&self) -> &[Extent] {
        &self.extents[..self.len]
    }

    /// Adds a read, unless one of the same chunk is there already.
    fn add(&mut self, extent: Extent) {
        let there = self.extents[..self.len].iter_mut().find(|e| e.chunk == extent.chunk);
        if let Some(there) = there {
            *there = there.union(extent);
        } else if self.len < CANDIDATES_MAX {
            self.extents[self.len] = extent;
            self.len += 1;
        }
    }
}

/// What a hash store keeps in memory.
pub(crate) struct HashIndex {
    filter: TagFilter,
    /// `None` where all entries have the same size and a rank tells the place.
    ranks: Option<RankMap>,
}

/// An immutable store of one converted log store.
pub struct HashStore<F> {
    reader: Arc<PackedReader<F>>,
    geometry: Geometry,
    hasher: Hasher,
    index: Biased<Option<Arc<HashIndex>>>,
}

const META_BYTES: usize = 16;

fn encode_meta(geometry: &Geometry) -> Vec<u8> {
    [geometry.skip_bits, geometry.blocks, geometry.block_buckets_log2, geometry.tag_bits]
        .iter()
        .flat_map(|field| field.to_le_bytes())
        .collect()
}

fn decode_meta(meta: &[u8]) -> Option<Geometry> {
    if meta.len() != META_BYTES {
        return None;
    }
    let field = |i: usize| Some(u32::from_le_bytes(meta.get(4 * i..4 * i + 4)?.try_into().ok()?));
    Geometry::new(field(0)?, field(1)?, field(2)?, field(3)?).ok()
}

impl<F: DeviceFile> HashStore<F> {
    /// Opens the file `name`, whose id the manifest says is `file_id`. Reads the footer alone:
    /// lookups work at once, and take one read more or two until [`HashStore::load_index`].
    pub fn open<D: Device<File = F>>(
        device: &D,
        name: &str,
        file_id: u64,
        hasher: Hasher,
    ) -> Result<Self> {
        let reader = PackedReader::open(device, name, file_id)?;
        let footer = reader.footer();
        let slots_fit = u32::try_from(footer.entries).is_ok();
        let geometry = decode_meta(&footer.meta)
            .filter(|_| footer.kind == FileKind::HashStore && slots_fit)
            .ok_or_else(|| Error::corruption(name, reader.file_bytes(), "not a hash store"))?;
        Ok(HashStore { reader: Arc::new(reader), geometry, hasher, index: Biased::new(None) })
    }

    /// The file.
    pub fn reader(&self) -> &Arc<PackedReader<F>> {
        &self.reader
    }

    /// What the file is: counts and sizes.
    pub fn footer(&self) -> &Footer {
        self.reader.footer()
    }

    /// The shape of the table that the store was made of.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// True while gets write nothing of the lock.
    #[cfg(test)]
    pub(crate) fn is_biased(&self) -> bool {
        self.index.is_biased()
    }

    fn index(&self) -> Option<Arc<HashIndex>> {
        self.index.read().clone()
    }

    /// Reads filter and map into memory, unless they are there.
    pub fn load_index(&self) -> Result<()> {
        if self.index().is_some() {
            return Ok(());
        }
        let bytes =
            self.reader.section(SectionKind::TagFilter)?.ok_or_else(|| self.no_section())?;
        let filter = TagFilter::decode(&bytes).map_err(|e| e.within(self.reader.name()))?;
        if *filter.geometry() != self.geometry || u64::from(filter.len()) != self.footer().entries {
            return Err(self.disagrees("the filter is of another table"));
        }
        let ranks = match self.footer().entry_bytes_equal {
            0 => Some(self.read_ranks()?),
            _ => None,
        };
        let index = Arc::new(HashIndex { filter, ranks });
        *self.index.write() = Some(index);
        Ok(())
    }

    fn read_ranks(&self) -> Result<RankMap> {
        let bytes =
            self.reader.section(SectionKind::ChunkRanks)?.ok_or_else(|| self.no_section())?;
        let ranks = RankMap::decode(&bytes).map_err(|e| e.within(self.reader.name()))?;
        if ranks.chunks() > self.footer().data_chunks {
            return Err(self.disagrees("the map is of another file"));
        }
        Ok(ranks)
    }

    fn no_section(&self) -> Error {
        self.disagrees("a section is missing")
    }

    fn disagrees(&self, detail: &str) -> Error {
        Error::corruption(self.reader.name(), self.reader.file_bytes(), detail)
    }

    /// Drops filter and map from memory.
    pub fn drop_index(&self) {
        *self.index.write() = None;
    }

    /// True where filter and map are in memory.
    pub fn is_index_loaded(&self) -> bool {
        self.index().is_some()
    }

    /// Bytes of memory that filter and map take now.
    pub fn index_bytes(&self) -> usize {
        self.index().map_or(0, |index| {
            index.filter.bytes() + index.ranks.as_ref().map_or(0, RankMap::bytes)
        })
    }

    /// Asks the processor for the filter's bytes about `h`.
    #[inline]
    pub fn prefetch(&self, h: KeyHash) {
        if let Some(index) = &*self.index.read() {
            index.filter.prefetch(h);
        }
    }

    /// First half of a lookup: the reads it needs. With the index dropped this itself reads;
    /// returns how often (a map of ranks counts as one read).
    #[inline]
    pub fn candidates(&self, h: KeyHash, out: &mut Candidates) -> Result<u64> {
        if self.candidates_in_memory(h, out)? {
            return Ok(0);
        }
        self.candidates_from_device(h, out)
    }

    /// As [`HashStore::candidates`], but false if that would have to read the device.
    #[inline]
    pub(crate) fn candidates_in_memory(&self, h: KeyHash, out: &mut Candidates) -> Result<bool> {
        out.clear();
        let guard = self.index.read();
        let Some(index) = &*guard else { return Ok(false) };
        for rank in index.filter.candidates(h) {
            out.add(self.extent(u64::from(rank), index.ranks.as_ref())?);
        }
        Ok(true)
    }

    fn extent(&self, rank: u64, ranks: Option<&RankMap>) -> Result<Extent> {
        if let Some(extent) = self.reader.extent_of_rank(rank) {
            return Ok(extent);
        }
        let chunk = ranks.filter(|_| rank < self.footer().entries).map(|r| r.chunk(rank));
        let chunk = chunk.filter(|chunk| *chunk < self.footer().data_chunks);
        chunk.map(|c| self.reader.extent(c)).ok_or_else(|| self.disagrees("a rank is too high"))
    }

    fn candidates_from_device(&self, h: KeyHash, out: &mut Candidates) -> Result<u64> {
        let (tag, first) = (self.geometry.tag(h), self.geometry.bucket(h));
        let buckets = [first, self.geometry.alternative(first, tag)];
        let parts = buckets.map(|bucket| encoded_bucket_range(&self.geometry, bucket));
        // Both are in one block of the table, so one read of a few chunks covers them.
        let start = parts[0].start.min(parts[1].start);
        let end = parts[0].end.max(parts[1].end);
        let bytes = self.reader.section_range(SectionKind::TagFilter, start..end)?;
        let bytes = bytes.ok_or_else(|| self.no_section())?;
        let mut ranks = Vec::new();
        for (bucket, part) in buckets.into_iter().zip(parts) {
            let part = &bytes[(part.start - start) as usize..(part.end - start) as usize];
            ranks.extend(match_encoded(&self.geometry, part, bucket, tag));
        }
        if ranks.is_empty() {
            return Ok(1);
        }
        let map = match self.footer().entry_bytes_equal {
            0 => Some(self.read_ranks()?),
            _ => None,
        };
        for rank in ranks {
            out.add(self.extent(u64::from(rank), map.as_ref())?);
        }
        Ok(1 + u64::from(map.is_some()))
    }

    /// Second half of a lookup: searches `buf`, the bytes of one of the extents, for `key`. May
    /// move bytes in `buf`: a buffer is searched once.
    #[inline]
    pub fn find<'a>(&self, buf: &'a mut [u8], extent: Extent, key: &[u8]) -> Result<Found<'a>> {
        self.reader.find(buf, extent, key)
    }

    /// Both halves, reading one extent after the other into `buf`.
    pub fn lookup<'a>(
        &self,
        h: KeyHash,
        key: &[u8],
        buf: &'a mut AlignedBuf,
    ) -> Result<Option<Frame<'a>>> {
        let mut candidates = Candidates::new();
        self.candidates(h, &mut candidates)?;
        for &extent in candidates.extents() {
            let mut extent = extent;
            loop {
                self.reader.read(extent, buf)?;
                match self.reader.locate(buf, extent, key, |_| false)? {
                    Located::At(range) => return Ok(Frame::decode(&buf[range]).map(|f| f.0)),
                    Located::Absent => break,
                    Located::More(wider) => extent = wider,
                }
            }
        }
        Ok(None)
    }

    /// The entries from the hash `start` on, in hash order. Memory: one block of the table and
    /// a read-ahead buffer of `read_ahead_bytes`.
    pub fn stream(&self, start: KeyHash, read_ahead_bytes: usize) -> Result<HashStoreStream<F>> {
        let chunk = self.index().and_then(|index| self.chunk_of_block(&index, start));
        HashStoreStream::new(self, start, chunk, read_ahead_bytes)
    }

    /// The chunk where the block of `start` begins.
    fn chunk_of_block(&self, index: &HashIndex, start: KeyHash) -> Option<u64> {
        let buckets = self.geometry.buckets_of_block(self.geometry.block_of(start));
        let rank = u64::from(index.filter.rank_of_bucket(buckets.start));
        if rank >= self.footer().entries {
            return Some(self.footer().data_chunks);
        }
        self.extent(rank, index.ranks.as_ref()).ok().map(|extent| extent.chunk)
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
        index.filter.verify().map_err(|e| e.within(self.reader.name()))?;
        let mut scan = self.reader.scan(0, crate::packed::READ_AHEAD_BYTES);
        let slots = index.filter.occupied_in(0..self.geometry.buckets());
        for (rank, (slot, tag)) in slots.enumerate() {
            if !scan.advance()? {
                return Err(self.disagrees("fewer entries than the filter says"));
            }
            let h = self.hasher.hash(scan.key());
            let (first, bucket) = (self.geometry.bucket(h), slot / 4);
            let belongs = self.geometry.tag(h) == tag
                && (bucket == first || bucket == self.geometry.alternative(first, tag));
            let extent = self.extent(rank as u64, index.ranks.as_ref())?;
            if !belongs || extent.chunk != scan.chunk() {
                let at = scan.chunk() * crate::packed::CHUNK_BYTES as u64;
                let detail = format!("entry {rank} is not the one of slot {slot}");
                return Err(Error::corruption(self.reader.name(), at, detail));
            }
        }
        if scan.advance()? {
            return Err(self.disagrees("more entries than the filter says"));
        }
        Ok(())
    }
}
