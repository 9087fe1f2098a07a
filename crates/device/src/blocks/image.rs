//! A flash image: a file that behaves like flash.
//!
//! Invariants (the format page has the crash argument):
//!
//! 1. The header is written once, before the file has its name.
//! 2. A page is there if its mark, or that of a later page, has the block's erases. Marks are
//!    written after the pages that they are of.
//! 3. A reset writes both places of the block's record and nothing else. From then on no mark
//!    that was written before counts.
//! 4. The record of a full or finished block says how many pages it has, so damage of marks
//!    cannot take pages away unnoticed.
//! 5. Marks with more erases than the record mean a reset whose record was lost: the block is
//!    undefined until it is reset again.
//! 6. A page is given to a reader only if its mark has the block's erases and its contents match.
//! 7. One opening at a time: the file is locked (`flock`) for as long as the image is open.
//! 8. A sync that failed is final for this opening: nothing is written after it.

use super::checks;
use super::layout::{
    self, Block, HEADER_BYTES, Header, Layout, MARK_BYTES, Mark, RECORD_BYTES, Record, Recorded,
};
use super::workers::{Carrier, ImageQueue, Workers};
use super::{
    Abilities, Append, BlockAddress, BlockState, BlockStatus, FlashCounters, FlashDevice,
    FlashError, FlashFault, FlashResult, Geometry, PageAddress, Place,
};
use crate::os::{LockedFile, create_failed, failed, read_full, sync_directory, write_all};
use silica_base::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a new image is made with, beside its geometry.
#[derive(Debug, Clone, Copy)]
pub struct FlashImageOptions {
    /// A number that no other image has, from the caller's source of random numbers. It is bound
    /// into every checksum, so that parts of another image do not pass.
    pub id: u64,
    /// Resets that a block takes before it is worn out; `None` for any number.
    pub endurance: Option<u32>,
}

/// A file that behaves like flash.
///
/// Reads and appends go through the page cache in the calling thread, those of a queue in up to
/// eight threads, by LUN. Every page is checksummed when it is written and when it is read.
pub struct FlashImage {
    image: Arc<Image>,
    workers: Workers,
}

/// What the threads of a queue share with the image.
pub(super) struct Image {
    file: LockedFile,
    path: PathBuf,
    header: Header,
    layout: Layout,
    abilities: Abilities,
    blocks: Box<[Mutex<Block>]>,
    counters: FlashCounters,
    is_poisoned: AtomicBool,
}

impl FlashImage {
    /// Creates the image `path`, which must not exist, and opens it. The file has its full
    /// length and takes space as it is written to.
    ///
    /// # Errors
    /// `Config` if the geometry breaks a limit or there is a file; `Io`, `Full` if the file cannot
    /// be made.
    pub fn create(path: &Path, geometry: Geometry, options: FlashImageOptions) -> Result<Self> {
        geometry.check()?;
        let header =
            Header { image: options.id, geometry, endurance: options.endurance.unwrap_or(0) };
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".new");
        let new = path.with_file_name(name);
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&new);
        let file = opened.map_err(|e| failed("create", &new, e))?;
        // From here on nobody else makes an image of this name.
        let file = LockedFile::lock(file, &new)?;
        let written = write_new(&file, &header).and_then(|()| {
            if path.exists() {
                return Err(std::io::ErrorKind::AlreadyExists.into());
            }
            std::fs::rename(&new, path)
        });
        written.map_err(|e| {
            let _ = std::fs::remove_file(&new);
            create_failed(path, e)
        })?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_directory(parent.unwrap_or(Path::new(".")))?;
        Self::with(file, path, header)
    }

    /// Opens the image `path`. With `expected`, an image of another geometry is refused. Reads
    /// the records and marks of all blocks: 32 bytes a page.
    ///
    /// # Errors
    /// `NotFound`; `Config` if it is no image or has another geometry; `Unsupported` for another
    /// version; `Corruption` if its header is damaged or it was cut; `Locked` if it is open
    /// elsewhere; `Io`.
    pub fn open(path: &Path, expected: Option<&Geometry>) -> Result<Self> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|e| failed("open", path, e))?;
        let file = LockedFile::lock(file, path)?;
        let name = path.display();
        let length = file.metadata().map_err(|e| failed("look at", path, e))?.len();
        let mut bytes = [0; HEADER_BYTES];
        let filled = read_full(&file, 0, &mut bytes, 1).map_err(|e| failed("read", path, e))?;
        if filled < HEADER_BYTES {
            let detail = "it ends within its header, so it is no flash image or was cut";
            return Err(Error::corruption(name, filled as u64, detail));
        }
        let header = Header::decode(&layout::FORMAT, &bytes, &name)?;
        if let Some(expected) = expected
            && *expected != header.geometry
        {
            let message = format!(
                "{name} has the geometry {} and not {expected}; open it as it is, or create \
                 another",
                header.geometry
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let needed = Layout::new(&header.geometry).image_bytes();
        if length != needed {
            let detail = format!("it has {length} bytes; its geometry needs {needed}: it was cut");
            let detail = if length > needed { detail.replace("cut", "extended") } else { detail };
            return Err(Error::corruption(name, length.min(needed), detail));
        }
        Self::with(file, path, header)
    }

    fn with(file: LockedFile, path: &Path, header: Header) -> Result<Self> {
        let layout = Layout::new(&header.geometry);
        let mut marks = vec![0; header.geometry.pages as usize * MARK_BYTES];
        let blocks: Result<Box<[_]>> = (0..header.geometry.block_count())
            .map(|block| {
                let found = find(&file, &header, &layout, block, &mut marks);
                found.map(Mutex::new).map_err(|e| failed("read", path, e))
            })
            .collect();
        let abilities = Abilities {
            is_physical: false,
            is_durable_at_return: false,
            orders_appends: true,
            counts_erases: true,
            checks_pages: true,
            open_blocks_max: None,
            streams: 0,
            endurance: (header.endurance > 0).then_some(header.endurance),
        };
        let image = Arc::new(Image {
            file,
            path: path.to_path_buf(),
            header,
            layout,
            abilities,
            blocks: blocks?,
            counters: FlashCounters::new(&header.geometry),
            is_poisoned: AtomicBool::new(false),
        });
        Ok(FlashImage { workers: Workers::new(image.clone()), image })
    }

    /// Where the image is.
    pub fn path(&self) -> &Path {
        &self.image.path
    }
}

