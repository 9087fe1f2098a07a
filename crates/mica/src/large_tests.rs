//! Values that are larger than a place: whole or not there, whatever happens beside them.

use crate::mica::Mica;
use crate::options::OPTIONS;
use silica_base::{ErrorKind, HashSeed, ManualClock, Prng, test_size};
use silica_engine::{
    Admin, Atomic, Budget, CopyRoom, Durability, Engine, EngineExt, EntryRef, Environment,
    Expected, GetSink, MetricsMap, OptionValues, Scan, Sharded, Update, WriteBatch, limit_copies,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const NOW: Durability = Durability::Buffered;
const MIB: usize = 1 << 20;
/// Bytes by which a value says what it is.
const MARK_BYTES: usize = 16;
const POLICIES: [&str; 6] = ["fifo", "lru", "approximate-lru", "second-chance", "s3-fifo", "none"];

fn open(memory_bytes: usize, partitions: u64, eviction: &str) -> (Mica, Arc<ManualClock>) {
    let mut options = OptionValues::parse(OPTIONS, [("eviction", eviction)]).expect("valid");
    options.set("memory_bytes", memory_bytes as u64).set("partitions", partitions);
    let clock = Arc::new(ManualClock::default());
    let environment = Environment { clock: clock.clone(), seed: HashSeed([7; 16]) };
    (Mica::open(&options, &environment).expect("it opens"), clock)
}

pub(crate) fn metric(mica: &Mica, name: &str) -> f64 {
    let mut metrics = MetricsMap::default();
    mica.metrics(&mut metrics);
    metrics.get(name)
}

pub(crate) fn chunks(mica: &Mica) -> u64 {
    mica.partitions.iter().map(|partition| partition.counts.chunks.get()).sum()
}

pub(crate) fn entries(mica: &Mica) -> u64 {
    metric(mica, "entries_estimate") as u64
}

/// A value of `bytes` bytes that no other stamp has, and that says so as far as it is long enough.
pub(crate) fn value(stamp: u64, bytes: usize) -> Vec<u8> {
    let mut prng = Prng::new(stamp ^ (bytes as u64) << 32);
    let mut value = Vec::with_capacity(bytes + 8);
    value.extend_from_slice(&stamp.to_le_bytes());
    value.extend_from_slice(&(bytes as u64).to_le_bytes());
    while value.len() < bytes {
        value.extend_from_slice(&prng.next_u64().to_le_bytes());
    }
    value.truncate(bytes);
    value
}

/// Checks that a value is one that was made, all of it; returns its stamp.
pub(crate) fn check(found: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(found[at..at + 8].try_into().expect("eight bytes"));
    let (stamp, bytes) = (word(0), word(8));
    assert_eq!(bytes, found.len() as u64, "its own length");
    assert!(found == value(stamp, found.len()), "{bytes} bytes of stamp {stamp} are torn");
    stamp
}

/// Sizes at which something changes.
pub(crate) fn sizes(mica: &Mica) -> Vec<usize> {
    let (whole, chunk) = (mica.whole_bytes_max, mica.layout.chunk_bytes());
    let max = mica.descriptor().limits.value_bytes_max;
    let chunks = (1..=6).map(|n| n * chunk);
    let all = chunks.chain([whole, max / 4, max / 2, max]);
    let mut all: Vec<usize> = all.flat_map(|n| [n - 1, n, n + 1]).collect();
    all.retain(|n| (MARK_BYTES..=max).contains(n));
    all.extend([MARK_BYTES, 100, 5000.min(whole)]);
    all
}

pub(crate) fn maintain(mica: &Mica) {
    while mica.maintain(Budget::of(1 << 20)).expect("maintained").more {}
}

/// What is there, as a scan says, each whole.
pub(crate) fn contents(mica: &Mica) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let visit = &mut |key: &[u8], entry: EntryRef<'_>| {
        check(entry.value);
        assert!(found.insert(key.to_vec(), entry.value.to_vec()).is_none(), "{key:?} twice");
    };
    assert_eq!(mica.scan(0, usize::MAX, visit).expect("a scan"), None);
    found
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Run {
    mica: Mica,
    model: Model,
    prng: Prng,
    sizes: Vec<usize>,
    stamp: u64,
    /// Keys that a cache has lost, and writes that a store has refused.
    lost: u64,
    refused: u64,
}

