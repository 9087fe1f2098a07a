use crate::Wip;
use silica_base::HashSeed;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{Durability, EngineExt, Environment, OptionValues};

fn open(device: &SimDevice) -> Wip<SimDevice> {
    let environment = Environment::new(HashSeed([1; 16]));
    Wip::open(device.clone(), &OptionValues::default(), &environment).expect("it opens")
}

fn write(wip: &Wip<SimDevice>, keys: std::ops::Range<u64>) {
    for n in keys {
        let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        wip.put(&key, &[n as u8; 100], Durability::Buffered).expect("a put");
    }
    while wip.flush(wip.buckets().at(0)).expect("a flush") > 0 {}
}

/// Versions that runs hide of older ones, all together.
fn hidden(wip: &Wip<SimDevice>) -> f64 {
    let version = wip.buckets().at(0).read().version.clone();
    let shape = version.shape();
    shape.dead_bytes() as f64 / (shape.bytes() as f64 / shape.versions() as f64)
}

fn near(found: f64, wanted: f64, tolerance: f64, of: &str) {
    println!("{of}: {found:.0} of {wanted}");
    assert!((found / wanted - 1.0).abs() < tolerance, "{of}: {found:.0} is not {wanted}");
}

#[test]
fn what_a_table_hides_is_known_by_samples_of_large_and_small_ones() {
    let wip = open(&SimDevice::new(1, SimOptions::default()));
    write(&wip, 0..60_000);
    assert_eq!(hidden(&wip), 0.0);
    // Large ones: half of one is new, and what a newer run hides of two is counted once.
    write(&wip, 40_000..80_000);
    let half = hidden(&wip);
    near(half, 20_000.0, 0.1, "half");
    write(&wip, 30_000..60_000);
    let large = hidden(&wip);
    near(large - half, 30_000.0, 0.1, "all");
    // Of small ones each may be far off, and all of them together are not.
    for part in 0..20 {
        write(&wip, part * 1000..part * 1000 + 500);
    }
    near(hidden(&wip) - large, 10_000.0, 0.2, "small ones");
}

#[test]
fn tables_that_were_there_are_asked_through_their_filters() {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = open(&device);
    write(&wip, 0..60_000);
    drop(wip);
    let wip = open(&device);
    write(&wip, 40_000..80_000);
    near(hidden(&wip), 20_000.0, 0.1, "half");
}
