//! How long the calls of each command took, for LATENCY HISTOGRAM.
//!
//! Requests run in bursts and share their time: each call counts with its share of what its burst
//! took, by the number of requests. Requests that no engine answers are not timed.

use super::CommandList;
use silica_base::Striped;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Classes of times: up to 1, 2, 4, … units.
const POWERS: usize = 32;
/// The unit, in nanoseconds; Redis's histograms begin with it, too.
const UNIT_NS: u64 = 1024;

/// Calls by the time that they took.
type Counts = [AtomicU64; POWERS];

/// Times of the calls of every command since the start, or since CONFIG RESETSTAT.
#[derive(Debug)]
pub(crate) struct Times {
    list: CommandList,
    /// Calls are timed: `latency-tracking`.
    pub(crate) is_on: AtomicBool,
    /// Of GET and SET, which threads count on lines of their own.
    usual: Striped<[Counts; 2]>,
    /// Of all commands, in their order.
    all: Box<[Counts]>,
    /// What the sums were at the last reset.
    zero: Mutex<Vec<[u64; POWERS]>>,
}

/// The command that a request has called.
pub(crate) enum Called {
    /// One of those that are told apart without looking at their names.
    Get,
    Set,
    Other(&'static str),
}

/// How long the calls of a command took.
pub(crate) struct CommandTimes {
    pub(crate) name: &'static str,
    pub(crate) calls: u64,
    /// Microseconds, and how many calls took up to so many, if more did than up to the step before.
    pub(crate) steps: Vec<(u64, u64)>,
}

impl Times {
    /// No calls of the commands of `list`.
    pub(crate) fn new(list: CommandList) -> Self {
        let count = list.names.len();
        Times {
            list,
            is_on: AtomicBool::new(true),
            usual: Striped::default(),
            all: (0..count).map(|_| Counts::default()).collect(),
            zero: Mutex::new(vec![[0; POWERS]; count]),
        }
    }

    /// Counts what was called in `ran`, each call of which took `nanos` nanoseconds.
    pub(crate) fn count(&self, ran: impl Iterator<Item = Called>, nanos: u64) {
        let class = nanos.div_ceil(UNIT_NS).max(1).next_power_of_two().trailing_zeros() as usize;
        let class = class.min(POWERS - 1);
        let mut usual = [0; 2];
        for called in ran {
            match called {
                Called::Get => usual[0] += 1,
                Called::Set => usual[1] += 1,
                Called::Other(name) => {
                    if let Some(place) = (self.list.place_of)(name) {
                        self.all[place][class].fetch_add(1, Relaxed);
                    }
                }
            }
        }
        for (which, count) in usual.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            self.usual.add(|counts| &counts[which][class], count);
        }
    }

    fn sums(&self, place: usize) -> [u64; POWERS] {
        let name = self.list.names[place];
        let which = ["get", "set"].iter().position(|usual| *usual == name);
        std::array::from_fn(|class| {
            let usual = which.map_or(0, |which| self.usual.sum(|counts| &counts[which][class]));
            usual + self.all[place][class].load(Relaxed)
        })
    }

    /// Forgets all times.
    pub(crate) fn reset(&self) {
        let mut zero = self.zero.lock().unwrap_or_else(PoisonError::into_inner);
        zero.iter_mut().enumerate().for_each(|(place, zero)| *zero = self.sums(place));
    }

    /// The commands that were called and that `wants` takes by their names.
    pub(crate) fn list(&self, wants: impl Fn(&str) -> bool) -> Vec<CommandTimes> {
        let zero = self.zero.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = Vec::new();
        for (place, name) in self.list.names.iter().enumerate().filter(|(_, name)| wants(name)) {
            let (sums, mut calls) = (self.sums(place), 0);
            let mut steps = Vec::new();
            for (class, sum) in sums.iter().enumerate() {
                let count = sum.saturating_sub(zero[place][class]);
                calls += count;
                if count > 0 {
                    steps.push(((UNIT_NS << class) / 1000, calls));
                }
            }
            if calls > 0 {
                list.push(CommandTimes { name, calls, steps });
            }
        }
        list
    }
}
