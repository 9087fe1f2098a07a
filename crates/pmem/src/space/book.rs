//! What is known of a region's pages in memory: which spans there are, which of their objects are
//! in use, which pages are free. Nothing here is in the region.

use super::PAGE_BYTES;
use super::classes::{CLASSES, class_bytes, span_objects, span_pages};
use super::layout::{Extent, Held};
use std::collections::{BTreeMap, BTreeSet};

/// A span.
pub(super) struct Span {
    pub(super) page: u64,
    pub(super) pages: u64,
    pub(super) held: Held,
    /// A bit for each object in use.
    live: Box<[u64]>,
    pub(super) live_count: u32,
    /// Words of `live` before this one are full.
    hint: u32,
    /// It is of an earlier opening, and what of it is in use is not known yet.
    pub(super) is_old: bool,
    /// It stands in the list of spans with free objects.
    is_listed: bool,
}

impl Span {
    fn new(page: u64, held: Held, pages: u64, is_old: bool) -> Span {
        let live = vec![0; objects(held).div_ceil(64) as usize].into();
        Span { page, pages, held, live, live_count: 0, hint: 0, is_old, is_listed: false }
    }

    pub(super) fn object_bytes(&self) -> u64 {
        match self.held {
            Held::Class(class) => class_bytes(class),
            Held::One => self.pages * PAGE_BYTES,
        }
    }

    fn is_full(&self) -> bool {
        self.live_count == objects(self.held)
    }

    /// Number of the object that begins at `offset`.
    fn object_at(&self, offset: u64) -> Option<u32> {
        let bytes = self.object_bytes();
        let within = offset - self.page * PAGE_BYTES;
        let number = (within / bytes) as u32;
        (within.is_multiple_of(bytes) && number < objects(self.held)).then_some(number)
    }

    fn is_live(&self, object: u32) -> bool {
        self.live[object as usize / 64] & 1 << (object % 64) != 0
    }

    fn set_live(&mut self, object: u32) {
        self.live[object as usize / 64] |= 1 << (object % 64);
        self.live_count += 1;
    }

    fn take(&mut self) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let from = self.hint as usize;
        let word = from + self.live[from..].iter().position(|word| *word != u64::MAX)?;
        self.hint = word as u32;
        let object = word as u32 * 64 + self.live[word].trailing_ones();
        if object >= objects(self.held) {
            return None;
        }
        self.set_live(object);
        Some(object)
    }
}

fn objects(held: Held) -> u32 {
    match held {
        Held::Class(class) => span_objects(class),
        Held::One => 1,
    }
}

/// What a freed object leaves.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Freed {
    /// Its span stays.
    Object,
    /// Its span has nothing in it any more, and goes: first page and pages.
    Span(u64, u64),
}

/// All spans and free pages of a region.
pub(super) struct Book {
    pub(super) extents: Vec<Extent>,
    /// By page, the number of its span, counted from 1; 0 if it has none.
    span_of: Vec<u32>,
    spans: Vec<Option<Span>>,
    unused_numbers: Vec<u32>,
    /// By class, spans with free objects, and perhaps some without.
    listed: [Vec<u32>; CLASSES],
    /// Free pages: first page to their number, and whether their space was given back.
    free: BTreeMap<u64, (u64, bool)>,
    free_by_size: BTreeSet<(u64, u64)>,
    pub(super) free_pages: u64,
    pub(super) live_bytes: u64,
    pub(super) is_marking: bool,
}

impl Book {
    pub(super) fn new() -> Book {
        Book {
            extents: Vec::new(),
            span_of: Vec::new(),
            spans: Vec::new(),
            unused_numbers: Vec::new(),
            listed: std::array::from_fn(|_| Vec::new()),
            free: BTreeMap::new(),
            free_by_size: BTreeSet::new(),
            free_pages: 0,
            live_bytes: 0,
            is_marking: false,
        }
    }

    pub(super) fn add_extent(&mut self, extent: Extent) {
        self.extents.push(extent);
        self.span_of.resize(extent.end() as usize, 0);
    }

