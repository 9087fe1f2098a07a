//! All that a power cut at one moment may leave, image by image.
//!
//! Invariant: the memory of `lab` is `base`, but for the words of `patched` and for what the lab's
//! state noted as changed. If somebody still has the last image, or changed its length, a new lab
//! is made.

use super::handle::{SimRegion, World};
use super::memory::Memory;
use super::pages::page_words;
use super::state::State;
use super::unit::{Outcome, Unit};
use crate::region::RegionClass;
use silica_base::Prng;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Stores of one line, or sectors of one page, after each of which it is torn in turn.
const TEARS_MAX: usize = 16;

/// What a power cut at one moment may leave; see [`SimRegion::crash_images`].
pub struct CrashImages {
    class: RegionClass,
    units: Vec<Unit>,
    /// All words as they were at the moment.
    base: Vec<u64>,
    lab: Option<Lab>,
    choices: Box<dyn Iterator<Item = Choice> + Send>,
    number: u64,
    seed: u64,
}

/// The copy that is patched.
struct Lab {
    world: Arc<World>,
    memory: Arc<Memory>,
    patched: Vec<Range<usize>>,
}

/// One thing that a power cut may have left.
pub struct CrashImage {
    region: SimRegion,
    number: u64,
    lost: Vec<u64>,
    torn: Vec<u64>,
}

/// What happened to all units.
enum Choice {
    /// One outcome for all, but for some.
    AllBut(Outcome, Vec<(usize, Outcome)>),
    /// Each as the seed draws.
    Drawn(u64),
}

impl CrashImage {
    /// The region after the power cut, opened. An image is made faster if nobody has the one
    /// before it any more.
    pub fn region(&self) -> SimRegion {
        self.region.clone()
    }
}

impl fmt::Display for CrashImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CrashImage { number, lost, torn, .. } = self;
        write!(f, "image {number}: lost at offsets {lost:?}, torn at {torn:?}, all else kept")
    }
}

impl CrashImages {
    pub(super) fn new(state: &State, class: RegionClass, limit: usize, seed: u64) -> Self {
        let mut base = state.memory.values();
        let units = match class {
            RegionClass::Process => {
                base.fill(0);
                Vec::new()
            }
            RegionClass::Lines | RegionClass::Pages => units(state, &base),
        };
        let choices = Box::new(choices(&units, limit, seed));
        CrashImages { class, units, base, lab: None, choices, number: 0, seed }
    }

    /// A lab that holds `base`: the last one if nobody has it, else a new one.
    fn take_lab(&mut self) -> Lab {
        let seed = self.seed ^ self.number;
        if let Some(mut lab) = self.lab.take()
            && lab.restart(&self.base, seed)
        {
            return lab;
        }
        let mut state = State::new(seed, Memory::holding(&self.base), self.class);
        state.changed = Some(Vec::new());
        let memory = state.memory.clone();
        Lab { world: World::new(state), memory, patched: Vec::new() }
    }
}

impl Lab {
    /// Becomes `base` again; false if it cannot.
    fn restart(&mut self, base: &[u64], seed: u64) -> bool {
        if Arc::strong_count(&self.world) > 1 {
            return false;
        }
        let mut state = self.world.state();
        let is_ours = Arc::ptr_eq(&state.memory, &self.memory) && self.memory.len() == base.len();
        if !is_ours || state.resized {
            return false;
        }
        let changed = state.changed.as_mut().map(std::mem::take).unwrap_or_default();
        state.restart(seed);
        self.world.forget_observers();
        for words in changed.into_iter().chain(self.patched.drain(..)) {
            self.memory.set_all(words.start, &base[words]);
        }
        true
    }

    fn patch(&mut self, first: usize, words: &[u64]) {
        self.memory.set_all(first, words);
        self.patched.push(first..first + words.len());
    }
}

/// What is not durable. A page of a disk may be here as a hole and as a page: the page comes last.
fn units(state: &State, now: &[u64]) -> Vec<Unit> {
    let mut units = Vec::new();
    for (page, old) in &state.holes {
        let words = page_words(*page, now.len());
        if let Some(old) = old {
            let (first, now) = (words.start, now[words].to_vec());
            units.push(Unit::Hole { first, old: old.clone(), now });
        }
    }
    for page in &state.pages.dirty {
        let now = now[page_words(page.number, now.len())].to_vec();
        units.push(Unit::Page { page: page.clone(), now });
    }
    units.extend(state.lines.in_order().into_iter().cloned().map(Unit::Line));
    units
}

