//! Lines with stores that no fence made durable, for regions whose lines are durable one by one.

use super::LINE_WORDS;
use super::memory::Memory;
use silica_base::Prng;
use std::ops::Range;
use std::thread::ThreadId;

/// Stores of a line that are kept one by one. A line that is stored to more often without a fence
/// forgets values in the middle of its history.
const STORES_MAX: usize = 1024;

/// A store that no fence made durable.
#[derive(Clone, Copy)]
pub(super) struct Store {
    /// Word of the line.
    pub(super) word: usize,
    pub(super) value: u64,
}

/// A line with stores that no fence made durable.
#[derive(Clone, Default)]
pub(super) struct Line {
    pub(super) number: usize,
    /// What is durable of it.
    pub(super) durable: [u64; LINE_WORDS],
    /// In their order.
    pub(super) stores: Vec<Store>,
    /// By thread that flushed, how many of the stores its flush covers.
    flushed: Vec<(ThreadId, usize)>,
    /// Stores that some flush covers.
    covered: usize,
}

/// All lines of a region.
#[derive(Clone, Default)]
pub(super) struct Lines {
    /// For each line, 1 + its place in `dirty`; 0 for lines without stores.
    places: Vec<u32>,
    dirty: Vec<Line>,
    /// Places that nobody has.
    free: Vec<u32>,
    /// By thread, lines that it flushed since its last fence.
    flushed: Vec<(ThreadId, Vec<u32>)>,
}

impl Lines {
    pub(super) fn new(words: usize) -> Lines {
        Lines { places: vec![0; words.div_ceil(LINE_WORDS)], ..Lines::default() }
    }

    /// The region has so many words now. Stores to lines behind them are forgotten.
    pub(super) fn resize(&mut self, words: usize) {
        let lines = words.div_ceil(LINE_WORDS);
        for number in lines..self.places.len() {
            self.clean(number);
        }
        self.places.resize(lines, 0);
    }

    /// Notes a store before `memory` shows it; true if the line had none.
    #[inline]
    pub(super) fn store(&mut self, memory: &Memory, word: usize, value: u64) -> bool {
        let number = word / LINE_WORDS;
        let is_first = self.places[number] == 0;
        if is_first {
            self.begin(memory, number);
        }
        let line = &mut self.dirty[self.places[number] as usize - 1];
        line.stores.push(Store { word: word % LINE_WORDS, value });
        if line.stores.len() > STORES_MAX {
            line.forget();
        }
        is_first
    }

