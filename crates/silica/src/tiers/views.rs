//! Scans, updates and administration of two tiers.

use super::{Copied, Tiers};
use silica_engine::{
    Admin, Atomic, Checkpoint, Count, Durability, Engine, EngineExt, EntryRef, GetSink, Intent, Op,
    Result, Scan, Update,
};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Cursors from here on are of the front, which comes last.
const FRONT: u64 = 1 << 62;
/// A cursor's lower bits are a place in one of the tiers, those above the scan's number.
const PLACE_BITS: u32 = 34;
/// Lowest bits of a place among all hashes that a cursor leaves out: a bucket behind is far wider.
const LEFT_OUT_BITS: u32 = 62 - PLACE_BITS;
/// Bits of a scan's number.
pub(super) const SCAN_BITS: u32 = 62 - PLACE_BITS;
/// Entries of the front that are sought behind together.
const BURST: usize = 256;

/// Where a scan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    is_in_front: bool,
    /// The scan's number; 0 if it is not told, or one of another process.
    scan: u64,
    /// The cursor of the tier.
    at: u64,
}

impl Place {
    fn cursor(self) -> u64 {
        let scan = (self.scan & ((1 << SCAN_BITS) - 1)) << PLACE_BITS;
        match self.is_in_front {
            true => FRONT | scan | self.at,
            // Rounded up, this is in the same bucket behind, or at the end.
            false => scan | self.at.div_ceil(1 << LEFT_OUT_BITS).min((1 << PLACE_BITS) - 1),
        }
    }

    /// The place of a cursor of a process whose scans have numbers over `first` up to `last`. A
    /// cursor that another process gave passes for one of these by a chance of one to 2^28 for
    /// each.
    fn of(cursor: u64, (first, last): (u64, u64)) -> Self {
        let is_in_front = cursor >= FRONT;
        let place = cursor & ((1 << PLACE_BITS) - 1);
        let low = cursor >> PLACE_BITS & ((1 << SCAN_BITS) - 1);
        // The youngest that has these bits.
        let number = last - (last.wrapping_sub(low) & ((1 << SCAN_BITS) - 1));
        let scan = if low > 0 && number > first { number } else { 0 };
        let at = if is_in_front { place } else { place << LEFT_OUT_BITS };
        Place { is_in_front, scan, at }
    }
}

/// What is in both tiers is visited twice only if keys of its stripe were put meanwhile.
impl<F: Engine, B: Engine> Scan for Tiers<F, B> {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        let mut place = match cursor {
            0 => Place { is_in_front: false, scan: self.begin_scan(), at: 0 },
            _ => Place::of(cursor, (self.first_scan, self.scans.load(Ordering::Acquire))),
        };
        let mut visited = 0;
        if !place.is_in_front {
            let back = self.back.as_scan().expect("the cache on flash has this view");
            let next = back.scan(place.at, limit, &mut |key, entry| {
                visited += 1;
                visit(key, entry);
            })?;
            if let Some(at) = next {
                return Ok(Some(Place { at, ..place }.cursor()));
            }
            place = Place { is_in_front: true, at: 0, ..place };
            if visited >= limit {
                return Ok(Some(place.cursor()));
            }
        }
        let at = self.scan_front(place, limit - visited, visit)?;
        Ok(at.map(|at| Place { at, ..place }.cursor()))
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        let is_in_front = self.front.get_with(key, |found| found.is_some()).unwrap_or(false);
        let view = |engine: &dyn Engine| engine.as_scan().map_or(0, |scan| scan.cursor_of(key));
        // Rounded down, the last place of a bucket behind stays in it.
        let down = |at: u64| at >> LEFT_OUT_BITS << LEFT_OUT_BITS;
        let at = if is_in_front { view(&*self.front) } else { down(view(&*self.back)) };
        Place { is_in_front, scan: 0, at }.cursor()
    }
}

impl<F: Engine, B: Engine> Tiers<F, B> {
    /// The number of a scan that begins.
    fn begin_scan(&self) -> u64 {
        loop {
            let scan = self.scans.fetch_add(1, Ordering::AcqRel) + 1;
            // A cursor with these bits says nothing.
            if scan & ((1 << SCAN_BITS) - 1) != 0 {
                return scan;
            }
        }
    }

    /// Visits entries of the front but for those that the scan has met behind. Costs a get behind
    /// for each entry.
    fn scan_front(
        &self,
        place: Place,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        let front = self.front.as_scan().expect("the cache in memory has this view");
        if place.scan == 0 {
            return front.scan(place.at, limit, visit);
        }
        let (mut next, mut visited) = (Some(place.at), 0);
        while let Some(at) = next
            && visited < limit.max(1)
        {
            let burst = (limit.max(1) - visited).min(BURST);
            // Keys first, and values in a second go: those of a burst may be large.
            let mut keys: Vec<Vec<u8>> = Vec::new();
            front.scan(at, burst, &mut |key, _| keys.push(key.to_vec()))?;
            let met = self.met_behind(&keys, place.scan)?;
            next = front.scan(at, burst, &mut |key, entry| {
                if !met.contains(key) {
                    visit(key, entry);
                }
            })?;
            visited += keys.len();
        }
        Ok(next)
    }

