//! The device of a file system: made, opened, described.

use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::{FlashDevice, FlashDrive, FlashImage, FlashImageOptions, Geometry};
use silica_flash::{Monitor, MonitorOptions, Space};
use silica_lfs::{Fault, FlashGround, Ground, Lfs, LfsOptions, Problem, Time, Usage};
use std::path::Path;
use std::sync::Arc;

/// The application of the flash monitor that is the file system.
const APPLICATION: &str = "lfs";
/// Blocks of each LUN that stand in for bad ones.
const SPARE_BLOCKS: u32 = 2;
/// How a device of no given geometry is divided: LUNs, and pages of 4 KiB, as the kernel's are.
const CHANNELS: u32 = 4;
const LUNS: u32 = 4;
const PAGE_BYTES: u32 = 4096;
/// Pages of a block: 2 MiB, or fewer so that a LUN has so many blocks.
const PAGES_MAX: u32 = 512;
const PAGES_MIN: u32 = 16;
const BLOCKS_MIN: u64 = 32;

/// How a new device is divided.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A drive of so many bytes, a file or a block device: past the page cache, in pages of 4 KiB.
    Drive(u64),
    /// A flash image of this geometry: every page has a checksum.
    Image(Geometry),
}

/// A file system and the device that it lies on.
pub struct Volume {
    lfs: Arc<Lfs<Box<dyn Ground>>>,
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|e| Error::io("taking a random number", e.into()))?;
    Ok(u64::from_le_bytes(bytes))
}

