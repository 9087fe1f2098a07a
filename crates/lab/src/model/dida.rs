//! DIDACache: slabs on flash, reclaimed by what they have, or by their age.

use silica_base::{Error, ErrorKind, Result};

use super::{Group, Popularity, Stage, WriteAmplification, positive};

/// A cache in slabs of flash that are erased as a whole (Shen's dissertation, section 2.4.1).
///
/// Puts go to a slab in memory, which is written when it is full. Where fewer than `high` of all
/// slabs are free, the one with the least valid entries is cleaned: these are put again
/// (space-based eviction). The collector can copy `pace` entries for each put; where it is behind
/// so far that fewer than `low` are free, the oldest slab is dropped with all that it has (quick
/// clean).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DidaCache {
    /// Entries that all slabs on flash have room for.
    pub flash: f64,
    /// Entries of a slab.
    pub slab: f64,
    /// Share of the slabs that is kept free at any price (`W_low`).
    pub low: f64,
    /// Share of the slabs that is kept free where the collector can (`W_high`).
    pub high: f64,
    /// Entries that the collector can copy in the time of a put; infinite where puts wait for it,
    /// 0 where slabs are only dropped.
    pub pace: f64,
}

/// What such a cache costs, and what it is good for.
#[derive(Clone, Debug, PartialEq)]
pub struct DidaCost {
    /// Entries written for each put: the put itself (its slab is its log), and copies.
    pub writes: WriteAmplification,
    /// Share of the requests, as popular as puts, that find their key.
    pub hits: f64,
    /// Share of the reclaimed slabs that are dropped.
    pub dropped: f64,
}

/// Rounds after which what slabs are made of no longer changes, and steps to an age.
const ROUNDS: u32 = 4;
const STEPS: u32 = 6;
/// Halvings after which a root is as exact as it is used.
const HALVINGS: u32 = 40;

impl DidaCache {
    /// Checked parameters.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for sizes that are not over zero, fewer than 4 slabs, a negative pace,
    /// and watermarks that are not `0 < low < high < 1`.
    pub fn checked(self) -> Result<Self> {
        positive("the flash's room", self.flash)?;
        positive("a slab's size", self.slab)?;
        let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
        if self.slabs() < 4.0 {
            let text = "a cache has at least 4 slabs: make --slab smaller or --flash larger";
            return refuse(format!("{text}, than {} and {}", self.slab, self.flash));
        }
        let DidaCache { low, high, .. } = self;
        if !(low > 0.0 && low < high && high < 1.0) {
            return refuse(format!(
                "the low watermark is over 0 and below the high one, which is below 1, not {low} \
                 and {high}"
            ));
        }
        if self.free(high) >= self.slabs() {
            return refuse(format!(
                "a high watermark of {high} leaves no slab of {} to be filled",
                self.slabs()
            ));
        }
        if self.pace.is_nan() || self.pace < 0.0 {
            return refuse(format!("the collector's pace is 0 or more, not {}", self.pace));
        }
        Ok(self)
    }

    /// How many slabs there are.
    pub fn slabs(&self) -> f64 {
        (self.flash / self.slab).floor()
    }

    /// Slabs that are free at a watermark: at least 1.
    pub(crate) fn free(&self, watermark: f64) -> f64 {
        (self.slabs() * watermark).round().max(1.0)
    }

    /// Slots that are written between an entry and the reclaim of its slab where the oldest one is
    /// next, so many stay free, and a share of what is written is copies: an entry waits for its
    /// own slab to be full, and for as many as there are besides. Puts come at any place in a slab.
    /// A collector that puts wait for copies at its begin; one at a pace copies all the time, and
    /// the slab that it has begun with is no longer among those that wait.
    fn room(&self, free: f64, copied: f64) -> f64 {
        let own = match self.pace {
            0.0 => 0.5,
            f64::INFINITY => 0.5 + 0.5 * copied,
            _ => -0.5,
        };
        (self.slabs() - free + own) * self.slab
    }

    /// Follows the three courses that the collector can take: it keeps up with puts at the high
    /// watermark; it does so at a level of free slabs between the two, where fewer copies are
    /// needed; or slabs are dropped at the low one.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where puts wait for the collector and the keys do not fit.
    pub fn cost(&self, keys: &Popularity) -> Result<DidaCost> {
        self.check_fit(keys.keys())?;
        let needed = |free: f64| self.copies(keys, free);
        let (low, high) = (self.free(self.low), self.free(self.high));
        let (copies, hits, dropped) = if self.pace >= needed(high) {
            (needed(high), 1.0, 0.0)
        } else if self.pace >= needed(low) {
            (self.pace, 1.0, 0.0)
        } else {
            self.dropping(keys, self.room(low, 0.0))
        };
        let mut writes = WriteAmplification::logged();
        writes.add(Stage::Copies, copies);
        Ok(DidaCost { writes, hits, dropped })
    }

