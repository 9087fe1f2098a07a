//! DIDACache: slabs on flash that are cleaned, or dropped.

use std::collections::VecDeque;

use silica_base::{Result, prefetch};

use super::{SIZE_MAX, Simulator, config, whole};
use crate::model::{DidaCache, Stage};

/// No slot.
const NOWHERE: u32 = u32::MAX;
/// How many keys ahead the place of one is fetched, and how many ahead what lies at that place.
const AHEAD: usize = 24;
const NEAR: usize = 8;
/// Slots of a word of `valid`.
const WIDTH: usize = 64;

/// DIDACache as its design says (Shen's dissertation, section 2.4.1), with entries of one size and
/// all slabs in one channel. A put takes a slot of the slab in memory, which is written when it is
/// full. Then, where too few slabs are free, the one with the least valid entries is cleaned as
/// long as the collector's pace allows, and the oldest ones are dropped where that is not enough.
///
/// Time is counted in puts: the collector has gained [`DidaCache::pace`] copies with each since
/// slabs began to be too few.
#[derive(Debug)]
pub struct DidaSimulator {
    /// Slots of a slab.
    slots: usize,
    /// Slabs that are free at the watermarks.
    low: usize,
    high: usize,
    pace: f64,
    /// Where each key lies.
    places: Vec<u32>,
    /// The key of each slot.
    keys: Vec<u32>,
    /// Slots that have their key's newest entry, as bits; slabs begin with a word.
    valid: Vec<u64>,
    /// Valid entries of the slabs that are full.
    counts: Counts,
    /// The slab in memory, and how many of its slots are taken.
    open: usize,
    taken: usize,
    free: Vec<u32>,
    /// Full slabs by age, and slabs that were reclaimed since: how often each was written tells
    /// them apart.
    filled: VecDeque<(u32, u32)>,
    written: Vec<u32>,
    /// Copies that the collector may still do.
    budget: f64,
    /// The slab that it cleans, and the word of it that is next.
    victim: Option<(usize, usize)>,
    copies: u64,
    hits: u64,
}

impl DidaSimulator {
    /// An empty cache for `keys` keys with the parameters of the model.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for what [`DidaCache::checked`]
    /// refuses, no keys, and more than 2^32 - 2 slots.
    pub fn new(parameters: DidaCache, keys: u32) -> Result<Self> {
        let parameters = parameters.checked()?;
        let slots = whole("a slab's size", parameters.slab)?;
        let slabs = whole("the number of slabs", parameters.slabs())?;
        if keys == 0 {
            return Err(config("there is no cache of no keys: give at least 1"));
        }
        parameters.check_fit(f64::from(keys))?;
        // One more is in memory.
        let padded = (slots.div_ceil(WIDTH) * WIDTH) as f64;
        if padded * (slabs + 1) as f64 >= SIZE_MAX {
            let text = format!("a simulation has fewer than {SIZE_MAX} slots, not {slots} each in");
            return Err(config(format!("{text} {slabs} slabs: make the flash smaller")));
        }
        let stride = padded as usize;
        Ok(DidaSimulator {
            slots,
            low: parameters.free(parameters.low) as usize,
            high: parameters.free(parameters.high) as usize,
            pace: parameters.pace,
            places: vec![NOWHERE; keys as usize],
            keys: vec![0; stride * (slabs + 1)],
            valid: vec![0; stride / WIDTH * (slabs + 1)],
            counts: Counts::new(slabs + 1),
            open: 0,
            taken: 0,
            free: (1..=slabs as u32).rev().collect(),
            filled: VecDeque::new(),
            written: vec![0; slabs + 1],
            budget: 0.0,
            victim: None,
            copies: 0,
            hits: 0,
        })
    }

    fn stride(&self) -> usize {
        self.slots.div_ceil(WIDTH) * WIDTH
    }

    fn put_one(&mut self, key: u32) {
        let place = self.places[key as usize];
        if place != NOWHERE {
            self.hits += 1;
            let place = place as usize;
            self.valid[place / WIDTH] &= !(1 << (place % WIDTH));
            self.counts.lose(place / self.stride());
        }
        self.append(key);
        if self.taken == self.slots {
            self.write();
        }
        if self.free.len() < self.high {
            self.collect();
        }
    }

    /// Takes a slot of the slab in memory.
    fn append(&mut self, key: u32) {
        let place = self.open * self.stride() + self.taken;
        self.places[key as usize] = place as u32;
        self.keys[place] = key;
        self.valid[place / WIDTH] |= 1 << (place % WIDTH);
        self.taken += 1;
    }

