//! `silica bench figures pmem`: figures of TurboHash and SPTree from simulated persistent memory.

use super::didacache::write;
use super::simulate::progress;
use silica::Result;
use silica_console::Output;
use silica_lab::figures::pmem;
use std::path::Path;

/// A figure: its number, its title, its axes.
const FIGURES: [(&str, &str, &str, &str); 1] = [(
    "figure-3.1",
    "Load factor and buckets of a miss before each growth (figure 3.1)",
    "growth",
    "load factor, buckets",
)];

/// Runs everything, writes `results.json` and the figures into `out`.
pub(super) fn run(out: &Path, scale: f64, seed: u64, output: &mut Output) -> Result<()> {
    let rows = pmem::rows(scale, seed, &mut progress(output))?;
    write(&rows, &FIGURES, scale, out, output)
}
