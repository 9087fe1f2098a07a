//! Values that lie apart: they come back, their space comes back, and nobody sees them go.

use silica_base::{HashSeed, ManualClock, Prng, Result};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{
    Budget, Checkpoint, Durability, Engine, EngineExt, EntryRef, Environment, ErrorKind, GetSink,
    KeyRange, MetricsMap, OptionValues, Ordered, Update, WriteBatch,
};
use silica_wip::{Wip, repair};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Values over 40 bytes lie apart, and a segment holds a few of them.
fn options() -> OptionValues {
    let mut options = OptionValues::default();
    for (name, value) in [
        ("memory_bytes", 1 << 20),
        ("memtable_bytes_max", 16 << 10),
        ("log_bytes_max", 64 << 10),
        ("segment_bytes", 16 << 10),
        ("runs_max", 4),
        ("bucket_bytes_max", 64 << 10),
        ("split_buckets", 3),
        ("inline_value_bytes_max", 40),
        ("value_log_segment_bytes", 16 << 10),
    ] {
        options.set(name, value);
    }
    options
}

fn environment() -> Environment {
    Environment::new(HashSeed([7; 16]))
}

fn open(device: &SimDevice) -> Arc<Wip<SimDevice>> {
    Arc::new(Wip::open(device.clone(), &options(), &environment()).expect("it opens"))
}

fn device(seed: u64) -> SimDevice {
    SimDevice::new(seed, SimOptions::default())
}

fn value_files(device: &SimDevice) -> Vec<String> {
    let names = device.list().expect("names");
    names.into_iter().filter(|name| name.starts_with("VALUE-")).collect()
}

fn value_bytes(device: &SimDevice) -> usize {
    let len = |name: &String| device.peek(name).expect("a file").len();
    value_files(device).iter().map(len).sum()
}

fn settle(wip: &Wip<SimDevice>) {
    while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
}

fn large(prng: &mut Prng, more: u64) -> Vec<u8> {
    let mut value = vec![0; 41 + prng.below(more) as usize];
    prng.fill(&mut value);
    value
}

fn put(wip: &Wip<SimDevice>, key: &[u8], value: &[u8]) {
    wip.put(key, value, Durability::Buffered).expect("a put");
}

/// The value of the only key that was asked for.
struct Found(Option<Vec<u8>>);

impl GetSink for Found {
    fn found(&mut self, _index: usize, entry: EntryRef<'_>) {
        self.0 = Some(entry.value.to_vec());
    }
}

/// All entries of a snapshot of now, by an iterator in one direction.
fn entries(snapshot: &Arc<dyn silica_engine::Snapshot>, backwards: bool) -> Model {
    let mut iter = Arc::clone(snapshot).iterate(&KeyRange::ALL).expect("an iterator");
    let mut found = Model::new();
    let mut is_there =
        if backwards { iter.seek_to_last() } else { iter.seek_to_first() }.expect("a search");
    while is_there {
        found.insert(iter.key().to_vec(), iter.entry().value.to_vec());
        is_there = if backwards { iter.prev() } else { iter.next() }.expect("a step");
    }
    found
}

fn check(wip: &Arc<Wip<SimDevice>>, model: &Model) {
    for (key, value) in model {
        let found = wip.get(key).expect("a get");
        assert_eq!(found.as_ref(), Some(value), "{}", key.escape_ascii());
    }
    let snapshot = Arc::clone(wip).snapshot().expect("a snapshot");
    assert!(entries(&snapshot, false) == *model, "forwards");
    assert!(entries(&snapshot, true) == *model, "backwards");
}

/// Overwrites and deletes entries of 80 keys.
fn churn(wip: &Wip<SimDevice>, model: &mut Model, prng: &mut Prng, steps: usize) {
    for _ in 0..steps {
        let key = format!("key {}", prng.below(80)).into_bytes();
        match prng.below(8) {
            0 => {
                wip.delete(&key, Durability::Buffered).expect("a delete");
                model.remove(&key);
            }
            kind => {
                let value = if kind < 3 { vec![7; 20] } else { large(prng, 1500) };
                put(wip, &key, &value);
                model.insert(key, value);
            }
        }
    }
}

