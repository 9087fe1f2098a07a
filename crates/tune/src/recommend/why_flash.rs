//! A running cache on flash: prediction beside measurement, what limits it, and what other sizes
//! would do.

use super::flash_cache::{FlashAdvice, flash_cache};
use super::why::{Figure, Measured};
use super::work::Needs;
use crate::Workload;
use silica_base::{Error, ErrorKind, Result};
use std::fmt;

/// The metric that says how much flash there is.
const CAPACITY: &str = "flash_capacity_bytes";
/// A share that is worth a verdict.
const SHARE_MIN: f64 = 0.01;

/// What a cache with another size would do.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherSize {
    /// The option, with its value in bytes.
    pub option: String,
    /// What is predicted then.
    pub advice: FlashAdvice,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashWhy {
    /// What is predicted, and what the cache tells.
    pub figures: Vec<Figure>,
    /// What the cache tells that no model predicts, with its unit.
    pub told: Vec<(&'static str, f64)>,
    /// What limits it, in words, with what there is to do.
    pub verdicts: Vec<String>,
    /// Other sizes.
    pub what_if: Vec<OtherSize>,
}

/// Compares what a cache on flash `measured` with what its model says of `workload`, and evaluates
/// the model again with other sizes. How many keys there are and how popular each is a cache cannot
/// tell: these are the workload's.
///
/// # Errors
/// `Config` where `measured` is not of a cache on flash; those of the model.
pub fn why_flash_cache(workload: &Workload, measured: &Measured) -> Result<FlashWhy> {
    let get = |name: &str| measured.get(name).copied().unwrap_or(0.0);
    let Some(flash_bytes) = measured.get(CAPACITY).map(|bytes| *bytes as u64) else {
        let message = format!("the server tells no {CAPACITY}: it has no cache on flash");
        return Err(Error::new(ErrorKind::Config, message));
    };
    let at = |workload: &Workload, flash_bytes: u64| {
        let needs = Needs { may_evict: true, flash_bytes: Some(flash_bytes), ..Needs::default() };
        let advice = flash_cache(workload, &needs)?;
        advice.ok_or_else(|| Error::new(ErrorKind::Config, "no model of a cache without flash"))
    };
    let now = at(workload, flash_bytes)?;
    let share = |a: f64, b: f64| (b > 0.0).then(|| a / b);
    let (gets, hits) = (get("gets"), get("get_hits"));
    let written = share(get("flash_bytes_written"), get("admitted_bytes"));
    let figure =
        |name: &str, predicted, measured| Figure { name: name.into(), predicted, measured };
    let figures = vec![
        figure("hit ratio", now.cost.hits, share(hits, gets)),
        figure("without flash", now.hits_in_memory, share(get("memory_hits"), gets)),
        figure("written of a byte put", now.cost.write_amplification, written),
        figure(
            "index bytes per key",
            now.index_bytes / (flash_bytes as f64 / workload.entry_bytes()),
            share(get("index_bytes"), get("entries_estimate")),
        ),
    ];
    let mut what_if = Vec::new();
    for factor in [0.5, 2.0] {
        let bytes = (flash_bytes as f64 * factor) as u64;
        let option = format!("--flash-size {bytes}");
        what_if.push(OtherSize { option, advice: at(workload, bytes)? });
    }
    for factor in [0.5, 2.0] {
        let bytes = (workload.memory_bytes as f64 * factor) as u64;
        let other = Workload { memory_bytes: bytes, ..workload.clone() };
        let option = format!("--cache {bytes}");
        what_if.push(OtherSize { option, advice: at(&other, flash_bytes)? });
    }
    let told = [
        ("drive writes a day", "drive_writes_per_day"),
        ("years of life", "flash_years"),
        ("free blocks", "flash_free_blocks"),
    ];
    let told = told.map(|(name, metric)| (name, get(metric))).to_vec();
    Ok(FlashWhy { figures, told, verdicts: verdicts(&get), what_if })
}

fn verdicts(get: &dyn Fn(&str) -> f64) -> Vec<String> {
    let mut verdicts = Vec::new();
    let (admitted, refused) = (get("admitted_bytes"), get("refused_bytes"));
    let kept_out = refused / (admitted + refused).max(1.0);
    if kept_out > SHARE_MIN {
        verdicts.push(format!(
            "{:.1} % of the bytes put were kept off the flash: --flash-writes-per-day allows no \
             more; a larger number finds more and wears the flash sooner",
            100.0 * kept_out
        ));
    }
    let dropped = get("slabs_dropped");
    let collected = dropped + get("slabs_emptied");
    if collected > 0.0 && dropped / collected > SHARE_MIN {
        verdicts.push(format!(
            "{:.0} of {collected:.0} slabs were dropped with what was alive in them: free blocks \
             fell below {:.0}, and the least recently used went; more flash keeps more",
            dropped,
            get("free_blocks_low")
        ));
    }
    let (lost, puts) = (get("evictions_from_index"), get("puts"));
    if lost > SHARE_MIN * puts.max(1.0) {
        verdicts.push(format!(
            "{lost:.0} entries left because the index was full: entries are smaller than the index \
             was made for; more memory (--cache) has room for more"
        ));
    }
    let slowed = get("writes_slowed");
    if slowed > SHARE_MIN * puts.max(1.0) {
        verdicts.push(format!("{slowed:.0} puts waited for the flash: it writes no faster"));
    }
    let damaged = get("damaged_entries") + get("blocks_failed");
    if damaged > 0.0 {
        verdicts.push(format!(
            "{damaged:.0} entries or blocks of the flash could not be read or written: look at \
             silica flash check"
        ));
    }
    verdicts
}

/// The table, for people.
impl fmt::Display for FlashWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24} {:>10} {:>10} {:>8}", "", "predicted", "measured", "drift")?;
        for figure in &self.figures {
            let measured = figure.measured.map_or("-".into(), |value| format!("{value:.3}"));
            let drift = figure.drift_percent().map_or("-".into(), |drift| format!("{drift:+.1} %"));
            let Figure { name, predicted, .. } = figure;
            writeln!(f, "{name:<24} {predicted:>10.3} {measured:>10} {drift:>8}")?;
        }
        for (name, value) in &self.told {
            writeln!(f, "{name:<24} {:>10} {value:>10.3}", "")?;
        }
        for verdict in &self.verdicts {
            writeln!(f, "{verdict}")?;
        }
        writeln!(f, "one option changed:")?;
        for OtherSize { option, advice } in &self.what_if {
            writeln!(
                f,
                "  {option:<30} finds {:.3}  written {:.2}",
                advice.cost.hits, advice.cost.write_amplification
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::describe;
    use super::*;

    fn workload() -> Workload {
        describe("keys=10M value=300 gets=90 puts=10 zipf=0.9 memory=128MiB").unwrap().0
    }

    fn measured(pairs: &[(&str, f64)]) -> Measured {
        pairs.iter().map(|(name, value)| (name.to_string(), *value)).collect()
    }

    #[test]
    fn a_cache_is_held_against_its_model_and_other_sizes() {
        let told = measured(&[
            (CAPACITY, 1e9),
            ("gets", 100.0),
            ("get_hits", 70.0),
            ("memory_hits", 30.0),
            ("admitted_bytes", 100.0),
            ("flash_bytes_written", 130.0),
        ]);
        let why = why_flash_cache(&workload(), &told).unwrap();
        let of = |name: &str| why.figures.iter().find(|figure| figure.name == name).unwrap();
        assert_eq!(of("hit ratio").measured, Some(0.7));
        assert_eq!(of("without flash").measured, Some(0.3));
        assert_eq!(of("written of a byte put").measured, Some(1.3));
        assert!(of("hit ratio").predicted > of("without flash").predicted);
        let hits = |option: &str| {
            let other = why.what_if.iter().find(|other| other.option.starts_with(option)).unwrap();
            other.advice.cost.hits
        };
        assert!(hits("--flash-size 500000000") < of("hit ratio").predicted);
        assert!(hits("--flash-size 2000000000") > of("hit ratio").predicted);
        assert!(why.verdicts.is_empty(), "{:?}", why.verdicts);
    }

    #[test]
    fn what_limits_a_cache_is_told_with_what_to_do() {
        let one = |pairs: &[(&str, f64)]| {
            let told = measured(&[&[(CAPACITY, 1e9), ("puts", 100.0)], pairs].concat());
            let verdicts = why_flash_cache(&workload(), &told).unwrap().verdicts;
            assert_eq!(verdicts.len(), 1, "{verdicts:?}");
            verdicts[0].clone()
        };
        let kept_out = one(&[("admitted_bytes", 1.0), ("refused_bytes", 99.0)]);
        assert!(kept_out.starts_with("99.0 %") && kept_out.contains("--flash-writes-per-day"));
        assert!(one(&[("slabs_dropped", 3.0), ("free_blocks_low", 2.0)]).contains("more flash"));
        assert!(one(&[("evictions_from_index", 50.0)]).contains("--cache"));
        assert!(one(&[("writes_slowed", 50.0)]).contains("waited"));
        assert!(one(&[("damaged_entries", 1.0)]).contains("flash check"));
    }

    #[test]
    fn what_is_no_cache_on_flash_is_refused() {
        let told = measured(&[("gets", 1.0)]);
        let error = why_flash_cache(&workload(), &told).unwrap_err();
        assert!(error.to_string().contains(CAPACITY), "{error}");
    }
}
