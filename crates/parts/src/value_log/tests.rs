use super::*;
use crate::value_log::segment::{HEADER_BYTES, Walk, WalkedRecord};
use silica_device::sim::{FaultKind, SimDevice, SimOptions};

const STORE: u64 = 77;

fn device() -> Arc<SimDevice> {
    Arc::new(SimDevice::new(3, SimOptions::default()))
}

fn try_open(
    device: &Arc<SimDevice>,
    segment_bytes: u64,
    live: &[u32],
) -> Result<ValueLog<SimDevice>> {
    let mut state = State::default();
    live.iter().for_each(|number| state.add(*number));
    ValueLog::open(device.clone(), STORE, segment_bytes, &state)
}

fn open(device: &Arc<SimDevice>, segment_bytes: u64, live: &[u32]) -> ValueLog<SimDevice> {
    try_open(device, segment_bytes, live).expect("opens")
}

fn value(i: u32) -> Vec<u8> {
    vec![i as u8; 1 + (i as usize * 733) % 9000]
}

/// Appends `count` values; their keys and pointers, and the segments made.
fn fill(log: &ValueLog<SimDevice>, count: u32) -> (Vec<(Vec<u8>, Pointer)>, Vec<u32>) {
    let made = Mutex::new(Vec::new());
    let register = |number| {
        made.lock().unwrap().push(number);
        Ok(())
    };
    let append = |i: u32| {
        let key = format!("key {i}").into_bytes();
        let (pointer, _) = log.append(&key, &value(i), &register).expect("appends");
        (key, pointer)
    };
    let pointers = (0..count).map(append).collect();
    (pointers, made.into_inner().unwrap())
}

fn walk(segment: Arc<SegmentOf<SimDevice>>) -> (Vec<WalkedRecord>, u64) {
    let mut walk = Walk::new(segment).expect("walks");
    let mut records = Vec::new();
    while let Some(record) = walk.next_record().expect("walks") {
        records.push(record);
    }
    (records, walk.skipped)
}

#[test]
fn pointers_round_trip() {
    let pointer = Pointer { segment: 7, offset: 1 << 33, length: 9, checksum: 0xDEAD_BEEF };
    assert_eq!(Pointer::decode(&pointer.encode()), Some(pointer));
    assert_eq!(Pointer::decode(&[0; POINTER_BYTES - 1]), None);
    assert_eq!(Pointer::decode(&[0; POINTER_BYTES + 1]), None);
}

#[test]
fn values_come_back_from_open_settled_and_reopened_segments() {
    let device = device();
    let log = open(&device, 64 << 10, &[]);
    let (pointers, made) = fill(&log, 60);
    assert!(made.len() >= 3, "{made:?}");
    let all_there = |log: &ValueLog<SimDevice>| {
        for (i, (key, pointer)) in pointers.iter().enumerate() {
            let read = log.read(pointer, key).expect("reads");
            assert_eq!(read.as_deref(), Some(&value(i as u32)[..]));
        }
    };
    all_there(&log);
    assert!(!log.settle().expect("settles"), "nothing is durable yet");
    log.sync().expect("syncs");
    assert!(log.settle().expect("settles"));
    assert!(!log.has_full());
    all_there(&log);
    let device = Arc::new(device.reopen());
    let log = open(&device, 64 << 10, &made);
    all_there(&log);
    let (_, more) = fill(&log, 1);
    assert!(!made.contains(&more[0]), "nothing is appended to a segment found at open");
}

#[test]
fn a_value_larger_than_a_segment_gets_one_of_its_own() {
    let log = open(&device(), 4096, &[]);
    let register = |_| Ok(());
    let large: Vec<u8> = (0..3_000_001u32).map(|i| (i % 251) as u8).collect();
    let (small, _) = log.append(b"s", b"small", &register).expect("appends");
    let (pointer, _) = log.append(b"large", &large, &register).expect("appends");
    let (empty, _) = log.append(b"", b"", &register).expect("appends");
    assert!(small.segment != pointer.segment && pointer.segment != empty.segment);
    assert_eq!(log.read(&pointer, b"large").expect("reads"), Some(large));
    assert_eq!(log.read(&empty, b"").expect("reads"), Some(Vec::new()));
}

#[test]
fn every_flip_and_cut_of_a_segment_is_found() {
    let device = device();
    let log = open(&device, 1 << 20, &[]);
    let (pointers, made) = fill(&log, 6);
    let name = segment::name(made[0]);
    let bytes = device.peek(&name).expect("it exists");
    let check = |device: &Arc<SimDevice>| {
        let log = try_open(device, 1 << 20, &made)?;
        let mut all = Vec::new();
        for (key, pointer) in &pointers {
            all.push(log.read(pointer, key));
        }
        Ok::<_, Error>(all)
    };
    let in_padding = |at: usize| {
        let covers = |p: &Pointer| {
            let end = p.offset + u64::from(p.length);
            (p.offset..end).contains(&(at as u64))
        };
        at >= HEADER_BYTES && !pointers.iter().any(|(_, p)| covers(p))
    };
    for (at, byte) in bytes.iter().enumerate() {
        if in_padding(at) || (at > 400 && at % 97 != 0) {
            continue;
        }
        let damaged = Arc::new(device.fork(1));
        damaged.poke(&name, at as u64, &[byte ^ 4]);
        let Ok(all) = check(&damaged) else { continue };
        let wrong = all.iter().filter(|r| r.is_err()).count();
        assert_eq!(wrong, 1, "byte {at} damages one value and it is found");
    }
    for len in (0..bytes.len()).step_by(501) {
        let damaged = Arc::new(device.fork(1));
        damaged.cut_file(&name, len as u64);
        let Ok(all) = check(&damaged) else { continue };
        assert!(all.last().expect("values").is_err(), "cut to {len}");
        assert!(all.iter().enumerate().all(|(i, r)| {
            r.as_ref().map_or(true, |v| v.as_deref() == Some(&value(i as u32)[..]))
        }));
    }
}

