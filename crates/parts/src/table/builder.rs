//! Writing a table front to back with bounded memory.

use super::block::{BlockBuilder, VERSION_OVERHEAD_MAX};
use super::compression::{Compression, Decoder, Encoder, SAMPLE_BYTES};
use super::extent::{self, Form, TRAILER_BYTES, UNIT_BYTES, units_for};
use super::footer::Footer;
use super::index::{Index, IndexBuilder};
use super::sample::{KeySample, SampleBuilder};
use super::{Table, Version};
use crate::expiry::{Expiries, ExpiriesBuilder, Expiring};
use crate::frame::{POINTER, TOMBSTONE};
use crate::{BlockCache, BlockId, Buffers, FuseFilter, WriteBehind};
use silica_base::{AlignedBuf, Error, ErrorKind, HashSeed, Result};
use silica_device::{Device, DeviceFile, Lifetime, Mode};
use std::sync::Arc;

/// Bytes collected before a write.
const BUFFER_BYTES: usize = 256 << 10;
/// A buffer gets all of its memory once one part in so many is filled: most tables are either
/// smaller or much longer.
const GROWN_PART: usize = 8;
/// A block of less than so many units grows where it would end with more than an eighth unused.
const UNITS_MAX: usize = 8;
const UNUSED_PART_MAX: usize = 8;

/// How a table is written.
#[derive(Debug, Clone, Copy)]
pub struct TableOptions {
    /// Bytes of a block at least, as far as there are versions for it; a multiple of 4096.
    pub block_bytes: usize,
    /// At most every sequence number but 0.
    pub sequence_base: u64,
    /// Bits of a place of the filter, at most [`crate::BITS_MAX`]; 0 for a table without one.
    pub filter_bits: u32,
    /// How blocks are compressed.
    pub compression: Compression,
    /// What keys are hashed under for the filter.
    pub seed: HashSeed,
    /// How long the table will be there.
    pub lifetime: Lifetime,
}

/// Writes one table. After an error the builder is of no more use: drop it and remove the file.
pub struct TableBuilder<F: DeviceFile> {
    file: WriteBehind<F>,
    name: String,
    footer: Footer,
    units_min: usize,
    block: BlockBuilder,
    encoder: Encoder,
    /// Blocks that wait for a dictionary, one after the other, and their lengths.
    samples: Vec<u8>,
    sample_lens: Vec<usize>,
    dictionary: Vec<u8>,
    index: IndexBuilder,
    filter_bits: u32,
    seed: HashSeed,
    /// Of all keys, where there will be a filter.
    hashes: Vec<u64>,
    sample: SampleBuilder,
    expiries: ExpiriesBuilder,
    /// The hash of the key that was added last, where that was with its first version.
    new_key: Option<u64>,
    buf: AlignedBuf,
    /// Bytes of `buf` that are filled.
    filled: usize,
    /// Units that were written before those in `buf`.
    units_written: u64,
    last_key: Vec<u8>,
    last_sequence: u64,
    /// What blocks go into, too.
    cache: Option<Arc<BlockCache>>,
    /// Where buffers come from and go to.
    buffers: Option<Arc<Buffers>>,
}

impl<F: DeviceFile> TableBuilder<F> {
    /// Bytes of the buffers that [`TableBuilder::with_buffers`] keeps.
    pub const BUFFER_BYTES: usize = BUFFER_BYTES;

    /// Creates the file `name`, which must not exist.
    pub fn create<D: Device<File = F>>(
        device: &D,
        name: &str,
        file_id: u64,
        options: &TableOptions,
    ) -> Result<Self> {
        let sequence_base = options.sequence_base;
        let file = device.create(name, Mode::Direct)?.with_lifetime(options.lifetime);
        Ok(TableBuilder {
            file: WriteBehind::new(file),
            name: name.to_owned(),
            footer: Footer { file_id, sequence_base, sequence_min: u64::MAX, ..Footer::default() },
            units_min: (options.block_bytes / UNIT_BYTES).max(1),
            block: BlockBuilder::new(sequence_base),
            encoder: Encoder::new(options.compression),
            samples: Vec::new(),
            sample_lens: Vec::new(),
            dictionary: Vec::new(),
            index: IndexBuilder::default(),
            filter_bits: options.filter_bits,
            seed: options.seed,
            hashes: Vec::new(),
            sample: SampleBuilder::default(),
            expiries: ExpiriesBuilder::default(),
            new_key: None,
            buf: AlignedBuf::zeroed(0),
            filled: 0,
            units_written: 0,
            last_key: Vec::new(),
            last_sequence: 0,
            cache: None,
            buffers: None,
        })
    }

