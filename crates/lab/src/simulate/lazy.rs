//! Lazy levelling: runs are gathered in all levels but the last, which is one run.

use silica_base::Result;

use super::keyset::KeySet;
use super::{Memtable, Simulator, whole};
use crate::model::{LazyLevelled, Stage};

/// A level that is not the last.
#[derive(Debug, Default)]
struct Level {
    /// The run that takes in what arrives; the others only wait.
    active: KeySet,
    waiting: KeySet,
    /// Arrivals since the level was empty, and since the active run began.
    arrived: u32,
    taken: u32,
    /// Runs that are waiting.
    runs: u32,
}

/// Dostoevsky's lazy levelling with memtables and levels as [`LazyLevelled`] has them: what arrives
/// is merged into the level's active run, which is closed when its share of `growth` arrivals is
/// there; after all of them the level moves on as one run.
#[derive(Debug)]
pub struct LazySimulator {
    memtable: Memtable,
    growth: u32,
    runs: u32,
    levels: Vec<Level>,
    last: KeySet,
    /// Entries written to levels 1, 2, ….
    written: Vec<u64>,
}

impl LazySimulator {
    /// An empty store with the parameters of the model.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for what [`LazyLevelled::checked`]
    /// refuses, and a log that is not 1 to 2^32 - 1 entries.
    pub fn new(parameters: LazyLevelled) -> Result<Self> {
        let LazyLevelled { log, growth, runs, levels } = parameters.checked()?;
        Ok(LazySimulator {
            memtable: Memtable::new(whole("the log's size", log)?),
            growth,
            runs,
            levels: (1..levels).map(|_| Level::default()).collect(),
            last: KeySet::default(),
            written: vec![0; levels as usize],
        })
    }

    /// Moves a full memtable down as far as it goes.
    fn push(&mut self) {
        let Some(mut comes) = self.memtable.full() else { return };
        for (level, written) in self.levels.iter_mut().zip(&mut self.written) {
            comes.drain_all(&mut level.active);
            *written += level.active.count() as u64;
            level.arrived += 1;
            level.taken += 1;
            // The first runs take one arrival more where the shares are not even.
            let more = u32::from(level.runs < self.growth % self.runs);
            if level.taken == self.growth / self.runs + more {
                level.active.drain_all(&mut level.waiting);
                level.taken = 0;
                level.runs += 1;
            }
            if level.arrived < self.growth {
                return;
            }
            (level.arrived, level.runs) = (0, 0);
            comes = &mut level.waiting;
        }
        comes.drain_all(&mut self.last);
        if let Some(written) = self.written.last_mut() {
            *written += self.last.count() as u64;
        }
    }
}

impl Simulator for LazySimulator {
    fn put(&mut self, mut keys: &[u32]) {
        while !keys.is_empty() {
            keys = self.memtable.fill(keys);
            self.push();
        }
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        (1..).map(Stage::Level).zip(self.written.iter().copied()).collect()
    }
}
