//! A store that is not looked after for a while, or was opened again, reads as little for an answer
//! as before.

use silica_base::{HashSeed, Prng};
use silica_device::Device;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues};
use silica_wip::{OPTIONS, Wip};

const MEMORY_BYTES: u64 = 16 << 20;
/// Several times the memory.
const KEYS: u64 = 500_000;

fn open(device: &SimDevice) -> Wip<SimDevice> {
    open_with(device, MEMORY_BYTES)
}

fn open_with(device: &SimDevice, memory_bytes: u64) -> Wip<SimDevice> {
    let memory = memory_bytes.to_string();
    let options = OptionValues::parse(OPTIONS, [("memory_bytes", memory.as_str())]);
    let environment = Environment::new(HashSeed([1; 16]));
    Wip::open(device.clone(), &options.expect("sound options"), &environment).expect("it opens")
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn maintain(wip: &Wip<SimDevice>) {
    while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
}

/// Device reads of a get of a key that is there, and of one that is not.
fn reads_per_get(wip: &Wip<SimDevice>, device: &SimDevice) -> (f64, f64) {
    let mut prng = Prng::new(7);
    let gets = 10_000;
    let mut reads = |is_there: bool| {
        let before = device.counters().snapshot().reads;
        for _ in 0..gets {
            let n = prng.below(KEYS) + if is_there { 0 } else { KEYS };
            assert_eq!(wip.get(&key(n)).expect("a get").is_some(), is_there);
        }
        (device.counters().snapshot().reads - before) as f64 / f64::from(gets)
    };
    (reads(true), reads(false))
}

fn metric(wip: &Wip<SimDevice>, name: &str) -> f64 {
    let mut metrics = MetricsMap::default();
    wip.metrics(&mut metrics);
    metrics.get(name)
}

/// How it was left: after all background work, amid it, and with as much in the log as it holds.
#[test]
fn gets_read_as_little_without_maintenance_and_opened_again() {
    for left in ["at rest", "amid work", "with a full log"] {
        let device = SimDevice::new(1, SimOptions::default());
        let wip = open(&device);
        for n in 0..KEYS {
            wip.put(&key(n), &[n as u8; 100], Durability::Buffered).expect("a put");
            if n % 1000 == 0 && (left != "with a full log" || n < KEYS / 10 * 9) {
                maintain(&wip);
            }
        }
        if left == "at rest" {
            maintain(&wip);
        }
        let before = reads_per_get(&wip, &device);
        let runs = metric(&wip, "runs") / metric(&wip, "buckets");
        drop(wip);
        let wip = open(&device);
        if left == "at rest" {
            // A segment of the log takes memory again.
            wip.put(&key(0), &[0; 100], Durability::Buffered).expect("a put");
        }
        let (hit, miss) = reads_per_get(&wip, &device);
        let lacking = metric(&wip, "indexes_dropped");
        println!("{left}: {before:?}, then {hit} {miss}; {runs} runs a bucket, {lacking} lack");
        println!("log {} of {}", metric(&wip, "log_bytes"), metric(&wip, "memory_budget_bytes"));
        for (when, (hit, miss)) in [("before", before), ("reopened", (hit, miss))] {
            assert!(hit <= 1.05, "{left}, {when}: {hit} reads a get of what is there");
            assert!(miss <= 0.03, "{left}, {when}: {miss} reads a get of what is not");
        }
    }
}

/// Segments that an earlier opening left behind, as files that say where the next ones begin, take
/// no memory: filters have it, although nothing is left to be flushed that would free them.
#[test]
fn filters_are_there_where_the_store_was_opened_with_a_log_that_was_flushed() {
    const MEMORY_BYTES: u64 = 4 << 20;
    let device = SimDevice::new(1, SimOptions::default());
    let mut wip = open_with(&device, MEMORY_BYTES);
    for n in 0..KEYS {
        wip.put(&key(n), &[n as u8; 100], Durability::Buffered).expect("a put");
        if n % 100 == 0 {
            maintain(&wip);
        }
    }
    for opened in 1..=3 {
        drop(wip);
        wip = open_with(&device, MEMORY_BYTES);
        for _ in 0..2 {
            reads_per_get(&wip, &device);
            maintain(&wip);
        }
        let (hit, miss) = reads_per_get(&wip, &device);
        let lacking = metric(&wip, "indexes_dropped");
        println!(
            "opened {opened}: {hit} {miss}, {lacking} lack, log {}",
            metric(&wip, "log_bytes")
        );
        assert!(hit <= 1.05 && miss <= 0.03, "opened {opened}: {hit} and {miss} reads a get");
        assert!(lacking == 0.0, "opened {opened}: {lacking} filters lack");
    }
}

/// While there are only writes the log has its whole part of the memory, and filters go for it; for
/// gets it gives way to them, whether there are writes or not.
#[test]
fn filters_come_back_for_gets_and_the_log_gives_way_to_them() {
    const MEMORY_BYTES: u64 = 4 << 20;
    let device = SimDevice::new(1, SimOptions::default());
    let wip = open_with(&device, MEMORY_BYTES);
    let mut prng = Prng::new(3);
    let write = |prng: &mut Prng, count: u64| {
        for n in 0..count {
            wip.put(&key(prng.below(KEYS)), &[1; 100], Durability::Buffered).expect("a put");
            if n % 1000 == 0 {
                maintain(&wip);
            }
        }
    };
    for n in 0..KEYS {
        wip.put(&key(n), &[1; 100], Durability::Buffered).expect("a put");
        if n % 1000 == 0 {
            maintain(&wip);
        }
    }
    write(&mut prng, KEYS / 4);
    let (full, lacking) = (metric(&wip, "log_bytes"), metric(&wip, "indexes_dropped"));
    println!("writes only: log {full}, {lacking} filters lack");
    assert!(lacking > 0.0, "filters have no room beside the log");
    assert!(full > MEMORY_BYTES as f64 / 4.0, "{full} bytes of log");

    // Gets alone, while somebody has nothing else to do.
    reads_per_get(&wip, &device);
    maintain(&wip);
    reads_per_get(&wip, &device);
    maintain(&wip);
    let (hit, miss) = reads_per_get(&wip, &device);
    let (log, lacking) = (metric(&wip, "log_bytes"), metric(&wip, "indexes_dropped"));
    println!("gets only: log {log}, {lacking} filters lack, reads {hit} and {miss}");
    assert!(hit <= 1.05 && miss <= 0.03, "{hit} and {miss} reads, {lacking} filters lack");

    // As many gets as writes.
    for _ in 0..100 {
        write(&mut prng, 1000);
        for _ in 0..1000 {
            wip.get(&key(prng.below(KEYS))).expect("a get");
        }
    }
    let (mixed, lacking) = (metric(&wip, "log_bytes"), metric(&wip, "indexes_dropped"));
    println!("gets and writes: log {mixed}, {lacking} filters lack");
    assert!(mixed < full * 0.8 && lacking == 0.0, "log {mixed}, {lacking} filters lack");
}

#[test]
fn a_store_that_was_only_written_has_its_filters_when_it_is_opened_to_be_read() {
    const MEMORY_BYTES: u64 = 4 << 20;
    let device = SimDevice::new(2, SimOptions::default());
    let wip = open_with(&device, MEMORY_BYTES);
    for n in 0..KEYS {
        wip.put(&key(n), &[1; 100], Durability::Buffered).expect("a put");
        if n % 1000 == 0 {
            maintain(&wip);
        }
    }
    drop(wip);
    let wip = open_with(&device, MEMORY_BYTES);
    maintain(&wip);
    // The log's files stay until something is written, but nobody reads them.
    let (hit, miss) = reads_per_get(&wip, &device);
    let lacking = metric(&wip, "indexes_dropped");
    assert!(hit <= 1.05 && miss <= 0.03, "{hit} and {miss} reads, {lacking} filters lack");
}
