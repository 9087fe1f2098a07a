//! The simulated twin of a region: in memory, seeded, able to lose power.
//!
//! A store changes what threads see at once. What a power cut leaves of it is decided line by
//! line ([`LINE_BYTES`] bytes), by the seed. A line with stores that were not flushed and fenced is
//!
//! - as it was after its last fence, or as it is now,
//! - as it was after some of its stores, in their order,
//! - or a mixture: each word of 8 bytes has one of the values that it had since, by itself.
//!
//! A flush counts for the stores before it, whoever made them, and a fence makes durable what its
//! own thread flushed. Words are never torn. In the class [`RegionClass::Process`] a power cut
//! leaves zeroes.
//!
//! The twin counts lines flushed, fences, and writes of 256-byte XPLines to the medium through a
//! combining buffer of 16 KiB, as persistent memory has one. It knows flushes that were needless
//! ([`RegionCounts::flushes_needless`]) and lines that were forgotten
//! ([`SimRegion::unfenced_lines`]).
//!
//! ```
//! use silica_device::region::{Region, RegionClass};
//! use silica_device::sim::SimRegion;
//!
//! let region = SimRegion::new(7, 4096, RegionClass::Lines);
//! region.store(0, 1);
//! region.flush(0, 8);
//! region.fence()?;
//! region.store(0, 2);
//! assert_eq!(region.unfenced_lines(), [0]);
//! region.power_cut();
//! let after = region.reopen().load(0);
//! assert!(after == 1 || after == 2);
//! # Ok::<(), silica_base::Error>(())
//! ```

mod state;

pub use state::RegionCounts;

use self::state::State;
use crate::region::{
    LINE_BYTES, Region, RegionClass, XPLINE_BYTES, lines_of, read_words, word_index, write_words,
};
use silica_base::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A simulated region. Clones share everything.
#[derive(Clone)]
pub struct SimRegion {
    world: Arc<Mutex<State>>,
    /// What threads see through this handle and its clones.
    words: Arc<[AtomicU64]>,
    generation: u64,
    class: RegionClass,
}

impl SimRegion {
    /// A region of `bytes` zeroes whose whole future depends on `seed` and the calls made.
    ///
    /// # Panics
    /// If `bytes` is 0 or no multiple of [`XPLINE_BYTES`].
    pub fn new(seed: u64, bytes: u64, class: RegionClass) -> Self {
        let is_possible = bytes > 0 && bytes.is_multiple_of(XPLINE_BYTES);
        assert!(is_possible, "a region has whole XPLines, not {bytes} bytes");
        let state = State::new(seed, (bytes / 8) as usize, class);
        Self::with(state, class)
    }

    fn with(state: State, class: RegionClass) -> Self {
        let words = state.visible().into_iter().map(AtomicU64::new).collect();
        let generation = state.generation;
        SimRegion { world: Arc::new(Mutex::new(state)), words, generation, class }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.world.lock().expect("no panic while locked")
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
    /// what was not fenced still is not durable.
    pub fn reopen(&self) -> SimRegion {
        let mut state = self.state();
        state.reopen();
        let words = state.visible().into_iter().map(AtomicU64::new).collect();
        SimRegion { words, generation: state.generation, ..self.clone() }
    }

    /// A region of its own with the same bytes and stores under way, whose future depends on
    /// `seed`: one moment of a run can so be cut in many ways.
    pub fn fork(&self, seed: u64) -> SimRegion {
        Self::with(self.state().fork(seed), self.class)
    }

    /// Words stored, flushes and fences so far.
    pub fn op_count(&self) -> u64 {
        self.state().ops
    }

    /// Cuts the power at the operation that makes [`SimRegion::op_count`] `n`. Stores cannot
    /// fail, so the caller notices at its next fence.
    pub fn cut_at_op(&self, n: u64) {
        self.state().cut_at = Some(n);
    }

    /// Makes the `nth` fence from now (counted from 1) fail, which is final.
    ///
    /// # Panics
    /// If `nth` is 0.
    pub fn fail_fence(&self, nth: u64) {
        assert!(nth > 0, "fences are counted from 1");
        let mut state = self.state();
        state.fail_fence = Some(nth);
    }

    /// True from a power cut to the next reopen.
    pub fn is_cut(&self) -> bool {
        !self.state().powered
    }

    /// Offsets of lines with stores that no fence made durable: at a moment when everything
    /// should be durable, each is a missing flush.
    pub fn unfenced_lines(&self) -> Vec<u64> {
        self.state().unfenced_lines()
    }

    /// What was counted since the region was made.
    pub fn counts(&self) -> RegionCounts {
        self.state().counts
    }

    /// Overwrites bytes at rest: durable, seen by whoever opens the region next.
    pub fn poke(&self, offset: u64, bytes: &[u8]) {
        lines_of(offset, bytes.len() as u64, self.len());
        self.state().poke(offset, bytes);
    }

    fn check_open(&self, state: &State) -> Result<()> {
        if state.powered && state.generation == self.generation {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Closed, "the region was closed or lost power"))
    }

    /// Stores one word; a closed handle keeps it for itself.
    fn store_word(&self, state: &mut State, word: usize, value: u64) {
        if self.check_open(state).is_ok() {
            state.store(word, value);
        }
        self.words[word].store(value.to_le(), Ordering::Release);
    }
}

impl Region for SimRegion {
    fn len(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn class(&self) -> RegionClass {
        self.class
    }

    fn load(&self, offset: u64) -> u64 {
        u64::from_le(self.words[word_index(offset)].load(Ordering::Acquire))
    }

    fn store(&self, offset: u64, value: u64) {
        let word = word_index(offset);
        self.store_word(&mut self.state(), word, value);
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) {
        lines_of(offset, bytes.len() as u64, self.len());
        read_words(&self.words, offset, bytes);
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        lines_of(offset, bytes.len() as u64, self.len());
        let mut state = self.state();
        let load = |word: usize| u64::from_le(self.words[word].load(Ordering::Relaxed));
        write_words(offset, bytes, load, |word, value| self.store_word(&mut state, word, value));
    }

    fn flush(&self, offset: u64, len: u64) {
        let lines = lines_of(offset, len, self.len());
        let mut state = self.state();
        if self.check_open(&state).is_ok() {
            state.flush(lines);
        }
    }

    fn fence(&self) -> Result<()> {
        let mut state = self.state();
        self.check_open(&state)?;
        state.fence()
    }
}

/// Words of a line.
const LINE_WORDS: usize = (LINE_BYTES / 8) as usize;