    fn begin(&mut self, memory: &Memory, number: usize) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.dirty.push(Line::default());
            self.dirty.len() as u32 - 1
        });
        self.places[number] = place + 1;
        let line = &mut self.dirty[place as usize];
        line.number = number;
        for (at, word) in line.durable.iter_mut().enumerate() {
            *word = memory.value(number * LINE_WORDS + at);
        }
    }

    /// Notes a flush of a line by `thread`; true if there is something that no flush covered.
    #[inline]
    pub(super) fn flush(&mut self, number: usize, thread: ThreadId) -> bool {
        let Some(place) = self.places[number].checked_sub(1) else { return false };
        let line = &mut self.dirty[place as usize];
        let stores = line.stores.len();
        let has_new = line.covered < stores;
        line.covered = stores;
        match line.flushed.iter_mut().find(|(other, _)| *other == thread) {
            Some((_, covers)) => *covers = stores,
            None => {
                line.flushed.push((thread, stores));
                match self.flushed.iter_mut().find(|(other, _)| *other == thread) {
                    Some((_, lines)) => lines.push(number as u32),
                    None => self.flushed.push((thread, vec![number as u32])),
                }
            }
        }
        has_new
    }

    /// Makes durable what `thread` flushed; true if it flushed anything.
    pub(super) fn fence(&mut self, thread: ThreadId) -> bool {
        let Some(at) = self.flushed.iter().position(|(other, _)| *other == thread) else {
            return false;
        };
        let (_, numbers) = self.flushed.swap_remove(at);
        for number in &numbers {
            let number = *number as usize;
            let Some(place) = self.places.get(number).and_then(|place| place.checked_sub(1)) else {
                continue;
            };
            if self.dirty[place as usize].fence(thread) {
                self.clean(number);
            }
        }
        !numbers.is_empty()
    }

    /// Forgets the stores of a line.
    pub(super) fn clean(&mut self, number: usize) {
        if let Some(place) = std::mem::take(&mut self.places[number]).checked_sub(1) {
            let line = &mut self.dirty[place as usize];
            line.stores.clear();
            line.flushed.clear();
            line.covered = 0;
            self.free.push(place);
        }
    }

    /// Forgets all stores.
    pub(super) fn clear(&mut self) {
        for number in self.dirty().map(|line| line.number).collect::<Vec<_>>() {
            self.clean(number);
        }
        self.flushed.clear();
    }

    /// The line with this number, if it has stores that are not durable.
    pub(super) fn get(&self, number: usize) -> Option<&Line> {
        Some(&self.dirty[self.places[number].checked_sub(1)? as usize])
    }

    /// The line's durable words, if it has others.
    pub(super) fn durable_mut(&mut self, number: usize) -> Option<&mut [u64; LINE_WORDS]> {
        let place = self.places[number].checked_sub(1)?;
        Some(&mut self.dirty[place as usize].durable)
    }

    /// Lines with stores that are not durable.
    pub(super) fn dirty(&self) -> impl Iterator<Item = &Line> {
        self.dirty.iter().filter(|line| !line.stores.is_empty())
    }

    /// [`Lines::dirty`] in the order of their numbers.
    pub(super) fn in_order(&self) -> Vec<&Line> {
        let mut lines: Vec<&Line> = self.dirty().collect();
        lines.sort_unstable_by_key(|line| line.number);
        lines
    }
}

impl Line {
    pub(super) fn words(&self) -> Range<usize> {
        self.number * LINE_WORDS..(self.number + 1) * LINE_WORDS
    }

    /// Makes durable what the thread flushed; true if that was everything.
    fn fence(&mut self, thread: ThreadId) -> bool {
        let Some(at) = self.flushed.iter().position(|(other, _)| *other == thread) else {
            return false;
        };
        let (_, stores) = self.flushed.swap_remove(at);
        for store in self.stores.drain(..stores) {
            self.durable[store.word] = store.value;
        }
        self.covered -= stores;
        self.flushed.iter_mut().for_each(|(_, others)| *others = others.saturating_sub(stores));
        self.stores.is_empty()
    }

    /// Drops stores in the middle that no flush covers, but each word's last one among them. What
    /// a power cut may leave is then less than it may leave.
    fn forget(&mut self) {
        let end = self.stores.len() - STORES_MAX / 8;
        if self.covered >= end {
            return;
        }
        let mut last = [None; LINE_WORDS];
        for store in &self.stores[self.covered..end] {
            last[store.word] = Some(*store);
        }
        self.stores.splice(self.covered..end, last.into_iter().flatten());
    }

    /// The line after its first `stores` stores.
    pub(super) fn after(&self, stores: usize) -> [u64; LINE_WORDS] {
        let mut words = self.durable;
        for store in &self.stores[..stores] {
            words[store.word] = store.value;
        }
        words
    }

    /// The line with each word by itself: one of its values.
    pub(super) fn mixed(&self, rng: &mut Prng) -> [u64; LINE_WORDS] {
        let mut words = self.durable;
        for (number, word) in words.iter_mut().enumerate() {
            let stores = self.stores.iter().filter(|store| store.word == number);
            let values = 1 + stores.clone().count() as u64;
            if let Some(store) = rng.below(values).checked_sub(1) {
                *word = stores.clone().nth(store as usize).expect("it was counted").value;
            }
        }
        words
    }

    /// What a power cut leaves of it.
    pub(super) fn cut(&self, rng: &mut Prng) -> [u64; LINE_WORDS] {
        match rng.below(4) {
            0 => self.durable,
            1 => self.after(self.stores.len()),
            2 => self.after(rng.below(self.stores.len() as u64 + 1) as usize),
            _ => self.mixed(rng),
        }
    }
}