    /// Bytes of pages that hold something.
    pub(super) fn held_bytes(&self) -> u64 {
        let all: u64 = self.extents.last().map_or(0, |extent| extent.end());
        (all - self.free_pages) * PAGE_BYTES
    }

    pub(super) fn extent_of(&self, page: u64) -> Extent {
        let after = self.extents.partition_point(|extent| extent.first <= page);
        self.extents[after - 1]
    }

    /// A span that is in the region already.
    pub(super) fn add_span(&mut self, page: u64, held: Held, pages: u64, is_old: bool) -> u32 {
        let span = Span::new(page, held, pages, is_old);
        let number = self.unused_numbers.pop().unwrap_or_else(|| {
            self.spans.push(None);
            self.spans.len() as u32 - 1
        });
        self.spans[number as usize] = Some(span);
        self.span_of[page as usize..(page + pages) as usize].fill(number + 1);
        number
    }

    pub(super) fn span(&self, number: u32) -> &Span {
        self.spans[number as usize].as_ref().expect("a span that is there")
    }

    fn span_mut(&mut self, number: u32) -> &mut Span {
        self.spans[number as usize].as_mut().expect("a span that is there")
    }

    /// Span and object at `offset`; `None` if no object begins there.
    fn find(&self, offset: u64) -> Option<(u32, u32)> {
        let number = *self.span_of.get((offset / PAGE_BYTES) as usize)?;
        let number = number.checked_sub(1)?;
        Some((number, self.span(number).object_at(offset)?))
    }

    pub(super) fn object_bytes(&self, offset: u64) -> Option<u64> {
        self.find(offset).map(|(number, _)| self.span(number).object_bytes())
    }

    /// A free object of a class in a span that is there: its offset.
    pub(super) fn take_object(&mut self, class: usize) -> Option<u64> {
        while let Some(number) = self.listed[class].last().copied() {
            let span = self.span_mut(number);
            if let Some(object) = span.take() {
                let bytes = class_bytes(class);
                let offset = span.page * PAGE_BYTES + u64::from(object) * bytes;
                self.live_bytes += bytes;
                return Some(offset);
            }
            span.is_listed = false;
            self.listed[class].pop();
        }
        None
    }

    /// Has a class take from a span that was just made.
    pub(super) fn list(&mut self, number: u32) {
        let span = self.span_mut(number);
        let Held::Class(class) = span.held else { return };
        if !span.is_listed && !span.is_full() {
            span.is_listed = true;
            self.listed[class].push(number);
        }
    }

    /// The one object of a span that was just made is in use.
    pub(super) fn take_whole(&mut self, number: u32) {
        let span = self.span_mut(number);
        span.set_live(0);
        let bytes = span.object_bytes();
        self.live_bytes += bytes;
    }

    /// Frees the object at `offset`; `None` if none is in use there.
    pub(super) fn free_object(&mut self, offset: u64) -> Option<Freed> {
        let (number, object) = self.find(offset)?;
        let span = self.span_mut(number);
        if !span.is_live(object) {
            // Of an earlier opening, and not reached yet: it will not be.
            return span.is_old.then_some(Freed::Object);
        }
        span.live[object as usize / 64] &= !(1 << (object % 64));
        span.live_count -= 1;
        span.hint = span.hint.min(object / 64);
        let (bytes, is_empty) = (span.object_bytes(), span.live_count == 0);
        let (page, pages, is_old) = (span.page, span.pages, span.is_old);
        self.live_bytes -= bytes;
        if is_old {
            return Some(Freed::Object);
        }
        if is_empty {
            self.remove_span(number);
            return Some(Freed::Span(page, pages));
        }
        self.list(number);
        Some(Freed::Object)
    }

    fn remove_span(&mut self, number: u32) {
        let span = self.spans[number as usize].take().expect("a span that is there");
        if let (Held::Class(class), true) = (span.held, span.is_listed) {
            self.listed[class].retain(|other| *other != number);
        }
        self.span_of[span.page as usize..(span.page + span.pages) as usize].fill(0);
        self.unused_numbers.push(number);
    }

