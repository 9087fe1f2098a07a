//! The drive with zones behind a path.

use super::{SECTOR_BYTES, Zone, ZoneAction, ZoneCondition, ZoneLimits, Zones, ioctl};
use crate::blocks::QueueLimits;
use crate::os::{LockedFile, failed, read_full, write_all};
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;
use silica_base::{AlignedBuf, BLOCK_BYTES, Error, ErrorKind, Result};
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

/// Bytes of one write at most if the kernel does not say: what every driver takes at once.
const TRANSFER_BYTES_USUAL: u64 = 128 << 10;
/// Bytes of one segment of a transfer at least: buffers are whole pages of memory.
const SEGMENT_BYTES: u64 = 4096;

/// A block device with zones, past the page cache. Nobody else may have it: it is locked, and
/// refused if it is mounted.
#[derive(Debug)]
pub struct KernelZones {
    file: LockedFile,
    path: PathBuf,
    limits: ZoneLimits,
    /// Bytes of one write at most: a longer one would be split, and its parts could change places.
    transfer_bytes: usize,
}

impl KernelZones {
    /// True if `path` is a block device with zones.
    pub fn is_at(path: &Path) -> bool {
        QueueLimits::of_device(path).is_some_and(|limits| limits.is_zoned())
    }

    /// Opens the block device `path`.
    ///
    /// # Errors
    /// `Config` if it has no zones; `Locked` if it is open elsewhere or mounted; `Io`.
    pub fn open(path: &Path) -> Result<Self> {
        let Some(queue) = QueueLimits::of_device(path).filter(QueueLimits::is_zoned) else {
            let message = format!(
                "{} is no block device with zones; `silica probe` lists those of this machine",
                path.display()
            );
            return Err(Error::new(ErrorKind::Config, message));
        };
        // O_EXCL: the kernel refuses what is mounted.
        let flags = OFlags::DIRECT | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL;
        let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(|e| {
            if e == rustix::io::Errno::BUSY {
                let message = format!(
                    "{} is open elsewhere; stop that process first, or unmount it",
                    path.display()
                );
                return Error::new(ErrorKind::Locked, message);
            }
            failed("open", path, e.into())
        })?;
        let file = LockedFile::lock(File::from(file), path)?;
        let limit = |name: &str| queue.number(name).unwrap_or(0);
        // Kernels before 5.12 do not say: then it is the physical block, at worst too large.
        let granule = match limit("zone_write_granularity") {
            0 => limit("physical_block_size").max(limit("logical_block_size")).max(SECTOR_BYTES),
            granule => granule,
        };
        let asked = |call: io::Result<u64>| call.map_err(|e| failed("ask for zones of", path, e));
        let limits = ZoneLimits {
            zones: asked(ioctl::zone_count(&file).map(u64::from))? as u32,
            zone_bytes: asked(ioctl::zone_bytes(&file))?,
            granule: u32::try_from(granule).unwrap_or(u32::MAX),
            open_max: u32::try_from(limit("max_open_zones")).unwrap_or(0),
            active_max: u32::try_from(limit("max_active_zones")).unwrap_or(0),
        };
        let of_segments = limit("max_segments") * SEGMENT_BYTES;
        let most = (limit("max_sectors_kb") << 10).min(of_segments);
        let most = if most == 0 { TRANSFER_BYTES_USUAL } else { most };
        let transfer_bytes = (most / granule * granule).max(granule) as usize;
        Ok(KernelZones { file, path: path.to_path_buf(), limits, transfer_bytes })
    }

    /// True if no zone has bytes that were written in order. Of conventional zones nobody knows.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_empty(&self) -> Result<bool> {
        let all = self.report(0, self.limits.zones);
        let all = all.map_err(|e| failed("ask for zones of", &self.path, e))?;
        let has = [ZoneCondition::Open, ZoneCondition::Closed, ZoneCondition::Full];
        Ok(!all.iter().any(|zone| has.contains(&zone.condition)))
    }

    /// Writes at most one transfer.
    fn write_one(&self, at: u64, bytes: &[u8], is_durable: bool) -> io::Result<()> {
        if !is_durable {
            return write_all(&self.file, at, bytes);
        }
        let flags = ReadWriteFlags::DSYNC;
        let written = crate::os::uninterrupted(|| {
            Ok(rustix::io::pwritev2(&*self.file, &[IoSlice::new(bytes)], at, flags)?)
        })?;
        match written == bytes.len() {
            true => Ok(()),
            false => Err(io::Error::other("a write to a zone stopped short")),
        }
    }
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
}

impl Zones for KernelZones {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn limits(&self) -> &ZoneLimits {
        &self.limits
    }

    fn report(&self, first: u32, count: u32) -> io::Result<Vec<Zone>> {
        let count = count.min(self.limits.zones.saturating_sub(first)) as usize;
        let mut zones = Vec::with_capacity(count);
        while zones.len() < count {
            let next = u64::from(first) + zones.len() as u64;
            let at = next * self.limits.zone_bytes;
            let more = ioctl::report(&self.file, at, count - zones.len())?;
            if more.is_empty() {
                break;
            }
            zones.extend(more);
        }
        Ok(zones)
    }

    fn manage(&self, action: ZoneAction, zone: u32) -> io::Result<()> {
        let start = u64::from(zone) * self.limits.zone_bytes;
        ioctl::manage(&self.file, action, start, self.limits.zone_bytes)
    }

    fn write(&self, at: u64, bytes: &[u8], is_durable: bool) -> io::Result<()> {
        if !is_aligned(bytes) {
            let mut buffer = AlignedBuf::zeroed(bytes.len());
            buffer.copy_from_slice(bytes);
            return self.write(at, &buffer, is_durable);
        }
        for (number, part) in (0..).zip(bytes.chunks(self.transfer_bytes)) {
            self.write_one(at + number * self.transfer_bytes as u64, part, is_durable)?;
        }
        Ok(())
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        if !is_aligned(bytes) {
            let mut buffer = AlignedBuf::zeroed(bytes.len());
            self.read(at, &mut buffer)?;
            bytes.copy_from_slice(&buffer);
            return Ok(());
        }
        match read_full(&self.file, at, bytes, self.limits.granule as usize)? == bytes.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
