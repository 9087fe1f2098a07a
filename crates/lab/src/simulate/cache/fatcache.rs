//! Fatcache: slabs in a file on a conventional drive.

use std::collections::VecDeque;

use silica_base::{Histogram, Result};

use super::super::{Drive, DriveCounts, DriveDesign, config};
use super::items::{Items, Packing};
use super::{Cache, CacheCounts, CacheTimes, Drain};

/// Which slab is reclaimed, and what becomes of its valid items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// The one with the fewest valid bytes; items are copied.
    Greedy,
    /// The one with the fewest valid bytes; items are dropped.
    Kick,
    /// The one that was written first; items are copied.
    Fifo,
    /// The one that was written first; items are dropped. The stock Fatcache evicts so, and so does
    /// any cache whose keys do not fit.
    Oldest,
}

/// What lies below the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// A drive that maps pages. Its logical pages are the cache's slabs.
    Pages(DriveDesign),
    /// Each slab is one erase block, so the device moves nothing (Fatcache-Policy of Table 3.1).
    Blocks {
        /// Time to write a slab, in nanoseconds.
        write_ns: u64,
        /// Time to erase one, in nanoseconds.
        erase_ns: u64,
    },
}

/// How Fatcache is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FatcacheDesign {
    /// Slabs on flash: what is left of it after the reserve.
    pub slabs: u32,
    /// Bytes of a slab.
    pub slab_bytes: u64,
    /// Flash pages of a slab.
    pub pages: u32,
    /// Which slab is reclaimed.
    pub victims: Victims,
    /// How items lie in a slab.
    pub packing: Packing,
    /// What lies below.
    pub mapping: Mapping,
    /// Full slabs that memory has room for while they are written: 0 is the stock, synchronous
    /// Fatcache, whose SETs wait for writes and reclaims; more is the asynchronous one.
    pub buffer_slabs: usize,
    /// Time to read a flash page, in nanoseconds.
    pub read_ns: u64,
    /// Times of the host.
    pub times: CacheTimes,
}

/// A victim with this share of valid bytes is dropped: to copy it would gain next to nothing, and a
/// cache that is full of valid items must lose some.
pub(super) const DROP_SHARE: f64 = 0.95;

/// Fatcache, with copies and drops as Shen's dissertation has it (section 2.5.4).
#[derive(Debug)]
pub struct Fatcache {
    design: FatcacheDesign,
    items: Items,
    drive: Option<Drive>,
    /// Slabs on flash, the first written first, with the place of each.
    filled: VecDeque<(u32, u32)>,
    free: VecDeque<u32>,
    /// Erases of each block: of the drive's before the cache was there, of all without a drive.
    erases: Vec<u32>,
    /// What the drive did before the cache was there.
    drive_before: DriveCounts,
    drain: Drain,
    now_ns: u64,
    /// When the thread that writes and reclaims is done.
    worker_ns: u64,
    counts: CacheCounts,
    set_latency: Histogram,
}

impl Fatcache {
    /// An empty cache for keys below `keys`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for fewer than 2 slabs, a drive with
    /// other pages than the slabs have, and what [`Drive::new`] refuses.
    pub fn new(keys: u32, design: FatcacheDesign) -> Result<Self> {
        let FatcacheDesign { slabs, pages, slab_bytes, packing, .. } = design;
        if slabs < 2 {
            return Err(config(format!("a cache has at least 2 slabs on flash, not {slabs}")));
        }
        let drive = match design.mapping {
            Mapping::Blocks { .. } => None,
            Mapping::Pages(drive) if drive.logical == slabs * pages => {
                Some(used_before(Drive::new(drive)?))
            }
            Mapping::Pages(drive) => {
                return Err(config(format!(
                    "{slabs} slabs of {pages} pages are not the {} pages of the drive",
                    drive.logical
                )));
            }
        };
        let drive_free_ns = drive.as_ref().map_or(0, Drive::idle_from_ns);
        Ok(Fatcache {
            design,
            items: Items::new(keys, slab_bytes, packing),
            erases: match &drive {
                Some(drive) => drive.block_erases().to_vec(),
                None => vec![0; slabs as usize],
            },
            drive_before: drive.as_ref().map(Drive::counts).unwrap_or_default(),
            drive,
            filled: VecDeque::new(),
            free: (0..slabs).collect(),
            drain: Drain::new(design.buffer_slabs),
            now_ns: drive_free_ns,
            worker_ns: 0,
            counts: CacheCounts::default(),
            set_latency: Histogram::default(),
        })
    }

    /// Writes a slab that is full, and those that reclaims fill meanwhile.
    fn flush(&mut self, full: u32) {
        let mut waiting = VecDeque::from([full]);
        let mut tries = 0;
        self.worker_ns = self.worker_ns.max(self.now_ns);
        while let Some(slab) = waiting.pop_front() {
            while self.free.is_empty() {
                self.reclaim(&mut waiting, tries);
                tries += 1;
            }
            let place = self.free.pop_front().expect("a place was reclaimed");
            self.worker_ns = self.write(place);
            self.filled.push_back((slab, place));
            self.counts.written += 1;
        }
        self.now_ns = self.drain.add(self.now_ns, self.worker_ns);
    }

