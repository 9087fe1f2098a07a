//! The workloads of which each is configured by the models and by a search.

use silica::tune::recommend::{Needs, describe};
use silica::tune::{Access, Workload};
use silica::{Durability, Result};
use silica_bench::{Distribution, Plan};

/// Keys of a full run, for which the memory of the cases is declared.
pub(super) const KEYS: f64 = 500_000.0;
/// Workloads that the models were judged by before there were more.
pub(super) const OLD: usize = 20;

/// A workload of the instrument, and what it is in words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    workload: &'static str,
    distribution: &'static str,
    value_bytes: usize,
    threads: usize,
    batch: usize,
    /// Memory where there are [`KEYS`]; in proportion where there are others.
    memory_mib: u64,
    /// Of the keys that were asked for, in percent.
    keys_percent: u64,
    synced: bool,
    /// Its directory is in memory that outlives the process.
    pub(super) in_memory: bool,
    words: &'static str,
}

const fn case(
    workload: &'static str,
    distribution: &'static str,
    memory_mib: u64,
    words: &'static str,
) -> Case {
    Case {
        workload,
        distribution,
        value_bytes: 100,
        threads: 1,
        batch: 1,
        memory_mib,
        keys_percent: 100,
        synced: false,
        in_memory: false,
        words,
    }
}

const GETS: &str = "gets=1";
const MISSES: &str = "misses=1";
const PUTS: &str = "puts=1";
const HALF: &str = "gets=1 puts=1";
const MOSTLY: &str = "gets=95 puts=5";
const VOLATILE: &str = "gets=1 puts=1 volatile";
const SCANS: &str = "scans=95 inserts=5 scan=50";

/// All workloads, the old ones first.
pub(super) const CASES: [Case; 40] = [
    case("read", "uniform", 32, GETS),
    case("read", "zipfian", 32, GETS),
    Case { batch: 32, ..case("read", "uniform", 32, GETS) },
    Case { threads: 4, ..case("read", "uniform", 32, GETS) },
    case("read", "uniform", 1024, GETS),
    Case { value_bytes: 1000, keys_percent: 25, ..case("read", "uniform", 32, GETS) },
    case("read-missing", "uniform", 32, MISSES),
    case("read-missing", "uniform", 256, MISSES),
    case("overwrite", "uniform", 32, PUTS),
    case("overwrite", "zipfian", 32, PUTS),
    case("overwrite", "uniform", 1024, PUTS),
    Case { value_bytes: 1000, keys_percent: 25, ..case("overwrite", "uniform", 32, PUTS) },
    Case { batch: 32, ..case("overwrite", "uniform", 256, PUTS) },
    case("ycsb-a", "zipfian", 32, HALF),
    case("ycsb-a", "uniform", 256, HALF),
    case("ycsb-b", "zipfian", 32, MOSTLY),
    case("ycsb-b", "zipfian", 256, MOSTLY),
    Case { keys_percent: 10, ..case("ycsb-e", "zipfian", 64, SCANS) },
    Case { keys_percent: 25, ..case("ycsb-a", "zipfian", 1024, VOLATILE) },
    Case { batch: 32, keys_percent: 25, ..case("read", "uniform", 1024, "gets=1 volatile") },
    // The latest keys, other skews, other mixes.
    case("ycsb-d", "latest", 64, "gets=95 inserts=5 latest=0.99"),
    case("read", "zipfian:0.7", 64, GETS),
    case("read", "hot-set", 32, GETS),
    case("ycsb-a", "hot-set", 64, HALF),
    case("mixed", "uniform", 32, HALF),
    case("ycsb-f", "zipfian", 256, "gets=50 modifies=50"),
    Case { threads: 4, ..case("ycsb-a", "zipfian", 128, HALF) },
    Case { batch: 8, ..case("ycsb-b", "uniform", 64, MOSTLY) },
    // Ranges.
    Case { keys_percent: 25, ..case("seekrandom", "uniform", 32, "scans=1 scan=51") },
    Case { keys_percent: 25, ..case("ycsb-e", "zipfian", 1024, SCANS) },
    // Small and large values.
    Case { value_bytes: 16, ..case("read", "uniform", 16, GETS) },
    Case { value_bytes: 16, ..case("overwrite", "uniform", 64, PUTS) },
    Case { value_bytes: 4000, keys_percent: 5, ..case("read", "uniform", 32, GETS) },
    Case { value_bytes: 4000, keys_percent: 5, ..case("overwrite", "zipfian", 64, PUTS) },
    // Writes that survive a power cut.
    Case { synced: true, ..case("overwrite", "uniform", 256, "puts=1 synced=1") },
    Case { synced: true, batch: 32, ..case("mixed", "zipfian", 64, "gets=1 puts=1 synced=1") },
    // A directory in memory, where all engines may be taken.
    Case { in_memory: true, ..case("read", "uniform", 1024, GETS) },
    Case { in_memory: true, ..case("overwrite", "uniform", 1024, PUTS) },
    Case { in_memory: true, batch: 32, ..case("ycsb-a", "zipfian", 1024, HALF) },
    Case { in_memory: true, keys_percent: 25, ..case("ycsb-e", "zipfian", 1024, SCANS) },
];

