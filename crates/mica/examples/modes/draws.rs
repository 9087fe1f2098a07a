//! Keys drawn evenly or by Zipf's law, with a number by which gets and puts are told apart.

use silica_base::Prng;

/// Ranks by Zipf's law, by the method of Gray et al. that YCSB uses.
struct Zipf {
    zeta: f64,
    alpha: f64,
    eta: f64,
    exponent: f64,
}

pub(crate) struct Draws {
    prng: Prng,
    keys: u64,
    zipf: Option<Zipf>,
}

impl Draws {
    /// Draws keys below `keys`, all alike where there is no exponent.
    pub(crate) fn new(keys: u64, exponent: Option<f64>) -> Self {
        let zipf = exponent.map(|exponent| {
            let sum = |to: u64| (1..=to).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>();
            let (zeta, n) = (sum(keys), keys as f64);
            let eta = (1.0 - (2.0 / n).powf(1.0 - exponent)) / (1.0 - sum(2) / zeta);
            Zipf { zeta, alpha: 1.0 / (1.0 - exponent), eta, exponent }
        });
        Draws { prng: Prng::new(7), keys, zipf }
    }

    /// A key, and a number below 256.
    pub(crate) fn next(&mut self) -> (u64, u64) {
        let chance = self.prng.below(256);
        if self.zipf.is_none() {
            return (self.prng.below(self.keys), chance);
        }
        // The popular keys are scattered: the fill wrote them in order.
        let scattered = self.rank().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
        (scattered % self.keys, chance)
    }

    /// How many keys are more popular than the one that is drawn.
    pub(crate) fn rank(&mut self) -> u64 {
        let Some(zipf) = &self.zipf else { return self.prng.below(self.keys) };
        let unit = self.prng.unit();
        let rank = match unit * zipf.zeta {
            share if share < 1.0 => 0.0,
            share if share < 1.0 + 0.5_f64.powf(zipf.exponent) => 1.0,
            _ => self.keys as f64 * (zipf.eta * unit - zipf.eta + 1.0).powf(zipf.alpha),
        };
        rank as u64
    }
}
