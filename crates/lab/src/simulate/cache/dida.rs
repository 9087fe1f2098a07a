//! DIDACache over the flash itself.

use std::collections::VecDeque;

use silica_base::{Histogram, Result};

use super::super::config;
use super::fatcache::DROP_SHARE;
use super::items::{Items, Packing};
use super::reserve::{Reserve, Watermarks};
use super::{Cache, CacheCounts, CacheTimes, Drain};

/// No slab.
const NOWHERE: u32 = u32::MAX;

/// The flash below the cache. A slab is a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DidaFlash {
    /// Channels.
    pub channels: u32,
    /// LUNs of each channel. Each writes or erases one block at a time; that LUNs of a channel
    /// share its bus is left out.
    pub luns: u32,
    /// Blocks of the whole device, dealt to the LUNs in turn.
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Time to program a block, in nanoseconds.
    pub write_ns: u64,
    /// Time to read a page, in nanoseconds.
    pub read_ns: u64,
    /// Time to erase a block, in nanoseconds.
    pub erase_ns: u64,
}

/// How slabs are reclaimed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reclaim {
    /// Space-based only: the slab with the fewest valid bytes, whose items are copied, as soon as
    /// fewer slabs are free than the high watermark. SETs wait for it.
    Space,
    /// Locality-based only: the slab used longest ago is dropped, below the low watermark.
    Locality,
    /// Both: space-based between the watermarks, as far as the collector keeps up. Locality-based
    /// below the low one.
    Both {
        /// Time that the collector takes for a slab whose items are copied, in nanoseconds: the
        /// period of its timer.
        clean_ns: u64,
    },
}

/// Levelling of wear: when blocks were erased `rounds` times each on average since the last time,
/// those with less than half of the mean erases are reclaimed. Items that are read more than others
/// are copied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WearLevelling {
    /// Erases by blocks (m; 2 in the dissertation).
    pub rounds: f64,
}

/// How the cache works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DidaOptions {
    /// How slabs are reclaimed.
    pub reclaim: Reclaim,
    /// The low watermark.
    pub reserve: Reserve,
    /// Share of the slabs between the two watermarks (0.15 in the dissertation).
    pub between: f64,
    /// How items lie in a slab.
    pub packing: Packing,
    /// Whether wear is levelled.
    pub wear: Option<WearLevelling>,
    /// Full slabs that memory has room for while they are written.
    pub buffer_slabs: usize,
    /// Times of the host.
    pub times: CacheTimes,
}

#[derive(Debug, Default)]
struct Channel {
    free: Vec<u32>,
    full: Vec<u32>,
    /// Time of all that it was given to do: its load.
    given_ns: u64,
}

/// DIDACache (Shen's dissertation, section 2.4.1), with items of all sizes and channels.
#[derive(Debug)]
pub struct Dida {
    flash: DidaFlash,
    options: DidaOptions,
    items: Items,
    marks: Watermarks,
    channels: Vec<Channel>,
    free: usize,
    /// Slab and erases of each block.
    slabs: Vec<u32>,
    erases: Vec<u32>,
    lun_free_ns: Vec<u64>,
    /// Slabs in memory that are full and not written yet.
    waiting: VecDeque<u32>,
    drain: Drain,
    /// Time that the collector may still spend, and since when it has more, in nanoseconds.
    budget_ns: u64,
    budget_from_ns: u64,
    erases_levelled: u64,
    now_ns: u64,
    counts: CacheCounts,
    set_latency: Histogram,
}

impl Dida {
    /// An empty cache for keys below `keys`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for flash without channels or LUNs, or
    /// with fewer than two blocks in each channel.
    pub fn new(keys: u32, flash: DidaFlash, options: DidaOptions) -> Result<Self> {
        if flash.channels == 0 || flash.luns == 0 || flash.blocks < 2 * flash.channels {
            return Err(config(format!(
                "a cache has channels with LUNs and 2 blocks or more, not {} of {} with {} in all",
                flash.channels, flash.luns, flash.blocks
            )));
        }
        let mut channels: Vec<Channel> = Vec::new();
        channels.resize_with(flash.channels as usize, Channel::default);
        for block in 0..flash.blocks {
            channels[(block % flash.channels) as usize].free.push(block);
        }
        Ok(Dida {
            flash,
            options,
            items: Items::new(keys, flash.block_bytes, options.packing),
            marks: Watermarks::new(options.reserve, flash.blocks, options.between),
            channels,
            free: flash.blocks as usize,
            slabs: vec![NOWHERE; flash.blocks as usize],
            erases: vec![0; flash.blocks as usize],
            lun_free_ns: vec![0; (flash.channels * flash.luns) as usize],
            waiting: VecDeque::new(),
            drain: Drain::new(options.buffer_slabs),
            budget_ns: 0,
            budget_from_ns: 0,
            erases_levelled: 0,
            now_ns: 0,
            counts: CacheCounts::default(),
            set_latency: Histogram::default(),
        })
    }

