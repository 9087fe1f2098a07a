//! Segments of the log that background work makes before a writer needs them.

use silica_base::HashSeed;
use silica_device::Device;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues};
use silica_silt::Silt;

const PUTS: u64 = 36_000;

/// Segments of up to 1 MiB, of which the log holds all that is put.
fn open(device: &SimDevice) -> Silt<SimDevice> {
    let mut options = OptionValues::default();
    options.set("segment_bytes", 1 << 20).set("log_bytes_max", 64 << 20);
    let environment = Environment::new(HashSeed([7; 16]));
    Silt::open(device.clone(), &options, &environment).expect("it opens")
}

fn put(store: &Silt<SimDevice>, n: u64) {
    store.put(&n.to_be_bytes(), &[n as u8; 220], Durability::Buffered).expect("a put");
}

/// Puts 9 MiB, with `maintain` called after every so many puts.
fn fill(store: &Silt<SimDevice>, maintain_every: u64) {
    for n in 0..PUTS {
        put(store, n);
        if n % maintain_every == 0 {
            store.maintain(Budget::of(4 << 10)).expect("maintenance");
        }
    }
}

/// Segments that writers waited for.
fn waited(store: &Silt<SimDevice>) -> f64 {
    let mut metrics = MetricsMap::default();
    store.metrics(&mut metrics);
    metrics.get("writes_waited_for_segment")
}

fn segments(device: &SimDevice) -> usize {
    let names = device.list().expect("a list");
    names.iter().filter(|name| name.starts_with("LOG-") && !name.contains("spare")).count()
}

#[test]
fn writers_find_the_next_segment_where_somebody_maintains_the_store() {
    for (maintain_every, waits) in [(u64::MAX, 9.0..=12.0), (500, 1.0..=1.0)] {
        let store = open(&SimDevice::new(1, SimOptions::default()));
        fill(&store, maintain_every);
        // Nobody can make the first one before it is needed.
        let waited = waited(&store);
        assert!(waits.contains(&waited), "every {maintain_every}: {waited}");
    }
}

#[test]
fn a_segment_that_was_made_and_not_used_is_no_matter_to_who_opens_the_store() {
    let device = SimDevice::new(1, SimOptions::default());
    let store = open(&device);
    let mut n = 0;
    // Until the next one is there, and nothing is in it.
    loop {
        put(&store, n);
        n += 1;
        let before = segments(&device);
        store.maintain(Budget::of(4 << 10)).expect("maintenance");
        if segments(&device) > before {
            break;
        }
        assert!(n < 10_000, "there is none");
    }
    store.sync().expect("a sync");
    // The process dies, or the power fails; twice, with writes between them.
    for cuts in [false, true] {
        let mut device = device.fork(1);
        for round in 0..2 {
            if cuts {
                device.power_cut();
            }
            device = device.reopen();
            let store = open(&device);
            for key in 0..n + 10 * round {
                let found = store.get(&key.to_be_bytes()).expect("a get");
                assert_eq!(found, Some(vec![key as u8; 220]), "{key} in round {round}");
            }
            (n..n + 10).for_each(|key| put(&store, key));
            store.sync().expect("a sync");
            store.verify().expect("every invariant");
        }
    }
}
