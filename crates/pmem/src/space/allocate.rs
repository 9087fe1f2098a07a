//! Objects are handed out and freed, and the region grows and shrinks with them.

use super::book::{Book, Freed, pages_of};
use super::classes::{class_bytes, class_of};
use super::layout::{EXTENT_COUNT, EXTENTS, EXTENTS_MAX, Extent, Held, descriptor, extents_word};
use super::{PAGE_BYTES, Space};
use silica_base::{Error, ErrorKind, Result};
use silica_device::region::Region;
use std::sync::atomic::Ordering;

/// A region grows by this share of what it has.
const GROWTH_SHARE: u64 = 16;
/// A region grows by this many pages at least, if it may.
const GROWTH_PAGES_MIN: u64 = 64;
/// Runs of fewer free pages keep their space.
const RELEASE_PAGES_MIN: u64 = 16;

impl<R: Region> Space<R> {
    /// Bytes that an object of `bytes` bytes gets: an engine that can use more of them does.
    pub fn fit(bytes: u64) -> u64 {
        class_of(bytes).map_or(bytes.next_multiple_of(PAGE_BYTES), class_bytes)
    }

    /// An object of at least `bytes` bytes: where it lies. What it holds is undefined. It lies at a
    /// multiple of every power of two up to 4096 that divides [`Space::fit`] of its bytes.
    ///
    /// The object is in nobody's reach before a durable word of the engine names it; if none does,
    /// it is free after a crash.
    ///
    /// # Errors
    /// `Full` if the region may not or cannot grow: nothing has changed.
    pub fn allocate(&self, bytes: u64) -> Result<u64> {
        let held = class_of(bytes).map_or(Held::One, Held::Class);
        loop {
            let mut book = self.book();
            if let Held::Class(class) = held
                && let Some(offset) = book.take_object(class)
            {
                return Ok(offset);
            }
            let pages = pages_of(held, bytes);
            if let Some((page, is_released)) = book.take_free(pages) {
                return self.carve(&mut book, page, pages, held, is_released);
            }
            let had = book.extents.len();
            drop(book);
            self.grow(pages, had)?;
        }
    }

    /// Makes a span of free pages, and takes its first object.
    fn carve(
        &self,
        book: &mut Book,
        page: u64,
        pages: u64,
        held: Held,
        is_released: bool,
    ) -> Result<u64> {
        let give_back = |book: &mut Book| book.add_free(page, pages, is_released);
        if is_released
            && let Err(error) = self.region.reserve(page * PAGE_BYTES, pages * PAGE_BYTES)
        {
            give_back(book);
            return Err(error);
        }
        let extent = book.extent_of(page);
        for other in page..page + pages {
            let at = extent.descriptor_at(other);
            if self.region.word(at) != 0 {
                self.region.store(at, 0);
                self.region.flush(at, 8);
            }
        }
        let made = self.region.fence().and_then(|()| {
            let at = extent.descriptor_at(page);
            self.region.store(at, descriptor(self.store, page, held, pages));
            self.region.flush(at, 8);
            self.region.fence()
        });
        if let Err(error) = made {
            give_back(book);
            return Err(error);
        }
        let number = book.add_span(page, held, pages, false);
        match held {
            Held::Class(class) => {
                book.list(number);
                Ok(book.take_object(class).expect("a span that was just made"))
            }
            Held::One => {
                book.take_whole(number);
                Ok(page * PAGE_BYTES)
            }
        }
    }

    /// Frees the object at `offset`, which no reader may look at any more, and which no durable
    /// word names.
    ///
    /// # Panics
    /// If no object in use begins there.
    pub fn free(&self, offset: u64) {
        let mut book = self.book();
        let freed = book.free_object(offset);
        let freed = freed.unwrap_or_else(|| panic!("nothing to free at {offset}"));
        if let Freed::Span(page, pages) = freed {
            self.forget_span(&mut book, page, pages);
        }
    }

    /// The pages of a span become free. Its descriptor becomes 0, durably at the fence before the
    /// next span is made of any of them.
    fn forget_span(&self, book: &mut Book, page: u64, pages: u64) {
        let at = book.extent_of(page).descriptor_at(page);
        self.region.store(at, 0);
        self.region.flush(at, 8);
        book.add_free(page, pages, false);
    }

    /// Bytes of the object at `offset`.
    ///
    /// # Errors
    /// `Corruption` if none begins there.
    pub fn object_bytes(&self, offset: u64) -> Result<u64> {
        let known = self.book().object_bytes(offset);
        known.ok_or_else(|| self.not_an_object(offset))
    }

    fn not_an_object(&self, offset: u64) -> Error {
        let detail = "what should be an object of its own is none, or is named twice";
        Error::corruption(&self.name, offset, detail)
    }

    /// True from an opening of a region with objects until [`Space::marks_done`].
    pub fn is_marking(&self) -> bool {
        self.book().is_marking
    }

    /// The engine reaches these objects of an earlier opening. An object that the engine frees
    /// meanwhile MUST NOT be marked after that.
    ///
    /// # Errors
    /// `Corruption` if one of them is no object, or is reached a second time.
    pub fn mark(&self, offsets: &[u64]) -> Result<()> {
        let mut book = self.book();
        let wrong = offsets.iter().find(|offset| !book.mark(**offset));
        wrong.map_or(Ok(()), |offset| Err(self.not_an_object(*offset)))
    }

