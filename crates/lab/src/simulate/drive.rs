//! A conventional drive: a page-mapped translation layer over flash, without contents.
//!
//! What a cache that runs on a common drive sees from outside. Pages of the logical drive are
//! striped over the channels (`page % channels`), as Shen's dissertation has it (section 2.6).
//! Each channel fills one block at a time with what is written and what is copied. If no free block
//! but one is left, a victim's valid pages are copied and it is erased.

use std::collections::VecDeque;

use silica_base::Result;

use super::{SIZE_MAX, config};

/// No page.
const NOWHERE: u32 = u32::MAX;

/// Which block is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// The one with the fewest valid pages.
    Greedy,
    /// The one that was filled first.
    Fifo,
}

/// How a drive is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveDesign {
    /// Channels, which work side by side.
    pub channels: u32,
    /// Blocks of all channels together; a multiple of the channels.
    pub blocks: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Pages that the host sees. The rest is over-provisioned.
    pub logical: u32,
    /// Which block is collected.
    pub collection: Collection,
    /// Pages of the write-back buffer; a page that is written again while it is in there is
    /// programmed once.
    pub buffer: u32,
    /// How long a channel programs a page, in nanoseconds. A copy takes as long: the next page is
    /// read meanwhile, which is how the dissertation counts it (eq. 2.6).
    pub program_ns: u64,
    /// How long a channel erases a block, in nanoseconds.
    pub erase_ns: u64,
}

/// What a drive did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveCounts {
    /// Pages that the host wrote.
    pub written: u64,
    /// Pages programmed, copies included.
    pub programs: u64,
    /// Valid pages copied by collections.
    pub copies: u64,
    /// Blocks erased.
    pub erases: u64,
}

/// The drive. Time is virtual: each channel is busy until a moment of its own.
#[derive(Debug)]
pub struct Drive {
    design: DriveDesign,
    /// Where each logical page lies, and what each physical page has.
    places: Vec<u32>,
    owners: Vec<u32>,
    /// Valid pages of each block, and where it stands in its channel's list of that number.
    valid: Vec<u32>,
    at: Vec<u32>,
    channels: Vec<Channel>,
    /// Logical pages that wait in the buffer, the oldest first, and which they are.
    buffer: VecDeque<u32>,
    is_buffered: Vec<bool>,
    erases: Vec<u32>,
    counts: DriveCounts,
}

#[derive(Debug)]
struct Channel {
    free: VecDeque<u32>,
    /// The block that is filled, and how many of its pages are.
    open: u32,
    taken: u32,
    /// Full blocks, the first filled first; for [`Collection::Fifo`].
    filled: VecDeque<u32>,
    /// Full blocks by valid pages; for [`Collection::Greedy`].
    by_valid: Vec<Vec<u32>>,
    /// No list below this one has a block.
    least: usize,
    busy_until_ns: u64,
}

impl Drive {
    /// An empty drive.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for sizes of 0, blocks that do not fit
    /// the channels, and too little over-provisioning: a channel keeps a block free, and one page
    /// of the others has to be invalid if anything is to be gained by a collection.
    pub fn new(design: DriveDesign) -> Result<Self> {
        let DriveDesign { channels, blocks, pages, logical, .. } = design;
        if channels == 0 || pages == 0 || logical == 0 {
            return Err(config("a drive has at least 1 channel, 1 page a block, 1 logical page"));
        }
        if !blocks.is_multiple_of(channels) || blocks / channels < 3 {
            let text = format!("{blocks} blocks do not make 3 or more in each of {channels}");
            return Err(config(format!(
                "{text} channels: give a multiple, at least 3 times as many"
            )));
        }
        let each = u64::from(blocks / channels);
        let most = (each - 1) * u64::from(pages) - 1;
        if u64::from(logical.div_ceil(channels)) > most {
            return Err(config(format!(
                "a channel of {each} blocks of {pages} pages holds {most} logical pages at most, \
                 not {}: leave more over-provisioned space",
                logical.div_ceil(channels)
            )));
        }
        if f64::from(blocks) * f64::from(pages) >= SIZE_MAX {
            return Err(config("a simulated drive has fewer than 2^32 pages: make it smaller"));
        }
        let channel = |channel: u32| {
            let from = channel * each as u32;
            Channel {
                free: (from + 1..from + each as u32).collect(),
                open: from,
                taken: 0,
                filled: VecDeque::new(),
                by_valid: vec![Vec::new(); pages as usize + 1],
                least: 0,
                busy_until_ns: 0,
            }
        };
        Ok(Drive {
            design,
            places: vec![NOWHERE; logical as usize],
            owners: vec![NOWHERE; (blocks * pages) as usize],
            valid: vec![0; blocks as usize],
            at: vec![NOWHERE; blocks as usize],
            channels: (0..channels).map(channel).collect(),
            buffer: VecDeque::new(),
            is_buffered: vec![false; logical as usize],
            erases: vec![0; blocks as usize],
            counts: DriveCounts::default(),
        })
    }

    /// How it is built.
    pub fn design(&self) -> &DriveDesign {
        &self.design
    }

    /// What it did so far.
    pub fn counts(&self) -> DriveCounts {
        self.counts
    }

    /// Erases of each block.
    pub fn block_erases(&self) -> &[u32] {
        &self.erases
    }

    /// Writes a logical page at `now_ns`; when the drive has taken it: at once if the buffer has
    /// room, else when the page that leaves the buffer is programmed.
    ///
    /// # Panics
    /// If the drive does not have this page.
    pub fn write(&mut self, page: u32, now_ns: u64) -> u64 {
        self.counts.written += 1;
        if self.design.buffer == 0 {
            return self.program(page, now_ns);
        }
        if self.is_buffered[page as usize] {
            return now_ns;
        }
        self.is_buffered[page as usize] = true;
        self.buffer.push_back(page);
        if self.buffer.len() <= self.design.buffer as usize {
            return now_ns;
        }
        self.drain_one(now_ns)
    }