#[test]
fn a_value_is_not_taken_for_another_keys() {
    let log = open(&device(), 1 << 20, &[]);
    let (pointers, _) = fill(&log, 2);
    assert!(log.read(&pointers[0].1, b"key 1").is_err());
    assert!(log.read(&pointers[0].1, b"key").is_err());
    let other = Pointer { offset: pointers[1].1.offset, ..pointers[0].1 };
    assert!(log.read(&other, b"key 0").is_err());
    let far = Pointer { offset: u64::MAX - 3, ..pointers[0].1 };
    assert!(log.read(&far, b"key 0").is_err());
    let gone = Pointer { segment: 99, ..pointers[0].1 };
    assert_eq!(log.read(&gone, b"key 0").expect("no damage"), None);
}

#[test]
fn a_walk_meets_every_record_and_skips_torn_ones() {
    let device = device();
    let log = open(&device, 1 << 20, &[]);
    let (pointers, made) = fill(&log, 20);
    let segment = log.segment(made[0]).expect("lives");
    let found = |records: &[WalkedRecord]| -> Vec<(Vec<u8>, Pointer)> {
        records.iter().map(|r| (r.key.clone(), r.pointer)).collect()
    };
    let (records, skipped) = walk(segment.clone());
    assert_eq!((found(&records), skipped), (pointers.clone(), 0));
    // The value of one record and the header of another are lost.
    let name = segment::name(made[0]);
    device.poke(&name, pointers[3].1.offset + 40, &[0; 64]);
    device.poke(&name, pointers[9].1.offset, &[0; 16]);
    let (records, skipped) = walk(segment);
    let mut expected = pointers.clone();
    let (_, lost) = expected.remove(9);
    assert_eq!(found(&records), expected);
    assert_eq!(skipped, u64::from(lost.length).next_multiple_of(8));
}

#[test]
fn victims_are_full_durable_unpinned_and_mostly_garbage() {
    let device = device();
    let log = open(&device, 32 << 10, &[]);
    let register = |_| Ok(());
    let (first, pin) = log.append(b"k", &[1; 9000], &register).expect("appends");
    let (pointers, _) = fill(&log, 40);
    for (_, pointer) in pointers.iter().filter(|(_, p)| p.segment == first.segment) {
        log.note_dead(pointer);
    }
    let victim = |percent| log.pick_victim(percent).map(|s| s.number);
    assert_eq!(victim(50), None, "not durable");
    log.sync().expect("syncs");
    log.settle().expect("settles");
    assert_eq!(victim(50), None, "pinned");
    drop(pin);
    log.settle().expect("settles");
    assert_eq!(victim(50), Some(first.segment));
    assert_eq!(victim(90), None, "too little garbage");
    log.note_dead(&first);
    assert_eq!(victim(100), Some(first.segment));
    let (all, live) = log.bytes();
    assert!(live < all - 25_000, "{live} of {all}");
    log.release(first.segment);
    assert_eq!(log.read(&first, b"k").expect("no damage"), None);
}

#[test]
fn a_failed_sync_is_final_and_a_failed_write_is_garbage() {
    let device = device();
    let log = open(&device, 1 << 20, &[]);
    let register = |_| Ok(());
    let (pointer, _) = log.append(b"k", b"value", &register).expect("appends");
    device.fail_at(FaultKind::Eio, 1);
    assert!(log.append(b"k", &[2; 5000], &register).is_err());
    assert_eq!(log.segment(pointer.segment).expect("lives").dead.load(Ordering::Relaxed), 5024);
    let (after, _) = log.append(b"k", &[3; 5000], &register).expect("appends");
    assert_eq!(log.read(&after, b"k").expect("reads"), Some(vec![3; 5000]));
    device.fail_at(FaultKind::FailedSync, 1);
    assert!(log.sync().is_err());
    assert_eq!(log.sync().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(log.append(b"k", b"v", &register).err().unwrap().kind(), ErrorKind::Poisoned);
}

#[test]
fn a_newer_version_is_refused() {
    let device = device();
    let log = open(&device, 1 << 20, &[]);
    let (_, made) = fill(&log, 1);
    let name = segment::name(made[0]);
    let mut header = device.peek(&name).expect("exists")[..HEADER_BYTES].to_vec();
    header[8] = 2;
    let file_id = log.segment(made[0]).expect("lives").file_id;
    let sum = silica_base::Checksum::at(file_id, 0).update(&header[..56]).finish();
    header[56..60].copy_from_slice(&sum.to_le_bytes());
    device.poke(&name, 0, &header);
    let error = try_open(&device, 1, &made).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("version 2"), "{error}");
}
