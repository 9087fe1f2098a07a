//! COLA and SAMT: levels of tables that are merged by their count.

use silica_base::Result;

use super::keyset::KeySet;
use super::{Memtable, Simulator, whole};
use crate::model::{Cola, Samt, Stage};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One table a level, which is written anew with each that arrives.
    Cola,
    /// All tables that arrive are written, and merged when they move on.
    Samt,
}

/// What both have.
#[derive(Debug)]
struct Stages {
    kind: Kind,
    memtable: Memtable,
    growth: usize,
    /// The keys of levels 1, 2, …; the last level has every key.
    levels: Vec<KeySet>,
    /// Tables that each of them took in since it was empty.
    arrived: Vec<usize>,
    /// Entries written to each of them.
    written: Vec<u64>,
}

impl Stages {
    fn new(kind: Kind, log: f64, growth: u32, levels: u32) -> Result<Self> {
        let levels = levels as usize;
        Ok(Stages {
            kind,
            memtable: Memtable::new(whole("the log's size", log)?),
            growth: growth as usize,
            levels: vec![KeySet::default(); levels],
            arrived: vec![0; levels],
            written: vec![0; levels],
        })
    }

    fn put(&mut self, mut keys: &[u32]) {
        while !keys.is_empty() {
            keys = self.memtable.fill(keys);
            self.push();
        }
    }

    /// Moves a full memtable down as far as it goes.
    fn push(&mut self) {
        let Some(mut table) = self.memtable.full() else { return };
        let last = self.levels.len() - 1;
        for (level, there) in self.levels.iter_mut().enumerate() {
            let comes = table.count();
            table.drain_all(there);
            self.arrived[level] += 1;
            let full = self.arrived[level] == self.growth;
            self.written[level] += match self.kind {
                _ if level == last => there.count(),
                Kind::Samt => comes,
                Kind::Cola if full => 0,
                Kind::Cola => there.count(),
            } as u64;
            if !full {
                return;
            }
            self.arrived[level] = 0;
            table = there;
        }
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        (1..).map(Stage::Level).zip(self.written.iter().copied()).collect()
    }
}

/// COLA: one table a level. It takes `growth - 1` merges; the next goes on to the next level with
/// all that is there.
#[derive(Debug)]
pub struct ColaSimulator(Stages);

impl ColaSimulator {
    /// An empty store with the parameters of the model.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for a log that is not 1 to 2^32 - 1
    /// entries, a growth under 2, or no level.
    pub fn new(parameters: Cola) -> Result<Self> {
        let Cola { log, growth, levels } = parameters.checked()?;
        Ok(ColaSimulator(Stages::new(Kind::Cola, log, growth, levels)?))
    }
}

impl Simulator for ColaSimulator {
    fn put(&mut self, keys: &[u32]) {
        self.0.put(keys);
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        self.0.written()
    }
}

/// SAMT: `growth` tables a level are merged into one of the next.
#[derive(Debug)]
pub struct SamtSimulator(Stages);

impl SamtSimulator {
    /// An empty store with the parameters of the model.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for a log that is not 1 to 2^32 - 1
    /// entries, a growth under 2, or no level.
    pub fn new(parameters: Samt) -> Result<Self> {
        let Samt { log, growth, levels } = parameters.checked()?;
        Ok(SamtSimulator(Stages::new(Kind::Samt, log, growth, levels)?))
    }
}

impl Simulator for SamtSimulator {
    fn put(&mut self, keys: &[u32]) {
        self.0.put(keys);
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        self.0.written()
    }
}
