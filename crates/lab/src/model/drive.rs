//! What a conventional drive copies: closed forms for page-mapped translation layers (Desnoyers,
//! "Analytic modeling of SSD write performance", SYSTOR 2012).

/// Steps of Halley's method after which a root is as exact as a double.
const STEPS: u32 = 60;

/// Lambert's function of `-a e^(-a)` on its principal branch, for `a` over 1: the root `w` in -1 to
/// 0 of `w e^w = -a e^(-a)` that is not `-a`.
fn lambert_of(a: f64) -> f64 {
    let x = -a * (-a).exp();
    // Near the branch point the series in the square root is close; far from it x itself is.
    let root = (2.0 * (1.0 + std::f64::consts::E * x)).max(0.0).sqrt();
    let mut w = (-1.0 + root - root * root / 3.0).min(x);
    for _ in 0..STEPS {
        let e = w.exp();
        let f = w * e - x;
        let step = f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
        if !step.is_finite() || step.abs() < 1e-15 {
            break;
        }
        w -= step;
    }
    w
}

/// Pages programmed for each page written at random if blocks are collected in the order in which
/// they were filled (eq. 4). `alpha` is physical pages by logical ones, over 1; infinite otherwise.
pub fn fifo_amplification(alpha: f64) -> f64 {
    if alpha <= 1.0 { f64::INFINITY } else { alpha / (alpha + lambert_of(alpha)) }
}

/// Pages programmed for each page written at random if the block with the fewest valid pages is
/// collected (eq. 12); a block has `pages`.
pub fn greedy_amplification(alpha: f64, pages: u32) -> f64 {
    let k = 1.0 + 1.0 / (2.0 * f64::from(pages));
    fifo_amplification(k * alpha) / k
}

/// Pages programmed for each page written if a share `writes` of the writes goes to a share `data`
/// of the pages, all in the same blocks, which are collected in the order in which they were
/// filled. Derived as Desnoyers derives his forms for hot and cold data.
///
/// A block is collected one round of physical pages after it was filled, which is `alpha / A` host
/// writes for each logical page. A page of rate `r` is then still valid with probability
/// `e^(-r alpha / A)`, and is programmed once for each write and once for each such survival:
/// `r / (1 - e^(-r alpha / A))` times. The sum over all pages is `A`, which is its root.
pub fn hot_cold_amplification(alpha: f64, writes: f64, data: f64) -> f64 {
    if alpha <= 1.0 {
        return f64::INFINITY;
    }
    let class = |share: f64, of: f64, age: f64| -share / (-share / of * age).exp_m1();
    let programs = |age: f64| class(writes, data, age) + class(1.0 - writes, 1.0 - data, age);
    // The longer the age, the fewer the programs, and the more room they would need.
    let (mut low, mut high) = (0.0, alpha);
    for _ in 0..200 {
        let age = 0.5 * (low + high);
        if programs(age) * age < alpha { low = age } else { high = age }
    }
    alpha / (0.5 * (low + high))
}

/// As [`hot_cold_amplification`], with hot and cold pages in blocks of their own: each kind is
/// alike within its blocks, and has a share `hot_room` of the physical pages.
pub fn separated_amplification(alpha: f64, writes: f64, data: f64, hot_room: f64) -> f64 {
    let hot = fifo_amplification(alpha * hot_room / data);
    let cold = fifo_amplification(alpha * (1.0 - hot_room) / (1.0 - data));
    writes * hot + (1.0 - writes) * cold
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_have_the_values_that_are_known() {
        // W is a root of its equation, and the other branch's root is -a itself.
        for a in [1.0001, 1.01, 1.3, 2.0, 5.0, 30.0] {
            let w = lambert_of(a);
            assert!((w * w.exp() + a * (-a).exp()).abs() < 1e-14 && w > -1.0 && w < 0.0, "{a} {w}");
            assert!(w + a > 0.0);
        }
        // Xiang and Kurkoski (2012) name 2.36 for an over-provisioning of 0.3.
        assert!((fifo_amplification(1.3) - 2.36).abs() < 0.01);
        assert_eq!(fifo_amplification(1.0), f64::INFINITY);
        assert!(greedy_amplification(1.3, 16) < greedy_amplification(1.3, 1024));
        assert!((greedy_amplification(1.3, 1 << 20) / fifo_amplification(1.3) - 1.0).abs() < 1e-4);
    }

    #[test]
    fn hot_and_cold_alike_are_uniform() {
        for alpha in [1.07, 1.3, 2.0] {
            let uniform = fifo_amplification(alpha);
            for share in [0.2, 0.5, 0.9] {
                let mixed = hot_cold_amplification(alpha, share, share);
                assert!((mixed / uniform - 1.0).abs() < 1e-9, "{alpha} {share}");
                let apart = separated_amplification(alpha, share, share, share);
                assert!((apart / uniform - 1.0).abs() < 1e-9, "{alpha} {share}");
            }
            // Collected by age, skew costs; kept apart with room of their own, it helps.
            assert!(hot_cold_amplification(alpha, 0.8, 0.2) > uniform);
            assert!(separated_amplification(alpha, 0.8, 0.2, 0.25) < uniform || alpha < 1.1);
        }
    }
}
