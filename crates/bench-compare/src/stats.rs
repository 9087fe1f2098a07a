//! Honest statistics: what was done over the time that it took, how sure that is, and no ratio
//! where the spread hides which side is ahead.
//!
//! Work in rounds is summed up, operations over seconds, so that a stall counts for what it costs
//! and a round's place among others does not matter. How far that may be off is found by drawing
//! (the bootstrap): as many rounds as there were are drawn with replacement, again and again, and
//! each draw has a figure of its own; 95 % of these lie between `low` and `high`. Where everything
//! was repeated with fresh processes, repetitions are drawn first and then rounds within them, so
//! that what differs from process to process is in the interval, too. A ratio is drawn in pairs,
//! both stores from the same rounds: what disturbs one disturbs its neighbour in time. The spread
//! of values without rounds is the lowest and the highest.

use serde::{Deserialize, Serialize};
use silica_base::Prng;

/// A figure, and between which values it lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The value in the middle; between the two in the middle where the number is even.
    pub median: f64,
    /// The lowest, or the lower end of the interval.
    pub low: f64,
    /// The highest, or the upper end of the interval.
    pub high: f64,
    /// How many there were.
    pub runs: usize,
}

/// What one store did in one round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Operations.
    pub operations: f64,
    /// Time that they took.
    pub seconds: f64,
}

/// More draws make the ends of the interval hardly steadier.
const DRAWS: usize = 999;
/// So many of them lie below the interval, and as many above.
const OUTSIDE: usize = 25;

impl Spread {
    /// Of `values` of repetitions, with the lowest and the highest; `None` where there are none.
    /// What is not a number does not count.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let sorted = sorted(values.iter().copied());
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        Some(Spread { median: middle(&sorted), low, high, runs: sorted.len() })
    }

    /// Operations a second over all rounds of each repetition.
    pub fn of_turns(repetitions: &[Vec<Turn>]) -> Option<Spread> {
        const SECOND: Turn = Turn { operations: 1.0, seconds: 1.0 };
        let beside = |turns: &Vec<Turn>| turns.iter().map(|turn| (*turn, SECOND)).collect();
        Self::of_pairs(&repetitions.iter().map(beside).collect::<Vec<_>>())
    }

    /// Operations a second of the first over those of the second, each pair of one round.
    pub fn of_pairs(repetitions: &[Vec<(Turn, Turn)>]) -> Option<Spread> {
        let measured: Vec<_> = repetitions.iter().filter(|pairs| !pairs.is_empty()).collect();
        let runs = measured.iter().map(|pairs| pairs.len()).sum();
        let mut prng = Prng::new(1);
        let mut draw = || {
            let mut sum = Sum::default();
            for _ in 0..measured.len() {
                let pairs = measured[prng.below(measured.len() as u64) as usize];
                (0..pairs.len())
                    .for_each(|_| sum.add(pairs[prng.below(pairs.len() as u64) as usize]));
            }
            sum.ratio()
        };
        if runs < 2 {
            let mut sum = Sum::default();
            sum.add(**measured.first()?.first().as_ref()?);
            return Self::of(&[sum.ratio()]);
        }
        let drawn = sorted((0..DRAWS).map(|_| draw()));
        let outside = OUTSIDE.min(drawn.len().saturating_sub(1) / 2);
        let (low, high) = (*drawn.get(outside)?, drawn[drawn.len() - 1 - outside]);
        Some(Spread { median: middle(&drawn), low, high, runs })
    }
}

/// What two stores did in some rounds.
#[derive(Default)]
struct Sum {
    operations: [f64; 2],
    seconds: [f64; 2],
}

impl Sum {
    fn add(&mut self, (above, below): (Turn, Turn)) {
        for (i, turn) in [above, below].into_iter().enumerate() {
            self.operations[i] += turn.operations;
            self.seconds[i] += turn.seconds;
        }
    }

