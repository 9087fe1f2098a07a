use super::*;
use crate::model::{LevelDb, Popularity, RefinedLevelDb};
use silica_base::Prng;
use std::collections::BTreeMap;

fn zipf(keys: u64, skew: f64) -> Primitives {
    Primitives::new(Popularity::zipf(keys, skew).unwrap())
}

const ROCKS: LevelledTables = LevelledTables {
    rules: Rules::RocksDb,
    log: 500.0,
    level0_tables: 4,
    table: 600.0,
    base: 2400.0,
    multiplier: 10.0,
    dead_version: 0.0,
};
const LEVELDB: LevelledTables =
    LevelledTables { rules: Rules::LevelDb, dead_version: 0.8, ..ROCKS };

#[test]
fn levels_are_the_base_at_least() {
    let sizes = |last: f64| [0.0, 0.0, 0.0, 0.0, 0.0, last];
    let shape = Shape::of(&ROCKS, &[], &sizes(50_000.0));
    assert_eq!(shape.first, 4);
    assert_eq!(shape.limits[4..], [2400.0, 5000.0]);
    // A store that is smaller than the base has one level, unless there was another before.
    assert_eq!(Shape::of(&ROCKS, &[], &sizes(2000.0)).first, 6);
    assert_eq!(Shape::of(&ROCKS, &[], &[0.0, 0.0, 0.0, 0.0, 7.0, 2000.0]).first, 5);
    assert_eq!(Shape::of(&ROCKS, &[], &[0.0; LEVELS]).first, 6);
    let shape = Shape::of(&LEVELDB, &[], &sizes(50_000.0));
    assert_eq!((shape.first, &shape.limits[1..4]), (1, &[2400.0, 24_000.0, 240_000.0][..]));
    assert!(LevelledTables { multiplier: 1.0, ..ROCKS }.checked().is_err());
    assert!(LevelledTables { level0_tables: 0, ..ROCKS }.checked().is_err());
    assert!(LevelledTables { dead_version: 1.1, ..ROCKS }.checked().is_err());
}

/// Levels are in order, sums are right, and every key is somewhere: all puts of the fill are.
#[test]
fn a_level_is_in_order_and_no_put_of_the_fill_is_lost() {
    for design in [ROCKS, LEVELDB] {
        let keys = zipf(30_000, 0.99);
        let mut store = Store::filled(&design, &[], &keys, 1);
        for flush in 0..600 {
            let mut share = store.young_puts.share;
            assert!(store.young < 4 && store.fullest().is_none(), "{flush}");
            for tables in &store.levels {
                let pieces: Vec<&Piece> = tables.iter().flat_map(|table| &table.pieces).collect();
                assert!(pieces.windows(2).all(|pair| pair[0].to <= pair[1].from), "{flush}");
                let sum: f64 = pieces.iter().map(|piece| piece.entries).sum();
                assert!((sum - entries_of(tables)).abs() < 1e-6 * (1.0 + sum));
                let shares = pieces.iter().map(|piece| (piece.to - piece.from) * piece.puts.share);
                share += shares.sum::<f64>();
            }
            assert!((share - 1.0).abs() < 1e-6, "{flush} {share}");
            store.flush(Puts { share: 0.0, requests: design.log });
        }
    }
}

/// LevelDB's own sizes, given, are LevelDB, others are not.
#[test]
fn sizes_that_are_given_take_the_place_of_those_of_the_rules() {
    let keys = zipf(30_000, 0.5);
    let cost = |sizes: &[f64]| LEVELDB.course_of(sizes, &keys, 1e5, 2e5);
    assert_eq!(cost(&[2400.0, 24_000.0, 240_000.0]), LEVELDB.course(&keys, 1e5, 2e5));
    assert!(cost(&[4000.0, 24_000.0]).total() != cost(&[2400.0, 24_000.0]).total());
    let shape = Shape::of(&ROCKS, &[3000.0, 9000.0], &[0.0; LEVELS]);
    assert_eq!((shape.first, &shape.limits[1..4]), (1, &[3000.0, 9000.0, f64::INFINITY][..]));
}

