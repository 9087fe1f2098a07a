//! What may be in a store after a power cut.

use super::harness::CrashOrder;
use super::session::{Model, Outcome, Stop, apply};
use super::workload::{Change, Keys, Value, describe};
use silica_engine::{Durability, Engine, EntryRef, GetSink};

/// Everything written since the last moment at which all writes were durable.
#[derive(Debug, Clone)]
pub(super) struct History {
    base: Model,
    pending: Vec<Pending>,
    order: CrashOrder,
}

#[derive(Debug, Clone)]
struct Pending {
    changes: Vec<Change>,
    /// Acknowledged as synced, so it must be there.
    required: bool,
}

impl History {
    pub(super) fn new(base: Model, order: CrashOrder) -> Self {
        History { base, pending: Vec::new(), order }
    }

    /// A write was acknowledged.
    pub(super) fn wrote(&mut self, changes: Vec<Change>, durability: Durability) {
        let required = durability == Durability::Synced;
        self.pending.push(Pending { changes, required });
        if required && self.order == CrashOrder::Whole {
            self.synced();
        }
    }

    /// A write was cut short: it may have happened or not.
    pub(super) fn attempted(&mut self, changes: Vec<Change>) {
        self.pending.push(Pending { changes, required: false });
    }

    /// Everything acknowledged is durable.
    pub(super) fn synced(&mut self) {
        for pending in self.pending.drain(..) {
            apply(&mut self.base, &pending.changes);
        }
    }

    /// Finds the allowed state that the store is in and goes on from it.
    pub(super) fn settle(&mut self, observed: &Observed) -> Outcome<Model> {
        let state = match self.order {
            CrashOrder::Whole => self.settle_whole(observed),
            CrashOrder::PerKey => self.settle_per_key(observed),
        };
        let Some(state) = state else { return Err(Stop::Wrong(self.explain(observed))) };
        self.base.clone_from(&state);
        self.pending.clear();
        Ok(state)
    }

    /// The state after a prefix of the pending writes, required ones included.
    fn settle_whole(&self, observed: &Observed) -> Option<Model> {
        let required = self.pending.iter().rposition(|p| p.required).map_or(0, |at| at + 1);
        let mut state = self.base.clone();
        let mut scratch = Vec::new();
        let mut right: Vec<bool> = (0..state.len())
            .map(|key| observed.is(key, state[key].as_ref(), &mut scratch))
            .collect();
        let mut wrong = right.iter().filter(|right| !**right).count();
        for (index, pending) in self.pending.iter().enumerate() {
            if wrong == 0 && index >= required {
                return Some(state);
            }
            apply(&mut state, &pending.changes);
            for (key, _) in &pending.changes {
                let key = *key as usize;
                wrong += usize::from(right[key]);
                right[key] = observed.is(key, state[key].as_ref(), &mut scratch);
                wrong -= usize::from(right[key]);
            }
        }
        (wrong == 0).then_some(state)
    }

    /// Each key in the state after some prefix of the writes to it, and no batch in halves.
    fn settle_per_key(&self, observed: &Observed) -> Option<Model> {
        let matches: Vec<Vec<usize>> =
            (0..self.base.len()).map(|key| self.matching(key, observed)).collect();
        if matches.iter().any(Vec::is_empty) {
            return None;
        }
        for (index, pending) in self.pending.iter().enumerate() {
            let seen = |key: u32| matches[key as usize].as_slice();
            let kept = pending.changes.iter().any(|c| seen(c.0) == [index + 1]);
            let lost = pending.changes.iter().any(|c| seen(c.0).iter().all(|at| *at <= index));
            if kept && lost {
                return None;
            }
        }
        let state = |(key, at): (usize, &Vec<usize>)| self.version(key, at[at.len() - 1]);
        Some(matches.iter().enumerate().map(state).collect())
    }

    /// The versions of `key` that it may have and that it has: 0 is the base, `n` what the
    /// pending write `n - 1` left.
    fn matching(&self, key: usize, observed: &Observed) -> Vec<usize> {
        let mut scratch = Vec::new();
        let writes = |p: &&Pending| p.changes.iter().any(|c| c.0 as usize == key);
        let first = self.pending.iter().rposition(|p| p.required && writes(&p));
        let mut found = Vec::new();
        for version in first.map_or(0, |at| at + 1)..=self.pending.len() {
            let written = version == 0 || writes(&&self.pending[version - 1]);
            let value = self.version(key, version);
            if written && observed.is(key, value.as_ref(), &mut scratch) {
                found.push(version);
            }
        }
        found
    }

    fn version(&self, key: usize, version: usize) -> Option<Value> {
        let changes = self.pending[..version].iter().rev().flat_map(|p| p.changes.iter().rev());
        let last = changes.into_iter().find(|c| c.0 as usize == key);
        last.map_or(self.base[key], |c| c.1)
    }

