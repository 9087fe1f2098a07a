//! Flash and zones: one suite for the image and its twin, crashes against a model, hostile images.

mod conformance;
mod crash;
mod drive;
mod drivers;
mod emulator;
mod hostile;
mod twin;
mod zones;

use silica_device::blocks::{
    Append, BlockAddress, FlashDevice, FlashDrive, FlashFault, FlashImage, FlashImageOptions,
    FlashResult, Geometry, PageAddress, ZonedFlash,
};
use silica_device::sim::{SimFlash, SimFlashOptions, SimZones, SimZonesOptions, ZoneManner};
use std::marker::PhantomData;
use std::path::PathBuf;

/// Bytes of a page and of its spare bytes.
const PAGE: usize = 512;
const SPARE: usize = 16;

fn small() -> Geometry {
    SimFlashOptions::small().geometry
}

/// A device that can be closed and opened again.
trait Medium {
    type Flash: FlashDevice;
    fn with_endurance(endurance: Option<u32>) -> Self;
    fn flash(&self) -> &Self::Flash;
    fn reopened(self) -> Self;
}

struct ImageMedium {
    /// Dropped before the directory that it lies in.
    flash: FlashImage,
    path: PathBuf,
    dir: tempfile::TempDir,
}

impl Medium for ImageMedium {
    type Flash = FlashImage;

    fn with_endurance(endurance: Option<u32>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flash");
        let options = FlashImageOptions { id: 77, endurance };
        let flash = FlashImage::create(&path, small(), options).unwrap();
        ImageMedium { flash, path, dir }
    }

    fn flash(&self) -> &FlashImage {
        &self.flash
    }

    fn reopened(self) -> Self {
        let ImageMedium { flash, path, dir } = self;
        drop(flash);
        let flash = FlashImage::open(&path, Some(&small())).unwrap();
        ImageMedium { flash, path, dir }
    }
}

struct DriveMedium {
    /// Dropped before the directory that it lies in.
    flash: FlashDrive,
    path: PathBuf,
    dir: tempfile::TempDir,
}

impl Medium for DriveMedium {
    type Flash = FlashDrive;

    fn with_endurance(endurance: Option<u32>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flash");
        let options = FlashImageOptions { id: 77, endurance };
        let flash = FlashDrive::create(&path, small(), options).unwrap();
        DriveMedium { flash, path, dir }
    }

    fn flash(&self) -> &FlashDrive {
        &self.flash
    }

    fn reopened(self) -> Self {
        let DriveMedium { flash, path, dir } = self;
        drop(flash);
        let flash = FlashDrive::open(&path).unwrap();
        DriveMedium { flash, path, dir }
    }
}

struct FlashMedium(SimFlash);

impl Medium for FlashMedium {
    type Flash = SimFlash;

    fn with_endurance(endurance: Option<u32>) -> Self {
        FlashMedium(SimFlash::new(5, SimFlashOptions { endurance, ..SimFlashOptions::small() }))
    }

    fn flash(&self) -> &SimFlash {
        &self.0
    }

    fn reopened(self) -> Self {
        FlashMedium(self.0.reopen())
    }
}

struct ZoneMedium(SimFlash);

impl Medium for ZoneMedium {
    type Flash = SimFlash;

    fn with_endurance(endurance: Option<u32>) -> Self {
        // The suite has more blocks open than drives allow.
        let open_blocks_max = None;
        let zones = SimFlashOptions::zones(small());
        let options = SimFlashOptions { endurance, open_blocks_max, ..zones };
        ZoneMedium(SimFlash::new(6, options))
    }

    fn flash(&self) -> &SimFlash {
        &self.0
    }

    fn reopened(self) -> Self {
        ZoneMedium(self.0.reopen())
    }
}

/// Flash on a simulated drive with zones, which has the manners of a driver.
struct ZonedMedium<M: Manner> {
    flash: ZonedFlash<SimZones>,
    drive: SimZones,
    manner: PhantomData<M>,
}

trait Manner {
    const MANNER: ZoneManner;
}

struct Nvme;
struct NullBlk;
struct ScsiDebug;
struct Liar;

impl Manner for Nvme {
    const MANNER: ZoneManner = ZoneManner::NVME;
}
impl Manner for NullBlk {
    const MANNER: ZoneManner = ZoneManner::NULL_BLK;
}
impl Manner for ScsiDebug {
    const MANNER: ZoneManner = ZoneManner::SCSI_DEBUG;
}
impl Manner for Liar {
    const MANNER: ZoneManner = ZoneManner::LIAR;
}

