//! What it costs when cores share: workers, EREW, CREW and CRCW, and requests that are sent to the
//! core that owns their key or to any core.
//!
//! `cargo run --release -p silica-mica --example modes -- [--workers N,N] [--entries N]
//! [--partitions N] [--milliseconds N] [--rounds N] [--svg FILE]`
//!
//! With one number of workers the drawing has bars; with several, throughput by workers, as the
//! paper's Figure 5.16. Each worker is a client, which draws requests for 8 + 8 bytes and puts
//! them into rings, and a server, which takes them out in bursts and asks the cache. Answers are
//! counted, not sent back. Keys are drawn, and their owners looked up, before the clock starts,
//! as a client of its own machine would do. What is measured takes turns; the best round of each
//! counts.
#![allow(clippy::disallowed_methods)] // A benchmark reads the clock and starts threads.

mod drawing;
mod draws;
mod ring;

use draws::Draws;
use ring::Ring;
use silica_base::HashSeed;
use silica_engine::{
    Durability, Engine, EntryRef, Environment, GetSink, OptionValues, Shard, Sharded, WriteBatch,
};
use silica_mica::{Mica, OPTIONS};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Workers that the bits of a request can name.
const WORKERS_MAX: usize = 64;
/// Requests of a client's step, and of one ring in a server's step.
const BURST: usize = 32;
/// Requests drawn for each worker, at most; so many for an entry.
const STREAM_MAX: usize = 1 << 21;
const STREAM_OF_ENTRY: u64 = 8;

/// A request in a ring: bits of the key, and who owns it, and what is wanted.
const PUT: u64 = 1 << 63;
const OWNER_SHIFT: u32 = 56;
const OWNER_MASK: u64 = WORKERS_MAX as u64 - 1;
const CHANCE_SHIFT: u32 = 48;
const KEY_MASK: u64 = (1 << CHANCE_SHIFT) - 1;

/// How cores share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Each worker draws its own keys; no rings.
    Alone,
    /// The owner serves all requests; clients send them to it.
    Erew,
    /// The owner serves all requests; clients send them to any core, which hands them on.
    ErewSoftware,
    /// Gets go to any core, puts to the owner.
    Crew,
    /// All go to any core.
    Crcw,
}

const MODES: [(Mode, &str); 5] = [
    (Mode::Alone, "EREW, without rings"),
    (Mode::Erew, "EREW"),
    (Mode::Crew, "CREW"),
    (Mode::Crcw, "CRCW"),
    (Mode::ErewSoftware, "EREW, directed by software"),
];

struct Sum(u64);

impl GetSink for Sum {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let value = entry.value.first_chunk().map_or(0, |value| u64::from_le_bytes(*value));
        self.0 = self.0.wrapping_add(value ^ index as u64);
    }
}

/// Rings from each worker to each: requests, and requests that are handed on.
struct Rings {
    requests: Vec<Vec<Ring>>,
    forwarded: Vec<Vec<Ring>>,
}

impl Rings {
    fn new(workers: usize) -> Self {
        let row = || (0..workers).map(|_| Ring::new()).collect();
        let rings = || (0..workers).map(|_| row()).collect();
        Rings { requests: rings(), forwarded: rings() }
    }
}

/// One thread's part of a measurement.
struct Worker<'a> {
    number: usize,
    mode: Mode,
    /// Percent of the requests that are gets.
    gets: u64,
    mica: &'a Mica,
    shards: Vec<Box<dyn Shard>>,
    rings: &'a Rings,
    stream: std::iter::Cycle<std::slice::Iter<'a, u64>>,
    /// Requests that wait for room in a ring to each worker.
    sending: Vec<Vec<u64>>,
    handing_on: Vec<Vec<u64>>,
    next: usize,
    sum: Sum,
}

/// The worker that owns the key of a request.
fn owner(request: u64) -> usize {
    (request >> OWNER_SHIFT & OWNER_MASK) as usize
}

