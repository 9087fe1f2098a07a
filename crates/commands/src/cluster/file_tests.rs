//! The file of the map over the simulated device: power cuts, faults, a full disk, damage.

use super::*;
use silica::device::sim::{FaultKind, SimDevice, SimFile, SimOptions};
use silica::device::{Device, DeviceFile, Mode};
use silica_base::{ErrorKind, Prng};

const NAME: &str = "CLUSTER";

impl InPlace for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        DeviceFile::write_at(self, offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        DeviceFile::sync(self)
    }
}

impl Directory for SimDevice {
    type File = SimFile;

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if !self.list()?.iter().any(|there| there == name) {
            return Ok(None);
        }
        let file = Device::open(self, name, Mode::Buffered)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        Ok(Some(bytes))
    }

    fn create(&self, name: &str) -> Result<SimFile> {
        if self.list()?.iter().any(|there| there == name) {
            Device::remove(self, name)?;
        }
        Device::create(self, name, Mode::Buffered)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        Device::rename(self, from, to)
    }

    fn sync(&self) -> Result<()> {
        self.sync_dir()
    }

    fn has(&self, _: &str, _: &SimFile) -> bool {
        true
    }
}

/// Text number `n`, of about `len` bytes.
fn text(n: u64, len: usize) -> String {
    format!("text {n} {}", "x".repeat(len))
}

/// The number of a text that [`text`] made.
fn number(text: &str) -> u64 {
    let (number, rest) = text.strip_prefix("text ").unwrap().split_once(' ').unwrap();
    assert!(rest.bytes().all(|byte| byte == b'x'), "{text}");
    number.parse().unwrap()
}

fn open(device: &SimDevice) -> Result<(MapFile<SimDevice>, Option<String>)> {
    MapFile::open(device.clone(), NAME)
}

/// What a run of changes has reached: the number of the last one that was begun, of the last one
/// that returned, and of the last one that was synced.
#[derive(Debug, Default, Clone, Copy)]
struct Reached {
    begun: u64,
    written: u64,
    synced: u64,
}

/// Opens the file, and makes changes up to number `last` until one fails.
fn changes(device: &SimDevice, seed: u64, last: u64, reached: &mut Reached) -> Result<()> {
    let mut prng = Prng::new(seed);
    let (mut file, found) = open(device)?;
    // As a node does: what was found is written anew, durably.
    let first = found.as_deref().map_or(0, number);
    file.put(&found.unwrap_or_else(|| text(0, 9)), true)?;
    reached.synced = reached.synced.max(first);
    for n in first + 1..=last {
        // Small ones, some that do not fit, and back.
        let len = [40, 600, 3000, 9000, 20_000][prng.below(5) as usize];
        let is_synced = prng.below(3) > 0;
        reached.begun = n;
        file.put(&text(n, len), is_synced)?;
        reached.written = n;
        if is_synced {
            reached.synced = n;
        }
    }
    Ok(())
}

/// Opens what is left, which must have one of the texts from `at_least` to the one that was begun.
fn check(device: &SimDevice, reached: Reached, at_least: u64, what: &str) {
    let (_, found) = open(device).unwrap_or_else(|error| panic!("{what}: {error}"));
    match found {
        Some(text) => {
            let n = number(&text);
            assert!(n >= at_least && n <= reached.begun, "{what}: {n}, {reached:?}");
        }
        None => assert_eq!((at_least, reached.synced), (0, 0), "{what}: no file"),
    }
}

#[test]
fn a_power_cut_at_every_operation_loses_no_durable_change_and_leaves_a_file_that_opens() {
    let mut cuts = 0;
    for seed in 0..12 {
        let options = SimOptions { garble: false, names_in_order: seed % 2 > 0 };
        let mut at = 1;
        loop {
            let device = SimDevice::new(seed, options);
            device.cut_at_op(at);
            let mut reached = Reached::default();
            let ended = changes(&device, seed, 14, &mut reached);
            if ended.is_ok() {
                break;
            }
            let after = device.reopen();
            check(&after, reached, reached.synced, &format!("seed {seed}, operation {at}"));
            // The power fails once more, at each operation of what comes next.
            for again in 1..8 {
                let twice = after.fork(seed * 1000 + again);
                twice.cut_at_op(twice.op_count() + again);
                let mut more = reached;
                let _ = changes(&twice, seed + again, reached.begun + 2, &mut more);
                more.begun = more.begun.max(reached.begun);
                let last = twice.reopen();
                let what = format!("seed {seed}, operations {at} and {again}");
                check(&last, more, more.synced, &what);
                cuts += 1;
            }
            (at, cuts) = (at + 1, cuts + 1);
        }
    }
    assert!(cuts > 3000, "{cuts}");
}

#[test]
fn the_death_of_a_process_loses_nothing_that_was_written() {
    for seed in 0..100 {
        let device = SimDevice::new(seed, SimOptions::default());
        let mut reached = Reached::default();
        changes(&device, seed, 1 + seed % 20, &mut reached).unwrap();
        check(&device.reopen(), reached, reached.written, &format!("seed {seed}"));
    }
}