#[test]
fn overwritten_values_give_their_space_back_and_live_ones_stay() {
    let device = device(1);
    let mut wip = open(&device);
    let (mut model, mut prng) = (Model::new(), Prng::new(5));
    let (mut live_max, mut written) = (0, 0.0);
    for round in 0..12 {
        churn(&wip, &mut model, &mut prng, 300);
        settle(&wip);
        check(&wip, &model);
        live_max = live_max.max(model.values().map(Vec::len).sum::<usize>());
        if round % 4 == 3 {
            let mut metrics = MetricsMap::default();
            wip.metrics(&mut metrics);
            written += metrics.get("value_log_bytes_written");
            wip.verify().expect("every invariant");
            drop(wip);
            wip = open(&device);
            check(&wip, &model);
        }
    }
    // Half of each full segment may be garbage; memtables and runs keep some old values.
    let there = value_bytes(&device);
    assert!(there < 4 * live_max, "{there} bytes for {live_max} live ones");
    assert!(written > 10.0 * live_max as f64, "{written} bytes were written");
}

#[test]
fn what_a_compaction_drops_gives_its_space_back() {
    let device = device(13);
    let wip = open(&device);
    let mut prng = Prng::new(14);
    let mut live = 0;
    for _ in 0..4 {
        live = 0;
        for n in 0..200u32 {
            let value = large(&mut prng, 900);
            live += value.len();
            put(&wip, &n.to_be_bytes(), &value);
        }
        // So no memtable meets an older version.
        wip.compact_range(&KeyRange::ALL).expect("a compaction");
        settle(&wip);
    }
    let there = value_bytes(&device);
    assert!(there < 2 * live + (32 << 10), "{there} bytes for {live} live ones");
}

#[test]
fn a_snapshot_keeps_its_values_while_everything_is_overwritten() {
    let device = device(2);
    let wip = open(&device);
    let (mut model, mut prng) = (Model::new(), Prng::new(6));
    // Nothing is reclaimed before the snapshot: segments that it needs are mostly garbage.
    churn(&wip, &mut model, &mut prng, 600);
    let (before, snapshot) = (model.clone(), Arc::clone(&wip).snapshot().expect("a snapshot"));
    let mut iter = Arc::clone(&snapshot).iterate(&KeyRange::ALL).expect("an iterator");
    assert!(iter.seek_to_first().expect("a search"));
    for _ in 0..6 {
        churn(&wip, &mut model, &mut prng, 600);
        settle(&wip);
    }
    assert!(entries(&snapshot, false) == before && entries(&snapshot, true) == before);
    for (key, value) in &before {
        let mut found = Found(None);
        snapshot.get_many(&[key], &mut found).expect("a get");
        assert_eq!(found.0.as_ref(), Some(value));
    }
    let held = value_bytes(&device);
    let mut passed = 1;
    while iter.next().expect("a step") {
        passed += 1;
    }
    assert_eq!(passed, before.len());
    drop((iter, snapshot));
    churn(&wip, &mut model, &mut prng, 600);
    settle(&wip);
    check(&wip, &model);
    assert!(value_bytes(&device) < held, "what only the snapshot saw is gone");
}

#[test]
fn a_cleared_store_has_no_values_unless_somebody_still_reads_them() {
    let device = device(3);
    let wip = open(&device);
    let mut prng = Prng::new(7);
    for n in 0..200u32 {
        put(&wip, &n.to_be_bytes(), &large(&mut prng, 900));
    }
    settle(&wip);
    assert!(value_files(&device).len() > 4);
    let admin = wip.as_admin().expect("the view");
    admin.clear().expect("it clears");
    assert_eq!(value_files(&device), Vec::<String>::new());
    let value = large(&mut prng, 900);
    wip.put(b"new", &value, Durability::Synced).expect("a put");
    drop(wip);
    device.power_cut();
    let wip = open(&device.reopen());
    assert_eq!(wip.get(b"new").expect("a get"), Some(value));
}