impl Run {
    fn new(memory_bytes: usize, partitions: u64, eviction: &str, seed: u64) -> Self {
        let (mica, _) = open(memory_bytes, partitions, eviction);
        let sizes = sizes(&mica);
        let (model, prng) = (Model::new(), Prng::new(seed));
        Run { mica, model, prng, sizes, stamp: 0, lost: 0, refused: 0 }
    }

    fn key(&mut self) -> Vec<u8> {
        let n = self.prng.below(12);
        // Such as chunks have, too.
        let long = if n.is_multiple_of(2) { 16 } else { 0 };
        [&n.to_le_bytes()[..], &vec![0; long]].concat()
    }

    fn value(&mut self) -> Vec<u8> {
        self.stamp += 1;
        let size = match self.prng.below(3) {
            0 => MARK_BYTES + self.prng.below(200) as usize,
            _ => self.sizes[self.prng.below(self.sizes.len() as u64) as usize],
        };
        value(self.stamp, size)
    }

    /// Notes what became of a write that puts `new` under `key`, or deletes it.
    fn wrote(&mut self, done: silica_base::Result<()>, key: &[u8], new: Option<Vec<u8>>) {
        match (done, new) {
            (Ok(()), Some(value)) => drop(self.model.insert(key.to_vec(), value)),
            (Ok(()), None) => drop(self.model.remove(key)),
            (Err(error), _) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                self.refused += 1;
            }
        }
    }

    fn get(&mut self, key: &[u8]) {
        let found = self.mica.get(key).expect("a get");
        let want = self.model.get(key);
        if found.is_none() && want.is_some() && !self.mica.is_store {
            self.model.remove(key);
            self.lost += 1;
            return;
        }
        assert!(found.as_ref() == want, "{key:?}");
    }

    fn step(&mut self) {
        let key = self.key();
        match self.prng.below(10) {
            0 => {
                let done = self.mica.delete(&key, NOW);
                self.wrote(done, &key, None);
            }
            1 | 2 => self.append(&key),
            3 => {
                let (other, first, second) = (self.key(), self.value(), self.value());
                let mut batch = WriteBatch::new();
                let done = self.mica.write(batch.put(&key, &first).put(&other, &second), NOW);
                let is_done = done.is_ok();
                self.wrote(done, &key, Some(first));
                if is_done {
                    self.wrote(Ok(()), &other, Some(second));
                }
            }
            4..7 => self.get(&key),
            _ => {
                let new = self.value();
                let done = self.mica.put(&key, &new, NOW);
                self.wrote(done, &key, Some(new));
            }
        }
    }

    /// Puts a value of which the length is that of the old one and some more.
    fn append(&mut self, key: &[u8]) {
        self.stamp += 1;
        let (stamp, max) = (self.stamp, self.mica.descriptor().limits.value_bytes_max);
        let want = self.model.get(key).cloned();
        let (is_store, mut new, mut is_lost) = (self.mica.is_store, None, false);
        let done = self.mica.update(key, NOW, &mut |current| {
            let current = current.map(|entry| entry.value.to_vec());
            is_lost = current.is_none() && want.is_some();
            assert!(is_lost && !is_store || current == want, "an update sees {key:?}");
            let bytes = current.map_or(MARK_BYTES, |current| current.len() + 1000).min(max);
            new = Some(value(stamp, bytes));
            Update::put(new.clone().expect("just made"))
        });
        if is_lost {
            self.model.remove(key);
        }
        self.wrote(done, key, new);
    }

    /// Compares all, and checks every invariant.
    fn check(&mut self) {
        let keys: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        keys.iter().for_each(|key| self.get(key));
        maintain(&self.mica);
        self.mica.verify().expect("every invariant");
        let found = contents(&self.mica);
        assert!(found.iter().all(|(key, value)| self.model.get(key) == Some(value)), "a scan");
        // Those that were looked up later may have pushed out others, where uses move entries.
        let lost = self.model.len() - found.len();
        assert!(lost == 0 || !self.mica.is_store, "a scan finds all");
        (self.model, self.lost) = (found, self.lost + lost as u64);
        assert_eq!(entries(&self.mica), self.model.len() as u64, "what is torn is not counted");
        let (chunk, whole) = (self.mica.layout.chunk_bytes(), self.mica.whole_bytes_max);
        let large = self.model.values().filter(|value| value.len() > whole);
        let of_values: usize = large.map(|value| value.len().div_ceil(chunk)).sum();
        assert_eq!(chunks(&self.mica), of_values as u64, "no chunk is left behind");
    }
}

