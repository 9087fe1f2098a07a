//! Sums over many equidistant points by few of them.
//!
//! The sum of a polynomial of degree `2m - 1` over `n` successive integers is a weighted sum of its
//! values at `m` points: the roots of the discrete Chebyshev (Gram) polynomial of degree `m`, which
//! is to sums what Gauss-Legendre quadrature is to integrals. With `m >= n` the points are the
//! integers themselves.

/// A point, in units of half the range around its centre, and its weight as a share of the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub at: f64,
    pub weight: f64,
}

/// Halvings that bring an interval of length two down to what a double can tell apart.
const BISECTIONS: usize = 60;

/// The points for a sum over `n` equidistant values in `[-1 + 1/n, 1 - 1/n]`, at most `m` of them.
pub(super) fn points(n: f64, m: usize) -> Vec<Point> {
    if n <= m as f64 {
        let count = n as usize;
        let at = |i: usize| (2.0 * i as f64 + 1.0) / n - 1.0;
        return (0..count).map(|i| Point { at: at(i), weight: 1.0 / n }).collect();
    }
    let polynomials = Gram { n };
    // The roots of each polynomial lie between those of the one before.
    let mut roots = vec![0.0];
    for degree in 2..=m {
        let mut bounds = vec![-1.0];
        bounds.extend(&roots);
        bounds.push(1.0);
        roots = bounds.windows(2).map(|w| polynomials.root(degree, w[0], w[1])).collect();
    }
    let norm: f64 = (1..m).map(|k| polynomials.beta(k)).product();
    roots.iter().map(|&at| polynomials.point(m, at, norm)).collect()
}

/// Monic discrete Chebyshev polynomials over `n` points.
struct Gram {
    n: f64,
}

impl Gram {
    /// Coefficient of the recurrence `p[k+1] = x p[k] - beta[k] p[k-1]`.
    fn beta(&self, k: usize) -> f64 {
        let k = k as f64;
        k * k * (1.0 - (k / self.n).powi(2)) / (4.0 * k * k - 1.0)
    }

    /// Values of the polynomials of degree `m - 1` and `m` at `x`, and the derivative of the last.
    fn values(&self, m: usize, x: f64) -> (f64, f64, f64) {
        let (mut before, mut value) = (0.0, 1.0);
        let (mut slope_before, mut slope) = (0.0, 0.0);
        for k in 0..m {
            let beta = if k == 0 { 0.0 } else { self.beta(k) };
            let next = x * value - beta * before;
            let slope_next = value + x * slope - beta * slope_before;
            (before, value) = (value, next);
            (slope_before, slope) = (slope, slope_next);
        }
        (before, value, slope)
    }

    fn root(&self, degree: usize, mut low: f64, mut high: f64) -> f64 {
        let rises = self.values(degree, high).1 > 0.0;
        for _ in 0..BISECTIONS {
            let middle = 0.5 * (low + high);
            if (self.values(degree, middle).1 > 0.0) == rises {
                high = middle;
            } else {
                low = middle;
            }
        }
        0.5 * (low + high)
    }

    fn point(&self, m: usize, at: f64, norm: f64) -> Point {
        let (before, _, slope) = self.values(m, at);
        Point { at, weight: norm / (slope * before) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(points: &[Point], n: f64, f: impl Fn(f64) -> f64) -> f64 {
        points.iter().map(|p| n * p.weight * f(p.at)).sum()
    }

    fn every(n: u32, f: impl Fn(f64) -> f64) -> f64 {
        (0..n).map(|i| f((2.0 * f64::from(i) + 1.0) / f64::from(n) - 1.0)).sum()
    }

    #[test]
    fn sums_of_polynomials_are_exact() {
        for n in [3, 12, 13, 40, 1000] {
            for power in 0..24 {
                let f = |x: f64| (x + 0.3).powi(power);
                let (few, all) = (sum(&points(f64::from(n), 12), f64::from(n), f), every(n, f));
                assert!((few / all - 1.0).abs() < 1e-11, "{n} points, power {power}: {few} {all}");
            }
        }
    }

    #[test]
    fn a_power_too_high_is_not_exact() {
        let f = |x: f64| x.powi(24);
        let (few, all) = (sum(&points(1000.0, 12), 1000.0, f), every(1000, f));
        assert!((few / all - 1.0).abs() > 1e-9);
    }
}
