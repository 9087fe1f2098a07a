//! A cache on flash in slabs: the engine `dida` (docs/engines/dida.md).
//!
//! A slab is emptied once a share of it is dead, and what is alive begins anew in a slab of copied
//! entries. So entries pass **stages**: put, copied once, copied twice; each stage has slabs of its
//! own, whose entries are overwritten ever more seldom. If there is no room for all, the slab used
//! longest ago is dropped. Which one that is has little to do with its age or with what is dead in
//! it, so every slab is dropped at the same rate.

use silica_base::Result;

use super::{Group, Popularity, positive};

/// Share of a slab that has to be dead before the engine copies the rest.
const DEAD_MIN: f64 = 1.0 / 16.0;
/// Slabs in memory that have entries, in slabs that are full: two, each half full on average.
const OPEN_SLABS: f64 = 1.0;
/// Bytes of the journal for each entry that dies. A checkpoint as large as the index is written
/// after as many bytes: so many for each dead entry.
const JOURNAL_BYTES: f64 = 23.0;
/// An age, in requests, at which nothing is ever overwritten.
const AGE_MAX: f64 = 1e30;
/// Most that a slab waits for: what is dead by then is nearly all.
const DEAD_MAX: f64 = 0.999;
/// Stages that are followed one by one; later ones are like the last.
const STAGES: usize = 24;
/// Halvings after which a root is as exact as it is used.
const HALVINGS: u32 = 28;
/// Share of the entries put that is too small to be followed further.
const FEW: f64 = 1e-6;

/// A cache on flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashCache {
    /// Slabs that the flash has room for.
    pub slabs: f64,
    /// Bytes of a slab.
    pub slab_bytes: f64,
    /// Bytes of an entry's key and value on average.
    pub entry_bytes: f64,
    /// Bytes that an entry takes beside them ([`FlashCache::OVERHEAD_BYTES`]).
    pub overhead_bytes: f64,
    /// Share of the slabs below which the oldest one is dropped.
    pub low: f64,
    /// Share of the slabs below which slabs are emptied.
    pub high: f64,
    /// Slabs that hold a checkpoint of the index.
    pub checkpoint_slabs: f64,
}

/// What is asked of it: parts of all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlashLoad {
    /// Gets of keys that were put once.
    pub gets: f64,
    /// Puts of keys by their popularity.
    pub puts: f64,
    /// Puts of keys that nobody asks for again.
    pub inserts: f64,
    /// A get that misses is followed by a put.
    pub fills: bool,
}

/// What that comes to in a steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashCost {
    /// Share of the gets that find their key.
    pub hits: f64,
    /// Entries put for each request, those of misses included.
    pub puts: f64,
    /// Entries copied for each entry put.
    pub copies: f64,
    /// Bytes written to flash for each byte put; 0 if nothing is put.
    pub write_amplification: f64,
    /// Blocks erased for each request.
    pub erases: f64,
    /// Share of the erased blocks that are dropped with what is alive in them.
    pub dropped: f64,
}

/// One course of entries through the stages.
#[derive(Default)]
struct Course {
    hits: f64,
    /// Entries put, and copied, in a request.
    puts: f64,
    copies: f64,
    /// Entries on flash that die in a request, because they are overwritten or copied.
    dead: f64,
    /// Slabs on flash.
    held: f64,
    /// Share of the reclaimed slabs that are dropped.
    dropped: f64,
}

impl FlashCache {
    /// Bytes of an entry beside key and value: its header of 7 to 20 bytes, 6 for a short key and a
    /// value under 16 KiB, and 10 in the summary of its slab (docs/engines/dida.md).
    pub const OVERHEAD_BYTES: f64 = 18.0;
    /// Share of the slabs between the two marks (section 2.4.1 of Shen's dissertation).
    pub const BETWEEN: f64 = 0.15;

    /// Checked parameters.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for sizes that are not over zero.
    pub fn checked(self) -> Result<Self> {
        positive("the number of slabs", self.slabs)?;
        positive("a slab's size", self.slab_bytes)?;
        positive("an entry's size", self.entry_bytes)?;
        Ok(self)
    }

    /// Entries of a slab: what is left at its end is half of an entry on average.
    fn slab_entries(&self) -> f64 {
        let item = self.entry_bytes + self.overhead_bytes;
        (self.slab_bytes / item - 0.5).max(1.0)
    }

    /// Slabs that are not free at a mark, and have entries. A checkpoint is made for overwrites.
    fn filled(&self, mark: f64, load: &FlashLoad) -> f64 {
        let free = (self.slabs * mark).round().max(1.0);
        let checkpoint = if load.puts > 0.0 { self.checkpoint_slabs } else { 0.0 };
        (self.slabs - free - checkpoint).max(1.0)
    }

