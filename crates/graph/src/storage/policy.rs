//! A graph on the policy level of the flash library, and on an emulated conventional drive.

use super::{Area, Storage, StorageCounters};
use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::FlashDevice;
use silica_flash::functions::{FunctionOptions, Functions, Mapping};
use silica_flash::policy::{Collection, Policy, PolicyOptions, PolicyStatistics, RangeOptions};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The number of logical devices with graphs: `SiGraph1` in little-endian bytes. One flash has one
/// graph, so the number only tells a graph from other logical devices.
const DEVICE: u64 = u64::from_le_bytes(*b"SiGraph1");
/// Share of the usable blocks that results get, in percent: two copies of 8 bytes a vertex beside
/// at most 8 bytes an edge, and as much again while edges are sorted.
const RESULTS_PERCENT: u64 = 30;
/// Blocks beyond those of the data in each block-mapped range, and those of checkpoints: what the
/// policy level needs at least.
const SPARE_BLOCKS: u64 = 16;
/// Blocks for checkpoints, in percent of all: a mapping takes about 40 bytes a block.
const MAPPING_PERCENT: u64 = 2;

/// Shards and results in block-mapped ranges of their own (003…, 3.7.3): segments are logical
/// blocks that are written from their beginning to their end, so nothing is ever copied.
pub struct PolicyStorage<D: FlashDevice> {
    disk: Disk<D>,
}

/// An emulated conventional drive: one page-mapped range with greedy collection below both areas.
/// It does not know what dies together, nor what is dead until that is written again: file systems
/// tell drives so seldom, if at all (ext4 without `discard`).
pub struct ConventionalStorage<D: FlashDevice> {
    disk: Disk<D>,
}

/// A logical device with two areas.
struct Disk<D: FlashDevice> {
    policy: RwLock<Policy<D>>,
    page_bytes: usize,
    segment_pages: u64,
    /// First page of the results, which is the end of the shards.
    results: u64,
    pages: u64,
    memory_bytes: u64,
    counters: StorageCounters,
}

impl<D: FlashDevice> PolicyStorage<D> {
    /// Makes a storage of a flash that holds nothing.
    ///
    /// # Errors
    /// `Config` if the flash holds something; `Full` if it is too small; what the device said.
    pub fn format(device: D) -> Result<Self> {
        let functions = Functions::open(device, FunctionOptions::default())?;
        Self::format_in(functions)
    }

    /// Opens the storage of a flash, or makes one if the flash holds nothing, or no more than the
    /// begin of a storage.
    ///
    /// # Errors
    /// `Config` if the flash holds something else; what the device said.
    pub fn open(device: impl Fn() -> Result<D>) -> Result<Self> {
        let functions = Functions::open(device()?, FunctionOptions::default())?;
        if functions.found().is_empty() {
            return Self::format_in(functions);
        }
        match Policy::open(functions, DEVICE) {
            Ok(policy) => Ok(PolicyStorage { disk: Disk::new(policy)? }),
            // No checkpoint is whole: the power failed while the storage was made.
            Err(error) if error.kind() == ErrorKind::NotFound => Self::overwrite(device()?),
            Err(error) => Err(error.within(
                "the flash holds something else than a graph; use another one, or --overwrite",
            )),
        }
    }

    /// Makes a storage of a flash, whatever it holds.
    ///
    /// # Errors
    /// `Full` if the flash is too small; what the device said.
    pub fn overwrite(device: D) -> Result<Self> {
        let functions = Functions::open(device, FunctionOptions::default())?;
        functions.release_found()?;
        // Pages that stay would be taken for those of the new storage, or for something else.
        functions.erase_pending(u32::MAX)?;
        Self::format_in(functions)
    }

    fn format_in(functions: Functions<D>) -> Result<Self> {
        let (shards, results) = shares(&functions)?;
        let end = shards + results;
        let range = |begin, end, collection| RangeOptions {
            begin,
            end,
            mapping: Mapping::Block,
            collection,
            over_provisioning: 0,
        };
        let ranges =
            vec![range(0, shards, Collection::Fifo), range(shards, end, Collection::Greedy)];
        let policy = Policy::format(functions, PolicyOptions { device: DEVICE, ranges })?;
        Ok(PolicyStorage { disk: Disk::new(policy)? })
    }

    /// What the logical device did.
    pub fn statistics(&self) -> PolicyStatistics {
        self.disk.read_lock().statistics()
    }
}

impl<D: FlashDevice> ConventionalStorage<D> {
    /// Makes a drive that keeps `over_provisioning` percent of its space for itself.
    ///
    /// # Errors
    /// As [`PolicyStorage::format`].
    pub fn format(device: D, over_provisioning: u32) -> Result<Self> {
        let functions = Functions::open(device, FunctionOptions::default())?;
        let (shards, results) = shares(&functions)?;
        let usable = shards + results;
        let end = usable * 100 / (100 + u64::from(over_provisioning));
        let range = RangeOptions {
            begin: 0,
            end,
            mapping: Mapping::Page,
            collection: Collection::Greedy,
            over_provisioning,
        };
        let options = PolicyOptions { device: DEVICE, ranges: vec![range] };
        let mut disk = Disk::new(Policy::format(functions, options)?)?;
        disk.results = end * shards / usable / disk.segment_pages * disk.segment_pages;
        Ok(ConventionalStorage { disk })
    }

