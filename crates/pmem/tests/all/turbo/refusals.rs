//! What a store refuses, in words, and what it leaves then.

use super::sim::{NAME, SimHarness};
use super::support::{maintain, metric};
use silica_base::test_size;
use silica_device::region::{Region, RegionClass};
use silica_device::sim::{SimRegion, SimRegions};
use silica_engine::{Durability, Engine, EngineExt, ErrorKind, WriteBatch};
use silica_testkit::Harness;

const ROOT: u64 = 4096;

fn filled(keys: u64) -> SimHarness {
    let mut harness = SimHarness::new();
    let engine = harness.open().expect("it opens");
    for n in 0..keys {
        engine.put(&n.to_le_bytes(), &n.to_le_bytes(), Durability::Synced).expect("put");
    }
    drop(engine);
    harness
}

fn error_of(harness: &mut SimHarness) -> silica_base::Error {
    harness.open().err().expect("it does not open")
}

#[test]
fn a_newer_version_and_a_foreign_region_are_refused() {
    let mut harness = filled(10);
    harness.region().poke(ROOT + 4, &[3]);
    let error = error_of(&mut harness);
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let mut harness = filled(10);
    harness.region().poke(ROOT, &[0; 28]);
    let error = error_of(&mut harness);
    assert!(error.to_string().contains("blank"), "{error}");
    let mut harness = filled(10);
    harness.region().poke(0, b"SQLite format 3\0");
    let error = error_of(&mut harness);
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

#[test]
fn a_region_that_is_shorter_than_it_says_is_refused() {
    let harness = filled(2000);
    let region = harness.region();
    let mut bytes = vec![0; region.len() as usize];
    region.read(0, &mut bytes);
    let short = SimRegion::new(1, region.len() - 4096, RegionClass::Lines);
    short.poke(0, &bytes[..bytes.len() - 4096]);
    let place = SimRegions::holding(NAME, short.reopen(), false);
    let error = harness.open_in(&place).err().expect("it does not open");
    assert!(error.to_string().contains("cut"), "{error}");
}

/// A store that does not open leaves what it found: the next opening finds it settled, too.
#[test]
fn a_refused_opening_changes_nothing() {
    let mut harness = filled(10);
    harness.region().poke(ROOT + 24, &[1]);
    let before = harness.region().load(64);
    error_of(&mut harness);
    assert_eq!(harness.region().load(64), before);
}

#[test]
fn a_synced_write_is_refused_where_a_power_cut_takes_it() {
    for class in [RegionClass::Process, RegionClass::Pages] {
        let mut harness = SimHarness::new();
        harness.place = SimRegions::new(1, class);
        let engine = harness.open().expect("it opens");
        assert!(!engine.descriptor().capabilities.synced);
        engine.put(b"a", b"1", Durability::Buffered).expect("a buffered put");
        for error in [
            engine.put(b"a", b"2", Durability::Synced).expect_err("refused"),
            engine.sync().expect_err("refused"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("'buffered'"), "{error}");
        }
        assert_eq!(engine.get(b"a").expect("read"), Some(b"1".to_vec()));
        let class = if class == RegionClass::Process { 1.0 } else { 0.0 };
        assert_eq!(metric(&engine, "durability_class"), class);
    }
}

/// After a power cut a region that does not survive one is refused, unless it was closed.
#[test]
fn a_buffered_region_is_believed_after_a_clean_close_only() {
    for closes in [true, false] {
        let mut harness = SimHarness::new();
        harness.place = SimRegions::new(1, RegionClass::Pages);
        let engine = harness.open().expect("it opens");
        engine.put(b"a", b"1", Durability::Buffered).expect("put");
        if closes {
            engine.as_admin().expect("a view").close(&mut |_, _| ()).expect("closed");
            let error = engine.put(b"a", b"2", Durability::Buffered).expect_err("closed");
            assert_eq!(error.kind(), ErrorKind::Closed);
        }
        harness.place.power_cut();
        drop(engine);
        match harness.open() {
            Ok(engine) => {
                assert_eq!((closes, engine.get(b"a").unwrap()), (true, Some(b"1".into())))
            }
            Err(error) => assert!(!closes && error.to_string().contains("trusted"), "{error}"),
        }
    }
}

/// The memory number holds for the region and what manages it; a write beyond it is refused,
/// whatever its kind, and nothing is lost.
#[test]
fn the_memory_number_is_a_limit() {
    let memory_bytes = 2 << 20;
    let mut harness = SimHarness::new().set("memory_bytes", memory_bytes);
    let engine = harness.open().expect("it opens");
    let (mut stored, mut refused) = (Vec::new(), 0);
    for n in 0..test_size(30_000, 30_000, 60_000) {
        let (key, value) = (n.to_le_bytes(), vec![n as u8; (n % 200) as usize]);
        let other = (n + (1 << 32)).to_le_bytes();
        let mut batch = WriteBatch::new();
        batch.put(&key, &value).put(&other, &value);
        let written = match n % 3 {
            0 => engine.write(&batch, Durability::Synced),
            1 => engine.put(&key, &value, Durability::Synced),
            _ => engine.as_atomic().expect("a view").update(&key, Durability::Synced, &mut |_| {
                silica_engine::Update::put(value.clone())
            }),
        };
        match written {
            Ok(()) => stored.push((key, value)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                refused += 1;
                assert!(engine.get(&other).expect("read").is_none(), "half of a batch");
            }
        }
    }
    assert!(refused > 100 && stored.len() > 5000, "{refused} refused, {} stored", stored.len());
    assert!(
        metric(&engine, "region_bytes") + metric(&engine, "index_bytes") <= memory_bytes as f64
    );
    for (key, value) in &stored {
        assert_eq!(engine.get(key).expect("read").as_ref(), Some(value));
    }
    engine.verify().expect("verified");
    engine.as_admin().expect("a view").clear().expect("a full store can be cleared");
    maintain(&engine);
    engine.put(b"again", b"1", Durability::Synced).expect("there is room");
    engine.verify().expect("verified");
}

#[test]
fn an_empty_store_is_small() {
    let mut harness = SimHarness::new().set("memory_bytes", 1 << 40).set("shards", 0);
    let engine = harness.open().expect("it opens");
    assert_eq!(metric(&engine, "shards"), 32_768.0);
    assert!(harness.region().len() <= 1 << 20, "{} bytes", harness.region().len());
    drop(engine);
    harness.set_small_memory();
    let error = error_of(&mut harness);
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

impl SimHarness {
    fn set_small_memory(&mut self) {
        self.options.set("memory_bytes", 1 << 20);
    }
}

/// Lines of the medium that writes cost (must: 1.35 an insert, 1.1 an update).
#[test]
fn writes_cost_little_more_than_a_line_of_the_medium() {
    let mut harness = SimHarness::new().set("memory_bytes", 64 << 20).set("shards", 64);
    let engine = harness.open().expect("it opens");
    let keys = test_size(20_000, 60_000, 1_000_000);
    let measured = |what: &str, add: u64| {
        let before = harness.region().counts().xplines_written;
        for n in 0..keys {
            let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
            engine.put(&key, &(n + add).to_le_bytes(), Durability::Synced).expect("put");
        }
        let lines = harness.region().counts().xplines_written - before;
        println!("{what}: {:.3} lines", lines as f64 / keys as f64);
        lines as f64 / keys as f64
    };
    assert!(measured("insert", 0) <= 1.35);
    assert!(measured("update", 1) <= 1.1);
}