    /// All objects that the engine reaches were marked: the others are free from here on.
    ///
    /// # Errors
    /// None today.
    pub fn marks_done(&self) -> Result<()> {
        let mut book = self.book();
        if !book.is_marking {
            return Ok(());
        }
        for (page, pages) in book.end_marking() {
            self.forget_span(&mut book, page, pages);
        }
        Ok(())
    }

    /// Makes room for a span of `pages` pages, unless another thread just did: there are no longer
    /// `had` extents.
    fn grow(&self, pages: u64, had: usize) -> Result<()> {
        let _growth = self.growth.lock().expect("no panic while locked");
        let (count, end) = {
            let book = self.book();
            (book.extents.len(), book.extents.last().map_or(0, |extent| extent.end()))
        };
        if count != had {
            return Ok(());
        }
        if count == EXTENTS_MAX {
            let message = format!("{} has grown as often as it can; migrate it", self.name);
            return Err(Error::new(ErrorKind::Full, message));
        }
        let least = Extent::pages_for(pages);
        let limit = self.limit_bytes.load(Ordering::Relaxed) / PAGE_BYTES;
        let room = limit.saturating_sub(end);
        if room < least {
            let message = format!(
                "{} has {} bytes, which its limit of {} does not let it exceed; raise \
                 memory_bytes, or delete entries",
                self.name,
                end * PAGE_BYTES,
                limit * PAGE_BYTES
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
        if self.region.len() > end * PAGE_BYTES {
            // A growth failed after the region had grown.
            self.region.truncate(end * PAGE_BYTES)?;
        }
        let wanted = (end / GROWTH_SHARE).max(GROWTH_PAGES_MIN).max(least).min(room);
        let grown = self.region.grow((end + wanted) * PAGE_BYTES).map(|()| wanted);
        let grown = grown.or_else(|error| match error.kind() {
            ErrorKind::Full if least < wanted => {
                self.region.grow((end + least) * PAGE_BYTES).map(|()| least)
            }
            _ => Err(error),
        })?;
        self.add_extent(Extent { first: end, pages: grown }, count)
    }

    /// Notes an extent whose pages are there and zero.
    fn add_extent(&self, extent: Extent, number: usize) -> Result<()> {
        let at = EXTENTS + number as u64 * 8;
        self.region.store(at, extent.pages);
        self.region.flush(at, 8);
        self.region.fence()?;
        self.store_extents(Some(extent.pages))?;
        let mut book = self.book();
        book.add_extent(extent);
        book.add_free(extent.data(), extent.end() - extent.data(), false);
        Ok(())
    }

    /// Stores the number of extents, with one more behind those that are known.
    fn store_extents(&self, more: Option<u64>) -> Result<()> {
        let mut lengths: Vec<u64> = self.book().extents.iter().map(|e| e.pages).collect();
        lengths.extend(more);
        self.region.store(EXTENT_COUNT, extents_word(self.store, &lengths));
        self.region.flush(EXTENT_COUNT, 8);
        self.region.fence()
    }

    /// Gives the space of free pages back to the system: the end of the region, and runs of pages
    /// within. Bytes given back.
    ///
    /// # Errors
    /// `Io` if the system refuses.
    pub fn trim(&self) -> Result<u64> {
        let _growth = self.growth.lock().expect("no panic while locked");
        let mut bytes = 0;
        loop {
            let taken = self.book().take_last_extent();
            let Some(extent) = taken else { break };
            self.store_extents(None)?;
            self.region.truncate(extent.first * PAGE_BYTES)?;
            bytes += extent.pages * PAGE_BYTES;
        }
        let runs = self.book().unreleased(RELEASE_PAGES_MIN);
        for (page, pages) in runs {
            if !self.book().take_run(page, pages) {
                continue;
            }
            let released = self.region.release(page * PAGE_BYTES, pages * PAGE_BYTES);
            self.book().add_free(page, pages, released.is_ok());
            released?;
            bytes += pages * PAGE_BYTES;
        }
        Ok(bytes)
    }

    /// Bytes that [`Space::trim`] would give back now, but for an end of the region that is free.
    pub fn releasable_bytes(&self) -> u64 {
        let runs = self.book().unreleased(RELEASE_PAGES_MIN);
        runs.iter().map(|(_, pages)| pages * PAGE_BYTES).sum()
    }

    /// The region does not grow beyond `bytes`. One that is larger already stays as it is.
    pub fn set_limit(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the objects in use. Until all those of an earlier opening were marked, those of the
    /// pages that hold something: no more than that are in use.
    pub fn live_bytes(&self) -> u64 {
        let book = self.book();
        if book.is_marking { book.held_bytes() } else { book.live_bytes }
    }

    /// Bytes of the region in pages that hold something.
    pub fn held_bytes(&self) -> u64 {
        self.book().held_bytes()
    }

    /// Bytes of memory, besides the region, that the allocator takes.
    pub fn memory_bytes(&self) -> u64 {
        self.book().bytes()
    }

    /// Changes of several words made since the opening.
    pub fn redo_records(&self) -> u32 {
        self.redo.records.load(Ordering::Relaxed)
    }
}
