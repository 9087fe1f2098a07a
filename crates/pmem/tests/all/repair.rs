//! Regions that were in use when the machine stopped, on a disk: what is whole is saved.

use crate::support::{device, environment, options};
use silica_base::test_size;
use silica_device::FileDevice;
use silica_engine::{Durability, EngineExt, EngineSpec, Loss, Repaired};
use std::collections::BTreeMap;
use std::path::Path;

const NOW: Durability = Durability::Buffered;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn entries() -> Entries {
    let entry = |n: u64| {
        let key = match n % 3 {
            0 => n.to_be_bytes().to_vec(),
            1 => format!("k{n}").into_bytes(),
            _ => format!("a key of more than eight bytes, {n}").into_bytes(),
        };
        (key, vec![n as u8; if n.is_multiple_of(2) { 8 } else { 100 }])
    };
    (0..test_size(2_000, 4_000, 100_000)).map(entry).collect()
}

/// A store as a power cut leaves it: in use, of another start of the machine, and `damage` done.
fn stopped(
    spec: &EngineSpec<FileDevice>,
    path: &Path,
    more: &[(&str, u64)],
    damage: impl Fn(&mut Vec<u8>),
) -> Entries {
    let engine = (spec.open)(device(path), &options(more), &environment()).expect("it opens");
    let all = entries();
    all.iter().for_each(|(key, value)| engine.put(key, value, NOW).expect("a put"));
    while engine.maintain(silica_engine::Budget::of(1 << 20)).expect("maintained").more {}
    let mut bytes = std::fs::read(path.join(spec.name)).expect("a region");
    drop(engine);
    // The state says: in use, since another start of the machine.
    bytes[64] = 2;
    bytes[66] ^= 0xFF;
    damage(&mut bytes);
    std::fs::write(path.join(spec.name), bytes).expect("written");
    let refused = (spec.open)(device(path), &options(more), &environment());
    let error = refused.err().expect("it is refused");
    assert!(error.to_string().contains("silica repair") || error.to_string().contains("damaged"));
    all
}

fn repaired(spec: &EngineSpec<FileDevice>, path: &Path, more: &[(&str, u64)]) -> Repaired {
    let repair = spec.repair.expect("the engine has a repair");
    repair(device(path), &options(more), &environment()).expect("it is repaired")
}

/// What the repaired store has of `all`; it has nothing else.
fn kept(spec: &EngineSpec<FileDevice>, path: &Path, more: &[(&str, u64)], all: &Entries) -> u64 {
    let engine = (spec.open)(device(path), &options(more), &environment()).expect("it opens");
    engine.verify().expect("verified");
    let mut kept = 0;
    for (key, value) in all {
        match engine.get(key).expect("a get") {
            Some(read) if read == *value => kept += 1,
            Some(read) => panic!("{key:?} has {read:?}"),
            None => {}
        }
    }
    let count = engine.as_admin().unwrap().count(true).expect("a count").estimate;
    assert_eq!(count, kept, "there is something that was never written");
    kept
}

/// An engine with options.
type Case = (&'static EngineSpec<FileDevice>, &'static [(&'static str, u64)]);

const CASES: [Case; 4] = [
    (&silica_pmem::TURBO, &[("shards", 4)]),
    (&silica_pmem::SPTREE, &[]),
    (&silica_pmem::SPTREE, &[("buffers", 100)]),
    (&silica_pmem::SPTREE, &[("buffers", 100), ("merge", 1)]),
];

#[test]
fn a_region_of_which_every_page_survived_loses_nothing() {
    for (spec, more) in CASES {
        let dir = tempfile::tempdir().expect("a directory");
        let all = stopped(spec, dir.path(), more, |_| ());
        let done = repaired(spec, dir.path(), more);
        // What a log has lost at its end leaves no trace.
        let has_log = more.iter().any(|(name, _)| *name == "buffers");
        let lost = if has_log { Loss::Unknown } else { Loss::Nothing };
        assert_eq!((done.lost, done.entries), (lost, all.len() as u64), "{done:?}");
        assert_eq!(kept(spec, dir.path(), more, &all), all.len() as u64);
        assert!(dir.path().join(done.aside.expect("put aside")).join(spec.name).is_file());
        let again = repaired(spec, dir.path(), more);
        assert_eq!(again, Repaired { entries: all.len() as u64, ..Repaired::default() });
    }
}

/// Pages of every kind are lost, one at a time: most of the entries are saved, none is wrong, and
/// the loss is told.
#[test]
fn lost_pages_cost_what_was_in_them() {
    for (number, (spec, more)) in CASES.into_iter().enumerate() {
        let mut pages = 0;
        for lost in test_pages() {
            let dir = tempfile::tempdir().expect("a directory");
            let all = stopped(spec, dir.path(), more, |bytes| {
                let at = (10 + lost * (bytes.len() / 4096 - 12) / 100) * 4096;
                bytes[at..at + 4096].fill(0);
            });
            let done = repaired(spec, dir.path(), more);
            let kept = kept(spec, dir.path(), more, &all);
            let how = format!("case {number}, page at {lost} %: {kept} of {}: {done:?}", all.len());
            assert_eq!(done.entries, kept, "{how}");
            assert!(kept as usize > all.len() / 2, "{how}");
            let missing = all.len() as u64 - kept;
            match done.lost {
                Loss::Nothing => assert_eq!(missing, 0, "{how}"),
                Loss::AtMost(most) => assert!(missing <= most, "{how}"),
                Loss::Unknown => {}
            }
            pages += 1;
        }
        assert!(pages >= 4);
    }
}

fn test_pages() -> impl Iterator<Item = usize> {
    (3..100).step_by(100 / test_size(5, 12, 90) as usize)
}
