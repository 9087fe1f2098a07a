//! Segments: what the file system stands on, such as flash at the function level.

mod flash;

pub use flash::FlashGround;

use silica_base::{AlignedBuf, Result};

/// Pages that are written behind those that a segment has.
#[derive(Debug)]
pub struct Burst {
    /// The segment.
    pub segment: u32,
    /// The page of the segment that the first one becomes; it is the segment's next.
    pub first: u32,
    /// Whole pages.
    pub pages: AlignedBuf,
}

/// Pages of one segment that are read.
#[derive(Debug)]
pub struct Fetch {
    /// A number of the caller's.
    pub of: usize,
    /// The segment.
    pub segment: u32,
    /// The first page.
    pub first: u32,
    /// Room for whole pages.
    pub pages: AlignedBuf,
}

/// Segments that take pages in order and are given back as wholes. All methods may be called by
/// several threads.
pub trait Ground: Send + Sync {
    /// Bytes of a page.
    fn page_bytes(&self) -> usize;
    /// Pages of the largest segment.
    fn segment_pages(&self) -> u32;
    /// Segments, numbered from 0; some of them may not be usable.
    fn segments(&self) -> u32;
    /// Segments that can be held at all.
    fn usable(&self) -> u32;
    /// Segments kept back for copies of a collection.
    fn over_provisioned(&self) -> u32;
    /// Segments worth writing side by side.
    fn width(&self) -> u32;
    /// Pages of a file that follow each other in one segment before the next one's turn: few where
    /// segments are read side by side, many where each piece costs a call.
    fn stripe_pages(&self) -> u32;
    /// Segments that may have pages and room for more at the same time.
    fn open_max(&self) -> u32;
    /// Pages that a segment takes in all.
    fn capacity(&self, segment: u32) -> u32;
    /// Pages that a segment has.
    fn written(&self, segment: u32) -> u32;
    /// Segments with pages when the ground was opened, which are held from then on.
    fn found(&self) -> &[u32];
    /// Hands out an empty segment; `None` if there is none. It is of the channel that has the
    /// fewest of the segments in `beside`, and of these channels of the one that has least to do.
    /// Takes one of those kept back only if `is_copy`.
    ///
    /// # Errors
    /// What the device said.
    fn allocate(&self, is_copy: bool, beside: &[u32]) -> Result<Option<u32>>;
    /// Segments that can be had, those kept back included.
    fn free(&self) -> u32;
    /// Gives a segment back; it is erased later, and not read any more.
    ///
    /// # Errors
    /// What the device said.
    fn trim(&self, segment: u32) -> Result<()>;
    /// A segment takes no more pages.
    ///
    /// # Errors
    /// What the device said.
    fn finish(&self, segment: u32) -> Result<()>;
    /// Writes bursts side by side. Returns a result for each: after an error the segment takes no
    /// more pages, and [`Ground::written`] says which of them it has.
    fn write(&self, bursts: Vec<Burst>) -> Vec<Result<()>>;
    /// Reads side by side, and hands each piece to `done` as it comes.
    fn read(&self, fetches: Vec<Fetch>, done: &mut dyn FnMut(Fetch, Result<()>));
    /// Makes everything that returned before survive a power cut.
    ///
    /// # Errors
    /// What the device said; final.
    fn sync(&self) -> Result<()>;
    /// Background work: erases up to `max` segments that were given back.
    ///
    /// # Errors
    /// What the device said.
    fn tend(&self, max: u32) -> Result<()>;
}

impl Ground for Box<dyn Ground> {
    fn page_bytes(&self) -> usize {
        (**self).page_bytes()
    }

    fn segment_pages(&self) -> u32 {
        (**self).segment_pages()
    }

    fn segments(&self) -> u32 {
        (**self).segments()
    }

    fn usable(&self) -> u32 {
        (**self).usable()
    }

    fn over_provisioned(&self) -> u32 {
        (**self).over_provisioned()
    }

    fn width(&self) -> u32 {
        (**self).width()
    }

    fn stripe_pages(&self) -> u32 {
        (**self).stripe_pages()
    }

    fn open_max(&self) -> u32 {
        (**self).open_max()
    }

    fn capacity(&self, segment: u32) -> u32 {
        (**self).capacity(segment)
    }

    fn written(&self, segment: u32) -> u32 {
        (**self).written(segment)
    }

    fn found(&self) -> &[u32] {
        (**self).found()
    }

    fn allocate(&self, is_copy: bool, beside: &[u32]) -> Result<Option<u32>> {
        (**self).allocate(is_copy, beside)
    }

    fn free(&self) -> u32 {
        (**self).free()
    }

    fn trim(&self, segment: u32) -> Result<()> {
        (**self).trim(segment)
    }

    fn finish(&self, segment: u32) -> Result<()> {
        (**self).finish(segment)
    }

    fn write(&self, bursts: Vec<Burst>) -> Vec<Result<()>> {
        (**self).write(bursts)
    }

    fn read(&self, fetches: Vec<Fetch>, done: &mut dyn FnMut(Fetch, Result<()>)) {
        (**self).read(fetches, done);
    }

    fn sync(&self) -> Result<()> {
        (**self).sync()
    }

    fn tend(&self, max: u32) -> Result<()> {
        (**self).tend(max)
    }
}
