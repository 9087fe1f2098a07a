//! Writes, makes and unlinks files in directories, in turns, and prints the median rate of each:
//! `cargo run --release -p silica-mount --example speed -- ROUNDS DIRECTORY[=PID]...`. Give it a
//! mount, a FUSE pass-through and a plain directory to compare them on one machine at one time.
//!
//! With the process that answers for a directory it prints what the processors took, too: of that
//! process and of this one together. On a busy machine this says more than the time that passed.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Written in order, by calls of 1 MiB.
const MIB: usize = 128;
const FILES: usize = 2_000;
const FILE_BYTES: usize = 1_000;

/// Seconds of one MiB written with the `fsync` at the end, of one file made, and of one unlinked.
type Costs = [f64; 3];

/// A directory, and the process that answers for it.
struct Place {
    directory: PathBuf,
    server: Option<u32>,
}

/// A moment on the wall's clock and on those of the processors.
struct Moment {
    at: Instant,
    processors_s: f64,
}

impl Place {
    fn parse(word: &str) -> Result<Self, Box<dyn Error>> {
        Ok(match word.rsplit_once('=') {
            Some((directory, pid)) => {
                Place { directory: directory.into(), server: Some(pid.parse()?) }
            }
            None => Place { directory: word.into(), server: None },
        })
    }

    fn now(&self) -> std::io::Result<Moment> {
        let own = processor_s("self")?;
        let server = self.server.map_or(Ok(0.0), |pid| processor_s(&pid.to_string()))?;
        Ok(Moment { at: Instant::now(), processors_s: own + server })
    }

    /// Wall time and processor time since `begin`, of one of `count`.
    fn since(&self, begin: &Moment, count: usize) -> std::io::Result<(f64, f64)> {
        let now = self.now()?;
        let wall_s = (now.at - begin.at).as_secs_f64();
        Ok((wall_s / count as f64, (now.processors_s - begin.processors_s) / count as f64))
    }
}

/// Seconds that the processors spent on all threads of a process, those that ended included. The
/// kernel counts them in hundredths.
fn processor_s(pid: &str) -> std::io::Result<f64> {
    const TICKS_PER_S: f64 = 100.0;
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may have spaces; user and system time are 14th and 15th.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let ticks = rest.split_whitespace().skip(11).take(2);
    Ok(ticks.filter_map(|word| word.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S)
}

fn measure(place: &Place) -> std::io::Result<(Costs, Costs)> {
    let large = place.directory.join("large");
    let bytes = vec![7; 1 << 20];
    let begin = place.now()?;
    let mut file = File::create(&large)?;
    for _ in 0..MIB {
        file.write_all(&bytes)?;
    }
    file.sync_all()?;
    let written = place.since(&begin, MIB)?;
    drop(file);
    fs::remove_file(&large)?;

    let small = place.directory.join("small");
    fs::create_dir(&small)?;
    let name = |number: usize| small.join(number.to_string());
    let begin = place.now()?;
    for number in 0..FILES {
        fs::write(name(number), &bytes[..FILE_BYTES])?;
    }
    let made = place.since(&begin, FILES)?;
    let begin = place.now()?;
    for number in 0..FILES {
        fs::remove_file(name(number))?;
    }
    let unlinked = place.since(&begin, FILES)?;
    fs::remove_dir(&small)?;
    Ok(([written.0, made.0, unlinked.0], [written.1, made.1, unlinked.1]))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let rounds: usize = words.next().ok_or("give ROUNDS and directories")?.parse()?;
    let places: Vec<Place> = words.map(|word| Place::parse(&word)).collect::<Result<_, _>>()?;
    let mut all = vec![Vec::new(); places.len()];
    for _ in 0..rounds.max(1) {
        for (costs, place) in all.iter_mut().zip(&places) {
            costs.push(measure(place)?);
        }
    }
    for (place, costs) in places.iter().zip(all) {
        let wall = |at: usize| median(costs.iter().map(|(wall, _)| wall[at]).collect());
        let processors = |at: usize| 1e6 * median(costs.iter().map(|(_, of)| of[at]).collect());
        println!(
            "{}: {:.0} MiB/s written in order, {:.0} files made, {:.0} unlinked a second; \
             processors {:.0} us a MiB, {:.0} us a file made, {:.0} us a file unlinked",
            place.directory.display(),
            1.0 / wall(0),
            1.0 / wall(1),
            1.0 / wall(2),
            processors(0),
            processors(1),
            processors(2)
        );
    }
    Ok(())
}