    fn ratio(&self) -> f64 {
        (self.operations[0] / self.seconds[0]) / (self.operations[1] / self.seconds[1])
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn middle(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The ratios `above / below`, each within one repetition, where both were measured.
pub fn pairwise(above: &[Option<f64>], below: &[Option<f64>]) -> Vec<f64> {
    let pairs = above.iter().zip(below);
    let both = pairs.filter_map(|pair| match pair {
        (Some(above), Some(below)) if *below != 0.0 => Some(above / below),
        _ => None,
    });
    both.filter(|ratio| ratio.is_finite()).collect()
}

/// True where the whole spread is on the same side of 1, and there are at least two values: a
/// single one has no spread to judge by.
pub fn is_shown(ratio: &Spread) -> bool {
    ratio.runs >= 2 && (ratio.low > 1.0 || ratio.high < 1.0)
}

/// The ratio for people.
pub fn text(ratio: &Spread) -> String {
    let (low, high) = (number(ratio.low), number(ratio.high));
    match () {
        () if is_shown(ratio) => format!("{} ({low}–{high})", number(ratio.median)),
        () if ratio.runs < 2 => format!("one round shows no spread ({low})"),
        () => format!("no difference shown ({low}–{high})"),
    }
}

/// A number with three digits that count, or all before the point.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.1 => 3,
        v if v >= 0.01 => 4,
        v if v >= 0.001 => 5,
        _ => 6,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians_of_odd_and_even_numbers() {
        let spread = |values: &[f64]| Spread::of(values).unwrap();
        assert_eq!(spread(&[3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[f64::NAN]), None);
    }

    fn turns(values: &[f64]) -> Vec<Turn> {
        values.iter().map(|v| Turn { operations: *v, seconds: 1.0 }).collect()
    }

    #[test]
    fn a_stall_counts_for_the_time_it_takes() {
        let mut turns = turns(&[100.0; 9]);
        turns.push(Turn { operations: 0.0, seconds: 9.0 });
        let spread = Spread::of_turns(&[turns]).unwrap();
        assert!((spread.median / 50.0 - 1.0).abs() < 0.2, "{spread:?}");
        assert!(spread.low < 40.0 && spread.high > 90.0, "rare, so nobody can be sure: {spread:?}");
    }

    #[test]
    fn intervals_cover_the_truth_nearly_as_often_as_they_say() {
        // Skewed values with a mean of 1.
        let mut prng = Prng::new(5);
        let mut draw = || -(1.0 - prng.below(1 << 30) as f64 / f64::from(1 << 30)).ln();
        let covers = |_: &i32| {
            let values: Vec<f64> = (0..30).map(|_| draw()).collect();
            let spread = Spread::of_turns(&[turns(&values)]).unwrap();
            spread.low <= 1.0 && 1.0 <= spread.high
        };
        let covered = (0..1000).filter(covers).count() as f64 / 1000.0;
        assert!((0.89..0.97).contains(&covered), "{covered}");
    }

    #[test]
    fn what_differs_between_processes_widens_the_interval() {
        let steady = [turns(&[10.0; 20]), turns(&[10.0; 20])];
        assert_eq!(Spread::of_turns(&steady).unwrap().high, 10.0);
        let apart = Spread::of_turns(&[turns(&[9.0; 20]), turns(&[11.0; 20])]).unwrap();
        assert_eq!((apart.low, apart.high, apart.runs), (9.0, 11.0, 40));
        assert_eq!(Spread::of_turns(&[Vec::new()]), None);
        let one = Spread::of_turns(&[turns(&[3.0])]).unwrap();
        assert_eq!((one.low, one.high, is_shown(&one)), (3.0, 3.0, false));
    }

    #[test]
    fn a_ratio_whose_spread_includes_one_is_not_printed() {
        let of = |values: &[f64]| text(&Spread::of(values).unwrap());
        assert_eq!(of(&[1.8, 2.0, 1.7]), "1.80 (1.70–2.00)");
        assert_eq!(of(&[0.25, 0.5]), "0.375 (0.250–0.500)");
        assert_eq!(of(&[0.9, 3.0, 1.1]), "no difference shown (0.900–3.00)");
        assert_eq!(of(&[1.0, 1.5]), "no difference shown (1.00–1.50)");
        assert!(of(&[5.0]).starts_with("one round"));
    }

    #[test]
    fn repetitions_that_one_store_lacks_do_not_count() {
        let above = [Some(2.0), None, Some(9.0), Some(1.0)];
        let below = [Some(1.0), Some(1.0), Some(3.0), Some(0.0)];
        assert_eq!(pairwise(&above, &below), [2.0, 3.0]);
    }

    fn speeds() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(0.001..1e9f64, 1..9)
    }

    proptest! {
        #[test]
        fn the_median_lies_between(values in speeds()) {
            let spread = Spread::of(&values).unwrap();
            prop_assert!(spread.low <= spread.median && spread.median <= spread.high);
            prop_assert_eq!(spread.runs, values.len());
            let below = values.iter().filter(|v| **v < spread.median).count();
            let above = values.iter().filter(|v| **v > spread.median).count();
            prop_assert!(below * 2 <= values.len() && above * 2 <= values.len());
        }

        #[test]
        fn order_does_not_matter(values in speeds()) {
            let reversed: Vec<f64> = values.iter().rev().copied().collect();
            prop_assert_eq!(Spread::of(&values), Spread::of(&reversed));
        }

        #[test]
        fn a_shared_disturbance_cancels_out(values in speeds(), factor in 1.1..9.0f64) {
            let above = values.iter().map(|value| value * factor).collect::<Vec<_>>();
            let pairs = turns(&above).into_iter().zip(turns(&values)).collect();
            let ratio = Spread::of_pairs(&[pairs]).unwrap();
            prop_assert!((ratio.low / factor - 1.0).abs() < 1e-9);
            prop_assert!((ratio.high / factor - 1.0).abs() < 1e-9);
            prop_assert_eq!(is_shown(&ratio), values.len() >= 2);
        }

        #[test]
        fn turned_around_a_ratio_says_the_same(a in speeds(), b in speeds()) {
            let (a, b) = (turns(&a), turns(&b));
            let one = Spread::of_pairs(&[a.iter().copied().zip(b.iter().copied()).collect()]);
            let other = Spread::of_pairs(&[b.into_iter().zip(a).collect()]);
            let (one, other) = (one.unwrap(), other.unwrap());
            // Both are made from one set of draws, one of them upside down.
            prop_assert!((one.low * other.high - 1.0).abs() < 1e-9);
            prop_assert!((one.median * other.median - 1.0).abs() < 1e-9);
        }
    }
}
