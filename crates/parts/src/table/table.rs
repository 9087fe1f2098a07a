//! An open table.

use super::block::{self, Block, Damaged};
use super::compression::{Decoder, PLAIN};
use super::extent::{self, UNIT_BYTES};
use super::footer::Footer;
use super::index::Index;
use super::{Cursor, KeySample, Version};
use crate::expiry::Expiries;
use crate::{BlockCache, BlockId, FuseFilter};
use silica_base::{AlignedBuf, Error, Result, prefetch_value};
use silica_device::{Device, DeviceFile, Mode};
use std::ops::Range;
use std::sync::Arc;

/// The sequence number in a file of versions that get one number for all of them when the table is
/// put into a store: whoever names the file says which. No write has it.
pub const UNNUMBERED: u64 = 1;

/// A part of the file that one read fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
}

/// What a search of a block found.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// The newest version that was asked for.
    Found(Version<'a>),
    /// The table has none.
    Absent,
    /// Not decided by this block: the next one begins with the same key.
    Next,
}

/// Asks for the memory that [`prefetch_keys`] looks at in the bytes of a block.
#[inline]
pub fn prefetch_end(bytes: &[u8]) {
    block::prefetch_end(bytes);
}

/// Asks for the memory that a search looks at first in the bytes of a block, which were checked.
#[inline]
pub fn prefetch_keys(bytes: &[u8]) {
    if let Ok(block) = Block::new(bytes, 0) {
        block.prefetch();
    }
}

/// A table that is open for reading. Its index is in memory; its filter may be.
pub struct Table<F> {
    file: Arc<F>,
    name: String,
    footer: Footer,
    index: Arc<Index>,
    filter: Option<FuseFilter>,
    decoder: Arc<Decoder>,
    /// `None` where the file was opened, which does not have it.
    sample: Option<Arc<KeySample>>,
    /// `None` where nothing expires, or nobody knows.
    expiries: Option<Arc<Expiries>>,
}

impl<F: DeviceFile> Table<F> {
    pub(super) fn new(
        file: F,
        name: String,
        footer: Footer,
        index: Index,
        filter: Option<FuseFilter>,
        decoder: Decoder,
    ) -> Self {
        let (file, index, decoder) = (Arc::new(file), Arc::new(index), Arc::new(decoder));
        Table { file, name, footer, index, filter, decoder, sample: None, expiries: None }
    }

    /// This table with a sample of its keys.
    pub(super) fn with_sample(self, sample: KeySample) -> Self {
        Table { sample: Some(Arc::new(sample)), ..self }
    }

    /// Tells the table when its versions expire.
    pub(super) fn with_expiries(self, expiries: Expiries) -> Self {
        let expiries = (expiries.entries() > 0).then(|| Arc::new(expiries));
        Table { expiries, ..self }
    }

    /// Opens the file `name`, whose id the manifest says is `file_id`: reads footer, index and
    /// filter.
    pub fn open<D: Device<File = F>>(device: &D, name: &str, file_id: u64) -> Result<Self> {
        Self::open_with(device, name, file_id, true)
    }

    /// Opens a file that may be damaged, without its filter: every key may be in it.
    pub fn open_for_repair<D: Device<File = F>>(
        device: &D,
        name: &str,
        file_id: u64,
    ) -> Result<Self> {
        Self::open_with(device, name, file_id, false)
    }

    /// Opens a table that nobody vouches for: its id is the one that it claims.
    pub fn open_foreign<D: Device<File = F>>(device: &D, name: &str) -> Result<Self> {
        let len = device.open(name, Mode::Direct)?.len()?;
        if len == 0 || len % UNIT_BYTES as u64 != 0 {
            let detail = "the file ends here, and no table does: it is cut short, or none";
            return Err(Error::corruption(name, len, detail));
        }
        let Some(file_id) = Self::file_id_of(device, name)? else {
            let detail = "no table ends like this: it is cut short, or none";
            return Err(Error::corruption(name, len - UNIT_BYTES as u64, detail));
        };
        Self::open_with(device, name, file_id, false)
    }

