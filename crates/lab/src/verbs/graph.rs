//! `silica bench figures graph`: PageRank on the policy level, a conventional drive and plain files.

use super::didacache::write;
use super::simulate::progress;
use silica::{Error, Result};
use silica_base::SystemClock;
use silica_console::Output;
use silica_lab::figures::graph::{Input, rows};
use std::path::Path;
use std::process::Command;

/// What dpkg knows of installed packages.
const STATUS: &str = "/var/lib/dpkg/status";

/// Measures everything, writes `results.json` into `out`.
pub(super) fn run(out: &Path, scale: f64, seed: u64, output: &mut Output) -> Result<()> {
    let scratch = out.join("scratch");
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).map_err(|e| Error::io("creating a scratch directory", e))?;
    let mut inputs = vec![Input::rmat(scale, seed)?];
    inputs.extend(packages().map(|list| Input::packages(&list)));
    let found = rows(&inputs, &scratch, &SystemClock::default(), &mut progress(output));
    let removed = std::fs::remove_dir_all(&scratch);
    let found = found?;
    removed.map_err(|e| Error::io("removing the scratch directory", e))?;
    write(&found, &[], scale, out, output)
}

/// All packages that apt knows, or those that are installed; `None` on other systems.
fn packages() -> Option<String> {
    let known = Command::new("apt-cache").arg("dumpavail").output().ok();
    let known = known.filter(|known| known.status.success() && !known.stdout.is_empty());
    let known = known.map(|known| String::from_utf8_lossy(&known.stdout).into_owned());
    known.or_else(|| std::fs::read_to_string(STATUS).ok())
}
