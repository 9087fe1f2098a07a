//! How often each command was called, for INFO.
//!
//! Requests run in bursts and share their time, so no request has one of its own: a command's time
//! is its share, by the number of requests, of what all bursts took.

pub(crate) mod times;

use crate::stats::Stats;
use silica_base::Striped;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
struct Count {
    calls: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
}

/// The commands whose calls are counted, as the table of commands has them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandList {
    /// Every command and subcommand.
    pub(crate) names: &'static [&'static str],
    /// The place of a name among them.
    pub(crate) place_of: fn(&str) -> Option<usize>,
}

/// Commands whose places need no search, and whose calls threads count on lines of their own.
const USUAL: [&str; 2] = ["get", "set"];

/// Calls of every command since the server's start, or since CONFIG RESETSTAT.
#[derive(Debug)]
pub(crate) struct Calls {
    list: CommandList,
    counts: Box<[Count]>,
    /// The places of the usual commands.
    usual: [usize; USUAL.len()],
    /// Calls of the usual commands, and what the sums were at the last reset.
    usual_calls: Striped<[AtomicU64; USUAL.len()]>,
    usual_zero: [AtomicU64; USUAL.len()],
}

impl Calls {
    /// No calls of the commands of `list`.
    pub(crate) fn new(list: CommandList) -> Self {
        let counts = list.names.iter().map(|_| Count::default()).collect();
        let place = |name| (list.place_of)(name).expect("the usual commands are in the table");
        let (usual_calls, usual_zero) = Default::default();
        Calls { list, counts, usual: USUAL.map(place), usual_calls, usual_zero }
    }

    fn add(&self, name: &str, which: fn(&Count) -> &AtomicU64, n: u64) {
        if let Some(place) = (self.list.place_of)(name) {
            which(&self.counts[place]).fetch_add(n, Relaxed);
        }
    }

    /// A command was called so often.
    #[inline]
    fn call(&self, name: &str, n: u64) {
        match USUAL.iter().position(|usual| *usual == name) {
            Some(at) => self.usual_calls.add(|calls| &calls[at], n),
            None => self.add(name, |count| &count.calls, n),
        }
    }

    /// Calls of the command at `place`.
    fn calls(&self, place: usize) -> u64 {
        let usual = self.usual.iter().position(|usual| *usual == place);
        let usual = usual.map_or(0, |at| {
            let sum = self.usual_calls.sum(|calls| &calls[at]);
            sum.saturating_sub(self.usual_zero[at].load(Relaxed))
        });
        usual + self.counts[place].calls.load(Relaxed)
    }

    /// A request of this command was refused before it ran.
    pub(crate) fn reject(&self, command: &str) {
        self.add(command, |count| &count.rejected, 1);
    }

    /// One was answered with an error.
    pub(crate) fn fail(&self, command: &str) {
        self.add(command, |count| &count.failed, 1);
    }

    pub(crate) fn reset(&self) {
        for Count { calls, rejected, failed } in &self.counts {
            [calls, rejected, failed].into_iter().for_each(|counter| counter.store(0, Relaxed));
        }
        for (at, zero) in self.usual_zero.iter().enumerate() {
            zero.store(self.usual_calls.sum(|calls| &calls[at]), Relaxed);
        }
    }

    /// The lines of INFO.
    pub(crate) fn write(&self, stats: &Stats, out: &mut String) {
        let requests = stats.get("burst_requests");
        let each = stats.get("burst_nanoseconds") as f64 / 1000.0 / requests.max(1) as f64;
        for (place, (name, count)) in self.list.names.iter().zip(&self.counts).enumerate() {
            let [rejected, failed] =
                [&count.rejected, &count.failed].map(|counter| counter.load(Relaxed));
            let calls = self.calls(place);
            if calls + rejected + failed > 0 {
                let usec = (each * calls as f64) as u64;
                let usec_per_call = if calls > 0 { each } else { 0.0 };
                write!(
                    out,
                    "cmdstat_{name}:calls={calls},usec={usec},usec_per_call={usec_per_call:.2},\
                     rejected_calls={rejected},failed_calls={failed}\r\n"
                )
                .expect("a string takes every write");
            }
        }
    }
}

/// Commands that a turn of planning tells apart.
const TALLIED: usize = 4;

/// Counts the calls of one turn of planning, so that the counters that all share are touched once.
pub(crate) struct Tally<'c> {
    calls: &'c Calls,
    seen: [(&'static str, u64); TALLIED],
}

impl<'c> Tally<'c> {
    pub(crate) fn new(calls: &'c Calls) -> Self {
        Tally { calls, seen: [("", 0); TALLIED] }
    }

    #[inline]
    pub(crate) fn count(&mut self, name: &'static str) {
        for (seen, count) in &mut self.seen {
            if *count == 0 {
                *seen = name;
            }
            if std::ptr::eq(*seen, name) {
                *count += 1;
                return;
            }
        }
        self.calls.call(name, 1);
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        for (name, count) in self.seen.iter().filter(|(_, count)| *count > 0) {
            self.calls.call(name, *count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{COMMANDS, LIST, place};

    #[test]
    fn more_commands_than_are_tallied_are_counted_all_the_same() {
        let calls = Calls::new(*LIST);
        let mut tally = Tally::new(&calls);
        for _ in 0..3 {
            COMMANDS.iter().for_each(|command| tally.count(command.name));
        }
        drop(tally);
        for command in COMMANDS.iter() {
            assert_eq!(calls.calls(place(command.name).unwrap()), 3, "{}", command.name);
        }
        calls.reset();
        let all = 0..COMMANDS.len();
        assert!(all.into_iter().all(|place| calls.calls(place) == 0), "they begin anew");
    }
}