/// How a drive of so many bytes is divided.
fn geometry_of(bytes: u64) -> Result<Geometry> {
    let lun_bytes = bytes / u64::from(CHANNELS * LUNS);
    let mut pages = PAGES_MAX;
    let block_bytes = |pages: u32| u64::from(pages) * u64::from(PAGE_BYTES);
    while pages > PAGES_MIN && lun_bytes / block_bytes(pages) < BLOCKS_MIN {
        pages /= 2;
    }
    let blocks = lun_bytes / block_bytes(pages);
    // What is too large for the field is too large for a device, which says so.
    let blocks_max = u64::from(u32::MAX);
    if blocks < BLOCKS_MIN {
        let least = BLOCKS_MIN * u64::from(CHANNELS * LUNS) * block_bytes(PAGES_MIN);
        let message = format!(
            "{bytes} bytes are too few for a file system; it needs {} MiB",
            least.div_ceil(1 << 20)
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(Geometry {
        channels: CHANNELS,
        luns: LUNS,
        blocks: blocks.min(blocks_max) as u32,
        pages,
        page_bytes: PAGE_BYTES,
        spare_bytes: 0,
    })
}

impl Volume {
    /// Makes a file system on `path`, which must not exist unless it is a block device. Of its LUNs
    /// `over_provisioning` percent are kept back for collection, at least one. The root directory
    /// is the caller's.
    ///
    /// # Errors
    /// `Config` for a geometry that does not do; `Full`; `Io`.
    pub fn create(
        path: &Path,
        shape: Shape,
        over_provisioning: u32,
        owner: (u32, u32),
        now: Time,
    ) -> Result<Self> {
        let options = FlashImageOptions { id: random()?, endurance: None };
        let monitor = MonitorOptions { id: random()?, spare_blocks: SPARE_BLOCKS };
        let ground = match shape {
            Shape::Drive(bytes) => {
                // Tables and the header of a drive take a part of its bytes.
                let geometry = geometry_of(bytes - bytes / 64)?;
                format(FlashDrive::create(path, geometry, options)?, monitor, over_provisioning)?
            }
            Shape::Image(geometry) => {
                format(FlashImage::create(path, geometry, options)?, monitor, over_provisioning)?
            }
        };
        Ok(Volume { lfs: Arc::new(Lfs::create(ground, random()?, owner, now).map_err(failed)?) })
    }

    /// Opens the file system on `path`.
    ///
    /// # Errors
    /// `NotFound` if there is no such file or no file system on it; `Config` if it is a directory;
    /// `Locked` if it is mounted already; `Unsupported` if a newer release wrote it;
    /// `Corruption`.
    pub fn open(path: &Path, options: LfsOptions) -> Result<Self> {
        if path.is_dir() {
            let message = format!(
                "{} is a directory; give the file or the block device of a file system",
                path.display()
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let ground = match FlashDrive::open(path) {
            Ok(drive) => find(drive),
            Err(error) if is_other(&error) => match FlashImage::open(path, None) {
                Ok(image) => find(image),
                Err(other) => Err(of_both(path, error, other)),
            },
            Err(error) => Err(error),
        };
        let ground = ground.map_err(|error| told(path, error))?;
        let lfs = Lfs::open(ground, options).map_err(|fault| told(path, failed(fault)))?;
        Ok(Volume { lfs: Arc::new(lfs) })
    }

    /// Looks at everything, and puts right what can be if `repairs`. Returns what was wrong.
    ///
    /// # Errors
    /// What the device said.
    pub fn check(&self, repairs: bool) -> Result<Vec<Problem>> {
        let problems = match repairs {
            true => self.lfs.repair(crate::convert::now()),
            false => self.lfs.check(),
        };
        problems.map_err(failed)
    }

    /// How much there is.
    pub fn usage(&self) -> (Usage, usize) {
        (self.lfs.usage(), self.lfs.page_bytes())
    }

    /// Closes the file system in order.
    ///
    /// # Errors
    /// What the device said.
    pub fn close(self) -> Result<()> {
        self.lfs.close().map_err(failed)
    }

    /// The file system.
    pub fn lfs(&self) -> &Lfs<Box<dyn Ground>> {
        &self.lfs
    }

    pub(crate) fn into_lfs(self) -> Arc<Lfs<Box<dyn Ground>>> {
        self.lfs
    }
}

fn failed(fault: Fault) -> Error {
    match fault {
        Fault::Store(error) => error,
        fault => Error::new(ErrorKind::Io, fault.to_string()),
    }
}

/// True if a file is not what it was taken for.
fn is_other(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Config | ErrorKind::Corruption)
}

/// What is told of a file that opens neither as a drive nor as an image. A damaged one begins as
/// one of them, and who is told to make it anew would lose what can be saved.
fn of_both(path: &Path, as_drive: Error, as_image: Error) -> Error {
    match (as_drive.kind(), as_image.kind()) {
        // A file that is too short is damaged as both.
        (ErrorKind::Config, ErrorKind::Config) | (ErrorKind::Corruption, ErrorKind::Corruption) => {
            not_ours(path)
        }
        (ErrorKind::Corruption, ErrorKind::Config) => as_drive,
        _ => as_image,
    }
}

/// An error with the file's name in it, and what to do if there is none or it is in use.
fn told(path: &Path, error: Error) -> Error {
    let name = path.display().to_string();
    match error.kind() {
        ErrorKind::Locked => {
            let message = format!("{name} is mounted already, or in use: {error}");
            Error::new(ErrorKind::Locked, message)
        }
        ErrorKind::NotFound if !path.exists() => {
            let message =
                format!("there is no {name}; make a file system there with `silica lfs create`");
            Error::new(ErrorKind::NotFound, message)
        }
        _ if error.to_string().contains(&name) => error,
        _ => error.within(name),
    }
}

fn not_ours(path: &Path) -> Error {
    let message =
        format!("{} is no Silica file system; make one with `silica lfs create`", path.display());
    Error::new(ErrorKind::NotFound, message)
}

fn format<D: FlashDevice>(
    device: D,
    options: MonitorOptions,
    over_provisioning: u32,
) -> Result<Box<dyn Ground>> {
    let all = device.geometry().lun_count();
    let over = (all * over_provisioning).div_ceil(100).max(1);
    let Some(luns) = all.checked_sub(over).filter(|luns| *luns > 0) else {
        let message = format!(
            "of {all} LUNs {over} would be over-provisioning; use more LUNs, or a smaller share"
        );
        return Err(Error::new(ErrorKind::Config, message));
    };
    let monitor = Monitor::format(device, options)?;
    let space = Space { luns, over_provisioned_luns: over };
    drop(monitor.create(APPLICATION, space)?);
    ground_of(monitor)
}

fn find<D: FlashDevice>(device: D) -> Result<Box<dyn Ground>> {
    ground_of(Monitor::open(device)?)
}

/// The application's blocks. The monitor says how many of them are kept back.
fn ground_of<D: FlashDevice>(monitor: Monitor<D>) -> Result<Box<dyn Ground>> {
    let report = monitor.report()?;
    let own = report.iter().find(|report| report.name == APPLICATION);
    let own = own.ok_or_else(|| {
        let message = "the flash monitor has no application 'lfs'; make a file system first";
        Error::new(ErrorKind::NotFound, message)
    })?;
    let over = own.over_provisioned_luns;
    let application = monitor.application(APPLICATION)?;
    let blocks = over * application.geometry().blocks;
    Ok(Box::new(FlashGround::open(application, blocks)?))
}
