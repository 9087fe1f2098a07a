//! What is whole of a damaged tree is read: leaves by their links, and if a link or a leaf is
//! damaged, by a search of the region for the leaf that comes next.

use super::buffers::Buffered;
use super::entry::Torn;
use super::layout::{ENTRIES_MAX, LEAF_ALIGNMENT, Slot};
use super::leaf::{Leaf, Value, bits, is_possible};
use super::log::{Found, Key, Log, Marks, Record};
use super::open::NAME;
use super::root;
use crate::saved::{Saved, Sink};
use crate::space::{Kind, PAGE_BYTES, Space};
use silica_base::{HashSeed, Result};
use silica_device::region::{Region, Regions};
use silica_engine::EntryRef;
use std::collections::BTreeMap;

/// Reads every entry that can be believed by its own checksum or by that of its leaf.
///
/// # Errors
/// `Corruption` if the header does not say which store it is; those of `sink`.
pub(crate) fn salvage<P: Regions>(place: &P, sink: Sink<'_>) -> Result<Saved> {
    let space = Space::salvage_on(place, NAME, Kind::SpTree)?;
    let mut salvage = Salvage::new(&space);
    let leaves = salvage.find_leaves();
    let records = salvage.records(&leaves);
    for at in leaves {
        salvage.leaf(at, sink)?;
        if let Some(places) = records.get(&at) {
            salvage.buffer(at, places, sink)?;
        }
    }
    salvage.saved.tell();
    Ok(salvage.saved)
}

/// Places of a leaf's write buffer.
type Places = BTreeMap<u8, Buffered>;

struct Salvage<'s, R> {
    space: &'s Space<R>,
    seed: Option<HashSeed>,
    first: Option<u64>,
    /// Leaves of the whole region by their lowest keys, those that are free included; made when
    /// the first link is found damaged.
    candidates: Option<BTreeMap<Vec<u8>, u64>>,
    saved: Saved,
}

impl<'s, R: Region> Salvage<'s, R> {
    fn new(space: &'s Space<R>) -> Self {
        let mut saved = Saved::default();
        let (seed, first) = match root::read(space) {
            Ok(root) => (Some(root.seed), Some(root.first_leaf)),
            Err(error) => {
                saved.lose_unknown(error.to_string());
                (None, None)
            }
        };
        Salvage { space, seed, first, candidates: None, saved }
    }

    /// The leaf at `at`, with its lowest key, if it can be one.
    fn sound(&self, at: u64) -> Option<(Leaf<'s, R>, Vec<u8>)> {
        let leaf = is_possible(self.space.region(), at).then(|| Leaf::new(self.space, at))?;
        let (low, _) = leaf.low().ok()?;
        Some((leaf, low))
    }

    /// All leaves in the order of their keys, as far as they can be found.
    fn find_leaves(&mut self) -> Vec<u64> {
        let (mut found, mut last): (Vec<u64>, Option<Vec<u8>>) = (Vec::new(), None);
        let mut next = Some(self.first.ok_or(()));
        while let Some(named) = next {
            let is_next = |low: &Vec<u8>| last.as_ref().map_or(low.is_empty(), |last| *last < *low);
            let named = named.ok().and_then(|at| self.sound(at)).filter(|(_, low)| is_next(low));
            let Some((leaf, low)) = named.or_else(|| self.search(last.as_deref())) else { break };
            found.push(leaf.at);
            last = Some(low);
            next = match leaf.next() {
                Ok(next) => next.map(Ok),
                Err(Torn { .. }) => Some(Err(())),
            };
        }
        found
    }

    /// The leaf with the lowest key above `last` in the whole region, by its header.
    fn search(&mut self, last: Option<&[u8]>) -> Option<(Leaf<'s, R>, Vec<u8>)> {
        if self.candidates.is_none() {
            self.saved.may_be_older = true;
            self.saved.lose_unknown(
                "links of leaves are damaged: leaves were searched for, and one of before may be \
                 among them"
                    .into(),
            );
            let first = super::super::space::ROOT + PAGE_BYTES;
            let all = (first..self.space.region().len()).step_by(LEAF_ALIGNMENT as usize);
            let all = all.filter_map(|at| Some((self.sound(at)?.1, at)));
            self.candidates = Some(silica_base::compact_map(all));
        }
        let candidates = self.candidates.as_ref()?;
        let from = last
            .map_or(std::ops::Bound::Unbounded, |last| std::ops::Bound::Excluded(last.to_vec()));
        let (_, at) = candidates.range((from, std::ops::Bound::Unbounded)).next()?;
        self.sound(*at)
    }

