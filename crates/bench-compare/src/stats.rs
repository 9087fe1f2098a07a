//! Honest statistics: median and spread, ratios within each round, and no ratio where the spread
//! hides which side is ahead.
//!
//! The spread of a few repetitions is the lowest and the highest. That of rounds is the interval
//! that covers the true median with 95 % or more, whatever the distribution: of `n` values in
//! order, the one at place `k` from below and the one at place `k` from above, with the largest
//! `k` for which at most 5 % of all samples lie beside it. So many do with a probability of twice
//! that of less than `k` heads among `n` coins (the sign test, turned around). Less than six
//! values are too few for 95 %: then it is the lowest and the highest, as well.

/// Median of some values, and between which values it lies.
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

/// Of all samples so many may have their median outside the interval.
const OUTSIDE_MAX: f64 = 0.05;

impl Spread {
    /// Of `values` of repetitions, with the lowest and the highest; `None` where there are none.
    /// What is not a number does not count.
    pub fn of(values: &[f64]) -> Option<Spread> {
        Self::with(values, |_| 1)
    }

    /// Of `values` of rounds, with the interval of the median.
    pub fn of_rounds(values: &[f64]) -> Option<Spread> {
        Self::with(values, place)
    }

    /// With the values at `place` from below and from above.
    fn with(values: &[f64], place: impl Fn(usize) -> usize) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let place = place(sorted.len());
        let (low, high) = (*sorted.get(place - 1)?, sorted[sorted.len() - place]);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Some(Spread { median, low, high, runs: sorted.len() })
    }
}

/// The place, from 1, of the interval's ends among `count` values in order.
fn place(count: usize) -> usize {
    let (mut place, mut outside) = (0, 0.0);
    // Of `count` coins exactly `place` show heads; twice, for both sides.
    let mut exactly = 2.0 * 0.5f64.powi(count as i32);
    while outside + exactly <= OUTSIDE_MAX && place < count {
        outside += exactly;
        exactly *= (count - place) as f64 / (place + 1) as f64;
        place += 1;
    }
    place.max(1)
}

/// The ratios `above / below`, each within one round: what disturbs one store disturbs its
/// neighbour in time, too. A round counts where both were measured.
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

    #[test]
    fn intervals_of_medians_are_those_of_the_tables() {
        // From tables of the sign test, two-sided 5 %: the values outside on each side.
        let known = [(5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (11, 1), (12, 2), (15, 3), (20, 5)];
        for (count, outside) in known.into_iter().chain([(25, 7), (30, 9), (40, 13), (50, 17)]) {
            let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let spread = Spread::of_rounds(&values).unwrap();
            let outside = f64::from(outside);
            assert_eq!((spread.low, spread.high), (1.0 + outside, f64::from(count) - outside));
        }
        assert_eq!(Spread::of_rounds(&[]), None);
        assert_eq!(Spread::of_rounds(&[3.0]).unwrap().high, 3.0);
        let many = vec![1.0; 5000];
        assert_eq!(Spread::of_rounds(&many).unwrap().low, 1.0);
    }

    #[test]
    fn intervals_cover_the_median_as_often_as_they_say() {
        // Skewed values whose true median is 1.
        let mut prng = silica_base::Prng::new(5);
        let mut draw = || (1.0 - prng.below(1 << 30) as f64 / f64::from(1 << 30)).log(0.5);
        let covers = |_: &i32| {
            let values: Vec<f64> = (0..12).map(|_| draw()).collect();
            let spread = Spread::of_rounds(&values).unwrap();
            spread.low <= 1.0 && 1.0 <= spread.high
        };
        let covered = (0..4000).filter(covers).count() as f64 / 4000.0;
        assert!((0.95..0.98).contains(&covered), "{covered}");
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
            let below: Vec<_> = values.iter().copied().map(Some).collect();
            let above: Vec<_> = values.iter().map(|v| Some(v * factor)).collect();
            let ratio = Spread::of(&pairwise(&above, &below)).unwrap();
            prop_assert!((ratio.low / factor - 1.0).abs() < 1e-9);
            prop_assert!((ratio.high / factor - 1.0).abs() < 1e-9);
            prop_assert_eq!(is_shown(&ratio), values.len() >= 2);
        }

        #[test]
        fn turned_around_a_ratio_says_the_same(a in speeds(), b in speeds()) {
            let (a, b): (Vec<_>, Vec<_>) = (
                a.into_iter().map(Some).collect(), b.into_iter().map(Some).collect());
            let one = Spread::of(&pairwise(&a, &b)).unwrap();
            let other = Spread::of(&pairwise(&b, &a)).unwrap();
            // Rounding may put a ratio of exactly 1 on either side.
            prop_assume!((one.low - 1.0).abs() > 1e-12 && (one.high - 1.0).abs() > 1e-12);
            prop_assert_eq!(is_shown(&one), is_shown(&other));
        }
    }
}
