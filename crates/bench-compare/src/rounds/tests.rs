use super::*;
use crate::stats::Spread;
use std::cell::{Cell, RefCell};

/// A machine that gets slower and faster by a factor of two within seconds.
#[derive(Default)]
struct Machine {
    seconds: Cell<f64>,
    turns: RefCell<Vec<&'static str>>,
}

impl Machine {
    fn pace(&self) -> f64 {
        1.5 + 0.5 * (self.seconds.get() / 1.3).sin()
    }
}

/// A store that does so many operations a second when the machine is at its slowest.
struct Store<'a> {
    name: &'static str,
    speed: f64,
    left: f64,
    machine: &'a Machine,
}

impl Contestant for Store<'_> {
    fn slice(&mut self, seconds: f64) -> Result<SliceReport, String> {
        self.machine.turns.borrow_mut().push(self.name);
        let (mut operations, mut took) = (0.0, 0.0);
        while took < seconds && self.left > 0.0 {
            // A thousandth of a second, in which the machine hardly changes.
            let done = (self.speed * self.machine.pace() * 0.001).min(self.left);
            (operations, took) = (operations + done, took + 0.001);
            self.left -= done;
            self.machine.seconds.set(self.machine.seconds.get() + 0.001);
        }
        if self.speed == 0.0 {
            return Err("broken".to_string());
        }
        Ok(SliceReport { operations, seconds: took, complete: self.left <= 0.0 })
    }
}

fn lanes<'a>(machine: &'a Machine, speeds: &[f64], left: f64) -> Vec<Lane<Store<'a>>> {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let store = |(name, speed): (&&'static str, &f64)| {
        Lane::new(Store { name, speed: *speed, left, machine }, left)
    };
    NAMES.iter().zip(speeds).map(store).collect()
}

fn run(lanes: &mut [Lane<Store<'_>>], machine: &Machine, windows: Windows) -> usize {
    let (clock, is_stopped) = (|| machine.seconds.get(), || false);
    let mut world = World { clock: &clock, is_stopped: &is_stopped, told: &mut |_| {} };
    go_round(lanes, &windows, 1, &mut world)
}

fn pairs(lanes: &[Lane<Store<'_>>], above: usize, below: usize) -> Vec<(Turn, Turn)> {
    let both = lanes[above].turns.iter().zip(&lanes[below].turns);
    both.filter_map(|(above, below)| (*above).zip(*below)).collect()
}

fn ratio(lanes: &[Lane<Store<'_>>], above: usize, below: usize) -> f64 {
    Spread::of_pairs(&[pairs(lanes, above, below)]).unwrap().median
}

#[test]
fn a_machine_that_drifts_does_not_change_ratios() {
    let machine = Machine::default();
    let speeds = [1000.0, 1100.0, 3000.0, 300.0];
    let mut all = lanes(&machine, &speeds, f64::INFINITY);
    let windows = Windows { rounds: 20, slice_seconds: 0.1 };
    assert_eq!(run(&mut all, &machine, windows), 20);
    let speeds_of = all[0].turns.iter().flatten().map(|turn| turn.operations / turn.seconds);
    let figures = Spread::of(&speeds_of.collect::<Vec<_>>()).unwrap();
    assert!(figures.high / figures.low > 1.8, "the machine drifts: {figures:?}");
    for other in 1..4 {
        let (found, right) = (ratio(&all, other, 0), speeds[other] / speeds[0]);
        assert!((found / right - 1.0).abs() < 0.05, "{found}, not {right}");
    }
    // One store after the other, each for as long, as it was done before: two that are as fast
    // seem to be far apart, and the faster one the slower.
    let machine = Machine::default();
    let mut all = lanes(&machine, &speeds, f64::INFINITY);
    run(&mut all, &machine, Windows { rounds: 1, slice_seconds: 4.0 });
    let wrong = (1..4).map(|other| ratio(&all, other, 0) / (speeds[other] / speeds[0]) - 1.0);
    assert!(wrong.fold(0.0, |a: f64, b| a.max(b.abs())) > 0.25, "the old way hides the drift");
}

#[test]
fn everybody_has_one_turn_a_round_in_changing_order() {
    let machine = Machine::default();
    let mut all = lanes(&machine, &[1000.0; 4], f64::INFINITY);
    run(&mut all, &machine, Windows { rounds: 12, slice_seconds: 0.05 });
    let turns = machine.turns.borrow();
    let rounds: Vec<_> = turns.chunks(4).collect();
    for round in &rounds {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, ["a", "b", "c", "d"]);
    }
    let first: std::collections::BTreeSet<_> = rounds.iter().map(|round| round[0]).collect();
    assert!(first.len() >= 3, "{rounds:?}");
}

#[test]
fn what_has_an_end_is_spread_over_all_rounds() {
    let machine = Machine::default();
    // In slices of 0.1 s the fast one would be through in two.
    let mut all = lanes(&machine, &[10_000.0, 500.0], 3000.0);
    run(&mut all, &machine, Windows { rounds: 10, slice_seconds: 0.1 });
    let both = pairs(&all, 0, 1).len();
    assert!(both >= 7, "{both} rounds: {:?}", all[0].turns);
    assert_eq!(all[1].turns.len(), 10);
}

#[test]
fn one_that_fails_is_out_and_the_others_go_on() {
    let machine = Machine::default();
    let mut all = lanes(&machine, &[1000.0, 0.0], f64::INFINITY);
    run(&mut all, &machine, Windows { rounds: 9, slice_seconds: 0.1 });
    assert_eq!(all[1].failed.as_deref(), Some("broken"));
    assert_eq!(all[1].turns, [None]);
    assert_eq!(all[0].turns.iter().flatten().count(), 9);
}

#[test]
fn rounds_end_when_they_are_late_or_interrupted() {
    let machine = Machine::default();
    let mut all = lanes(&machine, &[1000.0], f64::INFINITY);
    let clock = || machine.seconds.get() * 10.0;
    let mut world = World { clock: &clock, is_stopped: &|| false, told: &mut |_| {} };
    let windows = Windows { rounds: 30, slice_seconds: 0.1 };
    assert_eq!(go_round(&mut all, &windows, 1, &mut world), ROUNDS_MIN);
    let stopped = || machine.turns.borrow().len() >= 11;
    let mut world = World { clock: &clock, is_stopped: &stopped, told: &mut |_| {} };
    let mut all = lanes(&machine, &[1000.0], f64::INFINITY);
    go_round(&mut all, &windows, 1, &mut world);
    assert_eq!(all[0].turns.len(), 3, "what was measured stays");
}

#[test]
fn windows_fill_the_time() {
    for seconds in [0.4, 0.8, 1.5, 4.0, 6.0] {
        for writes in [false, true] {
            let windows = Windows::of(seconds, writes);
            assert!(windows.rounds >= ROUNDS_MIN, "{windows:?}");
            assert!((windows.seconds() / seconds - 1.0).abs() < 0.01, "{windows:?}");
        }
    }
    assert!(Windows::of(1.2, false).rounds > Windows::of(1.2, true).rounds);
    assert_eq!(Windows::of(100.0, true).slice_seconds, 0.15);
    assert_eq!(Windows::of(0.0, true).rounds, usize::MAX);
}
