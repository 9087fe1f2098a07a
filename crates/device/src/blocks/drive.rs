//! A file or a block device with a geometry, past the page cache.
//!
//! Invariants (docs/formats/flash-drive.md has the crash argument):
//!
//! 1. The header is written once, before the drive has blocks.
//! 2. A block's record counts a page only after the page and its spare bytes were written.
//! 3. Records of a block take turns between two tables, so one that is torn leaves the one before.
//! 4. One opening at a time: the file is locked (`flock`) for as long as the drive is open.
//! 5. A block device is told to discard the pages of a block only after the block's records say
//!    that it has none. Records need no sync before that: whoever finds an older record after a
//!    power cut checks what it reads.
//! 6. A sync that failed is final for this opening: nothing is written after it.

use super::discard::Discards;
use super::drive_queue::DriveQueue;
use super::layout::{Block, HEADER_BYTES, Header, RECORD_BYTES, Record, Recorded};
use super::streams::Streams;
use super::workers::{Carrier, Workers};
use super::{
    Abilities, Append, BlockAddress, BlockState, BlockStatus, FlashCounters, FlashDevice,
    FlashError, FlashFault, FlashImageOptions, FlashResult, Geometry, PageAddress, Place, checks,
};
use crate::files::probe_ring;
use crate::os::{LockedFile, create_failed, failed, read_full, reserve, write_all};
use rustix::fs::OFlags;
use silica_base::{AlignedBuf, BLOCK_BYTES, Error, ErrorKind, Format, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

const FORMAT: Format =
    Format { name: "flash drive", magic: b"SiFd", version_bytes: 4, version: 1, steps: &[] };
const TABLE_GRANULE: u64 = 4096;
const PAGES_GRANULE: u64 = 1 << 20;

/// Where the parts of a drive lie.
#[derive(Debug, Clone, Copy)]
struct Parts {
    table_bytes: u64,
    spare: u64,
    pages: u64,
    geometry: Geometry,
}

impl Parts {
    fn new(geometry: Geometry) -> Self {
        let blocks = u64::from(geometry.block_count());
        let table_bytes = (blocks * RECORD_BYTES as u64).next_multiple_of(TABLE_GRANULE);
        let spare = HEADER_BYTES as u64 + 2 * table_bytes;
        let spare_bytes = blocks * u64::from(geometry.pages) * u64::from(geometry.spare_bytes);
        let pages = (spare + spare_bytes).next_multiple_of(PAGES_GRANULE);
        Parts { table_bytes, spare, pages, geometry }
    }

    fn record(&self, block: u32, place: u64) -> u64 {
        let at = HEADER_BYTES as u64 + place * self.table_bytes;
        at + u64::from(block) * RECORD_BYTES as u64
    }

    fn page_number(&self, block: u32, page: u32) -> u64 {
        u64::from(block) * u64::from(self.geometry.pages) + u64::from(page)
    }

    fn page(&self, block: u32, page: u32) -> u64 {
        self.pages + self.page_number(block, page) * u64::from(self.geometry.page_bytes)
    }

    fn spare(&self, block: u32, page: u32) -> u64 {
        self.spare + self.page_number(block, page) * u64::from(self.geometry.spare_bytes)
    }

    fn drive_bytes(&self) -> u64 {
        self.pages + self.geometry.capacity_bytes()
    }
}

/// A file or a block device that is divided as flash is. Its geometry is logical: what it erases
/// is free to be written again. A block device that takes discards is told what was erased, so that
/// it has nothing to copy when it makes room; a file keeps its space.
///
/// Pages of a multiple of 4096 bytes go past the page cache if the file system allows it, in the
/// calling thread. Of a queue, reads past the page cache go through io_uring where the kernel
/// allows it; everything else is done by up to eight threads, by LUN. Nothing is kept beside a
/// page, so nobody but the caller can tell whether it is what was written
/// ([`Abilities::checks_pages`]).
pub struct FlashDrive {
    drive: Arc<Drive>,
    workers: Workers,
    /// Reads of queues may go through io_uring.
    has_ring: bool,
}

pub(super) struct Drive {
    file: LockedFile,
    /// The file past the page cache, if pages can be read and written so.
    direct: Option<File>,
    path: PathBuf,
    header: Header,
    parts: Parts,
    abilities: Abilities,
    blocks: Box<[Mutex<Block>]>,
    counters: FlashCounters,
    is_poisoned: AtomicBool,
    streams: Streams,
    discards: Discards,
}

impl FlashDrive {
    /// Makes `path` a drive and opens it: a file that does not exist, or a block device, of which
    /// all contents are lost. A file takes its space now.
    ///
    /// # Errors
    /// `Config` if the geometry breaks a limit, if there is a file, or if the block device is
    /// smaller than the geometry; `Locked`; `Full`; `Io`.
    pub fn create(path: &Path, geometry: Geometry, options: FlashImageOptions) -> Result<Self> {
        geometry.check()?;
        let header =
            Header { image: options.id, geometry, endurance: options.endurance.unwrap_or(0) };
        let is_device = is_block_device(path);
        let opened = OpenOptions::new().read(true).write(true).create_new(!is_device).open(path);
        let file = LockedFile::lock(opened.map_err(|e| create_failed(path, e))?, path)?;
        let parts = Parts::new(geometry);
        let made = match is_device {
            true => check_size(&file, path, &parts),
            false => file
                .set_len(parts.drive_bytes())
                .and_then(|()| reserve(&file, parts.drive_bytes()))
                .map_err(|e| failed("reserve space for", path, e)),
        };
        let made = made.and_then(|()| {
            // No record of an earlier drive is left, and the header comes last.
            let tables = vec![0; 2 * parts.table_bytes as usize];
            let written = write_all(&file, HEADER_BYTES as u64, &tables)
                .and_then(|()| file.sync_all())
                .and_then(|()| write_all(&file, 0, &header.encode(&FORMAT)))
                .and_then(|()| file.sync_all());
            written.map_err(|e| failed("create the flash drive", path, e))
        });
        if made.is_err() && !is_device {
            let _ = std::fs::remove_file(path);
        }
        made?;
        Self::with(file, path, header)
    }

    /// Opens the drive `path`. Reads its tables: 64 bytes a block.
    ///
    /// # Errors
    /// `NotFound`; `Config` if it is no drive; `Unsupported` for another version; `Corruption` if
    /// its header is damaged or it was cut; `Locked` if it is open elsewhere; `Io`.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = LockedFile::lock(opened.map_err(|e| failed("open", path, e))?, path)?;
        let mut bytes = [0; HEADER_BYTES];
        let filled = read_full(&file, 0, &mut bytes, 1).map_err(|e| failed("read", path, e))?;
        let name = path.display();
        if filled < HEADER_BYTES {
            let detail = "it ends within its header, so it is no flash drive or was cut";
            return Err(Error::corruption(name, filled as u64, detail));
        }
        let header = Header::decode(&FORMAT, &bytes, &name)?;
        check_size(&file, path, &Parts::new(header.geometry))?;
        Self::with(file, path, header)
    }

    fn with(file: LockedFile, path: &Path, header: Header) -> Result<Self> {
        let (geometry, parts) = (header.geometry, Parts::new(header.geometry));
        let mut tables = [vec![0; parts.table_bytes as usize], vec![0; parts.table_bytes as usize]];
        for (place, table) in (0..).zip(&mut tables) {
            let at = parts.record(0, place);
            read_full(&file, at, table, 1).map_err(|e| failed("read", path, e))?;
        }
        let block = |block: u32| {
            let of = |place: usize| {
                let at = block as usize * RECORD_BYTES;
                let bytes = tables[place][at..].first_chunk::<RECORD_BYTES>().expect("its room");
                (bytes, parts.record(block, place as u64))
            };
            Mutex::new(find(&header, [of(0), of(1)]))
        };
        let blocks = (0..geometry.block_count()).map(block).collect();
        let streams = Streams::of(path);
        let abilities = Abilities {
            is_physical: false,
            is_durable_at_return: false,
            orders_appends: true,
            counts_erases: true,
            checks_pages: false,
            open_blocks_max: None,
            streams: streams.count(),
            endurance: (header.endurance > 0).then_some(header.endurance),
        };
        let drive = Arc::new(Drive {
            direct: open_direct(path, &geometry),
            file,
            path: path.to_path_buf(),
            header,
            parts,
            abilities,
            blocks,
            counters: FlashCounters::new(&geometry),
            is_poisoned: AtomicBool::new(false),
            streams,
            discards: Discards::of(path),
        });
        let has_ring = drive.direct.is_some() && probe_ring().is_ok();
        Ok(FlashDrive { workers: Workers::new(drive.clone()), drive, has_ring })
    }

    /// Where the drive is.
    pub fn path(&self) -> &Path {
        &self.drive.path
    }

    /// True if pages are read and written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.drive.direct.is_some()
    }
}