/// A judge with keys: level 0 into one level that is merged whole.
#[test]
fn one_level_costs_what_sets_of_keys_cost() {
    // The first level is smaller than a burst, so each burst takes it and the last one in turn.
    for skew in [0.0, 0.99] {
        let design = LevelledTables { base: 1e6, ..ROCKS };
        let keys = zipf(20_000, skew);
        let ours = design.write_amplification(&keys);
        let popularity: Vec<f64> = (1..=20_000).map(|i| f64::from(i).powf(-skew)).collect();
        let mut sums: Vec<f64> = Vec::new();
        for share in popularity {
            sums.push(sums.last().copied().unwrap_or(0.0) + share);
        }
        let mut random = Prng::new(5);
        let (mut flushed, mut compacted) = (0.0, 0.0);
        for flush in 1..=400 {
            let mut table = BTreeMap::new();
            for _ in 0..500 {
                let at = random.unit() * sums[sums.len() - 1];
                table.insert(sums.partition_point(|sum| *sum <= at), ());
            }
            flushed += table.len() as f64;
            compacted += if flush % 4 == 0 { 20_000.0 } else { 0.0 };
        }
        let judge = 1.0 + (flushed + compacted) / (400.0 * 500.0);
        assert!((ours.total() / judge - 1.0).abs() < 0.01, "{skew}: {} {judge}", ours.total());
    }
}

/// Where levels are many tables and many bursts, it comes to what the closed formulas say.
#[test]
fn large_levels_cost_about_what_the_refined_model_says() {
    for skew in [0.0, 0.99] {
        let keys = zipf(300_000, skew);
        let design = LevelledTables { table: 500.0, base: 6000.0, ..LEVELDB };
        let ours = design.write_amplification(&keys).total();
        let levels = vec![6000.0, 60_000.0, 300_000.0];
        let refined = LevelDb { log: 500.0, level0_tables: 4.0, levels };
        let refined = RefinedLevelDb { design: refined, table: 500.0 };
        let theirs = refined.write_amplification(&keys).total();
        println!("{skew}: {ours} {theirs}");
        assert!((ours / theirs - 1.0).abs() < 0.15, "{skew}: {ours} {theirs}");
    }
}

/// LevelDB with keys, by its rules (`PickCompaction`, `SetupOtherInputs`): a judge without
/// densities. It counts entries, and has no dead versions.
struct Judge {
    design: LevelledTables,
    young: Vec<Vec<u32>>,
    levels: [Vec<Vec<u32>>; LEVELS + 1],
    ended: [Option<u32>; LEVELS + 1],
    written: [f64; LEVELS + 1],
}

type Keys = Vec<u32>;

fn first(table: &Keys) -> u32 {
    table[0]
}

fn last(table: &Keys) -> u32 {
    table[table.len() - 1]
}

fn met(tables: &[Keys], from: u32, to: u32) -> Range {
    let start = tables.partition_point(|table| last(table) < from);
    start..tables.partition_point(|table| first(table) <= to).max(start)
}

fn count(tables: &[Keys]) -> f64 {
    tables.iter().map(|table| table.len() as f64).sum()
}

impl Judge {
    fn new(design: LevelledTables) -> Self {
        let (young, levels, ended) = Default::default();
        Judge { design, young, levels, ended, written: [0.0; LEVELS + 1] }
    }

    fn flush(&mut self, mut table: Keys) {
        table.sort_unstable();
        table.dedup();
        self.written[0] += table.len() as f64;
        let free = |level: usize| met(&self.levels[level], first(&table), last(&table)).is_empty();
        let mut level = 0;
        while self.young.is_empty() && level < FLUSH_LEVEL_MAX && free(level + 1) {
            level += 1;
        }
        match level {
            0 => self.young.push(table),
            level => {
                let at = met(&self.levels[level], first(&table), last(&table)).start;
                self.levels[level].insert(at, table);
            }
        }
        while let Some(level) = self.fullest() {
            self.compact(level);
        }
    }

    fn fullest(&self) -> Option<usize> {
        let size = |level: usize| match level {
            0 => self.young.len() as f64 / f64::from(self.design.level0_tables),
            _ => {
                let limit = self.design.base * self.design.multiplier.powi(level as i32 - 1);
                count(&self.levels[level]) / limit
            }
        };
        let over = (0..LEVELS).filter(|level| size(*level) >= 1.0);
        over.max_by(|a, b| size(*a).total_cmp(&size(*b)))
    }

    fn inputs(&self, level: usize) -> (Range, Range) {
        let (here, next) = (&self.levels[level], &self.levels[level + 1]);
        let behind = here.iter().position(|table| Some(last(table)) > self.ended[level]);
        let at = behind.unwrap_or(0);
        let (from, to) = (first(&here[at]), last(&here[at]));
        let below = met(next, from, to);
        if below.is_empty() {
            return (at..at + 1, below);
        }
        let to = to.max(last(&next[below.end - 1]));
        let all = met(here, from.min(first(&next[below.start])), to);
        let entries = count(&here[all.clone()]) + count(&next[below.clone()]);
        let met = met(next, first(&here[all.start]), last(&here[all.end - 1]));
        let is_wider = entries < EXPANDED * self.design.table && met == below;
        (if is_wider { all } else { at..at + 1 }, below)
    }

