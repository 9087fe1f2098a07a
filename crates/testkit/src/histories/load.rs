//! Threads that work on a few keys and write down what they were answered.
#![allow(clippy::disallowed_methods)] // Threads that prove an engine right are not its own.

use super::operation::{Answer, Call, History, Operation};
use silica_base::Prng;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// One thread's way to the store.
pub trait Client {
    /// Makes a call and waits for its answer.
    fn call(&mut self, key: &[u8], call: &Call) -> Answer;

    /// Gets several keys as one burst.
    fn get_many(&mut self, keys: &[&[u8]]) -> Vec<Answer> {
        keys.iter().map(|key| self.call(key, &Call::Get)).collect()
    }

    /// Something else between two calls, now and then.
    fn rest(&mut self, _prng: &mut Prng) {
        std::thread::yield_now();
    }
}

/// How much is done, and to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Threads, each with a client.
    pub threads: u64,
    /// Calls of each thread.
    pub calls: u64,
    /// Keys with values that are different for every write.
    pub keys: u64,
    /// Keys with numbers that are added to.
    pub counters: u64,
    /// Keys whose values recur: there are only three, so a value says little of who wrote it.
    pub recurring: u64,
    /// Such keys are also watched, and written if nobody else was faster.
    pub watches: bool,
    /// Values have up to about so many bytes, a quarter of them many.
    pub value_bytes_max: u64,
    /// False where the store has gets, puts and deletes only.
    pub updates: bool,
}

/// Lets `load.threads` threads make calls of keys that begin with `prefix`, each through the
/// client that `connect` makes of its number.
pub fn record<C: Client>(
    load: Load,
    seed: u64,
    prefix: &str,
    connect: impl Fn(u64) -> C + Sync,
) -> History {
    let (stamps, ready) = (AtomicU64::new(0), Barrier::new(load.threads as usize));
    let keys: Vec<Vec<u8>> = (0..load.keys + load.counters + load.recurring)
        .map(|n| format!("{prefix}{n}").into_bytes())
        .collect();
    let mut seeds = Prng::new(seed);
    let operations = std::thread::scope(|scope| {
        let spawn = |number| {
            let (stamps, ready, keys, connect) = (&stamps, &ready, &keys, &connect);
            let prng = Prng::new(seeds.next_u64());
            scope.spawn(move || {
                let client = connect(number);
                let seen = vec![None; keys.len()];
                let operations = Vec::new();
                ready.wait();
                Thread { load, number, prng, client, stamps, keys, seen, operations }.run()
            })
        };
        let threads: Vec<_> = (0..load.threads).map(spawn).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    History { operations }
}

struct Thread<'a, C> {
    load: Load,
    number: u64,
    prng: Prng,
    client: C,
    stamps: &'a AtomicU64,
    keys: &'a [Vec<u8>],
    /// What this thread last knew of each key.
    seen: Vec<Option<Vec<u8>>>,
    operations: Vec<Operation>,
}

impl<C: Client> Thread<'_, C> {
    fn run(mut self) -> Vec<Operation> {
        for nth in 0..self.load.calls {
            if self.prng.below(8) == 0 {
                self.burst();
            } else {
                self.single(nth);
            }
            if self.prng.below(6) == 0 {
                self.client.rest(&mut self.prng);
            }
        }
        self.operations
    }

    fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::AcqRel)
    }

    fn burst(&mut self) {
        let first = self.prng.below(self.keys.len() as u64) as usize;
        let count = 1 + self.prng.below(self.keys.len() as u64) as usize;
        let places = (0..count).map(|n| (first + n) % self.keys.len());
        let keys: Vec<&[u8]> = places.clone().map(|place| self.keys[place].as_slice()).collect();
        let begin = self.stamp();
        let answers = self.client.get_many(&keys);
        let end = self.stamp();
        for (place, answer) in places.zip(answers) {
            self.note(place, Call::Get, answer, begin, end);
        }
    }

    fn single(&mut self, nth: u64) {
        let place = self.prng.below(self.keys.len() as u64) as usize;
        if self.load.watches && self.recurs(place) && self.prng.below(2) == 0 {
            return self.watch(place);
        }
        let call = self.choose(place, nth);
        self.call(place, call);
    }

    /// Watches a key and writes it if nobody was faster.
    fn watch(&mut self, place: usize) {
        if self.call(place, Call::Watch) == Answer::Refused {
            return;
        }
        if self.prng.below(2) == 0 {
            self.client.rest(&mut self.prng);
        }
        let new = (self.prng.below(4) > 0).then(|| self.recurring_value());
        self.call(place, Call::Commit(new));
    }

    fn recurs(&self, place: usize) -> bool {
        place as u64 >= self.load.keys + self.load.counters
    }

    fn recurring_value(&mut self) -> Vec<u8> {
        vec![b'a' + self.prng.below(3) as u8]
    }

    fn call(&mut self, place: usize, call: Call) -> Answer {
        let begin = self.stamp();
        let answer = self.client.call(&self.keys[place], &call);
        let end = self.stamp();
        self.note(place, call, answer.clone(), begin, end);
        answer
    }

    fn choose(&mut self, place: usize, nth: u64) -> Call {
        let kind = self.prng.below(12);
        if place as u64 >= self.load.keys && !self.recurs(place) {
            return match kind {
                0 => Call::Delete,
                1 => Call::Put(self.prng.below(100).to_string().into_bytes()),
                2..=7 if self.load.updates => Call::Add(1 + self.prng.below(9) as i64),
                _ => Call::Get,
            };
        }
        let new = if self.recurs(place) { self.recurring_value() } else { self.value(nth) };
        match kind {
            0 => Call::Delete,
            1..=3 => Call::Put(new),
            4 if self.load.updates => Call::Replace((self.prng.below(4) > 0).then_some(new)),
            5..=6 if self.load.updates => {
                let new = (self.prng.below(4) > 0).then_some(new);
                Call::Swap { expected: self.seen[place].clone(), new }
            }
            _ => Call::Get,
        }
    }

    /// A value that no other call of the history writes. Its pieces tell values apart, too.
    fn value(&mut self, nth: u64) -> Vec<u8> {
        let piece = format!("{}.{nth};", self.number);
        let max = if self.prng.below(4) == 0 { self.load.value_bytes_max } else { 64 };
        let len = self.prng.below(1 + max.min(self.load.value_bytes_max)) as usize;
        piece.bytes().cycle().take(len.max(piece.len())).collect()
    }

    fn note(&mut self, place: usize, call: Call, answer: Answer, begin: u64, end: u64) {
        match (&call, &answer) {
            (Call::Get | Call::Watch, Answer::Was(found)) => self.seen[place].clone_from(found),
            (Call::Put(value), Answer::Done) => self.seen[place] = Some(value.clone()),
            (Call::Replace(new), Answer::Was(_)) | (Call::Commit(new), Answer::Did(true)) => {
                self.seen[place].clone_from(new)
            }
            (Call::Delete, Answer::Done | Answer::Did(_)) => self.seen[place] = None,
            _ => {}
        }
        let key = self.keys[place].clone();
        self.operations.push(Operation { thread: self.number, key, call, answer, begin, end });
    }
}
