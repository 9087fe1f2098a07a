//! Opening: what segments' heads say, and what a crash left half done.

use super::*;
use silica_base::AlignedBuf;

/// A segment that was found: head, first page, entries.
pub(super) type Found = (Head, u32, Vec<Entry>);

/// The newest item of a hash.
#[derive(Clone, Copy)]
struct Newest {
    sequence: u64,
    spot: Spot,
    bytes: u32,
}

impl<D: FlashDevice> KeyValues<D> {
    /// Opens the store that lies in the blocks that the function level found, or begins one if
    /// there are none. Reads heads and summaries of all segments, and all of those that may not
    /// have been synced. Blocks that a crash left without a whole segment are given back. Sets an
    /// over-provisioning of two blocks if there is less. If a torn segment makes it necessary to
    /// write items anew and no block is left for them, evicts the oldest ones.
    ///
    /// Two keys whose hashes have the same lower 64 bits (one pair in 10⁹ keys at 3 %) are
    /// told apart until the store is closed; afterwards only the one put last is there.
    ///
    /// # Errors
    /// `Config` if a block holds something else; `Unsupported` for another version; what the device
    /// said.
    pub fn open(functions: Functions<D>, options: KvOptions) -> Result<Self> {
        let geometry = *functions.geometry();
        let page_bytes = geometry.page_bytes as usize;
        let capacity = |block| functions.block(block).map(|status| status.capacity);
        let capacities = geometry.all_blocks().filter_map(|block| capacity(block).ok());
        let block_pages = capacities.min().unwrap_or(geometry.pages);
        if geometry.block_bytes() > u64::from(u32::MAX >> 1) {
            let message = format!("blocks of {geometry} are too large for items; use up to 2 GiB");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut store = KeyValues {
            functions,
            options,
            index: Index::new(),
            buffer: Buffer::default(),
            current: None,
            blocks: BTreeMap::new(),
            sequence: 1,
            synced: 0,
            parting: Vec::new(),
            floor: 0,
            owes_floor: false,
            is_opening: true,
            page_bytes,
            block_pages,
            statistics: KvStatistics::default(),
        };
        let mut found: Vec<(BlockAddress, Vec<Found>)> = Vec::new();
        for block in store.functions.found() {
            let (segments, is_strange) = store.segments(block)?;
            if is_strange {
                let message = format!(
                    "{block} holds pages of something else than the key-value store {}; open what \
                     wrote it, or erase it",
                    options.store
                );
                return Err(Error::new(ErrorKind::Config, message));
            }
            match segments.is_empty() {
                true => store.functions.trim(block)?,
                false => found.push((block, segments)),
            }
        }
        let heads = || found.iter().flat_map(|(_, segments)| segments).map(|(head, ..)| head);
        store.sequence = heads().map(|head| head.sequence).max().unwrap_or(0) + 1;
        store.synced = heads().map(|head| head.synced).max().unwrap_or(0);
        let torn = store.drop_torn(&mut found)?;
        let heads = found.iter().flat_map(|(block, segments)| {
            segments.iter().map(move |(head, ..)| (head.floor, head.sequence, *block))
        });
        let (floor, _, holder) = heads.max().unwrap_or_default();
        store.floor = floor;
        store.adopt(found, holder)?;
        // Those of which nothing counts are given back already, and may be in use again.
        let is_there =
            |block: &&BlockAddress| store.blocks.contains_key(&geometry.index_of(**block));
        let to_evacuate: Vec<BlockAddress> = torn.iter().filter(is_there).copied().collect();
        for block in to_evacuate {
            store.evacuate_somewhere(block)?;
        }
        if !torn.is_empty() {
            store.functions.erase_pending(u32::MAX)?;
        }
        // If too few blocks are left, evictions make room before the next block is written.
        let _ = store.keep_reserve();
        store.is_opening = false;
        store.sync()?;
        Ok(store)
    }

    /// The segments of a block up to the first that is not whole; true if it begins with something
    /// that is no segment of this store.
    pub(super) fn segments(&self, block: BlockAddress) -> Result<(Vec<Found>, bool)> {
        let status = self.functions.block(block)?;
        let mut segments = Vec::new();
        let mut page = 0;
        while page < status.written {
            let Some(first) = self.read_pages(block, page, 1)? else { break };
            let head = Head::of(&first)?.filter(|head| head.store == self.options.store);
            let Some(head) = head else {
                let is_strange = page == 0 && first.iter().any(|byte| *byte != 0);
                return Ok((segments, is_strange));
            };
            let bytes = HEAD_BYTES as u64 + u64::from(head.entries) * ENTRY_BYTES as u64;
            let fits = u64::from(page) + u64::from(head.pages) <= u64::from(status.written)
                && bytes <= u64::from(head.pages) * self.page_bytes as u64;
            if !fits {
                break;
            }
            let pages = head.bytes().div_ceil(self.page_bytes) as u32;
            let Some(summary) = self.read_pages(block, page, pages)? else { break };
            let summary = &summary[..head.bytes()];
            if !head.is_valid(summary, self.page_bytes) {
                break;
            }
            segments.push((head, page, segment::entries(summary)));
            page += head.pages;
        }
        Ok((segments, false))
    }

    /// Reads pages; `None` if one cannot be read.
    fn read_pages(
        &self,
        block: BlockAddress,
        first: u32,
        count: u32,
    ) -> Result<Option<AlignedBuf>> {
        let mut pages = AlignedBuf::zeroed(count as usize * self.page_bytes);
        match self.functions.read(block.page(first), &mut pages, &mut []) {
            Ok(()) => Ok(Some(pages)),
            Err(error) if error.fault() == FlashFault::Uncorrectable => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Drops segments that are not all there, and those behind them. Returns the blocks that had
    /// some.
    fn drop_torn(&self, found: &mut [(BlockAddress, Vec<Found>)]) -> Result<Vec<BlockAddress>> {
        let mut torn = Vec::new();
        for (block, segments) in found {
            // A bad block could not be erased perhaps, with a torn segment that is older.
            let is_bad = self.functions.block(*block)?.state == BlockState::Bad;
            for at in 0..segments.len() {
                let (head, first, entries) = &segments[at];
                let is_unsure = is_bad || head.sequence > self.synced;
                if is_unsure && !self.is_whole(*block, head, *first, entries)? {
                    segments.truncate(at);
                    torn.push(*block);
                    break;
                }
            }
        }
        Ok(torn)
    }

    fn is_whole(
        &self,
        block: BlockAddress,
        head: &Head,
        first: u32,
        entries: &[Entry],
    ) -> Result<bool> {
        let Some(pages) = self.read_pages(block, first, head.pages)? else { return Ok(false) };
        Ok(entries.iter().all(|entry| match *entry {
            Entry::Tombstone { .. } => true,
            Entry::Item { offset, bytes, .. } => {
                let item = pages.get(offset as usize..).and_then(|rest| rest.get(..bytes as usize));
                item.is_some_and(|item| {
                    item.len() >= ITEM_HEAD_BYTES && segment::is_whole(self.options.store, item)
                })
            }
        }))
    }

    /// Makes found segments the store's, in the order in which they were written. `holder` has the
    /// segment with the highest floor, and stays.
    fn adopt(
        &mut self,
        found: Vec<(BlockAddress, Vec<Found>)>,
        holder: BlockAddress,
    ) -> Result<()> {
        let mut in_order: Vec<(u64, u32, u32, Vec<Entry>)> = Vec::new();
        // The tombstones of each block.
        let mut of_block: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for (block, segments) in found {
            let sequences = || segments.iter().map(|(head, ..)| head.sequence);
            if sequences().max().is_some_and(|last| last < self.floor) {
                self.functions.trim(block)?;
                continue;
            }
            let number = self.functions.geometry().index_of(block);
            self.functions.claim(block, Mapping::Page)?;
            if self.functions.block(block)?.state == BlockState::Open {
                self.functions.finish(block).or_else(unless_bad)?;
            }
            let (first, last) = (sequences().min().unwrap_or(0), sequences().max().unwrap_or(0));
            self.blocks.insert(number, Info { first, last, ..Info::default() });
            of_block.insert(number, Vec::new());
            in_order.extend(
                segments.into_iter().map(|(head, page, e)| (head.sequence, number, page, e)),
            );
        }
        in_order.sort_unstable_by_key(|(sequence, ..)| *sequence);
        let mut newest: BTreeMap<u64, Newest> = BTreeMap::new();
        // By tombstone the newest segment that has it.
        let mut tombstones: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (sequence, number, page, entries) in in_order {
            for entry in entries {
                match entry {
                    Entry::Item { hash, offset, bytes } => {
                        let offset = page * self.page_bytes as u32 + offset;
                        let spot = Spot { block: number, offset };
                        newest.insert(hash, Newest { sequence, spot, bytes });
                        let info = self.blocks.get_mut(&number).expect("its block was entered");
                        info.bytes_written += u64::from(bytes);
                    }
                    Entry::Tombstone { hash, last } => {
                        tombstones.insert((hash, last), sequence);
                        of_block.entry(number).or_default().push((hash, last));
                        if newest.get(&hash).is_some_and(|newest| newest.sequence <= last) {
                            newest.remove(&hash);
                        }
                    }
                }
            }
        }
        for (hash, Newest { spot, bytes, .. }) in newest {
            self.index.insert(hash, spot);
            let info = self.blocks.get_mut(&spot.block).expect("its block was entered");
            info.items += 1;
            info.bytes += u64::from(bytes);
        }
        of_block.remove(&self.functions.geometry().index_of(holder));
        self.release_dead(&tombstones, &of_block)
    }

    /// Gives back blocks of which nothing counts: no item, and no tombstone that a newer block does
    /// not have, too. Blocks that were evicted and not erased are among them.
    fn release_dead(
        &mut self,
        tombstones: &BTreeMap<(u64, u64), u64>,
        of_block: &BTreeMap<u32, Vec<(u64, u64)>>,
    ) -> Result<()> {
        for (number, own) in of_block {
            let info = self.blocks[number];
            let is_elsewhere = |tombstone| tombstones[tombstone] > info.last;
            if info.items == 0 && own.iter().all(is_elsewhere) {
                self.blocks.remove(number);
                self.functions.trim(self.functions.geometry().block_at(*number))?;
            }
        }
        Ok(())
    }

    /// Evacuates a block; evicts the oldest ones if there is no room.
    fn evacuate_somewhere(&mut self, block: BlockAddress) -> Result<()> {
        loop {
            match self.evacuate(block) {
                Err(error) if error.kind() == ErrorKind::Full => {
                    let oldest = self.blocks().find(|other| other.block != block);
                    let evicted = self.evict(oldest.ok_or(error)?.block)?;
                    self.statistics.evicted_at_opening += u64::from(evicted.items);
                }
                result => return result,
            }
        }
    }

    /// Writes what counts of a block with a torn segment anew, and gives the block back.
    fn evacuate(&mut self, block: BlockAddress) -> Result<()> {
        let number = self.functions.geometry().index_of(block);
        let Some(info) = self.blocks.get(&number).copied() else { return Ok(()) };
        let mut item = Vec::new();
        for (head, first, entries) in self.segments(block)?.0 {
            // Behind the torn segment nothing was adopted.
            for entry in entries.iter().filter(|_| head.sequence <= info.last) {
                match *entry {
                    Entry::Item { hash, offset, bytes } => {
                        let offset = first * self.page_bytes as u32 + offset;
                        let spot = Spot { block: number, offset };
                        if self.index.candidates(hash).any(|candidate| candidate == spot) {
                            self.load(spot, &mut item)?;
                            let key_bytes = ItemHead::of(&item).key_bytes;
                            self.make_room(bytes as usize, true)?;
                            let (key, value) = item[ITEM_HEAD_BYTES..].split_at(key_bytes);
                            let at = self.buffer.push(self.options.store, hash, key, value);
                            self.index.move_to(hash, spot, Spot { block: BUFFER, offset: at });
                        }
                    }
                    Entry::Tombstone { .. } => {
                        self.make_room(0, true)?;
                        self.buffer.entries.push(*entry);
                    }
                }
            }
        }
        self.write_buffer(true)?;
        self.sync()?;
        self.blocks.remove(&number);
        Ok(self.functions.trim(block)?)
    }
}