#[test]
fn values_of_all_sizes_come_back_as_they_were() {
    for (n, eviction) in POLICIES.into_iter().enumerate() {
        for (memory, partitions) in [(MIB, 2), (256 << 10, 1), (4 * MIB, 8)] {
            let mut run = Run::new(memory, partitions, eviction, n as u64);
            for _ in 0..test_size(3, 40, 2000) {
                (0..60).for_each(|_| run.step());
                run.check();
            }
            let keys: Vec<Vec<u8>> = run.model.keys().cloned().collect();
            keys.iter().for_each(|key| run.mica.delete(key, NOW).expect("deleted"));
            assert_eq!((chunks(&run.mica), metric(&run.mica, "live_bytes")), (0, 0.0));
            let has_failed = if run.mica.is_store { run.refused } else { run.lost };
            assert!(has_failed > 0, "{eviction} {memory}: it was full at times");
        }
    }
}

#[test]
fn around_a_mebibyte_and_far_beyond() {
    for eviction in ["s3-fifo", "none"] {
        let (mica, _) = open(64 * MIB, 0, eviction);
        let max = mica.descriptor().limits.value_bytes_max;
        assert!(max >= 24 * MIB, "{max}");
        for bytes in [MIB - 1, MIB, MIB + 1, 3 * MIB + 5, 24 * MIB] {
            let stamp = bytes as u64;
            mica.put(b"key", &value(stamp, bytes), NOW).expect("it fits");
            assert_eq!(check(&mica.get(b"key").expect("a get").expect("it is there")), stamp);
            mica.verify().expect("every invariant");
            mica.delete(b"key", NOW).expect("deleted");
        }
        assert_eq!(chunks(&mica), 0);
        let sum: f64 =
            ["index_bytes", "log_bytes", "management_bytes"].map(|m| metric(&mica, m)).iter().sum();
        assert!(sum <= 64.0 * MIB as f64, "{sum}");
        assert_eq!((metric(&mica, "puts"), metric(&mica, "deletes")), (5.0, 5.0));
        let bytes = MIB - 1 + MIB + MIB + 1 + 3 * MIB + 5 + 24 * MIB + 5 * 3;
        assert_eq!(metric(&mica, "user_bytes_written"), bytes as f64);
        assert_eq!((metric(&mica, "evictions"), entries(&mica)), (0.0, 0));
    }
}

/// Half a gibibyte in a cache of two; run alone, its memory is bounded, too.
#[test]
#[ignore = "takes 4 GiB and some seconds; run it alone"]
fn half_a_gibibyte_in_two() {
    let (mica, _) = open(2 << 30, 0, "s3-fifo");
    let bytes = crate::VALUE_BYTES_MAX;
    let made = value(1, bytes);
    for round in 0..5_u64 {
        mica.put(&round.to_le_bytes(), &made, NOW).expect("it fits");
        for n in 0..1000 * round {
            mica.put(&n.to_be_bytes(), &value(n, 100), NOW).expect("it fits");
        }
        let mut sink = Whole(None);
        mica.get_many(&[&round.to_le_bytes()], &mut sink).expect("a get");
        assert_eq!(sink.0, Some(1));
    }
    mica.verify().expect("every invariant");
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    println!("peak of {peak_kib} KiB");
    // The cache, the value as it was made, a copy to compare with, and one that is read.
    assert!(peak_kib < (2048 + 3 * 512 + 64) << 10, "{peak_kib} KiB");
}