/// Makes the locked `file` an image on which nothing was written yet, durably.
fn write_new(file: &File, header: &Header) -> std::io::Result<()> {
    file.set_len(0)?;
    file.set_len(Layout::new(&header.geometry).image_bytes())?;
    write_all(file, 0, &header.encode(&layout::FORMAT))?;
    file.sync_all()
}

/// Finds out what block `block` holds. `marks` is room for its marks.
fn find(
    file: &File,
    header: &Header,
    layout: &Layout,
    block: u32,
    marks: &mut [u8],
) -> std::io::Result<Block> {
    let mut newest: Option<Record> = None;
    let mut damaged = 0;
    for place in 0..2 {
        let position = layout.record(block, place);
        let mut bytes = [0; RECORD_BYTES];
        read_full(file, position, &mut bytes, 1)?;
        let record = Record::decode(&bytes, header.image, position, header.geometry.pages);
        damaged += u32::from(record.is_none() && bytes != [0; RECORD_BYTES]);
        newest = newest.into_iter().chain(record).max_by_key(|record| record.sequence);
    }
    read_full(file, layout.mark(block, 0), marks, 1)?;
    let recorded = newest.map_or(0, |record| record.erases);
    let (mut written, mut erases) = (0, recorded);
    let (marks, _) = marks.as_chunks::<MARK_BYTES>();
    for (page, bytes) in (0..).zip(marks) {
        let Some(mark) = Mark::decode(bytes, header.image, layout.mark(block, page)) else {
            continue;
        };
        erases = erases.max(mark.erases);
        if mark.erases == recorded {
            written = page + 1;
        }
    }
    // A block of which one place is still zero was never reset: its marks say what it has.
    let is_undefined = erases > recorded || damaged == 2;
    let mut found = Block {
        recorded: newest.map_or(Recorded::Appending, |record| record.state),
        is_undefined,
        sequence: newest.map_or(0, |record| record.sequence),
        erases,
        written: newest.map_or(written, |record| written.max(record.pages)),
    };
    if is_undefined {
        found.written = 0;
    }
    Ok(found)
}

impl Image {
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

    pub(super) fn read(
        &self,
        first: PageAddress,
        pages: &mut [u8],
        spare: &mut [u8],
    ) -> FlashResult<()> {
        let count = checks::pages_of_read(self.geometry(), first, pages.len(), spare.len())?;
        let (index, block) = self.lock_block(first.block)?;
        let Block { is_undefined, erases, written, .. } = *block;
        drop(block);
        if is_undefined {
            return Err(FlashError::new(FlashFault::NeedsReset, first.block));
        }
        if first.page + count > written {
            let unwritten = first.block.page(written.max(first.page));
            return Err(FlashError::new(FlashFault::Unwritten, unwritten));
        }
        let found = self.read_checked(index, first, erases, pages, spare);
        if let Err(error) = &found
            && error.fault() == FlashFault::Uncorrectable
        {
            // A reset may have overtaken this read: then the page is gone, not damaged.
            if self.lock_block(first.block)?.1.erases != erases {
                return Err(FlashError::new(FlashFault::Unwritten, first));
            }
            self.counters.add_failures(first.block, 1);
        }
        found?;
        self.counters.add_reads(first.block, u64::from(count));
        Ok(())
    }

