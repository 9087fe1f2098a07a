//! The driver against targets made for it: one with all abilities, and ones that misbehave.

use silica::{Durability, MetricsMap, Result};
use silica_bench::{
    Abilities, Pace, Plan, Run, Session, Shape, Sink, Slice, Target, WORKLOADS, Workload, drive,
    drive_slices, fill,
};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A map, and how it misbehaves.
#[derive(Default)]
struct Map {
    map: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    calls: AtomicU64,
    fault: Fault,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Fault {
    #[default]
    None,
    /// Of the last byte of each value that a scan gives one bit is wrong.
    ScanGarbles,
    /// Scans give their second entry first.
    ScanUnordered,
    /// Deletes do nothing.
    DeleteForgets,
    /// Of the keys put, those whose first byte is even are forgotten at once, as a cache may.
    Forgets,
    /// The call after so many waits for so long.
    Stalls(u64, Duration),
}

impl Map {
    fn with(fault: Fault) -> Self {
        Map { fault, ..Map::default() }
    }
}

impl Target for Map {
    fn abilities(&self) -> Abilities {
        Abilities { scan: true, delete: true, lossy: self.fault == Fault::Forgets }
    }

    fn session(&self, _: Durability) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MapSession(self)))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn metrics(&self) -> Result<MetricsMap> {
        Ok(MetricsMap::default())
    }
}

struct MapSession<'a>(&'a Map);

impl Session for MapSession<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        let call = self.0.calls.fetch_add(1, Ordering::Relaxed);
        if let Fault::Stalls(after, pause) = self.0.fault
            && call == after
        {
            std::thread::sleep(pause);
        }
        let map = self.0.map.lock().unwrap();
        for (index, key) in keys.iter().enumerate() {
            if let Some(value) = map.get(*key) {
                sink.found(index, value);
            }
        }
        Ok(())
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let mut map = self.0.map.lock().unwrap();
        let forgets = self.0.fault == Fault::Forgets;
        let kept = entries.iter().filter(|(key, _)| !forgets || key[0] % 2 == 1);
        map.extend(kept.map(|(key, value)| (key.to_vec(), value.to_vec())));
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        let mut map = self.0.map.lock().unwrap();
        for key in keys.iter().filter(|_| self.0.fault != Fault::DeleteForgets) {
            map.remove(*key);
        }
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let map = self.0.map.lock().unwrap();
        let mut found: Vec<_> = map.range(from.to_vec()..).take(count).collect();
        if self.0.fault == Fault::ScanUnordered && found.len() > 2 {
            found.swap(1, 2);
        }
        for (key, value) in found {
            let mut value = value.clone();
            if self.0.fault == Fault::ScanGarbles {
                *value.last_mut().unwrap() ^= 1;
            }
            entry(key, &value);
        }
        Ok(())
    }
}

fn plan(workload: &str, threads: usize, batch: usize) -> Plan {
    let workload = Workload::find(workload).unwrap();
    Plan {
        keys: 500,
        operations: 1000,
        shape: Shape { key_bytes: 16, value_bytes: 100 },
        rate: 0,
        threads,
        batch,
        ..Plan::new(workload.name).unwrap()
    }
}

fn run_on(map: &Map, plan: &Plan) -> Result<Run> {
    if !plan.workload.is_fill() {
        fill(plan, map, &mut |_, _| {})?;
    }
    drive(plan, map, "", &mut |_, _| {})
}

#[test]
fn every_workload_runs_on_a_store_that_can_everything() {
    for workload in WORKLOADS {
        for (threads, batch) in [(1, 1), (2, 7), (3, 300)] {
            if workload.split_roles && threads < 2 {
                continue;
            }
            let plan = plan(workload.name, threads, batch);
            let (first, second) = (Map::default(), Map::default());
            let run = run_on(&first, &plan).unwrap();
            let again = run_on(&second, &plan).unwrap();
            if !workload.split_roles {
                assert_eq!(run.tally.operations, 1000, "{}", workload.name);
                assert_eq!(run.tally.result_hash(), again.tally.result_hash());
                assert_eq!(run.tally.latencies.count(), 1000, "{}", workload.name);
            }
            assert!(run.seconds > 0.0 && run.seconds <= run.wall_seconds);
        }
    }
}