/// Checks what is found.
struct Whole(Option<u64>);

impl GetSink for Whole {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        self.0 = Some(check(entry.value));
    }
}

#[test]
fn a_value_that_is_not_wanted_is_not_read() {
    struct Asked(Vec<usize>);
    impl GetSink for Asked {
        fn found(&mut self, index: usize, _: EntryRef<'_>) {
            assert_eq!(index, 1, "nobody wanted the other");
        }
        fn wants(&mut self, index: usize, bytes: usize) -> bool {
            self.0.push(bytes);
            index != 0
        }
    }
    let (mica, _) = open(64 * MIB, 0, "s3-fifo");
    mica.put(b"large", &value(1, 2 * MIB), NOW).expect("it fits");
    mica.put(b"small", &value(2, 100), NOW).expect("it fits");
    let mut asked = Asked(Vec::new());
    mica.get_many(&[b"large", b"small"], &mut asked).expect("a get");
    assert_eq!(asked.0, [2 * MIB]);
}

struct Room(AtomicU64);

impl CopyRoom for Room {
    fn claim(&self, bytes: usize) -> silica_base::Result<()> {
        let taken = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes as u64));
        taken.map(|_| ()).map_err(|_| silica_base::Error::new(ErrorKind::Full, "no room"))
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Relaxed);
    }
}

#[test]
fn copies_of_large_values_take_memory_of_the_thread() {
    let (mica, _) = open(64 * MIB, 0, "s3-fifo");
    mica.put(b"large", &value(1, 2 * MIB), NOW).expect("it fits");
    mica.put(b"small", &value(2, 100), NOW).expect("it fits");
    let room = Arc::new(Room(AtomicU64::new(0)));
    let limit = |mib: usize| room.0.store((mib * MIB) as u64, Relaxed);
    let of_thread = Arc::clone(&room) as Arc<dyn CopyRoom>;
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            limit_copies(&of_thread);
            let grow = |current: Option<EntryRef<'_>>| {
                let mut value = current.map_or_else(Vec::new, |entry| entry.value.to_vec());
                value.push(b'x');
                Update::Put { value, expires_unix_ms: 0, user_bits: 0 }
            };
            let both = || {
                mica.update_all(&[b"large", b"small"], NOW, &mut |entries| {
                    entries.iter().map(|entry| grow(*entry)).collect()
                })
            };
            let keep: &mut dyn FnMut(&[u8], EntryRef<'_>) = &mut |_, _| {};
            // One copy to look at, and of several keys one more until all are there.
            let calls: [(usize, &dyn Fn() -> silica_base::Result<()>); 3] = [
                (3, &|| mica.update(b"large", NOW, &mut |entry| grow(entry))),
                (5, &both),
                (3, &|| {
                    let large = Expected { key: b"large", entry: None };
                    mica.write_expecting(&[large], &[], NOW).map(|held| assert!(!held))
                }),
            ];
            for (mib, call) in calls {
                limit(mib - 2);
                assert_eq!(call().expect_err("it has no room").kind(), ErrorKind::Full);
                limit(mib);
                call().expect("it has room");
                assert_eq!(room.0.load(Relaxed), (mib * MIB) as u64, "all was given back");
            }
            limit(1);
            mica.update(b"small", NOW, &mut |entry| grow(entry)).expect("small values need none");
            assert_eq!(mica.scan(0, 10, keep).expect_err("no room").kind(), ErrorKind::Full);
            limit(3);
            mica.scan(0, 10, keep).expect("there is room");
        });
        asked.join().expect("all as it should be");
    });
    // Nothing limits this thread.
    limit(0);
    let found = mica.get(b"large").expect("a get").expect("it is there");
    assert_eq!(found.len(), 2 * MIB + 2);
}

