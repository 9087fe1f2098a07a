//! Objects of Redis's types: ours and Redis's, one event loop each, in one run.
//!
//! Both servers run at the same time and take turns with each command, so that what else the
//! machine does meets both. A figure is the median of the rounds; a ratio is taken within each
//! round. The time that a server's threads ran stands beside the rate, because it does not depend
//! on who else has the cores.

mod board;
mod loads;
mod memory;
mod pair;
mod queue;
mod rates;
mod report;
mod talk;

pub use board::BoardDesign;
pub(crate) use pair::cpu_seconds;
pub(crate) use rates::median;
pub use report::{BoardRow, MemoryRow, QueueRow, RateRow, TypesReport};

use crate::machine;
use crate::peers::{Kept, Typed};
use crate::suite::Size;
use pair::Pair;
use silica::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: u64 = 1 << 20;
/// The parts of a run.
const PARTS: [&str; 4] = ["rates", "memory", "queue", "board"];

/// What is compared.
#[derive(Debug, Clone)]
pub struct TypesRequest {
    /// How much is done.
    pub size: Size,
    /// Only these parts or settings of `rates`: rates, cache, buffered, synced, memory, queue,
    /// board.
    pub only: Vec<String>,
    /// Rounds of the rates.
    pub rounds: Option<usize>,
    /// Elements of a round; of the other parts in proportion.
    pub elements: Option<u64>,
    /// Memory of our servers.
    pub memory_bytes: Option<u64>,
}

/// How much each part does.
#[derive(Debug, Clone, Copy)]
struct Amounts {
    rounds: usize,
    /// Of a round; a tenth where every write is synced.
    elements: u64,
    hashes: u64,
    members: u64,
    queued: u64,
    board_members: u64,
    board_changes: u64,
}

const FULL: Amounts = Amounts {
    rounds: 5,
    elements: 100_000,
    hashes: 20_000,
    members: 1_000_000,
    queued: 10_000_000,
    board_members: 10_000_000,
    board_changes: 10_000_000,
};
const QUICK: Amounts = Amounts {
    rounds: 3,
    elements: 20_000,
    hashes: 2_000,
    members: 100_000,
    queued: 1_000_000,
    board_members: 200_000,
    board_changes: 400_000,
};
const TOY: Amounts = Amounts {
    rounds: 1,
    elements: 2_000,
    hashes: 200,
    members: 10_000,
    queued: 100_000,
    board_members: 5_000,
    board_changes: 10_000,
};

/// A run.
pub struct TypesRun<'r> {
    /// What is compared.
    pub request: TypesRequest,
    /// Directory for results.
    pub out: PathBuf,
    /// Directory below which servers have theirs, if it is not `out`.
    pub stores: Option<PathBuf>,
    /// Tells how often a store of the peer's design writes each entry that is put, its log
    /// included.
    pub peer_of_board: &'r dyn Fn(&BoardDesign) -> Result<f64>,
}

impl TypesRequest {
    fn amounts(&self) -> Amounts {
        let mut amounts = match self.size {
            Size::Full => FULL,
            Size::Quick => QUICK,
            Size::Toy => TOY,
        };
        amounts.rounds = self.rounds.unwrap_or(amounts.rounds).max(1);
        if let Some(elements) = self.elements {
            let scaled = |count: u64| {
                let product = u128::from(count) * u128::from(elements);
                ((product / u128::from(amounts.elements)) as u64).max(100)
            };
            amounts = Amounts {
                rounds: amounts.rounds,
                elements: elements.max(100),
                hashes: scaled(amounts.hashes),
                members: scaled(amounts.members),
                queued: scaled(amounts.queued),
                board_members: scaled(amounts.board_members),
                board_changes: scaled(amounts.board_changes),
            };
        }
        amounts
    }

    /// Memory of a server of ours that holds so many elements.
    fn memory(&self, elements: u64) -> u64 {
        let usual = (256 * MIB).max(elements * 192).next_multiple_of(MIB);
        self.memory_bytes.unwrap_or(usual)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == part)
    }

    fn check(&self) -> Result<()> {
        let settings = Kept::ALL.map(Kept::name);
        let known = || PARTS.iter().chain(&settings);
        match self.only.iter().find(|name| known().all(|known| known != name)) {
            None => Ok(()),
            Some(name) => {
                let known: Vec<&str> = known().copied().collect();
                let message = format!("no part '{name}'; known are {}", known.join(", "));
                Err(Error::new(ErrorKind::Config, message))
            }
        }
    }
}

