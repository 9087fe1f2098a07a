//! What every engine does, call by call.

use super::harness::Harness;
use silica_engine::{
    Atomic, Budget, Capabilities, Checkpoint, Durability, Engine, EngineExt, EntryRef, ErrorKind,
    GetSink, MetricVisitor, MetricsMap, Result, Update, WriteBatch,
};
use std::collections::BTreeSet;

const NOW: Durability = Durability::Buffered;
/// A value over the limit costs no memory while nobody touches its zeroes, up to a point.
const OVERSIZED_BYTES_MAX: usize = 1 << 32;

/// Puts, gets, deletes, empty and large keys and values, limits, batches, bursts, meta, metrics
/// and views, each on an empty store.
///
/// # Panics
///
/// Where an answer is wrong.
pub fn basics<H: Harness>(harness: &mut H) {
    type Test<E> = (&'static str, fn(&E));
    let tried_bytes_max = harness.workload().tried_bytes_max;
    let tests: [Test<H::Engine>; 12] = [
        ("put, get, overwrite, delete", put_get_delete),
        ("empty keys and values", empty_keys_and_values),
        ("limits", limits),
        ("batches", batches),
        ("deletes of ranges", deletes_of_ranges),
        ("bursts", bursts),
        ("reads at hand", reads_at_hand),
        ("meta", meta),
        ("views", views),
        ("updates", updates),
        ("metrics", metrics),
        ("checkpoint", checkpoint),
    ];
    for (name, test) in tests {
        harness.wipe();
        let engine = harness.open().unwrap_or_else(|e| panic!("{name}: opening: {e}"));
        test(&engine);
        engine.verify().unwrap_or_else(|e| panic!("{name}: verification: {e}"));
    }
    harness.wipe();
    let engine = harness.open().expect("an empty store opens");
    sizes(&engine, tried_bytes_max);
    engine.verify().expect("verification of entries of all sizes");
}

/// Of batches; an engine without order refuses the whole batch.
fn deletes_of_ranges(engine: &impl Engine) {
    let all = |keys: &[&[u8]]| engine.get_all(keys).unwrap().iter().all(Option::is_some);
    for key in [b"a", b"b", b"c", b"d"] {
        engine.put(key, key, NOW).unwrap();
    }
    let mut batch = WriteBatch::new();
    batch.put(b"b2", b"gone").put(b"e", b"new").delete_range(b"b", Some(b"d")).put(b"c", b"new");
    batch.delete_range(b"d", Some(b"a")).delete_range(b"", Some(b""));
    let written = engine.write(&batch, NOW);
    if !engine.descriptor().capabilities.ordered {
        let error = written.expect_err("an engine without order deletes a range");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(all(&[b"a", b"b", b"c", b"d"]), "a refused batch changes nothing");
        assert_eq!(engine.get(b"e").unwrap(), None, "a refused batch changes nothing");
        return;
    }
    written.expect("an engine with order deletes ranges");
    assert!(all(&[b"a", b"d", b"e"]), "keys beside a deleted range");
    assert_eq!(engine.get(b"c").unwrap().as_deref(), Some(&b"new"[..]), "put after the range");
    assert_eq!(engine.get_all(&[b"b", b"b2"]).unwrap(), [None, None], "keys of a deleted range");
    let mut batch = WriteBatch::new();
    batch.delete_range(b"c", None);
    engine.write(&batch, NOW).unwrap();
    assert_eq!(engine.get_all(&[b"c", b"d", b"e"]).unwrap(), [None, None, None], "without end");
    assert!(all(&[b"a"]), "a key before a deleted range");
}

fn put_get_delete(engine: &impl Engine) {
    assert_eq!(engine.get(b"a").unwrap(), None, "an empty store has no key");
    engine.delete(b"a", NOW).expect("deleting a missing key is no error");
    engine.put(b"a", b"1", NOW).unwrap();
    assert_eq!(engine.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(engine.get(b"b").unwrap(), None);
    assert_eq!(engine.get(b"").unwrap(), None);
    engine.put(b"a", b"22", Durability::Synced).unwrap();
    assert_eq!(engine.get(b"a").unwrap().as_deref(), Some(&b"22"[..]), "overwritten");
    engine.delete(b"a", Durability::Synced).unwrap();
    assert_eq!(engine.get(b"a").unwrap(), None, "deleted");
    engine.put(b"a", b"3", NOW).unwrap();
    engine.sync().unwrap();
    engine.maintain(Budget::of(1 << 20)).unwrap();
    assert_eq!(engine.get(b"a").unwrap().as_deref(), Some(&b"3"[..]), "put again");
}

fn empty_keys_and_values(engine: &impl Engine) {
    engine.put(b"", b"empty key", NOW).unwrap();
    engine.put(b"empty value", b"", NOW).unwrap();
    assert_eq!(engine.get(b"").unwrap().as_deref(), Some(&b"empty key"[..]));
    assert_eq!(engine.get(b"empty value").unwrap().as_deref(), Some(&b""[..]));
    engine.put(b"", b"", NOW).unwrap();
    assert_eq!(engine.get(b"").unwrap().as_deref(), Some(&b""[..]), "both empty");
    engine.delete(b"", NOW).unwrap();
    assert_eq!(engine.get(b"").unwrap(), None);
    engine.write(&WriteBatch::new(), Durability::Synced).expect("an empty batch is fine");
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + len) as u8).collect()
}