#[test]
fn a_value_stays_that_was_just_put_among_those_that_are_used() {
    for eviction in ["second-chance", "s3-fifo"] {
        let (mica, _) = open(16 * MIB, 2, eviction);
        let max = mica.descriptor().limits.value_bytes_max;
        let small = value(0, 40_000);
        for n in 0..2000_u64 {
            mica.put(&n.to_le_bytes(), &small, NOW).expect("put");
            (0..4).for_each(|_| drop(mica.get(&n.to_le_bytes()).expect("a get")));
        }
        for stamp in 0..20 {
            mica.put(b"large", &value(stamp, max), NOW).expect("it fits");
            let found = mica.get(b"large").expect("a get");
            assert_eq!(check(&found.expect("it is there")), stamp, "{eviction}");
        }
        mica.verify().expect("every invariant");
    }
}

#[test]
fn what_is_evicted_goes_as_a_whole_and_is_counted_once() {
    for eviction in ["fifo", "lru", "s3-fifo"] {
        let (mica, _) = open(4 * MIB, 4, eviction);
        let large = mica.descriptor().limits.value_bytes_max / 4;
        for n in 0..40_u64 {
            mica.put(&n.to_le_bytes(), &value(n, large), NOW).expect("put");
        }
        maintain(&mica);
        let (left, evicted) = (entries(&mica), metric(&mica, "evictions"));
        assert_eq!(left as f64 + evicted, 40.0, "{eviction}");
        assert_eq!(contents(&mica).len() as u64, left);
        assert_eq!(chunks(&mica), left * large.div_ceil(mica.layout.chunk_bytes()) as u64);
        if eviction == "s3-fifo" {
            // Small ones that nobody reads never come into the main log.
            continue;
        }
        for n in 0..60_000_u32 {
            mica.put(&n.to_le_bytes(), &value(1, 60), NOW).expect("put");
        }
        maintain(&mica);
        assert_eq!(chunks(&mica), 0, "{eviction}: small ones took its place");
        mica.verify().expect("every invariant");
    }
}

#[test]
fn what_expires_or_is_cleared_takes_its_chunks_along() {
    for eviction in POLICIES {
        let (mica, clock) = open(4 * MIB, 4, eviction);
        let large = mica.whole_bytes_max * 3;
        let made = value(1, large);
        for (n, expires_unix_ms) in [(0, 0), (1, 5), (2, 5), (3, 0)] {
            let entry = EntryRef { value: &made, expires_unix_ms, user_bits: 7 };
            mica.write(WriteBatch::new().put_entry(&[n], entry), NOW).expect("it fits");
        }
        let each = large.div_ceil(mica.layout.chunk_bytes()) as u64;
        assert_eq!(chunks(&mica), 4 * each);
        clock.advance_ns(6_000_000);
        assert_eq!(mica.get(&[1]).expect("a get"), None);
        maintain(&mica);
        assert_eq!((chunks(&mica), entries(&mica)), (2 * each, 2), "{eviction}");
        let mut seen = None;
        let keep = &mut |current: Option<EntryRef<'_>>| {
            seen = current.map(|entry| (check(entry.value), entry.user_bits));
            Update::Keep
        };
        mica.update(&[0], NOW, keep).expect("an update");
        assert_eq!(seen, Some((1, 7)));
        mica.clear().expect("cleared");
        assert_eq!((chunks(&mica), entries(&mica)), (0, 0));
        assert_eq!(mica.get(&[0]).expect("a get"), None);
        mica.verify().expect("every invariant");
    }
}

