//! An image of each version of the format is taken back with all that it holds.
//!
//! `tests/golden/image-<version>-<what>.bin` were written by the release of that version. Those of
//! the newest one are made anew by
//!
//! ```text
//! SILICA_GOLDEN=image cargo test -p silica-mica --test all golden::
//! ```

use crate::support::NOW;
use silica_base::{Checksum, HashSeed, ManualClock};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{Engine, EngineExt, EntryRef, Environment, OptionValues, WriteBatch};
use silica_mica::{Mica, MicaDatabases, OPTIONS};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

const IMAGE: &str = "image";
/// Bytes of an image's header.
const HEADER_BYTES: usize = 4096;

/// Key to value, expiry and user bits.
type Contents = BTreeMap<Vec<u8>, (Vec<u8>, u64, u32)>;

/// What the images hold; `salt` is the database's number as it was written.
fn entries(salt: u8) -> Contents {
    let entry = |n: u8| {
        let key = [&[n, salt][..], &vec![b'k'; usize::from(n % 20)]].concat();
        let value = vec![n ^ salt; usize::from(n) * 7 % 90];
        let expires_unix_ms = if n.is_multiple_of(5) { 1 << 50 } else { 0 };
        let user_bits = if n.is_multiple_of(3) { u32::from(n) + 1 } else { 0 };
        (key, (value, expires_unix_ms, user_bits))
    };
    (0..60).map(entry).collect()
}

/// Those, and one that is large for a cache of 64 KiB.
fn with_large() -> Contents {
    let mut all = entries(0);
    let value = (0..20_000_u32).flat_map(|n| n.to_le_bytes()).take(20_001).collect();
    all.insert(b"large".to_vec(), (value, 1 << 50, 5));
    all
}

fn write(engine: &dyn Engine, entries: &Contents) {
    for (key, (value, expires_unix_ms, user_bits)) in entries {
        let (expires_unix_ms, user_bits) = (*expires_unix_ms, *user_bits);
        let entry = EntryRef { value, expires_unix_ms, user_bits };
        engine.write(WriteBatch::new().put_entry(key, entry), NOW).expect("it fits");
    }
}

fn contents(engine: &dyn Engine) -> Contents {
    let mut found = Contents::new();
    let visit = &mut |key: &[u8], entry: EntryRef<'_>| {
        let meta = (entry.value.to_vec(), entry.expires_unix_ms, entry.user_bits);
        found.insert(key.to_vec(), meta);
    };
    let scan = engine.as_scan().expect("it scans");
    assert_eq!(scan.scan(0, usize::MAX, visit).expect("a scan"), None);
    found
}

fn options(eviction: &str) -> OptionValues {
    let pairs = [
        ("eviction", eviction),
        ("memory_bytes", "64KiB"),
        ("partitions", "1"),
        ("warm_restart", "on"),
    ];
    OptionValues::parse(OPTIONS, pairs).expect("valid")
}

fn environment() -> Environment {
    Environment { clock: Arc::new(ManualClock::default()), seed: HashSeed([9; 16]) }
}

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect()
}

/// The image of that name; with `SILICA_GOLDEN=image` one of the newest version is made anew.
fn golden(name: &str) -> Vec<u8> {
    let path = path(name);
    if name.starts_with("image-3") && std::env::var("SILICA_GOLDEN").is_ok_and(|s| s == "image") {
        let eviction = if name.contains("store") { "none" } else { "s3-fifo" };
        std::fs::write(&path, made(eviction, &with_large())).expect("written");
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The image of an engine that holds these.
fn made(eviction: &str, entries: &Contents) -> Vec<u8> {
    let device = SimDevice::new(1, SimOptions::default());
    let mica = Mica::open_on(device.clone(), &options(eviction), &environment()).expect("it opens");
    write(&mica, entries);
    mica.as_admin().expect("it closes").close(&mut |_, _| {}).expect("an image");
    device.peek(IMAGE).expect("it is there")
}

fn device_with(image: &[u8]) -> SimDevice {
    let device = SimDevice::new(1, SimOptions::default());
    let file = device.create(IMAGE, Mode::Buffered).expect("a file");
    file.write_at(0, image).expect("written");
    device
}

fn opened(image: &[u8], eviction: &str) -> Mica {
    Mica::open_on(device_with(image), &options(eviction), &environment()).expect("it opens")
}

#[test]
fn images_of_all_versions_are_taken_back() {
    for (name, eviction, want) in [
        ("image-1-cache.bin", "s3-fifo", entries(0)),
        ("image-1-store.bin", "none", entries(0)),
        ("image-2-cache.bin", "s3-fifo", entries(0)),
        ("image-2-store.bin", "none", entries(0)),
        ("image-3-cache.bin", "s3-fifo", with_large()),
        ("image-3-store.bin", "none", with_large()),
    ] {
        let image = golden(name);
        assert_eq!(image[4], name.as_bytes()[6] - b'0', "{name} is of its version");
        let mica = opened(&image, eviction);
        assert!(contents(&mica) == want, "{name}");
        assert!(want.keys().all(|key| mica.get(key).expect("a get").is_some()), "{name}");
        mica.verify().expect("every invariant");
    }
}

#[test]
fn databases_of_version_2_are_what_they_were() {
    let device = device_with(&golden("image-2-databases.bin"));
    let all = MicaDatabases::open_on(device, &options("s3-fifo"), &environment()).expect("open");
    // Databases 0, 2 and 5 were written, 5 was cleared, and the others went elsewhere.
    for n in 0..16 {
        let engine = all.database(n, Arc::new(())).expect("it is there");
        let want = match n {
            0 => entries(2),
            7 => entries(0),
            _ => Contents::new(),
        };
        assert!(contents(&*engine) == want, "database {n}");
    }
}

/// The newest image without large values is what older versions wrote, but for the version.
#[test]
fn the_words_of_older_versions_are_taken_as_they_are() {
    for eviction in ["s3-fifo", "none"] {
        for version in [1, 2] {
            let mut image = made(eviction, &entries(0));
            image[4] = version;
            let file = u64::from_le_bytes(image[8..16].try_into().expect("eight bytes"));
            let end = HEADER_BYTES - 4;
            let crc = Checksum::at(file, 0).update(&image[..end]).finish();
            image[end..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
            let mica = opened(&image, eviction);
            assert!(contents(&mica) == entries(0), "{eviction} {version}");
            mica.verify().expect("every invariant");
        }
    }
}
