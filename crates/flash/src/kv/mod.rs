//! The key-value level: items that are appended to blocks of the function level and evicted with
//! them. The interface below a cache (003…, 2.4 and 3.7.1), kept small: which block to evict and
//! when is the caller's.
//!
//! An index in memory has 12 bytes for each item (and a quarter of empty slots): a tag of the
//! key's hash, block and byte. Keys are compared on flash. Items gather in memory until they fill
//! a block, or until [`KeyValues::flush`] writes them as they are; summaries in front of them let
//! a store open without reading values (docs/formats/flash-kv.md).
//!
//! ```
//! use silica_base::HashSeed;
//! use silica_device::sim::{SimFlash, SimFlashOptions};
//! use silica_flash::functions::{FunctionOptions, Functions};
//! use silica_flash::kv::{KeyValues, KvOptions};
//!
//! let flash = SimFlash::new(1, SimFlashOptions::small());
//! let options = KvOptions { store: 7, seed: HashSeed([3; 16]) };
//! let functions = Functions::open(flash.clone(), FunctionOptions::default())?;
//! let mut items = KeyValues::open(functions, options)?;
//! items.put(b"key", b"value")?;
//! items.flush()?; // survives a power cut
//!
//! let functions = Functions::open(flash.reopen(), FunctionOptions::default())?;
//! let mut items = KeyValues::open(functions, options)?;
//! let mut value = Vec::new();
//! assert!(items.get(b"key", &mut value)? && value == b"value");
//! let oldest = items.blocks().next().expect("a block has the item").block;
//! assert_eq!(items.evict(oldest)?.items, 1);
//! assert!(!items.get(b"key", &mut value)?);
//! # Ok::<(), silica_base::Error>(())
//! ```
//!
//! Invariants:
//! 1. One block is written at a time and none is written again after the next, so the sequences
//!    of two blocks do not interleave.
//! 2. The index points to the newest item of each key, or to none if it was deleted.
//! 3. A block is given back only after tombstones for what counted in it are synced, if older
//!    segments are left: nothing old comes back by an eviction.
//! 4. A block whose items have no tombstones is given back only after a segment with a floor above
//!    it is synced: nothing old comes back by a crash.
//! 5. After opening, a segment whose items are not all there lies in no block of this store.

mod index;
mod open;
mod segment;

pub(crate) use segment::HEAD_BYTES;

use self::index::{BUFFER, Index, Spot};
use self::segment::{Buffer, ENTRY_BYTES, Entry, Head, ITEM_HEAD_BYTES, ItemHead};
use crate::functions::{Functions, Mapping, OverProvisioning};
use silica_base::{Error, ErrorKind, HashSeed, Result};
use silica_device::blocks::{
    Append, BlockAddress, BlockState, FlashDevice, FlashError, FlashFault,
};
use std::collections::BTreeMap;

/// Bytes of a key at most.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Blocks of over-provisioning at least: tombstones of an eviction need one, and so does what is
/// written anew when a store is opened.
const RESERVED_BLOCKS: u32 = 2;

/// What a store is told by.
#[derive(Debug, Clone, Copy)]
pub struct KvOptions {
    /// A number that no other store has, from the caller's source of random numbers; the same at
    /// every opening.
    pub store: u64,
    /// Seed of the keys' hashes; the same at every opening.
    pub seed: HashSeed,
}

/// What the store says about a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvBlock {
    /// The block.
    pub block: BlockAddress,
    /// Items that the index points to.
    pub items: u32,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes of all items that were written to it.
    pub bytes_written: u64,
}

/// What an eviction removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Items that could be found before.
    pub items: u32,
    /// Bytes of these, heads and keys included.
    pub bytes: u64,
}

/// What a store has and did since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KvStatistics {
    /// Items.
    pub items: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Blocks that have items.
    pub blocks: u32,
    /// Segments written.
    pub segments: u64,
    /// Pages of these.
    pub pages_written: u64,
    /// Bytes of keys and values that were put.
    pub bytes_put: u64,
    /// Tombstones written for evictions.
    pub tombstones_of_evictions: u64,
    /// Blocks erased before a segment said that they were evicted, because no block was left for
    /// it. A power cut at that moment may bring their items back, some of them damaged; one
    /// before the next segment may lose items that were replaced since the last.
    pub evicted_unsafely: u64,
    /// Items evicted while the store was opened, because no block was left to write anew what
    /// stood before a torn segment.
    pub evicted_at_opening: u64,
}