    /// What the cache does with requests of this popularity.
    ///
    /// # Errors
    /// Those of [`FlashCache::checked`].
    pub fn cost(&self, keys: &Popularity, load: &FlashLoad) -> Result<FlashCost> {
        self.checked()?;
        let course = self.kept(keys, load).unwrap_or_else(|| self.full(keys, load));
        let slabs = (course.puts + course.copies) / self.slab_entries();
        let slabs = slabs + course.dead * JOURNAL_BYTES / self.slab_bytes;
        let user_bytes = course.puts * self.entry_bytes;
        let written = if user_bytes > 0.0 { slabs * self.slab_bytes / user_bytes } else { 0.0 };
        Ok(FlashCost {
            hits: course.hits,
            puts: course.puts,
            copies: if course.puts > 0.0 { course.copies / course.puts } else { 0.0 },
            write_amplification: written,
            erases: slabs,
            dropped: course.dropped,
        })
    }

    /// The course if no slab is dropped: all keys have room; `None` if they have not.
    ///
    /// Slabs wait until so much of them is dead that just the high mark stays free.
    fn kept(&self, keys: &Popularity, load: &FlashLoad) -> Option<Course> {
        if load.inserts > 0.0 {
            return None;
        }
        let all = keys.keys() / self.slab_entries();
        let open = if load.puts > 0.0 { OPEN_SLABS } else { 0.0 };
        let most = self.filled(self.low, load) + open;
        let least = self.filled(self.high, load) + open;
        if all > most {
            return None;
        }
        if load.puts <= 0.0 {
            let (hits, held) = (1.0, all);
            return Some(Course { hits, held, ..Course::default() });
        }
        let eager = self.course(keys, load, DEAD_MIN, 0.0);
        if eager.held > most {
            return None;
        }
        if eager.held >= least {
            return Some(eager);
        }
        let (mut low, mut high) = (DEAD_MIN, DEAD_MAX);
        for _ in 0..HALVINGS {
            let dead = 0.5 * (low + high);
            if self.course(keys, load, dead, 0.0).held < least { low = dead } else { high = dead }
        }
        Some(self.course(keys, load, low, 0.0))
    }

    /// The course of a cache that has no room for all: slabs are dropped at the rate that leaves
    /// just the low mark free.
    fn full(&self, keys: &Popularity, load: &FlashLoad) -> Course {
        let room = self.filled(self.low, load);
        // Drops of a slab in a request, over a wide range: by their logarithm.
        let about = -(room * self.slab_entries()).ln();
        let (mut low, mut high) = (about - 14.0, about + 7.0);
        for _ in 0..HALVINGS {
            let drops = 0.5 * (low + high);
            let held = self.course(keys, load, DEAD_MIN, drops.exp()).held;
            if held > room { low = drops } else { high = drops }
        }
        self.course(keys, load, DEAD_MIN, high.exp())
    }

    /// Slabs are emptied when a share `dead` of them is, and each is dropped with a chance of
    /// `drops` in a request.
    fn course(&self, keys: &Popularity, load: &FlashLoad, dead: f64, drops: f64) -> Course {
        let there = |group: &Group| found(load, group, drops, self.slab_entries());
        let arrives = |group: &Group| {
            let fills = if load.fills { load.gets * (1.0 - there(group)) } else { 0.0 };
            group.probability * (load.puts + fills)
        };
        let puts = keys.sum(arrives) + load.inserts;
        let fill = self.slab_entries() / puts;
        let alive_at = |age: f64| {
            let of =
                |group: &Group| arrives(group) * stays(load.puts * group.probability, age, fill);
            keys.sum(of) + load.inserts
        };
        // What the slabs of a stage are made of, in entries a request, and how old it is.
        let (mut flow, mut base, mut age) = (puts, puts, 0.0);
        let (mut held, mut copies, mut dropped) = (0.0, 0.0, 0.0);
        for stage in 0..STAGES {
            let waits = match load.puts > 0.0 {
                true => falling(|more| alive_at(age + more) / base, 1.0 - dead, keys.keys()),
                false => f64::INFINITY,
            };
            let lasts = if drops > 0.0 { (-drops * waits).exp() } else { 1.0 };
            let stay = if drops > 0.0 { (1.0 - lasts) / drops } else { waits };
            let left = alive_at(age + waits.min(AGE_MAX));
            let ratio = if waits < AGE_MAX { lasts * left / base } else { 0.0 };
            // Stages behind the last one are like it.
            let rest = if stage + 1 == STAGES { 1.0 / (1.0 - ratio) } else { 1.0 };
            held += flow * stay * rest;
            dropped += flow * (1.0 - lasts) * rest;
            copies += flow * ratio * rest;
            flow *= ratio;
            if flow < FEW * puts {
                break;
            }
            (base, age) = (left, age + waits);
        }
        Course {
            hits: keys.sum(|group| group.probability * there(group)),
            puts,
            copies,
            dead: copies + load.puts * keys.sum(|group| group.probability * there(group)),
            held: held / self.slab_entries(),
            dropped: dropped / (puts + copies),
        }
    }
}