#[test]
fn scans_begin_at_the_key_and_give_as_many_entries_as_asked() {
    let run = run_on(&Map::default(), &plan("seekrandom", 1, 1)).unwrap();
    assert_eq!(run.tally.scans, 1000);
    // Near the end of the keys there are fewer than 51.
    assert!((45_000..51_000).contains(&run.tally.scanned), "{}", run.tally.scanned);
    let mixed = run_on(&Map::default(), &plan("ycsb-e", 1, 1)).unwrap();
    assert!((920..980).contains(&mixed.tally.scans), "{}", mixed.tally.scans);
    assert_eq!(mixed.tally.puts, 1000 - mixed.tally.scans);
    let mean = mixed.tally.scanned as f64 / mixed.tally.scans as f64;
    assert!((40.0..54.0).contains(&mean), "{mean} entries a scan");
}

#[test]
fn wrong_answers_fail_the_run() {
    for (fault, workload) in [
        (Fault::ScanGarbles, "ycsb-e"),
        (Fault::ScanUnordered, "seekrandom"),
        (Fault::DeleteForgets, "turbohash-delete"),
    ] {
        let wrong = run_on(&Map::with(fault), &plan(workload, 2, 3)).err().unwrap().to_string();
        assert!(wrong.contains("answers are wrong"), "{wrong}");
    }
}

#[test]
fn reads_through_a_cache_put_back_what_is_missing() {
    for (threads, batch) in [(1, 1), (1, 7), (2, 16)] {
        let plan = plan("facebook-get", threads, batch);
        let map = Map::with(Fault::Forgets);
        // The store is empty: the first get of every key puts it, and half of them stay.
        let tally = drive(&plan, &map, "", &mut |_, _| {}).unwrap().tally;
        assert_eq!((tally.reads, tally.wrong), (1000, 0));
        assert_eq!(tally.hits + tally.puts, 1000, "each get finds or puts");
        let kept = map.map.lock().unwrap().len() as u64;
        assert!(kept > 50 && tally.hits > 50, "{kept} keys kept, {} hits", tally.hits);
        assert!(tally.puts >= 500, "what is forgotten is put again: {}", tally.puts);
    }
    let map = Map::default();
    let plan = plan("facebook-get", 1, 7);
    let tally = run_on(&map, &plan).unwrap().tally;
    assert_eq!((tally.hits, tally.puts), (1000, 0), "nothing is missing in a store");
}

#[test]
fn deletes_reach_every_key_once() {
    let map = Map::default();
    let plan = Plan { operations: 500, ..plan("turbohash-delete", 3, 4) };
    let run = run_on(&map, &plan).unwrap();
    assert_eq!((run.tally.deletes, map.map.lock().unwrap().len()), (500, 0));
}

/// Only `get_many` and `put_many`.
struct Plain(Map);

impl Target for Plain {
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        self.0.session(durability)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn metrics(&self) -> Result<MetricsMap> {
        Ok(MetricsMap::default())
    }
}

#[test]
fn a_store_without_the_ability_is_refused_before_the_run() {
    for (workload, word) in [("seekrandom", "scans"), ("turbohash-delete", "deletes")] {
        let refused = drive(&plan(workload, 1, 1), &Plain(Map::default()), "", &mut |_, _| {});
        let message = refused.err().unwrap().to_string();
        assert!(message.contains(word) && message.contains(workload), "{message}");
    }
}

#[test]
fn a_stall_at_a_fixed_rate_is_seen_by_all_who_wait_and_none_is_skipped() {
    // 1000 operations at 2000 a second; the 200th waits for 100 ms, so that 200 others are late:
    // a fifth of all, by 50 ms on average.
    let pause = Duration::from_millis(100);
    let plan = Plan { rate: 2000, ..plan("read", 1, 1) };
    let map = Map::with(Fault::Stalls(200, pause));
    // A busy machine may hold the run up besides, but not each time.
    let is_seen = (0..10).any(|_| {
        map.calls.store(0, Ordering::Relaxed);
        let begun = Instant::now();
        let run = run_on(&map, &plan).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(499));
        assert_eq!((run.tally.operations, run.tally.reads), (1000, 1000));
        let ms = |quantile| run.tally.latencies.quantile(quantile) as f64 / 1e6;
        println!("p50 {}, p90 {}, p99 {} ms", ms(0.5), ms(0.90), ms(0.99));
        assert!(ms(0.99) > 85.0 && ms(0.90) > 40.0);
        ms(0.5) < 40.0
    });
    assert!(is_seen, "half of all operations wait for 40 ms");
    // Without a rate one call is slow, and nobody waits behind it.
    let is_seen = (0..10).any(|_| {
        let map = Map::with(Fault::Stalls(200, pause));
        let run = run_on(&map, &Plan { rate: 0, ..plan }).unwrap();
        assert!(run.tally.latencies.max() >= 99_000_000, "{}", run.tally.latencies.max());
        run.tally.latencies.quantile(0.99) < 50_000_000
    });
    assert!(is_seen, "others wait behind the one that is slow");
}

