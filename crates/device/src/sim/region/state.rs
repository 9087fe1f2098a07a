//! What all handles of a simulated region share.

use super::LINE_WORDS;
use crate::region::{LINE_BYTES, RegionClass, XPLINE_BYTES, write_words};
use silica_base::{Error, ErrorKind, Prng, Result};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::thread::ThreadId;

/// XPLines that the medium's combining buffer holds: 16 KiB.
const COMBINED_XPLINES: usize = 64;

/// What a simulated region counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegionCounts {
    /// Words stored.
    pub words_stored: u64,
    /// Lines flushed, needless ones included.
    pub lines_flushed: u64,
    /// Lines flushed without a store since they were flushed last.
    pub flushes_needless: u64,
    /// Fences.
    pub fences: u64,
    /// XPLines of 256 bytes written to the medium, after its buffer combined writes.
    pub xplines_written: u64,
}

/// A store that no fence made durable.
#[derive(Clone, Copy)]
struct Store {
    /// Word of the line.
    word: usize,
    value: u64,
}

/// A line with stores that no fence made durable.
#[derive(Clone, Default)]
struct Line {
    /// In their order.
    stores: Vec<Store>,
    /// By thread that flushed, how many of the stores its flush covers.
    flushed: Vec<(ThreadId, usize)>,
    /// Stores that some flush covers.
    covered: usize,
}

#[derive(Clone)]
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
    is_poisoned: bool,
    pub(super) counts: RegionCounts,
    /// What the medium holds.
    durable: Vec<u64>,
    lines: BTreeMap<usize, Line>,
    /// XPLines in the medium's buffer, the oldest first.
    combined: VecDeque<u64>,
}

impl State {
    pub(super) fn new(seed: u64, words: usize, class: RegionClass) -> Self {
        State {
            rng: Prng::new(seed),
            class,
            powered: true,
            generation: 0,
            ops: 0,
            cut_at: None,
            fail_fence: None,
            is_poisoned: false,
            counts: RegionCounts::default(),
            durable: vec![0; words],
            lines: BTreeMap::new(),
            combined: VecDeque::new(),
        }
    }

    pub(super) fn fork(&self, seed: u64) -> State {
        State { rng: Prng::new(seed), ..self.clone() }
    }

    /// What threads see: what is durable, and all stores. Words as they lie in memory.
    pub(super) fn visible(&self) -> Vec<u64> {
        let mut words = self.durable.clone();
        for (number, line) in &self.lines {
            for store in &line.stores {
                words[number * LINE_WORDS + store.word] = store.value;
            }
        }
        words.into_iter().map(u64::to_le).collect()
    }

    /// Counts an operation that power may be cut at. Its own effect may survive.
    fn operation(&mut self) {
        self.ops += 1;
        if self.cut_at.is_some_and(|at| self.ops >= at) {
            self.cut();
        }
    }

    pub(super) fn store(&mut self, word: usize, value: u64) {
        let line = self.lines.entry(word / LINE_WORDS).or_default();
        line.stores.push(Store { word: word % LINE_WORDS, value });
        self.counts.words_stored += 1;
        self.operation();
    }

    pub(super) fn flush(&mut self, lines: Range<u64>) {
        let thread = std::thread::current().id();
        for number in lines {
            self.counts.lines_flushed += 1;
            let Some(line) = self.lines.get_mut(&(number as usize)) else {
                self.counts.flushes_needless += 1;
                continue;
            };
            let stores = line.stores.len();
            if line.covered == stores {
                self.counts.flushes_needless += 1;
            } else {
                line.covered = stores;
                let xpline = number * LINE_BYTES / XPLINE_BYTES;
                if !self.combined.contains(&xpline) {
                    self.counts.xplines_written += 1;
                    self.combined.push_back(xpline);
                    if self.combined.len() > COMBINED_XPLINES {
                        self.combined.pop_front();
                    }
                }
            }
            line.flushed.retain(|(other, _)| *other != thread);
            line.flushed.push((thread, stores));
        }
        self.operation();
    }

    pub(super) fn fence(&mut self) -> Result<()> {
        if self.is_poisoned {
            let message = "an earlier fence failed; open the region again";
            return Err(Error::new(ErrorKind::Poisoned, message));
        }
        self.counts.fences += 1;
        if self.cut_at.is_some_and(|at| self.ops + 1 >= at) {
            // Cut before it made anything durable.
            self.ops += 1;
            self.cut();
            return Err(Error::new(ErrorKind::Closed, "the region lost power"));
        }
        self.ops += 1;
        self.fail_fence = self.fail_fence.map(|left| left - 1);
        if self.fail_fence == Some(0) {
            self.fail_fence = None;
            self.is_poisoned = true;
            return Err(Error::new(ErrorKind::Io, "simulated failure of a fence"));
        }
        let thread = std::thread::current().id();
        let durable = &mut self.durable;
        self.lines.retain(|number, line| {
            let Some(at) = line.flushed.iter().position(|(other, _)| *other == thread) else {
                return true;
            };
            let (_, stores) = line.flushed.swap_remove(at);
            for store in line.stores.drain(..stores) {
                durable[number * LINE_WORDS + store.word] = store.value;
            }
            line.covered -= stores;
            line.flushed.iter_mut().for_each(|(_, others)| *others = others.saturating_sub(stores));
            !line.stores.is_empty()
        });
        Ok(())
    }

    /// Cuts the power: what the medium holds is decided line by line.
    pub(super) fn cut(&mut self) {
        self.powered = false;
        self.cut_at = None;
        if self.class == RegionClass::Process {
            self.durable.fill(0);
            self.lines.clear();
            return;
        }
        for (number, line) in std::mem::take(&mut self.lines) {
            let words = &mut self.durable[number * LINE_WORDS..][..LINE_WORDS];
            line.cut(&mut self.rng, words);
        }
    }

    pub(super) fn reopen(&mut self) {
        self.powered = true;
        self.generation += 1;
        self.is_poisoned = false;
    }

    pub(super) fn unfenced_lines(&self) -> Vec<u64> {
        self.lines.keys().map(|number| *number as u64 * LINE_BYTES).collect()
    }

    pub(super) fn poke(&mut self, offset: u64, bytes: &[u8]) {
        let before = self.durable.clone();
        let durable = &mut self.durable;
        write_words(offset, bytes, |word| before[word], |word, value| durable[word] = value);
    }
}

impl Line {
    /// Leaves in `words`, which hold what is durable of the line, what a power cut leaves.
    fn cut(&self, rng: &mut Prng, words: &mut [u64]) {
        let all = self.stores.len();
        let kept = match rng.below(4) {
            0 => 0,
            1 => all,
            2 => rng.below(all as u64 + 1) as usize,
            _ => {
                // Each word by itself: one of its values.
                for (number, word) in words.iter_mut().enumerate() {
                    let values: Vec<u64> = std::iter::once(*word)
                        .chain(self.stores.iter().filter(|s| s.word == number).map(|s| s.value))
                        .collect();
                    *word = values[rng.below(values.len() as u64) as usize];
                }
                return;
            }
        };
        for store in &self.stores[..kept] {
            words[store.word] = store.value;
        }
    }
}