    /// Writes the slab in memory, and begins another one; where few are left, the oldest goes.
    fn write(&mut self) {
        let slab = self.open;
        self.written[slab] += 1;
        self.filled.push_back((slab as u32, self.written[slab]));
        self.counts.set(slab, self.words(slab).map(|word| self.valid[word].count_ones()).sum());
        self.taken = 0;
        self.open = self.free.pop().expect("the collector keeps slabs free") as usize;
        // Where puts wait for the collector, nothing is ever dropped.
        while self.pace.is_finite() && self.free.len() < self.low {
            self.drop_oldest();
        }
    }

    /// The words of a slab's bits.
    fn words(&self, slab: usize) -> std::ops::Range<usize> {
        let words = self.stride() / WIDTH;
        slab * words..(slab + 1) * words
    }

    /// What the collector does in the time of a put while slabs are too few.
    fn collect(&mut self) {
        self.budget += self.pace;
        while self.budget >= 1.0 && self.free.len() < self.high {
            let Some((slab, word)) = self.victim.or_else(|| self.next_victim()) else {
                // Nothing is to be gained.
                self.budget = 0.0;
                return;
            };
            self.clean(slab, word);
        }
        if self.free.len() >= self.high {
            self.budget = 0.0;
        }
    }

    /// The slab with the least valid entries, where that is not all.
    fn next_victim(&mut self) -> Option<(usize, usize)> {
        let (slab, valid) = self.counts.least();
        if valid as usize >= self.slots {
            return None;
        }
        self.counts.set(slab, GONE);
        Some((slab, self.words(slab).start))
    }

    /// Puts a slab's valid entries again, from a word on, as many as may be; frees it in the end.
    fn clean(&mut self, slab: usize, from: usize) {
        for word in from..self.words(slab).end {
            while self.valid[word] != 0 {
                if self.budget < 1.0 {
                    self.victim = Some((slab, word));
                    return;
                }
                let place = word * WIDTH + self.valid[word].trailing_zeros() as usize;
                self.valid[word] &= self.valid[word] - 1;
                self.append(self.keys[place]);
                self.budget -= 1.0;
                self.copies += 1;
                if self.taken == self.slots {
                    self.write();
                }
            }
        }
        self.victim = None;
        self.release(slab);
    }

    /// Frees the oldest slab with all that it has.
    fn drop_oldest(&mut self) {
        while let Some((slab, time)) = self.filled.pop_front() {
            let slab = slab as usize;
            if self.written[slab] != time || self.counts.get(slab) == GONE {
                continue;
            }
            for word in self.words(slab) {
                let mut bits = std::mem::take(&mut self.valid[word]);
                while bits != 0 {
                    let place = word * WIDTH + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    self.places[self.keys[place] as usize] = NOWHERE;
                }
            }
            self.counts.set(slab, GONE);
            self.release(slab);
            return;
        }
    }

    fn release(&mut self, slab: usize) {
        self.free.push(slab as u32);
    }
}

impl Simulator for DidaSimulator {
    fn put(&mut self, keys: &[u32]) {
        for (at, &key) in keys.iter().enumerate() {
            if let Some(later) = keys.get(at + AHEAD) {
                prefetch(&self.places, *later as usize);
            }
            if let Some(soon) = keys.get(at + NEAR) {
                prefetch(&self.valid, self.places[*soon as usize] as usize / WIDTH);
            }
            self.put_one(key);
        }
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        vec![(Stage::Copies, self.copies)]
    }

    fn hits(&self) -> Option<u64> {
        Some(self.hits)
    }
}

/// A slab that is not full, or was reclaimed.
const GONE: u32 = u32::MAX;

/// Numbers by slab, and which is least: a tree of the lesser of two.
#[derive(Debug)]
struct Counts {
    /// Node `n` has the lesser of nodes `2 n` and `2 n + 1`; slabs begin at `leaves`.
    nodes: Vec<u32>,
    leaves: usize,
}

impl Counts {
    fn new(slabs: usize) -> Self {
        let leaves = slabs.next_power_of_two();
        Counts { nodes: vec![GONE; 2 * leaves], leaves }
    }

    fn get(&self, slab: usize) -> u32 {
        self.nodes[self.leaves + slab]
    }

    fn set(&mut self, slab: usize, count: u32) {
        let mut at = self.leaves + slab;
        self.nodes[at] = count;
        while at > 1 {
            at /= 2;
            let least = self.nodes[2 * at].min(self.nodes[2 * at + 1]);
            if self.nodes[at] == least {
                return;
            }
            self.nodes[at] = least;
        }
    }

    /// One less, where there is a number.
    #[inline]
    fn lose(&mut self, slab: usize) {
        let count = self.get(slab);
        if count != GONE {
            self.set(slab, count - 1);
        }
    }

    /// The first slab of the least number, and that.
    fn least(&self) -> (usize, u32) {
        let mut at = 1;
        while at < self.leaves {
            at = if self.nodes[2 * at] == self.nodes[at] { 2 * at } else { 2 * at + 1 };
        }
        (at - self.leaves, self.nodes[at])
    }
}