/// A block that has segments.
#[derive(Debug, Clone, Copy, Default)]
struct Info {
    /// Sequences of its first and last segment.
    first: u64,
    last: u64,
    items: u32,
    bytes: u64,
    bytes_written: u64,
}

/// The block that takes segments.
#[derive(Debug, Clone, Copy)]
struct Current {
    block: BlockAddress,
    /// Page that is written next.
    next: u32,
}

/// Keys and values on flash; see [the module](self).
pub struct KeyValues<D> {
    functions: Functions<D>,
    options: KvOptions,
    index: Index,
    buffer: Buffer,
    current: Option<Current>,
    /// By number of the block.
    blocks: BTreeMap<u32, Info>,
    /// Sequence of the next segment.
    sequence: u64,
    /// Segments up to this one are synced.
    synced: u64,
    /// Blocks that were evicted as the oldest, and wait for a segment with a floor above them.
    parting: Vec<BlockAddress>,
    /// Highest floor so far.
    floor: u64,
    /// Blocks were given back, and no segment with a floor above them is written yet.
    owes_floor: bool,
    /// True while torn segments are about, which `synced` must not reach.
    is_opening: bool,
    page_bytes: usize,
    /// Pages that every block takes.
    block_pages: u32,
    statistics: KvStatistics,
}

impl<D: FlashDevice> KeyValues<D> {
    /// The level below: for erases in the background, over-provisioning and loads. Whoever trims
    /// blocks of the store there breaks it.
    pub fn functions(&self) -> &Functions<D> {
        &self.functions
    }

    /// Bytes of the largest item, key and value together.
    pub fn item_bytes_max(&self) -> usize {
        let block_bytes = self.block_pages as usize * self.page_bytes;
        block_bytes - HEAD_BYTES - ENTRY_BYTES - ITEM_HEAD_BYTES
    }

    /// Puts an item, which replaces that of the same key. It is in memory until its block is full
    /// or [`KeyValues::flush`] is called. Reads a page if there is an item of this key.
    ///
    /// # Errors
    /// `TooLarge`; `Full` if a block is needed and none is free: evict one, and put again; what
    /// the device said. Nothing was changed.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (bytes, max) = (key.len() + value.len(), self.item_bytes_max());
        if key.len() > KEY_BYTES_MAX || bytes > max {
            let message = format!(
                "an item of {bytes} bytes with a key of {} is too large: keys have up to \
                 {KEY_BYTES_MAX} bytes, items up to {max}, which is a block",
                key.len()
            );
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let hash = self.options.seed.low(key);
        self.make_room(ITEM_HEAD_BYTES + bytes, false)?;
        let old = match self.find(hash, key, &mut Vec::new()) {
            // What cannot be read does not stand in the way of what replaces it.
            Err(error) if error.kind() == ErrorKind::Corruption => None,
            found => found?,
        };
        let offset = self.buffer.push(self.options.store, hash, key, value);
        let spot = Spot { block: BUFFER, offset };
        match old {
            Some((old, old_bytes)) => {
                self.forget(old, old_bytes);
                assert!(self.index.move_to(hash, old, spot), "the old item was found");
            }
            None => self.index.insert(hash, spot),
        }
        self.statistics.bytes_put += bytes as u64;
        Ok(())
    }

