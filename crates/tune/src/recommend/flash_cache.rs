//! A cache on flash, beside the engines of keyspaces.
//!
//! The engine `dida` is behind a server's cache (`silica serve --cache SIZE --flash DIR`), not in a
//! keyspace of a store. So it is no candidate of [`recommend`](super::recommend): what is said of
//! it stands beside the recommendation.

use silica_base::Result;

use crate::Workload;
use crate::model::{FlashCache, FlashCost, FlashLoad, Group, Popularity};

use super::Needs;

/// Bytes of a block, as many as make so many blocks, within these limits (`silica serve --flash`).
const BLOCKS_USUAL: f64 = 1024.0;
const BLOCK_BYTES: (f64, f64) = ((2 << 20) as f64, (8 << 20) as f64);
/// Bytes of an entry in memory beside key and value (docs/engines/mica.md).
const MEMORY_OVERHEAD_BYTES: f64 = 24.0;
/// Bytes of the index for each entry on flash.
const INDEX_BYTES: f64 = 12.0;
/// Erases that a block endures if nobody says so: usual for flash of three bits a cell.
const ENDURANCE: f64 = 3000.0;
const DAY_SECONDS: f64 = 86_400.0;
const YEAR_DAYS: f64 = 365.25;
const HALVINGS: u32 = 50;

/// What a cache on flash would do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashAdvice {
    /// Bytes of flash.
    pub flash_bytes: u64,
    /// Its model's figures.
    pub cost: FlashCost,
    /// Share of the gets that a cache finds which has the same memory and no flash.
    pub hits_in_memory: f64,
    /// How often the flash is written in a day, if operations come at a rate.
    pub drive_writes_per_day: Option<f64>,
    /// Years until a block that endures 3,000 erases is worn, if operations come at a rate and
    /// anything is written.
    pub life_years: Option<f64>,
    /// Bytes of memory that the index of a full flash takes.
    pub index_bytes: f64,
}

impl FlashAdvice {
    /// True if flash finds more than memory alone does.
    pub fn is_better(&self) -> bool {
        self.cost.hits > self.hits_in_memory
    }
}

/// What a cache on flash would do with a workload; `None` if it is no cache, needs an order of
/// keys, or nobody said how large the flash is. Misses are put, as in a cache before a database.
///
/// # Errors
/// Those of the popularity and of the model.
pub fn flash_cache(workload: &Workload, needs: &Needs) -> Result<Option<FlashAdvice>> {
    let Some(flash_bytes) = needs.flash_bytes else { return Ok(None) };
    if !needs.may_evict || needs.ordered {
        return Ok(None);
    }
    let popularity = workload.popularity()?;
    let mix = workload.mix.normalised();
    let load = FlashLoad {
        gets: mix.get_hits + mix.modifies,
        puts: mix.overwrites + mix.modifies,
        inserts: mix.inserts,
        fills: true,
    };
    let cost = model(workload, flash_bytes as f64).cost(&popularity, &load)?;
    let entry = workload.entry_bytes();
    let written = cost.puts * entry * cost.write_amplification / flash_bytes as f64;
    let per_day = workload.rate.map(|rate| rate * written * DAY_SECONDS);
    let room = workload.memory_bytes as f64 / (entry + MEMORY_OVERHEAD_BYTES);
    Ok(Some(FlashAdvice {
        flash_bytes,
        cost,
        hits_in_memory: recent(&popularity, room),
        drive_writes_per_day: per_day,
        life_years: per_day.filter(|writes| *writes > 0.0).map(|w| ENDURANCE / w / YEAR_DAYS),
        index_bytes: flash_bytes as f64 / entry * INDEX_BYTES,
    }))
}

/// The engine with its usual settings on so much flash.
fn model(workload: &Workload, flash_bytes: f64) -> FlashCache {
    let slab_bytes = (flash_bytes / BLOCKS_USUAL).clamp(BLOCK_BYTES.0, BLOCK_BYTES.1);
    let slabs = (flash_bytes / slab_bytes).floor().max(1.0);
    let entry_bytes = workload.entry_bytes();
    let index = flash_bytes / entry_bytes * INDEX_BYTES;
    FlashCache {
        slabs,
        slab_bytes,
        entry_bytes,
        overhead_bytes: FlashCache::OVERHEAD_BYTES,
        low: 1.0 / slabs,
        high: 1.0 / slabs + FlashCache::BETWEEN,
        checkpoint_slabs: (index / slab_bytes).ceil(),
    }
}

/// Share of the requests that the `room` keys asked for last have (Che's approximation).
fn recent(keys: &Popularity, room: f64) -> f64 {
    if room >= keys.keys() {
        return 1.0;
    }
    let there = |group: &Group, age: f64| -(-group.rate * age).exp_m1();
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..HALVINGS {
        let age: f64 = 0.5 * (low + high);
        if keys.sum(|group| there(group, age.exp())) < room { low = age } else { high = age }
    }
    keys.sum(|group| group.probability * there(group, low.exp()))
}

#[cfg(test)]
mod tests {
    use super::super::describe;
    use super::*;

    fn asked(words: &str) -> Option<FlashAdvice> {
        let (workload, needs) = describe(words).unwrap();
        flash_cache(&workload, &needs).unwrap()
    }

    #[test]
    fn flash_is_for_caches_whose_flash_has_a_size() {
        let words = "keys=50M value=300 gets=90 puts=10 zipf=0.9 memory=1GiB";
        assert_eq!(asked(&format!("{words} cache")), None);
        assert_eq!(asked(&format!("{words} flash=8GiB")), None);
        assert_eq!(asked(&format!("{words} cache ordered flash=8GiB")), None);
        let found = asked(&format!("{words} cache flash=8GiB")).unwrap();
        assert!(found.is_better() && found.cost.hits > found.hits_in_memory + 0.1, "{found:?}");
        assert_eq!((found.drive_writes_per_day, found.life_years), (None, None));
        let rated = asked(&format!("{words} cache flash=8GiB rate=1000")).unwrap();
        let days = rated.life_years.unwrap() * YEAR_DAYS * rated.drive_writes_per_day.unwrap();
        assert!((days / ENDURANCE - 1.0).abs() < 1e-9, "{rated:?}");
        let small = asked("keys=1k value=300 gets=100 memory=1GiB cache flash=1GiB").unwrap();
        assert_eq!((small.hits_in_memory, small.is_better()), (1.0, false));
        assert!(describe("cache flash=some").is_err());
    }
}