/// Values around every power of two, and around usual block sizes.
fn sizes(engine: &impl Engine, tried_bytes_max: usize) {
    let max = engine.descriptor().limits.value_bytes_max.min(tried_bytes_max);
    let mut lens = BTreeSet::from([max - 1, max]);
    for power in (0..).map(|bit| 1 << bit).take_while(|power| *power < max) {
        lens.extend([power - 1, power, power + 1]);
    }
    let lens: Vec<usize> = lens.into_iter().filter(|len| *len <= max).collect();
    for len in &lens {
        let put = engine.put(&len.to_le_bytes(), &pattern(*len), NOW);
        put.unwrap_or_else(|e| panic!("a value of {len} bytes: {e}"));
    }
    for len in &lens {
        let value = engine.get(&len.to_le_bytes()).unwrap();
        assert!(value == Some(pattern(*len)), "a value of {len} bytes came back different");
    }
    let key_bytes_max = engine.descriptor().limits.key_bytes_max.min(tried_bytes_max);
    for len in [1, 2, 100, 255, 256, key_bytes_max - 1, key_bytes_max] {
        let key = pattern(len.min(key_bytes_max));
        engine.put(&key, b"long", NOW).unwrap_or_else(|e| panic!("a key of {len} bytes: {e}"));
        assert_eq!(engine.get(&key).unwrap().as_deref(), Some(&b"long"[..]), "key of {len}");
        assert_eq!(engine.get(&key[1..]).unwrap(), None, "the end of a key of {len} bytes");
    }
}

/// What is too large is refused as such, and nothing else of its batch happens.
fn limits(engine: &impl Engine) {
    let limits = engine.descriptor().limits;
    engine.put(b"here", b"before", NOW).unwrap();
    let refused = |result: Result<()>, what: &str| {
        let error = result.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{what}: {error}");
        assert_eq!(engine.get(b"here").unwrap().as_deref(), Some(&b"before"[..]), "{what}");
        assert_eq!(engine.get(b"new").unwrap(), None, "{what}");
    };
    if limits.key_bytes_max < OVERSIZED_BYTES_MAX {
        let key = vec![0; limits.key_bytes_max + 1];
        let mut batch = WriteBatch::new();
        batch.put(b"here", b"after").put(&key, b"").put(b"new", b"");
        refused(engine.write(&batch, NOW), "a key over the limit");
        assert_eq!(engine.get(&key).ok().flatten(), None, "a key over the limit is not there");
    }
    if limits.value_bytes_max < OVERSIZED_BYTES_MAX {
        let value = vec![0; limits.value_bytes_max + 1];
        let mut batch = WriteBatch::new();
        batch.put(b"here", b"after").put(b"new", &value);
        refused(engine.write(&batch, NOW), "a value over the limit");
    }
    let key = vec![1; limits.key_bytes_max.min(1 << 16)];
    if limits.batch_bytes_max / key.len().max(1) < 1 << 20 {
        let mut batch = WriteBatch::new();
        batch.delete(b"here");
        (0..=limits.batch_bytes_max / key.len()).for_each(|_| {
            batch.put(&key, b"");
        });
        refused(engine.write(&batch, NOW), "a batch over the limit");
    }
    engine.put(b"here", b"still works", NOW).unwrap();
}

fn batches(engine: &impl Engine) {
    engine.put(b"gone", b"0", NOW).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"1").put(b"b", b"2").delete(b"gone").delete(b"never there");
    batch.put(b"a", b"3").put(b"c", b"4").delete(b"c").delete(b"d").put(b"d", b"5");
    engine.write(&batch, Durability::Synced).unwrap();
    let values = engine.get_all(&[b"a", b"b", b"gone", b"c", b"d", b"never there"]).unwrap();
    let found: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
    let expected: [Option<&[u8]>; 6] = [Some(b"3"), Some(b"2"), None, None, Some(b"5"), None];
    assert_eq!(found, expected, "later operations of a batch win");
}

struct Calls(Vec<(usize, Vec<u8>)>);

impl GetSink for Calls {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0.push((index, entry.value.to_vec()));
    }
}

