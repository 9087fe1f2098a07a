//! Damage to what a region begins with, in files: every byte of the header, of the engine's root,
//! of the descriptors of spans and shards, and any cut. A region is refused in words, or gives back
//! what was put. A repair of what is refused saves entries as they were, or says why it cannot.

use crate::support::{device, environment, options};
use silica_base::{Prng, test_size};
use silica_device::FileDevice;
use silica_engine::{Budget, Durability, Engine, EngineExt, EngineSpec, ErrorKind};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

const PAGE: usize = 4096;
/// Where the redo begins, and the descriptors of the first extent's pages.
const REDO: usize = 2 * PAGE;
const DESCRIPTORS: usize = 10 * PAGE;
const SHARDS: u64 = 8;

type Spec = &'static EngineSpec<FileDevice>;
const SPECS: [Spec; 2] = [&silica_pmem::TURBO, &silica_pmem::SPTREE];

/// A region as one engine left it.
struct Left {
    spec: Spec,
    /// Closed in order; otherwise its process was killed.
    is_settled: bool,
    bytes: Vec<u8>,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn more(spec: Spec) -> &'static [(&'static str, u64)] {
    if spec.name == "turbo" { &[("shards", SHARDS)] } else { &[] }
}

impl Left {
    fn new(spec: Spec, is_settled: bool) -> Left {
        let place = tempfile::tempdir().expect("a directory");
        let engine = (spec.open)(device(place.path()), &options(more(spec)), &environment());
        let engine = engine.expect("it opens");
        let entry = |n: u64| match n % 2 {
            0 => (n.to_be_bytes().to_vec(), (n * 3).to_le_bytes().to_vec()),
            _ => (format!("key number {n}").into_bytes(), vec![n as u8; 50]),
        };
        let entries: BTreeMap<_, _> = (0..200).map(entry).collect();
        for (key, value) in &entries {
            engine.put(key, value, Durability::Buffered).expect("a put");
        }
        while engine.maintain(Budget::of(1 << 20)).expect("maintained").more {}
        if is_settled {
            engine.as_admin().expect("a view").close(&mut |_, _| ()).expect("closed");
        }
        let bytes = std::fs::read(place.path().join(spec.name)).expect("a region");
        Left { spec, is_settled, bytes, entries }
    }

    /// Where what an opening believes first lies.
    fn parts(&self) -> Vec<Range<usize>> {
        let word =
            |at: usize| u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"));
        let pages = self.bytes.len() / PAGE;
        let mut parts =
            vec![0..640, PAGE..PAGE + 128, REDO..REDO + 32, DESCRIPTORS..DESCRIPTORS + pages * 8];
        if self.spec.name == "turbo" {
            // Two tables, of which one holds.
            let tables = (word(PAGE + 64) & ((1 << 48) - 1) & !1) as usize;
            parts.push(tables..tables + 2 * 8 * SHARDS as usize);
        }
        parts
    }

    /// Opens the region with other bytes. Returns what an opening said if it was refused; panics if
    /// damage was believed.
    fn judge(&self, place: &Path, bytes: &[u8], how: &str) -> Option<silica_base::Error> {
        std::fs::write(place.join(self.spec.name), bytes).expect("written");
        let opened = (self.spec.open)(device(place), &options(more(self.spec)), &environment());
        let engine = match opened {
            Ok(engine) => engine,
            Err(error) => {
                let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
                assert!(kinds.contains(&error.kind()), "{how}: {error:?}");
                let text = error.to_string();
                assert!(text.contains(self.spec.name) && text.len() > 20, "{how}: {text}");
                return Some(error);
            }
        };
        self.compare(&*engine, how);
        None
    }

    /// Each entry is as it was put, or damage is told, which a verification finds, too.
    fn compare(&self, engine: &dyn Engine, how: &str) {
        let mut damaged = 0;
        for (key, value) in &self.entries {
            match engine.get(key) {
                Ok(Some(read)) => assert_eq!(read, *value, "{how}, key {key:?}"),
                Ok(None) => panic!("{how}: key {key:?} is gone, and nobody says so"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{how}: {error}");
                    damaged += 1;
                }
            }
        }
        assert!(damaged == 0 || engine.verify().is_err(), "{how}: verification misses damage");
    }