    /// Programs all that waits in the buffer; when that is done.
    pub fn flush(&mut self, now_ns: u64) -> u64 {
        let mut end_ns = now_ns;
        while !self.buffer.is_empty() {
            end_ns = end_ns.max(self.drain_one(now_ns));
        }
        end_ns
    }

    fn drain_one(&mut self, now_ns: u64) -> u64 {
        let page = self.buffer.pop_front().expect("the buffer has a page");
        // What was trimmed meanwhile is not programmed.
        if !std::mem::take(&mut self.is_buffered[page as usize]) {
            return now_ns;
        }
        self.program(page, now_ns)
    }

    /// Says that the host does not need a page any more.
    ///
    /// # Panics
    /// If the drive does not have this page.
    pub fn trim(&mut self, page: u32) {
        if std::mem::take(&mut self.is_buffered[page as usize]) {
            self.buffer.retain(|other| *other != page);
        }
        self.invalidate(page);
    }

    /// When all that it began is done, in nanoseconds.
    pub fn idle_from_ns(&self) -> u64 {
        self.channels.iter().map(|channel| channel.busy_until_ns).max().unwrap_or(0)
    }

    /// Occupies the page's channel for `ns` from `now_ns` on, as a read does; when that ends.
    pub fn occupy(&mut self, page: u32, now_ns: u64, ns: u64) -> u64 {
        let channel = &mut self.channels[(page % self.design.channels) as usize];
        channel.busy_until_ns = channel.busy_until_ns.max(now_ns) + ns;
        channel.busy_until_ns
    }

    fn program(&mut self, page: u32, now_ns: u64) -> u64 {
        self.invalidate(page);
        let channel = (page % self.design.channels) as usize;
        let busy = &mut self.channels[channel].busy_until_ns;
        *busy = now_ns.max(*busy);
        while self.channels[channel].taken == self.design.pages {
            self.next_block(channel);
        }
        self.append(channel, page);
        self.channels[channel].busy_until_ns
    }

    /// Puts a page into the open block of a channel, which has room.
    fn append(&mut self, channel: usize, page: u32) {
        let open = &mut self.channels[channel];
        let place = open.open * self.design.pages + open.taken;
        open.taken += 1;
        open.busy_until_ns += self.design.program_ns;
        self.valid[open.open as usize] += 1;
        self.places[page as usize] = place;
        self.owners[place as usize] = page;
        self.counts.programs += 1;
    }

    fn invalidate(&mut self, page: u32) {
        let place = std::mem::replace(&mut self.places[page as usize], NOWHERE);
        if place == NOWHERE {
            return;
        }
        self.owners[place as usize] = NOWHERE;
        let block = place / self.design.pages;
        let is_listed = self.unlist(block);
        self.valid[block as usize] -= 1;
        if is_listed {
            self.list(block);
        }
    }

    fn channel_of(&self, block: u32) -> usize {
        (block / (self.design.blocks / self.design.channels)) as usize
    }

    /// Enters a full block by its valid pages.
    fn list(&mut self, block: u32) {
        let valid = self.valid[block as usize] as usize;
        let channel = self.channel_of(block);
        let channel = &mut self.channels[channel];
        self.at[block as usize] = channel.by_valid[valid].len() as u32;
        channel.by_valid[valid].push(block);
        channel.least = channel.least.min(valid);
    }

    /// Takes a block off its list; false if it was on none.
    fn unlist(&mut self, block: u32) -> bool {
        let at = std::mem::replace(&mut self.at[block as usize], NOWHERE);
        if at == NOWHERE {
            return false;
        }
        let channel = self.channel_of(block);
        let list = &mut self.channels[channel].by_valid[self.valid[block as usize] as usize];
        list.swap_remove(at as usize);
        if let Some(moved) = list.get(at as usize) {
            self.at[*moved as usize] = at;
        }
        true
    }

    /// Opens the free block of a channel, and collects until there is another one.
    fn next_block(&mut self, channel: usize) {
        let full = self.channels[channel].open;
        match self.design.collection {
            Collection::Greedy => self.list(full),
            Collection::Fifo => self.channels[channel].filled.push_back(full),
        }
        let open = &mut self.channels[channel];
        open.open = open.free.pop_front().expect("collections leave a free block");
        open.taken = 0;
        if open.free.is_empty() {
            self.collect(channel);
        }
    }

    /// Copies a victim's valid pages to the open block, which is empty, and erases it.
    fn collect(&mut self, channel: usize) {
        let victim = self.victim(channel);
        self.unlist(victim);
        let pages = self.design.pages;
        for place in victim * pages..(victim + 1) * pages {
            let page = std::mem::replace(&mut self.owners[place as usize], NOWHERE);
            if page != NOWHERE {
                self.append(channel, page);
                self.counts.copies += 1;
            }
        }
        self.valid[victim as usize] = 0;
        self.counts.erases += 1;
        self.erases[victim as usize] += 1;
        let channel = &mut self.channels[channel];
        channel.busy_until_ns += self.design.erase_ns;
        channel.free.push_back(victim);
    }

    fn victim(&mut self, channel: usize) -> u32 {
        let channel = &mut self.channels[channel];
        match self.design.collection {
            Collection::Fifo => channel.filled.pop_front().expect("a channel has full blocks"),
            Collection::Greedy => loop {
                if let Some(block) = channel.by_valid[channel.least].last() {
                    return *block;
                }
                channel.least += 1;
            },
        }
    }
}