    /// Those of `keys` that scan number `scan` has met behind.
    fn met_behind<'k>(&self, keys: &'k [Vec<u8>], scan: u64) -> Result<BTreeSet<&'k [u8]>> {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut there = There(vec![false; keys.len()]);
        self.back.get_many_with(&keys, Intent::Scan, &mut there)?;
        // Looked at last: who puts a key behind marks its stripe before.
        let has_come = |key: &[u8]| {
            self.stripes[self.stripe_of(key)].came_behind.load(Ordering::Acquire) >= scan
        };
        let pairs = keys.into_iter().zip(there.0);
        Ok(pairs
            .filter(|(key, is_there)| *is_there && !has_come(key))
            .map(|(key, _)| key)
            .collect())
    }
}

/// Which keys of a burst are there.
struct There(Vec<bool>);

impl GetSink for There {
    fn found(&mut self, index: usize, _: EntryRef<'_>) {
        self.0[index] = true;
    }
}

/// The entries of a burst, by place.
struct Entries(Vec<Option<Copied>>);

impl GetSink for Entries {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0[index] = Some(Copied::new(index, entry));
    }
}

impl<F: Engine, B: Engine> Tiers<F, B> {
    fn update_keys(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        loop {
            let versions: Vec<u64> = keys.iter().map(|key| self.version_of(key)).collect();
            let mut entries = Entries(keys.iter().map(|_| None).collect());
            self.read(keys, Intent::Foreground, &mut entries)?;
            let seen: Vec<_> =
                entries.0.iter().map(|entry| entry.as_ref().map(Copied::entry)).collect();
            let updates = decide(&seen);
            let ops: Vec<Op<'_>> = keys
                .iter()
                .zip(&updates)
                .filter_map(|(key, update)| Some(Op { key, kind: update.kind()? }))
                .collect();
            let changing = self.begin(keys.iter().copied());
            // The caller's own turn has made each version odd.
            let mut pairs = keys.iter().zip(&versions);
            if pairs.all(|(key, version)| version & 1 == 0 && self.version_of(key) == version + 1) {
                return self.write_changing(&ops, durability);
            }
            drop(changing);
        }
    }
}

impl<F: Engine, B: Engine> Atomic for Tiers<F, B> {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.update_keys(&[key], durability, &mut |entries| vec![decide(entries[0])])
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        self.update_keys(keys, durability, decide)
    }
}

impl<F: Engine, B: Engine> Tiers<F, B> {
    pub(super) fn admins(&self) -> (&dyn Admin, &dyn Admin) {
        let front = self.front.as_admin().expect("the cache in memory has this view");
        (front, self.back.as_admin().expect("the cache on flash has this view"))
    }
}

impl<F: Engine, B: Engine> Admin for Tiers<F, B> {
    fn count(&self, exact: bool) -> Result<Count> {
        if exact {
            let mut entries = self.admins().1.count(true)?.estimate;
            let front = self.front.as_scan().expect("the cache in memory has this view");
            let mut cursor = Some(0);
            while let Some(at) = cursor {
                let mut keys: Vec<Vec<u8>> = Vec::new();
                cursor = front.scan(at, 1024, &mut |key, _| keys.push(key.to_vec()))?;
                for key in keys {
                    entries += u64::from(self.back.get_with(&key, |found| found.is_none())?);
                }
            }
            return Ok(Count { low: entries, estimate: entries, high: entries });
        }
        let (front, back) = self.admins();
        let (front, back) = (front.estimate()?, back.estimate()?);
        let (low, high) = (front.low.max(back.low), front.high + back.high);
        let front_only = (front.estimate as f64 * self.front_only()?).round() as u64;
        Ok(Count { low, estimate: (back.estimate + front_only).clamp(low, high), high })
    }

    fn clear(&self) -> Result<()> {
        let _changing = self.begin_all();
        let (front, back) = self.admins();
        front.clear()?;
        back.clear()
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        self.admins().1.checkpoint(target)
    }

    fn close(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.admins().1.close(progress)
    }

    fn save(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
        self.admins().1.save(progress)
    }

    fn inspect(&self) -> Result<String> {
        let (front, back) = self.admins();
        Ok(format!("in memory:\n{}on flash:\n{}", front.inspect()?, back.inspect()?))
    }
}
