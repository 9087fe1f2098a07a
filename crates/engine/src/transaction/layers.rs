//! What a transaction has written as layers: those from before its first savepoint, and those
//! between each savepoint and the next one. So a savepoint is a number of layers.
//!
//! 1. A layer has the keys that were written in its time, as they were at its end. A key that a
//!    range took away again is in no layer: the range, which comes before the keys, hides it.
//! 2. What a key was at an earlier time is what the first later write has replaced.

use super::writes::{Points, Put, Undo, Write, Writes};
use crate::{StagedWrite, Staging};
use silica_base::Result;
use std::collections::{BTreeMap, BTreeSet};

/// What keys were at the end of a layer's time if that is not what they are now; `None` is not
/// written.
type Then<'w> = BTreeMap<&'w [u8], Option<&'w Write>>;

/// A layer's keys, as far as they are written at its end.
type Layer<'w> = Vec<(&'w [u8], &'w Write)>;

fn staged<'w>((key, write): (&'w [u8], &'w Write)) -> StagedWrite<'w> {
    (key, write.as_ref().map(Put::entry))
}

fn put_bytes(layer: &[(&[u8], &Write)]) -> u64 {
    let bytes = |(key, write): &(&[u8], &Write)| {
        write.as_ref().map_or(0, |put| key.len() + put.entry().value.len()) as u64
    };
    layer.iter().map(bytes).sum()
}

fn put_layer(staging: &mut dyn Staging, layer: &Layer<'_>) -> Result<()> {
    if layer.is_empty() {
        return Ok(());
    }
    staging.put(put_bytes(layer), &mut layer.iter().copied().map(staged))
}

impl Writes {
    /// See [`super::Transaction::stage`].
    pub(super) fn stage(&self, staging: &mut dyn Staging) -> Result<Vec<usize>> {
        if !self.savepoints().is_empty() {
            // Merged with what comes, the layers from before could not be told from it after an
            // error. Without savepoints only the last step may fail, which changes nothing then.
            staging.protect(staging.layers());
        }
        for (lower, upper) in self.deleted_at_first() {
            staging.delete_range(lower, upper.as_deref());
        }
        if self.savepoints().is_empty() {
            put_all(staging, self.points())?;
            return Ok(Vec::new());
        }
        let (base, layers) = self.layers();
        put_layer(staging, &base)?;
        drop(base);
        let mut places = Vec::with_capacity(layers.len());
        for (at, layer) in layers.into_iter().enumerate() {
            places.push(staging.layers());
            staging.protect(staging.layers());
            for undo in self.undos_of(at) {
                if let Undo::Deleted { lower, upper, .. } = undo {
                    staging.delete_range(lower, upper.as_deref());
                }
            }
            match layer {
                Some(layer) => put_layer(staging, &layer)?,
                None => put_all(staging, self.points())?,
            }
        }
        Ok(places)
    }

    /// What was written since savepoint `at` and before the next one has replaced.
    fn undos_of(&self, at: usize) -> &[Undo] {
        let start = self.savepoints()[at].1;
        let end = self.savepoints().get(at + 1).map_or(self.undo().len(), |(_, len)| *len);
        &self.undo()[start..end]
    }

    /// The keys from before the first savepoint, and those of each one's time. `None` is all keys:
    /// all were written since that savepoint.
    fn layers(&self) -> (Layer<'_>, Vec<Option<Layer<'_>>>) {
        let count = self.savepoints().len();
        let mut layers: Vec<Option<Layer<'_>>> = (0..count).map(|_| Some(Layer::new())).collect();
        let last = (0..count).rev().find(|at| !self.undos_of(*at).is_empty());
        let Some(last) = last else {
            return (self.points().iter().map(|(key, write)| (&**key, write)).collect(), layers);
        };
        if self.points_at_first() == 0 && self.undos_of(last).len() == self.undo().len() {
            layers[last] = None;
            return (Layer::new(), layers);
        }
        let mut then = Then::new();
        for at in (0..count).rev() {
            let undos = self.undos_of(at);
            let keys: BTreeSet<&[u8]> = undos.iter().filter_map(Undo::key).collect();
            let at_end = |key: &'_ &[u8]| match then.get(*key) {
                Some(write) => *write,
                None => self.points().get(*key),
            };
            let layer = keys.iter().filter_map(|key| Some((*key, at_end(key)?))).collect();
            for undo in undos.iter().rev() {
                if let Undo::Point(key, before) = undo {
                    then.insert(key, before.as_ref());
                }
            }
            layers[at] = Some(layer);
        }
        let untouched = self.points().iter().filter(|(key, _)| !then.contains_key(&key[..]));
        let mut base: Layer<'_> = untouched.map(|(key, write)| (&key[..], write)).collect();
        base.extend(then.iter().filter_map(|(key, write)| Some((*key, (*write)?))));
        base.sort_unstable_by_key(|(key, _)| *key);
        (base, layers)
    }
}