/// Writers of large and small values, and readers, who find each value whole or not at all.
#[test]
fn threads_see_whole_values() {
    for (n, eviction) in POLICIES.into_iter().enumerate() {
        let (mica, _) = open(MIB, 2, eviction);
        let (sizes, is_over) = (sizes(&mica), AtomicBool::new(false));
        let (stamps, found) = (AtomicU64::new(1), AtomicU64::new(0));
        let write = |seed| {
            let mut prng = Prng::new(seed);
            let least = test_size(40, 1500, 200_000);
            // As long as the reader has not had its turn, there is something to read.
            let goes_on = |n| n < least || (found.load(Relaxed) == 0 && n < 1_000_000);
            for _ in (0..).take_while(|n| goes_on(*n)) {
                let key = prng.below(4).to_le_bytes();
                let size = sizes[prng.below(sizes.len() as u64) as usize];
                let made = value(stamps.fetch_add(1, Relaxed), size);
                let done = match prng.below(4) {
                    0 => mica.delete(&key, NOW),
                    1 => mica.update(&key, NOW, &mut |current| {
                        current.inspect(|entry| assert!(check(entry.value) > 0));
                        Update::put(made.clone())
                    }),
                    _ => mica.put(&key, &made, NOW),
                };
                if let Err(error) = done {
                    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                }
            }
            is_over.store(true, Relaxed);
        };
        let read = |seed| {
            let mut prng = Prng::new(seed);
            while !is_over.load(Relaxed) {
                let mut sink = Whole(None);
                mica.get_many(&[&prng.below(4).to_le_bytes()], &mut sink).expect("a get");
                found.fetch_add(u64::from(sink.0.is_some()), Relaxed);
                if prng.one_in(50) {
                    contents_by_parts(&mica);
                }
            }
        };
        std::thread::scope(|scope| {
            let seed = 10 * n as u64;
            scope.spawn(move || read(seed));
            scope.spawn(move || write(seed + 1));
            scope.spawn(move || write(seed + 2));
        });
        maintain(&mica);
        mica.verify().expect("every invariant");
        for n in 0..4_u64 {
            mica.delete(&n.to_le_bytes(), NOW).expect("deleted");
        }
        maintain(&mica);
        assert_eq!((chunks(&mica), entries(&mica)), (0, 0), "{eviction}");
        assert!(found.load(Relaxed) > 0, "{eviction}: something was there at times");
    }
}

/// A scan beside writers, who may move a key from one visit to the next.
fn contents_by_parts(mica: &Mica) {
    let mut next = Some(0);
    while let Some(cursor) = next {
        next =
            mica.scan(cursor, 1, &mut |_, entry| assert!(check(entry.value) > 0)).expect("a scan");
    }
}

/// Nobody reads an old value after a new one was there, however long a read takes. Nobody misses it
/// if nothing is evicted.
#[test]
fn readers_are_overtaken_and_go_on() {
    for eviction in ["fifo", "none"] {
        let (mica, _) = open(4 * MIB, 4, eviction);
        let (large, puts) = (mica.whole_bytes_max * 4, test_size(60, 3000, 100_000));
        let newest = AtomicU64::new(0);
        mica.put(b"key", &value(0, large), NOW).expect("it fits");
        let read = || {
            let mut reads = 0;
            while newest.load(Relaxed) < puts {
                let least = newest.load(Relaxed);
                let mut sink = Whole(None);
                mica.get_many(&[b"key"], &mut sink).expect("a get");
                match sink.0 {
                    Some(stamp) => assert!(stamp >= least, "{stamp} after {least}"),
                    None => assert!(!mica.is_store, "it was there all the time"),
                }
                reads += u64::from(sink.0.is_some());
            }
            reads
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(read);
            for stamp in 1..=puts {
                mica.put(b"key", &value(stamp, large), NOW).expect("it fits");
                newest.store(stamp, Relaxed);
            }
            assert!(reader.join().expect("no panic") > 0);
        });
    }
}