    /// Writes the pages of a place; when that is done.
    fn write(&mut self, place: u32) -> u64 {
        let pages = self.design.pages;
        match (&mut self.drive, self.design.mapping) {
            (Some(drive), _) => {
                let all = place * pages..(place + 1) * pages;
                all.map(|page| drive.write(page, self.worker_ns)).max().unwrap_or(self.worker_ns)
            }
            (None, Mapping::Blocks { write_ns, .. }) => self.worker_ns + write_ns,
            (None, Mapping::Pages(_)) => unreachable!("such a cache has a drive"),
        }
    }

    /// Frees the place of a victim. `tries` says how many were reclaimed for one slab already:
    /// after many of which nothing was gained, items are dropped.
    fn reclaim(&mut self, waiting: &mut VecDeque<u32>, tries: u32) {
        let at = match self.design.victims {
            Victims::Fifo | Victims::Oldest => 0,
            Victims::Greedy | Victims::Kick => {
                let valid = |at: &usize| self.items.slabs[self.filled[*at].0 as usize].valid;
                (0..self.filled.len()).min_by_key(valid).expect("all slabs are full")
            }
        };
        let (slab, place) = self.filled.remove(at).expect("the victim is on flash");
        let is_dropped = match self.design.victims {
            Victims::Kick | Victims::Oldest => true,
            Victims::Fifo => tries > self.design.slabs / 4,
            Victims::Greedy => self.items.valid_share(slab) > DROP_SHARE,
        };
        self.free.push_back(place);
        self.counts.reclaimed += 1;
        let entries = self.items.take(slab);
        if is_dropped {
            self.counts.dropped += entries.len() as u64;
        } else {
            self.read(place);
            self.worker_ns += entries.len() as u64 * self.design.times.store_ns;
            for (key, bytes) in entries {
                self.counts.copied_bytes += u64::from(bytes);
                waiting.extend(self.items.insert(key, bytes));
            }
        }
        if let Mapping::Blocks { erase_ns, .. } = self.design.mapping {
            self.worker_ns += erase_ns;
            self.counts.erases += 1;
            self.erases[place as usize] += 1;
        }
    }

    /// Reads all pages of a place.
    fn read(&mut self, place: u32) {
        let FatcacheDesign { pages, read_ns, .. } = self.design;
        self.worker_ns = match &mut self.drive {
            None => self.worker_ns + u64::from(pages) * read_ns,
            Some(drive) => {
                let all = place * pages..(place + 1) * pages;
                let ends = all.map(|page| drive.occupy(page, self.worker_ns, read_ns));
                ends.max().unwrap_or(self.worker_ns)
            }
        };
    }
}

/// A drive all of whose blocks were filled: from there on each block that is filled costs an erase.
fn used_before(mut drive: Drive) -> Drive {
    let design = *drive.design();
    let all = u64::from(design.blocks) * u64::from(design.pages);
    let rounds = all.div_ceil(u64::from(design.logical));
    for _ in 0..=rounds {
        for page in 0..design.logical {
            drive.write(page, 0);
        }
    }
    drive
}

impl Cache for Fatcache {
    fn set(&mut self, key: u32, bytes: u32) {
        let start_ns = self.now_ns;
        self.now_ns += self.design.times.store_ns;
        self.items.clock += 1;
        self.counts.sets += 1;
        self.counts.set_bytes += u64::from(bytes);
        if let Some(full) = self.items.insert(key, bytes) {
            self.flush(full);
        }
        self.set_latency.record(self.now_ns - start_ns);
        self.now_ns = self.now_ns.max(start_ns + self.design.times.interval_ns);
    }

    fn get(&mut self, key: u32) -> bool {
        self.now_ns += self.design.times.interval_ns;
        self.items.clock += 1;
        self.counts.gets += 1;
        let is_there = self.items.find(key);
        self.counts.hits += u64::from(is_there);
        is_there
    }

    fn delete(&mut self, key: u32) {
        self.now_ns += self.design.times.interval_ns;
        self.items.remove(key);
    }

    fn block_erases(&self) -> Vec<u32> {
        let Some(drive) = &self.drive else { return self.erases.clone() };
        let erases = drive.block_erases().iter().zip(&self.erases);
        erases.map(|(now, before)| now - before).collect()
    }

    fn counts(&self) -> CacheCounts {
        let drive = self.drive.as_ref().map(Drive::counts).unwrap_or_default();
        let erases = self.counts.erases + drive.erases - self.drive_before.erases;
        let page_copies = drive.copies - self.drive_before.copies;
        CacheCounts { page_copies, erases, ..self.counts }
    }

    fn set_interval_ns(&mut self, interval_ns: u64) {
        self.design.times.interval_ns = interval_ns;
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn set_latency(&self) -> &Histogram {
        &self.set_latency
    }
}