/// Short slices with a pause before each, `left` of them at most.
struct Pauses {
    pause: Duration,
    left: usize,
    slices: Vec<Slice>,
    calls: Vec<u64>,
    map: Map,
}

impl Pauses {
    fn new(pause: Duration, left: usize) -> Self {
        Pauses { pause, left, slices: Vec::new(), calls: Vec::new(), map: Map::default() }
    }

    fn run(&mut self, plan: &Plan) -> Run {
        let map = std::mem::take(&mut self.map);
        if !plan.workload.is_fill() {
            fill(plan, &map, &mut |_, _| {}).unwrap();
        }
        drive_slices(plan, &map, &mut Watched { pauses: self, map: &map }).unwrap()
    }
}

struct Watched<'a> {
    pauses: &'a mut Pauses,
    map: &'a Map,
}

impl Pace for Watched<'_> {
    fn next(&mut self) -> Result<Option<Duration>> {
        let before = self.map.calls.load(Ordering::Relaxed);
        std::thread::sleep(self.pauses.pause);
        let after = self.map.calls.load(Ordering::Relaxed);
        self.pauses.calls.push(after - before);
        self.pauses.left = self.pauses.left.saturating_sub(1);
        Ok((self.pauses.left > 0).then_some(Duration::from_millis(1)))
    }

    fn done(&mut self, slice: &Slice) -> Result<()> {
        self.pauses.slices.push(*slice);
        Ok(())
    }

    fn sample(&mut self, _seconds: f64) {}
}

#[test]
fn a_run_in_slices_does_the_same_as_in_one() {
    for workload in WORKLOADS {
        let plan = plan(workload.name, 2, 7);
        let mut pauses = Pauses::new(Duration::ZERO, usize::MAX);
        let sliced = pauses.run(&plan);
        let slices = &pauses.slices;
        let sum: u64 = slices.iter().map(|slice| slice.operations).sum();
        assert_eq!(sum, sliced.tally.operations, "{}", workload.name);
        assert!(slices.last().unwrap().complete, "{}", workload.name);
        if !workload.split_roles {
            let whole = run_on(&Map::default(), &plan).unwrap();
            assert_eq!(sliced.tally.result_hash(), whole.tally.result_hash(), "{}", workload.name);
        }
    }
}

#[test]
fn between_slices_nothing_is_done_and_no_time_counts() {
    let pause = Duration::from_millis(20);
    for rate in [0, 20_000] {
        let plan = Plan { operations: u64::MAX, rate, ..plan("ycsb-a", 2, 1) };
        let mut pauses = Pauses::new(pause, 6);
        let begun = Instant::now();
        let run = pauses.run(&plan);
        let elapsed = begun.elapsed().as_secs_f64();
        assert_eq!((pauses.slices.len(), pauses.calls), (5, vec![0; 6]), "rate {rate}");
        let sum: f64 = pauses.slices.iter().map(|slice| slice.wall_seconds).sum();
        assert!((run.wall_seconds - sum).abs() < 1e-6, "{} {sum}", run.wall_seconds);
        // A thread that wakes up late has less of its slice; five of six pauses precede one.
        assert!(sum > 0.0 && sum + 6.0 * pause.as_secs_f64() <= elapsed, "{sum} of {elapsed}");
        // On a busy machine a slice may take longer, but no pause is part of any latency.
        let longest = pauses.slices.iter().map(|s| s.wall_seconds).fold(0.0, f64::max);
        assert!(run.tally.latencies.max() as f64 / 1e9 <= longest + 0.001, "rate {rate}");
        assert!(!pauses.slices.iter().any(|slice| slice.complete));
    }
}
