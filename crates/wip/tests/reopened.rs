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
    let memory = MEMORY_BYTES.to_string();
    let options = OptionValues::parse(OPTIONS, [("memory_bytes", memory.as_str())]);
    let environment = Environment::new(HashSeed([1; 16]));
    Wip::open(device.clone(), &options.expect("sound options"), &environment).expect("it opens")
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn maintain(wip: &Wip<SimDevice>) {
    while wip.maintain(Budget { bytes: 1 << 20 }).expect("maintenance").more {}
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
