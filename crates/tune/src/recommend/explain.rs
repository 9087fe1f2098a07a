//! Why one choice is better than another, in words and by its terms.

use crate::Workload;

use super::goal::Goal;
use super::prediction::{Prediction, Resource};
use super::search::{Choice, terms};

/// Figures that differ by less are no reason for anything.
const DIFFERENT: f64 = 0.02;

/// True where two figures differ by so much that it is worth saying.
fn differ(a: f64, b: f64) -> bool {
    (a - b).abs() > DIFFERENT * a.abs().max(b.abs())
}

/// True where `a` is so much more than `b` that it is worth saying.
fn is_more(a: f64, b: f64) -> bool {
    a > b && differ(a, b)
}

/// Three digits at least, so that figures that [`differ`] look different.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 || !v.is_finite() => format!("{value:.0}"),
        v => format!("{value:.*}", (2.0 - v.log10().floor()) as usize),
    }
}

/// Of two choices that are alike: `apart` is how much worse the other's score is.
pub(super) fn alike(apart: f64) -> String {
    let percent = 100.0 * apart.abs().exp_m1();
    let than = if apart < 0.0 { "better" } else { "worse" };
    match percent {
        p if p < 0.1 => "nothing that the models can tell: either will do".into(),
        _ => format!(
            "nothing that counts: it is {percent:.1} % {than}, less than the models can tell"
        ),
    }
}

/// The term of the goal, and below it the resource, that most of the difference is in.
pub(super) fn why_lost(goal: &Goal, workload: &Workload, best: &Choice, next: &Choice) -> String {
    let (of_best, of_next) =
        (terms(goal, workload, &best.prediction), terms(goal, workload, &next.prediction));
    let mut most = ("throughput", f64::NEG_INFINITY);
    for ((name, better), (_, worse)) in of_best.iter().zip(&of_next) {
        if worse - better > most.1 {
            most = (name, worse - better);
        }
    }
    let (a, b) = (&best.prediction, &next.prediction);
    match most.0 {
        "throughput" => throughput(a, b),
        "cost" => against("money", b.money_per_month, "a month", a.money_per_month),
        "life" => against("life", b.life_years, "years", a.life_years),
        "memory" => against("memory", b.memory_bytes, "bytes", a.memory_bytes),
        "writes" => written(a, b),
        _ => against("device reads", b.reads_per_get, "a get", a.reads_per_get),
    }
}

fn against(what: &str, worse: f64, unit: &str, better: f64) -> String {
    format!("{what}: {} {unit} against {}", digits(worse), digits(better))
}

fn throughput(best: &Prediction, next: &Prediction) -> String {
    let resource = next.bottleneck();
    let mut text = against("throughput", next.throughput, "a second", best.throughput);
    if differ(best.cost.lost, next.cost.lost) {
        let found = |p: &Prediction| digits(100.0 * (1.0 - p.cost.lost));
        let (b, a) = (found(next), found(best));
        text.push_str(&format!("; {b} % of the gets find theirs against {a}"));
    }
    text.push_str(&format!(", limited by {}", resource.name()));
    let detail = match resource {
        Resource::Callers => {
            let pairs = next.caller.iter().zip(&best.caller);
            let (name, b, a) = pairs
                .map(|((name, b), (_, a))| (*name, *b, *a))
                .max_by(|x, y| (x.1 - x.2).total_cmp(&(y.1 - y.2)))
                .unwrap_or(("computing", 0.0, 0.0));
            match is_more(b, a) {
                true => {
                    let (b, a) = (digits(b * 1e6), digits(a * 1e6));
                    format!("; {name} take {b} us of an operation against {a}")
                }
                false => String::new(),
            }
        }
        Resource::DeviceReads if is_more(next.reads_per_get, best.reads_per_get) => {
            let (b, a) = (digits(next.reads_per_get), digits(best.reads_per_get));
            format!("; {b} reads a get against {a}")
        }
        Resource::Background | Resource::DeviceWrites
            if is_more(next.written(), best.written()) =>
        {
            format!("; {}", written(best, next))
        }
        _ => String::new(),
    };
    text.push_str(&detail);
    text
}

/// Where the most of what is written more comes from.
fn written(best: &Prediction, next: &Prediction) -> String {
    let (b, a) = (digits(next.written()), digits(best.written()));
    let mut text = format!("write amplification {b} against {a}");
    let worst = next.cost.written.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((stage, amount)) = worst {
        text.push_str(&format!(", {} of it {stage}", digits(*amount)));
    }
    text
}