    /// What the log says of these leaves, as far as its records follow one another.
    fn records(&mut self, leaves: &[u64]) -> BTreeMap<u64, Places> {
        let mut all = BTreeMap::new();
        let marks: Vec<u32> = leaves.iter().map(|at| Leaf::new(self.space, *at).mark()).collect();
        let (log, mut records) = match Log::open(self.space, 0, Marks::Of(&marks)) {
            Ok(Found { log, records }) => (log, records),
            Err(error) => {
                self.saved.lose_unknown(error.to_string());
                return all;
            }
        };
        if !records.is_empty() {
            self.saved.lose_unknown(
                "the last records of a leaf in the log, if they are lost, leave no trace".into(),
            );
        }
        records.sort_unstable();
        let of_leaf = silica_base::compact_map(leaves.iter().copied().zip(marks));
        for own in records.chunk_by(|one, next| one.leaf() == next.leaf()) {
            let (at, mark) = own[0].leaf();
            if of_leaf.get(&at) != Some(&mark) {
                continue;
            }
            let is_next = |(number, key): &(usize, &Key)| usize::from(key.ordinal()) == *number;
            let whole = own.iter().enumerate().take_while(is_next).count();
            if whole < own.len() {
                self.saved.lost += (own.len() - whole) as u64 + 1;
            }
            let mut places = Places::new();
            for key in &own[..whole] {
                let Record { place, slot, is_deleted, is_in_leaf, .. } =
                    log.record(self.space.region(), *key);
                match is_deleted && !is_in_leaf {
                    true => drop(places.remove(&place)),
                    false => drop(places.insert(place, Buffered { slot, is_deleted, is_in_leaf })),
                }
            }
            all.insert(at, places);
        }
        all
    }

    /// Of a leaf that does not match its sum, entries beside are believed by their own checksums.
    fn leaf(&mut self, at: u64, sink: Sink<'_>) -> Result<()> {
        let leaf = Leaf::new(self.space, at);
        let bitmap = leaf.bitmap();
        let difference = leaf.sum(bitmap) ^ leaf.known_sum();
        let is_whole = difference == 0 || leaf.is_explained(bitmap, difference);
        let mut saved = 0;
        for number in bits(bitmap) {
            let slot = leaf.slot(number);
            let is_believed = is_whole || slot.beside_at().is_some();
            let is_saved = is_believed && self.entry(&leaf, number, &slot, sink)?;
            saved += u64::from(is_saved);
            self.saved.lost += u64::from(is_whole && !is_saved);
        }
        if !is_whole {
            // What it had is not known: as much as it has room for.
            self.saved.damaged_pieces += 1;
            self.saved.lost += (ENTRIES_MAX as u64).saturating_sub(saved);
        }
        Ok(())
    }

    /// Hands over the entry of a slot if it is whole.
    fn entry(&self, leaf: &Leaf<'_, R>, at: usize, slot: &Slot, sink: Sink<'_>) -> Result<bool> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let read = leaf.read_key(at, slot, &mut key);
        let read = read.and_then(|()| leaf.read_value(at, slot, &mut value, usize::MAX));
        let Ok(Value::Read(meta, start)) = read else { return Ok(false) };
        if self.seed.is_some_and(|seed| !slot.fits(seed.low(&key))) {
            return Ok(false);
        }
        let (expires_unix_ms, user_bits) = (meta.expires_unix_ms, meta.user_bits);
        sink(&key, Some(EntryRef { value: &value[start..], expires_unix_ms, user_bits }))?;
        Ok(true)
    }

    fn buffer(&mut self, at: u64, places: &Places, sink: Sink<'_>) -> Result<()> {
        let leaf = Leaf::new(self.space, at);
        for place in places.values() {
            if !place.is_deleted {
                let is_saved = self.entry(&leaf, 0, &place.slot, sink)?;
                self.saved.lost += u64::from(!is_saved);
                continue;
            }
            let mut key = Vec::new();
            if leaf.read_key(0, &place.slot, &mut key).is_ok() {
                sink(&key, None)?;
            }
        }
        Ok(())
    }
}