/// Told of each piece of work: how many are done, of how many, and which comes next.
pub type TypesProgress<'a> = dyn FnMut(usize, usize, &str) + 'a;

/// Where a run is.
struct Course<'c> {
    directory: PathBuf,
    interrupted: &'c AtomicBool,
}

impl Course<'_> {
    fn goes_on(&self) -> bool {
        !self.interrupted.load(Ordering::Relaxed)
    }

    /// An empty directory for a server.
    fn place(&self, name: &str) -> Result<PathBuf> {
        let place = self.directory.join(name);
        let _ = std::fs::remove_dir_all(&place);
        create(&place)?;
        Ok(place)
    }
}

fn create(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)
        .map_err(|e| Error::io(format!("creating {}", directory.display()), e))
}

/// Performs `run`; an interruption ends it with what was measured.
///
/// # Errors
/// Fails if Redis is not installed, or a server dies or answers with an error.
pub fn types(
    run: &TypesRun<'_>,
    interrupted: &AtomicBool,
    progress: &mut TypesProgress<'_>,
) -> Result<TypesReport> {
    let request = &run.request;
    request.check()?;
    let redis = Typed::redis_version()?;
    create(&run.out)?;
    let base = run.stores.as_ref().unwrap_or(&run.out);
    let directory = base.join(format!("types-{}", std::process::id()));
    create(&directory)?;
    // Servers have a working directory of their own.
    let directory = directory
        .canonicalize()
        .map_err(|e| Error::io(format!("looking at {}", directory.display()), e))?;
    let mut report = TypesReport::new(machine::describe(&directory), machine::date(), redis);
    let course = Course { directory, interrupted };
    let done = parts(run, &course, &mut report, progress);
    let _ = std::fs::remove_dir_all(&course.directory);
    done?;
    report.write(&run.out)?;
    Ok(report)
}

fn parts(
    run: &TypesRun<'_>,
    course: &Course<'_>,
    report: &mut TypesReport,
    progress: &mut TypesProgress<'_>,
) -> Result<()> {
    let request = &run.request;
    let amounts = request.amounts();
    let settings: Vec<Kept> = Kept::ALL
        .into_iter()
        .filter(|kept| request.wants("rates") || request.wants(kept.name()))
        .collect();
    let others = PARTS[1..].iter().filter(|part| request.wants(part)).count();
    let all = settings.len() + others;
    let mut done = 0;
    let mut next = |what: &str| {
        progress(done, all, what);
        done += 1;
    };
    for kept in settings {
        if course.goes_on() {
            next(&format!("rates, {}", kept.name()));
            let pair = Pair::start(course, kept, request.memory(amounts.elements * 5))?;
            report.rates.extend(rates::measure(course, pair, kept, &amounts)?);
        }
    }
    if request.wants("memory") && course.goes_on() {
        next("memory of objects");
        report.memory = memory::measure(course, request, &amounts)?;
    }
    if request.wants("queue") && course.goes_on() {
        next("queue");
        report.queue = Some(queue::measure(course, request, amounts.queued)?);
    }
    if request.wants("board") && course.goes_on() {
        next("leaderboard");
        let design = (amounts.board_members, amounts.board_changes);
        report.board = Some(board::measure(course, request, design, run.peer_of_board)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(only: &[&str], elements: Option<u64>) -> TypesRequest {
        TypesRequest {
            size: Size::Toy,
            only: only.iter().map(ToString::to_string).collect(),
            rounds: None,
            elements,
            memory_bytes: None,
        }
    }

    #[test]
    fn a_part_that_is_not_known_is_refused_with_those_that_are() {
        let told = request(&["lists"], None).check().unwrap_err().to_string();
        assert!(told.contains("lists") && told.contains("synced") && told.contains("board"));
        assert!(request(&["synced", "queue"], None).check().is_ok());
    }

    #[test]
    fn parts_are_in_proportion_to_the_elements() {
        let amounts = request(&[], Some(TOY.elements * 10)).amounts();
        assert_eq!((amounts.members, amounts.queued), (TOY.members * 10, TOY.queued * 10));
    }
}
