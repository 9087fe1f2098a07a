//! The simulated region as threads use it.

use super::counts::RegionCounts;
use super::images::CrashImages;
use super::memory::Memory;
use super::pages::PAGE_WORDS;
use super::state::State;
use crate::region::{
    LINE_BYTES, Region, RegionClass, XPLINE_BYTES, lines_of, word_index, write_words,
};
use silica_base::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a test does before each fence.
type Hook = Box<dyn FnMut(&SimRegion) + Send>;

/// What all handles share.
pub(super) struct World {
    state: Mutex<State>,
    on_fence: Mutex<Option<Hook>>,
    /// True if loads are counted.
    counts_loads: AtomicBool,
}

/// A simulated region. Clones share everything.
#[derive(Clone)]
pub struct SimRegion {
    pub(super) world: Arc<World>,
    /// What threads see through this handle and its clones.
    memory: Arc<Memory>,
    generation: u64,
    class: RegionClass,
}

impl World {
    pub(super) fn new(state: State) -> Arc<World> {
        let (state, on_fence) = (Mutex::new(state), Mutex::new(None));
        Arc::new(World { state, on_fence, counts_loads: AtomicBool::new(false) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    /// Counts no loads and calls no hook from here on.
    pub(super) fn forget_observers(&self) {
        self.counts_loads.store(false, Ordering::Relaxed);
        *self.on_fence.lock().expect("no panic while locked") = None;
    }

    /// A handle of the present generation.
    pub(super) fn handle(self: &Arc<Self>, class: RegionClass) -> SimRegion {
        let state = self.state();
        let (memory, generation) = (state.memory.clone(), state.generation);
        SimRegion { world: self.clone(), memory, generation, class }
    }
}

impl SimRegion {
    /// A region of `bytes` zeroes whose whole future depends on `seed` and the calls made.
    ///
    /// # Panics
    /// If `bytes` is 0 or no multiple of [`XPLINE_BYTES`].
    pub fn new(seed: u64, bytes: u64, class: RegionClass) -> Self {
        let is_possible = bytes > 0 && bytes.is_multiple_of(XPLINE_BYTES);
        assert!(is_possible, "a region has whole XPLines, not {bytes} bytes");
        World::new(State::new(seed, Memory::new((bytes / 8) as usize), class)).handle(class)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.world.state()
    }

    /// Cuts the power now. From here on fences fail with `Closed` and stores go nowhere, until
    /// [`SimRegion::reopen`] gives a new handle.
    pub fn power_cut(&self) {
        let mut state = self.state();
        if state.powered {
            state.cut();
        }
    }

    /// A fresh handle; all older ones are closed. After a power cut it shows what survived;
    /// without one this is the death of the process: everything that was stored is there, and
    /// what was not fenced still is not durable. Costs a copy of the region.
    pub fn reopen(&self) -> SimRegion {
        self.state().reopen();
        self.world.handle(self.class)
    }

    /// A region of its own with the same bytes and stores under way, whose future depends on
    /// `seed`: one moment of a run can so be cut in many ways.
    pub fn fork(&self, seed: u64) -> SimRegion {
        let state = self.state().fork(seed);
        World::new(state).handle(self.class)
    }

    /// What a power cut at this moment may leave, at most `limit` images; those that `seed` draws
    /// come after those that are tried in any case. Begins with a copy of the region.
    pub fn crash_images(&self, limit: usize, seed: u64) -> CrashImages {
        CrashImages::new(&self.state(), self.class, limit, seed)
    }

    /// Calls `hook` before each fence and each sync of this region does anything, in the fencing
    /// thread. A fence within it calls nothing.
    pub fn on_fence(&self, hook: impl FnMut(&SimRegion) + Send + 'static) {
        *self.world.on_fence.lock().expect("no panic while locked") = Some(Box::new(hook));
    }

    fn call_hook(&self) {
        let hook = self.world.on_fence.lock().expect("no panic while locked").take();
        if let Some(mut hook) = hook {
            hook(self);
            let mut place = self.world.on_fence.lock().expect("no panic while locked");
            // Unless the hook has set another one.
            place.get_or_insert(hook);
        }
    }

    /// Words stored, flushes, fences and changes of the length so far.
    pub fn op_count(&self) -> u64 {
        self.state().ops
    }

    /// Cuts the power at the operation that makes [`SimRegion::op_count`] `n`. Stores cannot
    /// fail, so the caller notices at its next fence.
    pub fn cut_at_op(&self, n: u64) {
        self.state().cut_at = Some(n);
    }

    /// Makes the `nth` fence or sync from now (counted from 1) fail, which is final.
    ///
    /// # Panics
    /// If `nth` is 0.
    pub fn fail_fence(&self, nth: u64) {
        assert!(nth > 0, "fences are counted from 1");
        self.state().fail_fence = Some(nth);
    }

    /// Gives the medium room for so many bytes: a region that would grow beyond finds it full.
    pub fn set_room(&self, bytes: u64) {
        self.state().room = bytes;
    }

    /// True from a power cut to the next reopen.
    pub fn is_cut(&self) -> bool {
        !self.state().powered
    }

    /// Offsets of lines with stores that no fence made durable: at a moment when everything
    /// should be durable, each is a missing flush. In the class [`RegionClass::Pages`], offsets of
    /// pages with stores since the last sync.
    pub fn unfenced_lines(&self) -> Vec<u64> {
        self.state().unfenced()
    }

    /// What was counted since the region was made, or since [`SimRegion::count_media`].
    pub fn counts(&self) -> RegionCounts {
        self.state().counts()
    }

    /// Counts anew from here on, and what reaches the medium behind a processor's cache of
    /// `cache_bytes` that is empty now. Loads then take a lock.
    pub fn count_media(&self, cache_bytes: u64) {
        self.world.counts_loads.store(true, Ordering::Relaxed);
        self.state().count_media(cache_bytes);
    }

    /// Overwrites bytes at rest, as damage of the medium does.
    pub fn poke(&self, offset: u64, bytes: &[u8]) {
        lines_of(offset, bytes.len() as u64, self.len());
        let mut state = self.state();
        let memory = state.memory.clone();
        let load = |word| memory.value(word);
        write_words(offset, bytes, load, |word, value| state.poke(word, value));
    }

    fn check_open(&self, state: &State) -> Result<()> {
        if state.powered && state.generation == self.generation {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Closed, "the region was closed or lost power"))
    }

    /// Stores one word; a closed handle keeps it for itself.
    #[inline]
    fn store_word(&self, state: &mut State, word: usize, value: u64) {
        if state.powered && state.generation == self.generation {
            state.store(word, value);
        }
        self.memory.set(word, value);
    }

    /// Stores bytes, which touch the cache unless they are streamed.
    fn write_bytes(&self, offset: u64, bytes: &[u8], is_streamed: bool) {
        let lines = lines_of(offset, bytes.len() as u64, self.len());
        let mut state = self.state();
        for line in lines {
            match is_streamed {
                true => state.media.stream(line),
                false => state.media.touch(line, true),
            }
        }
        let load = |word: usize| self.memory.value(word);
        write_words(offset, bytes, load, |word, value| self.store_word(&mut state, word, value));
    }

    /// Counts a load of bytes, if loads are counted.
    #[inline]
    fn count_load(&self, offset: u64, len: u64) {
        if self.world.counts_loads.load(Ordering::Relaxed) {
            let mut state = self.state();
            for line in lines_of(offset, len, self.len()) {
                state.media.touch(line, false);
            }
        }
    }

    /// Checks a new length, as files do.
    fn check_bytes(&self, bytes: u64, is_possible: bool) -> Result<()> {
        if is_possible && bytes > 0 && bytes.is_multiple_of(4096) {
            return Ok(());
        }
        let message = format!("a region of {} bytes cannot have {bytes}", self.len());
        Err(Error::new(ErrorKind::Config, message))
    }

    /// Whole pages within a range, and those that it touches.
    fn pages(&self, offset: u64, len: u64) -> (Range<usize>, Range<usize>) {
        lines_of(offset, len, self.len());
        let page_bytes = PAGE_WORDS as u64 * 8;
        let (first, end) = (offset.div_ceil(page_bytes), (offset + len) / page_bytes);
        let touched = offset / page_bytes..(offset + len).div_ceil(page_bytes);
        let touched = if len == 0 { 0..0 } else { touched };
        (first as usize..end as usize, touched.start as usize..touched.end as usize)
    }
}

impl Region for SimRegion {
    #[inline]
    fn len(&self) -> u64 {
        self.memory.len() as u64 * 8
    }

    fn class(&self) -> RegionClass {
        self.class
    }

    fn media_bytes(&self) -> Option<(u64, u64)> {
        let counts = self.counts();
        Some((counts.bytes_written(), counts.bytes_read()))
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        self.check_bytes(bytes, bytes >= self.len())?;
        let mut state = self.state();
        self.check_open(&state)?;
        if bytes == self.len() { Ok(()) } else { state.resize((bytes / 8) as usize) }
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.check_bytes(bytes, bytes <= self.len())?;
        let mut state = self.state();
        self.check_open(&state)?;
        if bytes == self.len() { Ok(()) } else { state.resize((bytes / 8) as usize) }
    }

    fn release(&self, offset: u64, len: u64) -> Result<()> {
        let (whole, _) = self.pages(offset, len);
        let mut state = self.state();
        self.check_open(&state)?;
        state.release(whole);
        Ok(())
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<()> {
        let (_, touched) = self.pages(offset, len);
        let mut state = self.state();
        self.check_open(&state)?;
        state.reserve(touched);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.check_open(&self.state())?;
        self.call_hook();
        let mut state = self.state();
        self.check_open(&state)?;
        state.sync()
    }

    fn prefetch(&self, offset: u64) {
        if offset < self.len() {
            self.count_load(offset, 1);
        }
    }

    #[inline]
    fn word(&self, offset: u64) -> u64 {
        self.count_load(offset, 8);
        self.memory.value(word_index(offset))
    }

    #[inline]
    fn load(&self, offset: u64) -> u64 {
        self.count_load(offset, 8);
        self.memory.load(offset)
    }

    fn store(&self, offset: u64, value: u64) {
        let word = word_index(offset);
        lines_of(offset, 8, self.len());
        let mut state = self.state();
        state.media.touch(offset / LINE_BYTES, true);
        self.store_word(&mut state, word, value);
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) {
        lines_of(offset, bytes.len() as u64, self.len());
        self.count_load(offset, bytes.len() as u64);
        self.memory.read(offset, bytes);
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.write_bytes(offset, bytes, false);
    }

    fn stream(&self, offset: u64, bytes: &[u8]) {
        self.write_bytes(offset, bytes, true);
        self.flush(offset, bytes.len() as u64);
    }

    fn flush(&self, offset: u64, len: u64) {
        let lines = lines_of(offset, len, self.len());
        let mut state = self.state();
        if self.check_open(&state).is_ok() {
            state.flush(lines);
        }
    }

    fn fence(&self) -> Result<()> {
        self.check_open(&self.state())?;
        self.call_hook();
        let mut state = self.state();
        self.check_open(&state)?;
        state.fence()
    }
}