impl Worker<'_> {
    /// Whom a client sends a request to.
    fn target(&mut self, request: u64) -> usize {
        let owner = owner(request);
        self.next = (self.next + 1) % self.sending.len();
        match self.mode {
            Mode::Alone | Mode::Erew => owner,
            Mode::Crew if request & PUT != 0 => owner,
            _ => self.next,
        }
    }

    fn draw(&mut self) -> u64 {
        let word = *self.stream.next().expect("it begins again");
        let is_put = (word >> CHANCE_SHIFT & 0xFF) * 100 >= self.gets << 8;
        if is_put { word | PUT } else { word }
    }

    /// Sends a burst of requests, if those of the last one have left.
    fn send(&mut self) {
        if self.sending.iter().all(Vec::is_empty) {
            for _ in 0..BURST {
                let request = self.draw();
                let target = self.target(request);
                self.sending[target].push(request);
            }
        }
        for (requests, ring) in self.sending.iter_mut().zip(&self.rings.requests[self.number]) {
            ring.push(requests);
        }
    }

    /// Takes what has arrived; returns what is this worker's to answer.
    fn receive(&mut self, requests: &mut Vec<u64>) {
        let number = self.number;
        for (requests, ring) in self.handing_on.iter_mut().zip(&self.rings.forwarded[number]) {
            ring.push(requests);
        }
        if self.handing_on.iter().all(Vec::is_empty) {
            for from in &self.rings.requests {
                from[number].pop(requests, BURST);
            }
        }
        if self.mode == Mode::ErewSoftware {
            for request in requests.extract_if(.., |request| owner(*request) != number) {
                self.handing_on[owner(request)].push(request);
            }
            for from in &self.rings.forwarded {
                from[number].pop(requests, BURST);
            }
        }
    }

    /// Asks the cache; returns how many requests it was.
    fn serve(&mut self, requests: &[u64]) {
        let bytes = |request: &u64| (request & KEY_MASK).to_le_bytes();
        let is_put = |request: &&u64| **request & PUT != 0;
        let gets: Vec<[u8; 8]> = requests.iter().filter(|r| !is_put(r)).map(bytes).collect();
        let puts: Vec<[u8; 8]> = requests.iter().filter(is_put).map(bytes).collect();
        for gets in gets.chunks(BURST) {
            let mut keys: [&[u8]; BURST] = [&[]; BURST];
            keys.iter_mut().zip(gets).for_each(|(key, bytes)| *key = bytes);
            self.get(&keys[..gets.len()]);
        }
        if !puts.is_empty() {
            let mut batch = WriteBatch::new();
            puts.iter().for_each(|key| {
                batch.put(key, key);
            });
            self.put(&batch);
        }
    }

    fn get(&mut self, keys: &[&[u8]]) {
        let is_concurrent = matches!(self.mode, Mode::Crew | Mode::Crcw);
        if is_concurrent {
            return self.mica.get_many(keys, &mut self.sum).expect("gets");
        }
        if let [shard] = &mut self.shards[..] {
            return shard.get_many(keys, &mut self.sum).expect("gets");
        }
        for shard in &mut self.shards {
            let number = shard.number();
            let own = keys.iter().copied().filter(|key| self.mica.shard_of(key) == number);
            shard.get_many(&own.collect::<Vec<_>>(), &mut self.sum).expect("gets");
        }
    }

    fn put(&mut self, batch: &WriteBatch<'_>) {
        if self.mode == Mode::Crcw {
            return self.mica.write(batch, Durability::Buffered).expect("puts");
        }
        if let [shard] = &mut self.shards[..] {
            return shard.write(batch, Durability::Buffered).expect("puts");
        }
        for shard in &mut self.shards {
            let number = shard.number();
            let mut own = WriteBatch::new();
            batch.ops().iter().filter(|op| self.mica.shard_of(op.key) == number).for_each(|op| {
                own.put(op.key, op.key);
            });
            shard.write(&own, Durability::Buffered).expect("puts");
        }
    }

    /// Works until told to stop; returns how many requests it answered and how long it was on a
    /// core.
    fn run(mut self, stop: &AtomicBool) -> (u64, Duration) {
        let (mut done, mut requests) = (0, Vec::with_capacity(4 * BURST));
        let (begin, wall) = (on_core(), Instant::now());
        while !stop.load(Ordering::Relaxed) {
            requests.clear();
            if self.mode == Mode::Alone {
                requests.extend((0..BURST).map(|_| self.draw()));
            } else {
                self.send();
                self.receive(&mut requests);
            }
            if requests.is_empty() {
                std::thread::yield_now();
            }
            self.serve(&requests);
            done += requests.len() as u64;
        }
        std::hint::black_box(self.sum.0);
        let time = on_core().zip(begin).map(|(end, begin)| end - begin);
        (done, time.unwrap_or_else(|| wall.elapsed()))
    }
}

/// Time that this thread has spent on a core, if the system tells: what else runs on the machine
/// then takes nothing from the rates.
fn on_core() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

