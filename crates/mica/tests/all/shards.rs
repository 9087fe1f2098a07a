//! Partitions that threads own: the conformance suite with every write through a shard, and reads
//! through shards (EREW) or through the engine (CREW).

use crate::support::{MIB, open, options, sharded};
use silica_base::{Error, ErrorKind, Result, test_size};
use silica_engine::{
    Budget, Capabilities, Descriptor, Durability, Engine, EngineExt, EntryRef, GetSink,
    MetricVisitor, MetricsMap, OpKind, Progress, Scan, Shard, Update, WriteBatch,
};
use silica_mica::Mica;
use silica_testkit::{self as testkit, Harness, Workload};
use std::sync::Mutex;

fn cache(memory_bytes: u64, partitions: u64, eviction: &str) -> Mica {
    open(&options(memory_bytes, partitions, eviction)).0
}

fn take_all(mica: &Mica) -> Vec<Box<dyn Shard>> {
    (0..sharded(mica).shards()).map(|n| sharded(mica).take(n).expect("nobody's")).collect()
}

/// All partitions owned, each by whoever holds its mutex: a batch is split by partition.
struct Owned {
    mica: Mica,
    descriptor: Descriptor,
    shards: Vec<Mutex<Box<dyn Shard>>>,
    owners_read: bool,
}

/// Tells a sink the index in the whole burst.
struct Renumbered<'a>(&'a [usize], &'a mut dyn GetSink);

impl GetSink for Renumbered<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.1.found(self.0[index], entry);
    }
}

impl Owned {
    fn split<T>(&self, items: impl Iterator<Item = T>, key: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
        let mut parts: Vec<Vec<T>> = self.shards.iter().map(|_| Vec::new()).collect();
        items.for_each(|item| parts[key(&item)].push(item));
        parts
    }
}

impl Engine for Owned {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        if !self.owners_read {
            return self.mica.get_many(keys, sink);
        }
        let shard_of = |at: &usize| sharded(&self.mica).shard_of(keys[*at]);
        for (part, shard) in self.split(0..keys.len(), shard_of).iter().zip(&self.shards) {
            let keys: Vec<&[u8]> = part.iter().map(|at| keys[*at]).collect();
            shard.lock().expect("no panic").get_many(&keys, &mut Renumbered(part, sink))?;
        }
        Ok(())
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        batch.refuse_ranges(self.descriptor.name)?;
        let (limits, mut sum) = (self.descriptor.limits, 0);
        for op in batch.ops() {
            let OpKind::Put(EntryRef { value, .. }) = op.kind else { continue };
            sum += op.key.len() + value.len();
            if op.key.len() > limits.key_bytes_max || value.len() > limits.value_bytes_max {
                return Err(Error::new(ErrorKind::TooLarge, "a part of the batch"));
            }
        }
        if sum > limits.batch_bytes_max {
            return Err(Error::new(ErrorKind::TooLarge, "the batch"));
        }
        let ops = batch.ops().iter();
        let parts = self.split(ops, |op| sharded(&self.mica).shard_of(op.key));
        for (part, shard) in parts.iter().zip(&self.shards) {
            let mut batch = WriteBatch::new();
            part.iter().for_each(|op| {
                batch.push(**op);
            });
            shard.lock().expect("no panic").write(&batch, durability)?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.mica.sync()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.mica.maintain(budget)
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.mica.metrics(visitor);
    }

    fn verify(&self) -> Result<()> {
        // Only who may write may look at everything.
        assert_eq!(self.mica.verify().expect_err("owned").kind(), ErrorKind::Locked);
        Ok(())
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        self.mica.as_scan()
    }
}

struct OwnedHarness {
    memory_bytes: u64,
    eviction: &'static str,
    owners_read: bool,
    workload: Workload,
}

impl Harness for OwnedHarness {
    type Engine = Owned;

    fn open(&mut self) -> Result<Owned> {
        let mica = cache(self.memory_bytes, 4, self.eviction);
        let shards = take_all(&mica).into_iter().map(Mutex::new).collect();
        let known = *mica.descriptor();
        let capabilities = Capabilities { atomic: false, admin: false, ..known.capabilities };
        let descriptor = Descriptor { capabilities, ..known };
        Ok(Owned { mica, descriptor, shards, owners_read: self.owners_read })
    }

    fn wipe(&mut self) {}

    fn workload(&self) -> Workload {
        self.workload
    }
}

fn harness(memory_bytes: u64, eviction: &'static str, owners_read: bool) -> OwnedHarness {
    let mut workload = Workload::default();
    if memory_bytes < MIB {
        (workload.keys, workload.value_bytes_max) = (600, 300);
    }
    OwnedHarness { memory_bytes, eviction, owners_read, workload }
}

#[test]
fn conformance() {
    for owners_read in [true, false] {
        for (seed, eviction) in
            (1..).zip(["fifo", "lru", "approximate-lru", "second-chance", "none"])
        {
            testkit::basics(&mut harness(64 * MIB, eviction, owners_read));
            let operations = test_size(2_000, 10_000, 50_000);
            testkit::differential(&mut harness(64 * MIB, eviction, owners_read), seed, operations);
            let operations = test_size(2_000, 20_000, 50_000_000);
            testkit::differential(&mut harness(MIB / 4, eviction, owners_read), seed, operations);
            let large = &mut harness(64 * MIB, eviction, owners_read);
            testkit::linearizable(large, seed, test_size(100, 1_000, 100_000));
            testkit::concurrent_readers(large, seed, 2, test_size(1_000, 10_000, 20_000));
        }
        testkit::iteration(&mut harness(64 * MIB, "fifo", owners_read), 1, 500);
    }
}

