//! Going through a table's versions in either direction.

use super::block::{Block, Damaged, Spot};
use super::{Mark, Place, Table, Version};
use crate::{BlockCache, CachedBlock};
use silica_base::{AlignedBuf, Result};
use silica_device::{DeviceFile, Transfer};
use std::ops::Range;
use std::sync::Arc;

/// Blocks entered in a row, from a seek on, that are kept in the cache.
const CACHED_BLOCKS_MAX: usize = 8;

/// Where the next read has so many bytes, it is begun before it is needed: who has read as much
/// in one direction will go on. So will who read as much as there may be from the first read on.
const AHEAD_BYTES_MIN: usize = 64 << 10;

/// The bytes of the block that was entered last, once they are checked.
enum Entered {
    None,
    /// In the buffer.
    Read(Range<usize>),
    /// Decompressed.
    Plain,
    /// From the cache.
    Cached(CachedBlock),
}

/// A place in a table, and the blocks around it. After a call that returned true, it is at a
/// version; after one that returned false or failed, it is nowhere.
///
/// Where it goes on in one direction, each read is twice as long as the one before; forwards, long
/// ones are under way while the blocks before them are gone through.
pub struct Cursor<F: DeviceFile> {
    table: Arc<Table<F>>,
    cache: Option<Arc<BlockCache>>,
    /// Blocks in a row that go into the cache.
    kept_in_a_row_max: usize,
    buf: AlignedBuf,
    /// Where blocks are decompressed to.
    plain: Vec<u8>,
    /// Blocks in `buf`, and where the first of them starts in the file.
    held: Range<usize>,
    held_from: u64,
    /// What comes behind them, and the buffer for what comes after that.
    ahead: Option<Ahead<F>>,
    spare: AlignedBuf,
    read_ahead_bytes: usize,
    first_read_bytes: usize,
    next_read_bytes: usize,
    /// The block of `spot`.
    block: usize,
    entered: Entered,
    /// Bytes of its versions.
    entries_len: usize,
    /// Blocks entered one after the other.
    in_a_row: usize,
    /// Reads of the device, until somebody asks.
    device_reads: u64,
    /// The block that a search which has begun goes to.
    begun: Option<usize>,
    spot: Spot,
}

/// A read that was begun before it was needed.
struct Ahead<F: DeviceFile> {
    read: F::Transfer,
    place: Place,
    blocks: Range<usize>,
}

/// What a search reads first: see [`Cursor::begin_seek`].
pub struct SeekRead {
    place: Place,
    blocks: Range<usize>,
    block: usize,
    is_forward: bool,
}

impl SeekRead {
    /// The read's first byte in the table's file.
    pub fn offset(&self) -> u64 {
        self.place.offset
    }
}

impl Entered {
    /// Its bytes, of which those of `buf` or `plain` are still there.
    #[inline]
    fn bytes<'a>(&'a self, buf: &'a AlignedBuf, plain: &'a [u8]) -> &'a [u8] {
        match self {
            Entered::Read(range) => &buf[range.clone()],
            Entered::Plain => plain,
            Entered::Cached(bytes) => bytes,
            Entered::None => unreachable!("a block was entered"),
        }
    }
}

impl<F: DeviceFile> Cursor<F> {
    pub(super) fn new(
        table: Arc<Table<F>>,
        read_ahead_bytes: usize,
        cache: Option<Arc<BlockCache>>,
    ) -> Self {
        Cursor {
            table,
            cache,
            kept_in_a_row_max: CACHED_BLOCKS_MAX,
            buf: AlignedBuf::zeroed(0),
            plain: Vec::new(),
            held: 0..0,
            held_from: 0,
            ahead: None,
            spare: AlignedBuf::zeroed(0),
            read_ahead_bytes,
            first_read_bytes: 0,
            next_read_bytes: 0,
            block: usize::MAX,
            entered: Entered::None,
            entries_len: 0,
            in_a_row: 0,
            device_reads: 0,
            begun: None,
            spot: Spot::default(),
        }
    }

    /// This cursor, which reads so many bytes at once where it goes to another place, or one block.
    pub fn with_first_read(mut self, bytes: usize) -> Self {
        self.first_read_bytes = bytes.min(self.read_ahead_bytes);
        self.next_read_bytes = self.first_read_bytes;
        self
    }

