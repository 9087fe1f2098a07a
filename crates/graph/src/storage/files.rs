//! A graph in plain files: a file for each area, through the page cache.

use super::{Area, Storage, StorageCounters};
use silica_base::{ErrorKind, Result};
use silica_device::files::{Device, DeviceFile, Mode};

const PAGE_BYTES: usize = 4 << 10;
const SEGMENT_PAGES: u64 = 256;
const NAMES: [&str; 2] = ["shards", "results"];

/// The baseline: the same engine over files.
pub struct FileStorage<D: Device> {
    shards: D::File,
    results: D::File,
    counters: StorageCounters,
    _device: D,
}

impl<D: Device> FileStorage<D> {
    /// Makes the files anew.
    ///
    /// # Errors
    /// What the device said.
    pub fn create(device: D) -> Result<Self> {
        for name in NAMES {
            match device.remove(name) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Self::open(device)
    }

    /// Opens the files, and makes those that are not there.
    ///
    /// # Errors
    /// What the device said.
    pub fn open(device: D) -> Result<Self> {
        let file = |name| match device.open(name, Mode::Buffered) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                device.create(name, Mode::Buffered)
            }
            result => result,
        };
        let (shards, results) = (file(NAMES[0])?, file(NAMES[1])?);
        device.sync_dir()?;
        Ok(FileStorage { shards, results, counters: StorageCounters::default(), _device: device })
    }

    /// Removes the files of a graph from a device.
    ///
    /// # Errors
    /// What the device said.
    pub fn remove(device: &D) -> Result<()> {
        NAMES.iter().try_for_each(|name| device.remove(name))
    }

    fn file(&self, area: Area) -> &D::File {
        match area {
            Area::Shards => &self.shards,
            Area::Results => &self.results,
        }
    }
}

impl<D: Device> Storage for FileStorage<D> {
    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }

    fn segment_pages(&self) -> u64 {
        SEGMENT_PAGES
    }

    fn segments(&self, _area: Area) -> Option<u64> {
        None
    }

    fn memory_bytes(&self) -> u64 {
        0
    }

    fn read(&self, area: Area, first_page: u64, out: &mut [u8]) -> Result<()> {
        self.counters.note_read(out.len());
        let read = self.file(area).read_at(first_page * PAGE_BYTES as u64, out)?;
        out[read..].fill(0);
        Ok(())
    }

    fn write(&self, area: Area, first_page: u64, bytes: &[u8]) -> Result<()> {
        self.counters.note_written(bytes.len());
        self.file(area).write_at(first_page * PAGE_BYTES as u64, bytes)
    }

    /// Files keep the space: it is written again by what comes next.
    fn trim(&self, _area: Area, _first_segment: u64, _count: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.shards.sync()?;
        self.results.sync()
    }

    fn counters(&self) -> &StorageCounters {
        &self.counters
    }
}
