//! What overwriting costs the ordered store at each setting of its knob for space: bytes written
//! for each byte put against bytes of tables for each live byte, both while writes go on.
//!
//! `cargo run --release -p silica-bench --example space -- DIR [entries=N] [overwrites=N]
//! [svg=1] [OPTION=N …]` removes DIR/store before each setting. With `svg=1` it draws
//! docs/benchmarks/wip-space.svg.
#![allow(clippy::disallowed_methods)] // A benchmark starts itself and reads the clock.

#[path = "../../wip/examples/common/mod.rs"]
mod common;

use common::{Args, KEY_BYTES, VALUE, attended, key, put_all};
use silica_base::Prng;
use silica_bench::charts::{self, Panel, Series};
use silica_device::{Device, FileDevice};
use silica_engine::{Engine, MetricsMap};
use silica_wip::Wip;
use std::path::Path;

/// Settings of `space_amplification_percent_max`.
const PERCENT: [u64; 6] = [115, 120, 130, 140, 170, 200];
/// How often space is looked at in one overwrite of the store.
const LOOKS: u64 = 20;

/// What a setting came to.
struct Row {
    percent: u64,
    /// Bytes of tables for each live byte: on average, and at the most.
    space: f64,
    space_max: f64,
    /// Bytes written for each byte put, in the steady state, and since the store was empty.
    written: f64,
    written_in_all: f64,
    thousand_puts_s: f64,
}

fn metric(wip: &Wip<FileDevice>, name: &str) -> f64 {
    let mut metrics = MetricsMap::default();
    wip.metrics(&mut metrics);
    metrics.get(name)
}

fn measure(mut args: Args, percent: u64) -> Row {
    let entries = args.take("entries", 1_000_000);
    let times = args.take("overwrites", 10);
    let wip = args.with("space_amplification_percent_max", percent).open();
    let counts = || {
        let written = wip.device().counters().snapshot().bytes_written as f64;
        (written, metric(&wip, "user_bytes_written"))
    };
    let live = (entries * (KEY_BYTES + VALUE.len()) as u64) as f64;
    let mut prng = Prng::new(5);
    let (mut spaces, mut at_half, mut seconds) = (Vec::new(), (0.0, 0.0), 0.0);
    attended(&wip, || {
        put_all(&wip, (0..entries).map(key));
        for time in 0..times {
            if time == times / 2 {
                at_half = counts();
            }
            for _ in 0..LOOKS {
                let keys = (0..entries / LOOKS).map(|_| key(prng.below(entries)));
                let (_, took) = put_all(&wip, keys);
                if time >= times / 2 {
                    seconds += took.as_secs_f64();
                    spaces.push(metric(&wip, "table_bytes") / live);
                }
            }
        }
    });
    let now = counts();
    let put = (times - times / 2) * (entries / LOOKS * LOOKS);
    Row {
        percent,
        space: spaces.iter().sum::<f64>() / spaces.len() as f64,
        space_max: spaces.iter().copied().fold(0.0, f64::max),
        written: (now.0 - at_half.0) / (now.1 - at_half.1),
        written_in_all: now.0 / now.1,
        thousand_puts_s: put as f64 / seconds / 1e3,
    }
}

/// What the steady state costs at so much space: the log, a flush, and rewriting a bucket once so
/// many of its bytes are dead that the buckets on average, between none and that, come to it.
fn model(space: f64) -> f64 {
    const LOG: f64 = 144.0 / 116.0;
    const TABLE: f64 = 1.05;
    LOG + TABLE + TABLE / (2.0 * (space / TABLE - 1.0))
}

fn main() {
    let mut args = Args::read();
    let draws = args.take("svg", 0) != 0;
    println!("percent  space (most)  written (in all)  model  paper's bound  k puts/s");
    let mut rows = Vec::new();
    for percent in PERCENT {
        let args = args.in_dir("store");
        let row = measure(args, percent);
        println!(
            "{:7}  {:5.2} ({:4.2})  {:7.2} ({:6.2})  {:5.2}  {:13.2}  {:8.0}",
            row.percent,
            row.space,
            row.space_max,
            row.written,
            row.written_in_all,
            model(row.space),
            3.0 + 8.0 / 7.0 + 1.0,
            row.thousand_puts_s
        );
        rows.push(row);
    }
    if draws {
        let of = |y: fn(&Row) -> f64| rows.iter().map(move |row| (row.space, y(row)));
        let series = vec![
            Series::new("measured", of(|row| row.written)),
            Series::new("model", of(|row| model(row.space))),
        ];
        let panel = Panel::lines(
            "Overwritten uniformly, again and again",
            "bytes of tables for each live byte",
            "bytes written for each byte put",
            series,
        );
        charts::draw(&[panel], Path::new("docs/benchmarks/wip-space.svg")).expect("the drawing");
    }
}
