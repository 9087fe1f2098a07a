//! The flash behind a path, whatever it is.

use super::zones::ZonesSummary;
use super::{
    Abilities, Append, BlockAddress, BlockStatus, DriveQueue, FlashCounters, FlashDevice,
    FlashDrive, FlashImage, FlashImageOptions, FlashQueue, FlashResult, Geometry, ImageQueue,
    KernelZones, Operation, PageAddress, ZonedFlash,
};
use silica_base::{Error, ErrorKind, Result, is_zero};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes at the begin of a block device that are zero if nobody used it: those in which file
/// systems and partition tables say what they are.
const HEAD_BYTES: usize = 128 << 10;

/// Flash that was found at a path.
pub enum AnyFlash {
    /// A file that behaves like flash.
    Image(Box<FlashImage>),
    /// A file or a block device with a geometry.
    Drive(Box<FlashDrive>),
    /// A drive with zones.
    Zones(Box<ZonedFlash>),
}

/// A queue of an [`AnyFlash`].
pub enum AnyFlashQueue<'d, T> {
    /// Of a file that behaves like flash, or a drive with zones.
    Threads(ImageQueue<'d, T>),
    /// Of a file or a block device with a geometry.
    Drive(Box<DriveQueue<'d, T>>),
}

/// Calls a method of whatever it is.
macro_rules! each {
    ($flash:expr, $found:ident => $call:expr) => {
        match $flash {
            AnyFlash::Image($found) => $call,
            AnyFlash::Drive($found) => $call,
            AnyFlash::Zones($found) => $call,
        }
    };
}

impl AnyFlash {
    /// Opens the flash at `path`: a drive with zones if the kernel says that it is one, else what
    /// the file or block device begins with.
    ///
    /// # Errors
    /// `NotFound`; `Config` if it is no flash; `Locked` if it is open elsewhere; `Unsupported` for
    /// another version; `Corruption`; `Io`.
    pub fn open(path: &Path) -> Result<Self> {
        if KernelZones::is_at(path) {
            return Ok(AnyFlash::Zones(Box::new(ZonedFlash::open(path)?)));
        }
        match FlashImage::open(path, None) {
            Ok(image) => Ok(AnyFlash::Image(Box::new(image))),
            // It may begin as a drive does.
            Err(error) if error.kind() == ErrorKind::Config => match FlashDrive::open(path) {
                Ok(drive) => Ok(AnyFlash::Drive(Box::new(drive))),
                Err(other) if other.kind() == ErrorKind::Config => Err(error),
                Err(other) => Err(other),
            },
            Err(error) => Err(error),
        }
    }

    /// Makes the file `path`, or a block device, flash and opens it. Only zones need no geometry.
    /// What a block device has is lost, which `overwrites` has to allow.
    ///
    /// # Errors
    /// `Config` if there is such a file, or a block device that is in use; if the geometry is
    /// missing or does not fit; `Locked`; `Full`; `Io`.
    pub fn create(
        path: &Path,
        geometry: Option<Geometry>,
        options: FlashImageOptions,
        overwrites: bool,
    ) -> Result<Self> {
        if KernelZones::is_at(path) {
            let zones = KernelZones::open(path)?;
            if !overwrites && !zones.is_empty()? {
                return Err(in_use(path));
            }
            let flash = ZonedFlash::create_on(zones, geometry, options)?;
            return Ok(AnyFlash::Zones(Box::new(flash)));
        }
        let Some(geometry) = geometry else {
            let message = format!("{} has no zones; give its --geometry", path.display());
            return Err(Error::new(ErrorKind::Config, message));
        };
        if !super::drive::is_block_device(path) {
            return Ok(AnyFlash::Image(Box::new(FlashImage::create(path, geometry, options)?)));
        }
        if !overwrites && !has_zeroes(path)? {
            return Err(in_use(path));
        }
        Ok(AnyFlash::Drive(Box::new(FlashDrive::create(path, geometry, options)?)))
    }

    /// What the zones of a drive are used for; `None` if it has none.
    pub fn zones(&self) -> Option<ZonesSummary> {
        match self {
            AnyFlash::Zones(flash) => Some(flash.summary()),
            _ => None,
        }
    }
}

fn in_use(path: &Path) -> Error {
    let message = format!(
        "{} has something on it, which would be lost; if that is meant, say --overwrite",
        path.display()
    );
    Error::new(ErrorKind::Config, message)
}

/// True if a block device begins as one that nobody used.
fn has_zeroes(path: &Path) -> Result<bool> {
    let mut head = vec![0; HEAD_BYTES];
    let read = File::open(path).and_then(|mut file| {
        let read = file.read(&mut head)?;
        Ok(is_zero(&head[..read]))
    });
    read.map_err(|e| crate::os::failed("look at", path, e))
}

impl<T> FlashQueue<T> for AnyFlashQueue<'_, T> {
    fn push(&mut self, operation: Operation<T>) {
        match self {
            AnyFlashQueue::Threads(queue) => queue.push(operation),
            AnyFlashQueue::Drive(queue) => queue.push(operation),
        }
    }

    fn pop(&mut self) -> Option<(Operation<T>, FlashResult<u32>)> {
        match self {
            AnyFlashQueue::Threads(queue) => queue.pop(),
            AnyFlashQueue::Drive(queue) => queue.pop(),
        }
    }

    fn len(&self) -> usize {
        match self {
            AnyFlashQueue::Threads(queue) => queue.len(),
            AnyFlashQueue::Drive(queue) => queue.len(),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            AnyFlashQueue::Threads(queue) => queue.is_full(),
            AnyFlashQueue::Drive(queue) => queue.is_full(),
        }
    }
}

impl FlashDevice for AnyFlash {
    type Queue<'d, T> = AnyFlashQueue<'d, T>;

    fn geometry(&self) -> &Geometry {
        each!(self, flash => flash.geometry())
    }

    fn abilities(&self) -> &Abilities {
        each!(self, flash => flash.abilities())
    }

    fn block(&self, block: BlockAddress) -> FlashResult<BlockStatus> {
        each!(self, flash => flash.block(block))
    }

    fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()> {
        each!(self, flash => flash.read(first, pages, spare))
    }

    fn append(&self, append: &Append<'_>) -> FlashResult<u32> {
        each!(self, flash => flash.append(append))
    }

    fn finish(&self, block: BlockAddress) -> FlashResult<()> {
        each!(self, flash => flash.finish(block))
    }

    fn reset(&self, block: BlockAddress) -> FlashResult<()> {
        each!(self, flash => flash.reset(block))
    }

    fn retire(&self, block: BlockAddress) -> FlashResult<()> {
        each!(self, flash => flash.retire(block))
    }

    fn sync(&self) -> FlashResult<()> {
        each!(self, flash => flash.sync())
    }

    fn queue<T>(&self, depth: usize) -> AnyFlashQueue<'_, T> {
        match self {
            AnyFlash::Image(flash) => AnyFlashQueue::Threads(flash.queue(depth)),
            AnyFlash::Drive(flash) => AnyFlashQueue::Drive(Box::new(flash.queue(depth))),
            AnyFlash::Zones(flash) => AnyFlashQueue::Threads(flash.queue(depth)),
        }
    }

    fn counters(&self) -> &FlashCounters {
        each!(self, flash => flash.counters())
    }

    fn streamed_bytes(&self) -> u64 {
        each!(self, flash => flash.streamed_bytes())
    }
}