    /// The cursor finds blocks in its cache, and puts none there.
    pub fn without_keeping(self) -> Self {
        Cursor { kept_in_a_row_max: 0, ..self }
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table<F>> {
        &self.table
    }

    /// True where the next version may be in a block that is still being read.
    pub fn would_wait(&self) -> bool {
        let is_last = self.block.wrapping_add(1) == self.held.end;
        is_last && self.ahead.as_ref().is_some_and(|ahead| !ahead.read.is_done())
    }

    /// Reads of the device since this was last asked.
    pub fn take_device_reads(&mut self) -> u64 {
        std::mem::take(&mut self.device_reads)
    }

    /// Where `block` is, together with those that follow in the direction, and which they are.
    fn extent(&self, block: usize, is_forward: bool) -> (Place, Range<usize>) {
        let len = self.next_read_bytes;
        if is_forward {
            let (place, end) = self.table.places(block..self.table.blocks(), len);
            return (place, block..end);
        }
        // As many blocks before it as the last one had room for.
        let count = (len / self.table.place(block).len).max(1);
        let blocks = (block + 1).saturating_sub(count)..block + 1;
        let (place, end) = self.table.places(blocks.clone(), usize::MAX);
        (place, blocks.start..end)
    }

    /// The buffer has these blocks, which were read from `place`.
    fn hold(&mut self, place: Place, blocks: Range<usize>) {
        self.device_reads += 1;
        self.held = blocks;
        self.held_from = place.offset;
        self.next_read_bytes = (2 * place.len).min(self.read_ahead_bytes);
    }

    /// Leaves the block that was entered for `block`.
    fn leave_for(&mut self, block: usize) {
        self.entered = Entered::None;
        let goes_on = block == self.block.wrapping_add(1) || block.wrapping_add(1) == self.block;
        if goes_on {
            self.in_a_row += 1;
        } else {
            (self.in_a_row, self.next_read_bytes) = (0, self.first_read_bytes);
        }
        self.block = usize::MAX;
    }

    /// Enters `block` where the cache has it.
    fn enter_cached(&mut self, block: usize) -> bool {
        let Some(cache) = &self.cache else { return false };
        let found = cache.get(self.table.id(block));
        cache.count(u64::from(found.is_some()), u64::from(found.is_none()));
        let Some(bytes) = found else { return false };
        self.entries_len = self.table.entries_len(&bytes);
        self.entered = Entered::Cached(bytes);
        self.block = block;
        true
    }

    /// Enters `block`, which the buffer has, once it is checked.
    fn enter_held(&mut self, block: usize) -> Result<()> {
        let place = self.table.place(block);
        let start = (place.offset - self.held_from) as usize;
        let extent = &self.buf[start..start + place.len];
        let bytes = self.table.check(block, extent, &mut self.plain)?;
        if let Some(cache) = self.cache.as_ref().filter(|_| self.in_a_row < self.kept_in_a_row_max)
        {
            cache.insert(self.table.id(block), bytes);
        }
        self.entries_len = self.table.entries_len(bytes);
        let is_here = extent.as_ptr_range().contains(&bytes.as_ptr());
        let here = start..start + bytes.len();
        self.entered = if is_here { Entered::Read(here) } else { Entered::Plain };
        self.block = block;
        Ok(())
    }

    /// Has the bytes of `block`, checked.
    fn enter_block(&mut self, block: usize, is_forward: bool) -> Result<()> {
        self.leave_for(block);
        if !self.held.contains(&block) {
            let ahead = self.ahead.take().filter(|ahead| ahead.blocks.contains(&block));
            if ahead.is_none() && self.enter_cached(block) {
                return Ok(());
            }
            // A failed read leaves the buffer's bytes undefined.
            self.held = 0..0;
            let (place, blocks) = match ahead {
                Some(ahead) => self.take_ahead(ahead)?,
                None => {
                    let (place, blocks) = self.extent(block, is_forward);
                    self.table.read(place, &mut self.buf)?;
                    (place, blocks)
                }
            };
            self.hold(place, blocks);
            if is_forward {
                self.read_on();
            }
        }
        self.enter_held(block)
    }

    /// Waits for what was begun; what the buffer has then.
    fn take_ahead(&mut self, ahead: Ahead<F>) -> Result<(Place, Range<usize>)> {
        let Ahead { read, place, blocks } = ahead;
        let (buf, filled) = read.wait();
        self.table.check_length(place, filled?)?;
        self.spare = std::mem::replace(&mut self.buf, buf);
        Ok((place, blocks))
    }

    /// Begins to read what comes behind the blocks that the buffer has, where that is much.
    fn read_on(&mut self) {
        // A search, whose first read may be of several large blocks, mostly ends there.
        let goes_on = self.in_a_row > 0 && self.next_read_bytes >= AHEAD_BYTES_MIN
            || self.first_read_bytes > 0 && self.first_read_bytes == self.read_ahead_bytes;
        if !goes_on || self.held.end >= self.table.blocks() {
            return;
        }
        let (place, blocks) = self.extent(self.held.end, true);
        let mut buf = std::mem::replace(&mut self.spare, AlignedBuf::zeroed(0));
        buf.resize(place.len);
        let read = self.table.file().begin_read(place.offset, buf);
        self.ahead = Some(Ahead { read, place, blocks });
    }

    /// Begins a search for `key`, which is to be the next that is made, to go on forwards from
    /// there or back: what it reads first, and the buffer to read into, where neither the cache nor
    /// the cursor has that. So the caller has several cursors' reads under way at once.
    pub fn begin_seek(&mut self, key: &[u8], is_forward: bool) -> Option<(SeekRead, AlignedBuf)> {
        self.begin_at(self.table.block_of(key), is_forward)
    }

    /// Begins the read of [`Cursor::seek_to_last`].
    pub fn begin_seek_to_last(&mut self) -> Option<(SeekRead, AlignedBuf)> {
        self.begin_at(self.table.blocks() - 1, false)
    }

    fn begin_at(&mut self, block: usize, is_forward: bool) -> Option<(SeekRead, AlignedBuf)> {
        self.begun = Some(block);
        if block == self.block || self.held.contains(&block) {
            return None;
        }
        self.leave_for(block);
        if self.enter_cached(block) {
            return None;
        }
        let (place, blocks) = self.extent(block, is_forward);
        self.held = 0..0;
        let mut buf = std::mem::replace(&mut self.buf, AlignedBuf::zeroed(0));
        buf.resize(place.len);
        Some((SeekRead { place, blocks, block, is_forward }, buf))
    }

    /// Takes what [`Cursor::begin_seek`] asked for, of which `filled` bytes were read.
    pub fn end_seek(&mut self, read: SeekRead, buf: AlignedBuf, filled: usize) -> Result<()> {
        let SeekRead { place, blocks, block, is_forward } = read;
        self.table.check_length(place, filled)?;
        self.buf = buf;
        self.hold(place, blocks);
        if is_forward {
            self.read_on();
        }
        self.enter_held(block)
    }

    /// Calls `go` with the spot and `block`.
    fn at(
        &mut self,
        block: usize,
        is_forward: bool,
        go: impl FnOnce(&mut Spot, &Block<'_>) -> Result<bool, Damaged>,
    ) -> Result<bool> {
        if block != self.block {
            self.enter_block(block, is_forward)?;
        }
        let bytes = self.entered.bytes(&self.buf, &self.plain);
        let went = self.table.view(bytes).and_then(|view| go(&mut self.spot, &view));
        went.map_err(|damaged| self.table.damaged(damaged, block))
    }

    /// Goes to the first version of `block`, or of the first block behind it that has one.
    fn enter(&mut self, block: usize) -> Result<bool> {
        if block >= self.table.blocks() {
            return Ok(false);
        }
        self.at(block, true, |spot, block| {
            spot.reset();
            spot.advance(block)
        })
    }

    fn enter_backwards(&mut self, block: Option<usize>) -> Result<bool> {
        let Some(block) = block else { return Ok(false) };
        self.at(block, false, |spot, block| spot.go_last(block))
    }

    /// To the first version.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.enter(0)
    }

    /// To the last version.
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.enter_backwards(self.table.blocks().checked_sub(1))
    }

