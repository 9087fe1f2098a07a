//! A smooth function of the logarithm of a number of requests, kept as values on a grid.
//!
//! Models ask for the same sums over all keys thousands of times. What they ask for is smooth in
//! the logarithm of the requests, so eight neighbouring values of an equidistant grid give any
//! other value to about 1e-12; each value of the grid is computed when it is first needed.

use std::sync::OnceLock;

/// Grid points for one e-fold.
const DENSITY: f64 = 16.0;

/// Points that an interpolation uses.
const WIDTH: usize = 8;

/// 1 / product of the distances to the other points, for each of eight neighbours.
const WEIGHTS: [f64; WIDTH] = [-1.0, 7.0, -21.0, 35.0, -35.0, 21.0, -7.0, 1.0];

/// A rising function of `ln(requests)` between two bounds.
#[derive(Debug)]
pub(super) struct Curve {
    first: f64,
    values: Box<[OnceLock<f64>]>,
}

impl Curve {
    /// A curve over `low ..= high` (logarithms); no value is computed yet.
    pub(super) fn new(low: f64, high: f64) -> Self {
        let count = ((high - low) * DENSITY).ceil() as usize + 1;
        let values = (0..count.max(WIDTH)).map(|_| OnceLock::new()).collect();
        Curve { first: low, values }
    }

    fn last(&self) -> f64 {
        self.first + (self.values.len() - 1) as f64 / DENSITY
    }

    /// Whether `x` is inside.
    pub(super) fn has(&self, x: f64) -> bool {
        (self.first..=self.last()).contains(&x)
    }

    fn value(&self, i: usize, f: &impl Fn(f64) -> f64) -> f64 {
        *self.values[i].get_or_init(|| f(self.first + i as f64 / DENSITY))
    }

    /// The function at `x`, which is inside; `f` computes it at a point of the grid.
    pub(super) fn at(&self, x: f64, f: &impl Fn(f64) -> f64) -> f64 {
        let position = (x - self.first) * DENSITY;
        self.window(position.floor() as isize, f).at(position)
    }

    /// The eight values around the cell that begins at grid point `cell`.
    fn window(&self, cell: isize, f: &impl Fn(f64) -> f64) -> Window {
        let spare = (self.values.len() - WIDTH) as isize;
        let start = (cell - (WIDTH as isize / 2 - 1)).clamp(0, spare) as usize;
        let mut values = [0.0; WIDTH];
        for (i, value) in values.iter_mut().enumerate() {
            *value = self.value(start + i, f);
        }
        Window { start: start as f64, values }
    }

    /// Where the function is `y`; clamped to the bounds.
    pub(super) fn inverse(&self, y: f64, f: &impl Fn(f64) -> f64) -> f64 {
        let (mut low, mut high) = (0, self.values.len() - 1);
        if y <= self.value(low, f) {
            return self.first;
        }
        if y >= self.value(high, f) {
            return self.last();
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.value(middle, f) <= y {
                low = middle;
            } else {
                high = middle;
            }
        }
        let window = self.window(low as isize, f);
        self.first + window.inverse(y, low as f64, high as f64) / DENSITY
    }
}

struct Window {
    start: f64,
    values: [f64; WIDTH],
}

/// Steps after which a root inside one cell is exact to a double.
const STEPS: usize = 40;

impl Window {
    /// Barycentric interpolation at `position`, in grid points.
    fn at(&self, position: f64) -> f64 {
        let x = position - self.start;
        let (mut above, mut below) = (0.0, 0.0);
        for (i, (weight, value)) in WEIGHTS.iter().zip(&self.values).enumerate() {
            let distance = x - i as f64;
            if distance == 0.0 {
                return *value;
            }
            above += weight / distance * value;
            below += weight / distance;
        }
        above / below
    }

    /// The position between `low` and `high` where the value is `y`: a secant that keeps its
    /// bracket (the Illinois variant of the false position).
    fn inverse(&self, y: f64, mut low: f64, mut high: f64) -> f64 {
        let (mut below, mut above) = (self.at(low) - y, self.at(high) - y);
        let mut side = 0;
        for _ in 0..STEPS {
            let middle = (low * above - high * below) / (above - below);
            let value = self.at(middle) - y;
            if value.abs() <= 4.0 * f64::EPSILON * y.abs().max(1.0) || high - low < 1e-14 {
                return middle;
            }
            if value < 0.0 {
                (low, below) = (middle, value);
                if side < 0 {
                    above *= 0.5;
                }
                side = -1;
            } else {
                (high, above) = (middle, value);
                if side > 0 {
                    below *= 0.5;
                }
                side = 1;
            }
        }
        0.5 * (low + high)
    }
}
