//! Concurrent histories of the three modes, each of which must have an order: few keys, values of
//! changing size, logs that wrap around all the time.

use crate::support;
use crate::support::{NOW, metrics, options, seed, sharded};
use silica_base::{ErrorKind, Result, test_size};
use silica_engine::{Engine, EntryRef, GetSink, MetricsMap, Shard, WriteBatch};
use silica_mica::Mica;
use silica_testkit::histories::{Answer, Call, Client, EngineClient, Load, Memory, record};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Who writes and who reads.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// Owners do both.
    Erew,
    /// Owners write, everybody reads.
    Crew,
    /// Everybody does both.
    Crcw,
    /// Everybody reads; each write is tried by everybody, or by whoever gets the partition for it.
    Changing,
}

fn open(memory_bytes: u64, eviction: &str) -> Mica {
    let mut options = options(memory_bytes, 2, eviction);
    options.set("entry_bytes_mean", 512);
    support::open(&options).0
}

/// What a client asks of a partition's owner.
struct Request {
    key: Vec<u8>,
    call: Call,
    reply: Sender<Answer>,
}

/// What a burst of gets found.
struct Found(Vec<Option<Vec<u8>>>);

impl GetSink for Found {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0[index] = Some(entry.value.to_vec());
    }
}

/// An answer, unless there is no room or somebody else has the partition.
fn answer(result: Result<Answer>) -> Answer {
    result.unwrap_or_else(|error| match error.kind() {
        ErrorKind::Full | ErrorKind::Locked => Answer::Refused,
        _ => panic!("amid histories: {error}"),
    })
}

fn get_from(shard: &mut dyn Shard, keys: &[&[u8]]) -> Vec<Answer> {
    let mut found = Found(vec![None; keys.len()]);
    shard.get_many(keys, &mut found).expect("gets of an owner");
    found.0.into_iter().map(Answer::Was).collect()
}

fn call_on(shard: &mut dyn Shard, key: &[u8], call: &Call) -> Result<Answer> {
    let mut batch = WriteBatch::new();
    match call {
        Call::Get => return Ok(get_from(shard, &[key]).remove(0)),
        Call::Put(value) => batch.put(key, value),
        Call::Delete => batch.delete(key),
        _ => {
            let mut said = Answer::Unknown;
            shard.update_many(&[key], NOW, &mut |_, current| {
                let (update, answer) = call.act_on(current.map(|entry| entry.value));
                said = answer;
                update
            })?;
            return Ok(said);
        }
    };
    shard.write(&batch, NOW)?;
    Ok(Answer::Done)
}

/// Serves a partition until nobody can ask any more: gets that wait together are a burst.
fn own(mut shard: Box<dyn Shard>, requests: Receiver<Request>) {
    while let Ok(first) = requests.recv() {
        let waiting: Vec<Request> = std::iter::once(first).chain(requests.try_iter()).collect();
        for burst in waiting.chunk_by(|a, b| a.call == Call::Get && b.call == Call::Get) {
            let answers = if burst[0].call == Call::Get {
                let keys: Vec<&[u8]> = burst.iter().map(|request| &request.key[..]).collect();
                get_from(&mut *shard, &keys)
            } else {
                vec![answer(call_on(&mut *shard, &burst[0].key, &burst[0].call))]
            };
            for (request, answer) in burst.iter().zip(answers) {
                // Fails only where the client's thread has panicked.
                let _ = request.reply.send(answer);
            }
        }
    }
}

/// A client of a cache in any mode.
struct ModeClient<'a> {
    mica: &'a Mica,
    mode: Mode,
    owners: Vec<Sender<Request>>,
    calls: u64,
}

impl ModeClient<'_> {
    fn ask(&self, key: &[u8], call: &Call) -> Receiver<Answer> {
        let (reply, answer) = channel();
        let request = Request { key: key.to_vec(), call: call.clone(), reply };
        self.owners[sharded(self.mica).shard_of(key)].send(request).expect("an owner");
        answer
    }
}

impl Client for ModeClient<'_> {
    fn call(&mut self, key: &[u8], call: &Call) -> Answer {
        self.calls += 1;
        let by_owner = match self.mode {
            Mode::Erew => true,
            Mode::Crew => *call != Call::Get,
            Mode::Crcw => false,
            Mode::Changing if self.calls.is_multiple_of(2) => false,
            Mode::Changing => {
                let shard = sharded(self.mica).take(sharded(self.mica).shard_of(key));
                return answer(shard.and_then(|mut shard| call_on(&mut *shard, key, call)));
            }
        };
        match by_owner {
            true => self.ask(key, call).recv().expect("an answer"),
            false => EngineClient(self.mica).call(key, call),
        }
    }

    fn get_many(&mut self, keys: &[&[u8]]) -> Vec<Answer> {
        if self.mode != Mode::Erew {
            return EngineClient(self.mica).get_many(keys);
        }
        let answers: Vec<_> = keys.iter().map(|key| self.ask(key, &Call::Get)).collect();
        answers.into_iter().map(|answer| answer.recv().expect("an answer")).collect()
    }
}