    fn read_checked(
        &self,
        index: u32,
        first: PageAddress,
        erases: u64,
        pages: &mut [u8],
        spare: &mut [u8],
    ) -> FlashResult<()> {
        let page_bytes = self.geometry().page_bytes as usize;
        let spare_bytes = self.geometry().spare_bytes as usize;
        let count = pages.len() / page_bytes;
        let mut own_spare = Vec::new();
        let spare = if spare.is_empty() && spare_bytes > 0 {
            own_spare.resize(count * spare_bytes, 0);
            &mut own_spare[..]
        } else {
            spare
        };
        let mut marks = vec![[0; MARK_BYTES]; count];
        let (image, layout) = (self.header.image, &self.layout);
        for (position, bytes) in [
            (layout.mark(index, first.page), marks.as_flattened_mut()),
            (layout.spare(index, first.page), &mut *spare),
            (layout.page(index, first.page), &mut *pages),
        ] {
            let filled = read_full(&self.file, position, bytes, 1);
            let filled = filled.map_err(|e| FlashError::io(first, e))?;
            if filled < bytes.len() {
                // Somebody cut the file while it was open.
                return Err(FlashError::new(FlashFault::Uncorrectable, first));
            }
        }
        for (i, (page, bytes)) in (first.page..).zip(&marks).enumerate() {
            let mark = Mark::decode(bytes, image, layout.mark(index, page));
            let contents = layout::contents(
                image,
                layout.page(index, page),
                erases,
                &pages[i * page_bytes..][..page_bytes],
                &spare[i * spare_bytes..][..spare_bytes],
            );
            if !mark.is_some_and(|mark| mark.erases == erases && mark.contents == contents) {
                let damaged = first.block.page(page);
                return Err(FlashError::new(FlashFault::Uncorrectable, damaged));
            }
        }
        Ok(())
    }

    pub(super) fn append(&self, append: &Append<'_>) -> FlashResult<u32> {
        let count = checks::pages_of_append(self.geometry(), append)?;
        let (index, mut block) = self.change_block(append.block)?;
        checks::takes_pages(&block.status(self.geometry()), append, count)?;
        let first = block.written;
        self.write_pages(index, first, block.erases, append, count)
            .map_err(|e| FlashError::io(append.block.page(first), e))?;
        block.written += count;
        self.counters.add_programs(append.block, u64::from(count));
        if block.written == self.geometry().pages {
            self.record(append.block, index, &mut block, Recorded::Closed)?;
        }
        Ok(first)
    }

    fn write_pages(
        &self,
        index: u32,
        first: u32,
        erases: u64,
        append: &Append<'_>,
        count: u32,
    ) -> std::io::Result<()> {
        let page_bytes = self.geometry().page_bytes as usize;
        let spare_bytes = self.geometry().spare_bytes as usize;
        let zeroes;
        let spare = if append.spare.is_empty() && spare_bytes > 0 {
            zeroes = vec![0; count as usize * spare_bytes];
            &zeroes
        } else {
            append.spare
        };
        let (image, layout) = (self.header.image, &self.layout);
        let mut marks = Vec::with_capacity(count as usize * MARK_BYTES);
        for (i, page) in (first..first + count).enumerate() {
            let contents = layout::contents(
                image,
                layout.page(index, page),
                erases,
                &append.pages[i * page_bytes..][..page_bytes],
                &spare[i * spare_bytes..][..spare_bytes],
            );
            let mark = Mark { contents, erases, stream: append.stream };
            marks.extend_from_slice(&mark.encode(image, layout.mark(index, page)));
        }
        write_all(&self.file, layout.spare(index, first), spare)?;
        write_all(&self.file, layout.page(index, first), append.pages)?;
        write_all(&self.file, layout.mark(index, first), &marks)
    }