    /// This builder, whose blocks go into `cache`, too, as far as it has room.
    pub fn through(self, cache: &Arc<BlockCache>) -> Self {
        TableBuilder { cache: Some(Arc::clone(cache)), ..self }
    }

    /// This builder, which takes its buffers from `buffers` and gives them back.
    pub fn with_buffers(self, buffers: &Arc<Buffers>) -> Self {
        TableBuilder { buffers: Some(Arc::clone(buffers)), ..self }
    }

    /// Versions added so far.
    pub fn versions(&self) -> u64 {
        self.footer.versions
    }

    /// Bytes of the file so far, without the block being filled.
    pub fn bytes(&self) -> u64 {
        self.units() * UNIT_BYTES as u64
    }

    /// True where the next versions may have to wait for the device: the buffer is nearly full, and
    /// the one before is not written yet.
    #[inline]
    pub fn would_wait(&self) -> bool {
        self.filled + UNITS_MAX * UNIT_BYTES >= BUFFER_BYTES && self.file.would_wait()
    }

    fn units(&self) -> u64 {
        self.units_written + (self.filled / UNIT_BYTES) as u64
    }

    /// Adds a version, which must come after all before: keys ascending, of one key the newest
    /// first.
    ///
    /// # Panics
    /// Where it does not.
    pub fn add(&mut self, version: &Version<'_>) -> Result<()> {
        let is_first = self.footer.versions == 0;
        let last = self.last_key[..].cmp(version.key);
        let order = last.then(version.sequence.cmp(&self.last_sequence));
        assert!(is_first || order.is_lt(), "versions come in order");
        if !self.block.is_empty() && self.ends_before(version) {
            self.end_block()?;
        }
        if self.block.is_empty() {
            self.index.begin((!is_first).then_some(&self.last_key[..]), version.key);
        }
        let is_new = is_first || last.is_lt();
        self.new_key = is_new.then(|| self.seed.low(version.key));
        self.new_key.into_iter().for_each(|hash| self.note_key(hash));
        self.block.push(version);
        self.count(version);
        version.key.clone_into(&mut self.last_key);
        self.last_sequence = version.sequence;
        Ok(())
    }

    #[inline]
    fn note_key(&mut self, hash: u64) {
        if self.filter_bits > 0 {
            self.hashes.push(hash);
        }
        self.sample.add(hash);
    }

    /// The lower half of the hash of the key that was added last, where that was with its first
    /// version.
    #[inline]
    pub fn new_key(&self) -> Option<u64> {
        self.new_key
    }

    fn count(&mut self, version: &Version<'_>) {
        let footer = &mut self.footer;
        footer.versions += 1;
        footer.tombstones += u64::from(version.flags & TOMBSTONE != 0);
        footer.pointers += u64::from(version.flags & POINTER != 0);
        footer.key_bytes += version.key.len() as u64;
        footer.value_bytes += version.value.len() as u64;
        footer.sequence_min = footer.sequence_min.min(version.sequence);
        footer.sequence_max = footer.sequence_max.max(version.sequence);
        if version.expires_unix_ms != 0 {
            self.count_expiring(version);
        }
    }

    #[cold]
    fn count_expiring(&mut self, version: &Version<'_>) {
        let bytes = (version.key.len() + version.value.len()) as u64;
        let Version { expires_unix_ms, flags, value, .. } = *version;
        self.expiries.add(Expiring::new(expires_unix_ms, bytes, flags, value), self.new_key);
    }