/// The blocks of the suite, as zones have them.
fn bare() -> Geometry {
    Geometry { spare_bytes: 0, ..small() }
}

/// A drive with more zones than the suite's blocks, each with room for more than a block, two of
/// them open at most.
fn zoned(manner: ZoneManner) -> SimZonesOptions {
    SimZonesOptions {
        conventional: 2,
        sequential: 30,
        zone_bytes: 8192,
        capacity: 6144,
        last_capacity: 1024,
        granule: 512,
        open_max: 4,
        active_max: 0,
        manner,
    }
}

impl<M: Manner> Medium for ZonedMedium<M> {
    type Flash = ZonedFlash<SimZones>;

    fn with_endurance(endurance: Option<u32>) -> Self {
        let drive = SimZones::new(7, zoned(M::MANNER));
        let options = FlashImageOptions { id: 77, endurance };
        let flash = ZonedFlash::create_on(drive.clone(), Some(bare()), options).unwrap();
        ZonedMedium { flash, drive, manner: PhantomData }
    }

    fn flash(&self) -> &ZonedFlash<SimZones> {
        &self.flash
    }

    fn reopened(self) -> Self {
        let ZonedMedium { flash, drive, manner } = self;
        drop(flash);
        let flash = ZonedFlash::open_on(drive.clone()).unwrap();
        ZonedMedium { flash, drive, manner }
    }
}

/// The drive with zones that `SILICA_ZONED_DEVICE` names. All that it has is lost.
struct KernelMedium(ZonedFlash);

impl KernelMedium {
    fn path() -> PathBuf {
        let path = std::env::var_os("SILICA_ZONED_DEVICE").map(PathBuf::from);
        path.expect("SILICA_ZONED_DEVICE names a drive with zones whose contents may be lost")
    }
}

impl Medium for KernelMedium {
    type Flash = ZonedFlash;

    fn with_endurance(endurance: Option<u32>) -> Self {
        let options = FlashImageOptions { id: 77, endurance };
        KernelMedium(ZonedFlash::create(&Self::path(), Some(bare()), options).unwrap())
    }

    fn flash(&self) -> &ZonedFlash {
        &self.0
    }

    fn reopened(self) -> Self {
        drop(self);
        KernelMedium(ZonedFlash::open(&Self::path()).unwrap())
    }
}

fn address(channel: u16, lun: u16, block: u32) -> BlockAddress {
    BlockAddress { channel, lun, block }
}

fn fault<T>(result: FlashResult<T>) -> FlashFault {
    result.map(|_| ()).unwrap_err().fault()
}

/// The bytes of the page `id`, which no other page has.
fn page_of(id: u64) -> Vec<u8> {
    bytes_of(id, PAGE)
}

fn spare_of(id: u64) -> Vec<u8> {
    bytes_of(!id, SPARE)
}

/// The spare bytes of a page on this device, which may have none.
fn spare_on(flash: &impl FlashDevice, id: u64) -> Vec<u8> {
    match flash.geometry().spare_bytes {
        0 => Vec::new(),
        _ => spare_of(id),
    }
}

fn bytes_of(id: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    silica_base::Prng::new(id).fill(&mut bytes);
    bytes
}

/// Appends the pages `ids`.
fn append(flash: &impl FlashDevice, block: BlockAddress, ids: &[u64]) -> FlashResult<u32> {
    append_at(flash, block, None, ids)
}

fn append_at(
    flash: &impl FlashDevice,
    block: BlockAddress,
    expected: Option<u32>,
    ids: &[u64],
) -> FlashResult<u32> {
    let pages = ids.iter().flat_map(|id| page_of(*id)).collect::<Vec<_>>();
    let spare = ids.iter().flat_map(|id| spare_on(flash, *id)).collect::<Vec<_>>();
    flash.append(&Append { block, expected, stream: 3, pages: &pages, spare: &spare })
}

/// Reads a page; true if it is the page `id`.
fn is_page(flash: &impl FlashDevice, page: PageAddress, id: u64) -> FlashResult<bool> {
    let wanted = spare_on(flash, id);
    let (mut bytes, mut spare) = ([0; PAGE], vec![0; wanted.len()]);
    flash.read(page, &mut bytes, &mut spare)?;
    Ok(bytes[..] == page_of(id) && spare == wanted)
}
