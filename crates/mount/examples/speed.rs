//! Writes, makes and unlinks files in directories, in turns, and prints the median rate of each:
//! `cargo run --release -p silica-mount --example speed -- ROUNDS DIRECTORY...`. Give it a mount, a
//! FUSE pass-through and a plain directory to compare them on one machine at one time.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Written in order, by calls of 1 MiB.
const MIB: usize = 128;
const FILES: usize = 2_000;
const FILE_BYTES: usize = 1_000;

/// MiB written a second with the `fsync` at the end, files made a second, files unlinked a second.
type Rates = [f64; 3];

fn measure(directory: &Path) -> std::io::Result<Rates> {
    let large = directory.join("large");
    let bytes = vec![7; 1 << 20];
    let begin = Instant::now();
    let mut file = File::create(&large)?;
    for _ in 0..MIB {
        file.write_all(&bytes)?;
    }
    file.sync_all()?;
    let written = MIB as f64 / begin.elapsed().as_secs_f64();
    drop(file);
    fs::remove_file(&large)?;

    let small = directory.join("small");
    fs::create_dir(&small)?;
    let name = |number: usize| small.join(number.to_string());
    let begin = Instant::now();
    for number in 0..FILES {
        fs::write(name(number), &bytes[..FILE_BYTES])?;
    }
    let made = FILES as f64 / begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    for number in 0..FILES {
        fs::remove_file(name(number))?;
    }
    let unlinked = FILES as f64 / begin.elapsed().as_secs_f64();
    fs::remove_dir(&small)?;
    Ok([written, made, unlinked])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let rounds: usize = words.next().ok_or("give ROUNDS and directories")?.parse()?;
    let directories: Vec<PathBuf> = words.map(PathBuf::from).collect();
    let mut all = vec![Vec::new(); directories.len()];
    for _ in 0..rounds.max(1) {
        for (rates, directory) in all.iter_mut().zip(&directories) {
            rates.push(measure(directory)?);
        }
    }
    for (directory, rates) in directories.iter().zip(all) {
        let of = |at: usize| median(rates.iter().map(|rates: &Rates| rates[at]).collect());
        println!(
            "{}: {:.0} MiB/s written in order, {:.0} files made, {:.0} unlinked a second",
            directory.display(),
            of(0),
            of(1),
            of(2)
        );
    }
    Ok(())
}
