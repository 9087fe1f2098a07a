//! Why one choice is better than another, in words and by its terms.

use crate::Workload;

use super::goal::Goal;
use super::prediction::{Prediction, Resource};
use super::search::{Choice, terms};

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
        "cost" => {
            format!("money: {:.2} a month against {:.2}", b.money_per_month, a.money_per_month)
        }
        "life" => format!("life: {:.1} years against {:.1}", b.life_years, a.life_years),
        "memory" => format!("memory: {:.0} bytes against {:.0}", b.memory_bytes, a.memory_bytes),
        "writes" => written(a, b),
        _ => format!("device reads: {:.2} a get against {:.2}", b.reads_per_get, a.reads_per_get),
    }
}

fn throughput(best: &Prediction, next: &Prediction) -> String {
    let resource = next.bottleneck();
    let mut text = format!(
        "throughput: {:.0} a second against {:.0}, limited by {}",
        next.throughput,
        best.throughput,
        resource.name()
    );
    let detail = match resource {
        Resource::Callers => {
            let pairs = next.caller.iter().zip(&best.caller);
            let (name, b, a) = pairs
                .map(|((name, b), (_, a))| (*name, *b, *a))
                .max_by(|x, y| (x.1 - x.2).total_cmp(&(y.1 - y.2)))
                .unwrap_or(("computing", 0.0, 0.0));
            format!("; {name} take {:.1} us of an operation against {:.1}", b * 1e6, a * 1e6)
        }
        Resource::DeviceReads => {
            format!("; {:.2} reads a get against {:.2}", next.reads_per_get, best.reads_per_get)
        }
        Resource::Background | Resource::DeviceWrites => format!("; {}", written(best, next)),
        Resource::Processor | Resource::Syncs => String::new(),
    };
    text.push_str(&detail);
    text
}

/// Where the most of what is written more comes from.
fn written(best: &Prediction, next: &Prediction) -> String {
    let mut text =
        format!("write amplification {:.2} against {:.2}", next.written(), best.written());
    let worst = next.cost.written.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((stage, amount)) = worst {
        text.push_str(&format!(", {amount:.2} of it {stage}"));
    }
    text
}
