//! Four regions of the key space are filled one after the other, with exponential, normal, uniform
//! and reversed exponential keys, from one bucket: what a change of the distribution does to the
//! longest pause of a put (section 2.4.2 of the paper).
//!
//! `cargo run --release -p silica-wip --example regions -- DIR [entries=N] [OPTION=N …]`
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

mod common;

use common::{Args, attended, key_at, put_all, report, report_times};
use silica_base::Prng;

/// A place between 0 and 1 of its region.
fn place(region: u64, prng: &mut Prng) -> f64 {
    let exponential = |prng: &mut Prng| (-(1.0 - prng.unit()).ln() / 10.0).min(0.999_999);
    match region {
        0 => exponential(prng),
        1 => (0..12).map(|_| prng.unit()).sum::<f64>() / 12.0,
        2 => prng.unit(),
        _ => 0.999_999 - exponential(prng),
    }
}

fn main() {
    let mut args = Args::read();
    let entries = args.take("entries", 2_000_000);
    let wip = args.open();
    let mut prng = Prng::new(1);
    let quarter = (1u64 << 62) as f64;
    attended(&wip, || {
        for region in 0..4 {
            let keys = (0..entries).map(|n| {
                let at = (region as f64 + place(region, &mut prng)) * quarter;
                key_at(at as u64, region * entries + n)
            });
            report_times(&format!("region {region}"), &put_all(&wip, keys));
        }
    });
    report(&wip, 4 * entries);
}