    /// Refuses keys that do not fit where no slab is ever dropped.
    pub(crate) fn check_fit(&self, keys: f64) -> Result<()> {
        let room = self.room(self.free(self.high), 0.0);
        if self.pace.is_finite() || keys < room {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Config,
            format!(
                "{keys} keys do not fit into the {room} slots that are filled at the high \
                 watermark, and a collector without a pace drops nothing: give it a pace (--pace), \
                 or more flash (--flash)"
            ),
        ))
    }

    /// Copies for each put where every valid entry is copied and so many slabs stay free; infinite
    /// where the keys do not fit.
    fn copies(&self, keys: &Popularity, free: f64) -> f64 {
        if self.room(free, 0.0) <= keys.keys() {
            return f64::INFINITY;
        }
        // The more is valid when a slab is cleaned, the less of its room is for puts, and the
        // sooner it is cleaned.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let valid = 0.5 * (low + high);
            let puts = self.room(free, valid) * (1.0 - valid);
            if self.lifetime(keys, valid) > puts { low = valid } else { high = valid }
        }
        low / (1.0 - low)
    }

    /// Puts between an entry and the cleaning of its slab on average, where slabs are cleaned that
    /// have a share `valid` of valid entries.
    ///
    /// All slabs are filled alike: a slot has a key of a group by how often these are put, or
    /// copied. So each of `n` slots loses its entry after a time of its own, all by the same law,
    /// and a slab is cleaned with the `n (1 - valid)`th of them: what that law leaves at this time
    /// follows a beta distribution, of which three points have the mean and the variance. That
    /// slots know nothing of each other is not so where few keys have most puts: there the
    /// correction for small slabs is too large (docs/models.md).
    fn lifetime(&self, keys: &Popularity, valid: f64) -> f64 {
        let groups = keys.groups();
        let puts = |group: &Group| (1.0 - valid) * group.keys * group.probability;
        let stays = |group: &Group, ages: &[(f64, f64); 3]| -> f64 {
            ages.iter().map(|(age, part)| part * (-group.rate * age).exp()).sum()
        };
        // Slots of a group where slabs are cleaned at these ages: of puts, and of their copies.
        let slots =
            |group: &Group, ages: &[(f64, f64); 3]| puts(group) / (1.0 - stays(group, ages));
        // First as if all slabs were cleaned at one age; the others are a factor of it.
        let mut parts = [(1.0, 1.0), (1.0, 0.0), (1.0, 0.0)];
        let mut age = 0.0;
        let mut lives = 0.0;
        for round in 0..ROUNDS {
            let at = |age: f64| parts.map(|(factor, part)| (factor * age, part));
            let (mut low, mut high) = (0.5 * age, if round == 0 { self.flash } else { 2.0 * age });
            for _ in 0..HALVINGS {
                age = 0.5 * (low + high);
                let all: f64 = groups.iter().map(|group| slots(group, &at(age))).sum();
                if all > 1.0 { low = age } else { high = age }
            }
            let shares: Vec<f64> = groups.iter().map(|group| slots(group, &at(age))).collect();
            // What is left of the slots that still have their entry, and of the one that loses it.
            let of = |(left, part): (f64, f64)| (age_of(groups, &shares, left, age), part);
            let ages = spread(valid, valid * (1.0 - valid) / (self.slab + 1.0)).map(of);
            parts = ages.map(|(of, part)| (of / ages[0].0, part));
            let mean = (valid * self.slab + 1.0) / (self.slab + 1.0);
            let last = spread(mean, mean * (1.0 - mean) / (self.slab + 2.0)).map(of);
            lives = last.iter().map(|(age, part)| age * part).sum();
        }
        lives
    }

    /// The collector does what it can, so `room` slots are written in a given number of puts; a
    /// share of the slabs is copied, as large as that makes it, and the others are dropped.
    fn dropping(&self, keys: &Popularity, room: f64) -> (f64, f64, f64) {
        let age = room / (1.0 + self.pace);
        // A key is put, and copied with probability `share` each time that it was not put again.
        let copies = |share: f64| {
            let of = |group: &Group| {
                let stays = share * (-group.rate * age).exp();
                group.probability * stays / (1.0 - stays)
            };
            keys.sum(of)
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let share = 0.5 * (low + high);
            if copies(share) < self.pace { low = share } else { high = share }
        }
        let found = |group: &Group| {
            let stays = (-group.rate * age).exp();
            group.probability * (1.0 - stays) / (1.0 - low * stays)
        };
        (copies(low), keys.sum(found), 1.0 - low)
    }
}

/// Three points, inside 0 to 1, that have a mean and a variance, and their shares.
fn spread(mean: f64, variance: f64) -> [(f64, f64); 3] {
    let away = (3.0 * variance).sqrt().min(0.5 * mean).min(0.5 * (1.0 - mean));
    let side = if away > 0.0 { (0.5 * variance / (away * away)).min(0.5) } else { 0.0 };
    [(mean, 1.0 - 2.0 * side), (mean + away, side), (mean - away, side)]
}

/// The age, near `around`, at which slots of these groups have a share `left` of their entries: by
/// Newton's method over its logarithm.
fn age_of(groups: &[Group], shares: &[f64], left: f64, around: f64) -> f64 {
    let mut age = around;
    for _ in 0..STEPS {
        let (mut here, mut slope) = (0.0, 0.0);
        for (group, share) in groups.iter().zip(shares) {
            let stays = share * (-group.rate * age).exp();
            here += stays;
            slope += stays * group.rate * age;
        }
        // No step is long: the function is nearly flat far out.
        let step = (here - left) / slope;
        age *= step.clamp(-1.0, 1.0).exp();
    }
    age
}