#[test]
fn values_of_many_sizes_come_back_and_too_large_ones_are_refused() {
    let wip = open(&device(4));
    let value: Vec<u8> = (0..20_000_000u32).map(|i| (i % 253) as u8).collect();
    for len in [0, 40, 41, 4096, 1 << 20, (1 << 20) + 1, value.len()] {
        wip.put(b"big", &value[..len], Durability::Synced).expect("a put");
        let found = wip.get(b"big").expect("a get");
        assert!(found.as_deref() == Some(&value[..len]), "{len} bytes");
    }
    let too_large = vec![0; silica_wip::VALUE_BYTES_MAX + 1];
    let error = wip.put(b"big", &too_large, Durability::Buffered).expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let atomic = wip.as_atomic().expect("the view");
    let mut append = |current: Option<EntryRef<'_>>| {
        let value = [current.expect("it is there").value, b"more"].concat();
        Update::Put { value, expires_unix_ms: 0, user_bits: 9 }
    };
    atomic.update(b"big", Durability::Buffered, &mut append).expect("an update");
    let found = wip.get(b"big").expect("a get").expect("it is there");
    assert!(found.len() == value.len() + 4 && found.ends_with(b"more"));
}

#[test]
fn without_the_option_the_memory_says_which_values_lie_apart() {
    // 1/64 of the memory, but 64 KiB at least and what a record of the log takes at most.
    for (memory_bytes, inline_bytes) in [(1 << 20, 64 << 10), (256 << 20, 4 << 20)] {
        let mut options = OptionValues::default();
        options.set_memory_bytes(memory_bytes);
        let device = device(5);
        let wip = Wip::open(device.clone(), &options, &environment()).expect("opens");
        wip.put(b"inline", &vec![1; inline_bytes], Durability::Synced).expect("a put");
        assert_eq!(value_files(&device), Vec::<String>::new());
        let value = vec![2; inline_bytes + 1];
        wip.put(b"apart", &value, Durability::Synced).expect("a put");
        assert_eq!(value_files(&device).len(), 1);
        drop(wip);
        device.power_cut();
        let wip = Wip::open(device.reopen(), &options, &environment()).expect("opens");
        assert!(wip.get(b"apart").expect("a get") == Some(value));
    }
}

#[test]
fn a_batch_with_values_apart_is_whole_or_absent_after_any_power_cut() {
    let script = |wip: &Wip<SimDevice>, acknowledged: &mut u32| -> Result<()> {
        for round in 0..8u32 {
            let (small, value) = ([round as u8], vec![round as u8; 300 + 700 * round as usize]);
            let mut batch = WriteBatch::new();
            batch.put(b"a", &value);
            batch.put(b"small", &small);
            batch.put(b"b", &value);
            wip.write(&batch, Durability::Synced)?;
            *acknowledged = round + 1;
            wip.maintain(Budget::of(1 << 20))?;
        }
        Ok(())
    };
    let mut at = 0;
    loop {
        let device = device(at);
        device.cut_at_op(at + 1);
        let mut acknowledged = 0;
        let opened = Wip::open(device.clone(), &options(), &environment());
        let done = opened.and_then(|wip| script(&wip, &mut acknowledged));
        if done.is_ok() {
            return;
        }
        device.power_cut();
        let wip = open(&device.reopen());
        wip.verify().unwrap_or_else(|error| panic!("cut at {at}: {error}"));
        let get = |key: &[u8]| wip.get(key).expect("a get");
        let round = get(b"small").map(|value| u32::from(value[0]));
        assert!(round.map_or(0, |round| round + 1) >= acknowledged, "cut at {at}");
        let wanted = round.map(|round| vec![round as u8; 300 + 700 * round as usize]);
        assert!(get(b"a") == wanted && get(b"b") == wanted, "cut at {at}");
        at += 3;
    }
}

#[test]
fn expired_values_are_not_moved_and_do_not_come_back() {
    let (device, clock) = (device(6), Arc::new(ManualClock::default()));
    let environment = || Environment { clock: clock.clone(), seed: HashSeed([7; 16]) };
    let wip = Wip::open(device.clone(), &options(), &environment()).expect("opens");
    let mut prng = Prng::new(8);
    let mut batch = WriteBatch::new();
    let values: Vec<_> = (0..100u32).map(|_| large(&mut prng, 900)).collect();
    let keys: Vec<_> = (0..100u32).map(u32::to_be_bytes).collect();
    for (n, (key, value)) in keys.iter().zip(&values).enumerate() {
        let expires_unix_ms = if n % 4 == 0 { 0 } else { 1000 };
        batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits: n as u32 });
    }
    wip.write(&batch, Durability::Synced).expect("a write");
    clock.advance_ns(2_000_000_000);
    // Overwritten until segments are mostly garbage.
    for _ in 0..3 {
        for n in (0..100u32).filter(|n| n % 4 == 1 || n % 4 == 2) {
            put(&wip, &n.to_be_bytes(), &large(&mut prng, 900));
        }
        settle(&wip);
    }
    wip.verify().expect("every invariant");
    clock.advance_ns(500_000_000u64.wrapping_sub(2_000_000_000));
    for (n, value) in values.iter().enumerate().filter(|(n, _)| n % 4 == 0) {
        assert_eq!(wip.get(&keys[n]).expect("a get").as_ref(), Some(value));
    }
    let left = keys.iter().skip(3).step_by(4);
    let left =
        left.filter(|key| wip.get(*key).expect("no error, whatever the clock says").is_some());
    assert!(left.count() < 25, "some were in segments that are gone");
}