#[test]
fn an_owner_keeps_other_writers_out_and_lets_readers_in() {
    let mica = cache(MIB, 2, "fifo");
    let key = |shard, n: u32| {
        let mut keys = (1000 * n..).map(u32::to_le_bytes);
        keys.find(|key| sharded(&mica).shard_of(key) == shard).expect("half of the keys")
    };
    mica.put(&key(0, 0), b"before", Durability::Buffered).expect("nobody's partition");
    let mut shard = sharded(&mica).take(0).expect("nobody's partition");
    assert_eq!(shard.number(), 0);
    let kind = |result: Result<()>| result.expect_err("refused").kind();
    assert_eq!(kind(sharded(&mica).take(0).map(|_| ())), ErrorKind::Locked);
    assert_eq!(kind(sharded(&mica).take(2).map(|_| ())), ErrorKind::Config);
    let put = |key: &[u8]| mica.put(key, b"other", Durability::Buffered);
    assert_eq!(kind(put(&key(0, 0))), ErrorKind::Locked);
    put(&key(1, 0)).expect("nobody's partition");
    let (own, strange) = (key(0, 1), key(1, 1));
    let mut batch = WriteBatch::new();
    batch.put(&strange, b"").put(&own, b"");
    assert_eq!(kind(mica.write(&batch, Durability::Buffered)), ErrorKind::Locked);
    assert_eq!(mica.get(&strange).expect("a get"), None, "all of a batch or nothing");
    put(&strange).expect("what was locked for the batch is free again");
    assert_eq!(kind(shard.write(&batch, Durability::Buffered)), ErrorKind::Config);
    let atomic = mica.as_atomic().expect("atomic");
    let update = atomic.update(&own, Durability::Buffered, &mut |_| Update::Keep);
    assert_eq!(kind(update), ErrorKind::Locked);
    let mut seen = Vec::new();
    let mut decide = |at: usize, current: Option<EntryRef<'_>>| {
        seen.push(current.map(|entry| entry.value.to_vec()));
        Update::put(vec![at as u8])
    };
    let before = key(0, 0);
    let done = shard.update_many(&[&before, &own, &own], Durability::Buffered, &mut decide);
    assert_eq!(done.expect("its own keys"), 3);
    assert_eq!(seen, [Some(b"before".to_vec()), None, Some(vec![1])]);
    assert_eq!(mica.get_all(&[&before, &own]).expect("gets"), [Some(vec![0]), Some(vec![2])]);
    drop(shard);
    put(&own).expect("nobody's partition again");
    mica.verify().expect("every invariant");
}

/// Owners write and read their partitions while others read everything.
#[test]
fn owners_and_readers_at_the_same_time() {
    owners_and_readers_of("approximate-lru");
    owners_and_readers_of("second-chance");
}

fn owners_and_readers_of(eviction: &str) {
    let mica = cache(MIB / 4, 2, eviction);
    let rounds = test_size(10_000, 200_000, 20_000_000);
    let keys: Vec<[u8; 8]> = (0..800_u64).map(u64::to_le_bytes).collect();
    let check = |key: &[u8], value: &[u8]| {
        assert_eq!(value[..8], *key, "of another key");
        assert!(value.chunks(16).all(|piece| piece == &value[..16]), "torn");
    };
    struct Check<'a>(&'a [&'a [u8]], &'a (dyn Fn(&[u8], &[u8]) + Sync), u64);
    impl GetSink for Check<'_> {
        fn found(&mut self, index: usize, entry: EntryRef<'_>) {
            self.1(self.0[index], entry.value);
            self.2 += 1;
        }
    }
    std::thread::scope(|scope| {
        for mut shard in take_all(&mica) {
            let (mica, keys, check) = (&mica, &keys, &check);
            scope.spawn(move || {
                let mine = |key: &&[u8; 8]| sharded(mica).shard_of(&key[..]) == shard.number();
                let mine: Vec<&[u8]> = keys.iter().filter(mine).map(|key| &key[..]).collect();
                for round in 0..rounds {
                    let key = mine[(round * 7919) as usize % mine.len()];
                    let value = [key, &round.to_le_bytes()].concat();
                    let value = value.repeat(1 + round as usize % 30);
                    let mut batch = WriteBatch::new();
                    batch.put(key, &value);
                    shard.write(&batch, Durability::Buffered).expect("a write");
                    let mut sink = Check(&[key], check, 0);
                    shard.get_many(&[key], &mut sink).expect("a get");
                    assert_eq!(sink.2, 1, "what was just written is there");
                }
            });
        }
        let (mica, keys) = (&mica, &keys);
        scope.spawn(move || {
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            for round in 0..rounds as usize / 8 {
                let burst = &keys[round % 25 * 32..][..32];
                mica.get_many(burst, &mut Check(burst, &check, 0)).expect("gets");
            }
        });
    });
    mica.verify().expect("every invariant");
    let mut metrics = MetricsMap::default();
    mica.metrics(&mut metrics);
    assert!(metrics.get("evictions_from_log") > 100.0, "{metrics:?}");
    assert!(metrics.get("gets") >= 2.0 * rounds as f64, "gets of shards count, too");
}
