//! Where a graph lies: the flash or the files that a command line names, or an image beside the
//! edge list.

use crate::args::GraphArgs;
use silica::device::blocks::{AnyFlash, FlashImage, FlashImageOptions, Geometry};
use silica::{DeviceOptions, Error, ErrorKind, FileDevice, Result};
use silica_base::checksum;
use silica_graph::{FileStorage, PolicyStorage, Storage};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes of an edge list's begin and end by which it is known again.
const SAMPLE_BYTES: u64 = 1 << 20;
/// An image has 4 channels of 4 LUNs with blocks of 64 pages of 16 KiB: 1 MiB each.
const IMAGE: Geometry =
    Geometry { channels: 4, luns: 4, blocks: 0, pages: 64, page_bytes: 16384, spare_bytes: 64 };
/// Blocks of each LUN at least: 64 MiB in all.
const BLOCKS_MIN: u64 = 4;
/// Bytes of flash for each byte of an edge list, in the worst case: 16 for an edge, which has 4
/// bytes of text at least, and as much for results as 30 % of the flash may be.
const PER_BYTE: u64 = 6;
/// gzip makes edge lists at most so many times smaller.
const PACKED: u64 = 8;

/// A place for a graph.
pub(super) struct Place {
    pub(super) storage: Box<dyn Storage>,
    /// An image beside the edge list, which goes when it is not needed any more.
    pub(super) temporary: Option<PathBuf>,
    /// In words.
    pub(super) name: String,
}

/// Opens what the command line names.
pub(super) fn open(args: &GraphArgs) -> Result<Place> {
    if let Some(directory) = &args.files {
        let device = FileDevice::open(directory, DeviceOptions::default())?;
        let storage: Box<dyn Storage> = Box::new(FileStorage::open(device)?);
        let name = format!("files in {}", directory.display());
        return Ok(Place { storage, temporary: None, name });
    }
    if let Some(path) = &args.flash {
        let storage = on_flash(path, args.overwrite)?;
        return Ok(Place { storage, temporary: None, name: format!("flash {}", path.display()) });
    }
    let path = image_of(&args.edges);
    if !path.exists() {
        create(&path, &args.edges, args.flash_size)?;
    }
    let storage = on_flash(&path, args.overwrite)?;
    let name = format!("flash {}", path.display());
    Ok(Place { storage, temporary: Some(path), name })
}

fn image_of(edges: &Path) -> PathBuf {
    let mut name = edges.file_name().unwrap_or_default().to_os_string();
    name.push(".silica-graph");
    edges.with_file_name(name)
}

/// Opens an image or a drive.
fn on_flash(path: &Path, overwrites: bool) -> Result<Box<dyn Storage>> {
    let open = || {
        AnyFlash::open(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                error.within("make one: silica flash create PATH --geometry 4x4x64x64x16KiB")
            }
            _ => error,
        })
    };
    Ok(match overwrites {
        true => Box::new(PolicyStorage::overwrite(open()?)?),
        false => Box::new(PolicyStorage::open(open)?),
    })
}

/// Makes an image with room for the longest graph that an edge list may hold. It takes space as it
/// is written to.
fn create(path: &Path, edges: &Path, size: Option<u64>) -> Result<()> {
    let bytes = match size {
        Some(bytes) => bytes,
        None => {
            let mut head = [0; 2];
            let mut file = File::open(edges).map_err(|e| failed(edges, e))?;
            let filled = file.read(&mut head).map_err(|e| failed(edges, e))?;
            let length = file.metadata().map_err(|e| failed(edges, e))?.len();
            let is_packed = filled == 2 && head == [0x1f, 0x8b];
            length * PER_BYTE * if is_packed { PACKED } else { 1 }
        }
    };
    let of_all = Geometry { blocks: 1, ..IMAGE }.capacity_bytes();
    let blocks = bytes.div_ceil(of_all).max(BLOCKS_MIN);
    let blocks = u32::try_from(blocks).map_err(|_| {
        Error::new(ErrorKind::Config, "the edge list is too long for an image; give --flash")
    })?;
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(|e| Error::io("taking a random number", e.into()))?;
    let options = FlashImageOptions { id: u64::from_le_bytes(id), endurance: None };
    FlashImage::create(path, Geometry { blocks, ..IMAGE }, options).map(|_| ())
}

/// What an edge list is known by: its length, when it was changed, its begin and its end.
pub(super) fn fingerprint(edges: &Path, skips_bad: bool) -> Result<u64> {
    let mut file = File::open(edges).map_err(|e| failed(edges, e))?;
    let about = file.metadata().map_err(|e| failed(edges, e))?;
    if about.is_dir() {
        let message = format!("{} is a directory, and no edge list", edges.display());
        return Err(Error::new(ErrorKind::Config, message));
    }
    let changed = about.modified().ok().and_then(|time| time.elapsed_since_epoch());
    let mut sample = Vec::new();
    file.by_ref()
        .take(SAMPLE_BYTES)
        .read_to_end(&mut sample)
        .and_then(|_| file.seek(SeekFrom::Start(about.len().saturating_sub(SAMPLE_BYTES))))
        .and_then(|_| file.by_ref().take(SAMPLE_BYTES).read_to_end(&mut sample))
        .map_err(|e| failed(edges, e))?;
    let mut known = about.len().to_le_bytes().to_vec();
    known.extend_from_slice(&changed.unwrap_or_default().to_le_bytes());
    known.push(u8::from(skips_bad));
    Ok(u64::from(checksum(&known)) << 32 | u64::from(checksum(&sample)))
}

/// Nanoseconds since 1970.
trait SinceEpoch {
    fn elapsed_since_epoch(self) -> Option<u128>;
}

impl SinceEpoch for std::time::SystemTime {
    fn elapsed_since_epoch(self) -> Option<u128> {
        self.duration_since(std::time::UNIX_EPOCH).ok().map(|time| time.as_nanos())
    }
}

pub(super) fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("reading the edge list {}", path.display()), error)
}