    /// What the drive did inside.
    pub fn statistics(&self) -> PolicyStatistics {
        self.disk.read_lock().statistics()
    }
}

/// Pages of the two areas: whole logical blocks.
fn shares<D: FlashDevice>(functions: &Functions<D>) -> Result<(u64, u64)> {
    let geometry = *functions.geometry();
    let capacity = |block| functions.block(block).map(|status| status.capacity);
    let pages = geometry.all_blocks().filter_map(|block| capacity(block).ok()).min();
    let pages = u64::from(pages.unwrap_or(geometry.pages));
    let usable = u64::from(functions.statistics().usable);
    let blocks = usable.saturating_sub(SPARE_BLOCKS + usable * MAPPING_PERCENT / 100);
    let results = blocks * RESULTS_PERCENT / 100;
    if results < 4 {
        let message = format!(
            "a graph needs at least {} blocks of flash, and {usable} are usable; use a larger one",
            SPARE_BLOCKS + 15
        );
        return Err(Error::new(ErrorKind::Full, message));
    }
    Ok(((blocks - results) * pages, results * pages))
}

impl<D: FlashDevice> Disk<D> {
    fn new(policy: Policy<D>) -> Result<Self> {
        let ranges = policy.ranges();
        let pages = policy.pages();
        let results = ranges.last().map_or(0, |range| range.begin);
        let blocks = pages / u64::from(policy.block_pages());
        Ok(Disk {
            page_bytes: policy.page_bytes(),
            segment_pages: u64::from(policy.block_pages()),
            results,
            pages,
            memory_bytes: pages + blocks * 128,
            policy: RwLock::new(policy),
            counters: StorageCounters::default(),
        })
    }

    fn read_lock(&self) -> RwLockReadGuard<'_, Policy<D>> {
        self.policy.read().expect("no panic while locked")
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, Policy<D>> {
        self.policy.write().expect("no panic while locked")
    }

    fn begin(&self, area: Area) -> u64 {
        match area {
            Area::Shards => 0,
            Area::Results => self.results,
        }
    }

    fn segments(&self, area: Area) -> u64 {
        match area {
            Area::Shards => self.results / self.segment_pages,
            Area::Results => (self.pages - self.results) / self.segment_pages,
        }
    }

    fn read(&self, area: Area, first_page: u64, out: &mut [u8]) -> Result<()> {
        self.counters.note_read(out.len());
        self.read_lock().read(self.begin(area) + first_page, out)
    }

    fn read_all(&self, area: Area, mut reads: Vec<(u64, &mut [u8])>) -> Result<()> {
        self.counters.note_read(reads.iter().map(|(_, out)| out.len()).sum());
        let begin = self.begin(area);
        reads.iter_mut().for_each(|(first_page, _)| *first_page += begin);
        self.read_lock().read_all(reads)
    }

    fn write(&self, area: Area, first_page: u64, bytes: &[u8]) -> Result<()> {
        self.counters.note_written(bytes.len());
        self.write_lock().write(self.begin(area) + first_page, bytes)
    }

    fn trim_all(&self, area: Area, runs: &[(u64, u64)]) -> Result<()> {
        let (begin, pages) = (self.begin(area), self.segment_pages);
        let extent = |(first, count): &(u64, u64)| (begin + first * pages, count * pages);
        let extents: Vec<_> = runs.iter().map(extent).collect();
        self.write_lock().trim_all(&extents)
    }

    fn sync(&self) -> Result<()> {
        self.write_lock().flush()
    }
}

/// Hands the trait on to the disk.
macro_rules! on_disk {
    ($storage:ident, $trims:literal) => {
        impl<D: FlashDevice> Storage for $storage<D> {
            fn page_bytes(&self) -> usize {
                self.disk.page_bytes
            }

            fn segment_pages(&self) -> u64 {
                self.disk.segment_pages
            }

            fn segments(&self, area: Area) -> Option<u64> {
                Some(self.disk.segments(area))
            }

            fn memory_bytes(&self) -> u64 {
                self.disk.memory_bytes
            }

            fn read(&self, area: Area, first_page: u64, out: &mut [u8]) -> Result<()> {
                self.disk.read(area, first_page, out)
            }

            fn read_all(&self, area: Area, reads: Vec<(u64, &mut [u8])>) -> Result<()> {
                self.disk.read_all(area, reads)
            }

            fn write(&self, area: Area, first_page: u64, bytes: &[u8]) -> Result<()> {
                self.disk.write(area, first_page, bytes)
            }

            fn trim(&self, area: Area, first_segment: u64, count: u64) -> Result<()> {
                self.trim_all(area, &[(first_segment, count)])
            }

            fn trim_all(&self, area: Area, runs: &[(u64, u64)]) -> Result<()> {
                if $trims { self.disk.trim_all(area, runs) } else { Ok(()) }
            }

            fn sync(&self) -> Result<()> {
                self.disk.sync()
            }

            fn counters(&self) -> &StorageCounters {
                &self.disk.counters
            }
        }
    };
}

on_disk!(PolicyStorage, true);
on_disk!(ConventionalStorage, false);
