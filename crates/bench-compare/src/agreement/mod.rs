//! Writes to a group of three members on one machine: ours and etcd's, in one run.
//!
//! Both groups run at the same time and take turns, round by round, so that what else the machine
//! does meets both. Each client has a connection to the leader and waits for each answer; a write
//! is answered when a majority has synced it. A figure is the median of the rounds, and a ratio is
//! taken within each round. The time that the servers' threads ran stands beside the rate.

mod grpc;
mod writers;

use crate::machine;
use crate::peers::{Grouped, etcd_version};
use crate::results::Machine;
use crate::suite::Size;
use crate::types::{cpu_seconds, median};
use serde::Serialize;
use silica::{Error, ErrorKind, Result};
use silica_base::Histogram;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use writers::{Speaks, leader, load};

/// Members of a group.
const MEMBERS: usize = 3;

/// What is compared.
#[derive(Debug, Clone)]
pub struct AgreementRequest {
    /// How much is done.
    pub size: Size,
    /// Rounds of each group.
    pub rounds: Option<usize>,
    /// Seconds of a round.
    pub seconds: Option<f64>,
    /// Clients; 64 if nothing is said.
    pub clients: Option<usize>,
    /// Memory of a member of ours.
    pub memory_bytes: Option<u64>,
}

/// A run.
#[derive(Debug, Clone)]
pub struct AgreementRun {
    /// What is compared.
    pub request: AgreementRequest,
    /// Directory for results.
    pub out: PathBuf,
    /// Directory below which members have theirs, if it is not `out`.
    pub stores: Option<PathBuf>,
}

/// What a group did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupRow {
    /// Whose it is.
    pub group: String,
    /// Writes a second, the median of the rounds.
    pub rate: f64,
    /// The lowest and the highest.
    pub rates: Vec<f64>,
    /// Milliseconds from a write to its answer, the median of the rounds' medians.
    pub median_ms: f64,
    /// Likewise of the 99th percentiles.
    pub p99_ms: f64,
    /// Microseconds that the threads of all members ran for a write.
    pub cpu_us: f64,
}

/// What a run found.
#[derive(Debug, Clone, Serialize)]
pub struct AgreementReport {
    /// The machine.
    pub machine: Machine,
    /// When it began, in UTC.
    pub date: String,
    /// The version of etcd.
    pub etcd: String,
    /// Clients of a group.
    pub clients: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Ours, and etcd's.
    pub rows: Vec<GroupRow>,
    /// Our rate by etcd's, the median of the rounds' ratios, the lowest and the highest.
    pub ratio: Option<[f64; 3]>,
    /// What was written.
    pub files: Vec<PathBuf>,
}

/// Told of each round: how many are done, of how many, and which comes next.
pub type AgreementProgress<'a> = dyn FnMut(usize, usize, &str) + 'a;

/// What a group did in a round.
struct Turn {
    writes: u64,
    seconds: f64,
    cpu_seconds: f64,
    times: Histogram,
}

/// A group, and what was measured of it.
struct Side {
    name: &'static str,
    speaks: Speaks,
    group: Grouped,
    turns: Vec<Turn>,
}

impl Side {
    fn run(&mut self, (clients, time): (usize, Duration), round: usize) -> Result<()> {
        let at = leader(&self.group, self.speaks)?;
        let ran = |group: &Grouped| group.processes().map(cpu_seconds).sum::<f64>();
        let before = ran(&self.group);
        let loaded = load(self.group.address(at), self.speaks, (clients, time), round as u64);
        self.group.check()?;
        let (seconds, times) = loaded?;
        let cpu_seconds = ran(&self.group) - before;
        self.turns.push(Turn { writes: times.count(), seconds, cpu_seconds, times });
        Ok(())
    }

    fn row(&self) -> Option<GroupRow> {
        let of = |figure: &dyn Fn(&Turn) -> f64| median(self.turns.iter().map(figure).collect());
        let ms = |quantile: f64| of(&move |turn| turn.times.quantile(quantile) as f64 / 1e6);
        Some(GroupRow {
            group: self.name.to_string(),
            rate: of(&Turn::rate)?,
            rates: self.turns.iter().map(Turn::rate).collect(),
            median_ms: ms(0.5)?,
            p99_ms: ms(0.99)?,
            cpu_us: of(&|turn| 1e6 * turn.cpu_seconds / turn.writes.max(1) as f64)?,
        })
    }
}

impl Turn {
    fn rate(&self) -> f64 {
        self.writes as f64 / self.seconds
    }
}

