//! Regions: mapped bytes that outlive their process, and on some machines a power cut. Not frozen:
//! the interface may change until engines for persistent memory use it.
//!
//! A [`Region`] is read and written by the processor's own loads and stores. Lines of
//! [`LINE_BYTES`] become durable by [`Region::flush`] and [`Region::fence`]; what that is worth on
//! the medium at hand is the region's [`RegionClass`], which is found out when it is opened.
//!
//! - [`FileRegion`]: a mapped file, on persistent memory, in memory (tmpfs, hugetlbfs, memfd) or
//!   on a disk.
//! - [`crate::sim::SimRegion`]: its simulated twin, which decides line by line, or page by page,
//!   what a power cut leaves.
//!
//! Obligations of every region, which one suite and the crash tests check:
//!
//! 1. A word of 8 bytes at a multiple of 8 is never torn: neither for another thread nor by a
//!    power cut. Nothing larger is whole by itself.
//! 2. In the class [`RegionClass::Lines`], bytes that were stored, and then flushed and fenced by
//!    one thread, survive a power cut. Bytes that were not may or may not survive, each word by
//!    itself, in any order, and in any of the values that it had since its last fence.
//! 3. In the class [`RegionClass::Pages`], [`Region::sync`] makes durable what was stored before.
//!    Without it a power cut leaves each page of 4096 bytes as it was at some moment since the
//!    last sync, by itself, whatever was fenced; a page whose write was under way is a mixture.
//!    In the class [`RegionClass::Process`] nothing survives a power cut.
//! 4. Everything that was stored survives the death of the process.
//! 5. Once a fence or a sync failed, it fails with `Poisoned` until the region is opened again.
//! 6. A region grows, shrinks and gives space back while other threads read and write the rest.
//!    If that fails, nothing has changed.
//!
//! Threads read while others write: [`Region::load`] acquires what the [`Region::store`] that it
//! reads has released. [`Region::read`] and [`Region::write`] move words without an order among
//! themselves; a reader that may meet a writer checks a sequence number around its read, as a
//! sequence lock does. Two threads that write bytes of one word MUST be kept apart by the caller.
//!
//! ```no_run
//! use silica_device::region::{FileRegion, Region};
//!
//! let region = FileRegion::create("counter.region".as_ref(), 1 << 20)?;
//! region.write(64, b"what the commit word is about");
//! region.flush(64, 29);
//! region.fence()?; // the bytes come before the commit word
//! region.store(0, 1);
//! region.flush(0, 8);
//! region.fence()?;
//! println!("this survives {}", region.class());
//! # Ok::<(), silica_base::Error>(())
//! ```

mod class;
mod extent;
mod file;
mod lines;
mod mapping;
mod opening;
mod pages;
mod platform;
mod scratch;
mod sync;
mod words;

pub use class::RegionClass;
pub use file::FileRegion;
pub use opening::{Flush, RegionOptions};
pub use scratch::class_of;

use silica_base::{Error, ErrorKind, Result};

/// Bytes of a line, the unit in which processors write memory back.
pub const LINE_BYTES: u64 = 64;
/// Bytes of an XPLine, the unit in which persistent memory is written inside.
pub const XPLINE_BYTES: u64 = 256;