    /// Erases of each block.
    pub fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// Share of the slabs that is free.
    pub fn free_share(&self) -> f64 {
        self.free as f64 / f64::from(self.flash.blocks)
    }

    /// Share of the slabs that the low watermark keeps free.
    pub fn reserved_share(&self) -> f64 {
        self.marks.low() as f64 / f64::from(self.flash.blocks)
    }

    /// Writes a slab that SETs filled, then reclaims what has to be.
    fn flush(&mut self, full: u32) {
        if let Reclaim::Both { clean_ns } = self.options.reclaim {
            // A collector without work saves up no more than a slab.
            let since_ns = self.now_ns - self.budget_from_ns;
            self.budget_ns = self.budget_ns.min(clean_ns) + since_ns;
            self.budget_from_ns = self.now_ns;
        }
        self.waiting.push_back(full);
        let end_ns = self.write_waiting();
        self.now_ns = self.drain.add(self.now_ns, end_ns);
        self.marks.filled(self.now_ns, self.free);
        self.keep_free();
        self.level_wear();
    }

    /// Writes all that waits; when the first of it is done.
    fn write_waiting(&mut self) -> u64 {
        let mut first_ns = None;
        while let Some(slab) = self.waiting.pop_front() {
            while self.free == 0 {
                match self.options.reclaim {
                    Reclaim::Space => self.clean(),
                    Reclaim::Locality | Reclaim::Both { .. } => self.drop_oldest(),
                }
            }
            let end_ns = self.write(slab);
            first_ns = first_ns.or(Some(end_ns));
        }
        first_ns.unwrap_or(self.now_ns)
    }

    /// Writes a slab to the least erased free block of the least loaded channel; when that is done.
    fn write(&mut self, slab: u32) -> u64 {
        let channel = self.least_loaded(|channel| !channel.free.is_empty());
        let channel = &mut self.channels[channel];
        let erases = |at: &usize| self.erases[channel.free[*at] as usize];
        let at = (0..channel.free.len()).min_by_key(erases).expect("the channel has a free block");
        let block = channel.free.swap_remove(at);
        channel.full.push(block);
        channel.given_ns += self.flash.write_ns;
        self.free -= 1;
        self.slabs[block as usize] = slab;
        self.counts.written += 1;
        self.occupy(block, self.flash.write_ns)
    }

    /// Occupies the LUN of a block; when that ends.
    fn occupy(&mut self, block: u32, ns: u64) -> u64 {
        let luns = self.flash.channels * self.flash.luns;
        let free_ns = &mut self.lun_free_ns[(block % luns) as usize];
        *free_ns = self.now_ns.max(*free_ns) + ns;
        *free_ns
    }

    fn least_loaded(&self, is_fit: impl Fn(&Channel) -> bool) -> usize {
        let fit = self.channels.iter().enumerate().filter(|(_, channel)| is_fit(channel));
        fit.min_by_key(|(_, channel)| channel.given_ns).expect("a channel has such blocks").0
    }

    /// Reclaims until the watermarks are kept, as far as the collector does.
    fn keep_free(&mut self) {
        loop {
            let is_low = self.free < self.marks.low();
            let is_under = self.free < self.marks.high();
            match self.options.reclaim {
                Reclaim::Locality | Reclaim::Both { .. } if is_low => self.drop_oldest(),
                Reclaim::Space if is_under => self.clean(),
                Reclaim::Both { clean_ns } if is_under && self.budget_ns >= clean_ns => {
                    self.budget_ns -= clean_ns;
                    self.clean();
                }
                _ => break,
            }
            self.write_waiting();
        }
    }

    /// Space-based eviction: copies the valid items of the slab of the least loaded channel that
    /// has the fewest valid bytes. If that is nearly full of valid ones, the slab used longest ago
    /// is dropped instead.
    fn clean(&mut self) {
        let channel = self.least_loaded(|channel| !channel.full.is_empty());
        let full = &self.channels[channel].full;
        let valid = |at: &usize| {
            let slab = self.slabs[full[*at] as usize];
            self.items.slabs[slab as usize].valid
        };
        let at = (0..full.len()).min_by_key(valid).expect("the channel has a full block");
        if self.items.valid_share(self.slabs[full[at] as usize]) > DROP_SHARE {
            self.drop_oldest();
        } else {
            self.reclaim(channel, at, true);
        }
    }