/// Performs `run`; an interruption ends it with what was measured.
///
/// # Errors
/// Fails if etcd is not installed, or a member dies or refuses a write.
pub fn agreement(
    run: &AgreementRun,
    interrupted: &AtomicBool,
    progress: &mut AgreementProgress<'_>,
) -> Result<AgreementReport> {
    let request = &run.request;
    let etcd = etcd_version()?;
    let (rounds, seconds) = match request.size {
        Size::Full => (7, 6.0),
        Size::Quick => (3, 2.0),
        Size::Toy => (1, 0.3),
    };
    let rounds = request.rounds.unwrap_or(rounds).max(1);
    let time = Duration::try_from_secs_f64(request.seconds.unwrap_or(seconds))
        .map_err(|e| Error::new(ErrorKind::Config, format!("seconds of a round: {e}")))?;
    let clients = request.clients.unwrap_or(64).max(1);
    let base = run.stores.as_ref().unwrap_or(&run.out);
    let directory = base.join(format!("agreement-{}", std::process::id()));
    let failed = |e| Error::io(format!("creating {}", directory.display()), e);
    std::fs::create_dir_all(&run.out).map_err(failed)?;
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let directory = directory.canonicalize().map_err(failed)?;
    let measured = measure(&directory, request, &mut |sides| {
        for round in 0..rounds {
            for nth in 0..sides.len() {
                if interrupted.load(Ordering::Relaxed) {
                    return Ok(());
                }
                // Who comes first changes from round to round.
                let count = sides.len();
                let side = &mut sides[(nth + round) % count];
                progress(count * round + nth, count * rounds, side.name);
                side.run((clients, time), round)?;
            }
        }
        Ok(())
    });
    let machine = machine::describe(&directory);
    let _ = std::fs::remove_dir_all(&directory);
    let sides = measured?;
    let mut report = AgreementReport {
        machine,
        date: machine::date(),
        etcd,
        clients,
        value_bytes: writers::VALUE_BYTES,
        rows: sides.iter().filter_map(Side::row).collect(),
        ratio: ratio(&sides[0], &sides[1]),
        files: Vec::new(),
    };
    report.write(&run.out)?;
    Ok(report)
}

/// Starts both groups, lets `rounds` run, and returns what was measured.
fn measure(
    directory: &Path,
    request: &AgreementRequest,
    rounds: &mut dyn FnMut(&mut [Side; 2]) -> Result<()>,
) -> Result<[Side; 2]> {
    let memory_bytes = request.memory_bytes.unwrap_or(256 << 20);
    let ours = Grouped::members(&directory.join("silica"), MEMBERS, memory_bytes)?;
    let etcd = Grouped::etcd(&directory.join("etcd"), MEMBERS)?;
    let side = |name, speaks, group| Side { name, speaks, group, turns: Vec::new() };
    let mut sides = [side("silica", Speaks::Resp, ours), side("etcd", Speaks::Grpc, etcd)];
    rounds(&mut sides)?;
    Ok(sides)
}

fn ratio(ours: &Side, theirs: &Side) -> Option<[f64; 3]> {
    let pairs = ours.turns.iter().zip(&theirs.turns);
    let all: Vec<f64> = pairs.map(|(ours, theirs)| ours.rate() / theirs.rate()).collect();
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(0.0, f64::max);
    Some([median(all)?, low, high])
}

impl AgreementReport {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "\n| {} clients, {} B | writes/s (low–high) | median, ms | p99, ms | CPU, µs |\n\
             |---|---|---|---|---|\n",
            self.clients, self.value_bytes
        );
        for row in &self.rows {
            let low = row.rates.iter().copied().fold(f64::INFINITY, f64::min);
            let high = row.rates.iter().copied().fold(0.0, f64::max);
            let _ = writeln!(
                text,
                "| {} | {:.0} ({low:.0}–{high:.0}) | {:.2} | {:.2} | {:.0} |",
                row.group, row.rate, row.median_ms, row.p99_ms, row.cpu_us
            );
        }
        if let Some([ratio, low, high]) = self.ratio {
            let _ = writeln!(text, "\nratio {ratio:.2} ({low:.2}–{high:.2})");
        }
        text
    }

    /// Writes `agreement.json`.
    fn write(&mut self, out: &Path) -> Result<()> {
        let file = out.join("agreement.json");
        self.files.push(file.clone());
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Io, format!("writing {}: {e}", file.display())))?;
        std::fs::write(&file, text).map_err(|e| Error::io(format!("writing {}", file.display()), e))
    }
}