/// Mapped bytes. The obligations of a region stand at the top of the module.
///
/// All calls panic if they reach beyond the region, as those of a slice do: offsets from a medium
/// are checked by whoever reads them there.
pub trait Region: Send + Sync + 'static {
    /// Bytes of the region, a multiple of [`XPLINE_BYTES`].
    fn len(&self) -> u64;
    /// True if the region has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// What survives after a fence.
    fn class(&self) -> RegionClass;
    /// Makes the region `bytes` long, with zeroes behind what is there, while other threads read
    /// and write it. The new length is durable as far as the class goes. One thread at a time.
    ///
    /// # Errors
    /// `Full` if there is no space, `Config` if `bytes` is less than it has, no multiple of 4096,
    /// or over what can be mapped, `Unsupported` if this region cannot: nothing has changed.
    fn grow(&self, bytes: u64) -> Result<()> {
        let message = format!("a region of {} bytes cannot grow to {bytes}", self.len());
        Err(Error::new(ErrorKind::Unsupported, message))
    }
    /// Makes the region `bytes` long and gives the space behind it back. Nobody may look at it
    /// any more. One thread at a time.
    ///
    /// # Errors
    /// As for [`Region::grow`].
    fn truncate(&self, bytes: u64) -> Result<()> {
        let message = format!("a region of {} bytes cannot be cut to {bytes}", self.len());
        Err(Error::new(ErrorKind::Unsupported, message))
    }
    /// Gives the space of whole pages back (4096 bytes, or the medium's huge pages): their bytes
    /// read as zero, or as what they were if the medium has no holes. A power cut may bring old
    /// bytes back, page by page, until [`Region::reserve`] or [`Region::sync`] returns. Nobody
    /// stores there before [`Region::reserve`].
    ///
    /// # Errors
    /// `Io` if the system refuses; the bytes are what they were.
    fn release(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }
    /// Takes space for bytes that were released. A store to space that the medium does not have
    /// takes the process down. Costs little for what has its space.
    ///
    /// # Errors
    /// `Full` if there is no space: the bytes stay released.
    fn reserve(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }
    /// Makes everything that was stored durable, flushed or not, as far as the medium can: where
    /// the class is [`RegionClass::Pages`] this is the only way.
    ///
    /// # Errors
    /// As for [`Region::fence`].
    fn sync(&self) -> Result<()> {
        self.flush(0, self.len());
        self.fence()
    }
    /// Bytes that the medium has written and read inside, in its own lines, if the region counts
    /// them: a simulated one does, and processors tell programs nothing of it.
    fn media_bytes(&self) -> Option<(u64, u64)> {
        None
    }
    /// Asks the processor for the line at `offset`, which is read soon. Beyond the region nothing
    /// happens.
    #[inline]
    fn prefetch(&self, _offset: u64) {}
    /// The word at `offset`, in no order with other words.
    ///
    /// # Panics
    /// If `offset` is no multiple of 8.
    #[inline]
    fn word(&self, offset: u64) -> u64 {
        self.load(offset)
    }
    /// The word at `offset`, and everything that its writer did before it stored it.
    ///
    /// # Panics
    /// If `offset` is no multiple of 8.
    fn load(&self, offset: u64) -> u64;
    /// Stores the word at `offset`, whole and after everything that this thread did before.
    ///
    /// # Panics
    /// If `offset` is no multiple of 8.
    fn store(&self, offset: u64, value: u64);
    /// Reads bytes from `offset` on.
    fn read(&self, offset: u64, bytes: &mut [u8]);
    /// Stores bytes from `offset` on. Bytes beside them in their first and last word are stored
    /// again as they are.
    fn write(&self, offset: u64, bytes: &[u8]);
    /// Stores bytes from `offset` on and begins to make them durable, as [`Region::write`] and
    /// [`Region::flush`] do. For bytes that are not read soon: where the class is
    /// [`RegionClass::Lines`], they go past the cache (non-temporal stores) if the machine can.
    fn stream(&self, offset: u64, bytes: &[u8]) {
        self.write(offset, bytes);
        self.flush(offset, bytes.len() as u64);
    }
    /// Begins to make the lines of `len` bytes from `offset` on durable; the next fence of this
    /// thread waits for them. Costs about as much as a store for each line in
    /// [`RegionClass::Lines`].
    fn flush(&self, offset: u64, len: u64);
    /// Waits until everything that this thread flushed is durable, as far as the class goes.
    /// Stores after it do not become durable, or seen by other threads, before those before it. It
    /// does not order loads behind it.
    ///
    /// # Errors
    /// `Io` if the system cannot write, from there on `Poisoned`; `Closed` after a simulated power
    /// cut.
    fn fence(&self) -> Result<()>;
}

/// A place with regions that have names.
pub trait Regions: Send + Sync + 'static {
    /// What it has.
    type Region: Region;

    /// Makes a region of `bytes` zeroes. Its name is durable.
    ///
    /// # Errors
    /// As for [`FileRegion::create`].
    fn create_region(&self, name: &str, bytes: u64) -> Result<Self::Region>;

    /// The region `name`; `None` if there is none.
    ///
    /// # Errors
    /// As for [`FileRegion::open`].
    fn open_region(&self, name: &str) -> Result<Option<Self::Region>>;

    /// Removes a region that is not open.
    ///
    /// # Errors
    /// `Io`.
    fn remove_region(&self, name: &str) -> Result<()>;

    /// A number that is another one each time the machine was started.
    fn boot(&self) -> u64;
}

pub(crate) use extent::Extent;
pub(crate) use words::{lines_of, read_words, word_index, write_words};