#[test]
fn owners_have_large_values_in_their_partitions() {
    for eviction in ["s3-fifo", "none"] {
        let (mica, _) = open(8 * MIB, 4, eviction);
        let max = mica.layout.owned_bytes_max();
        let mut shards: Vec<_> = (0..4).map(|n| mica.take(n).expect("nobody has it")).collect();
        // One key of each partition.
        let key_of = |shard: usize| {
            let is_there = |n: &u64| mica.shard_of(&n.to_le_bytes()) == shard;
            (0..1000_u64).find(is_there).expect("a key of each").to_le_bytes()
        };
        let keys: Vec<[u8; 8]> = (0..4).map(key_of).collect();
        for stamp in 0..test_size(60, 300, 5000) {
            let key = keys[stamp as usize % 4];
            let shard = &mut shards[mica.shard_of(&key)];
            let bytes = [max, mica.whole_bytes_max + 1, 100, max / 2][stamp as usize % 5 % 4];
            let made = value(stamp, bytes);
            let done = shard.write(WriteBatch::new().put(&key, &made), NOW);
            if done.is_err() && mica.is_store {
                // It does not fit beside the old one.
                shard.write(WriteBatch::new().delete(&key), NOW).expect("deleted");
                shard.write(WriteBatch::new().put(&key, &made), NOW).expect("it fits");
            }
            let mut sink = Whole(None);
            shard.get_many(&[&key], &mut sink).expect("a get");
            assert_eq!(sink.0, Some(stamp), "{eviction}");
            assert_eq!(mica.get(&key).expect("a get").map(|found| check(&found)), Some(stamp));
            let grow = &mut |_: usize, current: Option<EntryRef<'_>>| {
                assert_eq!(current.map(|entry| check(entry.value)), Some(stamp));
                Update::Keep
            };
            assert_eq!(shard.update_many(&[&key], NOW, grow).expect("an update"), 1);
        }
        let key = keys[0];
        let error = shards[mica.shard_of(&key)]
            .write(WriteBatch::new().put(&key, &vec![0; max + 1]), NOW)
            .expect_err("more than a partition has");
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().contains("mode crcw"), "{error}");
        drop(shards);
        mica.verify().expect("every invariant");
        keys.iter().for_each(|key| mica.delete(key, NOW).expect("deleted"));
        assert_eq!((chunks(&mica), entries(&mica)), (0, 0));
    }
}

#[test]
fn a_store_that_is_full_keeps_what_it_has() {
    let (mica, _) = open(4 * MIB, 2, "none");
    let max = mica.descriptor().limits.value_bytes_max;
    mica.put(b"a", &value(1, max), NOW).expect("it fits");
    for (key, bytes) in [(b"a", max), (b"b", max)] {
        let error = mica.put(key, &value(2, bytes), NOW).expect_err("not another one");
        assert_eq!(error.kind(), ErrorKind::Full);
        assert!(error.to_string().contains("memory_bytes"), "{error}");
    }
    let update = mica.update(b"a", NOW, &mut |current| {
        assert_eq!(current.map(|entry| check(entry.value)), Some(1));
        Update::put(value(3, max))
    });
    assert_eq!(update.expect_err("nor beside the old one").kind(), ErrorKind::Full);
    assert_eq!(check(&mica.get(b"a").expect("a get").expect("it is there")), 1);
    mica.verify().expect("every invariant");
    assert_eq!(chunks(&mica), max.div_ceil(mica.layout.chunk_bytes()) as u64);
    mica.delete(b"a", NOW).expect("deleted");
    mica.put(b"b", &value(2, max), NOW).expect("it fits now");
}

#[test]
fn keys_that_look_like_chunks_are_none() {
    let (mica, _) = open(4 * MIB, 1, "none");
    let large = mica.whole_bytes_max + 1;
    mica.put(b"large", &value(1, large), NOW).expect("it fits");
    let mut keys = Vec::new();
    mica.partitions[0]
        .visit(&mut |key, form, _| {
            keys.extend((form == crate::item::Form::Chunk).then(|| key.to_vec()));
        })
        .expect("a sound partition");
    assert!(keys.len() > 1);
    for key in &keys {
        assert_eq!(mica.get(key).expect("a get"), None, "a chunk is nobody's");
        mica.put(key, b"mine", NOW).expect("it fits");
    }
    for key in &keys {
        assert_eq!(mica.get(key).expect("a get"), Some(b"mine".to_vec()));
        mica.verify().expect("every invariant");
        mica.delete(key, NOW).expect("deleted");
    }
    assert_eq!(check(&mica.get(b"large").expect("a get").expect("it is there")), 1);
}
