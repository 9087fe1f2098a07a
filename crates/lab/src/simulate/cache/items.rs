//! Where the items of a cache lie.

/// No slab.
const NOWHERE: u32 = u32::MAX;
/// The smallest slot, and what slots are multiples of, in bytes.
const SLOT_BYTES_MIN: u32 = 64;
const SLOT_GRANULE_BYTES: u32 = 8;

/// How items lie in a slab.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Packing {
    /// One behind the other, whatever their sizes.
    Packed,
    /// In slots: each slab has slots of one size, and slot sizes grow by this factor from 64 bytes
    /// on (Fatcache: 1.25).
    Slots(f64),
}

#[derive(Clone, Copy, Debug)]
struct Place {
    slab: u32,
    at: u32,
}

/// A slab's items, and what of them is valid.
#[derive(Debug, Default)]
pub(super) struct Slab {
    /// Key and bytes of each item; a key whose place is another one has moved or is gone.
    entries: Vec<(u32, u32)>,
    class: usize,
    /// Bytes taken, by slots if there are such.
    used: u64,
    /// Bytes of that which are valid.
    pub(super) valid: u64,
    /// Request that last found a key here or filled the slab.
    pub(super) touched: u64,
    /// GETs that found a key here.
    pub(super) gets: u64,
}

/// All items. Slabs in memory and on flash have numbers of one pool.
#[derive(Debug)]
pub(super) struct Items {
    slab_bytes: u64,
    /// Sizes of slots, the smallest first; empty if items are packed.
    slots: Vec<u32>,
    places: Vec<Place>,
    pub(super) slabs: Vec<Slab>,
    /// Slab of each class that takes items.
    open: Vec<u32>,
    unused: Vec<u32>,
    /// Requests so far, which slabs are touched by.
    pub(super) clock: u64,
}

impl Items {
    pub(super) fn new(keys: u32, slab_bytes: u64, packing: Packing) -> Self {
        let slots = match packing {
            Packing::Packed => Vec::new(),
            Packing::Slots(factor) => slot_sizes(factor, slab_bytes),
        };
        let classes = slots.len().max(1);
        let mut items = Items {
            slab_bytes,
            slots,
            places: vec![Place { slab: NOWHERE, at: 0 }; keys as usize],
            slabs: Vec::new(),
            open: Vec::new(),
            unused: Vec::new(),
            clock: 0,
        };
        items.open = (0..classes).map(|class| items.begin(class)).collect();
        items
    }

    /// An empty slab of a class.
    fn begin(&mut self, class: usize) -> u32 {
        let slab = self.unused.pop().unwrap_or_else(|| {
            self.slabs.push(Slab::default());
            self.slabs.len() as u32 - 1
        });
        self.slabs[slab as usize].class = class;
        slab
    }

    /// Bytes that an item takes in a slab.
    fn room_of(&self, class: usize, bytes: u32) -> u64 {
        u64::from(self.slots.get(class).copied().unwrap_or(bytes))
    }

    fn class_of(&self, bytes: u32) -> usize {
        match self.slots.is_empty() {
            true => 0,
            false => self.slots.partition_point(|slot| *slot < bytes).min(self.slots.len() - 1),
        }
    }

    /// Puts an item into a slab in memory. Returns a slab that is full now and has to be written;
    /// another one takes its place.
    pub(super) fn insert(&mut self, key: u32, bytes: u32) -> Option<u32> {
        self.remove(key);
        let class = self.class_of(bytes);
        let room = self.room_of(class, bytes);
        let mut full = None;
        if self.slabs[self.open[class] as usize].used + room > self.slab_bytes {
            full = Some(self.open[class]);
            self.open[class] = self.begin(class);
        }
        let number = self.open[class];
        let slab = &mut self.slabs[number as usize];
        self.places[key as usize] = Place { slab: number, at: slab.entries.len() as u32 };
        slab.entries.push((key, bytes));
        slab.used += room;
        slab.valid += room;
        slab.touched = self.clock;
        full
    }

