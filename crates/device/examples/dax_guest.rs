//! Runs in a machine whose power is cut: stores to a region of a file, or looks what is left of it.
//!
//! `dax_guest write DIR` prints the region's class and, once everything is durable as far as the
//! class goes, `READY`. `dax_guest check DIR` prints `WHOLE`, or how many words are `LOST`.

use silica_base::{Error, ErrorKind, Result};
use silica_device::region::{FileRegion, Region, class_of};
use std::path::Path;

/// Bytes at first, after it grew, and after it was cut.
const BEFORE: u64 = 4 << 20;
const GROWN: u64 = 16 << 20;
const AFTER: u64 = 12 << 20;
/// What is released, and then reserved and stored to again.
const RELEASED: u64 = 2 << 20;
const RELEASED_BYTES: u64 = 1 << 20;
/// One word in so many bytes is stored: each page, and never the same line of it.
const STRIDE: u64 = 4096 + 64;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", dir] => write(dir.as_ref()),
        ["check", dir] => check(dir.as_ref()),
        _ => Err(Error::new(ErrorKind::Config, "use: dax_guest write|check DIR")),
    };
    if let Err(error) = done {
        println!("SILICA FAILED {error}");
    }
}

/// Stores, flushes and fences one word of each page of a range.
fn fill(region: &FileRegion, from: u64, end: u64) -> Result<()> {
    for at in words(from, end) {
        region.store(at, value(at));
        region.flush(at, 8);
    }
    region.fence()
}

fn words(from: u64, end: u64) -> impl Iterator<Item = u64> {
    (from.div_ceil(STRIDE)..).map(|number| number * STRIDE).take_while(move |at| *at < end)
}

fn value(at: u64) -> u64 {
    at.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

fn write(dir: &Path) -> Result<()> {
    let region = FileRegion::create(&dir.join("region"), BEFORE)?;
    let is_same = class_of(dir)? == region.class();
    let (class, writes_back) = (region.class().name(), region.writes_lines_back());
    println!("SILICA CLASS {class} writes lines back: {writes_back}, told before: {is_same}");
    fill(&region, 0, BEFORE)?;
    region.grow(GROWN)?;
    fill(&region, BEFORE, GROWN)?;
    region.truncate(AFTER)?;
    region.release(RELEASED, RELEASED_BYTES)?;
    region.reserve(RELEASED, RELEASED_BYTES)?;
    fill(&region, RELEASED, RELEASED + RELEASED_BYTES)?;
    println!("SILICA READY");
    // The power is cut while this waits: nothing is closed.
    std::thread::sleep(std::time::Duration::from_secs(600));
    Ok(())
}

fn check(dir: &Path) -> Result<()> {
    let region = FileRegion::open(&dir.join("region"), None)?;
    let end = region.len().min(AFTER);
    let lost = words(0, end).filter(|at| region.load(*at) != value(*at)).count();
    match lost == 0 && region.len() == AFTER {
        true => println!("SILICA WHOLE"),
        false => println!("SILICA LOST {lost} words of {} bytes", region.len()),
    }
    Ok(())
}
