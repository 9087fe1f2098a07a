use super::*;
use crate::recommend::describe;
use silica_base::Prng;
use std::collections::BTreeMap;

/// A least-recently-used set, by the time of the last use.
#[derive(Default)]
struct Recent {
    times: BTreeMap<u64, usize>,
    of: BTreeMap<usize, u64>,
    now: u64,
}

impl Recent {
    fn has(&self, one: usize) -> bool {
        self.of.contains_key(&one)
    }

    fn name(&mut self, one: usize, most: usize) {
        self.now += 1;
        if let Some(before) = self.of.insert(one, self.now) {
            self.times.remove(&before);
        }
        self.times.insert(self.now, one);
        if self.of.len() > most {
            let (_, oldest) = self.times.pop_first().unwrap();
            self.of.remove(&oldest);
        }
    }
}

/// Shares of the gets that the entries written last answer, and of the others that blocks do.
fn drawn(work: &Work<'_>, skew: f64, written: usize, blocks: usize, per_block: u64) -> (f64, f64) {
    let mut prng = Prng::new(7);
    let mut keys = work.keys as usize;
    let mut sums = vec![0.0];
    for rank in 1..=keys {
        sums.push(sums[rank - 1] + (rank as f64).powf(-skew));
    }
    let block_of = |key: usize, keys: usize| {
        // Places of a key that came later are among those that were there.
        Prng::new(key as u64).below(keys as u64 / per_block) as usize
    };
    let first = keys;
    let (mut memtable, mut cache) = (Recent::default(), Recent::default());
    let (mut gets, mut recent, mut cached) = (0.0, 0.0, 0.0);
    let requests = 12 * keys;
    for request in 0..requests {
        let kind = prng.unit();
        if kind < work.mix.inserts {
            keys += 1;
            memtable.name(keys, written);
            continue;
        }
        let at = prng.unit() * sums[first];
        let rank = sums.partition_point(|sum| *sum <= at);
        let key = keys + 1 - rank;
        if kind < work.mix.inserts + work.mix.overwrites {
            memtable.name(key, written);
            continue;
        }
        let counts = f64::from(u8::from(request > requests / 3));
        gets += counts;
        if memtable.has(key) {
            recent += counts;
            continue;
        }
        let block = block_of(key, first);
        cached += if cache.has(block) { counts } else { 0.0 };
        cache.name(block, blocks);
    }
    (recent / gets, cached / (gets - recent))
}

#[test]
fn what_is_latest_is_found_as_often_as_drawn() {
    for (words, skew) in [
        ("keys=20k gets=75 puts=20 inserts=5 latest=0.99", 0.99),
        ("keys=20k gets=95 inserts=5 latest=0.99", 0.99),
        ("keys=20k gets=50 puts=25 inserts=25 latest=0.6", 0.6),
    ] {
        let (workload, _) = describe(words).unwrap();
        let work = Work::new(&workload).unwrap();
        for (written, blocks, per_block) in [(500, 400, 8), (100, 1500, 8), (2000, 600, 16)] {
            let (recent, hit) = drawn(&work, skew, written, blocks, per_block);
            let predicted = work.recently_written(written as f64);
            assert!((predicted - recent).abs() < 0.02, "{words} {written}: {predicted} {recent}");
            let of = work.blocks_hit(blocks as f64, per_block as f64, written as f64);
            let setting = format!("{words} {written} {blocks} {per_block}");
            assert!((of - hit).abs() < 0.04, "{setting}: {of} {hit}");
        }
    }
}

#[test]
fn a_trickle_of_inserts_is_zipf() {
    let of = |popularity: &str| {
        let words = format!("keys=1M gets=50 puts=50 inserts=0.0001 {popularity}");
        let (workload, _) = describe(&words).unwrap();
        let work = Work::new(&workload).unwrap();
        let until = work.latest_until(1e4).unwrap_or(work.unique_inverse(1e4));
        let (old, new) = work.distinct_written(1e5);
        [work.recent(1e4), work.recently_written(1e4), until, old + new]
    };
    for (latest, zipf) in of("latest=0.99").into_iter().zip(of("zipf=0.99")) {
        assert!((latest / zipf - 1.0).abs() < 0.02, "{latest} {zipf}");
    }
}