#[test]
fn after_a_fault_the_next_change_makes_a_new_file_and_nothing_durable_is_lost() {
    use ErrorKind::Poisoned;
    use FaultKind::{Eio, Enospc, FailedSync, ShortWrite};
    let mut faults = 0;
    for kind in [Eio, Enospc, FailedSync, ShortWrite] {
        for (seed, nth) in (0..4).flat_map(|seed| (1..60).map(move |nth| (seed, nth))) {
            let device = SimDevice::new(seed, SimOptions::default());
            let (mut file, _) = open(&device).unwrap();
            file.put(&text(0, 9), true).unwrap();
            device.fail_at(kind, nth);
            let (mut synced, mut begun, mut prng) = (0, 0, Prng::new(seed));
            for n in 1..16 {
                let (len, is_synced) = ([40, 9000][prng.below(2) as usize], prng.below(3) > 0);
                begun = n;
                match file.put(&text(n, len), is_synced) {
                    Ok(()) if is_synced => synced = n,
                    Ok(()) => {}
                    Err(_) => {
                        faults += 1;
                        // The map stays what it was; what the fault has left is replaced.
                        begun = n + 1;
                        match file.put(&text(n + 1, len), true) {
                            Ok(()) => synced = n + 1,
                            Err(error) => {
                                let is_final = (error.kind(), kind) == (Poisoned, FailedSync);
                                assert!(is_final, "{kind:?} {nth}, seed {seed}: {error}");
                            }
                        }
                        break;
                    }
                }
            }
            device.power_cut();
            let reached = Reached { begun, written: begun, synced };
            check(&device.reopen(), reached, synced, &format!("{kind:?} {nth}, seed {seed}"));
        }
    }
    assert!(faults > 200, "{faults}");
}

#[test]
fn a_full_disk_does_not_hinder_changes_that_fit() {
    let device = SimDevice::new(1, SimOptions::default());
    let (mut file, _) = open(&device).unwrap();
    file.put(&text(0, 2000), true).unwrap();
    device.set_capacity(0);
    for n in 1..50 {
        file.put(&text(n, 2000), n % 2 > 0).unwrap();
    }
    let refused = file.put(&text(50, 9000), true).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full);
    check(&device.reopen(), Reached { begun: 49, written: 49, synced: 49 }, 49, "full");
}

/// A file after `changes` of which the last is synced.
fn damaged_file(changes: u64, len: usize) -> SimDevice {
    let device = SimDevice::new(changes, SimOptions::default());
    let (mut file, _) = open(&device).unwrap();
    (0..=changes).for_each(|n| file.put(&text(n, len), true).unwrap());
    device
}

#[test]
fn each_flipped_byte_and_each_length_is_found_or_harmless() {
    for (changes, len) in [(0, 40), (1, 40), (4, 900), (5, 2500)] {
        let device = damaged_file(changes, len);
        let bytes = device.peek(NAME).unwrap();
        let (mut found, mut harmless) = (0, 0);
        for at in 0..bytes.len() {
            for flip in [1, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                match find(NAME, &damaged) {
                    Ok(record) => {
                        assert_eq!(number(&record.text), changes, "byte {at}");
                        harmless += 1;
                    }
                    Err(error) => {
                        let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
                        assert!(kinds.contains(&error.kind()), "byte {at}: {error}");
                        found += 1;
                    }
                }
            }
        }
        assert!(found > 0 && harmless > found, "{found} found, {harmless} harmless");
        for end in 0..bytes.len() {
            assert!(find(NAME, &bytes[..end]).is_err(), "cut at {end}");
        }
        for block in 0..bytes.len() / BLOCK {
            let range = block * BLOCK..(block + 1) * BLOCK;
            let mut zeroed = bytes.clone();
            zeroed[range.clone()].fill(0);
            let record = find(NAME, &zeroed);
            assert!(record.is_err() || number(&record.unwrap().text) == changes, "zeroed {block}");
            for other in 0..bytes.len() / BLOCK {
                let mut misdirected = bytes.clone();
                misdirected.copy_within(range.clone(), other * BLOCK);
                let record = find(NAME, &misdirected);
                let is_right = record.map_or(true, |record| number(&record.text) == changes);
                assert!(is_right, "block {block} written over {other}");
            }
        }
    }
}

#[test]
fn any_bytes_are_refused_without_a_panic() {
    let mut prng = Prng::new(3);
    let bytes = damaged_file(3, 700).peek(NAME).unwrap();
    for _ in 0..2000 {
        let mut damaged = bytes.clone();
        for _ in 0..=prng.below(4) {
            let at = prng.below(damaged.len() as u64) as usize;
            let end = (at + 1 + prng.below(3000) as usize).min(damaged.len());
            match prng.below(3) {
                0 => damaged[at..end].fill(prng.below(256) as u8),
                1 => damaged.truncate(end),
                _ => damaged[at] = prng.below(256) as u8,
            }
        }
        if let Ok(record) = find(NAME, &damaged) {
            assert!(number(&record.text) <= 3);
        }
    }
    for len in [0, 1, 12, 511, 512, 3 * BLOCK, 3 * PLACE_MIN] {
        assert!(find(NAME, &vec![0; len]).is_err(), "{len} zeroes");
    }
}

#[test]
fn a_file_of_version_1_is_read_and_replaced_and_a_newer_one_is_refused_by_name() {
    let device = SimDevice::new(1, SimOptions::default());
    let old = "silica-cluster 1\nme x\nsum 0\n";
    let file = Device::create(&device, NAME, Mode::Buffered).unwrap();
    DeviceFile::write_at(&file, 0, old.as_bytes()).unwrap();
    let (mut map, found) = open(&device).unwrap();
    assert_eq!(found.as_deref(), Some(old));
    map.put(old, true).unwrap();
    device.power_cut();
    let device = device.reopen();
    assert!(device.peek(NAME).unwrap().starts_with(FORMAT.magic));
    assert_eq!(open(&device).unwrap().1.as_deref(), Some(old));
    device.poke(NAME, FORMAT.magic.len() as u64, &[3]);
    let refused = open(&device).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    for part in ["CLUSTER has version 3", "reads version 2", "use the newer release"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
}