fn put_all(staging: &mut dyn Staging, points: &Points) -> Result<()> {
    if points.is_empty() {
        return Ok(());
    }
    let bytes = |(key, write): (&Vec<u8>, &Write)| {
        write.as_ref().map_or(0, |put| key.len() + put.entry().value.len()) as u64
    };
    let bytes = points.iter().map(bytes).sum();
    staging.put(bytes, &mut points.iter().map(|(key, write)| staged((key, write))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryRef, Snapshot};
    use silica_base::Prng;
    use std::sync::Arc;

    type State = BTreeMap<Vec<u8>, Vec<u8>>;

    enum Recorded {
        Run(Vec<(Vec<u8>, Option<Vec<u8>>)>),
        Deleted(Vec<u8>, Option<Vec<u8>>),
    }

    #[derive(Default)]
    struct Recorder(Vec<Recorded>);

    impl Recorder {
        /// What `below` is under the first `count` layers.
        fn over(&self, below: &State, count: usize) -> State {
            let mut state = below.clone();
            for layer in &self.0[..count] {
                match layer {
                    Recorded::Deleted(lower, upper) => state.retain(|key, _| {
                        key < lower || upper.as_ref().is_some_and(|upper| key >= upper)
                    }),
                    Recorded::Run(writes) => writes.iter().for_each(|(key, write)| match write {
                        Some(value) => drop(state.insert(key.clone(), value.clone())),
                        None => drop(state.remove(key)),
                    }),
                }
            }
            state
        }
    }

    impl Staging for Recorder {
        fn put<'w>(
            &mut self,
            _put_bytes: u64,
            writes: &mut dyn Iterator<Item = StagedWrite<'w>>,
        ) -> Result<()> {
            let own = |(key, entry): StagedWrite<'w>| {
                (key.to_vec(), entry.map(|entry| entry.value.to_vec()))
            };
            let run: Vec<_> = writes.map(own).collect();
            assert!(run.windows(2).all(|pair| pair[0].0 < pair[1].0), "ascending");
            self.0.push(Recorded::Run(run));
            Ok(())
        }

        fn delete_range(&mut self, lower: &[u8], upper: Option<&[u8]>) {
            self.0.push(Recorded::Deleted(lower.to_vec(), upper.map(<[u8]>::to_vec)));
        }

        fn layers(&self) -> usize {
            self.0.len()
        }

        fn protect(&mut self, _layers: usize) {}

        fn roll_back_to(&mut self, layers: usize) {
            self.0.truncate(layers);
        }

        fn over(&self, below: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
            below
        }

        fn commit(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_savepoint_is_a_number_of_layers() {
        for seed in 0..500 {
            let mut prng = Prng::new(seed);
            let below: State = (0..6).map(|n| (vec![2 * n], vec![0])).collect();
            let (mut writes, mut state) = (Writes::default(), below.clone());
            let mut savepoints: Vec<(u64, State)> = Vec::new();
            for step in 0..prng.below(30) {
                let key = vec![prng.below(12) as u8];
                match prng.below(12) {
                    0 => savepoints.push((writes.mark(), state.clone())),
                    1 if !savepoints.is_empty() => {
                        let at = prng.below(savepoints.len() as u64) as usize;
                        savepoints.truncate(at + 1);
                        writes.roll_back_to(savepoints[at].0).expect("it is there");
                        state = savepoints[at].1.clone();
                    }
                    2 if !savepoints.is_empty() => {
                        let at = prng.below(savepoints.len() as u64) as usize;
                        writes.release(savepoints[at].0).expect("it is there");
                        savepoints.truncate(at);
                    }
                    3 => {
                        let upper = vec![key[0] + prng.below(4) as u8];
                        state.retain(|other, _| *other < key || *other >= upper);
                        writes.delete_range(key, Some(upper));
                    }
                    4 | 5 => {
                        state.remove(&key);
                        writes.set(&key, None);
                    }
                    _ => {
                        state.insert(key.clone(), vec![step as u8]);
                        writes.set(&key, Some(Put::new(EntryRef::new(&[step as u8]))));
                    }
                }
            }
            let mut recorder = Recorder::default();
            let places = writes.stage(&mut recorder).expect("nothing fails");
            assert_eq!(places.len(), savepoints.len());
            for (place, (_, then)) in places.iter().zip(&savepoints) {
                assert_eq!(recorder.over(&below, *place), *then, "seed {seed}");
            }
            assert_eq!(recorder.over(&below, recorder.layers()), state, "seed {seed}");
        }
    }
}