    /// Locality-based eviction: drops the slab of the least loaded channel that was used longest
    /// ago.
    fn drop_oldest(&mut self) {
        let channel = self.least_loaded(|channel| !channel.full.is_empty());
        let full = &self.channels[channel].full;
        let touched = |at: &usize| {
            let slab = self.slabs[full[*at] as usize];
            self.items.slabs[slab as usize].touched
        };
        let at = (0..full.len()).min_by_key(touched).expect("the channel has a full block");
        self.reclaim(channel, at, false);
    }

    /// Frees a full block of a channel. Returns the bytes that were copied.
    fn reclaim(&mut self, channel: usize, at: usize, copies: bool) -> u64 {
        let block = self.channels[channel].full.swap_remove(at);
        let slab = std::mem::replace(&mut self.slabs[block as usize], NOWHERE);
        let entries = self.items.take(slab);
        let mut copied = 0;
        let mut took_ns = self.flash.erase_ns;
        if copies {
            // A page is read for each item, until all pages are.
            let pages = self.flash.block_bytes >> 14;
            took_ns += (entries.len() as u64).min(pages.max(1)) * self.flash.read_ns;
            for (key, bytes) in entries {
                copied += u64::from(bytes);
                self.waiting.extend(self.items.insert(key, bytes));
            }
        } else {
            self.counts.dropped += entries.len() as u64;
        }
        self.counts.copied_bytes += copied;
        self.counts.reclaimed += 1;
        self.counts.erases += 1;
        self.erases[block as usize] += 1;
        self.channels[channel].given_ns += took_ns;
        self.occupy(block, took_ns);
        self.channels[channel].free.push(block);
        self.free += 1;
        copied
    }

    /// Reclaims blocks that were erased seldom, if it is time for that.
    fn level_wear(&mut self) {
        let Some(WearLevelling { rounds }) = self.options.wear else { return };
        let blocks = f64::from(self.flash.blocks);
        if ((self.counts.erases - self.erases_levelled) as f64) < rounds * blocks {
            return;
        }
        let mean = self.counts.erases as f64 / blocks;
        let full: usize = self.channels.iter().map(|channel| channel.full.len()).sum();
        let gets: u64 = self.items.slabs.iter().map(|slab| slab.gets).sum();
        let gets_mean = gets as f64 / full.max(1) as f64;
        for channel in 0..self.channels.len() {
            let mut at = 0;
            while let Some(block) = self.channels[channel].full.get(at).copied() {
                if f64::from(self.erases[block as usize]) >= 0.5 * mean {
                    at += 1;
                    continue;
                }
                let slab = &self.items.slabs[self.slabs[block as usize] as usize];
                let is_active = slab.gets as f64 >= gets_mean;
                self.counts.wear_copied_bytes += self.reclaim(channel, at, is_active);
                self.counts.wear_erases += 1;
            }
        }
        self.write_waiting();
        self.erases_levelled = self.counts.erases;
    }
}

impl Cache for Dida {
    fn set(&mut self, key: u32, bytes: u32) {
        let start_ns = self.now_ns;
        self.now_ns += self.options.times.store_ns;
        self.items.clock += 1;
        self.counts.sets += 1;
        self.counts.set_bytes += u64::from(bytes);
        if let Some(full) = self.items.insert(key, bytes) {
            self.flush(full);
        }
        self.set_latency.record(self.now_ns - start_ns);
        self.now_ns = self.now_ns.max(start_ns + self.options.times.interval_ns);
    }

    fn get(&mut self, key: u32) -> bool {
        self.now_ns += self.options.times.interval_ns;
        self.items.clock += 1;
        self.counts.gets += 1;
        let is_there = self.items.find(key);
        self.counts.hits += u64::from(is_there);
        is_there
    }

    fn delete(&mut self, key: u32) {
        self.now_ns += self.options.times.interval_ns;
        self.items.remove(key);
    }

    fn block_erases(&self) -> Vec<u32> {
        self.erases.clone()
    }

    fn counts(&self) -> CacheCounts {
        self.counts
    }

    fn set_interval_ns(&mut self, interval_ns: u64) {
        self.options.times.interval_ns = interval_ns;
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn set_latency(&self) -> &Histogram {
        &self.set_latency
    }
}