/// What happened in the histories of a configuration.
#[derive(Debug, Default)]
struct Sum {
    calls: usize,
    refused: usize,
    metrics: MetricsMap,
}

impl Sum {
    fn counted(&self, metric: &str) -> f64 {
        self.metrics.get(metric)
    }
}

/// Records histories of `mode` and checks each.
fn check(mode: Mode, mica: &Mica, load: Load, seed: u64, histories: u64) -> Sum {
    let mut sum = Sum::default();
    for number in 0..histories {
        let before = metrics(mica).get("evictions");
        let history = std::thread::scope(|scope| {
            let has_owners = matches!(mode, Mode::Erew | Mode::Crew);
            let count = if has_owners { sharded(mica).shards() } else { 0 };
            let shards = (0..count).map(|n| sharded(mica).take(n).expect("nobody's"));
            let owner = |shard| {
                let (sender, receiver) = channel();
                scope.spawn(move || own(shard, receiver));
                sender
            };
            let owners: Vec<_> = shards.map(owner).collect();
            let seed = seed.wrapping_mul(1 << 20) + number;
            record(load, seed, &format!("{number}/"), |_| ModeClient {
                mica,
                mode,
                owners: owners.clone(),
                calls: 0,
            })
        });
        let forgets = metrics(mica).get("evictions") > before;
        let memory = if forgets { Memory::Forgets } else { Memory::Keeps };
        if let Err(piece) = history.check(memory) {
            panic!("check({mode:?}, {load:?}, {seed}, …), history {number}: {piece}");
        }
        let is_refused = |answer: &Answer| *answer == Answer::Refused;
        sum.calls += history.operations.len();
        sum.refused += history.operations.iter().filter(|o| is_refused(&o.answer)).count();
    }
    mica.verify().expect("every invariant");
    sum.metrics = metrics(mica);
    sum
}

fn load(threads: u64) -> Load {
    // An entry may take an eighth of a log, five thousand bytes where logs are smallest.
    let calls = 2400 / threads;
    Load {
        threads,
        calls,
        keys: 3,
        counters: 2,
        recurring: 1,
        watches: false,
        value_bytes_max: 5000,
        updates: true,
    }
}

/// Memory of two logs of some 50 KiB, which a few dozen values fill.
const LITTLE: u64 = 128 << 10;

const POLICIES: [&str; 5] = ["fifo", "lru", "approximate-lru", "second-chance", "s3-fifo"];
const MODES: [Mode; 4] = [Mode::Erew, Mode::Crew, Mode::Crcw, Mode::Changing];

#[test]
fn caches_have_an_order_in_every_mode() {
    let histories = test_size(1, 2, 2_000);
    for mode in MODES {
        for (usual, eviction) in (1..).zip(POLICIES) {
            let mut evictions = 0.0;
            for threads in [2, 3, 8] {
                let few = load(threads);
                let sum = check(mode, &open(LITTLE, eviction), few, seed(usual), histories);
                let (written, log) = (sum.counted("log_bytes_written"), sum.counted("log_bytes"));
                assert!(written > log, "{mode:?} {eviction}: no log wraps around: {sum:?}");
                // Of 160 keys some are not written for as long as it takes to go round.
                let many = Load { keys: 160, ..few };
                let sum = check(mode, &open(LITTLE, eviction), many, seed(usual), histories);
                evictions += sum.counted("evictions_from_log");
            }
            assert!(evictions > 0.0, "{mode:?} {eviction}: nothing is evicted");
        }
    }
}

#[test]
fn what_fits_is_never_forgotten() {
    let histories = test_size(1, 4, 2_000);
    for mode in MODES {
        for threads in [2, 8] {
            let sum = check(mode, &open(256 << 20, "lru"), load(threads), seed(1), histories);
            assert_eq!(sum.counted("evictions"), 0.0);
        }
    }
}

#[test]
fn stores_have_an_order_in_every_mode() {
    let histories = test_size(2, 10, 5_000);
    let mut seen = BTreeSet::new();
    for mode in MODES {
        for threads in [2, 3, 8] {
            let mica = open(LITTLE, "none");
            let sum = check(mode, &mica, Load { keys: 80, ..load(threads) }, seed(1), histories);
            assert!(mode == Mode::Changing || sum.refused < sum.calls / 2, "{mode:?}: {sum:?}");
            let in_place = sum.counted("updates_in_place");
            seen.insert((sum.refused > 0, in_place > 0.0 && in_place < sum.counted("puts")));
        }
    }
    assert!(seen.contains(&(true, true)), "full at times, in place at times: {seen:?}");
}
