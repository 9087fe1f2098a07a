use crate::Wip;
use crate::run_cursor::RunCursor;
use silica_base::{HashSeed, Prng, test_size};
use silica_device::Device;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, OptionValues};
use std::collections::BTreeMap;

fn options() -> OptionValues {
    let mut options = OptionValues::default();
    for (name, value) in [
        ("memory_bytes", 8 << 20),
        ("memtable_bytes_max", 16 << 10),
        ("log_bytes_max", 64 << 10),
        ("segment_bytes", 16 << 10),
        ("runs_max", 4),
        ("space_amplification_percent_max", 160),
        ("bucket_bytes_max", 64 << 10),
        ("split_buckets", 4),
    ] {
        options.set(name, value);
    }
    options
}

fn open(device: &SimDevice) -> Wip<SimDevice> {
    let environment = Environment::new(HashSeed([1; 16]));
    Wip::open(device.clone(), &options(), &environment).expect("it opens")
}

#[test]
fn buckets_split_and_everything_stays() {
    let device = SimDevice::new(1, SimOptions::default());
    let mut wip = open(&device);
    let (mut model, mut prng) = (BTreeMap::new(), Prng::new(1));
    let mut buckets = 1;
    for n in 0..test_size(40_000, 200_000, 2_000_000) {
        let key = prng.below(1 << 40).to_be_bytes();
        let value = vec![n as u8; prng.below(60) as usize];
        wip.put(&key, &value, Durability::Buffered).expect("a put");
        model.insert(key, value);
        if prng.one_in(100) {
            while wip.maintain(Budget { bytes: 1 << 20 }).expect("maintenance").more {}
        }
        if prng.one_in(20_000) {
            buckets = buckets.max(wip.buckets().iter().count());
            drop(wip);
            wip = open(&device);
            assert!(wip.buckets().iter().count() >= buckets, "buckets after opening again");
        }
    }
    buckets = wip.buckets().iter().count();
    let written = device.counters().snapshot().bytes_written;
    let user: usize = model.values().map(|value| 8 + value.len()).sum();
    println!("{buckets} buckets, written {:.2} times", written as f64 / user as f64);
    assert!(buckets > 16, "{buckets} buckets");
    wip.verify().expect("every invariant");
    for (key, value) in &model {
        assert_eq!(wip.get(key).expect("a get").as_ref(), Some(value), "{key:?}");
    }
    let tables = device.list().expect("names").iter().filter(|n| n.starts_with("TABLE")).count();
    let named = wip.book.lock().expect("no panic").state().tables().len();
    assert_eq!(tables, named, "files that no bucket needs are gone");
}

#[test]
fn a_run_of_several_parts_is_gone_through_in_both_directions() {
    let wip = open(&SimDevice::new(1, SimOptions::default()));
    let mut prng = Prng::new(3);
    let key = |prng: &mut Prng| prng.below(1000).to_string().into_bytes();
    for _ in 0..600 {
        wip.put(&key(&mut prng), b"value", Durability::Buffered).expect("a put");
    }
    let bucket = wip.buckets().of(b"").clone();
    wip.flush(&bucket).expect("a flush");
    let whole = bucket.read().version.runs[0][0].clone();
    let mut keys = Vec::new();
    let mut cursor = whole.table.table.cursor(4 << 10);
    let mut more = cursor.seek_to_first().expect("a read");
    while more {
        keys.push((cursor.version().key.to_vec(), cursor.version().sequence));
        more = cursor.advance().expect("a read");
    }
    assert!(keys.len() > 300, "{} keys", keys.len());
    for _ in 0..50 {
        // Parts of it, some of them empty, with and without keys between them.
        let mut cuts: Vec<_> = (0..2 * prng.below(5)).map(|_| key(&mut prng)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let run: Vec<_> =
            cuts.chunks_exact(2).filter_map(|cut| whole.within(&cut[0], Some(&cut[1]))).collect();
        let model: Vec<_> =
            keys.iter().filter(|(key, _)| run.iter().any(|part| part.has(key))).collect();
        let mut cursor = RunCursor::new(run, 8 << 10);
        for _ in 0..50 {
            let sought = key(&mut prng);
            let mut at = model.partition_point(|(key, _)| *key < sought) as i64;
            let mut is_at_one = if prng.one_in(2) {
                cursor.seek(&sought, u64::MAX).expect("a read")
            } else {
                at -= 1;
                cursor.seek_before(&sought, u64::MAX).expect("a read")
            };
            while let Some(expected) = usize::try_from(at).ok().and_then(|at| model.get(at)) {
                assert!(is_at_one && cursor.is_at_one(), "{expected:?}");
                let found = cursor.version();
                assert_eq!((found.key, found.sequence), (&expected.0[..], expected.1));
                if prng.one_in(20) {
                    break;
                }
                if prng.one_in(2) {
                    at += 1;
                    is_at_one = cursor.advance().expect("a read");
                } else {
                    at -= 1;
                    is_at_one = cursor.retreat().expect("a read");
                }
            }
        }
        let at_first = cursor.seek_to_first().expect("a read");
        assert_eq!(at_first.then(|| cursor.version().key), model.first().map(|m| &m.0[..]));
        let at_last = cursor.seek_to_last().expect("a read");
        assert_eq!(at_last.then(|| cursor.version().key), model.last().map(|m| &m.0[..]));
    }
}

#[test]
fn who_has_an_old_list_learns_that_its_bucket_is_gone() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = open(&device);
    let old = wip.buckets();
    let mut prng = Prng::new(2);
    while wip.buckets().iter().count() == 1 {
        let key = prng.below(1 << 40).to_be_bytes();
        wip.put(&key, &[7; 40], Durability::Buffered).expect("a put");
        wip.maintain(Budget { bytes: 1 << 20 }).expect("maintenance");
    }
    assert!(old.of(b"").read().is_gone, "split");
    let old = wip.buckets();
    wip.as_admin().expect("it has one").clear().expect("it clears");
    assert!(old.iter().all(|bucket| bucket.read().is_gone), "cleared");
    assert_eq!(wip.count_entries(true).expect("a count").high, 0);
}