    /// True where the block is better written as it is.
    fn ends_before(&self, version: &Version<'_>) -> bool {
        let room = self.units_min * UNIT_BYTES - TRAILER_BYTES;
        let (now, target) = (self.block.len(), self.encoder.target(room));
        // Most fit in any case, and need not be measured.
        let at_most = now + VERSION_OVERHEAD_MAX + version.key.len() + version.value.len();
        if at_most <= target && self.block.has_room() {
            return false;
        }
        let then = self.block.len_with(version);
        if target > room {
            return then > target || !self.block.has_room();
        }
        let (units, units_then) = (units_for(now), units_for(then));
        if !self.block.has_room() {
            return true;
        }
        if units_then <= units.max(self.units_min) {
            return false;
        }
        let unused = units * UNIT_BYTES - TRAILER_BYTES - now;
        units_then > UNITS_MAX.max(self.units_min) || unused <= units * UNIT_BYTES / UNUSED_PART_MAX
    }

    fn end_block(&mut self) -> Result<()> {
        let bytes = self.block.finish();
        if self.encoder.needs_samples() {
            self.samples.extend_from_slice(&bytes);
            self.sample_lens.push(bytes.len());
            if self.samples.len() >= SAMPLE_BYTES {
                self.end_samples()?;
            }
        } else {
            self.write_block(&bytes)?;
        }
        self.block.recycle(bytes);
        Ok(())
    }

    /// Makes a dictionary of the blocks that wait for one, and writes them.
    fn end_samples(&mut self) -> Result<()> {
        let samples = std::mem::take(&mut self.samples);
        let lens = std::mem::take(&mut self.sample_lens);
        self.dictionary = self.encoder.train(&samples, &lens);
        let mut rest = &samples[..];
        for len in lens {
            let (block, others) = rest.split_at(len);
            self.write_block(block)?;
            rest = others;
        }
        Ok(())
    }

    /// Writes a block, compressed where that saves a unit.
    fn write_block(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(cache) = &self.cache {
            let (file, block) = (self.footer.file_id, self.index.ended() as u32);
            cache.insert_written(BlockId { file, block }, bytes);
        }
        let mut encoder = std::mem::replace(&mut self.encoder, Encoder::new(Compression::None));
        let encoded = encoder.encode(bytes);
        let units = match encoded.filter(|(_, e)| units_for(e.len()) < units_for(bytes.len())) {
            Some((codec, encoded)) => {
                self.write_extent(encoded, Form { plain: bytes.len() as u32, codec })
            }
            None => self.write_extent(bytes, Form::default()),
        };
        self.encoder = encoder;
        self.index.end(units?);
        Ok(())
    }

    /// Writes bytes as an extent of its own; its units.
    fn write_extent(&mut self, bytes: &[u8], form: Form) -> Result<u32> {
        let units = units_for(bytes.len());
        let (file_id, offset) = (self.footer.file_id, self.bytes());
        let extent = self.next_extent(units);
        extent[..bytes.len()].copy_from_slice(bytes);
        extent::seal(extent, file_id, offset, bytes.len(), form);
        if self.filled >= BUFFER_BYTES {
            self.write_buffer()?;
        }
        u32::try_from(units).map_err(|_| self.too_large())
    }

    /// Room for another extent in the buffer.
    fn next_extent(&mut self, units: usize) -> &mut [u8] {
        let start = self.filled;
        self.filled += units * UNIT_BYTES;
        if self.buf.capacity() == 0
            && let Some(buffers) = &self.buffers
        {
            self.buf = buffers.take();
        }
        let is_long = self.filled > BUFFER_BYTES / GROWN_PART;
        if is_long && self.buf.capacity() < BUFFER_BYTES {
            self.buf.resize(BUFFER_BYTES);
        }
        if self.buf.len() < self.filled {
            self.buf.resize(self.filled);
        }
        &mut self.buf[start..self.filled]
    }

