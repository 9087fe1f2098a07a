//! Checkpoints while segments of the logs come and go.

use crate::Silt;
use crate::state::Edit;
use crate::test_support::device;
use silica_base::{HashSeed, Result, test_size};
use silica_device::sim::SimDevice;
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{
    Admin, Budget, Checkpoint, Durability, Engine, EngineExt, Environment, OptionValues,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Values over 40 bytes are large, and segments of both logs are small.
fn open(device: &SimDevice) -> Silt<SimDevice> {
    let mut options = OptionValues::default();
    options
        .set("partitions", 2)
        .set("log_store_blocks", 2)
        .set("log_store_block_buckets_log2", 3)
        .set("segment_bytes", 8 << 10)
        .set("log_bytes_max", 32 << 10)
        .set("inline_value_bytes_max", 40)
        .set("value_log_segment_bytes", 4 << 10);
    let environment = Environment::new(HashSeed([7; 16]));
    Silt::open(device.clone(), &options, &environment).expect("it opens")
}

/// Puts the checkpoint of one device's store on another.
struct Copied<'d> {
    from: &'d SimDevice,
    to: SimDevice,
    lens: BTreeMap<String, u64>,
}

impl Checkpoint for Copied<'_> {
    fn immutable(&mut self, name: &str) -> Result<()> {
        let bytes = self.from.peek(name).expect("the file is there");
        self.piece(name, &bytes)
    }

    fn piece(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
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

/// A checkpoint of the store, opened.
fn checkpoint(store: &Silt<SimDevice>, from: &SimDevice) -> Silt<SimDevice> {
    let to = device();
    let mut copied = Copied { from, to: to.clone(), lens: BTreeMap::new() };
    store.checkpoint(&mut copied).expect("a checkpoint");
    to.sync_dir().expect("synced");
    let copy = open(&to);
    copy.verify().expect("every invariant");
    copy
}

fn put(store: &Silt<SimDevice>, key: &[u8], n: u64) {
    store.put(key, &n.to_le_bytes().repeat(50), Durability::Buffered).expect("a put");
}

#[test]
fn a_value_segment_that_is_only_named_is_not_in_a_checkpoint() {
    let device = device();
    let store = open(&device);
    (0..30u64).for_each(|n| put(&store, &n.to_le_bytes(), n));
    // As another thread does before the segment takes values.
    let next = store.journal.with_state(|state| state.values.next);
    store.journal.edit(&[Edit::ValueSegment(next)]).expect("an edit");
    let copy = checkpoint(&store, &device);
    assert_eq!(copy.get(&7u64.to_le_bytes()).expect("a get"), Some(7u64.to_le_bytes().repeat(50)));
    // Its number is not used again: a file of that name may be about.
    (0..30u64).for_each(|n| put(&copy, &n.to_le_bytes(), n));
    assert!(copy.journal.values.segments().iter().all(|segment| segment.number != next));
}

#[test]
fn a_log_segment_that_is_about_to_go_is_not_in_a_checkpoint() {
    let device = device();
    let store = open(&device);
    (0..3000u64).for_each(|n| put(&store, &(n % 200).to_le_bytes(), n % 200));
    while store.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
    let gone =
        store.journal.log.segments().iter().map(|s| s.number).min().expect("the last one") - 1;
    assert!(gone > 0, "one was released");
    // As it is for another thread before the manifest forgets it.
    store.journal.edit(&[Edit::LogSegment(gone)]).expect("an edit");
    let copy = checkpoint(&store, &device);
    assert_eq!(copy.get(&7u64.to_le_bytes()).expect("a get"), Some(7u64.to_le_bytes().repeat(50)));
}

#[test]
fn checkpoints_are_whole_while_segments_come_and_go() {
    const KEYS: u64 = 8;
    let device = device();
    let store = open(&device);
    let (puts, writers) = (test_size(500, 2000, 100_000), AtomicU64::new(2));
    thread::scope(|scope| {
        for writer in 0..2u8 {
            let (store, writers) = (&store, &writers);
            scope.spawn(move || {
                for n in 0..puts {
                    put(store, &[writer, (n % KEYS) as u8], n);
                    store.maintain(Budget::of(64 << 10)).expect("maintenance");
                }
                writers.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let mut newest = BTreeMap::new();
        while writers.load(Ordering::Relaxed) > 0 {
            let copy = checkpoint(&store, &device);
            for key in (0..2u8).flat_map(|writer| (0..KEYS).map(move |n| [writer, n as u8])) {
                let value = copy.get(&key).expect("a get");
                let number = value.map(|value| {
                    let number = *value.first_chunk().expect("a number");
                    assert_eq!(value, number.repeat(50));
                    u64::from_le_bytes(number)
                });
                let before = newest.insert(key, number).flatten();
                assert!(before <= number, "{key:?} goes back from {before:?} to {number:?}");
            }
        }
    });
    store.verify().expect("every invariant");
}
