//! Caches: what an engine may forget, and that it counts it.
//!
//! Whenever the metric `evictions` has grown, the model forgets the keys that the engine no longer
//! has: at most as many as the metric says. Everything else stays as strict as it is for engines
//! that forget nothing, so a key that comes back, or an old value of it, is found.

use super::harness::Harness;
use super::session::{Outcome, Session, Stop, ensure};
use super::workload::{Change, Step};
use silica_engine::{Engine, EntryRef, GetSink, MetricsMap};

/// Entries dropped and forgotten so far.
#[derive(Debug, Default)]
pub(super) struct Forgetting {
    evictions_seen: u64,
    forgotten: u64,
}

/// The keys of a burst that are there.
struct Present<'a>(&'a mut [bool]);

impl GetSink for Present<'_> {
    fn found(&mut self, index: usize, _entry: EntryRef<'_>) {
        self.0[index] = true;
    }
}

impl<H: Harness> Session<'_, H> {
    fn evictions(&self) -> u64 {
        let mut metrics = MetricsMap::default();
        self.engine().metrics(&mut metrics);
        metrics.get("evictions") as u64
    }

    /// Performs `step`. Where the engine forgot something meanwhile, the model does, too; a get
    /// that differs because of that is made again.
    pub(super) fn step(&mut self, step: &Step) -> Outcome {
        let outcome = self.perform(step);
        if !self.may_evict() {
            return outcome;
        }
        let has_evicted = self.evictions() > self.forgetting.evictions_seen;
        self.forget()?;
        match outcome {
            Err(Stop::Wrong(_)) if has_evicted && matches!(step, Step::Get(_)) => self.step(step),
            outcome => outcome,
        }
    }

    /// Takes the keys that the engine has dropped out of the model.
    pub(super) fn forget(&mut self) -> Outcome {
        while self.may_evict() && self.evictions() > self.forgetting.evictions_seen {
            self.forgetting.evictions_seen = self.evictions();
            let keys = self.keys.all();
            let mut present = vec![false; keys.len()];
            self.engine().get_many(&keys, &mut Present(&mut present))?;
            let is_gone = |key: &u32| {
                let key = *key as usize;
                self.model[key].is_some() && !present[key]
            };
            let gone: Vec<Change> =
                (0..self.keys.count()).filter(is_gone).map(|key| (key, None)).collect();
            self.forgetting.forgotten += gone.len() as u64;
            self.wrote(&gone);
            // Looking may have evicted something in its turn.
            let (forgotten, evictions) = (self.forgetting.forgotten, self.evictions());
            ensure(forgotten <= evictions, || {
                format!("{forgotten} keys are forgotten, the engine counts {evictions} evictions")
            })?;
        }
        Ok(())
    }
}