/// Requests in a second of all workers.
fn measure(mica: &Mica, streams: &[Vec<u64>], mode: Mode, gets: u64, time: Duration) -> f64 {
    let workers = streams.len();
    let (rings, stop, shards) = (Rings::new(workers), AtomicBool::new(false), mica.shards());
    let (done, ns, ready) = (AtomicU64::new(0), AtomicU64::new(0), Barrier::new(workers + 1));
    std::thread::scope(|scope| {
        for (number, stream) in streams.iter().enumerate() {
            let own = (0..shards).filter(|shard| mode != Mode::Crcw && shard % workers == number);
            let worker = Worker {
                number,
                mode,
                gets,
                mica,
                shards: own.map(|shard| mica.take(shard).expect("nobody owns it")).collect(),
                rings: &rings,
                stream: stream.iter().cycle(),
                sending: vec![Vec::new(); workers],
                handing_on: vec![Vec::new(); workers],
                next: number,
                sum: Sum(0),
            };
            let (ready, stop, done, ns) = (&ready, &stop, &done, &ns);
            scope.spawn(move || {
                ready.wait();
                let (answered, time) = worker.run(stop);
                done.fetch_add(answered, Ordering::Relaxed);
                ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
            });
        }
        ready.wait();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    let seconds = ns.load(Ordering::Relaxed) as f64 / 1e9 / workers as f64;
    done.load(Ordering::Relaxed) as f64 / seconds
}

struct Arguments {
    workers: Vec<usize>,
    entries: u64,
    /// As many as workers, or the next power of two, where it is not given.
    partitions: Option<u64>,
    milliseconds: u64,
    rounds: u64,
    svg: Option<String>,
}

fn arguments() -> Arguments {
    let mut all = Arguments {
        workers: vec![2],
        entries: 10_000_000,
        partitions: None,
        milliseconds: 40,
        rounds: 15,
        svg: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{name} takes a value"));
        let number = || value.parse().unwrap_or_else(|_| panic!("{name} takes a number"));
        match &name[..] {
            "--workers" => {
                let count = |word: &str| word.parse().expect("--workers takes numbers");
                all.workers = value.split(',').map(count).collect();
                let are_few = all.workers.iter().all(|count| (1..=WORKERS_MAX).contains(count));
                assert!(are_few, "--workers takes numbers from 1 to {WORKERS_MAX}");
            }
            "--entries" => all.entries = number(),
            "--partitions" => all.partitions = Some(number()),
            "--milliseconds" => all.milliseconds = number(),
            "--rounds" => all.rounds = number(),
            "--svg" => all.svg = Some(value),
            _ => panic!("{name} is no option"),
        }
    }
    all
}

fn filled(arguments: &Arguments, workers: usize) -> Mica {
    let memory = (arguments.entries * 88 + (1 << 20)).to_string();
    let usual = workers.next_power_of_two() as u64;
    let partitions = arguments.partitions.unwrap_or(usual).to_string();
    let options =
        [("memory_bytes", &memory[..]), ("entry_bytes_mean", "16"), ("partitions", &partitions)];
    let options = OptionValues::parse(OPTIONS, options).expect("options");
    let mica = Mica::open(&options, &Environment::new(HashSeed([1; 16]))).expect("a cache");
    let keys: Vec<[u8; 8]> = (0..arguments.entries).map(u64::to_le_bytes).collect();
    for keys in keys.chunks(BURST) {
        let mut batch = WriteBatch::new();
        keys.iter().for_each(|key| {
            batch.put(key, key);
        });
        mica.write(&batch, Durability::Buffered).expect("puts");
    }
    mica
}

/// Draws `count` requests for each of `workers`: any, or those whose owner it is.
fn draw(mica: &Mica, draws: &mut Draws, workers: usize, count: usize, is_own: bool) -> Streams {
    let mut streams: Streams = (0..workers).map(|_| Vec::with_capacity(count)).collect();
    let (mut next, mut full) = (0, 0);
    while full < workers {
        let (key, chance) = draws.next();
        let owner = mica.shard_of(&key.to_le_bytes()) % workers;
        next = (next + 1) % workers;
        let stream = &mut streams[if is_own { owner } else { next }];
        if stream.len() < count {
            stream.push(key | chance << CHANCE_SHIFT | (owner as u64) << OWNER_SHIFT);
            full += usize::from(stream.len() == count);
        }
    }
    streams
}

/// The requests of each worker.
type Streams = Vec<Vec<u64>>;

/// What each mode does with one number of workers.
type Group = (String, [(&'static str, f64); MODES.len()]);

/// Measures all modes with so many workers, for each distribution and share of gets.
fn measure_all(arguments: &Arguments, workers: usize) -> Vec<Group> {
    let mica = filled(arguments, workers);
    let mut groups = Vec::new();
    for (distribution, exponent) in [("uniform", None), ("zipf 0.99", Some(0.99))] {
        let mut draws = Draws::new(arguments.entries, exponent);
        let count = usize::try_from(arguments.entries * STREAM_OF_ENTRY).unwrap_or(usize::MAX);
        let count = count.min(STREAM_MAX);
        let [any, own] = [false, true].map(|own| draw(&mica, &mut draws, workers, count, own));
        for gets in [50, 95] {
            let mut best = MODES.map(|(_, name)| (name, 0.0_f64));
            for _ in 0..arguments.rounds {
                for ((mode, _), (_, best)) in MODES.iter().zip(&mut best) {
                    let streams = if *mode == Mode::Alone { &own } else { &any };
                    let time = Duration::from_millis(arguments.milliseconds);
                    *best = best.max(measure(&mica, streams, *mode, gets, time));
                }
            }
            let group = format!("{distribution}, {gets} % gets");
            println!("{group}, workers: {workers}");
            for (name, rate) in best {
                println!("  {name:28} {:6.2} M/s", rate / 1e6);
            }
            groups.push((group, best));
        }
    }
    groups
}

fn main() {
    let arguments = arguments();
    let measured = |workers: &usize| (*workers, measure_all(&arguments, *workers));
    let all: Vec<(usize, Vec<Group>)> = arguments.workers.iter().map(measured).collect();
    let Some(file) = arguments.svg else { return };
    match &all[..] {
        [(workers, groups)] => drawing::bars(&file, *workers, groups),
        _ => drawing::lines(&file, &all),
    }
    .expect("a chart");
}
