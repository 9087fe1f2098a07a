//! The estimate from how many registers hold each value.

use super::{REGISTERS, RUN_BITS};

/// The bias of infinitely many registers: 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// How many registers hold each value.
pub(super) struct Histogram([u32; 64]);

impl Default for Histogram {
    fn default() -> Self {
        Histogram([0; 64])
    }
}

impl Histogram {
    /// Notes that `count` registers hold `value`.
    pub(super) fn note(&mut self, value: u8, count: usize) {
        self.0[usize::from(value) & 63] += count as u32;
    }

    /// The estimate, by the improved raw estimator (Ertl 2017, algorithm 6).
    pub(super) fn estimate(&self) -> u64 {
        let m = REGISTERS as f64;
        let top = RUN_BITS as usize;
        let full = f64::from(self.0[top + 1]);
        let mut z = m * tau((m - full) / m);
        for value in (1..=top).rev() {
            z = (z + f64::from(self.0[value])) * 0.5;
        }
        z += m * sigma(f64::from(self.0[0]) / m);
        (ALPHA * m * m / z).round() as u64
    }
}

/// What registers without an element stand for, by their share.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

/// What registers with the greatest value stand for, by the share of the others.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if before == z {
            return z / 3.0;
        }
    }
}