    /// Writes one record of a block that is closed from now on, both of one that is bad.
    fn record(
        &self,
        address: BlockAddress,
        index: u32,
        block: &mut Block,
        state: Recorded,
    ) -> FlashResult<()> {
        let sequence = block.sequence + 1;
        let record = Record { state, sequence, erases: block.erases, pages: block.written };
        let is_bad = state == Recorded::Bad;
        for place in (0..2).filter(|place| is_bad || *place == sequence % 2) {
            self.write_record(index, place, &record).map_err(|e| FlashError::io(address, e))?;
        }
        (block.sequence, block.recorded) = (sequence, state);
        Ok(())
    }

    fn write_record(&self, index: u32, place: u64, record: &Record) -> std::io::Result<()> {
        let position = self.layout.record(index, place);
        write_all(&self.file, position, &record.encode(self.header.image, position))
    }

    pub(super) fn finish(&self, address: BlockAddress) -> FlashResult<()> {
        let (index, mut block) = self.change_block(address)?;
        match block.status(self.geometry()).state {
            BlockState::Full => Ok(()),
            BlockState::Undefined => Err(FlashError::new(FlashFault::NeedsReset, address)),
            BlockState::Bad => Err(FlashError::new(FlashFault::BadBlock, address)),
            BlockState::Free | BlockState::Open => {
                self.record(address, index, &mut block, Recorded::Closed)
            }
        }
    }

    pub(super) fn reset(&self, address: BlockAddress) -> FlashResult<()> {
        let (index, mut block) = self.change_block(address)?;
        if block.recorded == Recorded::Bad {
            return Err(FlashError::new(FlashFault::BadBlock, address));
        }
        if self.header.endurance > 0 && block.erases >= u64::from(self.header.endurance) {
            self.record(address, index, &mut block, Recorded::Bad)?;
            self.counters.add_failures(address, 1);
            return Err(FlashError::new(FlashFault::WornOut, address));
        }
        let (sequence, erases) = (block.sequence + 1, block.erases + 1);
        let record = Record { state: Recorded::Appending, sequence, erases, pages: 0 };
        block.is_undefined = true;
        block.written = 0;
        for place in 0..2 {
            self.write_record(index, place, &record).map_err(|e| FlashError::io(address, e))?;
        }
        *block = Block {
            recorded: Recorded::Appending,
            is_undefined: false,
            sequence,
            erases,
            written: 0,
        };
        self.counters.add_erases(address, 1);
        Ok(())
    }

    fn retire(&self, address: BlockAddress) -> FlashResult<()> {
        let (index, mut block) = self.change_block(address)?;
        if block.recorded == Recorded::Bad {
            return Ok(());
        }
        self.record(address, index, &mut block, Recorded::Bad)
    }

    fn sync(&self) -> FlashResult<()> {
        if self.is_poisoned.load(Ordering::Acquire) {
            return Err(FlashError::new(FlashFault::Poisoned, Place::Device));
        }
        self.file.sync_data().map_err(|e| {
            self.is_poisoned.store(true, Ordering::Release);
            FlashError::io(Place::Device, e)
        })?;
        self.counters.add_sync();
        Ok(())
    }
}

impl Carrier for Image {
    fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()> {
        Image::read(self, first, pages, spare)
    }

    fn append(&self, append: &Append<'_>) -> FlashResult<u32> {
        Image::append(self, append)
    }

    fn finish(&self, block: BlockAddress) -> FlashResult<()> {
        Image::finish(self, block)
    }

    fn reset(&self, block: BlockAddress) -> FlashResult<()> {
        Image::reset(self, block)
    }
}

impl FlashDevice for FlashImage {
    type Queue<'d, T> = ImageQueue<'d, T>;

    fn geometry(&self) -> &Geometry {
        self.image.geometry()
    }

    fn abilities(&self) -> &Abilities {
        &self.image.abilities
    }

    fn block(&self, block: BlockAddress) -> FlashResult<BlockStatus> {
        Ok(self.image.lock_block(block)?.1.status(self.geometry()))
    }

    fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()> {
        self.image.read(first, pages, spare)
    }

    fn append(&self, append: &Append<'_>) -> FlashResult<u32> {
        self.image.append(append)
    }

    fn finish(&self, block: BlockAddress) -> FlashResult<()> {
        self.image.finish(block)
    }

    fn reset(&self, block: BlockAddress) -> FlashResult<()> {
        self.image.reset(block)
    }

    fn retire(&self, block: BlockAddress) -> FlashResult<()> {
        self.image.retire(block)
    }

    fn sync(&self) -> FlashResult<()> {
        self.image.sync()
    }

    fn queue<T>(&self, depth: usize) -> ImageQueue<'_, T> {
        ImageQueue::new(&self.workers, self.geometry().luns, depth)
    }

    fn counters(&self) -> &FlashCounters {
        &self.image.counters
    }
}
