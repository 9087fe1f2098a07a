//! `silica bench figures lfs`: the paper's file system on flash and on a conventional drive, on the
//! emulator's clock.

use super::didacache::write;
use super::simulate::progress;
use silica::Result;
use silica_console::Output;
use silica_lab::figures::lfs;
use std::path::Path;

/// Runs everything and writes `results.json` into `out`.
pub(super) fn run(out: &Path, scale: f64, seed: u64, output: &mut Output) -> Result<()> {
    let rows = lfs::rows(scale, seed, &mut progress(output))?;
    write(&rows, &[], scale, out, output)
}
