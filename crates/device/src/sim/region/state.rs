//! What all handles of a simulated region share.

use super::LINE_WORDS;
use super::counts::RegionCounts;
use super::lines::Lines;
use super::media::Media;
use super::memory::Memory;
use super::pages::{PAGE_WORDS, Pages, page_words};
use crate::region::RegionClass;
use silica_base::{Error, ErrorKind, Prng, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Old bytes of a page that was released, until the release is durable.
type Hole = Option<Vec<u64>>;

pub(super) struct State {
    rng: Prng,
    class: RegionClass,
    /// False from a power cut to the next reopen.
    pub(super) powered: bool,
    /// Handles of former generations are closed.
    pub(super) generation: u64,
    pub(super) ops: u64,
    pub(super) cut_at: Option<u64>,
    pub(super) fail_fence: Option<u64>,
    /// Bytes that the medium has room for.
    pub(super) room: u64,
    is_poisoned: bool,
    counts: RegionCounts,
    pub(super) media: Media,
    /// What the handles of this generation see.
    pub(super) memory: Arc<Memory>,
    /// True if `memory` is what a power cut left and no handle has seen it.
    is_left_over: bool,
    /// Classes but `Pages`.
    pub(super) lines: Lines,
    /// Class `Pages`.
    pub(super) pages: Pages,
    /// Pages that were released and not reserved again.
    pub(super) holes: BTreeMap<usize, Hole>,
    /// Class `Pages`: words at the last sync, and what the disk may have behind the end.
    synced_words: usize,
    tail: Vec<u64>,
    /// Words that changed since they were as somebody knows them, if somebody asked.
    pub(super) changed: Option<Vec<Range<usize>>>,
    /// True if the length was ever another one.
    pub(super) resized: bool,
}

impl State {
    pub(super) fn new(seed: u64, memory: Memory, class: RegionClass) -> Self {
        let words = memory.len();
        let (lines, pages) = match class {
            RegionClass::Pages => (0, words),
            RegionClass::Lines | RegionClass::Process => (words, 0),
        };
        State {
            rng: Prng::new(seed),
            class,
            powered: true,
            generation: 0,
            ops: 0,
            cut_at: None,
            fail_fence: None,
            room: u64::MAX,
            is_poisoned: false,
            counts: RegionCounts::default(),
            media: Media::default(),
            memory: Arc::new(memory),
            is_left_over: false,
            lines: Lines::new(lines),
            pages: Pages::new(pages),
            holes: BTreeMap::new(),
            synced_words: words,
            tail: Vec::new(),
            changed: None,
            resized: false,
        }
    }

    /// A state of its own with the same bytes and stores under way.
    pub(super) fn fork(&self, seed: u64) -> State {
        State {
            rng: Prng::new(seed),
            memory: Arc::new(Memory::holding(&self.memory.values())),
            counts: self.counts,
            media: self.media.clone(),
            lines: self.lines.clone(),
            pages: self.pages.clone(),
            holes: self.holes.clone(),
            tail: self.tail.clone(),
            changed: None,
            is_left_over: false,
            ..*self
        }
    }

    /// As new, for somebody who wrote what the memory holds, or is about to.
    pub(super) fn restart(&mut self, seed: u64) {
        self.lines.clear();
        self.pages.clear();
        self.holes.clear();
        self.tail.clear();
        self.media = Media::default();
        self.counts = RegionCounts::default();
        self.rng = Prng::new(seed);
        self.generation += 1;
        (self.powered, self.is_poisoned) = (true, false);
        (self.ops, self.cut_at, self.fail_fence, self.room) = (0, None, None, u64::MAX);
        self.synced_words = self.memory.len();
    }

    pub(super) fn counts(&self) -> RegionCounts {
        let traffic = self.media.traffic();
        RegionCounts { xplines_written: traffic.written, xplines_read: traffic.read, ..self.counts }
    }

    /// Counts an operation that power may be cut at. Its own effect may survive.
    fn operation(&mut self) {
        self.ops += 1;
        if self.cut_at.is_some_and(|at| self.ops >= at) {
            self.cut();
        }
    }

    /// True if the next operation is the one that power is cut at.
    fn is_cut_next(&self) -> bool {
        self.cut_at.is_some_and(|at| self.ops + 1 >= at)
    }

    fn note_change(&mut self, words: Range<usize>) {
        if let Some(changed) = &mut self.changed {
            changed.push(words);
        }
    }

    /// Notes a store, before the memory shows it.
    #[inline]
    pub(super) fn store(&mut self, word: usize, value: u64) {
        if !self.holes.is_empty() && self.holes.remove(&(word / PAGE_WORDS)).is_some() {
            self.counts.stores_into_holes += 1;
        }
        if self.class == RegionClass::Pages {
            if self.pages.store(&self.memory, word, &mut self.rng) {
                self.note_change(page_words(word / PAGE_WORDS, self.memory.len()));
            }
        } else if self.lines.store(&self.memory, word, value) {
            let first = word / LINE_WORDS * LINE_WORDS;
            self.note_change(first..first + LINE_WORDS);
        }
        self.counts.words_stored += 1;
        self.operation();
    }

    /// Counts anew, behind a processor's cache of so many bytes.
    pub(super) fn count_media(&mut self, cache_bytes: u64) {
        self.counts = RegionCounts::default();
        self.media = Media::with_cache(cache_bytes);
    }

    pub(super) fn flush(&mut self, lines: Range<u64>) {
        let thread = std::thread::current().id();
        for number in lines {
            self.counts.lines_flushed += 1;
            if self.class == RegionClass::Pages {
                continue;
            }
            match self.lines.flush(number as usize, thread) {
                true => self.media.flush(number),
                false => self.counts.flushes_needless += 1,
            }
        }
        self.operation();
    }

    /// What fences and syncs begin with; the error if they are not to do anything.
    fn begin_fence(&mut self) -> Result<()> {
        if self.is_poisoned {
            let message = "an earlier fence or sync failed; open the region again";
            return Err(Error::new(ErrorKind::Poisoned, message));
        }
        let is_cut = self.is_cut_next();
        self.ops += 1;
        if is_cut {
            // Before it made anything durable.
            self.cut();
            return Err(Error::new(ErrorKind::Closed, "the region lost power"));
        }
        self.fail_fence = self.fail_fence.map(|left| left - 1);
        if self.fail_fence == Some(0) {
            self.fail_fence = None;
            self.is_poisoned = true;
            return Err(Error::new(ErrorKind::Io, "simulated failure of a fence"));
        }
        Ok(())
    }

    pub(super) fn fence(&mut self) -> Result<()> {
        self.begin_fence()?;
        self.counts.fences += 1;
        let is_needed = self.lines.fence(std::thread::current().id());
        self.counts.fences_needless += u64::from(!is_needed && self.class != RegionClass::Pages);
        Ok(())
    }

    /// Makes everything durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.begin_fence()?;
        self.counts.syncs += 1;
        self.lines.clear();
        self.pages.clear();
        self.holes.values_mut().for_each(|hole| *hole = None);
        self.synced_words = self.memory.len();
        self.tail.clear();
        Ok(())
    }

    /// Changes the region's length to so many words. A power cut at this operation may come before.
    pub(super) fn resize(&mut self, words: usize) -> Result<()> {
        if words as u64 * 8 > self.room {
            let message = format!("the medium has room for {} bytes", self.room);
            return Err(Error::new(ErrorKind::Full, message));
        }
        if !self.is_cut_next() || self.rng.one_in(2) {
            self.set_words(words);
        }
        self.operation();
        match self.powered {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Closed, "the region lost power")),
        }
    }

    fn set_words(&mut self, words: usize) {
        self.resized = true;
        let had = self.memory.len();
        if self.class == RegionClass::Pages && words < had {
            self.tail = self.memory.values().split_off(words);
        }
        match words < had {
            true => self.memory.cut(words),
            false => self.memory.extend(words),
        }
        match self.class {
            RegionClass::Pages => self.pages.resize(words),
            RegionClass::Lines | RegionClass::Process => self.lines.resize(words),
        }
        self.holes.retain(|page, _| page * PAGE_WORDS < words);
    }

    /// Makes whole pages zero. A power cut may bring their old bytes back.
    pub(super) fn release(&mut self, pages: Range<usize>) {
        for page in pages {
            let words = page_words(page, self.memory.len());
            let mut old: Vec<u64> = words.clone().map(|word| self.memory.value(word)).collect();
            if self.class == RegionClass::Pages {
                if let Some(durable) = self.pages.durable_mut(page) {
                    old = std::mem::replace(durable, vec![0; words.len()]);
                }
            } else {
                for number in words.start / LINE_WORDS..words.end / LINE_WORDS {
                    if let Some(line) = self.lines.get(number) {
                        let at = number * LINE_WORDS - words.start;
                        old[at..at + LINE_WORDS].copy_from_slice(&line.cut(&mut self.rng));
                    }
                    self.lines.clean(number);
                }
            }
            self.note_change(words.clone());
            words.for_each(|word| self.memory.set(word, 0));
            self.holes.entry(page).or_insert(Some(old));
        }
        self.operation();
    }

    /// Takes space for pages, whose zeroes are durable from here on.
    pub(super) fn reserve(&mut self, pages: Range<usize>) {
        for page in pages {
            self.holes.remove(&page);
        }
        self.operation();
    }

    /// Cuts the power: what the medium holds is decided line by line, or page by page.
    pub(super) fn cut(&mut self) {
        self.powered = false;
        self.cut_at = None;
        let mut values = self.memory.values();
        match self.class {
            RegionClass::Process => {
                values.fill(0);
                self.holes.clear();
            }
            RegionClass::Lines => {
                self.cut_holes(&mut values);
                for line in self.lines.in_order() {
                    values[line.words()].copy_from_slice(&line.cut(&mut self.rng));
                }
            }
            RegionClass::Pages => {
                self.cut_holes(&mut values);
                self.cut_pages(&mut values);
            }
        }
        self.lines.clear();
        self.become_left_over(&values);
    }

    fn become_left_over(&mut self, values: &[u64]) {
        if values.len() != self.memory.len() {
            self.pages.resize(values.len());
        }
        self.memory = Arc::new(Memory::holding(values));
        self.is_left_over = true;
        self.synced_words = values.len();
        self.tail.clear();
    }

    /// Pages that were released have their old bytes or zeroes.
    fn cut_holes(&mut self, values: &mut [u64]) {
        let rng = &mut self.rng;
        self.holes.retain(|page, hole| match hole.take() {
            Some(old) if rng.one_in(2) => {
                let words = page_words(*page, values.len());
                values[words].copy_from_slice(&old);
                false
            }
            _ => true,
        });
    }

    fn cut_pages(&mut self, values: &mut Vec<u64>) {
        self.pages.dirty.sort_unstable_by_key(|page| page.number);
        for page in &self.pages.dirty {
            let words = page_words(page.number, values.len());
            let left = page.cut(&values[words.clone()], &mut self.rng);
            values[words].copy_from_slice(&left);
        }
        self.pages.clear();
        if self.synced_words != values.len() && self.rng.one_in(2) {
            values.append(&mut self.tail);
            values.resize(self.synced_words, 0);
        }
    }

    pub(super) fn reopen(&mut self) {
        if !std::mem::take(&mut self.is_left_over) {
            self.memory = Arc::new(Memory::holding(&self.memory.values()));
        }
        self.powered = true;
        self.generation += 1;
        self.is_poisoned = false;
    }

    /// Offsets of lines, or of pages, that a power cut may not leave as they are.
    pub(super) fn unfenced(&self) -> Vec<u64> {
        let mut pages: Vec<u64> =
            self.pages.dirty.iter().map(|page| (page.number * PAGE_WORDS * 8) as u64).collect();
        pages.sort_unstable();
        let lines = self.lines.in_order();
        pages.extend(lines.iter().map(|line| (line.number * LINE_WORDS * 8) as u64));
        pages
    }

    /// Changes a word at rest.
    pub(super) fn poke(&mut self, word: usize, value: u64) {
        self.note_change(word..word + 1);
        self.memory.set(word, value);
        if self.class == RegionClass::Pages {
            if let Some(page) = self.pages.durable_mut(word / PAGE_WORDS) {
                page[word % PAGE_WORDS] = value;
            }
        } else if let Some(line) = self.lines.durable_mut(word / LINE_WORDS) {
            line[word % LINE_WORDS] = value;
        }
    }
}