/// Everything that is tried, in its order.
fn choices(units: &[Unit], limit: usize, seed: u64) -> impl Iterator<Item = Choice> + Send + use<> {
    use Outcome::{New, Old};
    let count = units.len();
    let mut tears = Vec::new();
    for (unit, parts) in units.iter().map(Unit::parts).enumerate() {
        tears.extend((1..parts.min(TEARS_MAX)).map(|part| (unit, Outcome::Begun(part))));
        if parts > 1 {
            tears.push((unit, Outcome::Mixed(seed ^ unit as u64)));
        }
    }
    let has_tears = !tears.is_empty();
    let all = [Old, New].into_iter().take(1 + count.min(1)).map(|all| Choice::AllBut(all, vec![]));
    let one = move |all: Outcome, but: Outcome, least: usize| {
        let some = if count >= least { count } else { 0 };
        (0..some).map(move |unit| Choice::AllBut(all, vec![(unit, but)]))
    };
    let torn = tears.into_iter().flat_map(move |torn| {
        let both = [Old, New].into_iter().take(count.min(2));
        both.map(move |all| Choice::AllBut(all, vec![torn]))
    });
    let pairs = (0..if count > 2 { count } else { 0 }).flat_map(move |first| {
        (first + 1..count).map(move |second| Choice::AllBut(Old, vec![(first, New), (second, New)]))
    });
    // Two lines that are whole or not are all tried by now.
    let mut rng = Prng::new(seed);
    let drawn = std::iter::from_fn(move || Some(Choice::Drawn(rng.next_u64())));
    let drawn = drawn.take(if count > 2 || has_tears { limit } else { 0 });
    let tried = all.chain(one(Old, New, 2)).chain(one(New, Old, 3));
    // Half of the rest is drawn, so that pairs of many lines leave room for larger sets.
    tried.chain(alternated(torn.chain(pairs), drawn)).take(limit)
}

/// One of each in turn, until both end.
fn alternated<T>(
    mut a: impl Iterator<Item = T>,
    mut b: impl Iterator<Item = T>,
) -> impl Iterator<Item = T> {
    let mut is_first = false;
    std::iter::from_fn(move || {
        is_first = !is_first;
        match is_first {
            true => a.next().or_else(|| b.next()),
            false => b.next().or_else(|| a.next()),
        }
    })
}

impl Choice {
    fn outcomes(&self, units: &[Unit]) -> Vec<Outcome> {
        match self {
            Choice::AllBut(all, but) => {
                let mut outcomes = vec![*all; units.len()];
                but.iter().for_each(|(unit, outcome)| outcomes[*unit] = *outcome);
                outcomes
            }
            Choice::Drawn(seed) => {
                let mut rng = Prng::new(*seed);
                units.iter().map(|unit| drawn(unit, &mut rng)).collect()
            }
        }
    }
}

fn drawn(unit: &Unit, rng: &mut Prng) -> Outcome {
    match rng.below(if unit.parts() > 1 { 4 } else { 2 }) {
        0 => Outcome::Old,
        1 => Outcome::New,
        2 => Outcome::Begun(rng.below(unit.parts() as u64) as usize),
        _ => Outcome::Mixed(rng.next_u64()),
    }
}

impl Iterator for CrashImages {
    type Item = CrashImage;

    fn next(&mut self) -> Option<CrashImage> {
        let outcomes = self.choices.next()?.outcomes(&self.units);
        let mut lab = self.take_lab();
        let (mut lost, mut torn) = (Vec::new(), Vec::new());
        for (unit, outcome) in self.units.iter().zip(outcomes) {
            if outcome != Outcome::New {
                lab.patch(unit.first(), &unit.words(outcome));
            }
            match outcome {
                Outcome::New => {}
                Outcome::Old => lost.push(unit.first() as u64 * 8),
                Outcome::Begun(_) | Outcome::Mixed(_) => torn.push(unit.first() as u64 * 8),
            }
        }
        let region = lab.world.handle(self.class);
        self.lab = Some(lab);
        self.number += 1;
        Some(CrashImage { region, number: self.number, lost, torn })
    }
}