fn bursts(engine: &impl Engine) {
    engine.get_many(&[], &mut Calls(Vec::new())).expect("an empty burst is fine");
    engine.put(b"x", b"1", NOW).unwrap();
    engine.put(b"y", b"2", NOW).unwrap();
    let mut calls = Calls(Vec::new());
    engine.get_many(&[b"x", b"z", b"y", b"x", b"x"], &mut calls).unwrap();
    let in_order = calls.0.is_sorted_by_key(|(index, _)| *index);
    assert!(in_order || !engine.reports_in_order(), "a burst is reported in the order of its keys");
    calls.0.sort();
    let expected = [(0, &b"1"[..]), (2, b"2"), (3, b"1"), (4, b"1")];
    let expected = expected.map(|(index, value)| (index, value.to_vec()));
    assert_eq!(calls.0, expected, "each index of a burst is reported once");
    let keys: Vec<[u8; 8]> = (0..2000_u64).map(u64::to_le_bytes).collect();
    for key in keys.iter().step_by(2) {
        engine.put(key, key, NOW).unwrap();
    }
    let all: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    for (index, value) in engine.get_all(&all).unwrap().iter().enumerate() {
        let expected = (index % 2 == 0).then_some(all[index]);
        assert_eq!(value.as_deref(), expected, "key {index} of a large burst");
    }
}

/// What is at hand is told as it is, and what is not is left, each key once; it is the same before
/// and after background work, and once everything was read.
fn reads_at_hand(engine: &impl Engine) {
    let keys: Vec<[u8; 8]> = (0..1000_u64).map(u64::to_be_bytes).collect();
    let value = |key: &[u8; 8]| key.repeat(1 + usize::from(key[7] % 5) * 40);
    for key in keys.iter().filter(|key| !key[7].is_multiple_of(3)) {
        engine.put(key, &value(key), NOW).unwrap();
    }
    for key in keys.iter().filter(|key| key[7] % 9 == 1) {
        engine.delete(key, NOW).unwrap();
    }
    let is_there = |key: &[u8; 8]| !key[7].is_multiple_of(3) && key[7] % 9 != 1;
    let all: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    let check = |moment: &str| {
        let (mut calls, mut left) = (Calls(Vec::new()), vec![usize::MAX]);
        engine.get_many_at_hand(&all, &mut calls, &mut left).unwrap();
        assert_eq!(left.remove(0), usize::MAX, "what was left before stays, {moment}");
        let mut told = vec![None; keys.len()];
        for (index, value) in calls.0 {
            assert!(told[index].replace(value).is_none(), "key {index} is told twice, {moment}");
        }
        for index in &left {
            assert!(told[*index].replace(Vec::new()).is_none(), "{index} is left, too, {moment}");
        }
        left.sort_unstable();
        for (index, key) in keys.iter().enumerate().filter(|(i, _)| left.binary_search(i).is_err())
        {
            let expected = is_there(key).then(|| value(key));
            assert_eq!(told[index], expected, "key {index}, {moment}");
        }
        left.len()
    };
    check("just written");
    while engine.maintain(Budget::of(1 << 20)).unwrap().more {}
    check("after background work");
    for key in &all {
        engine.get(key).unwrap();
    }
    let left = check("after everything was read");
    let may_wait = engine.descriptor().capabilities.may_wait;
    assert!(may_wait || left == 0, "an engine that never waits leaves nothing");
}

#[derive(Default)]
struct Meta(Option<(Vec<u8>, u64, u32)>);

impl GetSink for Meta {
    fn found(&mut self, _index: usize, entry: EntryRef<'_>) {
        self.0 = Some((entry.value.to_vec(), entry.expires_unix_ms, entry.user_bits));
    }
}

fn meta(engine: &impl Engine) {
    let far = u64::MAX >> 16;
    let cases = [(0, 0), (far, 0), (0, u32::MAX), (far + 1, 1), (far - 1, 1 << 31)];
    let keys: Vec<[u8; 1]> = (0..cases.len() as u8).map(|n| [n]).collect();
    for value in [&b""[..], b"value"] {
        for (key, (expires_unix_ms, user_bits)) in keys.iter().zip(cases) {
            let mut batch = WriteBatch::new();
            batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits });
            engine.write(&batch, NOW).unwrap();
        }
        for (key, (expires_unix_ms, user_bits)) in keys.iter().zip(cases) {
            let mut found = Meta::default();
            engine.get_many(&[key], &mut found).unwrap();
            assert_eq!(found.0, Some((value.to_vec(), expires_unix_ms, user_bits)), "meta");
        }
    }
    engine.put(&keys[3], b"plain", NOW).unwrap();
    let mut found = Meta::default();
    engine.get_many(&[&keys[3]], &mut found).unwrap();
    assert_eq!(found.0, Some((b"plain".to_vec(), 0, 0)), "a plain put takes meta away");
}