pub(super) fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Refuses what is smaller than its geometry.
fn check_size(mut file: &File, path: &Path, parts: &Parts) -> Result<()> {
    let has = file.seek(SeekFrom::End(0)).map_err(|e| failed("look at", path, e))?;
    let needed = parts.drive_bytes();
    if has < needed {
        let message = format!(
            "{} has {has} bytes, and flash of {} needs {needed}: it was cut, or the geometry is \
             not its own",
            path.display(),
            parts.geometry
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(())
}

/// The file past the page cache; `None` if its pages or its file system do not allow that.
fn open_direct(path: &Path, geometry: &Geometry) -> Option<File> {
    if !u64::from(geometry.page_bytes).is_multiple_of(BLOCK_BYTES as u64) {
        return None;
    }
    let flags = OFlags::DIRECT | OFlags::RDWR | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()?;
    Some(File::from(opened))
}

/// What the records of a block, which lie at these positions, say of it.
fn find(header: &Header, places: [(&[u8; RECORD_BYTES], u64); 2]) -> Block {
    let pages = header.geometry.pages;
    let decode =
        |(bytes, at): (&[u8; RECORD_BYTES], u64)| Record::decode(bytes, header.image, at, pages);
    let is_damaged = |place: &(&[u8; RECORD_BYTES], u64)| {
        *place.0 != [0; RECORD_BYTES] && decode(*place).is_none()
    };
    let newest = places.into_iter().filter_map(decode).max_by_key(|record| record.sequence);
    let is_undefined = newest.is_none() && places.iter().any(is_damaged);
    newest.map_or(
        Block { recorded: Recorded::Appending, is_undefined, sequence: 0, erases: 0, written: 0 },
        |record| Block {
            recorded: record.state,
            is_undefined: false,
            sequence: record.sequence,
            erases: record.erases,
            written: record.pages,
        },
    )
}

impl Drive {
    fn geometry(&self) -> &Geometry {
        &self.header.geometry
    }

    fn lock_block(&self, block: BlockAddress) -> FlashResult<(u32, MutexGuard<'_, Block>)> {
        checks::contains(self.geometry(), block)?;
        let index = self.geometry().index_of(block);
        Ok((index, self.blocks[index as usize].lock().expect("no panic while locked")))
    }

    /// Locks a block that is to be changed.
    fn change_block(&self, block: BlockAddress) -> FlashResult<(u32, MutexGuard<'_, Block>)> {
        let locked = self.lock_block(block)?;
        if self.is_poisoned.load(Ordering::Acquire) {
            return Err(FlashError::new(FlashFault::Poisoned, block));
        }
        Ok(locked)
    }

    fn read_pages(&self, at: u64, pages: &mut [u8]) -> io::Result<usize> {
        match &self.direct {
            Some(direct) if is_aligned(pages) => read_full(direct, at, pages, BLOCK_BYTES),
            Some(direct) => {
                let mut buffer = AlignedBuf::zeroed(pages.len());
                let filled = read_full(direct, at, &mut buffer, BLOCK_BYTES)?;
                pages.copy_from_slice(&buffer);
                Ok(filled)
            }
            None => read_full(&self.file, at, pages, 1),
        }
    }

    fn write_pages(&self, at: u64, pages: &[u8], stream: u16) -> io::Result<()> {
        match &self.direct {
            Some(direct) if is_aligned(pages) => self.streams.write(direct, at, pages, stream),
            Some(direct) => {
                let mut buffer = AlignedBuf::zeroed(pages.len());
                buffer.copy_from_slice(pages);
                self.streams.write(direct, at, &buffer, stream)
            }
            None => self.streams.write(&self.file, at, pages, stream),
        }
    }

    fn write_record(&self, index: u32, place: u64, record: &Record) -> io::Result<()> {
        let position = self.parts.record(index, place);
        write_all(&self.file, position, &record.encode(self.header.image, position))
    }

    /// Writes what a block is from now on, in one place or in both.
    fn record(
        &self,
        address: BlockAddress,
        index: u32,
        block: &mut Block,
        now: Block,
        in_both: bool,
    ) -> FlashResult<()> {
        let sequence = block.sequence + 1;
        let Block { recorded: state, erases, written: pages, .. } = now;
        let record = Record { state, sequence, erases, pages };
        for place in (0..2).filter(|place| in_both || *place == sequence % 2) {
            self.write_record(index, place, &record).map_err(|e| FlashError::io(address, e))?;
        }
        *block = Block { sequence, is_undefined: false, ..now };
        Ok(())
    }

    fn write_spare(
        &self,
        index: u32,
        first: u32,
        append: &Append<'_>,
        count: u32,
    ) -> io::Result<()> {
        let bytes = count as usize * self.geometry().spare_bytes as usize;
        let at = self.parts.spare(index, first);
        match append.spare {
            _ if bytes == 0 => Ok(()),
            [] => write_all(&self.file, at, &vec![0; bytes]),
            spare => write_all(&self.file, at, spare),
        }
    }
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
}

/// A read of pages that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    /// Where the pages are in the file.
    pub(super) offset: u64,
    first: PageAddress,
    index: u32,
    count: u32,
    erases: u64,
}

impl Drive {
    /// LUNs of a channel.
    pub(super) fn luns(&self) -> u32 {
        self.geometry().luns
    }

    /// The file past the page cache.
    pub(super) fn direct(&self) -> Option<&File> {
        self.direct.as_ref()
    }

    /// Looks whether there is what a read of so many bytes asks for.
    pub(super) fn begin_read(
        &self,
        first: PageAddress,
        bytes: usize,
        spare_bytes: usize,
    ) -> FlashResult<Begun> {
        let count = checks::pages_of_read(self.geometry(), first, bytes, spare_bytes)?;
        let (index, block) = self.lock_block(first.block)?;
        checks::has_pages(&block, first, count)?;
        let erases = block.erases;
        drop(block);
        let offset = self.parts.page(index, first.page);
        Ok(Begun { offset, first, index, count, erases })
    }

    /// What a read that gave `filled` of `wanted` bytes is worth.
    pub(super) fn end_read(&self, begun: &Begun, filled: usize, wanted: usize) -> FlashResult<()> {
        let Begun { first, count, erases, .. } = *begun;
        if filled < wanted {
            // Somebody cut the file while it was open.
            return Err(FlashError::new(FlashFault::Uncorrectable, first));
        }
        if self.lock_block(first.block)?.1.erases != erases {
            // A reset has overtaken this read, and others may have written since.
            return Err(FlashError::new(FlashFault::Unwritten, first));
        }
        self.counters.add_reads(first.block, u64::from(count));
        Ok(())
    }
}

impl Carrier for Drive {
    fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()> {
        let begun = self.begin_read(first, pages.len(), spare.len())?;
        let filled = self.read_pages(begun.offset, pages);
        let filled = filled.map_err(|e| FlashError::io(first, e))?;
        if !spare.is_empty() {
            let at = self.parts.spare(begun.index, first.page);
            read_full(&self.file, at, spare, 1).map_err(|e| FlashError::io(first, e))?;
        }
        self.end_read(&begun, filled, pages.len())
    }

    fn append(&self, append: &Append<'_>) -> FlashResult<u32> {
        let count = checks::pages_of_append(self.geometry(), append)?;
        let (index, mut block) = self.change_block(append.block)?;
        checks::takes_pages(&block.status(self.geometry()), append, count)?;
        let first = block.written;
        self.write_spare(index, first, append, count)
            .and_then(|()| {
                self.write_pages(self.parts.page(index, first), append.pages, append.stream)
            })
            .map_err(|e| FlashError::io(append.block.page(first), e))?;
        let written = first + count;
        let is_full = written == self.geometry().pages;
        let recorded = if is_full { Recorded::Closed } else { Recorded::Appending };
        let now = Block { recorded, written, ..*block };
        self.record(append.block, index, &mut block, now, false)?;
        self.counters.add_programs(append.block, u64::from(count));
        Ok(first)
    }

    fn finish(&self, address: BlockAddress) -> FlashResult<()> {
        let (index, mut block) = self.change_block(address)?;
        match block.status(self.geometry()).state {
            BlockState::Full => Ok(()),
            BlockState::Undefined => Err(FlashError::new(FlashFault::NeedsReset, address)),
            BlockState::Bad => Err(FlashError::new(FlashFault::BadBlock, address)),
            BlockState::Free | BlockState::Open => {
                let now = Block { recorded: Recorded::Closed, ..*block };
                self.record(address, index, &mut block, now, false)
            }
        }
    }

    fn reset(&self, address: BlockAddress) -> FlashResult<()> {
        let (index, mut block) = self.change_block(address)?;
        if block.recorded == Recorded::Bad {
            return Err(FlashError::new(FlashFault::BadBlock, address));
        }
        if self.header.endurance > 0 && block.erases >= u64::from(self.header.endurance) {
            let now = Block { recorded: Recorded::Bad, ..*block };
            self.record(address, index, &mut block, now, true)?;
            self.counters.add_failures(address, 1);
            return Err(FlashError::new(FlashFault::WornOut, address));
        }
        let erases = block.erases + 1;
        let now = Block { recorded: Recorded::Appending, erases, written: 0, ..*block };
        self.record(address, index, &mut block, now, true)?;
        // Before anybody can append: the lock of the block is held.
        let pages = self.parts.page(index, 0);
        self.discards.discard(&self.file, pages..pages + self.geometry().block_bytes());
        self.counters.add_erases(address, 1);
        Ok(())
    }
}

impl FlashDevice for FlashDrive {
    type Queue<'d, T> = DriveQueue<'d, T>;

    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn abilities(&self) -> &Abilities {
        &self.drive.abilities
    }

    fn block(&self, block: BlockAddress) -> FlashResult<BlockStatus> {
        Ok(self.drive.lock_block(block)?.1.status(self.geometry()))
    }

    fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()> {
        self.drive.read(first, pages, spare)
    }

    fn append(&self, append: &Append<'_>) -> FlashResult<u32> {
        self.drive.append(append)
    }

    fn finish(&self, block: BlockAddress) -> FlashResult<()> {
        self.drive.finish(block)
    }

    fn reset(&self, block: BlockAddress) -> FlashResult<()> {
        self.drive.reset(block)
    }

    fn retire(&self, address: BlockAddress) -> FlashResult<()> {
        let (index, mut block) = self.drive.change_block(address)?;
        if block.recorded == Recorded::Bad {
            return Ok(());
        }
        let now = Block { recorded: Recorded::Bad, ..*block };
        self.drive.record(address, index, &mut block, now, true)
    }

    fn sync(&self) -> FlashResult<()> {
        if self.drive.is_poisoned.load(Ordering::Acquire) {
            return Err(FlashError::new(FlashFault::Poisoned, Place::Device));
        }
        // One inode: what went past the page cache is in it, too.
        self.drive.file.sync_data().map_err(|e| {
            self.drive.is_poisoned.store(true, Ordering::Release);
            FlashError::io(Place::Device, e)
        })?;
        self.drive.counters.add_sync();
        Ok(())
    }

    fn queue<T>(&self, depth: usize) -> DriveQueue<'_, T> {
        DriveQueue::new(&self.drive, &self.workers, self.has_ring, depth)
    }

    fn counters(&self) -> &FlashCounters {
        &self.drive.counters
    }

    fn streamed_bytes(&self) -> u64 {
        self.drive.streams.bytes()
    }
}