    fn write_buffer(&mut self) -> Result<()> {
        let offset = self.units_written * UNIT_BYTES as u64;
        let mut full = std::mem::replace(&mut self.buf, AlignedBuf::zeroed(0));
        full.resize(self.filled);
        self.buf = self.file.write(offset, full)?;
        self.units_written = self.units();
        self.filled = 0;
        Ok(())
    }

    fn too_large(&self) -> Error {
        let context = format!("{}: a table has at most 16 TiB", self.name);
        Error::new(ErrorKind::TooLarge, context)
    }

    /// Writes index, filter and footer, and waits until the file is durable. The caller syncs the
    /// directory and then names the file in the manifest.
    ///
    /// # Panics
    /// Where no version was added.
    pub fn finish(self) -> Result<Table<F>> {
        self.end()?.finish()
    }

    /// Finishes the table by a transfer that goes on by itself from when all is known that there is
    /// to write.
    ///
    /// # Panics
    /// Where no version was added.
    pub fn end(mut self) -> Result<EndingTable<F>> {
        assert!(self.footer.versions > 0, "a table has versions");
        self.end_block()?;
        if !self.samples.is_empty() {
            self.end_samples()?;
        }
        self.footer.block_units = u32::try_from(self.units()).map_err(|_| self.too_large())?;
        let section = self.index.finish();
        let index = Index::decode(&section).ok_or_else(|| self.too_large())?;
        self.footer.index_units = self.write_extent(&section, Form::default())?;
        let filter = (self.filter_bits > 0)
            .then(|| FuseFilter::new(&mut std::mem::take(&mut self.hashes), self.filter_bits));
        if let Some(filter) = &filter {
            self.footer.filter_units = self.write_extent(&filter.encode(), Form::default())?;
        }
        let mut decoder = Decoder::default();
        if !self.dictionary.is_empty() {
            let dictionary = std::mem::take(&mut self.dictionary);
            self.footer.dictionary_units = self.write_extent(&dictionary, Form::default())?;
            decoder = Decoder::new(&dictionary).ok_or_else(|| {
                Error::new(ErrorKind::Io, format!("{}: no memory for a dictionary", self.name))
            })?;
        }
        let number = self.units();
        let footer = self.footer;
        let expiries = std::mem::take(&mut self.expiries).finish();
        footer.seal_into(&expiries, self.next_extent(1), number);
        let offset = self.units_written * UNIT_BYTES as u64;
        self.buf.resize(self.filled);
        let spare = self.file.write_last(offset, self.buf)?;
        if let (Some(buffers), Some(spare)) = (&self.buffers, spare) {
            buffers.give(spare);
        }
        Ok(EndingTable {
            file: self.file,
            name: self.name,
            bytes: (number + 1) * UNIT_BYTES as u64,
            footer,
            index,
            filter,
            decoder,
            sample: self.sample.finish(),
            expiries,
            buffers: self.buffers,
        })
    }
}

/// A table all of which is on its way to the device. Who drops it waits for that, and is to remove
/// the file.
pub struct EndingTable<F: DeviceFile> {
    file: WriteBehind<F>,
    name: String,
    bytes: u64,
    footer: Footer,
    index: Index,
    filter: Option<FuseFilter>,
    decoder: Decoder,
    sample: KeySample,
    expiries: Expiries,
    buffers: Option<Arc<Buffers>>,
}

impl<F: DeviceFile> EndingTable<F> {
    /// True where [`EndingTable::finish`] would wait for the device.
    pub fn would_wait(&self) -> bool {
        self.file.would_wait()
    }

    /// The table, once it is durable.
    pub fn finish(self) -> Result<Table<F>> {
        let EndingTable { name, bytes, footer, index, filter, decoder, .. } = self;
        let (file, buf) = self.file.into_file()?;
        if let Some(buffers) = &self.buffers {
            buffers.give(buf);
        }
        if file.len()? != bytes {
            let context = format!("{name}: not {bytes} bytes long after writing them");
            return Err(Error::new(ErrorKind::Io, context));
        }
        let table = Table::new(file, name, footer, index, filter, decoder);
        Ok(table.with_sample(self.sample).with_expiries(self.expiries))
    }
}
