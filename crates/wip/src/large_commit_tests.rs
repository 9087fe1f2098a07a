//! Power cuts amid large commits.

use crate::Wip;
use silica_base::{HashSeed, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::transaction::{Transaction, TransactionOptions};
use silica_engine::{
    Durability, Engine, EngineExt, EntryRef, Environment, ErrorKind, KeyRange, OptionValues,
    Ordered, Result,
};
use std::collections::BTreeMap;
use std::sync::Arc;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(device: &SimDevice) -> Result<Arc<Wip<SimDevice>>> {
    let mut options = OptionValues::default();
    let limits = [
        ("memory_bytes", 1 << 20),
        ("segment_bytes", 64 << 10),
        ("inline_value_bytes_max", 200),
        ("value_log_segment_bytes", 16 << 10),
        ("first_buckets", 2),
    ];
    for (name, value) in limits {
        options.set(name, value);
    }
    let wip = Wip::open(device.clone(), &options, &Environment::new(HashSeed([1; 16])))?;
    wip.set_record_bytes_max(0);
    Ok(Arc::new(wip))
}

fn contents(wip: &Arc<Wip<SimDevice>>) -> Contents {
    let snapshot = Arc::clone(wip).snapshot().expect("a snapshot");
    let mut iter = snapshot.iterate(&KeyRange::ALL).expect("an iterator");
    let (mut found, mut is_there) = (Contents::new(), iter.seek_to_first().expect("a seek"));
    while is_there {
        found.insert(iter.key().to_vec(), iter.entry().value.to_vec());
        is_there = iter.next().expect("a step");
    }
    found
}

fn begin(wip: &Arc<Wip<SimDevice>>) -> Transaction {
    let ordered = Arc::clone(wip).as_ordered().expect("it keeps an order");
    Transaction::begin(ordered, TransactionOptions::default()).expect("begins")
}

/// What is there before: short values, a long one, in tables and in the log.
fn fill(wip: &Arc<Wip<SimDevice>>) {
    for n in 0..40u8 {
        wip.put(&[n], &[n; 30], Durability::Buffered).expect("a put");
        if n == 20 {
            wip.flush(&wip.buckets().of(&[n]).clone()).expect("a flush");
        }
    }
    wip.put(b"long", &[7; 500], Durability::Synced).expect("a put");
}

/// Overwrites, adds, deletes, and deletes a range in which it puts something.
fn write(transaction: &mut Transaction) {
    for n in 30..60u8 {
        transaction.put(&[n], EntryRef::new(&[n ^ 255; 30]));
    }
    transaction.put(b"long", EntryRef::new(&[8; 500]));
    transaction.put(&[200, 1], EntryRef::new(&[9; 300]));
    transaction.delete(&[3]);
    transaction.delete_range(&KeyRange::new([10], [25]));
    transaction.put(&[12], EntryRef::new(b"in the range"));
}

fn written(before: &Contents) -> Contents {
    let mut after = before.clone();
    after.extend((30..60u8).map(|n| (vec![n], vec![n ^ 255; 30])));
    after.insert(b"long".to_vec(), vec![8; 500]);
    after.insert(vec![200, 1], vec![9; 300]);
    after.retain(|key, _| **key != [3] && !(&[10][..]..&[25][..]).contains(&&**key));
    after.insert(vec![12], b"in the range".to_vec());
    after
}

#[test]
fn a_power_cut_at_every_operation_leaves_all_of_it_or_nothing() {
    let mut ends = [0, 0];
    for seed in 0..test_size(1, 4, 100) {
        for at in 1.. {
            let device = SimDevice::new(seed * 1000 + at, SimOptions::default());
            let wip = open(&device).expect("it opens");
            fill(&wip);
            let before = contents(&wip);
            let mut transaction = begin(&wip);
            write(&mut transaction);
            device.cut_at_op(device.op_count() + at);
            let committed = transaction.commit(Durability::Buffered);
            let was_cut = device.is_cut();
            drop((transaction, wip));
            device.power_cut();
            let wip = open(&device.reopen()).expect("it always opens");
            let found = contents(&wip);
            let is_all = found == written(&before);
            assert!(is_all || found == before, "seed {seed}, cut {at}: a part of it");
            // What is acknowledged is durable, whatever was asked for.
            assert!(is_all || committed.is_err(), "seed {seed}, cut {at}: it was lost");
            ends[usize::from(is_all)] += 1;
            wip.verify().expect("all of it checks");
            if !was_cut {
                break;
            }
        }
    }
    assert!(ends.iter().all(|count| *count > 0), "{ends:?}");
}

#[test]
fn snapshots_and_readers_see_it_whole() {
    let wip = open(&SimDevice::new(1, SimOptions::default())).expect("it opens");
    fill(&wip);
    let before = contents(&wip);
    let earlier = Arc::clone(&wip).snapshot().expect("a snapshot");
    let mut transaction = begin(&wip);
    write(&mut transaction);
    transaction.commit(Durability::Buffered).expect("a commit");
    assert_eq!(contents(&wip), written(&before));
    assert_eq!(earlier.count(&KeyRange::ALL).expect("a count"), before.len() as u64);
    // Compactions keep it so, also where they merge it with what the range hides.
    Ordered::compact_range(&*wip, &KeyRange::ALL).expect("a compaction");
    assert_eq!(contents(&wip), written(&before));
    wip.put(&[11], b"later", Durability::Buffered).expect("a put");
    assert_eq!(wip.get(&[11]).expect("a get").as_deref(), Some(&b"later"[..]));
}

#[test]
fn who_was_slower_writes_nothing() {
    let wip = open(&SimDevice::new(1, SimOptions::default())).expect("it opens");
    fill(&wip);
    let conflict = |meanwhile: &dyn Fn()| {
        let mut transaction = begin(&wip);
        write(&mut transaction);
        meanwhile();
        let before = contents(&wip);
        let refused = transaction.commit(Durability::Buffered).expect_err("a conflict");
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert_eq!(contents(&wip), before);
    };
    // A key that it wrote, one in the range that it deleted, and another large commit.
    conflict(&|| wip.put(&[31], b"other", Durability::Buffered).expect("a put"));
    conflict(&|| wip.put(&[24, 1], b"new", Durability::Buffered).expect("a put"));
    conflict(&|| {
        let mut other = begin(&wip);
        other.put(&[40], EntryRef::new(b"other"));
        other.commit(Durability::Buffered).expect("the first one wins");
    });
    let mut last = begin(&wip);
    write(&mut last);
    wip.put(&[250], b"elsewhere", Durability::Buffered).expect("a put");
    last.commit(Durability::Buffered).expect("nobody touched it");
}

/// 200 MiB in one commit, in a store of 8 MiB: whole, or not there after a power cut in the
/// middle.
#[test]
fn commits_of_200_mib() {
    let entries = 200 << 10;
    let count = |device: &SimDevice| {
        let mut options = OptionValues::default();
        options.set("memory_bytes", 8 << 20).set("inline_value_bytes_max", 4096);
        let wip = Wip::open(device.clone(), &options, &Environment::new(HashSeed([1; 16])));
        Arc::new(wip.expect("it opens"))
    };
    let commit = |wip: &Arc<Wip<SimDevice>>| {
        let mut transaction = begin(wip);
        let mut value = [7; 1024];
        for n in 0..entries as u32 {
            value[..4].copy_from_slice(&n.to_be_bytes());
            transaction.put(&n.to_be_bytes(), EntryRef::new(&value));
        }
        transaction.commit(Durability::Synced)
    };
    let device = SimDevice::new(1, SimOptions::default());
    let wip = count(&device);
    wip.put(b"before", b"", Durability::Synced).expect("a put");
    let start = device.op_count();
    device.cut_at_op(start + 300);
    assert!(commit(&wip).is_err() && device.is_cut(), "the power went in the middle");
    drop(wip);
    device.power_cut();
    let device = device.reopen();
    device.cut_at_op(u64::MAX);
    let wip = count(&device);
    assert_eq!(contents(&wip).len(), 1, "nothing of it is there");
    commit(&wip).expect("a commit");
    let log_bytes = wip.log.file_bytes();
    assert!(log_bytes <= 8 << 20, "{log_bytes} bytes of log");
    drop(wip);
    let wip = count(&device.reopen());
    let snapshot = Arc::clone(&wip).snapshot().expect("a snapshot");
    assert_eq!(snapshot.count(&KeyRange::ALL).expect("a count"), entries + 1);
    let found = wip.get(&77u32.to_be_bytes()).expect("a get").expect("it is there");
    assert_eq!((found.len(), &found[..5]), (1024, &[0, 0, 0, 77, 7][..]));
}