    /// To the first version at or after (`key`, `sequence`): the newest one of `key` that is not
    /// newer than that, or else the first of the next key.
    pub fn seek(&mut self, key: &[u8], sequence: u64) -> Result<bool> {
        self.seek_and(key, sequence, true)
    }

    /// Seeks as [`Cursor::seek`]; from there it goes on forwards, or back.
    fn seek_and(&mut self, key: &[u8], sequence: u64, is_forward: bool) -> Result<bool> {
        let begun = self.begun.take();
        let mut block = begun.unwrap_or_else(|| self.table.block_of(key));
        loop {
            if self.at(block, is_forward, |spot, block| spot.seek(block, key, sequence))? {
                return Ok(true);
            }
            block += 1;
            if block >= self.table.blocks() {
                return Ok(false);
            }
        }
    }

    /// To the last version before (`key`, `sequence`).
    pub fn seek_before(&mut self, key: &[u8], sequence: u64) -> Result<bool> {
        if self.seek_and(key, sequence, false)? { self.retreat() } else { self.seek_to_last() }
    }

    /// To the next version.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        if matches!(self.entered, Entered::None) {
            return self.enter(self.block);
        }
        let (block, bytes) = (self.block, self.entered.bytes(&self.buf, &self.plain));
        let entries = Block::of_entries(&bytes[..self.entries_len], self.table.sequence_base());
        match self.spot.advance(&entries) {
            Ok(true) => Ok(true),
            Ok(false) => self.enter(block + 1),
            Err(damaged) => Err(self.table.damaged(damaged, block)),
        }
    }

    /// To the version before.
    pub fn retreat(&mut self) -> Result<bool> {
        let block = self.block;
        if self.at(block, false, Spot::retreat)? {
            return Ok(true);
        }
        self.enter_backwards(block.checked_sub(1))
    }

    /// The block that was entered last.
    #[inline]
    pub fn block(&self) -> usize {
        self.block
    }

    /// The key of the version here; anything where the last call did not return true.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.spot.key()
    }

    /// What decides whether the version here is seen; anything where the last call did not return
    /// true.
    #[inline]
    pub fn mark(&self) -> Mark {
        self.spot.mark()
    }

    /// The version here.
    ///
    /// # Panics
    /// May panic where the last call did not return true.
    #[inline]
    pub fn version(&self) -> Version<'_> {
        self.spot.version(self.entered.bytes(&self.buf, &self.plain))
    }
}