    /// Says what is wrong with an impossible state.
    fn explain(&self, observed: &Observed) -> String {
        let mut scratch = Vec::new();
        for key in 0..self.base.len() {
            if self.matching(key, observed).is_empty() {
                let found = describe(observed.entry(key).as_ref());
                let (base, last) = (self.base[key], self.version(key, self.pending.len()));
                return format!(
                    "key {key} lost a synced write or has one that never was: found {found}, \
                     durable {base:?}, last written {last:?}"
                );
            }
        }
        let pending: Vec<_> = self.pending.iter().map(|p| &p.changes).collect();
        let differing: Vec<_> = (0..self.base.len())
            .filter(|key| !observed.is(*key, self.base[*key].as_ref(), &mut scratch))
            .map(|key| (key, describe(observed.entry(key).as_ref())))
            .collect();
        format!(
            "writes survived out of order or in halves: pending {pending:?}, found other than \
             durable: {differing:?}"
        )
    }
}

/// What a store contains, as read key by key.
#[derive(Debug, Default)]
pub(super) struct Observed {
    bytes: Vec<u8>,
    entries: Vec<Option<Found>>,
}

#[derive(Debug, Clone, Copy)]
struct Found {
    start: usize,
    end: usize,
    expires_unix_ms: u64,
    user_bits: u32,
}

impl Observed {
    /// Gets every key as one burst.
    pub(super) fn read(engine: &impl Engine, keys: &Keys) -> silica_engine::Result<Self> {
        let mut observed =
            Observed { bytes: Vec::new(), entries: vec![None; keys.count() as usize] };
        engine.get_many(&keys.all(), &mut observed)?;
        Ok(observed)
    }

    fn entry(&self, key: usize) -> Option<EntryRef<'_>> {
        let Found { start, end, expires_unix_ms, user_bits } = self.entries[key]?;
        Some(EntryRef { value: &self.bytes[start..end], expires_unix_ms, user_bits })
    }

    fn is(&self, key: usize, value: Option<&Value>, scratch: &mut Vec<u8>) -> bool {
        match (self.entry(key), value) {
            (None, None) => true,
            (Some(entry), Some(value)) => value.is(&entry, scratch),
            _ => false,
        }
    }
}

impl GetSink for Observed {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(entry.value);
        let EntryRef { expires_unix_ms, user_bits, .. } = entry;
        let end = self.bytes.len();
        self.entries[index] = Some(Found { start, end, expires_unix_ms, user_bits });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u32 = 4;

    fn value(key: u32, stamp: u64) -> Value {
        Value { key, stamp, len: 20, meta: false }
    }

    /// A store in which the writes numbered `kept` survived.
    fn observed(writes: &[Vec<Change>], kept: &[usize]) -> Observed {
        let mut model: Model = vec![None; KEYS as usize];
        kept.iter().for_each(|n| apply(&mut model, &writes[*n]));
        let mut observed = Observed { bytes: Vec::new(), entries: vec![None; KEYS as usize] };
        for (key, value) in model.iter().enumerate() {
            if let Some(value) = value {
                observed.found(key, value.entry(&value.bytes()));
            }
        }
        observed
    }

    fn is_allowed(order: CrashOrder, synced: Option<usize>, kept: &[usize]) -> bool {
        let put = |key, stamp| (key, Some(value(key, stamp)));
        let writes = [
            vec![put(0, 1)],
            vec![put(1, 2), put(2, 2)],
            vec![put(0, 3)],
            vec![(1, None), put(3, 4)],
        ];
        let mut history = History::new(vec![None; KEYS as usize], order);
        for (n, changes) in writes.iter().enumerate() {
            let is_synced = synced == Some(n);
            let durability = if is_synced { Durability::Synced } else { Durability::Buffered };
            history.wrote(changes.clone(), durability);
        }
        history.settle(&observed(&writes, kept)).is_ok()
    }

    #[test]
    fn whole_order_allows_prefixes_only() {
        let allowed = |synced, kept: &[usize]| is_allowed(CrashOrder::Whole, synced, kept);
        for len in 0..=4 {
            let kept: Vec<usize> = (0..len).collect();
            assert!(allowed(None, &kept), "a prefix of {len}");
            assert_eq!(allowed(Some(1), &kept), len >= 2, "with the second synced, {len}");
        }
        assert!(!allowed(None, &[1]), "the first lost, the second kept");
        assert!(!allowed(None, &[0, 1, 3]), "one lost in between");
    }

    #[test]
    fn order_per_key_allows_gaps_but_no_halves() {
        let allowed = |synced, kept: &[usize]| is_allowed(CrashOrder::PerKey, synced, kept);
        assert!(allowed(None, &[1]) && allowed(None, &[0, 1, 3]) && allowed(Some(1), &[1]));
        assert!(!allowed(Some(1), &[0]), "a synced write is lost");
        let half = vec![vec![(1, Some(value(1, 2)))]];
        let mut history = History::new(vec![None; KEYS as usize], CrashOrder::PerKey);
        let both = vec![(1, Some(value(1, 2))), (2, Some(value(2, 2)))];
        history.wrote(both, Durability::Buffered);
        assert!(history.settle(&observed(&half, &[0])).is_err(), "half a batch");
    }
}
