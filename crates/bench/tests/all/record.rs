//! Recorded, replayed: the trace holds what was asked, and a replay asks it again.

use silica::tune::trace::TraceReader;
use silica::tune::{Access, Workload};
use silica::{Durability, ErrorKind, Keyspace, OpenOptions, RecordOptions, Update, WriteBatch};
use silica_base::Prng;
use silica_bench::{Config, Plan, TraceKind, run_trace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("silica-record-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const KEYS: u64 = 5000;

/// How often each operation was asked for, and each key (scans apart).
#[derive(Default, Debug, PartialEq)]
struct Asked {
    gets: u64,
    puts: u64,
    deletes: u64,
    scans: u64,
    /// Searches that gave no entry, which have no key a trace could name.
    empty_searches: u64,
    keys: BTreeMap<Vec<u8>, u64>,
}

impl Asked {
    fn add(&mut self, kind: TraceKind, key: &[u8]) {
        match kind {
            TraceKind::Get => self.gets += 1,
            TraceKind::Put { .. } => self.puts += 1,
            TraceKind::Delete => self.deletes += 1,
            TraceKind::Scan { .. } => self.scans += 1,
        }
        if !matches!(kind, TraceKind::Scan { .. }) {
            *self.keys.entry(key.to_vec()).or_insert(0) += 1;
        }
    }

    fn merge(&mut self, other: Asked) {
        self.gets += other.gets;
        self.puts += other.puts;
        self.deletes += other.deletes;
        self.scans += other.scans;
        self.empty_searches += other.empty_searches;
        other.keys.into_iter().for_each(|(key, n)| *self.keys.entry(key).or_insert(0) += n);
    }

    /// How often keys were asked for, whatever they are called.
    fn popularity(&self) -> Vec<u64> {
        let mut counts: Vec<u64> = self.keys.values().copied().collect();
        counts.sort_unstable();
        counts
    }

    fn of(trace: &Path) -> Asked {
        let text = std::fs::read(trace).unwrap();
        let mut reader = TraceReader::new(&text[..], "recorded").unwrap();
        let mut asked = Asked::default();
        while let Some(event) = reader.next().unwrap() {
            asked.add(event.kind, event.key);
        }
        asked
    }
}

/// Asks all kinds of things, some keys far more often than others.
fn work(keyspace: &Keyspace, seed: u64, operations: u64) -> Asked {
    let (mut prng, mut asked) = (Prng::new(seed), Asked::default());
    for _ in 0..operations {
        let among = 1 + prng.below(KEYS);
        let key = format!("user:{:06}", prng.below(among));
        let mut ask = |kind| asked.add(kind, key.as_bytes());
        match prng.below(20) {
            0..=9 => {
                keyspace.get(&key).unwrap();
                ask(TraceKind::Get);
            }
            10..=15 => {
                keyspace.put(&key, [7; 40]).unwrap();
                ask(TraceKind::Put { value_bytes: 40 });
            }
            16 => {
                keyspace.delete(&key).unwrap();
                ask(TraceKind::Delete);
            }
            17 => {
                let mut range = keyspace.range(key.as_str()..).unwrap();
                match (0..5).filter_map(|_| range.next()).count() {
                    0 => asked.empty_searches += 1,
                    _ => ask(TraceKind::Scan { entries: 5 }),
                }
            }
            18 => {
                keyspace.update(&key, |_| Update::put(vec![8; 40])).unwrap();
                ask(TraceKind::Get);
                ask(TraceKind::Put { value_bytes: 40 });
            }
            _ => {
                let mut batch = WriteBatch::new();
                batch.put(key.as_bytes(), &[9; 40]).put(b"both", &[9; 40]);
                keyspace.write(&batch).unwrap();
                ask(TraceKind::Put { value_bytes: 40 });
                asked.add(TraceKind::Put { value_bytes: 40 }, b"both");
            }
        }
    }
    asked
}

fn workload_of(trace: &Path) -> Workload {
    let text = std::fs::read(trace).unwrap();
    let mut reader = TraceReader::new(&text[..], "recorded").unwrap();
    Workload::from_trace(&mut reader, &Workload::default()).unwrap()
}

#[test]
fn what_a_transaction_writes_is_recorded_and_removed_ranges_are_told() {
    let scratch = Scratch::new("transaction");
    let options = OpenOptions::new().engine("wip").durability(Durability::Buffered);
    let store = options.open(scratch.0.join("store")).unwrap();
    let keyspace = store.keyspace("default").unwrap();
    let trace = scratch.0.join("trace");
    let recording = keyspace.record(&trace, &RecordOptions::default()).unwrap();
    let mut transaction = keyspace.transaction().unwrap();
    transaction.put("one", [1; 40]);
    transaction.delete("two");
    transaction.commit().unwrap();
    let (mut late, mut early) = (keyspace.transaction().unwrap(), keyspace.transaction().unwrap());
    early.put("one", [2; 40]);
    late.put("one", [3; 40]);
    early.commit().unwrap();
    assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);
    keyspace.delete_range("a".."z").unwrap();
    let report = recording.stop().unwrap();
    assert_eq!((report.operations, report.dropped, report.unrecorded), (3, 0, 1));
    let recorded = Asked::of(&trace);
    assert_eq!((recorded.puts, recorded.deletes, recorded.gets), (2, 1, 0));
}

#[test]
fn what_is_recorded_is_what_was_asked_and_a_replay_asks_it_again() {
    let scratch = Scratch::new("replay");
    let options = || OpenOptions::new().engine("wip").durability(Durability::Buffered);
    let store = options().open(scratch.0.join("store")).unwrap();
    let keyspace = store.keyspace("default").unwrap();
    work(&keyspace, 99, 2000);
    let trace = scratch.0.join("trace");
    let recording = keyspace.record(&trace, &RecordOptions::default()).unwrap();
    let twice = keyspace.record(scratch.0.join("other"), &RecordOptions::default()).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Locked);
    let mut asked = Asked::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=3)
            .map(|seed| {
                let keyspace = &keyspace;
                scope.spawn(move || work(keyspace, seed, 20_000))
            })
            .collect();
        threads.into_iter().for_each(|thread| asked.merge(thread.join().unwrap()));
    });
    let report = recording.stop().unwrap();
    work(&keyspace, 98, 500);
    assert_eq!((report.dropped, report.unrecorded), (0, asked.empty_searches));
    assert_eq!(report.bytes, std::fs::metadata(&trace).unwrap().len());
    let recorded = Asked::of(&trace);
    let operations = asked.gets + asked.puts + asked.deletes + asked.scans;
    assert_eq!(report.operations, operations);
    let counts = |a: &Asked| (a.gets, a.puts, a.deletes, a.scans);
    assert_eq!(counts(&recorded), counts(&asked));
    assert_eq!(recorded.popularity(), asked.popularity());
    assert!(recorded.keys.keys().all(|key| !key.starts_with(b"user")), "keys are not shown");

    let config = Config {
        plan: Plan { threads: 2, ..Plan::of_trace(0) },
        path: Some(scratch.0.join("replayed")),
        cold: false,
        settle: false,
        sql: None,
        open: options(),
    };
    let replayed = run_trace(&config, &trace, false, &mut |_, _| {}).unwrap();
    assert_eq!(replayed.operations, operations);
    assert_eq!(
        (replayed.puts, replayed.deletes, replayed.reads),
        (asked.puts, asked.deletes, asked.gets)
    );

    // What the store of the replay saw of its workload is what the trace says, as far as a sample
    // of some 200 calls tells: a half has a standard deviation of 0.035, and four are allowed.
    let store = options().open(scratch.0.join("replayed")).unwrap();
    let seen = store.keyspace("default").unwrap().workload().unwrap();
    let said = workload_of(&trace);
    let (seen_mix, said_mix) = (seen.mix.normalised(), said.mix.normalised());
    for (what, seen, said) in [
        ("reads", seen_mix.reads(), said_mix.reads()),
        ("writes", seen_mix.writes(), said_mix.writes()),
        ("scans", seen_mix.scans, said_mix.scans),
    ] {
        assert!((seen - said).abs() < 0.14, "{what}: {seen}, not {said}");
    }
    let Access::Groups(groups) = &said.access else { panic!("{}", said.access) };
    let of_groups: f64 = groups.iter().map(|(keys, _)| keys).sum();
    assert_eq!(of_groups, asked.keys.len() as f64);
}

