//! What came of it: tables for people, and a file for programs.

use crate::results::Machine;
use serde::Serialize;
use silica::{Error, ErrorKind, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A command at one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RateRow {
    /// What survives: cache, buffered, synced.
    pub setting: String,
    /// How elements lie in objects.
    pub shape: String,
    /// The command.
    pub command: String,
    /// Rounds that were measured.
    pub rounds: usize,
    /// Requests a second of ours, the median.
    pub ours: f64,
    /// Of Redis.
    pub redis: f64,
    /// Ours by Redis's, the median of the rounds' ratios.
    pub ratio: f64,
    /// The lowest ratio.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// Microseconds that our server's threads ran for a request.
    pub ours_cpu_us: f64,
    /// That Redis's did.
    pub redis_cpu_us: f64,
}

/// Memory per element.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryRow {
    /// Which element.
    pub what: String,
    /// Bytes of ours, as the server counts them.
    pub ours: f64,
    /// Of Redis.
    pub redis: f64,
    /// Ours by Redis's.
    pub ratio: f64,
    /// Bytes by which the resident memory of ours grew.
    pub ours_resident: f64,
    /// Of Redis.
    pub redis_resident: f64,
}

/// The queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueRow {
    /// That have passed.
    pub elements: u64,
    /// A second, the median of the slices.
    pub rate: f64,
    /// How far a slice's rate is off the median at most.
    pub spread: f64,
    /// The most that the files took, in MiB.
    pub disk_mib_max: f64,
    /// What is in the list, in MiB.
    pub live_mib: f64,
    /// Reads of the device.
    pub device_reads: u64,
    /// Elements a second of each slice.
    pub rates: Vec<f64>,
    /// Disk after each slice, in MiB.
    pub disk_mib: Vec<f64>,
}

/// The leaderboard.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoardRow {
    /// On the board.
    pub members: u64,
    /// That were counted.
    pub changes: u64,
    /// Memory of the store, and of the peer's in the simulator.
    pub memory_bytes: u64,
    /// Changes a second.
    pub rate: f64,
    /// Bytes that ours wrote for a change.
    pub ours_bytes: f64,
    /// That the peer's design writes.
    pub peer_bytes: f64,
    /// That the engine of ours writes if each element is two entries of it, without a server.
    pub entries_bytes: f64,
    /// Write amplification of ours: by the bytes of a member and its score.
    pub ours: f64,
    /// Of the peer's design.
    pub peer: f64,
    /// Ours by the peer's.
    pub ratio: f64,
}

/// What a run found.
#[derive(Debug, Clone, Serialize)]
pub struct TypesReport {
    /// The machine.
    pub machine: Machine,
    /// When it began, in UTC.
    pub date: String,
    /// The version of Redis.
    pub redis: String,
    /// Commands.
    pub rates: Vec<RateRow>,
    /// Memory per element.
    pub memory: Vec<MemoryRow>,
    /// The queue.
    pub queue: Option<QueueRow>,
    /// The leaderboard.
    pub board: Option<BoardRow>,
    /// What was written.
    pub files: Vec<PathBuf>,
}

impl TypesReport {
    pub(super) fn new(machine: Machine, date: String, redis: String) -> Self {
        let (rates, memory, queue, board, files) = Default::default();
        TypesReport { machine, date, redis, rates, memory, queue, board, files }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.rates_text(&mut text);
        if !self.memory.is_empty() {
            text.push_str("\n| bytes of a | silica | Redis | ratio | resident | Redis's |\n");
            text.push_str("|---|---|---|---|---|---|\n");
        }
        for row in &self.memory {
            let MemoryRow { what, ours, redis, ratio, ours_resident, redis_resident } = row;
            let _ = writeln!(
                text,
                "| {what} | {ours:.1} | {redis:.1} | {ratio:.2} | {ours_resident:.1} | \
                 {redis_resident:.1} |"
            );
        }
        if let Some(queue) = &self.queue {
            let _ = writeln!(
                text,
                "\nqueue: {} elements, {:.0} a second, slices within {:.0} %, disk {:.1} MiB at \
                 most for {:.2} MiB, {} reads of the device",
                queue.elements,
                queue.rate,
                100.0 * queue.spread,
                queue.disk_mib_max,
                queue.live_mib,
                queue.device_reads
            );
        }
        if let Some(board) = &self.board {
            let _ = writeln!(
                text,
                "\nleaderboard: {} changes of {} members at {:.0} a second, {:.0} B written for \
                 each (amplification {:.1}), Kvrocks's design {:.0} B ({:.1}), ratio {:.2}; the \
                 engine alone with entries of elements {:.0} B, ratio {:.2}",
                board.changes,
                board.members,
                board.rate,
                board.ours_bytes,
                board.ours,
                board.peer_bytes,
                board.peer,
                board.ratio,
                board.entries_bytes,
                board.entries_bytes / board.peer_bytes
            );
        }
        text
    }

    /// A table for each setting and shape.
    fn rates_text(&self, text: &mut String) {
        let mut groups: Vec<(&str, &str)> = Vec::new();
        for row in &self.rates {
            let group = (&*row.setting, &*row.shape);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        for group in groups {
            let rows = || self.rates.iter().filter(|row| (&*row.setting, &*row.shape) == group);
            let (setting, shape) = group;
            let _ = writeln!(
                text,
                "\n| {setting}, {shape} | silica, k/s | Redis, k/s | ratio (low–high) | CPU, µs | \
                 Redis's | CPU ratio |\n|---|---|---|---|---|---|---|"
            );
            for row in rows() {
                let _ = writeln!(
                    text,
                    "| {} | {:.1} | {:.1} | {:.2} ({:.2}–{:.2}) | {:.2} | {:.2} | {:.2} |",
                    row.command,
                    row.ours / 1e3,
                    row.redis / 1e3,
                    row.ratio,
                    row.low,
                    row.high,
                    row.ours_cpu_us,
                    row.redis_cpu_us,
                    row.redis_cpu_us / row.ours_cpu_us
                );
            }
            let rate = geometric_mean(rows().map(|row| row.ratio));
            let cpu = geometric_mean(rows().map(|row| row.redis_cpu_us / row.ours_cpu_us));
            let _ = writeln!(text, "| geometric mean | | | {rate:.2} | | | {cpu:.2} |");
        }
    }

    /// Writes `types.json`.
    pub(super) fn write(&mut self, out: &Path) -> Result<()> {
        let file = out.join("types.json");
        self.files.push(file.clone());
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Io, format!("writing {}: {e}", file.display())))?;
        std::fs::write(&file, text).map_err(|e| Error::io(format!("writing {}", file.display()), e))
    }
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_geometric_mean_is_of_ratios() {
        assert!((geometric_mean([0.5, 2.0, 8.0].into_iter()) - 2.0).abs() < 1e-12);
    }
}