struct Copied<'d> {
    from: &'d SimDevice,
    to: SimDevice,
    lens: BTreeMap<String, u64>,
    meanwhile: &'d mut dyn FnMut(),
}

impl Checkpoint for Copied<'_> {
    fn immutable(&mut self, name: &str) -> Result<()> {
        (self.meanwhile)();
        let bytes = self.from.peek(name).expect("the file is there");
        self.piece(name, &bytes)
    }

    fn piece(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        (self.meanwhile)();
        let len = self.lens.entry(name.to_owned()).or_default();
        let file = match *len {
            0 => self.to.create(name, Mode::Buffered)?,
            _ => self.to.open(name, Mode::Buffered)?,
        };
        file.write_at(*len, bytes)?;
        *len += bytes.len() as u64;
        file.sync()
    }
}

#[test]
fn a_checkpoint_has_the_values_of_its_moment_while_segments_go() {
    let device = device(9);
    let wip = open(&device);
    let (mut model, mut prng) = (Model::new(), Prng::new(10));
    churn(&wip, &mut model, &mut prng, 500);
    let (before, files) = (model.clone(), value_files(&device));
    let mut meanwhile = || {
        churn(&wip, &mut model, &mut prng, 50);
        settle(&wip);
    };
    let to = SimDevice::new(2, SimOptions::default());
    let mut copied =
        Copied { from: &device, to: to.clone(), lens: BTreeMap::new(), meanwhile: &mut meanwhile };
    wip.as_admin().expect("the view").checkpoint(&mut copied).expect("a checkpoint");
    to.sync_dir().expect("synced");
    assert!(files.iter().any(|name| !value_files(&device).contains(name)), "old ones go after it");
    let copy = open(&to);
    copy.verify().expect("every invariant");
    check(&copy, &before);
    check(&wip, &model);
}

#[test]
fn a_repair_loses_the_values_that_are_damaged_and_no_others() {
    let device = device(11);
    let wip = open(&device);
    let (mut model, mut prng) = (Model::new(), Prng::new(12));
    churn(&wip, &mut model, &mut prng, 500);
    settle(&wip);
    drop(wip);
    let files = value_files(&device);
    let name = files.first().expect("a segment");
    let bytes = device.peek(name).expect("a file");
    device.poke(name, bytes.len() as u64 / 2, &[bytes[bytes.len() / 2] ^ 1]);
    let done = repair(device.clone(), &options(), &environment()).expect("a repair");
    let wip = open(&device);
    wip.verify().expect("every invariant");
    let lost: Vec<_> = model
        .iter()
        .filter(|(key, value)| wip.get(key).expect("a get").as_ref() != Some(value))
        .collect();
    match &done.aside {
        // Nobody asks for what was hit.
        None => assert!(lost.is_empty(), "{done:?}"),
        Some(_) => {
            assert_eq!(lost.len(), 1, "{done:?}");
            let key = lost[0].0.escape_ascii().to_string();
            assert!(done.findings.iter().any(|what| what.contains(&key)), "{done:?}");
        }
    }
    assert!(done.entries as usize == model.len() - lost.len());
    model.retain(|key, _| wip.get(key).expect("a get").is_some());
    churn(&wip, &mut model, &mut prng, 500);
    settle(&wip);
    check(&wip, &model);
}

/// Every key that was found, in the order in which they were reported.
#[derive(Default)]
struct Reported(Vec<(usize, Vec<u8>)>);

impl GetSink for Reported {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0.push((index, entry.value.to_vec()));
    }
}

