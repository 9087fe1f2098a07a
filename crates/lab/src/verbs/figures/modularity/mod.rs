//! `silica bench figures modularity`: one engine called by its own type, through the boundary,
//! through the facade and through a server, and what the boundary saves in lines. Section 6.1.2 of
//! Lim's dissertation asks; it has no figure.

mod count;
mod lines;
mod reach;

use super::job::Job;
use super::scratch::{Scratch, median};
use super::sheet::{Drawing, Sheet, drawing};
use count::Counted;
use reach::{Calls, ENGINES, Keys, Kind, Level, reach};
use silica::Result;
use std::path::Path;

/// Keys of a full run.
const KEYS: f64 = 1e6;
const KEYS_MIN: u64 = 1000;
/// Rounds of each level, in turns; the median counts.
const ROUNDS: usize = 7;
const BURSTS: [usize; 3] = [1, 8, 32];
/// Operations of a round for each key, at least so many; a server's are fewer.
const OPERATIONS_OF_KEY: u64 = 2;
const OPERATIONS_MIN: u64 = 2000;
const SERVER_PART: u64 = 4;
/// With fewer keys instructions are counted of one burst of one engine only.
const COUNTED_KEYS: u64 = 20_000;

const DRAWINGS: [Drawing; 4] = [
    level("modularity-memory-gets", "mica, gets: ns", "Gets of an engine in memory, by burst"),
    level("modularity-memory-puts", "mica, puts: ns", "Puts of an engine in memory, by burst"),
    level("modularity-ordered-gets", "wip, gets: ns", "Gets of an engine with a log, by burst"),
    level("modularity-ordered-puts", "wip, puts: ns", "Puts of an engine with a log, by burst"),
];

const fn level(file: &'static str, metric: &'static str, title: &'static str) -> Drawing {
    let base = drawing("levels", title, "keys of a call", "ns an operation");
    Drawing { file, metric, ..base }
}

pub(crate) use count::make_calls;

/// Everything that is drawn.
pub(super) fn sheet(job: &Job<'_>) -> Result<Sheet> {
    let mut sheet = Sheet { drawings: DRAWINGS.to_vec(), ..Sheet::default() };
    let keys = job.keys(KEYS, KEYS_MIN);
    let scratch = Scratch::new(job, false)?;
    for engine in ENGINES {
        if !job.begins(&format!("times of {engine}"), &mut sheet)? {
            return Ok(sheet);
        }
        times(engine, keys, &scratch, &mut sheet)?;
    }
    if !job.begins("instructions and lines", &mut sheet)? {
        return Ok(sheet);
    }
    instructions(keys >= COUNTED_KEYS, scratch.path(), &mut sheet)?;
    lines::rows(&mut sheet)?;
    Ok(sheet)
}

/// Nanoseconds of an operation on each level, in turns.
fn times(engine: &str, keys: u64, scratch: &Scratch, sheet: &mut Sheet) -> Result<()> {
    let all = Keys::new(keys);
    let mut meters = Vec::new();
    for level in Level::ALL {
        let directory = scratch.next();
        std::fs::create_dir_all(&directory)
            .map_err(|e| silica::Error::io("making a directory for a store", e))?;
        meters.push((level, reach(engine, level, &directory, &all)?));
    }
    let operations = (OPERATIONS_OF_KEY * keys).max(OPERATIONS_MIN);
    for kind in Kind::ALL {
        for burst in BURSTS {
            let mut rounds = vec![Vec::new(); meters.len()];
            for _ in 0..ROUNDS {
                for ((level, meter), nanos) in meters.iter_mut().zip(&mut rounds) {
                    let part = if level.is_server() { SERVER_PART } else { 1 };
                    let calls = (operations / part / burst as u64).max(1);
                    let took = meter(Calls { kind, burst, calls })?;
                    nanos.push(took.as_nanos() as f64 / (calls * burst as u64) as f64);
                }
            }
            let own = median(rounds[0].iter().copied());
            for ((level, _), nanos) in meters.iter().zip(&rounds) {
                let nanos = median(nanos.iter().copied());
                let metric = format!("{burst} keys, {engine}, {}: ", kind.name());
                sheet.add("levels", level.name(), metric.clone() + "ns", nanos, None);
                let more = 100.0 * (nanos / own - 1.0);
                sheet.add("levels", level.name(), metric + "% more than own type", more, None);
            }
        }
    }
    Ok(())
}

/// Instructions of an operation on each level; of all that is measured, or of a sample.
fn instructions(is_whole: bool, scratch: &Path, sheet: &mut Sheet) -> Result<()> {
    let (engines, levels, kinds, bursts) = match is_whole {
        true => (&ENGINES[..], &Level::ALL[..], &Kind::ALL[..], &BURSTS[..]),
        false => (&ENGINES[..1], &Level::ALL[..3], &Kind::ALL[..1], &BURSTS[1..2]),
    };
    for engine in engines {
        for kind in kinds {
            for burst in bursts {
                for level in levels {
                    let (level, kind, burst) = (*level, *kind, *burst);
                    let counted = Counted { engine, level, kind, burst };
                    let Some(count) = counted.instructions(scratch)? else {
                        sheet.remark("instructions: valgrind is not installed");
                        return Ok(());
                    };
                    let metric = format!("{burst} keys, {engine}, {}: instructions", kind.name());
                    sheet.add("instructions", level.name(), metric, count, None);
                }
            }
        }
    }
    Ok(())
}