    /// Gets the value of a key into `value`, which is cleared first; false if there is none. Reads
    /// the item's pages, if it is not in memory.
    ///
    /// # Errors
    /// `Corruption` if the item is damaged; what the device said.
    pub fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let hash = self.options.seed.low(key);
        value.clear();
        if self.find(hash, key, value)?.is_none() {
            value.clear();
            return Ok(false);
        }
        value.drain(..ITEM_HEAD_BYTES + key.len());
        Ok(true)
    }

    /// Deletes an item; false if there was none. Lasts when flushed.
    ///
    /// # Errors
    /// As [`KeyValues::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let hash = self.options.seed.low(key);
        self.make_room(0, false)?;
        let Some((spot, bytes)) = self.find(hash, key, &mut Vec::new())? else {
            return Ok(false);
        };
        self.forget(spot, bytes);
        assert!(self.index.remove(hash, spot), "the item was found");
        self.buffer.entries.push(Entry::Tombstone { hash, last: self.sequence });
        Ok(true)
    }

    /// Writes what is in memory and makes everything survive a power cut, evictions included. A
    /// part of a page that is not filled is lost until the block is evicted.
    ///
    /// # Errors
    /// As [`KeyValues::put`]; a sync that failed is final.
    pub fn flush(&mut self) -> Result<()> {
        if !self.buffer.is_empty() || !self.parting.is_empty() || self.owes_floor {
            self.write_buffer(false)?;
        }
        self.sync()
    }

    fn sync(&mut self) -> Result<()> {
        self.functions.sync()?;
        if !self.is_opening {
            self.synced = self.sequence - 1;
        }
        Ok(())
    }

    /// Blocks that have segments, the oldest first.
    pub fn blocks(&self) -> impl Iterator<Item = KvBlock> {
        let mut blocks: Vec<(u64, KvBlock)> = self
            .blocks
            .iter()
            .map(|(number, info)| {
                let block = self.functions.geometry().block_at(*number);
                let Info { first, items, bytes, bytes_written, .. } = *info;
                (first, KvBlock { block, items, bytes, bytes_written })
            })
            .collect();
        silica_base::compact_sort_by_key(&mut blocks, |(first, _)| *first);
        blocks.into_iter().map(|(_, block)| block)
    }

    /// Removes all items of a block at once and gives the block back. Reads the summaries of the
    /// block. If older blocks are left, writes tombstones for the items, and what is in memory, and
    /// syncs, so that older items of the same keys do not come back. Evicting the oldest block
    /// costs no write: the block is erased after the next segment, and its items may come back by a
    /// crash before that. Whoever wants to keep some items reads and puts them again before.
    ///
    /// # Errors
    /// `NotFound` if the block has no segments; `Full` if there is no block for the tombstones:
    /// evict the oldest block, which needs none. After an error some of the items are gone, and the
    /// block is still there.
    pub fn evict(&mut self, block: BlockAddress) -> Result<Evicted> {
        let geometry = self.functions.geometry();
        let number = geometry.contains(block).then(|| geometry.index_of(block));
        let Some((number, info)) = number.and_then(|n| Some((n, *self.blocks.get(&n)?))) else {
            let message = format!("{block} has no items; take one of KeyValues::blocks");
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        if self.current.is_some_and(|current| current.block == block) {
            self.close_current()?;
        }
        let mut evicted = Evicted::default();
        for (head, first, entries) in self.segments(block)?.0 {
            debug_assert!(head.sequence <= info.last);
            self.bury(number, first, &entries, &mut evicted)?;
        }
        // A summary that cannot be read leaves items behind; the index is searched for them.
        if evicted.items < info.items {
            evicted.items += self.index.remove_block(number) as u32;
        }
        let is_oldest = self.oldest_but(number) > info.last;
        if !is_oldest {
            // The block may have the only segment with the highest floor.
            self.write_buffer(true)?;
            self.sync()?;
        }
        self.blocks.remove(&number);
        match is_oldest {
            true => self.parting.push(block),
            false => self.functions.trim(block)?,
        }
        Ok(evicted)
    }

    /// Gives back the blocks that were evicted as the oldest.
    fn part(&mut self) -> Result<()> {
        for block in std::mem::take(&mut self.parting) {
            self.functions.trim(block)?;
        }
        Ok(())
    }

    /// First segment of all blocks but one.
    fn oldest_but(&self, number: u32) -> u64 {
        let others = self.blocks.iter().filter(|(other, _)| **other != number);
        others.map(|(_, other)| other.first).min().unwrap_or(u64::MAX)
    }

    /// The floor of a segment that is written now.
    fn floor_now(&self) -> u64 {
        let oldest = self.blocks.values().map(|info| info.first).min();
        oldest.unwrap_or(self.sequence).max(self.floor)
    }

    /// Removes the items of a segment, and buffers the tombstones that its block owes.
    fn bury(
        &mut self,
        number: u32,
        first_page: u32,
        entries: &[Entry],
        evicted: &mut Evicted,
    ) -> Result<()> {
        let (oldest, newest) = (self.oldest_but(number), self.blocks[&number].last);
        for entry in entries {
            let last = match *entry {
                Entry::Item { .. } => newest,
                Entry::Tombstone { last, .. } => last,
            };
            if oldest <= last {
                self.make_room(0, true)?;
            }
            if let Entry::Item { hash, offset, bytes } = *entry {
                let offset = first_page * self.page_bytes as u32 + offset;
                let spot = Spot { block: number, offset };
                if !self.index.remove(hash, spot) {
                    continue;
                }
                self.forget(spot, bytes as usize);
                evicted.items += 1;
                evicted.bytes += u64::from(bytes);
            }
            if oldest <= last {
                self.buffer.entries.push(Entry::Tombstone { hash: entry.hash(), last });
                self.statistics.tombstones_of_evictions += 1;
            }
        }
        Ok(())
    }

    /// What the store has and did.
    pub fn statistics(&self) -> KvStatistics {
        KvStatistics {
            items: self.index.len() as u64,
            index_bytes: self.index.bytes() as u64,
            blocks: self.blocks.len() as u32,
            ..self.statistics
        }
    }

    /// The item at `spot` does not count any more.
    fn forget(&mut self, spot: Spot, bytes: usize) {
        if let Some(info) = self.blocks.get_mut(&spot.block) {
            info.items -= 1;
            info.bytes -= bytes as u64;
        }
    }

    /// Finds the item of a key: where it lies and its bytes, which are put into `out`. Passes over
    /// damaged items of other keys perhaps, if the key is found.
    fn find(&self, hash: u64, key: &[u8], out: &mut Vec<u8>) -> Result<Option<(Spot, usize)>> {
        let mut damaged = None;
        for spot in self.index.candidates(hash) {
            match self.load(spot, out) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    damaged = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            }
            let head = ItemHead::of(out);
            if out[ITEM_HEAD_BYTES..ITEM_HEAD_BYTES + head.key_bytes] == *key {
                return Ok(Some((spot, out.len())));
            }
        }
        damaged.map_or(Ok(None), Err)
    }

    /// Reads the whole item at `spot`.
    fn load(&self, spot: Spot, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if spot.block == BUFFER {
            let item = &self.buffer.items[spot.offset as usize..];
            out.extend_from_slice(&item[..ItemHead::of(item).bytes()]);
            return Ok(());
        }
        let block = self.functions.geometry().block_at(spot.block);
        let (first, skipped) =
            (spot.offset / self.page_bytes as u32, spot.offset as usize % self.page_bytes);
        let pages_of = |bytes: usize| (skipped + bytes).div_ceil(self.page_bytes);
        let head_pages = pages_of(ITEM_HEAD_BYTES);
        out.resize(head_pages * self.page_bytes, 0);
        self.functions.read(block.page(first), out, &mut [])?;
        let pages = pages_of(ItemHead::of(&out[skipped..]).bytes());
        let damaged = |detail| Error::corruption(block, u64::from(spot.offset), detail);
        if first as usize + pages > self.functions.geometry().pages as usize {
            return Err(damaged("an item reaches behind the end of its block"));
        }
        if pages > head_pages {
            let more = head_pages * self.page_bytes;
            out.resize(pages * self.page_bytes, 0);
            let next = block.page(first + head_pages as u32);
            self.functions.read(next, &mut out[more..], &mut [])?;
        }
        out.drain(..skipped);
        out.truncate(ItemHead::of(out).bytes());
        if !segment::is_whole(self.options.store, out) {
            return Err(damaged("the checksum of an item is wrong"));
        }
        Ok(())
    }

    /// Makes sure that the buffer takes one more entry, with `bytes` of an item.
    fn make_room(&mut self, bytes: usize, from_reserve: bool) -> Result<()> {
        if self.buffer.bytes_with(bytes) <= self.room() {
            return Ok(());
        }
        if !self.buffer.is_empty() {
            self.write_buffer(from_reserve)?;
        }
        if self.buffer.bytes_with(bytes) > self.room() {
            self.close_current()?;
        }
        Ok(())
    }

    /// Bytes that a segment may have.
    fn room(&self) -> usize {
        let next = self.current.map_or(0, |current| current.next);
        (self.block_pages - next) as usize * self.page_bytes
    }

    fn close_current(&mut self) -> Result<()> {
        if let Some(current) = self.current.take() {
            self.functions.finish(current.block).or_else(unless_bad)?;
        }
        Ok(())
    }

    /// Writes the buffer as a segment; in another block if one turns bad.
    fn write_buffer(&mut self, from_reserve: bool) -> Result<()> {
        if !self.parting.is_empty() {
            // The floor must not outlive what replaced the items below it.
            self.sync()?;
        }
        let floor = self.floor_now();
        let head = Head {
            pages: 0,
            entries: 0,
            sequence: self.sequence,
            store: self.options.store,
            synced: self.synced,
            floor,
        };
        let segment = self.buffer.segment(head, self.page_bytes);
        loop {
            let current = match self.current {
                Some(current) => current,
                None => self.next_block(from_reserve)?,
            };
            let append = Append {
                block: current.block,
                expected: Some(current.next),
                stream: 0,
                pages: &segment,
                spare: &[],
            };
            match self.functions.write(&append) {
                Ok(_) => {
                    self.written(current, (segment.len() / self.page_bytes) as u32)?;
                    (self.floor, self.owes_floor) = (floor, false);
                    if !self.parting.is_empty() {
                        self.sync()?;
                        self.part()?;
                    }
                    return Ok(());
                }
                Err(error) => {
                    // Some pages may be there: a torn segment, which ends the block.
                    self.leave(current)?;
                    if !is_bad(&error) {
                        return Err(error.into());
                    }
                }
            }
        }
    }

    /// The current block takes no more segments; those that it has can be read.
    fn leave(&mut self, current: Current) -> Result<()> {
        self.current = None;
        let number = self.functions.geometry().index_of(current.block);
        if !self.blocks.contains_key(&number) {
            self.functions.trim(current.block)?;
        }
        Ok(())
    }

    fn next_block(&mut self, from_reserve: bool) -> Result<Current> {
        let channel = self.functions.idlest_channel().unwrap_or(0);
        // What parts is free when the next segment is written.
        let given = match from_reserve || !self.parting.is_empty() {
            true => self.functions.allocate_reserved(channel, Mapping::Page),
            // There may have been too few blocks to reserve some.
            false => {
                self.keep_reserve().and_then(|()| self.functions.allocate(channel, Mapping::Page))
            }
        };
        if given.is_err() && !self.parting.is_empty() {
            // A crash before the next segment may lose items that were replaced since, and one in
            // here may bring evicted ones back.
            self.sync()?;
            self.owes_floor = true;
            self.statistics.evicted_unsafely += self.parting.len() as u64;
            self.part()?;
            self.functions.erase_pending(u32::MAX)?;
            self.sync()?;
            return self.next_block(from_reserve);
        }
        let given = given.map_err(|error| match error.kind() {
            ErrorKind::Full => error.within("no block is left for items; evict a block"),
            _ => error,
        })?;
        let current = Current { block: given.block, next: 0 };
        self.current = Some(current);
        Ok(current)
    }

    /// Sets the over-provisioning that the level needs, unless there is more.
    fn keep_reserve(&self) -> Result<()> {
        if self.functions.statistics().reserved < RESERVED_BLOCKS {
            self.functions.set_over_provisioning(OverProvisioning::Blocks(RESERVED_BLOCKS))?;
        }
        Ok(())
    }

    /// Points the index to the buffer's items where they lie now, and begins another buffer.
    fn written(&mut self, current: Current, pages: u32) -> Result<()> {
        let number = self.functions.geometry().index_of(current.block);
        let base = (current.next as usize * self.page_bytes + self.buffer.head_bytes()) as u32;
        let buffer = std::mem::take(&mut self.buffer);
        let sequence = self.sequence;
        let fresh = Info { first: sequence, ..Info::default() };
        let info = self.blocks.entry(number).or_insert(fresh);
        info.last = sequence;
        for entry in &buffer.entries {
            if let Entry::Item { hash, offset, bytes } = *entry {
                let from = Spot { block: BUFFER, offset };
                let to = Spot { block: number, offset: base + offset };
                info.bytes_written += u64::from(bytes);
                if self.index.move_to(hash, from, to) {
                    info.items += 1;
                    info.bytes += u64::from(bytes);
                }
            }
        }
        self.sequence += 1;
        self.statistics.segments += 1;
        self.statistics.pages_written += u64::from(pages);
        let next = current.next + pages;
        self.current = Some(Current { next, ..current });
        if next == self.block_pages { self.close_current() } else { Ok(()) }
    }
}

/// True if the block, and not the device, took no page.
fn is_bad(error: &FlashError) -> bool {
    matches!(error.fault(), FlashFault::ProgramFailed | FlashFault::BadBlock)
}

/// A bad block needs no finish.
fn unless_bad(error: FlashError) -> Result<(), FlashError> {
    if is_bad(&error) { Ok(()) } else { Err(error) }
}