    /// This table with `sequence` for the number of all its versions, which are [`UNNUMBERED`] so
    /// far.
    pub fn numbered(&self, sequence: u64) -> Result<Self> {
        let mut footer = self.footer;
        let numbers = [footer.sequence_base, footer.sequence_min, footer.sequence_max];
        if numbers != [UNNUMBERED; 3] {
            let at = self.file_bytes() - UNIT_BYTES as u64;
            let detail = "versions that were ingested have numbers of their own";
            return Err(Error::corruption(&self.name, at, detail));
        }
        footer.sequence_base = sequence;
        (footer.sequence_min, footer.sequence_max) = (sequence, sequence);
        Ok(Table { footer, ..self.with_filter(self.filter.clone()) })
    }

    /// The id that the last block of a file claims, where it looks like a table's footer.
    pub fn file_id_of<D: Device<File = F>>(device: &D, name: &str) -> Result<Option<u64>> {
        let file = device.open(name, Mode::Direct)?;
        let units = file.len()? / UNIT_BYTES as u64;
        if units == 0 {
            return Ok(None);
        }
        let mut buf = AlignedBuf::zeroed(UNIT_BYTES);
        file.read_at((units - 1) * UNIT_BYTES as u64, &mut buf)?;
        Ok(Footer::claimed_id(&buf))
    }

    /// Opens a file as [`Table::open`] does, without its filter if that is not wanted.
    pub fn open_with<D: Device<File = F>>(
        device: &D,
        name: &str,
        file_id: u64,
        with_filter: bool,
    ) -> Result<Self> {
        let file = device.open(name, Mode::Direct)?;
        let len = file.len()?;
        if len == 0 || len % UNIT_BYTES as u64 != 0 {
            return Err(Error::corruption(name, len, "length is not a multiple of a block's unit"));
        }
        let number = len / UNIT_BYTES as u64 - 1;
        let mut buf = AlignedBuf::zeroed(UNIT_BYTES);
        let filled = file.read_at(number * UNIT_BYTES as u64, &mut buf)?;
        let (footer, expiries) = Footer::open(&buf[..filled], name, file_id, number)?;
        let index = read_section(
            (&file, name, file_id),
            footer.block_units,
            footer.index_units,
            "impossible index",
            |bytes| Index::decode(bytes).filter(|index| index.units() == footer.block_units),
        )?;
        let dictionary = footer.units()[..3].iter().sum();
        let decoder = match footer.dictionary_units {
            0 => Decoder::default(),
            units => {
                let of = (&file, name, file_id);
                read_section(of, dictionary, units, "impossible dictionary", Decoder::new)?
            }
        };
        let table = Table::new(file, name.to_owned(), footer, index, None, decoder);
        let mut table = table.with_expiries(expiries);
        if with_filter {
            table.filter = table.read_filter()?;
        }
        Ok(table)
    }

    fn read_filter(&self) -> Result<Option<FuseFilter>> {
        let footer = &self.footer;
        if footer.filter_units == 0 {
            return Ok(None);
        }
        let from = footer.block_units + footer.index_units;
        let of = (&*self.file, &self.name[..], footer.file_id);
        let filter = FuseFilter::decode;
        read_section(of, from, footer.filter_units, "impossible filter", filter).map(Some)
    }

    /// This table with its filter in memory, or without: then every key may be in it.
    pub fn filtered(&self, is_wanted: bool) -> Result<Self> {
        Ok(self.with_filter(if is_wanted { self.read_filter()? } else { None }))
    }

    /// This table, which shares all but the filter with the other.
    fn with_filter(&self, filter: Option<FuseFilter>) -> Self {
        let (file, index) = (Arc::clone(&self.file), Arc::clone(&self.index));
        let (name, decoder) = (self.name.clone(), Arc::clone(&self.decoder));
        let (sample, expiries) = (self.sample.clone(), self.expiries.clone());
        Table { file, name, footer: self.footer, index, filter, decoder, sample, expiries }
    }

    /// When its versions expire; `None` where none does, or the file is of a version that does not
    /// say.
    pub fn expiries(&self) -> Option<&Expiries> {
        self.expiries.as_deref()
    }

