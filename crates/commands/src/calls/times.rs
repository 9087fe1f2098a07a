//! How long the calls of each command took, for LATENCY HISTOGRAM.
//!
//! Requests run in bursts and share their time: each call counts with its share of what its burst
//! took, by the number of requests. Requests that no engine answers are not timed.

use super::ALL;
use crate::burst::{Burst, Input, Request};
use crate::resp::read::GET;
use crate::resp::update::SET;
use crate::table::{Run, find_called};
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
    /// Calls are timed: `latency-tracking`.
    pub(crate) is_on: AtomicBool,
    /// Of GET and SET, which threads count on lines of their own.
    usual: Striped<[Counts; 2]>,
    /// Of all commands, in their order.
    all: Box<[Counts]>,
    /// What the sums were at the last reset.
    zero: Mutex<Vec<[u64; POWERS]>>,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            is_on: AtomicBool::new(true),
            usual: Striped::default(),
            all: ALL.iter().map(|_| Counts::default()).collect(),
            zero: Mutex::new(vec![[0; POWERS]; ALL.len()]),
        }
    }
}

/// How long the calls of a command took.
pub(crate) struct CommandTimes {
    pub(crate) name: &'static str,
    pub(crate) calls: u64,
    /// Microseconds, and how many calls took up to so many, if more did than up to the step before.
    pub(crate) steps: Vec<(u64, u64)>,
}

/// What runs a request, among those that are told apart without looking at its name.
fn usual_of(request: &Request) -> Option<usize> {
    match request.run {
        Run::Read(read) if std::ptr::eq(read, &GET) && request.head == 0 => Some(0),
        Run::Write(write) if std::ptr::eq(write, &SET) && request.head == 0 => Some(1),
        _ => None,
    }
}

fn place_of(input: &Input, request: &Request) -> Option<usize> {
    let args = input.args(request);
    if request.head != 0 || args.len() == 0 {
        return None;
    }
    super::place(find_called(args)?.name)
}

impl Times {
    /// Counts the calls of `burst`, each of which took `nanos` nanoseconds.
    pub(crate) fn count(&self, burst: &Burst, nanos: u64) {
        if !self.is_on.load(Relaxed) {
            return;
        }
        let class = nanos.div_ceil(UNIT_NS).max(1).next_power_of_two().trailing_zeros() as usize;
        let class = class.min(POWERS - 1);
        let mut usual = [0; 2];
        for (input, output) in burst.inputs.iter().zip(&burst.outputs) {
            let ran = input.requests.get(output.begun..output.next).unwrap_or_default();
            for request in ran.iter().filter(|request| !request.run.is_ready()) {
                if let Some(which) = usual_of(request) {
                    usual[which] += 1;
                } else if let Some(place) = place_of(input, request) {
                    self.all[place][class].fetch_add(1, Relaxed);
                }
            }
        }
        for (which, count) in usual.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            self.usual.add(|counts| &counts[which][class], count);
        }
    }

    fn sums(&self, place: usize) -> [u64; POWERS] {
        let name = ALL[place].name;
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
        for (place, command) in ALL.iter().enumerate().filter(|(_, command)| wants(command.name)) {
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
                list.push(CommandTimes { name: command.name, calls, steps });
            }
        }
        list
    }
}
