//! The settings of `silica bench models --sweep`: one parameter after the other, as the paper's
//! figures have them on their axes.

use super::Setting;
use super::design::{Parameter, Writer, live_bytes};
use silica::Result;
use silica_bench::{Distribution, Plan};

/// Keys where their number is not what changes; fewer for stores of which there are many settings.
const KEYS: u64 = 200_000;
const KEYS_FEW: u64 = 100_000;
const KEYS_TOY: u64 = 10_000;
/// Other numbers of keys, in parts of the usual one, and other write buffers.
const NUMBERS: [f64; 4] = [0.25, 0.5, 2.0, 4.0];
const BUFFERS: [f64; 4] = [0.25, 0.5, 2.0, 4.0];
/// Skews, in thousandths; of two where something else changes as well.
const SKEWS: [u16; 7] = [0, 200, 400, 600, 800, 990, 1200];
const SKEWS_FEW: [u16; 2] = [0, 990];
/// Levels of RocksDB, level 0 left out.
const LEVELS: [usize; 4] = [2, 3, 4, 5];
/// Percent of SILT's sorted store that hash stores come to.
const MERGE_RATIOS: [u64; 7] = [10, 16, 28, 40, 60, 100, 150];

/// How many of everything.
struct Sweep<'p> {
    keys: u64,
    keys_few: u64,
    skews: &'static [u16],
    numbers: &'static [f64],
    buffers: &'static [f64],
    levels: &'static [usize],
    merge_ratios: &'static [u64],
    plan: &'p dyn Fn(u64, Distribution) -> Result<Plan>,
    settings: Vec<Setting>,
}

/// All settings of `writers`, each once.
pub(super) fn settings(
    writers: &[Writer],
    toy: bool,
    plan: &dyn Fn(u64, Distribution) -> Result<Plan>,
) -> Result<Vec<Setting>> {
    let all = Sweep {
        keys: KEYS,
        keys_few: KEYS_FEW,
        skews: &SKEWS,
        numbers: &NUMBERS,
        buffers: &BUFFERS,
        levels: &LEVELS,
        merge_ratios: &MERGE_RATIOS,
        plan,
        settings: Vec::new(),
    };
    let few = Sweep {
        keys: KEYS_TOY,
        keys_few: KEYS_TOY,
        skews: &SKEWS_FEW,
        numbers: &NUMBERS[1..2],
        buffers: &BUFFERS[2..3],
        levels: &LEVELS[..2],
        merge_ratios: &MERGE_RATIOS[2..5],
        plan,
        settings: Vec::new(),
    };
    let mut sweep = if toy { few } else { all };
    for writer in writers {
        sweep.by_skew(*writer)?;
        match writer {
            Writer::Silt => sweep.by_memory()?,
            Writer::Wip => {}
            Writer::RocksDb => sweep.by_levels()?,
            Writer::LevelDb => {
                sweep.by_keys()?;
                sweep.by_buffer()?;
            }
        }
    }
    Ok(sweep.settings)
}

fn law(skew: u16) -> Distribution {
    if skew == 0 { Distribution::Uniform } else { Distribution::Zipfian { skew } }
}

impl Sweep<'_> {
    fn add(&mut self, writer: Writer, keys: u64, skew: u16, parameter: Parameter) -> Result<()> {
        let plan = (self.plan)(keys, law(skew))?;
        let setting = Setting { writer, plan, parameter };
        let is_same = |other: &Setting| {
            let place = |one: &Setting| (one.writer, one.plan.keys, one.plan.distribution);
            place(other) == place(&setting) && other.parameter == setting.parameter
        };
        if !self.settings.iter().any(is_same) {
            self.settings.push(setting);
        }
        Ok(())
    }

    /// The first of a store's parameters, as it is for the usual number of keys.
    fn usual(&self, writer: Writer) -> Result<Parameter> {
        Ok(writer.parameters(&(self.plan)(self.keys, Distribution::Uniform)?)[0])
    }

    /// Figure 4.9.
    fn by_skew(&mut self, writer: Writer) -> Result<()> {
        let usual = self.usual(writer)?;
        self.skews.iter().try_for_each(|skew| self.add(writer, self.keys, *skew, usual))
    }

    /// Figure 4.10: the write buffer stays.
    fn by_keys(&mut self) -> Result<()> {
        let usual = self.usual(Writer::LevelDb)?;
        for skew in SKEWS_FEW {
            self.add(Writer::LevelDb, self.keys, skew, usual)?;
            for part in self.numbers {
                let keys = (self.keys as f64 * part) as u64;
                self.add(Writer::LevelDb, keys, skew, usual)?;
            }
        }
        Ok(())
    }

    /// Figure 4.11.
    fn by_buffer(&mut self) -> Result<()> {
        let usual = self.usual(Writer::LevelDb)?;
        for skew in SKEWS_FEW {
            self.add(Writer::LevelDb, self.keys, skew, usual)?;
            for part in self.buffers {
                let memory_bytes = (usual.memory_bytes() as f64 * part) as u64;
                let other = Parameter::Memory { memory_bytes };
                self.add(Writer::LevelDb, self.keys, skew, other)?;
            }
        }
        Ok(())
    }

    /// Figure 4.15, with a small write buffer, so that there is room for levels.
    fn by_levels(&mut self) -> Result<()> {
        let plan = (self.plan)(self.keys_few, Distribution::Uniform)?;
        let memory_bytes = (live_bytes(&plan) / 4).max(1 << 20);
        for skew in SKEWS_FEW {
            for optimised in [false, true] {
                for count in self.levels {
                    let count = Some(*count);
                    let parameter = Parameter::Levels { memory_bytes, optimised, count };
                    self.add(Writer::RocksDb, self.keys_few, skew, parameter)?;
                }
            }
        }
        Ok(())
    }

    /// SILT's figure 8.
    fn by_memory(&mut self) -> Result<()> {
        let plan = (self.plan)(self.keys_few, Distribution::Uniform)?;
        let memory_bytes = Writer::Silt.parameters(&plan)[0].memory_bytes();
        for skew in SKEWS_FEW {
            for percent in self.merge_ratios {
                let parameter = Parameter::MergeRatio { percent: *percent, memory_bytes };
                self.add(Writer::Silt, self.keys_few, skew, parameter)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_setting_comes_once_and_each_axis_has_its_values() {
        let plan = |keys, distribution| {
            Ok(Plan { keys, operations: keys, distribution, ..Plan::new("overwrite")? })
        };
        for toy in [false, true] {
            let all = settings(&Writer::ALL, toy, &plan).unwrap();
            let text = |s: &Setting| {
                let law = s.plan.distribution.name();
                format!("{} {} {law} {}", s.writer.name(), s.plan.keys, s.parameter.text())
            };
            let once: HashSet<String> = all.iter().map(text).collect();
            assert_eq!(once.len(), all.len());
            let of = |writer| all.iter().filter(move |s| s.writer == writer);
            let count = |writer, toy_count, count| {
                assert_eq!(of(writer).count(), if toy { toy_count } else { count }, "{writer:?}");
            };
            // Skews; then keys and buffers, levels, or memory.
            count(Writer::LevelDb, 2 + 2 + 2, 7 + 8 + 8);
            count(Writer::RocksDb, 2 + 8, 7 + 16);
            count(Writer::Silt, 2 + 4, 7 + 14);
            count(Writer::Wip, 2, 7);
            assert!(all.iter().all(|s| s.plan.distribution.skew().is_some()));
        }
    }
}