    fn compact(&mut self, level: usize) {
        let (moved, below) = if level == 0 {
            (std::mem::take(&mut self.young), 0..self.levels[1].len())
        } else {
            let (taken, below) = self.inputs(level);
            self.ended[level] = Some(last(&self.levels[level][taken.end - 1]));
            (self.levels[level].drain(taken).collect(), below)
        };
        if level > 0 && below.is_empty() && moved.len() == 1 {
            self.levels[level + 1].splice(below, moved);
            return;
        }
        let mut keys: Keys = moved.into_iter().flatten().collect();
        keys.extend(self.levels[level + 1][below.clone()].iter().flatten());
        keys.sort_unstable();
        keys.dedup();
        self.written[level + 1] += keys.len() as f64;
        let tables = self.cut(level + 2, &keys);
        self.levels[level + 1].splice(below, tables);
    }

    /// Tables of `keys`, which end where they would overlap too much of the level at `behind`.
    fn cut(&self, behind: usize, keys: &[u32]) -> Vec<Keys> {
        let table = self.design.table;
        let mut others = self.levels.get(behind).map_or(&[][..], |level| level).iter().peekable();
        let (mut cut, mut open, mut overlapped) = (Vec::new(), Vec::new(), 0.0);
        for (at, key) in keys.iter().enumerate() {
            while let Some(other) = others.next_if(|other| *key > last(other)) {
                overlapped += if at > 0 { other.len() as f64 } else { 0.0 };
            }
            if overlapped > GRANDPARENTS * table {
                overlapped = 0.0;
                cut.push(std::mem::take(&mut open));
            }
            open.push(*key);
            if open.len() as f64 >= table {
                cut.push(std::mem::take(&mut open));
            }
        }
        cut.push(open);
        cut.retain(|table| !table.is_empty());
        cut
    }
}

/// What is written to each level for each put in 20 rounds of overwriting, after a fill and 2
/// rounds.
fn judged(design: LevelledTables, keys: u64, skew: f64) -> [f64; LEVELS + 1] {
    let mut random = Prng::new(5);
    let mut order: Vec<u32> = (0..keys as u32).collect();
    let mut shuffle = |order: &mut [u32]| {
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
    };
    shuffle(&mut order);
    let mut judge = Judge::new(design);
    let log = design.log as usize;
    order.chunks(log).for_each(|chunk| judge.flush(chunk.to_vec()));
    shuffle(&mut order);
    let mut sums = vec![0.0];
    for rank in 1..=keys {
        sums.push(sums[sums.len() - 1] + (rank as f64).powf(-skew));
    }
    let mut key = || {
        let at = random.unit() * sums[keys as usize];
        order[sums[1..].partition_point(|sum| *sum <= at)]
    };
    for round in 0..22 {
        if round == 2 {
            judge.written = [0.0; LEVELS + 1];
        }
        for _ in 0..keys / log as u64 {
            judge.flush((0..log).map(|_| key()).collect());
        }
    }
    judge.written.map(|written| written / (20 * (keys / log as u64) * log as u64) as f64)
}

/// Which table is next hangs on chance where levels are few tables. Without it the first of two
/// was compacted again and again and the second never, and levels were up to 25 % off; and where
/// tables end for what they overlap, 5 %.
#[test]
fn few_tables_cost_what_stores_of_keys_cost() {
    let levelled = LevelledTables { table: 6577.0, base: 8141.0, dead_version: 0.0, ..LEVELDB };
    for (count, log, skew) in [
        (12_500, 600.0, 0.0),
        (25_000, 1211.0, 0.0),
        (25_000, 303.0, 0.0),
        (25_000, 303.0, 0.99),
        (50_000, 600.0, 0.99),
        (50_000, 600.0, 0.0),
        (100_000, 303.0, 0.0),
    ] {
        let design = LevelledTables { log, ..levelled };
        let keys = count as f64;
        let ours = design.course(&zipf(count, skew), 2.0 * keys, 20.0 * keys);
        let theirs = judged(design, count, skew);
        let all: f64 = theirs.iter().sum();
        println!("{count} {log} {skew}: {:?} {theirs:?}", ours.terms());
        assert!(((ours.total() - 1.0) / all - 1.0).abs() < 0.03, "{ours:?} {theirs:?}");
        for (stage, ours) in &ours.terms()[1..] {
            let Stage::Level(level) = *stage else { panic!("{stage}") };
            let theirs = theirs[level as usize];
            assert!((ours - theirs).abs() < 0.02 * all, "{count} {stage} {ours} {theirs}");
        }
    }
}