/// Chance that a key is there, whose slab is dropped with a chance of `drops` in a request once it
/// is on flash. Nothing is dropped of what is in memory.
fn found(load: &FlashLoad, group: &Group, drops: f64, slab_entries: f64) -> f64 {
    let fills = if load.fills { load.gets } else { 0.0 };
    let arrives = group.probability * (load.puts + fills);
    if drops <= 0.0 {
        return 1.0;
    }
    let there = 1.0 / drops + 0.5 * slab_entries;
    arrives * there / (arrives * there + 1.0)
}

/// Share of entries that are not overwritten at `rate` until their slab, which took `fill`
/// requests to be filled, is of this age.
fn stays(rate: f64, age: f64, fill: f64) -> f64 {
    let times = rate * fill;
    let within = if times < 1e-9 { 1.0 } else { -(-times).exp_m1() / times };
    within * (-rate * age).exp()
}

/// Where a function that falls from 1 on is `wanted`: 0 if it begins below that.
fn falling(of: impl Fn(f64) -> f64, wanted: f64, about: f64) -> f64 {
    if of(0.0) <= wanted {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, about);
    // Ages that are never reached are as good as none.
    while of(high) > wanted {
        low = high;
        high *= 4.0;
        if high > AGE_MAX {
            return high;
        }
    }
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if of(middle) > wanted { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 slabs of 1,000 entries, without a free one but for the marks.
    fn cache() -> FlashCache {
        FlashCache {
            slabs: 1000.0,
            slab_bytes: 1000.5 * 100.0,
            entry_bytes: 100.0,
            overhead_bytes: 0.0,
            low: 0.001,
            high: 0.1,
            checkpoint_slabs: 0.0,
        }
    }

    /// Uniform writes to slabs that are emptied in turn: the closed form of FIFO collection,
    /// A = α / (α + W(−α e^−α)) (Desnoyers 2012, eq. 4): A = 1 / d where −ln(1 − d) / d = α.
    #[test]
    fn keys_with_room_are_copied_as_the_closed_form_says() {
        let keys = Popularity::uniform(720_000).unwrap();
        let load = FlashLoad { puts: 1.0, ..FlashLoad::default() };
        let cost = cache().cost(&keys, &load).unwrap();
        let alpha = 900.0 / 720.0;
        let dead: f64 = 0.3714;
        assert!((-(1.0 - dead).ln() / dead / alpha - 1.0).abs() < 1e-3, "it is the root");
        assert!(((1.0 + cost.copies) * dead - 1.0).abs() < 0.01, "{cost:?}");
        assert_eq!((cost.hits, cost.dropped), (1.0, 0.0));
    }

    #[test]
    fn misses_fill_a_cache_to_the_share_that_it_has_room_for() {
        let keys = Popularity::uniform(4_000_000).unwrap();
        let load = FlashLoad { gets: 1.0, fills: true, ..FlashLoad::default() };
        let cost = cache().cost(&keys, &load).unwrap();
        assert!((cost.hits / (999.0 / 4000.0) - 1.0).abs() < 0.01, "{cost:?}");
        assert_eq!(cost.copies, 0.0);
        assert!((cost.puts + cost.hits - 1.0).abs() < 1e-9 && cost.dropped > 0.999, "{cost:?}");
        assert!((cost.write_amplification - 1.0005).abs() < 1e-3, "{cost:?}");
        let gone = FlashLoad { fills: false, ..load };
        assert_eq!(cache().cost(&keys, &gone).unwrap().hits, 0.0);
    }

    #[test]
    fn more_flash_finds_more_and_copies_less() {
        let keys = Popularity::zipf(2_000_000, 0.9).unwrap();
        let load = FlashLoad { gets: 0.9, puts: 0.1, inserts: 0.0, fills: true };
        let of = |slabs: f64| FlashCache { slabs, ..cache() }.cost(&keys, &load).unwrap();
        let sizes = [200.0, 400.0, 800.0, 1600.0, 3200.0, 6400.0];
        let costs: Vec<FlashCost> = sizes.into_iter().map(of).collect();
        assert!(costs.windows(2).all(|pair| pair[0].hits <= pair[1].hits + 1e-9), "{costs:?}");
        assert!(costs[0].hits > 0.3 && costs[5].hits == 1.0, "{costs:?}");
        assert!(costs[5].copies < 0.3, "{costs:?}");
        let only_gets = FlashLoad { puts: 0.0, gets: 1.0, ..load };
        assert_eq!(cache().cost(&Popularity::uniform(9).unwrap(), &only_gets).unwrap().erases, 0.0);
    }
}