    /// An object of an earlier opening is in use; false if it cannot be: no object begins there, or
    /// it is in use already.
    pub(super) fn mark(&mut self, offset: u64) -> bool {
        let Some((number, object)) = self.find(offset) else { return false };
        let span = self.span_mut(number);
        if span.is_live(object) {
            return false;
        }
        span.set_live(object);
        let bytes = span.object_bytes();
        self.live_bytes += bytes;
        true
    }

    /// What was not marked is free: spans that go, as first page and pages.
    pub(super) fn end_marking(&mut self) -> Vec<(u64, u64)> {
        self.is_marking = false;
        let mut gone = Vec::new();
        for number in 0..self.spans.len() as u32 {
            let Some(span) = self.spans[number as usize].as_mut().filter(|span| span.is_old) else {
                continue;
            };
            span.is_old = false;
            if span.live_count == 0 {
                gone.push((span.page, span.pages));
                self.remove_span(number);
            } else {
                self.list(number);
            }
        }
        gone
    }

    /// Pages are free from here on.
    pub(super) fn add_free(&mut self, mut page: u64, mut pages: u64, mut is_released: bool) {
        self.free_pages += pages;
        // Runs do not grow over the start of an extent: its descriptors lie there.
        if let Some((before, (len, released))) = self.free.range(..page).next_back()
            && before + len == page
        {
            let (before, len) = (*before, *len);
            is_released &= *released;
            self.free.remove(&before);
            self.free_by_size.remove(&(len, before));
            (page, pages) = (before, len + pages);
        }
        if let Some((len, released)) = self.free.get(&(page + pages)).copied() {
            self.free.remove(&(page + pages));
            self.free_by_size.remove(&(len, page + pages));
            is_released &= released;
            pages += len;
        }
        self.free.insert(page, (pages, is_released));
        self.free_by_size.insert((pages, page));
    }

    /// Takes free pages that lie together, the smallest run that has so many; their first, and
    /// whether their space was given back.
    pub(super) fn take_free(&mut self, pages: u64) -> Option<(u64, bool)> {
        let (len, page) = *self.free_by_size.range((pages, 0)..).next()?;
        let (_, is_released) = self.free.remove(&page).expect("a run that is there");
        self.free_by_size.remove(&(len, page));
        if len > pages {
            self.free.insert(page + pages, (len - pages, is_released));
            self.free_by_size.insert((len - pages, page + pages));
        }
        self.free_pages -= pages;
        Some((page, is_released))
    }

    /// Takes a given run of free pages, whole.
    pub(super) fn take_run(&mut self, page: u64, pages: u64) -> bool {
        if self.free.get(&page).is_none_or(|(len, _)| *len != pages) {
            return false;
        }
        self.free.remove(&page);
        self.free_by_size.remove(&(pages, page));
        self.free_pages -= pages;
        true
    }

    /// Runs of at least `pages` free pages whose space was not given back.
    pub(super) fn unreleased(&self, pages: u64) -> Vec<(u64, u64)> {
        let runs = self.free.iter().filter(|(_, (len, released))| *len >= pages && !released);
        runs.map(|(page, (len, _))| (*page, *len)).collect()
    }

    /// Takes the last extent away, if it is no other's and all its pages are free.
    pub(super) fn take_last_extent(&mut self) -> Option<Extent> {
        let last = *self.extents.last().filter(|_| self.extents.len() > 1)?;
        if !self.take_run(last.data(), last.end() - last.data()) {
            return None;
        }
        self.extents.pop();
        self.span_of.truncate(last.first as usize);
        Some(last)
    }

    /// Bytes of memory that this takes.
    pub(super) fn bytes(&self) -> u64 {
        let spans = self.spans.len() * size_of::<Option<Span>>();
        let live: usize = self.spans.iter().flatten().map(|span| span.live.len() * 8).sum();
        (self.span_of.len() * 4 + spans + live + self.free.len() * 96) as u64
    }
}

/// Pages of a span for what is asked.
pub(super) fn pages_of(held: Held, bytes: u64) -> u64 {
    match held {
        Held::Class(class) => span_pages(class),
        Held::One => bytes.div_ceil(PAGE_BYTES),
    }
}
