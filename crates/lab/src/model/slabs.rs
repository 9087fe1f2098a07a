//! Slabs on flash that are emptied in the order in which they were filled (DIDACache's garbage
//! collection): valid entries are copied, or dropped.

use silica_base::{Error, ErrorKind, Result};

use super::{Group, Popularity, Primitives};

/// A cache on flash in slabs, which are erased as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slabs {
    /// Entries that all slabs have room for, over-provisioned space included.
    pub room: f64,
}

/// Halvings after which a root is as exact as a double.
const HALVINGS: u32 = 200;

impl Slabs {
    /// Room for `keys` keys of which a share of `spare` is over-provisioned.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a share that is not inside `0 .. 1`.
    pub fn with_spare(keys: f64, spare: f64) -> Result<Self> {
        if !(spare > 0.0 && spare < 1.0) {
            let text = format!("the over-provisioned share is between 0 and 1, not {spare}");
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(Slabs { room: keys / (1.0 - spare) })
    }

    /// Requests between an entry's write and the reclaim of its slab, where valid entries are
    /// copied; `None` where the keys do not fit.
    ///
    /// A key of rate `r` is written again by a request or, `t` requests later, by the collector:
    /// once in `(1 - e^(-r t)) / r` requests. The slabs have what was written in `t` requests, so
    /// the sum over keys of `r t / (1 - e^(-r t))` is the room. For keys alike this is the usual
    /// formula by Lambert's function.
    pub fn age(&self, popularity: &Popularity) -> Option<f64> {
        if self.room <= popularity.keys() {
            return None;
        }
        let written = |t: f64| popularity.sum(|group| ratio(group, t));
        let (mut low, mut high) = (0.0, self.room);
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if written(middle) < self.room { low = middle } else { high = middle }
        }
        Some(0.5 * (low + high))
    }

    /// Entries written for each put where valid entries are copied; infinite where keys do not
    /// fit. Slabs are as large as many entries, so the one with least valid is the oldest one
    /// where keys are alike; under skew the collector that looks for it does a little better.
    pub fn write_amplification(&self, popularity: &Popularity) -> f64 {
        self.age(popularity).map_or(f64::INFINITY, |age| self.room / age)
    }

    /// Share of the entries of a reclaimed slab that are valid, where they are dropped (quick
    /// clean): then the cache has what was put in the last `room` puts, and nothing is copied.
    pub fn dropped(&self, popularity: &Popularity) -> f64 {
        popularity.sum(|group| group.probability * (-group.rate * self.room).exp())
    }

    /// Share of requests, as popular as puts, that find their key where valid entries are dropped.
    pub fn hit_rate(&self, keys: &Primitives) -> f64 {
        1.0 - self.dropped(keys.popularity())
    }
}

/// Writes of a key of `group` in `t` requests, its entries being copied `t` requests later.
fn ratio(group: &Group, t: f64) -> f64 {
    let x = group.rate * t;
    if x < 1e-12 { 1.0 } else { -group.probability * t / (-x).exp_m1() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;
    use std::collections::VecDeque;

    /// Slots in a ring: each put takes the next one; a valid entry that is met is copied behind.
    fn simulated(keys: usize, skew: f64, room: usize, copies: bool) -> f64 {
        let weights: Vec<f64> = (1..=keys).map(|i| (i as f64).powf(-skew)).collect();
        let mut sums: Vec<f64> = Vec::new();
        for weight in weights {
            sums.push(sums.last().copied().unwrap_or(0.0) + weight);
        }
        let total = *sums.last().unwrap();
        let mut random = Prng::new(7);
        let mut ring: VecDeque<(usize, u64)> = VecDeque::new();
        let mut newest = vec![0_u64; keys];
        let (mut clock, mut written, mut valid, mut reclaimed) = (0_u64, 0_u64, 0_u64, 0_u64);
        let warm = 20 * room as u64;
        for put in 0..2 * warm {
            let at = random.unit() * total;
            let key = sums.partition_point(|sum| *sum <= at).min(keys - 1);
            while ring.len() >= room {
                let (old, stamp) = ring.pop_front().unwrap();
                let is_valid = newest[old] == stamp && old != key;
                if put >= warm {
                    reclaimed += 1;
                    valid += u64::from(newest[old] == stamp);
                }
                if is_valid && copies {
                    ring.push_back((old, stamp));
                    written += u64::from(put >= warm);
                }
            }
            clock += 1;
            newest[key] = clock;
            ring.push_back((key, clock));
            written += u64::from(put >= warm);
        }
        if copies { written as f64 / warm as f64 } else { valid as f64 / reclaimed as f64 }
    }

    #[test]
    fn copies_are_those_of_a_ring_of_slots() {
        for (skew, spare) in [(0.0, 0.1), (0.0, 0.3), (0.8, 0.2), (1.1, 0.3)] {
            let keys = 2000;
            let popularity = Popularity::zipf(keys, skew).unwrap();
            let slabs = Slabs::with_spare(keys as f64, spare).unwrap();
            let model = slabs.write_amplification(&popularity);
            // 2.3 % at the highest skew: entries that are copied together stay together.
            let judge = simulated(keys as usize, skew, slabs.room as usize, true);
            assert!((model / judge - 1.0).abs() < 0.03, "{skew} {spare}: {model} {judge}");
        }
    }

    #[test]
    fn drops_are_those_of_a_ring_of_slots() {
        for (skew, room) in [(0.0, 1000.0), (0.99, 500.0), (0.99, 3000.0)] {
            let popularity = Popularity::zipf(2000, skew).unwrap();
            let model = Slabs { room }.dropped(&popularity);
            let judge = simulated(2000, skew, room as usize, false);
            assert!((model / judge - 1.0).abs() < 0.02, "{skew} {room}: {model} {judge}");
        }
    }

    #[test]
    fn keys_that_do_not_fit_are_no_number_of_writes() {
        let popularity = Popularity::uniform(100).unwrap();
        assert_eq!(Slabs { room: 100.0 }.write_amplification(&popularity), f64::INFINITY);
        assert!(Slabs::with_spare(100.0, f64::NAN).is_err());
    }
}