fn views(engine: &impl Engine) {
    let Capabilities { scan, atomic, admin, .. } = engine.descriptor().capabilities;
    assert!(!engine.descriptor().name.is_empty());
    assert_eq!(engine.as_scan().is_some(), scan, "as_scan and its capability");
    assert_eq!(engine.as_atomic().is_some(), atomic, "as_atomic and its capability");
    assert_eq!(engine.as_admin().is_some(), admin, "as_admin and its capability");
    let Some(admin) = engine.as_admin() else { return };
    assert_eq!(admin.count(true).unwrap().estimate, 0, "an empty store");
    engine.put(b"a", b"1", NOW).unwrap();
    engine.put(b"b", b"1", NOW).unwrap();
    engine.put(b"a", b"2", NOW).unwrap();
    engine.delete(b"b", NOW).unwrap();
    let count = admin.count(true).unwrap();
    assert_eq!((count.low, count.estimate, count.high), (1, 1, 1), "an exact count");
    assert!(!admin.inspect().unwrap().is_empty());
    admin.clear().unwrap();
    assert_eq!(engine.get(b"a").unwrap(), None, "cleared");
    assert_eq!(admin.count(true).unwrap().high, 0, "cleared");
    engine.put(b"a", b"3", NOW).unwrap();
    assert_eq!(engine.get(b"a").unwrap().as_deref(), Some(&b"3"[..]), "put after clearing");
}

fn updates(engine: &impl Engine) {
    let Some(atomic) = engine.as_atomic() else { return };
    let update = |decision: Update| {
        let mut seen = None;
        let result = Atomic::update(atomic, b"key", NOW, &mut |current| {
            seen = current.map(|entry| (entry.value.to_vec(), entry.user_bits));
            decision.clone()
        });
        result.map(|()| seen)
    };
    let value = b"1".to_vec();
    assert_eq!(update(Update::Keep).unwrap(), None);
    assert_eq!(update(Update::Delete).unwrap(), None);
    assert_eq!(engine.get(b"key").unwrap(), None);
    let put = Update::Put { value: value.clone(), expires_unix_ms: 0, user_bits: 7 };
    assert_eq!(update(put).unwrap(), None);
    assert_eq!(update(Update::Keep).unwrap(), Some((value.clone(), 7)), "update sees meta");
    assert_eq!(engine.get(b"key").unwrap(), Some(value.clone()), "Keep keeps");
    assert_eq!(update(Update::put(b"2".to_vec())).unwrap(), Some((value, 7)));
    assert_eq!(update(Update::Delete).unwrap(), Some((b"2".to_vec(), 0)));
    assert_eq!(engine.get(b"key").unwrap(), None, "deleted by an update");
    let limit = engine.descriptor().limits.value_bytes_max;
    if limit < OVERSIZED_BYTES_MAX {
        let error = update(Update::put(vec![0; limit + 1])).expect_err("a value over the limit");
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }
}

#[derive(Default)]
struct Names(BTreeSet<&'static str>);

impl MetricVisitor for Names {
    fn metric(&mut self, name: &'static str, value: f64) {
        assert!(self.0.insert(name), "metric {name} is reported twice");
        assert!(value.is_finite() && value >= 0.0, "metric {name} is {value}");
    }
}

fn metrics(engine: &impl Engine) {
    engine.metrics(&mut Names::default());
    engine.put(b"a", b"1", NOW).unwrap();
    engine.delete(b"b", NOW).unwrap();
    engine.get_all(&[b"a", b"b"]).unwrap();
    engine.metrics(&mut Names::default());
    let mut map = MetricsMap::default();
    engine.metrics(&mut map);
    let expected = [("gets", 2.0), ("get_hits", 1.0), ("puts", 1.0), ("deletes", 1.0)];
    for (name, value) in expected {
        assert_eq!(map.get(name), value, "metric {name}");
    }
}

#[derive(Default)]
struct Collected(Vec<String>);

impl Checkpoint for Collected {
    fn immutable(&mut self, name: &str) -> Result<()> {
        self.0.push(name.to_string());
        Ok(())
    }

    fn piece(&mut self, name: &str, _bytes: &[u8]) -> Result<()> {
        if self.0.last().is_none_or(|last| last != name) {
            self.0.push(name.to_string());
        }
        Ok(())
    }
}

/// A checkpoint is taken and leaves the store as it is; that it opens is the engine's own test.
fn checkpoint(engine: &impl Engine) {
    let Some(admin) = engine.as_admin() else { return };
    engine.put(b"a", b"1", Durability::Synced).unwrap();
    let mut files = Collected::default();
    match admin.checkpoint(&mut files) {
        Ok(()) => assert!(!files.0.is_empty(), "a checkpoint has files"),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}"),
    }
    let unique: BTreeSet<&String> = files.0.iter().collect();
    assert_eq!(unique.len(), files.0.len(), "each file of a checkpoint comes once");
    assert_eq!(engine.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}
