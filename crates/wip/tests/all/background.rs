//! What background work does to a store, and what a power cut in the middle of it does not.

use crate::small;
use silica_base::{HashSeed, Prng, Result, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, MetricsMap, WriteBatch};
use silica_wip::Wip;
use std::collections::BTreeMap;

fn open(device: &SimDevice, more: &[(&str, u64)]) -> Result<Wip<SimDevice>> {
    let options = small::options(&[&[("runs_max", 6)], more].concat());
    Wip::open(device.clone(), &options, &Environment::new(HashSeed([1; 16])))
}

fn device() -> SimDevice {
    SimDevice::new(1, SimOptions::default())
}

fn metrics(wip: &Wip<SimDevice>) -> MetricsMap {
    let mut metrics = MetricsMap::default();
    wip.metrics(&mut metrics);
    metrics
}

fn settle(wip: &Wip<SimDevice>) {
    while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

#[test]
fn overwriting_never_splits_for_ever_and_takes_no_more_room() {
    let wip = open(&device(), &[]).expect("it opens");
    let (keys, mut prng) = (2000, Prng::new(2));
    let put = |n: u64| wip.put(&key(n), &[n as u8; 80], Durability::Buffered).expect("a put");
    (0..keys).for_each(put);
    settle(&wip);
    let (live, mut buckets) = ((keys * 88) as f64, Vec::new());
    for _ in 0..test_size(20, 100, 1000) {
        (0..keys).for_each(|_| put(prng.below(keys)));
        settle(&wip);
        let now = metrics(&wip);
        buckets.push(now.get("buckets"));
        let space = now.get("table_bytes") / live;
        assert!(space < 2.5, "{space} times the entries, which fill few blocks");
    }
    // The estimate may be off by what memtables hold, so that buckets near the limit split.
    assert_eq!(buckets[buckets.len() / 2], buckets[buckets.len() - 1], "{buckets:?}");
    wip.verify().expect("every invariant");
}

#[test]
fn runs_that_nobody_reads_are_merged_when_there_is_nothing_else_to_do() {
    // New keys only: nothing but the number of runs has them merged.
    let large = [("memtable_bytes_max", 128 << 10), ("log_bytes_max", 512 << 10)];
    let options = [&large[..], &[("bucket_bytes_max", 1 << 30)]].concat();
    let wip = open(&device(), &options).expect("it opens");
    for n in 0..18_000 {
        wip.put(&key(n), &[1; 80], Durability::Buffered).expect("a put");
        if n % 8 == 0 {
            // Never all that is to be flushed.
            wip.maintain(Budget::amid_work(1 << 9)).expect("maintenance");
        }
    }
    let flushes = metrics(&wip).get("flushes");
    assert!(flushes > 8.0, "{flushes} are more than a level may have");
    while wip.maintain(Budget::amid_work(1 << 20)).expect("maintenance").more {}
    assert_eq!(metrics(&wip).get("compactions"), 0.0, "more may be written at any time");
    // In a quiet time the first merge begins; the others wait again once somebody writes.
    while metrics(&wip).get("compactions") == 0.0 {
        assert!(wip.maintain(Budget::of(1 << 12)).expect("maintenance").more);
    }
    settle(&wip);
    let idle = metrics(&wip);
    assert!(idle.get("compactions") > 0.0 && idle.get("runs") <= 7.0, "{} runs", idle.get("runs"));
    wip.verify().expect("every invariant");
}

#[test]
fn space_and_buckets_come_back_after_deletes() {
    let wip = open(&device(), &[("bucket_bytes_max", 256 << 10)]).expect("it opens");
    let keys = 6000;
    for n in 0..keys {
        wip.put(&key(n), &[1; 400], Durability::Buffered).expect("a put");
    }
    settle(&wip);
    let full = metrics(&wip);
    for n in 0..keys - 100 {
        wip.delete(&key(n), Durability::Buffered).expect("a delete");
    }
    // Until the log is so long that the last deletes are flushed.
    for _ in 0..300 {
        wip.put(&key(keys), &[1; 400], Durability::Buffered).expect("a put");
    }
    settle(&wip);
    let left = metrics(&wip);
    assert!(full.get("buckets") >= 4.0, "{} buckets", full.get("buckets"));
    assert!(left.get("buckets") < full.get("buckets") * 0.8, "{}", left.get("buckets"));
    assert!(left.get("bucket_joins") > 0.0, "small neighbours are joined");
    assert!(left.get("table_bytes") < full.get("table_bytes") / 3.0, "{}", left.get("table_bytes"));
    for n in 0..keys {
        assert_eq!(wip.get(&key(n)).expect("a get").is_some(), n >= keys - 100, "key {n}");
    }
}

#[test]
fn memtables_stay_inside_the_number_however_many_buckets_there_are() {
    let limits =
        [("first_buckets", 1000), ("memory_bytes", 1 << 20), ("memtable_bytes_max", 24 << 10)];
    let wip = open(&device(), &limits).expect("it opens");
    let mut shared = 0.0;
    let puts = test_size(30_000, 30_000, 3_000_000);
    for n in 0..puts {
        wip.put(&key(n), &[3; 40], Durability::Buffered).expect("a put");
        // Whoever asks for them waits for a look at every bucket.
        if n % (puts / 30) == 0 {
            let now = metrics(&wip);
            let memory = now.get("log_bytes") + now.get("memtable_index_bytes");
            assert!(memory <= f64::from(1 << 20), "{memory} bytes after {n} puts");
            shared = now.get("shared_flushes");
        }
    }
    assert!(metrics(&wip).get("buckets") >= 1000.0);
    assert!(shared > 0.0, "cold buckets are flushed together");
}

#[test]
fn log_segments_live_as_long_as_memtables_need_them() {
    let device = device();
    let limits = [("memtable_bytes_max", 4 << 20), ("log_bytes_max", 4 << 20)];
    let wip = open(&device, &limits).expect("it opens");
    let keys = 4000;
    for n in 0..keys {
        wip.put(&key(n), &n.to_le_bytes().repeat(10), Durability::Buffered).expect("a put");
        settle(&wip);
    }
    wip.sync().expect("a sync");
    let segments = device.list().expect("names").iter().filter(|n| n.starts_with("LOG")).count();
    assert!(segments > 20, "{segments} segments");
    std::mem::forget(wip);
    device.power_cut();
    let wip = open(&device.reopen(), &limits).expect("it opens");
    for n in 0..keys {
        let value = wip.get(&key(n)).expect("a get").expect("it was synced");
        assert_eq!(value, n.to_le_bytes().repeat(10), "key {n}");
    }
}

#[test]
fn dropping_a_store_leaves_nothing_of_the_jobs_in_hand() {
    let device = device();
    let wip = open(&device, &[]).expect("it opens");
    let tables = || device.list().expect("names").iter().filter(|n| n.starts_with("TAB")).count();
    let mut n = 0;
    // Until a step has begun a table and not ended it.
    loop {
        let before = (tables(), metrics(&wip).get("flushes"));
        wip.put(&key(n), &[1; 80], Durability::Buffered).expect("a put");
        wip.maintain(Budget::of(1)).expect("maintenance");
        if tables() > before.0 && metrics(&wip).get("flushes") == before.1 {
            break;
        }
        n += 1;
        assert!(n < 10_000, "no job is ever in the middle");
    }
    let before = tables();
    drop(wip);
    assert_eq!(tables(), before - 1, "the unfinished table is gone");
    let wip = open(&device, &[]).expect("it opens");
    (0..=n).for_each(|n| assert!(wip.get(&key(n)).expect("a get").is_some(), "key {n}"));
}

/// A step of a script: a key and whether it is put or deleted.
fn script() -> Vec<(u64, bool)> {
    // Splits; then joins; then little in many buckets.
    let fill = (0..700).map(|n| (n, true));
    let clear = (0..650).map(|n| (n, false));
    let again = (1000..1150).map(|n| (n, true));
    fill.chain(clear).chain(again).collect()
}

/// The store after the script, or after the power cut, and the steps that were acknowledged.
fn run(device: &SimDevice) -> (Option<MetricsMap>, usize) {
    let Ok(wip) = open(device, SCRIPT_LIMITS) else { return (None, 0) };
    for (step, (n, is_put)) in script().into_iter().enumerate() {
        let (key, mut batch) = (key(n), WriteBatch::new());
        let batch = if is_put { batch.put(&key, &[9; 60]) } else { batch.delete(&key) };
        let written = wip.write(batch, Durability::Synced);
        let done = written.and_then(|()| wip.maintain(Budget::of(4 << 10)));
        if device.is_cut() || done.is_err() {
            std::mem::forget(wip);
            return (None, step);
        }
    }
    (Some(metrics(&wip)), script().len())
}

const SCRIPT_LIMITS: &[(&str, u64)] = &[
    ("memtable_bytes_max", 64 << 10),
    ("log_bytes_max", 8 << 10),
    ("segment_bytes", 4 << 10),
    ("bucket_bytes_max", 32 << 10),
];

#[test]
fn a_power_cut_in_splits_joins_and_shared_flushes_leaves_one_answer() {
    let whole = device();
    let (found, _) = run(&whole);
    let found = found.expect("nothing fails");
    let names =
        ["bucket_splits", "bucket_joins", "shared_flushes", "compactions", "log_segments_recycled"];
    for name in names {
        assert!(found.get(name) > 0.0, "{name} happen");
    }
    let ops = whole.op_count();
    let stride = ops / test_size(60, 600, 6000);
    for cut in (1..ops).step_by(stride.max(1) as usize) {
        let device = device();
        device.cut_at_op(cut);
        let (_, steps) = run(&device);
        device.power_cut();
        let device = device.reopen();
        device.cut_at_op(u64::MAX);
        let wip = open(&device, SCRIPT_LIMITS).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        wip.verify().unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        let script = script();
        let model: BTreeMap<u64, bool> = script[..steps].iter().copied().collect();
        // The step that the cut met may have happened.
        let met = script.get(steps).map(|(n, _)| *n);
        for n in (0..1150).filter(|n| met != Some(*n)) {
            let is_there = wip.get(&key(n)).expect("a get").is_some();
            assert_eq!(is_there, model.get(&n) == Some(&true), "key {n}, cut at {cut}");
        }
    }
}

#[test]
fn filling_a_store_that_splits_writes_a_byte_for_each_level_at_most() {
    // Tables of many blocks, so that their ends weigh little.
    let limits = [
        ("memory_bytes", 64 << 20),
        ("memtable_bytes_max", 1 << 20),
        ("log_bytes_max", 4 << 20),
        ("segment_bytes", 256 << 10),
        ("bucket_bytes_max", 1 << 20),
        ("split_buckets", 8),
        ("runs_max", 20),
    ];
    let wip = open(&device(), &limits).expect("it opens");
    let keys = test_size(40_000, 60_000, 400_000);
    for n in 0..keys {
        wip.put(&key(n), &[1; 400], Durability::Buffered).expect("a put");
        if n % 64 == 0 {
            wip.maintain(Budget::amid_work(256 << 10)).expect("maintenance");
        }
    }
    let now = metrics(&wip);
    let tables = now.get("flush_bytes_written") + now.get("compaction_bytes_written");
    let (written, splits) = (tables / (keys * 408) as f64, now.get("bucket_splits"));
    assert!(splits >= 9.0, "{splits} splits are less than two generations of eight");
    // A flush, and for some entries a merge into a second level: 2.1 at most. Splits write nothing,
    // where the paper allows 8/7 for them.
    assert!((0.9..2.2).contains(&written), "{written:.2} bytes a byte, {splits} splits");
    println!("{written:.2} bytes a byte, {splits} splits");
}

/// Bytes of entries in the files of all tables, those that are being written included: each ends
/// with an index, a filter and a footer, which take a block or more each.
fn entry_bytes(device: &SimDevice) -> u64 {
    let names = device.list().expect("names").into_iter().filter(|name| name.starts_with("TABLE"));
    let len = |name: String| device.open(&name, Mode::Buffered).and_then(|file| file.len());
    names.map(|name| len(name).expect("a length").saturating_sub(3 * 4096)).sum()
}

/// The most bytes of table files that there were for each live byte of a model, while keys were
/// overwritten at random, `maintain` being called beside that or not; and that in the first round.
fn most_space(percent: u64, is_attended: bool) -> (f64, f64) {
    let keys = test_size(40_000, 80_000, 200_000);
    let limits = [
        ("memory_bytes", 16 << 20),
        ("bucket_bytes_max", 512 << 10),
        ("memtable_bytes_max", 1 << 20),
        ("log_bytes_max", 4 << 20),
        ("segment_bytes", 256 << 10),
        ("runs_max", 20),
        ("space_amplification_percent_max", percent),
    ];
    // Bytes of each key's entry, by its number.
    let (device, mut prng, mut model) = (device(), Prng::new(2), vec![0; keys as usize]);
    let wip = open(&device, &limits).expect("it opens");
    let (mut live, mut first, mut later): (u64, f64, f64) = (0, 0.0, 0.0);
    for n in 0..test_size(6, 8, 100) * keys {
        let number = if n < keys { n } else { prng.below(keys) };
        let key = key(number);
        let value = vec![n as u8; 40 + prng.below(80) as usize];
        wip.put(&key, &value, Durability::Buffered).expect("a put");
        let bytes = (key.len() + value.len()) as u64;
        live += bytes;
        live -= std::mem::replace(&mut model[number as usize], bytes);
        if is_attended && n % 64 == 0 {
            wip.maintain(Budget::amid_work(256 << 10)).expect("maintenance");
        }
        if n > keys && n % 250 == 0 {
            let space = entry_bytes(&device) as f64 / live as f64;
            let most = if n < 3 * keys { &mut first } else { &mut later };
            *most = most.max(space);
        }
    }
    println!("{percent} % allowed, attended: {is_attended}: {first:.2}, then {later:.2}");
    (first, later)
}

#[test]
fn the_store_keeps_to_its_space_while_writes_go_on() {
    for percent in [120, 140, 200] {
        let dead = percent as f64 / 100.0 - 1.0;
        // Estimates of dead bytes are too low by up to a third in tables of few entries. What
        // entries take besides keys and values, and the output of one compaction, come to a
        // quarter of what lives.
        let allowed = 1.25 + 1.5 * dead;
        for is_attended in [true, false] {
            let (first, later) = most_space(percent, is_attended);
            assert!(later < allowed, "{later:.2} of {percent} %, attended: {is_attended}");
            assert!(later > 1.0 + dead / 3.0, "{later:.2} of {percent} %: written too often");
            // While a store is split for the first time, writers alone fall behind.
            assert!(!is_attended || first < allowed, "{first:.2} of {percent} % at first");
        }
    }
}

#[test]
fn what_is_dead_is_known_without_filters() {
    for filter_bits in [0, 8] {
        // One bucket: what a split leaves of shared tables is dead, too.
        let more = [
            ("filter_bits", filter_bits),
            ("space_amplification_percent_max", 10_000),
            ("bucket_bytes_max", 1 << 30),
        ];
        let wip = open(&device(), &more).expect("it opens");
        let dead = || metrics(&wip).get("dead_bytes") / metrics(&wip).get("table_bytes");
        let put = |n: u64| wip.put(&key(n), &[n as u8; 80], Durability::Buffered).expect("a put");
        for n in 0..4000 {
            put(n);
        }
        assert!(dead() < 0.05, "new keys with {filter_bits} bits: {}", dead());
        for n in 0..4000 {
            put(n);
        }
        let twice = dead();
        assert!((0.3..0.55).contains(&twice), "twice with {filter_bits} bits: {twice}");
    }
}

#[test]
fn tombstones_are_dead_once_they_are_in_a_table() {
    for filter_bits in [3, 8] {
        // One bucket: after a split the tables that it shares out have dead bytes, too.
        let more = [
            ("filter_bits", filter_bits),
            ("space_amplification_percent_max", 10_000),
            ("bucket_bytes_max", 1 << 30),
        ];
        let wip = open(&device(), &more).expect("it opens");
        let dead = || metrics(&wip).get("dead_bytes");
        let tables = || metrics(&wip).get("table_bytes");
        for n in 0..4000 {
            wip.put(&key(n), &[n as u8; 80], Durability::Buffered).expect("a put");
        }
        // Of keys that are not there, so that nothing else is dead.
        let (dead_before, before) = (dead(), tables());
        for n in 10_000..16_000 {
            wip.delete(&key(n), Durability::Buffered).expect("a delete");
        }
        let (more_dead, more) = (dead() - dead_before, tables() - before);
        assert!(more > 0.0 && more_dead > 0.8 * more, "{more_dead} of {more}");
    }
}

/// The looks at which a writer had to help, by cause, where nobody else does background work.
fn slowed(more: &[(&str, u64)], keys: u64) -> [f64; 3] {
    let wip = open(&device(), more).expect("it opens");
    for n in 0..20_000 {
        wip.put(&key(n % keys), &[n as u8; 200], Durability::Buffered).expect("a put");
    }
    let metrics = metrics(&wip);
    let by = ["flush", "log", "compaction"];
    let slowed = by.map(|by| metrics.get(&format!("writes_slowed_by_{by}")));
    assert_eq!(slowed.iter().sum::<f64>(), metrics.get("writes_slowed"), "{slowed:?}");
    slowed
}

#[test]
fn metrics_name_what_slows_writers() {
    let (small, large) = (16 << 10, 4 << 20);
    let wide = ("bucket_bytes_max", large);
    let [flush, log, compaction] =
        slowed(&[("memtable_bytes_max", small), ("log_bytes_max", large), wide], u64::MAX);
    assert!(flush > 10.0 * (log + compaction).max(1.0), "{flush}, {log}, {compaction}");
    let [flush, log, compaction] =
        slowed(&[("memtable_bytes_max", large), ("log_bytes_max", small), wide], u64::MAX);
    assert!(log > 10.0 * (flush + compaction).max(1.0), "{flush}, {log}, {compaction}");
    // Somebody has to flush before anything can be merged; so the same with room to spare, too.
    let with_room_for = |runs, percent| {
        let limits = [("memtable_bytes_max", 96 << 10), ("log_bytes_max", large)];
        let limits = [&limits[..], &[("runs_max", runs), percent]].concat();
        slowed(&limits, 3000)
    };
    let [.., tight] = with_room_for(64, ("space_amplification_percent_max", 105));
    let [_, log, roomy] = with_room_for(64, ("space_amplification_percent_max", 10_000));
    assert!(tight > 5.0 && log + roomy == 0.0, "{tight}, {log}, {roomy}");
}

/// What writers waited for while 9 MiB were put into segments of 4 MiB, with `maintain` called
/// after every so many of 36,000 puts.
fn waited(maintain_every: usize, more: &[(&str, u64)]) -> [f64; 3] {
    let limits = [("segment_bytes", 4 << 20), ("memtable_bytes_max", 64 << 20)];
    let wip = open(&device(), &[&limits[..], more].concat()).expect("it opens");
    for n in 0..36_000usize {
        wip.put(&key(n as u64), &[n as u8; 220], Durability::Buffered).expect("a put");
        if n % maintain_every == 0 {
            wip.maintain(Budget::of(4 << 10)).expect("maintenance");
        }
    }
    let metrics = metrics(&wip);
    ["job", "sync", "segment"].map(|by| metrics.get(&format!("writes_waited_for_{by}")))
}

#[test]
fn metrics_name_what_writers_wait_for() {
    let roomy = ("log_bytes_max", 64 << 20);
    // Nobody attends to the store: writers make every segment (1, 2, 4 and 4 MiB) and sync what
    // comes before the ends of those but the first, which is too small for more than one look.
    let [job, sync, segment] = waited(usize::MAX, &[roomy]);
    assert!(job == 0.0 && sync >= 3.0 && segment >= 4.0, "{job}, {sync}, {segment}");
    // The next segment is there each time: only the first one is waited for, and no sync is, also
    // where much is not synced when one ends.
    let [job, sync, segment] = waited(2000, &[roomy]);
    assert_eq!([job, sync, segment], [0.0, 0.0, 1.0]);
    // Others have in hand what would make the log shorter, and do not end it.
    let [job, ..] = waited(usize::MAX, &[("log_bytes_max", 1 << 20)]);
    assert!(job > 0.0, "{job}");
}

#[test]
fn segments_of_the_log_are_used_again_and_spares_go_with_the_store() {
    let device = device();
    let log_files = || {
        let names = device.list().expect("a list").into_iter();
        names.filter(|name| name.starts_with("LOG-")).collect::<Vec<_>>()
    };
    let spares = || log_files().iter().filter(|name| name.contains("spare")).count();
    let wip = open(&device, &[]).expect("it opens");
    let mut most = 0;
    for n in 0..20_000 {
        wip.put(&key(n % 500), &[n as u8; 80], Durability::Buffered).expect("a put");
        if n % 20 == 0 {
            wip.maintain(Budget::of(64 << 10)).expect("maintenance");
            most = most.max(spares());
        }
    }
    let now = metrics(&wip);
    assert!(now.get("log_segments_recycled") > 50.0, "{now:?}");
    assert!((1..=2).contains(&most), "{most} spares");
    // The end of the process leaves spares, which the next open removes; so does an orderly close.
    settle(&wip);
    assert!(spares() > 0);
    let left = device.fork(1).reopen();
    drop(wip);
    assert_eq!(spares(), 0, "{:?}", log_files());
    for device in [&left, &device.reopen()] {
        let wip = open(device, &[]).expect("it opens");
        assert!(device.list().expect("a list").iter().all(|name| !name.contains("spare")));
        for n in 19_500..20_000 {
            let value = wip.get(&key(n % 500)).expect("a get");
            assert_eq!(value.as_deref(), Some(&[n as u8; 80][..]));
        }
    }
}

#[test]
fn ratios_say_what_was_written_and_what_is_stored() {
    let wip = open(&device(), &[]).expect("it opens");
    let none = metrics(&wip);
    assert_eq!((none.get("write_amplification"), none.get("space_amplification")), (0.0, 0.0));
    let keys = 3000;
    for n in 0..2 * keys {
        wip.put(&key(n % keys), &[n as u8; 80], Durability::Buffered).expect("a put");
    }
    settle(&wip);
    let now = metrics(&wip);
    let parts = ["log", "flush", "compaction"].map(|part| format!("{part}_bytes_written"));
    let written: f64 = parts.iter().map(|name| now.get(name)).sum();
    assert_eq!(now.get("write_amplification"), written / (2 * keys * 88) as f64);
    assert!(now.get("write_amplification") > 2.0, "a log and a table");
    let disk = now.get("table_bytes") + now.get("log_bytes");
    assert_eq!(now.get("disk_bytes"), disk);
    assert_eq!(now.get("space_amplification"), disk / now.get("live_bytes"));
    let entries = now.get("entries_estimate");
    assert!((keys as f64 * 0.9..keys as f64 * 1.3).contains(&entries), "{entries} of {keys}");
}