/// Memory of a store is no less: the engines on a device keep to no number under 4.2 MB.
const MEMORY_MIN: u64 = 5 << 20;

impl Case {
    fn keys(&self, keys: u64) -> u64 {
        (keys * self.keys_percent / 100).max(10)
    }

    pub(super) fn memory_bytes(&self, keys: u64) -> u64 {
        let declared = (self.memory_mib << 20) as f64;
        ((declared * keys as f64 / KEYS) as u64).max(MEMORY_MIN)
    }

    /// What a user would say of it, where `keys` are a whole case's.
    pub(super) fn words(&self, keys: u64) -> String {
        let skew = self.distribution().skew();
        let popularity = match self.distribution {
            "latest" => String::new(),
            "hot-set" => "hot-set=0.1:0.9".into(),
            _ => skew.map_or("uniform".into(), |skew| match skew {
                0.0 => "uniform".into(),
                skew => format!("zipf={skew}"),
            }),
        };
        let Case { value_bytes, threads, batch, words, .. } = self;
        format!(
            "keys={} value={value_bytes} {words} {popularity} memory={} threads={threads} \
             burst={batch}",
            self.keys(keys),
            self.memory_bytes(keys)
        )
    }

    /// The workload as exactly as it is known: the popularity is the one that the instrument
    /// draws by.
    pub(super) fn described(&self, keys: u64) -> Result<(Workload, Needs)> {
        let (mut workload, needs) = describe(&self.words(keys))?;
        let is_plain = ["uniform", "latest", "hot-set"].contains(&self.distribution);
        if !is_plain {
            workload.access = Access::Groups(self.popularity(keys));
        }
        Ok((workload, needs))
    }

    /// Groups of keys that are asked for alike, with the requests that they get.
    fn popularity(&self, keys: u64) -> Vec<(f64, f64)> {
        // Keys that are as popular within so much are one group.
        const ALIKE: f64 = 0.98;
        let mut shares = self.distribution().shares(self.keys(keys)).expect("it has a formula");
        // Some are never drawn.
        shares.iter_mut().for_each(|share| *share = share.max(1e-15));
        shares.sort_by(|a, b| b.total_cmp(a));
        let mut groups: Vec<(f64, f64)> = Vec::new();
        let mut first = f64::INFINITY;
        for share in shares {
            match groups.last_mut() {
                Some((keys, requests)) if share >= ALIKE * first => {
                    *keys += 1.0;
                    *requests += share;
                }
                _ => {
                    first = share;
                    groups.push((1.0, share));
                }
            }
        }
        groups
    }

    fn distribution(&self) -> Distribution {
        Distribution::parse(self.distribution).expect("cases name distributions that there are")
    }

    /// The run of the instrument; how long it goes on its caller says.
    pub(super) fn plan(&self, keys: u64, seed: u64) -> Result<Plan> {
        let mut plan = Plan::new(self.workload)?;
        plan.keys = self.keys(keys);
        plan.shape.value_bytes = self.value_bytes;
        plan.threads = self.threads;
        plan.batch = self.batch;
        plan.operations = 1 << 40;
        plan.durability = if self.synced { Durability::Synced } else { Durability::Buffered };
        plan.distribution = self.distribution();
        plan.seed = seed;
        Ok(plan)
    }

    pub(super) fn writes(&self) -> bool {
        !self.workload.starts_with("read") && self.workload != "seekrandom"
    }

    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    pub(super) fn name(&self) -> String {
        let Case { workload, distribution, value_bytes, threads, batch, memory_mib, .. } = self;
        let synced = if self.synced { " synced" } else { "" };
        let place = if self.in_memory { " on tmpfs" } else { "" };
        format!(
            "{workload} {distribution} {value_bytes}B t{threads} b{batch} \
             {memory_mib}MiB{synced}{place}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica::Registry;
    use silica::tune::recommend::{Question, recommend};
    use silica::tune::{Machine, Survival};
    use std::collections::BTreeSet;

    #[test]
    fn every_workload_is_another_one_and_the_models_have_an_answer_that_can_do_it() {
        let names: BTreeSet<String> = CASES.iter().map(Case::name).collect();
        assert_eq!(names.len(), CASES.len());
        let candidates = Registry::builtin().candidates();
        let mut chosen = BTreeSet::new();
        for case in &CASES {
            let (workload, needs) = case.described(KEYS as u64).unwrap();
            let (said, same_needs) = describe(&case.words(KEYS as u64)).unwrap();
            assert_eq!(needs, same_needs);
            assert_eq!(said.keys, workload.keys, "{}", case.name());
            let survival = if case.in_memory { Survival::Process } else { Survival::Disk };
            let machine = Machine { survival, ..Machine::default() };
            let question = Question::new(&workload, &machine, needs, &candidates);
            let choice = recommend(&question).unwrap().choice;
            let is_ordered = choice.lacks.is_empty() || !choice.lacks.contains(&"ranges");
            assert!(is_ordered || !needs.ordered, "{}: {}", case.name(), choice.engine);
            chosen.insert(choice.engine);
        }
        assert!(chosen.len() >= 3, "only {chosen:?} is ever chosen");
    }
}
