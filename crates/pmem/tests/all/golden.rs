//! Regions written by each version of the formats still open and hold what they held.
//!
//! `SILICA_GOLDEN=write cargo test -p silica-pmem --test all golden::` writes the files of the
//! present versions; do that once, when a version is new. A file has the pages of its region that
//! are not zero, each behind its number (4 bytes, little-endian).

use silica_base::{HashSeed, ManualClock};
use silica_device::region::{Region, RegionClass};
use silica_device::sim::{SimRegion, SimRegions};
use silica_engine::{
    Admin, Durability, Engine, EngineExt, Environment, OptionValues, Scan, WriteBatch,
};
use silica_pmem::{sptree::SpTree, turbo::Turbo};
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;
/// Milliseconds at which some entries expire: none of them has when a golden is read.
const EXPIRES_MS: u64 = 1 << 42;

type Entries = BTreeMap<Vec<u8>, (Vec<u8>, u64, u32)>;

/// Entries of all forms: in their slots, short, long, with expiry and user bits.
fn entries() -> Entries {
    let entry = |n: u64| {
        let key = match n % 3 {
            0 => n.to_be_bytes().to_vec(),
            1 => format!("g{n}").into_bytes(),
            _ => format!("a golden key of more than eight bytes, {n}").into_bytes(),
        };
        let value = match n % 4 {
            0 => n.to_le_bytes().to_vec(),
            1 => Vec::new(),
            2 => vec![n as u8; 5],
            _ => vec![n as u8; 20 + n as usize],
        };
        let (expires, user_bits) = (if n.is_multiple_of(7) { EXPIRES_MS } else { 0 }, n as u32 % 3);
        (key, (value, expires, user_bits))
    };
    (0..90).map(entry).collect()
}

fn fill(engine: &impl Engine) {
    let gone = vec![0; 40];
    for n in 0..40_u64 {
        engine.put(&(n << 40).to_be_bytes(), &gone, Durability::Synced).expect("a put");
    }
    for (key, (value, expires_unix_ms, user_bits)) in &entries() {
        let (expires_unix_ms, user_bits) = (*expires_unix_ms, *user_bits);
        let entry = silica_engine::EntryRef { value, expires_unix_ms, user_bits };
        engine.write(WriteBatch::new().put_entry(key, entry), Durability::Synced).expect("a put");
    }
    for n in 1..40_u64 {
        engine.delete(&(n << 40).to_be_bytes(), Durability::Synced).expect("a delete");
    }
}

fn contents(engine: &(impl Engine + Scan)) -> Entries {
    let (mut found, mut cursor) = (Entries::new(), Some(0));
    while let Some(at) = cursor {
        let mut visit = |key: &[u8], entry: silica_engine::EntryRef<'_>| {
            let of = (entry.value.to_vec(), entry.expires_unix_ms, entry.user_bits);
            assert_eq!(found.insert(key.to_vec(), of), None, "a scan sees a key twice");
        };
        cursor = engine.scan(at, 64, &mut visit).expect("scanned");
    }
    found
}

fn pack(region: &SimRegion) -> Vec<u8> {
    let (mut packed, mut page) = (Vec::new(), [0; PAGE_BYTES]);
    for number in 0..(region.len() / PAGE_BYTES as u64) as u32 {
        region.read(u64::from(number) * PAGE_BYTES as u64, &mut page);
        if page.iter().any(|byte| *byte != 0) {
            packed.extend_from_slice(&number.to_le_bytes());
            packed.extend_from_slice(&page);
        }
    }
    packed
}

/// A place with the region of the golden file `file`, which `write` makes if that is asked for: for
/// files of older versions there is none.
fn golden(name: &str, file: &str, write: Option<&dyn Fn(&SimRegions)>) -> SimRegions {
    let path = format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    let is_asked = std::env::var("SILICA_GOLDEN").is_ok_and(|what| what == "write");
    if let Some(write) = write.filter(|_| is_asked) {
        let place = SimRegions::new(1, RegionClass::Lines);
        write(&place);
        let region = place.region(name).expect("just made");
        std::fs::write(&path, pack(&region)).expect("writable");
    }
    let packed = std::fs::read(&path).expect("golden files are in the repository");
    let pages: Vec<(u64, &[u8])> = packed
        .chunks(4 + PAGE_BYTES)
        .map(|page| (u64::from(u32::from_le_bytes(page[..4].try_into().unwrap())), &page[4..]))
        .collect();
    // A region says itself how many pages its extents have.
    let first = &pages.first().expect("a header").1;
    let word = |at: usize| u64::from_le_bytes(first[at..at + 8].try_into().expect("eight"));
    let count = (word(128) & 0xFFFF_FFFF) as usize;
    let len: u64 = (0..count).map(|extent| word(512 + 8 * extent)).sum();
    let region = SimRegion::new(1, len * PAGE_BYTES as u64, RegionClass::Lines);
    pages.iter().for_each(|(number, page)| region.poke(number * PAGE_BYTES as u64, page));
    SimRegions::holding(name, region, true)
}

