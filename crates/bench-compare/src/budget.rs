//! Time: what a run is expected to take, and how long measured parts may be so that it fits.

use crate::rounds::Windows;
use crate::schedule::{Group, Schedule, Task};
use crate::suite::Size;
use std::time::{Duration, Instant};

/// Seconds that things take, as measured on two cores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    /// All groups of a part of the run.
    budget: f64,
    /// What a store costs at a workload beside its warm-up and its measured part.
    around: f64,
    /// Filling a store.
    fill: f64,
    /// A limit, with all its figures.
    limit: f64,
    /// The shortest and the longest measured part of a store.
    range: (f64, f64),
}

/// A measured part with its warm-up, beside the measured part alone.
const WARMED: f64 = 1.0 + WARM_UP;
/// The warm-up's time for that of the measured part.
pub(crate) const WARM_UP: f64 = 0.4;

impl Costs {
    fn of(size: Size) -> Option<Costs> {
        let (budget, around, fill, limit, range) = match size {
            Size::Full => (3300.0, 1.5, 12.0, 10.0, (0.8, 6.0)),
            Size::Quick => (155.0, 0.5, 2.0, 2.0, (0.4, 4.0)),
            Size::Toy => return None,
        };
        Some(Costs { budget, around, fill, limit, range })
    }
}

/// What is left to do.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    fills: f64,
    limits: f64,
    cells: f64,
}

impl Left {
    fn of(group: &Group, size: Size, repetitions: usize) -> Left {
        let repetitions = repetitions as f64;
        let cells = |task: &Task| group.stores.len() + task.limits_beside();
        Left {
            fills: if group.shares(size) { group.stores.len() as f64 } else { 0.0 },
            limits: group.limits.len() as f64 * repetitions,
            cells: group.tasks.iter().map(cells).sum::<usize>() as f64 * repetitions,
        }
    }

    fn plus(self, more: Left) -> Left {
        Left {
            fills: self.fills + more.fills,
            limits: self.limits + more.limits,
            cells: self.cells + more.cells,
        }
    }

    /// Time beside the measured parts.
    fn fixed(&self, costs: &Costs) -> f64 {
        self.fills * costs.fill + self.limits * costs.limit + self.cells * costs.around
    }

    /// The time of the measured part of a cell, so that all fit into `seconds`.
    fn cell_seconds(&self, costs: &Costs, seconds: f64) -> f64 {
        let each = (seconds - self.fixed(costs)) / self.cells.max(1.0) / WARMED;
        each.clamp(costs.range.0, costs.range.1)
    }
}

/// Time of each measured part of `groups`, which share one budget; 0 where nobody cares.
pub(crate) fn cell_seconds(size: Size, groups: &[Group], repetitions: usize) -> f64 {
    let Some(costs) = Costs::of(size) else { return 0.0 };
    let all = groups.iter().map(|g| Left::of(g, size, repetitions));
    all.fold(Left::default(), Left::plus).cell_seconds(&costs, costs.budget)
}

/// What `schedule` is expected to take, in seconds; none where nobody cares.
pub(crate) fn expected(schedule: &Schedule, size: Size) -> Option<f64> {
    let costs = Costs::of(size)?;
    let of = |group: &Group| {
        let left = Left::of(group, size, schedule.repetitions);
        let measured = WARMED * Windows::of(group.cell_seconds, true).seconds();
        left.fixed(&costs) + left.cells * measured
    };
    Some(schedule.groups.iter().map(of).sum())
}

/// Seconds for people.
pub(crate) fn text(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// The time of a part of the run as it goes: what takes longer than expected makes what comes later
/// shorter.
pub(crate) struct Watch {
    size: Size,
    costs: Option<Costs>,
    started: Instant,
    fills: Mean,
    around: Mean,
}

/// A mean of what was measured so far.
#[derive(Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, seconds: f64, count: f64) {
        self.sum += seconds;
        self.count += count;
    }

    fn or(&self, expected: f64) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { expected }
    }
}

impl Watch {
    /// Of a part that begins now.
    pub(crate) fn new(size: Size) -> Self {
        let (fills, around) = (Mean::default(), Mean::default());
        Watch { size, costs: Costs::of(size), started: Instant::now(), fills, around }
    }

    /// A store was filled.
    pub(crate) fn filled(&mut self, took: Duration) {
        self.fills.add(took.as_secs_f64(), 1.0);
    }

    /// `stores` were measured at a workload, for `measured` of the time that it took.
    pub(crate) fn measured(&mut self, took: Duration, measured: Duration, stores: usize) {
        // A part of the warm-up is in here, too, so it is rather too much.
        self.around.add(took.saturating_sub(measured).as_secs_f64(), stores as f64);
    }

    /// The time of the next measured part of each store: that of the plan, or less where the time
    /// of what is left does not allow it. `tasks` are left of `group`, and `later` groups.
    pub(crate) fn cell_seconds(&self, group: &Group, tasks: usize, later: &[Later<'_>]) -> f64 {
        let Some(costs) = self.costs else { return group.cell_seconds };
        let costs = Costs {
            fill: self.fills.or(costs.fill),
            around: self.around.or(costs.around),
            ..costs
        };
        let here = Left { cells: (tasks * group.stores.len()) as f64, ..Left::default() };
        let of = |later: &Later<'_>| Left::of(later.group, self.size, later.repetitions);
        let left = later.iter().map(of).fold(here, Left::plus);
        let seconds = costs.budget - self.started.elapsed().as_secs_f64();
        left.cell_seconds(&costs, seconds).min(group.cell_seconds)
    }
}

/// A group that comes later, and how often.
pub(crate) struct Later<'a> {
    pub(crate) group: &'a Group,
    pub(crate) repetitions: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Request;

    #[test]
    fn every_suite_is_expected_to_fit() {
        for (size, most) in [(Size::Quick, 180.0), (Size::Full, 3600.0)] {
            for suite in ["limits", "flash", "ordered", "memory", "server", "all"] {
                if (suite, size) == ("all", Size::Full) {
                    continue;
                }
                let Ok(schedule) = Schedule::new(&Request::new(suite, size)) else { continue };
                let expected = expected(&schedule, size).unwrap();
                assert!(expected > 1.0 && expected <= most, "{suite}: {expected}");
            }
        }
    }

    #[test]
    fn what_is_late_makes_the_rest_shorter() {
        let schedule = Schedule::new(&Request {
            peers: vec!["silica:silt".into(), "redb".into()],
            ..Request::new("flash", Size::Quick)
        })
        .unwrap();
        let group = &schedule.groups[0];
        let mut watch = Watch::new(Size::Quick);
        let at_ease = watch.cell_seconds(group, 6, &[]);
        assert_eq!(at_ease, group.cell_seconds);
        watch.measured(Duration::from_secs(40), Duration::from_secs(2), 2);
        let pressed = watch.cell_seconds(group, 5, &[]);
        assert!(pressed < at_ease && pressed >= 0.4, "{pressed} {at_ease}");
    }

    #[test]
    fn times_are_for_people() {
        assert_eq!((text(59.2), text(165.0)), ("60 s".to_string(), "2 min 45 s".to_string()));
    }
}
