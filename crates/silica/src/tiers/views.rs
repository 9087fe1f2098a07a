//! Scans, updates and administration of two tiers.

use super::{Copied, Tiers};
use silica_engine::{
    Admin, Atomic, Checkpoint, Count, Durability, Engine, EngineExt, EntryRef, GetSink, Intent, Op,
    Result, Scan, Update,
};
use std::collections::BTreeSet;

/// Cursors from here on are of the front, which comes last.
const FRONT: u64 = 1 << 62;
/// Keys that one call remembers at most, not to show them twice.
const REMEMBERED_MAX: usize = 1 << 20;

/// What is in both tiers is visited twice, unless one call goes through both from the start:
/// whether an earlier call has shown it nobody knows, because it may have come to the other tier
/// since.
impl<F: Engine, B: Engine> Scan for Tiers<F, B> {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        let (mut shown, mut visited) = (BTreeSet::new(), 0);
        if cursor < FRONT {
            let remembers = cursor == 0;
            let back = self.back.as_scan().expect("the cache on flash has this view");
            let next = back.scan(cursor, limit, &mut |key, entry| {
                visited += 1;
                if remembers && shown.len() < REMEMBERED_MAX {
                    shown.insert(self.seed.low(key));
                }
                visit(key, entry);
            })?;
            if next.is_some() || visited >= limit {
                return Ok(Some(next.unwrap_or(FRONT)));
            }
        }
        let front = self.front.as_scan().expect("the cache in memory has this view");
        let next =
            front.scan(cursor.saturating_sub(FRONT), limit - visited, &mut |key, entry| {
                if !shown.contains(&self.seed.low(key)) {
                    visit(key, entry);
                }
            })?;
        Ok(next.map(|next| FRONT + next))
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        let is_in_front = self.front.get_with(key, |found| found.is_some()).unwrap_or(false);
        let view = |engine: &dyn Engine| engine.as_scan().map_or(0, |scan| scan.cursor_of(key));
        if is_in_front { FRONT + view(&*self.front) } else { view(&*self.back) }
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
    fn admins(&self) -> (&dyn Admin, &dyn Admin) {
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
        // Nobody knows how many are in both.
        Ok(Count {
            low: front.low.max(back.low),
            estimate: front.estimate.max(back.estimate),
            high: front.high + back.high,
        })
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