#[test]
fn a_recording_that_is_cut_is_replayed_up_to_the_cut() {
    let scratch = Scratch::new("cut");
    let store = OpenOptions::new().engine("wip").open(scratch.0.join("store")).unwrap();
    let keyspace = store.keyspace("default").unwrap();
    let trace = scratch.0.join("trace");
    let options = RecordOptions { real_keys: true, ..RecordOptions::default() };
    let recording = keyspace.record(&trace, &options).unwrap();
    (0..100).for_each(|n| keyspace.put(format!("key {n}"), "value").unwrap());
    // It is in the file before anybody stops it.
    let lines = || std::fs::read_to_string(&trace).unwrap().lines().count();
    let began = std::time::Instant::now();
    while lines() < 102 {
        assert!(began.elapsed().as_secs() < 60, "{} lines", lines());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let text = std::fs::read(&trace).unwrap();
    drop(recording);
    let cut = scratch.0.join("cut");
    std::fs::write(&cut, &text[..text.len() - 3]).unwrap();
    let config = Config {
        plan: Plan::of_trace(0),
        path: None,
        cold: false,
        settle: false,
        sql: None,
        open: OpenOptions::new().engine("wip"),
    };
    let report = run_trace(&config, &cut, false, &mut |_, _| {}).unwrap();
    assert_eq!((report.operations, report.puts), (99, 99));
}

#[test]
fn a_trace_ends_where_it_is_large_enough_or_cannot_be_written() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            match taken {
                0 => Err(std::io::ErrorKind::StorageFull.into()),
                taken => Ok(taken),
            }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let scratch = Scratch::new("full");
    let store = OpenOptions::new().engine("wip").open(scratch.0.join("store")).unwrap();
    let keyspace = store.keyspace("default").unwrap();
    let put_until = |is_over: &dyn Fn() -> bool| {
        let began = std::time::Instant::now();
        while !is_over() {
            keyspace.put("key", "value").unwrap();
            assert!(began.elapsed().as_secs() < 60);
        }
    };
    let trace = scratch.0.join("trace");
    let of_at_most = |bytes| RecordOptions { bytes_max: Some(bytes), ..RecordOptions::default() };
    let refused = keyspace.record(scratch.0.join("small"), &of_at_most(1000)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
    let options = of_at_most(4096);
    let recording = keyspace.record(&trace, &options).unwrap();
    put_until(&|| recording.is_over());
    let report = recording.stop().unwrap();
    // What is left has room for the line that ends it and for one more event, at most.
    assert!((3800..=4096).contains(&report.bytes), "{} bytes", report.bytes);
    assert_eq!(report.bytes, std::fs::metadata(&trace).unwrap().len());
    assert_eq!(Asked::of(&trace).puts, report.operations);
    // There is room for another one, whose writer soon takes nothing.
    let recording = keyspace.record_to(Full(2000), &RecordOptions::default()).unwrap();
    put_until(&|| recording.is_over());
    assert_eq!(recording.stop().unwrap_err().kind(), ErrorKind::Full);
    // The file that is there is nobody's to overwrite, and the failure leaves no recording.
    assert_eq!(keyspace.record(&trace, &options).unwrap_err().kind(), ErrorKind::Io);
    drop(keyspace.record_to(Vec::new(), &RecordOptions::default()).unwrap());
}