    /// Repairs what was refused: what the new store has is as it was put.
    fn repair(&self, place: &Path, how: &str) -> Option<u64> {
        let repair = self.spec.repair.expect("the engine has a repair");
        if let Err(error) = repair(device(place), &options(more(self.spec)), &environment()) {
            assert!(error.to_string().len() > 20, "{how}: {error}");
            return None;
        }
        let opened = (self.spec.open)(device(place), &options(more(self.spec)), &environment());
        let engine = opened.unwrap_or_else(|error| panic!("{how}, repaired: {error}"));
        engine.verify().unwrap_or_else(|error| panic!("{how}, repaired: {error}"));
        let mut kept = 0;
        for (key, value) in &self.entries {
            if let Some(read) = engine.get(key).expect("a get") {
                assert_eq!(read, *value, "{how}, repaired: key {key:?}");
                kept += 1;
            }
        }
        Some(kept)
    }

    fn name(&self) -> String {
        let state = if self.is_settled { "settled" } else { "in use" };
        format!("{}, {state}", self.spec.name)
    }
}

fn all() -> impl Iterator<Item = Left> {
    SPECS.into_iter().flat_map(|spec| [Left::new(spec, true), Left::new(spec, false)])
}

#[test]
fn every_byte_that_an_opening_believes_first_is_found_or_harmless() {
    let mut prng = Prng::new(1);
    let (stride, repairs) = (test_size(13, 5, 1), test_size(20, 10, 1));
    for left in all() {
        let (mut refused, mut harmless, mut saved) = (0, 0, 0);
        for at in left.parts().into_iter().flatten().step_by(stride as usize) {
            let mask = 1_u8 << prng.below(8);
            let how = format!("{}, byte {at} ^ {mask}", left.name());
            let mut bytes = left.bytes.clone();
            bytes[at] ^= mask;
            let place = tempfile::tempdir().expect("a directory");
            match left.judge(place.path(), &bytes, &how) {
                None => harmless += 1,
                Some(_) => {
                    refused += 1;
                    if prng.one_in(repairs) {
                        std::fs::write(place.path().join(left.spec.name), &bytes).expect("written");
                        saved += left.repair(place.path(), &how).unwrap_or(0);
                    }
                }
            }
        }
        println!("{}: {refused} refused, {harmless} harmless, {saved} saved", left.name());
        assert!(refused > 20 && harmless > 20, "{}: {refused}, {harmless}", left.name());
    }
}

#[test]
fn a_cut_at_any_length_is_refused_and_never_read_past() {
    let step = test_size(7, 1, 1) as usize;
    for left in all() {
        let pages = left.bytes.len() / PAGE;
        let near = (0..pages).step_by(step).flat_map(|page| [page * PAGE, page * PAGE + 1]);
        let lengths = (1..700).step_by(41 * step).chain(near).chain([left.bytes.len() - 1]);
        for len in lengths {
            let how = format!("{}, {len} of {} bytes", left.name(), left.bytes.len());
            let place = tempfile::tempdir().expect("a directory");
            let error = left.judge(place.path(), &left.bytes[..len], &how);
            let is_told = error.is_some();
            assert!(is_told, "{how}: it opens");
        }
    }
}

/// Words as a machine of the other byte order would have them.
#[test]
fn another_byte_order_version_and_engine_are_named() {
    for left in all().filter(|left| left.is_settled) {
        let place = tempfile::tempdir().expect("a directory");
        for width in [4, 8] {
            let mut bytes = left.bytes.clone();
            bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
            let how = format!("{}, words of {width} bytes reversed", left.name());
            let error = left.judge(place.path(), &bytes, &how).expect("it is refused");
            assert!(error.to_string().contains("byte order"), "{how}: {error}");
        }
        for version in [0, 200] {
            for at in [4, PAGE + 4] {
                let mut bytes = left.bytes.clone();
                bytes[at] = version;
                let how = format!("{}, version {version} at {at}", left.name());
                let error = left.judge(place.path(), &bytes, &how).expect("it is refused");
                let says = if version == 0 { "version 0" } else { "newer release" };
                assert!(error.to_string().contains(says), "{how}: {error}");
            }
        }
        let other = SPECS.into_iter().find(|spec| spec.name != left.spec.name).expect("two");
        std::fs::write(place.path().join(other.name), &left.bytes).expect("written");
        let opened = (other.open)(device(place.path()), &options(more(other)), &environment());
        let told = opened.err().expect("it is refused").to_string();
        assert!(told.contains(&format!("engine {}", left.spec.name)), "{told}");
    }
}