    /// Forgets a key, if it is there.
    pub(super) fn remove(&mut self, key: u32) {
        let Place { slab, at } = self.places[key as usize];
        if slab == NOWHERE {
            return;
        }
        self.places[key as usize].slab = NOWHERE;
        let (class, bytes) =
            (self.slabs[slab as usize].class, self.slabs[slab as usize].entries[at as usize].1);
        let room = self.room_of(class, bytes);
        self.slabs[slab as usize].valid -= room;
    }

    /// Finds a key, and notes that its slab was used.
    pub(super) fn find(&mut self, key: u32) -> bool {
        let slab = self.places[key as usize].slab;
        if slab == NOWHERE {
            return false;
        }
        let slab = &mut self.slabs[slab as usize];
        slab.touched = self.clock;
        slab.gets += 1;
        true
    }

    /// Share of a slab that is valid.
    pub(super) fn valid_share(&self, slab: u32) -> f64 {
        self.slabs[slab as usize].valid as f64 / self.slab_bytes as f64
    }

    /// Empties a slab: its valid items, which are forgotten.
    pub(super) fn take(&mut self, slab: u32) -> Vec<(u32, u32)> {
        let mut entries = std::mem::take(&mut self.slabs[slab as usize].entries);
        let mut at = 0;
        entries.retain(|(key, _)| {
            let place = &mut self.places[*key as usize];
            let is_valid = place.slab == slab && place.at == at;
            at += 1;
            if is_valid {
                place.slab = NOWHERE;
            }
            is_valid
        });
        self.slabs[slab as usize] = Slab::default();
        self.unused.push(slab);
        entries
    }

    /// Keys that are there, counted anew.
    #[cfg(test)]
    pub(super) fn keys_there(&self) -> usize {
        self.places.iter().filter(|place| place.slab != NOWHERE).count()
    }
}

/// Slot sizes up to the largest that fits a slab.
fn slot_sizes(factor: f64, slab_bytes: u64) -> Vec<u32> {
    let mut slots = Vec::new();
    let mut size = f64::from(SLOT_BYTES_MIN);
    let most = slab_bytes.min(1 << 20) as f64;
    while size < most {
        slots.push((size as u32).next_multiple_of(SLOT_GRANULE_BYTES));
        size *= factor;
    }
    slots.push(most as u32);
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    #[test]
    fn valid_bytes_and_keys_are_those_of_a_plain_map() {
        for packing in [Packing::Packed, Packing::Slots(1.25)] {
            let mut items = Items::new(300, 4096, packing);
            let mut model = std::collections::BTreeMap::new();
            let mut full = Vec::new();
            let mut prng = Prng::new(5);
            for _ in 0..20_000 {
                let (key, bytes) = (prng.below(300) as u32, 50 + prng.below(900) as u32);
                full.extend(items.insert(key, bytes));
                model.insert(key, bytes);
                if prng.one_in(9) {
                    let gone = prng.below(300) as u32;
                    items.remove(gone);
                    model.remove(&gone);
                }
                if full.len() > 60 {
                    let slab = full.swap_remove(prng.below(60) as usize);
                    let share = items.valid_share(slab);
                    assert!(share <= 1.0);
                    let taken = items.take(slab);
                    assert_eq!(taken.is_empty(), share == 0.0);
                    for (key, bytes) in taken {
                        assert_eq!(model.remove(&key), Some(bytes));
                    }
                }
                assert_eq!(items.find(key), model.contains_key(&key));
            }
            assert_eq!(items.keys_there(), model.len());
            let valid: u64 = items.slabs.iter().map(|slab| slab.valid).sum();
            let bytes: u64 = model.values().map(|bytes| u64::from(*bytes)).sum();
            match packing {
                Packing::Packed => assert_eq!(valid, bytes),
                // Slots are larger than their items, by no more than the factor and rounding.
                Packing::Slots(factor) => {
                    assert!(valid > bytes && (valid as f64) < (factor + 0.1) * bytes as f64);
                }
            }
        }
    }
}
