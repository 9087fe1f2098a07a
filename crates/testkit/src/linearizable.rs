//! Short concurrent histories of an engine, each of which must have an order.

use super::harness::Harness;
use super::histories::{EngineClient, Load, Memory, record};
use silica_base::Prng;
use silica_engine::{Engine, MetricsMap};

const THREADS_MAX: u64 = 4;
const KEYS_MAX: u64 = 3;
const CALLS_MAX: u64 = 5;

/// Records `histories` short histories of 2 to 4 threads on up to 3 keys (puts, gets, bursts of
/// gets, deletes, updates) and searches an order of each history's calls, consistent with which
/// ended before which began, that explains every answer. What was evicted may be missing.
///
/// # Panics
///
/// Where a history has no such order; the message has the shortest piece of it that has none.
pub fn linearizable<H: Harness>(harness: &mut H, seed: u64, histories: u64) {
    harness.wipe();
    let engine = harness.open().expect("an empty store opens");
    let updates = engine.as_atomic().is_some();
    for number in 0..histories {
        let mut prng = Prng::new(seed ^ number.wrapping_mul(0x9E37_79B9));
        let load = Load {
            threads: 2 + prng.below(THREADS_MAX - 1),
            calls: 1 + prng.below(CALLS_MAX),
            keys: 1 + prng.below(KEYS_MAX),
            counters: prng.below(2),
            recurring: prng.below(2),
            watches: false,
            value_bytes_max: 8,
            updates,
        };
        check(&engine, load, prng.next_u64(), number, || {
            format!("linearizable(harness, {seed}, {})", number + 1)
        });
    }
}

/// Records one history of an engine with `load` and checks it; the keys are those of `number`.
///
/// # Panics
///
/// Where it has no order; the message begins with what `call` says.
pub(super) fn check(
    engine: &dyn Engine,
    load: Load,
    seed: u64,
    number: u64,
    call: impl Fn() -> String,
) {
    let before = evictions(engine);
    let history = record(load, seed, &format!("{number}/"), |_| EngineClient(engine));
    let memory = if evictions(engine) > before { Memory::Forgets } else { Memory::Keeps };
    if let Err(piece) = history.check(memory) {
        panic!("{}: history {number}: {piece}", call());
    }
}

fn evictions(engine: &dyn Engine) -> f64 {
    if !engine.descriptor().capabilities.may_evict {
        return 0.0;
    }
    let mut metrics = MetricsMap::default();
    engine.metrics(&mut metrics);
    metrics.get("evictions")
}