fn environment() -> Environment {
    Environment { clock: Arc::new(ManualClock::default()), seed: HashSeed([3; 16]) }
}

fn options() -> OptionValues {
    let mut options = OptionValues::default();
    options.set("memory_bytes", 4 << 20);
    options
}

fn turbo(place: &SimRegions) -> Turbo<SimRegion> {
    let mut options = options();
    options.set("shards", 2);
    Turbo::open_on(place.clone(), &options, &environment()).expect("it opens")
}

fn sptree(place: &SimRegions, more: &[(&str, u64)]) -> SpTree<SimRegion> {
    let mut options = options();
    for (name, value) in more {
        options.set(name, *value);
    }
    SpTree::open_on(place, &options, &environment()).expect("it opens")
}

fn check(engine: &(impl Engine + Scan)) {
    engine.verify().expect("verified");
    assert!(contents(engine) == entries(), "it holds something else");
    engine.put(b"new", b"one", Durability::Synced).expect("it takes writes");
    assert_eq!(contents(engine).len(), entries().len() + 1);
}

#[test]
fn turbo_version_1() {
    check(&turbo(&golden("turbo", "turbo-1.bin", None)));
}

/// A clean close has written the number of entries down: no shard is looked at for it.
#[test]
fn turbo_version_2() {
    let write = |place: &SimRegions| {
        let engine = turbo(place);
        fill(&engine);
        engine.close(&mut |_, _| ()).expect("closed");
    };
    let engine = turbo(&golden("turbo", "turbo-2.bin", Some(&write)));
    assert_eq!(engine.count(false).expect("a count").estimate, entries().len() as u64);
    check(&engine);
}

#[test]
fn sptree_version_1() {
    let place = || golden("sptree", "sptree-1.bin", None);
    check(&sptree(&place(), &[]));
    // Write buffers make it one of this version, which older releases must not take for theirs.
    let place = place();
    check(&sptree(&place, &[("buffers", 100)]));
    let version = place.region("sptree").expect("it is there").load(silica_pmem::space::ROOT) >> 32;
    assert_eq!(version, 3);
    assert_eq!(contents(&sptree(&place, &[])).len(), entries().len() + 1);
}

/// The store was left in use, with entries that only its log has.
#[test]
fn sptree_version_2() {
    let place = || golden("sptree", "sptree-2.bin", None);
    check(&sptree(&place(), &[("buffers", 100)]));
    check(&sptree(&place(), &[]));
}

/// So many entries that the region has a copy of the top layer, and a clean close: the opening
/// believes both.
#[test]
fn sptree_version_3() {
    let many = || (0..1_000_u64).map(|n| (n.to_be_bytes(), (n * n).to_le_bytes()));
    let write = |place: &SimRegions| {
        let engine = sptree(place, &[("buffers", 100)]);
        many().for_each(|(key, value)| {
            engine.put(&key, &value, Durability::Synced).expect("a put");
        });
        engine.close(&mut |_, _| ()).expect("closed");
    };
    let engine = sptree(&golden("sptree", "sptree-3.bin", Some(&write)), &[("buffers", 100)]);
    let mut metrics = silica_engine::MetricsMap::default();
    engine.metrics(&mut metrics);
    assert!(metrics.get("nodes_folded") > 1.0, "it opens from the copy of the top layer");
    assert_eq!(engine.count(false).expect("a count").estimate, 1_000);
    for (key, value) in many() {
        assert_eq!(engine.get(&key).expect("a get").as_deref(), Some(&value[..]));
    }
    engine.verify().expect("verified");
    engine.put(b"new", b"one", Durability::Synced).expect("it takes writes");
}