#[test]
fn the_values_of_a_burst_are_read_together() {
    let device = device(3);
    let wip = open(&device);
    let mut prng = Prng::new(3);
    let key = |n: usize| format!("key {n:04}").into_bytes();
    // The fourth of each six is missing, the fifth is short, and the last is read alone.
    let value = |n: usize, prng: &mut Prng| match n % 6 {
        3 => None,
        4 => Some(vec![n as u8; 30]),
        5 => Some(vec![n as u8; (200 << 10) + n]),
        _ => Some(large(prng, 9000)),
    };
    let values: Vec<_> = (0..60).map(|n| value(n, &mut prng)).collect();
    for (n, value) in values.iter().enumerate() {
        value.iter().for_each(|value| put(&wip, &key(n), value));
    }
    let keys: Vec<_> = (0..60).chain(0..10).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let burst = || {
        let mut found = Reported::default();
        wip.get_many(&keys, &mut found).expect("a burst");
        let order: Vec<usize> = found.0.iter().map(|(index, _)| *index).collect();
        found.0.sort();
        let all = (0..70).filter_map(|n| Some((n, values[n % 60].clone()?)));
        assert!(found.0 == all.collect::<Vec<_>>(), "each once, with its own value");
        order
    };
    // All pointers are in memory: short values come at once, and of the others the simulated device
    // ends those reads in any order that are under way together.
    let order = burst();
    let apart = |index: &&usize| matches!(**index % 60 % 6, 0..3);
    assert!(!order.iter().filter(apart).is_sorted(), "one read was waited for after the other");
    // From tables, and from segments that were settled.
    wip.sync().expect("a sync");
    settle(&wip);
    burst();
}

#[test]
fn a_value_that_does_not_match_its_checksum_fails_its_burst() {
    let device = device(4);
    let wip = open(&device);
    for n in 0..20u8 {
        put(&wip, &[n], &[n; 2000]);
    }
    let name = &value_files(&device)[0];
    let bytes = device.peek(name).expect("a file");
    let at = bytes.iter().rposition(|byte| *byte == 3).expect("a byte of the fourth value");
    device.poke(name, at as u64, &[99]);
    let keys: Vec<[u8; 1]> = (0..20).map(|n| [n]).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let error = wip.get_many(&keys, &mut Reported::default()).expect_err("it is damaged");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    wip.get_many(&keys[4..], &mut Reported::default()).expect("the others are as they were");
}

/// Calls `before_first` when the first key is reported.
struct Interrupted<'t> {
    before_first: Option<Box<dyn FnOnce() + 't>>,
    reported: Reported,
}

impl GetSink for Interrupted<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        if let Some(before_first) = self.before_first.take() {
            before_first();
        }
        self.reported.found(index, entry);
    }
}

#[test]
fn keys_of_a_burst_whose_values_move_meanwhile_are_looked_up_again() {
    let device = device(15);
    let wip = open(&device);
    let mut prng = Prng::new(15);
    let compact = || {
        wip.compact_range(&KeyRange::ALL).expect("a compaction");
        settle(&wip);
    };
    // Those of one digit stay. One is short, so that it is reported at once: the one that is looked
    // at first, with nothing of the others in flight.
    let mut model = Model::new();
    for n in 1..200u32 {
        let value = if n == 4 { vec![4; 20] } else { large(&mut prng, 900) };
        let key = n.to_string().into_bytes();
        put(&wip, &key, &value);
        model.insert(key, value);
    }
    compact();
    check(&wip, &model);
    // They were put one after the other, so it has them all.
    let first = &value_files(&device).into_iter().min().expect("a file");
    model.retain(|key, _| key.len() == 1);
    let overwrite = || {
        (10..200u32).for_each(|n| put(&wip, n.to_string().as_bytes(), b"short"));
        compact();
        assert!(!value_files(&device).contains(first), "its values have to move");
        // Where they moved to has to be looked up in tables.
        compact();
    };
    let keys: Vec<&[u8]> = model.keys().map(|key| &key[..]).collect();
    let before_first: Option<Box<dyn FnOnce()>> = Some(Box::new(overwrite));
    let mut found = Interrupted { before_first, reported: Reported::default() };
    wip.get_many(&keys, &mut found).expect("a burst");
    found.reported.0.sort();
    let all: Vec<_> = model.values().cloned().enumerate().collect();
    assert!(found.reported.0 == all, "each once, with its own value");
}