    /// The part of its bytes whose time is over, about; of a part of its keys as of all.
    pub fn part_over(&self, unix_ms: u64) -> f64 {
        let Some(expiries) = &self.expiries else { return 0.0 };
        let all = (self.footer.key_bytes + self.footer.value_bytes).max(1);
        (expiries.bytes_over(unix_ms) / all as f64).min(1.0)
    }

    /// True where the time of everything in it is over.
    pub fn is_over(&self, unix_ms: u64) -> bool {
        self.expiries.as_ref().is_some_and(|expiries| {
            expiries.entries() == self.footer.versions && expiries.last_unix_ms() <= unix_ms
        })
    }

    /// Bytes of its filter on the device, which in memory takes no more.
    pub fn filter_bytes(&self) -> usize {
        self.footer.filter_units as usize * UNIT_BYTES
    }

    /// Bytes of its filter in memory; 0 where it is not there.
    pub fn loaded_filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, FuseFilter::bytes)
    }

    /// True where it has a filter that is not in memory.
    pub fn lacks_filter(&self) -> bool {
        self.footer.filter_units > 0 && self.filter.is_none()
    }

    /// True where its filter is in memory, so that [`Table::may_contain`] says something.
    pub fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Its filter, where that is in memory.
    pub fn filter(&self) -> Option<&FuseFilter> {
        self.filter.as_ref()
    }

    /// The file, for reads in a burst.
    pub fn file(&self) -> &F {
        &self.file
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the table is.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        let units = self.footer.units().iter().map(|units| u64::from(*units)).sum::<u64>();
        (units + 1) * UNIT_BYTES as u64
    }

    /// A sample of its keys, where it was not opened but written.
    pub fn sample(&self) -> Option<&KeySample> {
        self.sample.as_deref()
    }

    /// Bytes of memory that index, filter, dictionary and sample take.
    pub fn memory_bytes(&self) -> usize {
        let filter = self.loaded_filter_bytes();
        let sample = self.sample.as_ref().map_or(0, |sample| sample.bytes());
        self.index.bytes() + filter + self.decoder.bytes() + sample
    }

    /// False where the table has no version of the key whose hash has this lower half.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// What all keys but those of the first block and, perhaps, of the last begin with; empty where
    /// nobody knows.
    pub fn common(&self) -> &[u8] {
        self.index.common()
    }

    /// Blocks.
    pub fn blocks(&self) -> usize {
        self.index.blocks()
    }

    /// Asks for the memory that [`Table::prefetch_index`] looks at.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_value(self);
    }

    /// Asks for the memory that [`Table::prefetch_separators`] looks at.
    #[inline]
    pub fn prefetch_index(&self) {
        prefetch_value(&*self.index);
    }

    /// Asks for the memory that [`Table::block_of`] looks at first.
    #[inline]
    pub fn prefetch_separators(&self) {
        self.index.prefetch_separators();
    }

    /// The first block where versions of `key` may be.
    pub fn block_of(&self, key: &[u8]) -> usize {
        self.index.find(key)
    }

    /// A key that is after everything before `block` and not after anything in it, as short as
    /// possible; empty for the first.
    pub fn separator(&self, block: usize) -> Vec<u8> {
        if block == 0 { Vec::new() } else { self.index.separator(block) }
    }

    /// Where a block is.
    pub fn place(&self, block: usize) -> Place {
        place(&self.index.place(block))
    }

    /// Where the blocks from `blocks.start` on are, up to `len` bytes or one block, and the block
    /// behind them.
    pub(super) fn places(&self, blocks: Range<usize>, len: usize) -> (Place, usize) {
        let start = self.index.place(blocks.start).start;
        let fits =
            |block: usize| (self.index.place(block).end - start) as usize * UNIT_BYTES <= len;
        let end = (blocks.start + 1..blocks.end).find(|block| !fits(*block)).unwrap_or(blocks.end);
        (place(&(start..self.index.place(end - 1).end)), end)
    }

    /// Reads a part of the file into `buf`.
    pub fn read(&self, place: Place, buf: &mut AlignedBuf) -> Result<()> {
        buf.resize(place.len);
        let filled = self.file.read_at(place.offset, buf)?;
        self.check_length(place, filled)
    }

    /// An error where fewer bytes than asked for were read from `place`.
    pub(super) fn check_length(&self, place: Place, filled: usize) -> Result<()> {
        if filled < place.len {
            let at = place.offset + filled as u64;
            return Err(Error::corruption(&self.name, at, "the file ends early"));
        }
        Ok(())
    }

    /// What a block is called in a [`crate::BlockCache`].
    #[inline]
    pub fn id(&self, block: usize) -> BlockId {
        BlockId { file: self.footer.file_id, block: block as u32 }
    }

    /// Checks what was read at a block's place; the block's bytes, which may be decompressed into
    /// `plain`.
    pub fn check<'a>(
        &self,
        block: usize,
        extent: &'a [u8],
        plain: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        let offset = self.place(block).offset;
        let (mut bytes, form) =
            extent::check_form(extent, &self.name, self.footer.file_id, offset)?;
        if form.codec != PLAIN {
            let decoded = self.decoder.decode(form.codec, bytes, form.plain as usize, plain);
            decoded.ok_or_else(|| self.damaged(Damaged, block))?;
            bytes = plain;
        }
        self.view(bytes).map_err(|damaged| self.damaged(damaged, block))?;
        Ok(bytes)
    }

    /// Bytes that were checked as a block.
    pub(super) fn view<'a>(&self, bytes: &'a [u8]) -> Result<Block<'a>, Damaged> {
        Block::new(bytes, self.footer.sequence_base)
    }

    /// Bytes of the versions in `bytes`, which were checked as a block.
    pub(super) fn entries_len(&self, bytes: &[u8]) -> usize {
        self.view(bytes).map_or(0, |view| view.entries_len())
    }

    #[inline]
    pub(super) fn sequence_base(&self) -> u64 {
        self.footer.sequence_base
    }

    pub(super) fn damaged(&self, _: Damaged, block: usize) -> Error {
        let at = self.place(block).offset;
        Error::corruption(&self.name, at, "a block holds what is no version")
    }

    /// The newest version of `key` that is not newer than `sequence`, as far as `block` knows;
    /// `bytes` are its bytes, which were checked.
    #[inline]
    pub fn search<'a>(
        &self,
        block: usize,
        bytes: &'a [u8],
        key: &'a [u8],
        sequence: u64,
    ) -> Result<Lookup<'a>> {
        let found = self.view(bytes).and_then(|view| view.find(key, sequence));
        match found.map_err(|damaged| self.damaged(damaged, block))? {
            Ok(version) => Ok(Lookup::Found(version)),
            Err(true) if self.index.is_continued(block + 1) => Ok(Lookup::Next),
            Err(_) => Ok(Lookup::Absent),
        }
    }

    /// A cursor that reads up to `read_ahead_bytes` at once where it goes on in one direction.
    pub fn cursor(self: &Arc<Self>, read_ahead_bytes: usize) -> Cursor<F> {
        Cursor::new(Arc::clone(self), read_ahead_bytes, None)
    }

    /// A cursor that finds blocks in the cache, too, and keeps there the first few that it reads
    /// after a seek: what comes then is a long scan, and asked for once.
    pub fn cursor_through(
        self: &Arc<Self>,
        cache: &Arc<BlockCache>,
        read_ahead_bytes: usize,
    ) -> Cursor<F> {
        Cursor::new(Arc::clone(self), read_ahead_bytes, Some(Arc::clone(cache)))
    }
}

/// Reads what lies in so many units of a file, of this name and id, and decodes it.
fn read_section<F: DeviceFile, T>(
    (file, name, file_id): (&F, &str, u64),
    from: u32,
    units: u32,
    what: &str,
    decode: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<T> {
    let offset = u64::from(from) * UNIT_BYTES as u64;
    let mut buf = AlignedBuf::zeroed(units as usize * UNIT_BYTES);
    let filled = file.read_at(offset, &mut buf)?;
    let bytes = extent::check(&buf[..filled], name, file_id, offset)?;
    decode(bytes).ok_or_else(|| Error::corruption(name, offset, what))
}

fn place(units: &Range<u32>) -> Place {
    let len = (units.end - units.start) as usize * UNIT_BYTES;
    Place { offset: u64::from(units.start) * UNIT_BYTES as u64, len }
}
